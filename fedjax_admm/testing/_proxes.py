"""Checks of a proximal map: that it minimises, and that it is fit to be differentiated."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import is_real
from fedjax_admm.testing._shared import (
    NO_BRANCH,
    SAFE,
    both_precisions,
    cast,
    demand,
    demand_close,
    demand_finite,
    demand_kind,
    doing,
    is_float,
    make,
    name_of,
    row_text,
    unfit,
)

# Rows long and short; entries on usual kinks, far away, and at zero.
POINTS = np.array(
    [[-6.3, -2.0, -0.7], [0.0, 0.2, 1.0], [1.9, 3.1, 6.0], [0.0, 0.0, 0.0], [0.05, -0.02, 0.01]]
)
STEPS = (1e-3, 0.4, 5.0, 1e3)
_GRID = 2001
_HALF = (np.float16, jnp.bfloat16, np.float32)


class Bench(NamedTuple):
    """What is checked of a proximal map."""

    prox: Callable[..., jax.Array]
    value: Callable[..., jax.Array]
    parameters: tuple[Any, ...]
    points: np.ndarray  # shape=(rows, dim)
    steps: tuple[float, ...]
    kinks: np.ndarray  # shape=(rows, dim)
    separable: bool
    convex: bool
    limit: float

    @property
    def name(self) -> str:
        """Return what the map is called in messages."""
        if self.parameters and name_of(self.prox) == "prox_of":
            return f"{name_of(self.parameters[0])}.prox"
        return name_of(self.prox)


def check_prox(
    prox: Callable[..., jax.Array],
    value: Callable[..., jax.Array],
    *parameters: Any,
    points: ArrayLike = POINTS,
    steps: Sequence[float] = STEPS,
    kinks: ArrayLike | Sequence[float] = (),
    convex: bool = False,
    limit: float = np.inf,
    only: str | Sequence[str] | None = None,
) -> None:
    """Check a proximal map `prox(v, step, *parameters) = argmin g(x) + |x - v|^2 / (2 step)`.

    - `dtype`: float16, bfloat16, float32 and float64 points give results of their dtype and shape.
    - `minimises`: no point of a grid (or, where g is not separable, of many random ones at all
      distances) is better than the result, in float64, at every step.
    - `jit`: the same numbers under `jax.jit`, also where step and parameters are traced.
    - `vmap`: the same numbers under `jax.vmap`, over rows.
    - `derivatives`: away from kinks, those by the point, the step and the parameters are those of
      finite differences, in float64.
    - `kinks`: at zero of both signs, at `kinks` and at minus `kinks` they are finite, in float32
      and float64, forward and reverse.
    - `range`: the result is finite where the point is as large or as small as its dtype has it.
    - `monotone`: with `convex`, `|Tx - Ty|^2 <= <Tx - Ty, x - y>`.

    Args:
      prox: of arrays of one or two axes: elementwise, or along the last axis.
      value: `value(x, *parameters)`, g itself: as many values as entries if it is separable, else
        one; infinite where x is not allowed.
      *parameters: numbers, arrays, or pytrees of them.
      points: shape (rows, dim): where the map is checked.
      steps: positive.
      kinks: where the map has a kink or a jump; derivatives are checked there and not compared
        beside them.
      convex: whether g is convex.
      limit: of the entries of points in `range`, for a g that is not finite further out.
      only: names of the checks to make; all if None.

    Raises:
      AssertionError: a check fails.
      InputError: an argument is no function, or steps are not positive.
    """
    for name, function in (("prox", prox), ("value", value)):
        if not callable(function):
            raise unfit(name, function, "a function")
    bench = bench_of(prox, value, parameters, points, steps, kinks, convex, limit)
    make(bench, PROX_CHECKS, only)


def bench_of(
    prox: Callable[..., jax.Array],
    value: Callable[..., jax.Array],
    parameters: tuple[Any, ...],
    points: ArrayLike,
    steps: Sequence[float],
    kinks: ArrayLike | Sequence[float],
    convex: bool,
    limit: float = np.inf,
) -> Bench:
    """Return the bench of checked arguments."""
    if not is_real(points) or np.ndim(points) != 2 or not np.all(np.isfinite(points)):
        raise unfit("points", points, "finite numbers of shape (rows, dim)")
    if not all(is_real(step) and np.isfinite(step) and step > 0 for step in steps):
        raise unfit("steps", steps, "positive")
    points = np.asarray(points, float)
    dim = points.shape[1]
    special = np.concatenate([[0.0], np.ravel(np.asarray(kinks, float))])
    special = np.append(np.unique(np.concatenate([special, -special])), -0.0)
    rows = np.resize(special, (-(-special.size // dim), dim))
    rows = np.concatenate([rows, np.zeros((1, dim))])
    with doing(f"{name_of(value)} of an array"):
        shape = np.shape(value(jnp.asarray(points[0]), *parameters))
    separable = shape == (dim,) and dim > 1
    numbers = tuple(float(step) for step in steps)
    return Bench(prox, value, parameters, points, numbers, rows, separable, convex, limit)


@partial(jax.jit, static_argnums=0)
def _prox(prox, points, step, parameters):
    return prox(points, step, *parameters)


@partial(jax.jit, static_argnums=0)
def _values(value, rows, parameters):
    """Return g of every row (its sum, where g is separable)."""
    return jax.vmap(lambda row: jnp.sum(value(row, *parameters)))(rows)


@partial(jax.jit, static_argnums=0)
def _entries(value, entries, parameters):
    """Return g of every entry of a separable g."""
    flat = entries.reshape(-1)
    return value(flat, *parameters).reshape(entries.shape)


@partial(jax.jit, static_argnums=0)
def _costs(value, candidates, points, step, parameters):
    """Return the objective of candidates (tries, rows, dim) for every row, (tries, rows)."""
    flat = candidates.reshape(-1, candidates.shape[-1])
    values = _values(value, flat, parameters).reshape(candidates.shape[:2])
    return values + jnp.sum((candidates - points[None]) ** 2, -1) / (2 * step)


@partial(jax.jit, static_argnums=0)
def _slopes(prox, points, step, parameters, weights):
    """Return the derivatives of a weighted sum, by points, step and the parameters' floats."""

    def total(points, step, parameters):
        return jnp.sum(weights * prox(points, step, *parameters))

    return jax.grad(total, (0, 1, 2), allow_int=True)(points, step, parameters)


@partial(jax.jit, static_argnums=0)
def _forward(prox, points, step, parameters, direction):
    def moved(points):
        return prox(points, step, *parameters)

    return jax.jvp(moved, (points,), (direction,))[1]


def _wide(b: Bench) -> tuple[jax.Array, Any]:
    return jnp.asarray(b.points, jnp.float64), cast(b.parameters, jnp.float64)


def _dtype(b: Bench) -> None:
    for dtype in (*_HALF, np.float64):
        with jax.enable_x64(dtype is np.float64):
            points, step = jnp.asarray(b.points, dtype), jnp.asarray(b.steps[0], dtype)
            where = f"{b.name} of points of dtype {np.dtype(dtype).name}"
            with doing(where):
                result = _prox(b.prox, points, step, cast(b.parameters, dtype))
            demand_kind(where, result, points.shape, dtype)


def _minimises(b: Bench) -> None:
    with jax.enable_x64(True):
        points, parameters = _wide(b)
        for step in b.steps:
            with doing(f"{b.name} at step {step:g}"):
                result = _prox(b.prox, points, jnp.asarray(step), parameters)
            demand_finite(f"The result of {b.name} at step {step:g}", result)
            (_entry_by_entry if b.separable else _row_by_row)(b, points, result, step, parameters)


def _entry_by_entry(b: Bench, points, result, step: float, parameters) -> None:
    reach = 1.5 * float(jnp.max(jnp.abs(points))) + 1
    grid = np.unique(
        np.concatenate([np.linspace(-reach, reach, _GRID), points.ravel(), result.ravel()])
    )
    values = np.asarray(_entries(b.value, jnp.asarray(grid), parameters))
    here = np.asarray(_entries(b.value, result, parameters))
    v, x = np.asarray(points).ravel(), np.asarray(result).ravel()
    with np.errstate(over="ignore", invalid="ignore"):
        best = here.ravel() + (x - v) ** 2 / (2 * step)
        costs = values[None] + (grid[None] - v[:, None]) ** 2 / (2 * step)
    lowest = np.min(np.where(np.isnan(costs), np.inf, costs), 1)
    worse = ~(best <= lowest + 1e-9 * (1 + np.abs(lowest)))
    if np.any(worse):
        k = int(np.argmax(worse))
        other = grid[int(np.nanargmin(costs[k]))]
        raise _no_minimum(b, v[k], step, x[k], best[k], other, lowest[k])


def _row_by_row(b: Bench, points, result, step: float, parameters) -> None:
    rng = np.random.default_rng(0)
    scales = (1e-4, 1e-2, 0.1, 1.0, 10.0)
    others = [points, 0 * points, -points, *(s * points for s in (0.1, 0.5, 0.9, 1.1))]
    others += [s * result for s in (0.5, 0.9, 0.99, 1.01, 1.1)]
    others += [result + t * (points - result) for t in (1e-3, 1e-2, 0.1, 0.5)]
    others += [result + s * rng.standard_normal(points.shape) for s in scales for _ in range(40)]
    tries = jnp.asarray(np.stack([np.asarray(other) for other in (result, *others)]))
    costs = np.asarray(_costs(b.value, tries, points, jnp.asarray(step), parameters))
    demand_finite(f"The objective at the result of {b.name} at step {step:g}", costs[0])
    lowest = np.nanmin(costs[1:], 0)
    excess = costs[0] - lowest
    row = int(np.argmax(excess))
    if not excess[row] <= 1e-10 * (1 + abs(lowest[row])):
        other = tries[1 + int(np.nanargmin(costs[1:, row])), row]
        raise _no_minimum(b, points[row], step, result[row], costs[0, row], other, lowest[row])


def _no_minimum(b: Bench, v, step, result, cost, other, lowest) -> AssertionError:
    return AssertionError(
        f"{b.name} must minimise g(x) + |x - v|^2 / (2 step), but at v = {row_text(v)} and step = "
        f"{step:g} it returns {row_text(result)} with the objective {cost:.9g}, while x = "
        f"{row_text(other)} has {lowest:.9g}. Is the step multiplied where it should divide, or a "
        "branch missing?"
    )


def _jit(b: Bench) -> None:
    points = jnp.asarray(b.points)
    for step in b.steps:
        with doing(f"{b.name} with numbers, outside jax.jit"):
            alone = b.prox(points, step, *b.parameters)
        with doing(f"{b.name} under jax.jit", NO_BRANCH):
            inside = _prox(b.prox, points, jnp.asarray(step, points.dtype), b.parameters)
        where = f"Results of {b.name} with and without jax.jit at step {step:g}"
        demand_close(where, inside, alone, *_close(points.dtype))


def _vmap(b: Bench) -> None:
    points = jnp.asarray(b.points)
    step = jnp.asarray(b.steps[0], points.dtype)
    alone = _prox(b.prox, points, step, b.parameters)
    with doing(f"{b.name} under jax.vmap"):
        rows = jax.vmap(lambda row: b.prox(row, step, *b.parameters))(points)
    where = f"Results of {b.name} with and without jax.vmap"
    demand_close(where, rows, alone, *_close(points.dtype))


def _derivatives(b: Bench) -> None:
    with jax.enable_x64(True):
        points, parameters = _wide(b)
        # Away from round numbers, on which kinks like to lie.
        points = points + 0.0137 * jnp.cos(jnp.arange(points.size)).reshape(points.shape)
        if b.separable:
            for kink in np.unique(b.kinks):
                points = jnp.where(jnp.abs(points - kink) < 1e-3, kink + 0.0021, points)
        rng = np.random.default_rng(1)
        weights = jnp.asarray(rng.uniform(0.5, 1.5, points.shape))
        for step in b.steps:
            arguments = (points, jnp.asarray(step), parameters)
            with doing(f"The derivative of {b.name} at step {step:g}"):
                slopes = _slopes(b.prox, *arguments, weights)
            demand_finite(f"The derivative of {b.name} at step {step:g}", slopes, SAFE)
            for (path, slope), leaf in zip(
                jax.tree.leaves_with_path(slopes), jax.tree.leaves(arguments), strict=True
            ):
                if is_float(leaf):
                    _compare(b, arguments, path, slope, leaf, weights)


def _compare(b: Bench, arguments, path, slope, leaf, weights) -> None:
    """Compare one derivative with difference quotients, where those of both sides agree."""
    direction = jnp.asarray(np.random.default_rng(2).uniform(0.5, 1.5, jnp.shape(leaf)))
    size = float(jnp.max(jnp.abs(leaf))) if path[0].idx else 1.0
    width = 1e-6 * max(size, 1e-3)

    def moved(step):
        there = jax.tree_util.tree_map_with_path(
            lambda p, part: part + step * direction if p == path else part, arguments
        )
        return _prox(b.prox, *there)

    here, ahead, behind = (np.asarray(moved(s)) for s in (0.0, width, -width))
    forward, backward = (ahead - here) / width, (here - behind) / width
    # By the point, entry by entry: those at a kink are left out.
    mine = None if path[0].idx else np.asarray(_forward(b.prox, *arguments, direction))
    central = (forward + backward) / 2
    rounding = 1e-14 * (1 + np.abs(here)) / width
    smooth = np.abs(forward - backward) <= 1e-4 * (np.abs(central) + 1e-3) + 4 * rounding
    what = ("the point", "the step", "the parameters")[path[0].idx]
    leaf_name = jax.tree_util.keystr(path[1:])
    what = f"{what} ({leaf_name})" if leaf_name else what
    name = f"The derivative of {b.name} by {what} at step {float(arguments[1]):g}"
    where = f"{name} and its finite difference"
    remedy = "Is it cut off by jax.lax.stop_gradient, or a custom derivative wrong?"
    if mine is not None:
        result, quotient = np.where(smooth, mine, 0), np.where(smooth, central, 0)
        demand_close(where, result, quotient, 1e-4, 1e-5 + 8 * float(rounding.max()), remedy)
        where, total = f"{name} forward and in reverse", jnp.sum(weights * mine)
        demand_close(where, jnp.sum(slope * direction), total, 1e-6, 1e-6)
    elif np.all(smooth):
        total = np.sum(np.asarray(weights) * central)
        scale = 1e-5 + 1e-6 * float(np.sum(np.abs(central))) + 8 * float(rounding.sum())
        demand_close(where, jnp.sum(slope * direction), total, 1e-4, scale, remedy)


def _kinks(b: Bench) -> None:
    for dtype, points, parameters in both_precisions(b.kinks, b.parameters):
        for step in (*b.steps[:1], 1.0):
            arguments = (points, jnp.asarray(step, dtype), parameters)
            where = f"The derivative of {b.name} at its kinks, at step {step:g}"
            with doing(where):
                reverse = _slopes(b.prox, *arguments, jnp.ones_like(points))
                forward = _forward(b.prox, *arguments, jnp.ones_like(points))
            demand_finite(where, (reverse, forward), SAFE)


def _range(b: Bench) -> None:
    for dtype, parameters in both_precisions(b.parameters):
        largest, least = float(jnp.finfo(dtype).max) / 8, float(jnp.finfo(dtype).tiny)
        largest = min(largest, b.limit)
        points = np.array([largest, least, -largest, -least], dtype)
        rows = jnp.asarray(np.resize(points, (4, b.points.shape[1])), dtype)
        for step in b.steps:
            where = f"The result of {b.name} at points between {least:g} and {largest:g}"
            with doing(where):
                result = _prox(b.prox, rows, jnp.asarray(step, dtype), parameters)
            remedy = "Scale before squaring, as kernels.safe_norm does."
            demand_finite(f"{where}, at step {step:g},", result, remedy)


def _monotone(b: Bench) -> None:
    if not b.convex:
        return
    with jax.enable_x64(True):
        points, parameters = _wide(b)
        rng = np.random.default_rng(4)
        for step in b.steps:
            here = _prox(b.prox, points, jnp.asarray(step), parameters)
            for scale in (0.01, 0.3, 3.0):
                other = points + scale * jnp.asarray(rng.standard_normal(points.shape))
                apart = here - _prox(b.prox, other, jnp.asarray(step), parameters)
                left, right = jnp.sum(apart**2, -1), jnp.sum(apart * (points - other), -1)
                k = int(jnp.argmax(left - right))
                demand(
                    left[k] <= right[k] + 1e-10 * (1 + left[k]),
                    f"The prox of a convex function is firmly nonexpansive, but for {b.name} at "
                    f"step {step:g} |Tx - Ty|^2 is {float(left[k]):.6g} and <Tx - Ty, x - y> is "
                    f"{float(right[k]):.6g} at x = {row_text(points[k])} and y = "
                    f"{row_text(other[k])}.",
                )


def _close(dtype: Any) -> tuple[float, float]:
    eps = float(jnp.finfo(dtype).eps)
    return 64 * eps, 16 * eps


PROX_CHECKS = {
    "dtype": _dtype,
    "minimises": _minimises,
    "jit": _jit,
    "vmap": _vmap,
    "derivatives": _derivatives,
    "kinks": _kinks,
    "range": _range,
    "monotone": _monotone,
}
