"""What kernels take: points, and parameters that follow the dtype of the points."""

from functools import reduce
from typing import Any

import jax.numpy as jnp
from jax import Array

# A parameter: a Python number or an array of any floating dtype; it never changes that of a point.
Real = Array | float


def matched(v: Any, *parameters: Any) -> tuple[Array, ...]:
    """Return points as an array, and parameters in its dtype.

    A result then has the dtype of its point, whatever that of a step is: a float32 step does not
    turn bfloat16 points into float32 ones, and the carry of a scan keeps its type. Integers become
    floats, as in the functions of `jax.numpy`.

    Args:
      v: points, any shape.
      *parameters: numbers or arrays.

    Returns:
      The points and the parameters, all of one floating dtype.

    Raises:
      TypeError: the points or a parameter are complex.
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


def length_along(v: Array, axis: int) -> int:
    """Return how many entries points have along an axis.

    Raises:
      ValueError: the points have no such axis.
    """
    if not -v.ndim <= axis < v.ndim:
        raise ValueError(f"points of the shape {v.shape} have no axis {axis}.")
    return v.shape[axis]


def check_system(matrix: Array, right: Array, name: str) -> None:
    """Demand a matrix (..., m, n) and a right side (..., m).

    Raises:
      ValueError: the shapes do not belong together.
    """
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
