"""Checks of a proximal map and of a penalty: they minimise, and can be differentiated."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.test_util import check_jvp, check_vjp
from jax.typing import ArrayLike

from fedjax_admm.testing import _demand as demand
from fedjax_admm.testing._demand import ask

# Rows long and short; entries on usual kinks, far away, and at zero.
POINTS = np.array(
    [[-6.3, -2.0, -0.7], [0.0, 0.2, 1.0], [1.9, 3.1, 6.0], [0.0, 0.0, 0.0], [0.05, -0.02, 0.01]]
)
STEPS = (1e-3, 0.4, 5.0, 1e3)


class _Bench(NamedTuple):
    name: str
    prox: Callable[..., jax.Array]  # compiled
    value: Callable[..., jax.Array]
    parameters: tuple[Any, ...]  # their floats are float64
    points: jax.Array  # shape=(rows, dim), float64
    steps: Sequence[float]
    kinks: ArrayLike | Sequence[float]


def check_prox(
    prox: Callable[..., jax.Array],
    value: Callable[..., jax.Array],
    *parameters: Any,
    points: ArrayLike = POINTS,
    steps: Sequence[float] = STEPS,
    kinks: ArrayLike | Sequence[float] = (),
    only: demand.Only = None,
) -> None:
    """Check a proximal map `prox(v, step, *parameters) = argmin g(x) + |x - v|^2 / (2 step)`.

    - `dtype`: float16, bfloat16, float32 and float64 points give results of their dtype and shape.
    - `minimises`: no point of a grid (or, where g is not separable, of many random ones at all
      distances) is better than the result, in float64, at every step; under `jax.vmap`, over rows,
      it is the same.
    - `derivatives`: away from kinks, those by the point, the step and the parameters are those of
      finite differences, in float64, forward and reverse.
    - `kinks`: at zero of both signs, at `kinks` and at minus `kinks` they are finite, in float32
      and float64.
    - `range`: the result is finite where the point is as large or as small as its dtype has it.

    Args:
      prox: of arrays of one or two axes: elementwise, or along the last axis.
      value: `value(x, *parameters)`, g itself: as many values as entries if it is separable, else
        one; infinite where x is not allowed.
      *parameters: numbers, arrays, or pytrees of them.
      points: shape (rows, dim): where the map is checked.
      steps: positive.
      kinks: where the map has a kink or a jump, besides zero.
      only: names of the checks to make; all if None.

    Raises:
      AssertionError: a check fails.
      InputError: `only` names no check.
    """
    with jax.enable_x64(True):
        parameters, points = demand.cast((parameters, points), np.float64)
        about = jax.jit(prox), value, parameters, jnp.asarray(points), steps, kinks
        demand.make(_Bench(demand.name_of(prox), *about), PROX_CHECKS, only)


def check_penalty(
    penalty: Any,
    *,
    points: ArrayLike = POINTS,
    steps: Sequence[float] = (0.4, 5.0),
    kinks: ArrayLike | Sequence[float] = (1.0, 2.0),
    only: demand.Only = None,
) -> None:
    """Check a penalty `g` of models: `value`, `prox` and `optimality`.

    - `dtype`: value, prox and certificate have the dtype of the point, and their shapes; the value
      of rows is the sum of their values.
    - `certificate`: `optimality(x, (x - v) / step)` is zero at the prox of v, and not beside it.
    - `kinks`: derivatives of value and prox are finite at kinks and at zero.
    - `minimises`, `derivatives` and `range` are those of `check_prox`.

    Args:
      penalty: a pytree, as `penalties.l1(0.1)` is.
      points: shape (rows, dim).
      steps: positive.
      kinks: where the value or the prox has kinks, besides zero.
      only: names of the checks to make; all if None.

    Raises:
      AssertionError: a check fails.
      InputError: the penalty lacks a method, or is no pytree, or `only` names no check.
    """
    methods = [getattr(penalty, name, None) for name in ("value", "prox", "optimality")]
    wanted = "an object with the methods value, prox and optimality"
    demand.fits("penalty", penalty, wanted, all(map(callable, methods)))
    with jax.enable_x64(True):
        penalty, points = demand.cast((penalty, points), np.float64)
        calls = (lambda v, step, g: ask("prox", g, v, step)), (lambda x, g: ask("value", g, x))
        about = *calls, (penalty,), jnp.asarray(points), steps, kinks
        demand.make(_Bench(f"{demand.name_of(penalty)}.prox", *about), PENALTY_CHECKS, only)


def _dtype(b: _Bench) -> None:
    for dtype in (np.float16, jnp.bfloat16, np.float32, np.float64):
        with jax.enable_x64(dtype is np.float64):
            points, step, parameters = demand.cast((b.points, b.steps[0], b.parameters), dtype)
            where = f"{b.name} of {np.dtype(dtype).name} points"
            demand.kind(where, b.prox(points, step, *parameters), points.shape, dtype)


def _minimises(b: _Bench) -> None:
    separable = b.value(b.points[0], *b.parameters).shape == b.points.shape[1:] != (1,)
    values = jax.jit(jax.vmap(jax.vmap(lambda row: jnp.sum(b.value(row, *b.parameters)))))
    rows = jax.jit(jax.vmap(lambda row, step: b.prox(row, step, *b.parameters), (0, None)))
    for step in b.steps:
        x = b.prox(b.points, step, *b.parameters)
        demand.finite(f"The result of {b.name} at step {step:g}", x)
        where = f"Results of {b.name} of rows together and under jax.vmap"
        demand.close(where, rows(b.points, step), x, 1e-9, 1e-9)
        # A separable function is minimised entry by entry.
        v, x = (np.reshape(a, (-1, 1)) if separable else np.asarray(a) for a in (b.points, x))
        tries = np.stack([x, *_tries(v, x, separable)])
        demand.lowest(b.name, "g", v, step, tries, values(tries))


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


def _derivatives(b: _Bench) -> None:
    # Away from round numbers, on which kinks like to lie.
    points = b.points + 0.0137 * jnp.cos(jnp.arange(b.points.size)).reshape(b.points.shape)
    for step in b.steps:
        leaves, form = jax.tree.flatten((points, jnp.asarray(step), *b.parameters))
        for place in [i for i, leaf in enumerate(leaves) if demand.is_float(leaf)]:
            leaf = leaves[place]
            width = 1e-6 * (float(np.max(np.abs(leaf), initial=0)) if place else 1.0) or 1e-6
            what = ("the point", "the step", f"parameter {place - 1}")[min(place, 2)]
            where = f"The derivative of {b.name} by {what} at step {step:g} is not its finite "
            where += "difference. Is it cut off by stop_gradient, or a custom derivative wrong?"

            def image(moved, place=place, leaves=leaves, form=form):
                return b.prox(*form.unflatten([*leaves[:place], moved, *leaves[place + 1 :]]))

            for check, rule in ((check_jvp, jax.jvp), (check_vjp, jax.vjp)):
                check(image, partial(rule, image), (leaf,), 1e-5, 1e-4, width, where)


def _kinks(b: _Bench) -> None:
    special = np.concatenate([[0.0, -0.0], np.ravel(b.kinks), -np.ravel(b.kinks)])
    dim = b.points.shape[1]
    rows = np.append(np.resize(special, (-(-special.size // dim), dim)), np.zeros((1, dim)), 0)
    for number in (b.steps[0], 1.0):
        for _, *given in demand.both_precisions(rows, number, *b.parameters):
            if not np.any(np.isinf(b.prox(*given))):  # a value that is infinite has no slope
                where = f"The derivative of {b.name} at its kinks, at step {number:g},"
                demand.finite(where, demand.slopes(b.prox, *given), demand.SAFE)


def _range(b: _Bench) -> None:
    for dtype, parameters in demand.both_precisions(b.parameters):
        ends = float(jnp.finfo(dtype).max) / 8, float(jnp.finfo(dtype).tiny)
        rows = np.resize([*ends, *np.negative(ends)], (4, b.points.shape[1])).astype(dtype)
        for step in b.steps:
            where = f"The result of {b.name} at points up to {ends[0]:g}, at step {step:g},"
            result = b.prox(jnp.asarray(rows), jnp.asarray(step, dtype), *parameters)
            demand.finite(where, result, "Scale before squaring, as kernels.safe_norm does.")


def _penalty_dtype(b: _Bench) -> None:
    _dtype(b)
    for dtype, penalty, points in demand.both_precisions(b.parameters[0], b.points):
        name, value = demand.name_of(penalty), b.value(points, penalty)
        apart, eps = ask("optimality", penalty, points, points), float(jnp.finfo(dtype).eps)
        demand.kind(f"{name}.value", value, (), dtype)
        demand.kind(f"{name}.optimality", apart, points.shape[: np.ndim(apart) or 1], dtype)
        rows = jnp.sum(jax.vmap(penalty.value)(points))
        where = f"{name}.value of all rows and the sum of those of each"
        demand.close(where, value, rows, 16 * eps, 4 * eps)


def _certificate(b: _Bench) -> None:
    (penalty,), v = b.parameters, b.points
    for step in b.steps:
        result = b.prox(v, step, penalty)
        for x, fits in ((result, lambda d: d <= 1e-9), (result + 0.013, lambda d: d > 1e-4)):
            apart = np.abs(ask("optimality", penalty, x, (x - v) / step))
            for k, *_ in np.argwhere(~fits(apart))[:1]:
                at = f"step = {step:g}, v = {demand.row(v[k])} and x = {demand.row(x[k])}"
                text = f"optimality(x, (x - v) / step) must be zero at {b.name} of v alone, but at "
                sentence = f"{text}{at} it is {demand.row(apart[k])}"
                raise AssertionError(f"{sentence}; do they belong to one function?")


def _penalty_kinks(b: _Bench) -> None:
    _kinks(b)
    value = b.name.replace("prox", "value")
    _kinks(b._replace(name=value, prox=lambda points, step, penalty: penalty.value(points)))


PROX_CHECKS = demand.named(_dtype, _minimises, _derivatives, _kinks, _range)
PENALTY_CHECKS = PROX_CHECKS | demand.named(_certificate)
PENALTY_CHECKS |= {"dtype": _penalty_dtype, "kinks": _penalty_kinks}
