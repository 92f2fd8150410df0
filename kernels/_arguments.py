"""What kernels take: points, and parameters that follow the dtype of the points."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels.compiling import name_of


def matched(v: Any, *parameters: Any) -> tuple[Array, ...]:
    """Return points as a real array, and parameters in its dtype.

    A result then has the dtype of its point, whatever that of a step is: a float32 step does not
    turn bfloat16 points into float32 ones, and the carry of a scan keeps its type. Integers become
    floats, as in the functions of `jax.numpy`.
    """
    v = jnp.asarray(v)
    for number in (v, *parameters):
        if jnp.iscomplexobj(number):
            raise TypeError(
                "kernels take real numbers, but an argument has the dtype "
                f"{jnp.result_type(number)}; stack the real and the imaginary part along a last "
                "axis (prox_group_l2 over it is the prox of the modulus)."
            )
    if not jnp.issubdtype(v.dtype, jnp.floating):
        v = v.astype(jnp.result_type(float))
    return (v, *(jnp.asarray(number, v.dtype) for number in parameters))


def weighed(v: Any, step: Any, weight: Any, *parameters: Any) -> tuple[Array, ...]:
    """Return points, the step times a weight, and parameters, as `matched` does.

    The product of halves, which may leave their range, is float32.
    """
    v, step, weight, *numbers = matched(v, step, weight, *parameters)
    return (v, widened(step) * widened(weight), *numbers)


def demand_proxes(maker: str, *given: Any) -> None:
    """Demand maps with a step: a function `project_...` would take the step for a radius."""
    for name in map(name_of, given):
        if name.startswith("project_"):
            raise ValueError(
                f"{maker} takes proximal maps, prox(v, step, ...), but {name} is a projection, "
                f"which has no step; pass indicator_prox({name})."
            )


def demand_projections(maker: str, *given: Any) -> None:
    """Demand maps without a step: a function `prox_...` would take a parameter for it."""
    for name in map(name_of, given):
        if name.startswith("prox_"):
            raise ValueError(
                f"{maker} takes projections, project(v, ...), but {name} is a proximal map."
            )


def demand_as_many(name: str, parts: Sequence[Any] | Array, maps: Sequence[Any]) -> None:
    """Demand one part for each of several maps, at least one."""
    if not maps:
        raise ValueError("proxes must hold at least one map, but it is empty.")
    if len(parts) != len(maps):
        raise ValueError(
            f"one of {name} is needed for each of {len(maps)} maps, but there are {len(parts)}."
        )


def demand_entries(v: Array, axis: int, name: str, least: int = 1) -> None:
    """Demand that points have at least so many entries along an axis."""
    if v.ndim == 0 or length_along(v, axis) < least:
        entries = "one entry" if least == 1 else f"{least} entries"
        raise ValueError(
            f"{name} takes points with at least {entries} along axis {axis}, but v has the shape "
            f"{v.shape}."
        )


def length_along(v: Array, axis: int) -> int:
    """Return how many entries points have along an axis."""
    if not -v.ndim <= axis < v.ndim:
        raise ValueError(f"points of the shape {v.shape} have no axis {axis}.")
    return v.shape[axis]


def along(v: Array, parameter: Array, axis: int) -> Array:
    """Return a parameter with one axis as one that lies along an axis of points."""
    if parameter.ndim != 1 or v.ndim < 2:
        return parameter
    return parameter.reshape([-1 if i == axis % v.ndim else 1 for i in range(v.ndim)])


def check_system(matrix: Array, right: Array, name: str) -> None:
    """Demand a matrix (..., m, n) and a right side (..., m)."""
    if matrix.ndim < 2 or right.shape != matrix.shape[:-1]:
        raise ValueError(
            f"the matrix must have the shape (..., m, n) and the {name} the shape (..., m), but "
            f"they have {matrix.shape} and {right.shape}."
        )


def undefined_by(result: Array, *numbers: Array) -> Array:
    """Return a result, NaN where a number is NaN: for maps that only compare with that number.

    A comparison with NaN is false, so that a hard threshold of NaN would return the point.
    """
    unknown = reduce(jnp.logical_or, map(jnp.isnan, numbers))
    return jnp.where(unknown, jnp.nan, result)


def widened(v: Array) -> Array:
    """Return float16 and bfloat16 as float32, which sums and iterations need, others unchanged."""
    return v.astype(jnp.float32) if v.dtype.itemsize < 4 else v
