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
    dtype_of,
    make,
    name_of,
    row_text,
    unfit,
    with_floats,
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
def _smoothed(penalty, points, step, mu):
    return penalty.smoothed_prox(points, step, mu)


@jax.jit
def _parts(penalty, points, step):
    rows = jax.vmap(penalty.value)(points)
    apart = penalty.optimality(points, points)
    return penalty.prox(points, step), penalty.value(points), apart, rows


@jax.jit
def _costs(penalty, result, points, step):
    """Return the objective of the prox of every row."""
    rows = jax.vmap(lambda row: penalty.value(row[None]))(result)
    return rows + jnp.sum((result - points) ** 2, -1) / (2 * step)


def _of(b: Bench) -> Any:
    return b.parameters[0]


def _smooths(penalty: Any) -> bool:
    return hasattr(penalty, "smoothed_prox")


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
        demand_close(where, value, jnp.sum(rows), *_close(dtype))
        if _smooths(penalty):
            with doing(f"{name}.smoothed_prox"):
                smooth = _smoothed(penalty, points, step, jnp.asarray(0.1, dtype))
            demand_kind(f"{name}.smoothed_prox", smooth, points.shape, dtype)


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


def _smoothed_prox(b: Bench) -> None:
    if not _smooths(_of(b)):
        return
    with jax.enable_x64(True):
        penalty, points = cast(_of(b), np.float64), jnp.asarray(b.points)
        name, step = name_of(penalty), jnp.asarray(b.steps[0])
        exact = _costs(penalty, _prox(penalty, points, step), points, step)
        for mu in (1e-3, 1e-6):
            with doing(f"{name}.smoothed_prox"):
                result = _smoothed(penalty, points, step, jnp.asarray(mu))
            demand_kind(f"{name}.smoothed_prox", result, points.shape, points.dtype)
            excess = np.asarray(_costs(penalty, result, points, step) - exact)
            row = int(np.argmax(excess))
            # Smoothing changes a modulus by mu / 2 at most, and the objective by few mu.
            demand(
                np.all(excess >= -1e-12) and np.all(excess <= 3 * mu),
                f"{name}.smoothed_prox with mu = {mu:g} must be nearly as good as the prox, but "
                f"its objective at v = {row_text(points[row])} is greater by {excess[row]:.6g}; "
                "the smoothing of |t| is t^2 / (2 mu) + mu / 2 below mu.",
            )
        wide = np.asarray(_smoothed(penalty, points, step, jnp.asarray(1e3)))
        demand_finite(f"{name}.smoothed_prox with mu = 1000", wide)
        # So much smoothing leaves a parabola, whose prox never passes zero.
        demand(
            not np.any(np.sign(wide) * np.sign(points) < 0),
            f"{name}.smoothed_prox with mu = 1000 passes zero: {row_text(points[0])} becomes "
            f"{row_text(wide[0])}, for example.",
        )


def _vmap(b: Bench) -> None:
    penalty, name = _of(b), name_of(_of(b))
    points = jnp.asarray(b.points, dtype_of(penalty))
    step = jnp.asarray(b.steps[0], points.dtype)
    alone = _prox(penalty, points, step)
    with doing(f"{name}.prox under jax.vmap, row by row"):
        rows = jax.jit(jax.vmap(lambda row: penalty.prox(row, step)))(points)
    close = _close(points.dtype)
    demand_close(f"{name}.prox of rows under jax.vmap and of all at once", rows, alone, *close)
    other = with_floats(penalty, lambda leaf: 1.1 * leaf)
    stacked = jax.tree.map(lambda x, y: jnp.stack([x, y]), penalty, other)
    with doing(f"{name}.prox under jax.vmap, of stacked penalties"):
        both = jax.jit(jax.vmap(lambda p: p.prox(points, step), axis_size=2))(stacked)
    expected = jnp.stack([alone, _prox(other, points, step)])
    demand_close(f"{name}.prox of stacked penalties and one by one", both, expected, *close)


def _kinks(b: Bench) -> None:
    for dtype, penalty, points in both_precisions(_of(b), b.kinks):
        name, step, mu = name_of(penalty), jnp.asarray(1.0, dtype), jnp.asarray(0.3, dtype)
        parts = {"prox": lambda p, x, s: jnp.sum(p.prox(x, s))}
        if _smooths(penalty):
            parts["smoothed_prox"] = lambda p, x, s, mu=mu: jnp.sum(p.smoothed_prox(x, s, mu))
        if np.all(np.isfinite(penalty.value(points))):
            parts["value"] = lambda p, x, s: p.value(x)
        for part, function in parts.items():
            where = f"The derivative of {name}.{part} at kinks and zero"
            with doing(where):
                slope = jax.jit(jax.grad(function, (0, 1, 2), allow_int=True))
                slopes = slope(penalty, points, step)
            demand_finite(where, slopes, SAFE)


def _close(dtype: Any) -> tuple[float, float]:
    eps = float(jnp.finfo(dtype).eps)
    return 16 * eps, 4 * eps


PENALTY_CHECKS = {
    "dtype": _dtype,
    "minimises": PROX_CHECKS["minimises"],
    "certificate": _certificate,
    "smoothed": _smoothed_prox,
    "jit": PROX_CHECKS["jit"],
    "vmap": _vmap,
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
    """Check a penalty `g` of models: `value`, `prox`, `optimality`, perhaps `smoothed_prox`.

    - `dtype`: value, prox and certificate have the dtype of the point, float32 and float64, and
      their shapes; the value of rows is the sum of their values.
    - `minimises`: no point that is tried is better than the prox.
    - `certificate`: `optimality(x, (x - v) / step)` is zero at the prox of v, and not beside it.
    - `smoothed`: a little smoothing changes the prox a little; much keeps it finite, on its side of
      zero.
    - `jit`, `vmap`: the same numbers under `jax.jit`, row by row, and of stacked penalties.
    - `derivatives`: those of the prox by the point, the step and the numbers of the penalty are
      those of finite differences, away from kinks.
    - `kinks`: derivatives of value, prox and smoothed prox are finite at kinks and at zero.
    - `range`: the prox is finite where the point is as large as its dtype has it.
    - `nonexpansive`: with `convex`, the prox brings points together.

    `minimises`, `jit`, `derivatives` and `range` are those of `check_prox`.

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
