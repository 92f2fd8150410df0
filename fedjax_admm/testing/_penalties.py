"""Checks of a penalty: its value, its maps and its certificate belong to one function."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm.testing._proxes import POINTS, PROX_CHECKS, Bench, bench_of
from fedjax_admm.testing._shared import (
    SAFE,
    both_precisions,
    cast,
    demand,
    demand_close,
    demand_finite,
    demand_kind,
    demand_pytree,
    doing,
    make,
    name_of,
    row_text,
    unfit,
)


def prox_of(points: jax.Array, step: ArrayLike, penalty: Any) -> jax.Array:
    """Return the prox of a penalty, as a function that `check_prox` takes."""
    return penalty.prox(points, step)


def value_of(points: jax.Array, penalty: Any) -> jax.Array:
    """Return the value of a penalty."""
    return penalty.value(points)


@jax.jit
def _prox(penalty, points, step):
    return penalty.prox(points, step)


@jax.jit
def _optimality(penalty, points, gradient):
    return penalty.optimality(points, gradient)


@jax.jit
def _parts(penalty, points, step):
    rows = jax.vmap(penalty.value)(points)
    apart = penalty.optimality(points, points)
    return penalty.prox(points, step), penalty.value(points), apart, rows


def _of(b: Bench) -> Any:
    return b.parameters[0]


def _dtype(b: Bench) -> None:
    for dtype, penalty, points in both_precisions(_of(b), b.points):
        name, step = name_of(penalty), jnp.asarray(b.steps[0], dtype)
        with doing(f"{name} at points of dtype {np.dtype(dtype).name}"):
            prox, value, apart, rows = _parts(penalty, points, step)
        demand_kind(f"{name}.prox", prox, points.shape, dtype)
        demand_kind(f"{name}.value", value, (), dtype)
        demand_kind(f"{name}.optimality", apart, apart.shape, dtype)
        demand(
            apart.shape in (points.shape, points.shape[:1]),
            f"{name}.optimality must return a distance for every entry, or for every row, but for "
            f"points of shape {points.shape} its shape is {apart.shape}.",
        )
        where = f"{name}.value of all rows and the sum of those of each"
        eps = float(jnp.finfo(dtype).eps)
        demand_close(where, value, jnp.sum(rows), 16 * eps, 4 * eps)


def _certificate(b: Bench) -> None:
    with jax.enable_x64(True):
        penalty, points = cast(_of(b), np.float64), jnp.asarray(b.points)
        name = name_of(penalty)
        for step in b.steps:
            result = _prox(penalty, points, jnp.asarray(step))
            with doing(f"{name}.optimality"):
                there = np.asarray(_optimality(penalty, result, (result - points) / step))
                beside = result + 0.013
                away = np.asarray(_optimality(penalty, beside, (beside - points) / step))
            place = np.unravel_index(np.argmax(there), there.shape)
            demand(
                np.all(np.abs(there) <= 1e-9),
                f"{name}.optimality(x, (x - v) / step) must be zero at x = prox(v, step), but at "
                f"v = {row_text(points[place])}, step = {step:g} and x = {row_text(result[place])} "
                f"it is {there[place]:.6g}; do prox and optimality belong to the same function?",
            )
            place = np.unravel_index(np.argmin(away), away.shape)
            demand(
                np.all(away > 1e-4),
                f"{name}.optimality must be positive where 0 is not in gradient + dg(x), but "
                f"beside the prox of v = {row_text(points[place])}, at x = "
                f"{row_text(beside[place])} with step {step:g}, it is {away[place]:.6g}.",
            )


def _kinks(b: Bench) -> None:
    for dtype, penalty, points in both_precisions(_of(b), b.kinks):
        name, step = name_of(penalty), jnp.asarray(1.0, dtype)
        parts = {"prox": lambda p, x, s: jnp.sum(p.prox(x, s))}
        if np.all(np.isfinite(penalty.value(points))):
            parts["value"] = lambda p, x, s: p.value(x)
        for part, function in parts.items():
            where = f"The derivative of {name}.{part} at kinks and zero"
            with doing(where):
                slope = jax.jit(jax.grad(function, (0, 1, 2), allow_int=True))
                slopes = slope(penalty, points, step)
            demand_finite(where, slopes, SAFE)


PENALTY_CHECKS = {
    "dtype": _dtype,
    "minimises": PROX_CHECKS["minimises"],
    "certificate": _certificate,
    "jit": PROX_CHECKS["jit"],
    "vmap": PROX_CHECKS["vmap"],
    "derivatives": PROX_CHECKS["derivatives"],
    "kinks": _kinks,
    "range": PROX_CHECKS["range"],
    "nonexpansive": PROX_CHECKS["monotone"],
}


def check_penalty(
    penalty: Any,
    *,
    points: ArrayLike = POINTS,
    steps: Sequence[float] = (0.4, 5.0),
    kinks: ArrayLike | Sequence[float] = (1.0, 2.0),
    convex: bool = False,
    only: str | Sequence[str] | None = None,
) -> None:
    """Check a penalty `g` of models: `value`, `prox` and `optimality`.

    - `dtype`: value, prox and certificate have the dtype of the point, float32 and float64, and
      their shapes; the value of rows is the sum of their values.
    - `certificate`: `optimality(x, (x - v) / step)` is zero at the prox of v, and not beside it.
    - `kinks`: derivatives of value and prox are finite at kinks and at zero.
    - `minimises`, `jit`, `vmap`, `derivatives` and `range` are those of `check_prox`;
      `nonexpansive` is its `monotone`.

    Args:
      penalty: a pytree, as `penalties.l1(0.1)` is.
      points: shape (rows, dim).
      steps: positive.
      kinks: where the value or the prox has kinks, besides zero.
      convex: whether g is convex.
      only: names of the checks to make; all if None.

    Raises:
      AssertionError: a check fails.
      InputError: the penalty lacks a method, or is no pytree.
    """
    methods = [getattr(penalty, name, None) for name in ("value", "prox", "optimality")]
    if not all(map(callable, methods)) or isinstance(penalty, type):
        raise unfit("penalty", penalty, "an object with the methods value, prox and optimality")
    demand_pytree("penalty", penalty)
    bench = bench_of(prox_of, value_of, (penalty,), points, steps, kinks, convex)
    make(bench, PENALTY_CHECKS, only)
