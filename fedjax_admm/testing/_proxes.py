"""Checks of a proximal map and of a penalty: they minimise, and can be differentiated."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import is_real
from fedjax_admm.testing import _demand as demand
from fedjax_admm.testing._shared import (
    NO_BRANCH,
    SAFE,
    both_precisions,
    cast,
    demand_pytree,
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


class _Bench(NamedTuple):
    name: str
    prox: Callable[..., jax.Array]
    value: Callable[..., jax.Array]
    parameters: tuple[Any, ...]
    points: np.ndarray  # shape=(rows, dim)
    steps: tuple[float, ...]
    kinks: np.ndarray  # shape=(rows, dim)
    separable: bool
    convex: bool
    limit: float

    def wide(self) -> tuple[jax.Array, Any]:
        """Return the points and the parameters in float64."""
        return jnp.asarray(self.points, jnp.float64), cast(self.parameters, jnp.float64)


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
      kinks: where the map has a kink or a jump, besides zero.
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
    about = (points, steps, kinks, convex, limit)
    make(_bench(name_of(prox), prox, value, parameters, *about), PROX_CHECKS, only)


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
    - `minimises`, `vmap`, `derivatives`, `range` and `monotone` are those of `check_prox`.

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
    about = (points, steps, kinks, convex, np.inf)
    bench = _bench(f"{name_of(penalty)}.prox", _prox_of, _value_of, (penalty,), *about)
    make(bench, PENALTY_CHECKS, only)


def _prox_of(points: jax.Array, step: ArrayLike, penalty: Any) -> jax.Array:
    return penalty.prox(points, step)


def _value_of(points: jax.Array, penalty: Any) -> jax.Array:
    return penalty.value(points)


def _bench(name, prox, value, parameters, points, steps, kinks, convex, limit) -> _Bench:
    if not is_real(points) or np.ndim(points) != 2 or not np.all(np.isfinite(points)):
        raise unfit("points", points, "finite numbers of shape (rows, dim)")
    if not all(is_real(step) and np.isfinite(step) and step > 0 for step in steps):
        raise unfit("steps", steps, "positive")
    points, kinks = np.asarray(points, float), np.ravel(np.asarray(kinks, float))
    dim = points.shape[1]
    special = np.concatenate([[0.0, -0.0], kinks, -kinks])
    rows = np.concatenate([np.resize(special, (-(-special.size // dim), dim)), np.zeros((1, dim))])
    with doing(f"{name_of(value)} of an array"):
        separable = np.shape(value(jnp.asarray(points[0]), *parameters)) == (dim,) and dim > 1
    steps = tuple(map(float, steps))
    return _Bench(name, prox, value, parameters, points, steps, rows, separable, convex, limit)


@partial(jax.jit, static_argnums=0)
def _prox(prox, points, step, parameters):
    return prox(points, step, *parameters)


@partial(jax.jit, static_argnums=0)
def _costs(value, tries, points, step, parameters):
    """Return the objective of candidates (tries, rows, dim) for every row, (tries, rows)."""
    values = jax.vmap(lambda row: jnp.sum(value(row, *parameters)))
    found = values(tries.reshape(-1, tries.shape[-1])).reshape(tries.shape[:2])
    return found + jnp.sum((tries - points[None]) ** 2, -1) / (2 * step)


def _dtype(b: _Bench) -> None:
    for dtype in (np.float16, jnp.bfloat16, np.float32, np.float64):
        with jax.enable_x64(dtype is np.float64):
            points, step = jnp.asarray(b.points, dtype), jnp.asarray(b.steps[0], dtype)
            where = f"{b.name} of {np.dtype(dtype).name} points"
            with doing(where, NO_BRANCH):
                result = _prox(b.prox, points, step, cast(b.parameters, dtype))
            demand.kind(where, result, points.shape, dtype)


def _minimises(b: _Bench) -> None:
    with jax.enable_x64(True):
        points, parameters = b.wide()
        for step in b.steps:
            with doing(f"{b.name} at step {step:g}"):
                result = _prox(b.prox, points, jnp.asarray(step), parameters)
            demand.finite(f"The result of {b.name} at step {step:g}", result)
            # A separable function is minimised entry by entry.
            v, x = (
                np.reshape(a, (-1, 1)) if b.separable else np.asarray(a) for a in (points, result)
            )
            tries = np.stack([x, *_tries(v, x, b.separable)])
            costs = np.asarray(
                _costs(b.value, jnp.asarray(tries), v, jnp.asarray(step), parameters)
            )
            best = np.nanargmin(np.where(np.isnan(costs), np.inf, costs), 0)
            lowest = costs[best, np.arange(len(v))]
            worse = ~(costs[0] <= lowest + 1e-9 * (1 + np.abs(lowest)))
            k = int(np.argmax(np.where(worse, costs[0] - lowest, -np.inf)))
            demand.that(
                not worse[k],
                f"{b.name} must minimise g(x) + |x - v|^2 / (2 step), but at v = {row_text(v[k])} "
                f"and step = {step:g} it returns {row_text(x[k])} with the objective "
                f"{costs[0, k]:.9g}, while x = {row_text(tries[best[k], k])} has {lowest[k]:.9g}. "
                "Is the step multiplied where it should divide, or a branch missing?",
            )


def _tries(v: np.ndarray, x: np.ndarray, separable: bool) -> list[np.ndarray]:
    """Return points that must not be better than x."""
    if separable:
        reach = 1.5 * np.max(np.abs(v)) + 1
        grid = np.concatenate([np.linspace(-reach, reach, 2001), v.ravel(), x.ravel()])
        return [np.full_like(v, number) for number in grid]
    rng = np.random.default_rng(0)
    tries = [*(s * v for s in (-1, 0, 0.1, 0.5, 0.9, 1, 1.1)), *(s * x for s in (0.5, 0.9, 1.1))]
    tries += [x + t * (v - x) for t in (1e-3, 1e-2, 0.1, 0.5)]
    scales = np.repeat((1e-4, 1e-2, 0.1, 1.0, 10.0), 40)
    return tries + [x + scale * rng.standard_normal(v.shape) for scale in scales]


def _vmap(b: _Bench) -> None:
    points, number = jnp.asarray(b.points), b.steps[0]
    eps = float(jnp.finfo(points.dtype).eps)
    together = _prox(b.prox, points, jnp.asarray(number, points.dtype), b.parameters)
    with doing(f"{b.name} under jax.vmap"):
        rows = jax.vmap(lambda row: b.prox(row, number, *b.parameters))(points)
    where = f"Results of {b.name} of rows together and under jax.vmap"
    demand.close(where, rows, together, 64 * eps, 16 * eps)


@partial(jax.jit, static_argnums=(0, 1))
def _along(prox, place, arguments, direction, width):
    """Return a map at three points along a line in one argument, and its two derivatives."""
    leaves, structure = jax.tree.flatten(arguments)

    def at(t):
        moved = [leaf + t * direction if i == place else leaf for i, leaf in enumerate(leaves)]
        points, step, parameters = jax.tree.unflatten(structure, moved)
        return prox(points, step, *parameters)

    zero = jnp.zeros_like(width)
    ends = jnp.stack([at(-width), at(zero), at(width)])
    forward = jax.jvp(at, (zero,), (zero + 1,))[1]
    return ends, forward, jax.grad(lambda t: jnp.sum(at(t)))(zero)


def _derivatives(b: _Bench) -> None:
    width, rng = 1e-6, np.random.default_rng(2)
    with jax.enable_x64(True):
        points, parameters = b.wide()
        # Away from round numbers, on which kinks like to lie.
        points = points + 0.0137 * jnp.cos(jnp.arange(points.size)).reshape(points.shape)
        for step in b.steps:
            arguments = (points, jnp.asarray(step), parameters)
            for place, (path, leaf) in enumerate(jax.tree.leaves_with_path(arguments)):
                if not is_float(leaf):
                    continue
                what = ("the point", "the step", "the parameters")[path[0].idx]
                what = f"{what} {jax.tree_util.keystr(path[1:])}".rstrip()
                where = f"The derivative of {b.name} by {what} at step {step:g}"
                size = float(jnp.max(jnp.abs(leaf), initial=0)) if path[0].idx else 1.0
                direction = (size or 1.0) * jnp.asarray(rng.uniform(0.5, 1.5, jnp.shape(leaf)))
                with doing(where):
                    found = _along(b.prox, place, arguments, direction, jnp.asarray(width))
                ends, forward, reverse = map(np.asarray, found)
                demand.finite(where, (forward, reverse), SAFE)
                # Entries at a kink are left out.
                behind, ahead = np.diff(ends, axis=0) / width
                rounding = 1e-14 * (1 + np.abs(ends[1])) / width
                central = (behind + ahead) / 2
                smooth = np.abs(ahead - behind) <= 1e-4 * (np.abs(central) + 1e-3) + 4 * rounding
                result, quotient = np.where(smooth, forward, 0), np.where(smooth, central, 0)
                near = 1e-4, 1e-5 + 8 * float(rounding.max())
                remedy = "Is it cut off by jax.lax.stop_gradient, or a custom derivative wrong?"
                demand.close(f"{where} and its finite difference", result, quotient, *near, remedy)
                total = np.sum(forward)
                demand.close(f"{where}, forward and in reverse,", reverse, total, 1e-6, 1e-6)


def _finite_slopes(where: str, function: Callable[..., Any], arguments: tuple) -> None:
    """Demand finite derivatives by all arguments, in reverse and forward by the first."""
    slope = jax.grad(lambda *args: jnp.sum(function(*args)), (0, 1, 2), allow_int=True)
    ones = jnp.ones_like(arguments[0])
    with doing(where):
        reverse = jax.jit(slope)(*arguments)
        forward = jax.jvp(lambda x: function(x, *arguments[1:]), arguments[:1], (ones,))[1]
    demand.finite(where, (reverse, forward), SAFE)


def _kinks(b: _Bench) -> None:
    for dtype, points, parameters in both_precisions(b.kinks, b.parameters):
        for number in (b.steps[0], 1.0):
            where = f"The derivative of {b.name} at its kinks, at step {number:g}"
            arguments = (points, jnp.asarray(number, dtype), parameters)
            _finite_slopes(where, lambda x, step, numbers: b.prox(x, step, *numbers), arguments)


def _range(b: _Bench) -> None:
    for dtype, parameters in both_precisions(b.parameters):
        largest, least = float(jnp.finfo(dtype).max) / 8, float(jnp.finfo(dtype).tiny)
        largest = min(largest, b.limit)
        ends = np.array([largest, least, -largest, -least], dtype)
        rows = jnp.asarray(np.resize(ends, (4, b.points.shape[1])), dtype)
        for step in b.steps:
            where = f"The result of {b.name} at points up to {largest:g}, at step {step:g},"
            with doing(where):
                result = _prox(b.prox, rows, jnp.asarray(step, dtype), parameters)
            demand.finite(where, result, "Scale before squaring, as kernels.safe_norm does.")


def _monotone(b: _Bench) -> None:
    if not b.convex:
        return
    with jax.enable_x64(True):
        points, parameters = b.wide()
        rng = np.random.default_rng(4)
        for step in b.steps:
            here = _prox(b.prox, points, jnp.asarray(step), parameters)
            for scale in (0.01, 0.3, 3.0):
                other = points + scale * jnp.asarray(rng.standard_normal(points.shape))
                apart = here - _prox(b.prox, other, jnp.asarray(step), parameters)
                left, right = jnp.sum(apart**2, -1), jnp.sum(apart * (points - other), -1)
                k = int(jnp.argmax(left - right))
                demand.that(
                    left[k] <= right[k] + 1e-10 * (1 + left[k]),
                    f"The prox of a convex function is firmly nonexpansive, but for {b.name} at "
                    f"step {step:g} |Tx - Ty|^2 is {left[k]:.6g} and <Tx - Ty, x - y> is "
                    f"{right[k]:.6g} at x = {row_text(points[k])} and y = {row_text(other[k])}.",
                )


@jax.jit
def _parts(penalty, points, step):
    rows = jax.vmap(penalty.value)(points)
    apart = penalty.optimality(points, points)
    return penalty.prox(points, step), penalty.value(points), apart, rows


@jax.jit
def _optimality(penalty, points, gradient):
    return penalty.optimality(points, gradient)


def _penalty_dtype(b: _Bench) -> None:
    for dtype, penalty, points in both_precisions(b.parameters[0], b.points):
        name = name_of(penalty)
        with doing(f"{name} at {np.dtype(dtype).name} points", NO_BRANCH):
            prox, value, apart, rows = _parts(penalty, points, jnp.asarray(b.steps[0], dtype))
        demand.kind(f"{name}.prox", prox, points.shape, dtype)
        demand.kind(f"{name}.value", value, (), dtype)
        entries = points.shape if np.ndim(apart) > 1 else points.shape[:1]
        demand.kind(f"{name}.optimality", apart, entries, dtype)
        eps = float(jnp.finfo(dtype).eps)
        where = f"{name}.value of all rows and the sum of those of each"
        demand.close(where, value, jnp.sum(rows), 16 * eps, 4 * eps)


def _certificate(b: _Bench) -> None:
    with jax.enable_x64(True):
        points, (penalty,) = b.wide()
        for step in b.steps:
            result = _prox(b.prox, points, jnp.asarray(step), (penalty,))
            for x, fits in ((result, lambda d: d <= 1e-9), (result + 0.013, lambda d: d > 1e-4)):
                with doing(f"{name_of(penalty)}.optimality"):
                    apart = np.abs(_optimality(penalty, x, (x - points) / step))
                wrong = np.argwhere(~fits(apart))
                k = tuple(wrong[0]) if wrong.size else (0,) * apart.ndim
                demand.that(
                    not wrong.size,
                    f"{name_of(penalty)}.optimality(x, (x - v) / step) must be zero at the prox "
                    f"of v, and positive beside it, but at v = {row_text(points[k[0]])}, step = "
                    f"{step:g} and x = {row_text(x[k[0]])} it is {apart[k]:.6g}; do prox and "
                    "optimality belong to the same function?",
                )


def _penalty_kinks(b: _Bench) -> None:
    _kinks(b)
    for _, penalty, points in both_precisions(b.parameters[0], b.kinks):
        if np.all(np.isfinite(penalty.value(points))):
            where = f"The derivative of {name_of(penalty)}.value at its kinks"
            _finite_slopes(where, lambda x, step, g: g.value(x), (points, points[0, 0], penalty))


PROX_CHECKS = {
    "dtype": _dtype,
    "minimises": _minimises,
    "vmap": _vmap,
    "derivatives": _derivatives,
    "kinks": _kinks,
    "range": _range,
    "monotone": _monotone,
}
PENALTY_CHECKS = {
    **PROX_CHECKS,
    "dtype": _penalty_dtype,
    "certificate": _certificate,
    "kinks": _penalty_kinks,
}
