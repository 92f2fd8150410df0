"""Losses of many samples, `g(x) = sum_i phi(<a_i, x> - b_i)`, from the scalar map of phi.

With `z = A x - b` the problem splits into least squares in x, diagonal in the singular vectors of
A, and scalar maps in z; the alternating direction method of multipliers joins them. Every few of
its iterations a Newton step for the optimality condition is tried: once the pieces of phi on which
the residuals lie are known, it is exact, and so is its derivative.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from fedjax_admm.kernels._arguments import check_system, demand_proxes, matched, widened
from fedjax_admm.kernels._gaps import approximate
from fedjax_admm.kernels._loops import scan, while_loop
from fedjax_admm.kernels._safe import safe_norm, safe_ratio
from fedjax_admm.kernels.compiling import Size, checked
from fedjax_admm.kernels.losses._spectrum import points_last, spread, take_back
from fedjax_admm.kernels.matrices._decompositions import decompose, times

# Iterations between two Newton steps; how far an iteration goes beyond its minimiser; how fast the
# weight changes; what a Newton step has to leave of the condition at most.
_BETWEEN, _RELAXATION, _CHANGE, _GAIN = 20, 1.6, 5.0, 0.1
# Singular values below this share of the largest one do not slow the others down.
_SPREAD = 1e-2


class SampleFactor(NamedTuple):
    """Residuals `A x - b` of samples; build it with `sample_factor`.

    Attributes:
      matrix: A, shape (m, n).
      target: b, shape (m,).
      left: left singular vectors as columns, shape (m, k) with k = min(m, n).
      spectrum: squares of the singular values, shape (k,).
      weight: of the splitting to begin with, shape (): between the least and the largest square.
    """

    matrix: Array
    target: Array
    left: Array
    spectrum: Array
    weight: Array


class SampleProx(NamedTuple):
    """What the proximal map of a loss of samples found.

    Attributes:
      point: the minimiser, as the points.
      dual: slopes of the loss at the residuals, shape (..., m): `point = v - step A^T dual`. The
        next call takes them as its `start`.
      residual: how far the optimality condition is from being met, relative to what its terms are,
        shape (...): near the rounding of the dtype if the point is exact.
    """

    point: Array
    dual: Array
    residual: Array


@checked
def sample_factor(matrix: Array, target: Array) -> SampleFactor:
    """Prepare the proximal maps of `sum_i phi(<a_i, x> - b_i)`, once for many steps and points.

    The thin singular value decomposition of A. Arrays that are no tracers are decomposed by NumPy
    in float64; inside `jax.jit` the decomposition is JAX's, in the dtype of the matrix: make the
    factor outside where you can, and outside of loops in any case.

    Derivative: maps are differentiable in the matrix and the target, which the factor holds; the
    decomposition only guides the search.

    Args:
      matrix: A, shape (m, n), or (..., m, n) for a batch of factors to map over by `jax.vmap`. For
        classification its rows are features times labels in {-1, 1}.
      target: b, shape (m,), or (..., m); zeros for classification.

    Returns:
      The factor, at least float32: what `prox_absolute_loss` and its kin take.

    Reference: Boyd et al., 2011, section 4.2 (factors kept between the iterations).
    """
    matrix, target = matched(matrix, target)
    check_system(matrix, target, "target")
    matrix, target = widened(matrix), widened(target)
    fixed = jax.lax.stop_gradient(matrix)
    if isinstance(fixed, Tracer):
        left, values, _ = decompose(fixed, None)
    else:
        left, values, _ = np.linalg.svd(np.asarray(fixed, np.float64), full_matrices=False)
        left, values = jnp.asarray(left, matrix.dtype), jnp.asarray(values, matrix.dtype)
    largest = jnp.max(values, -1, initial=0, keepdims=True)
    seen = values >= _SPREAD * largest
    least = jnp.min(jnp.where(seen, values, largest), -1, initial=jnp.inf)
    weight = jnp.where(largest[..., 0] > 0, least * largest[..., 0], 1.0)
    return SampleFactor(matrix, target, left, values * values, weight)


@checked
def precompose_samples(prox: Callable[..., Array], rounds: int = 30) -> Callable[..., Array]:
    """Make the proximal map of a loss of samples, `g(x) = sum_i phi(<a_i, x> - b_i)`.

    `Prox(v; step) = v - step A^T u` where u are slopes of phi at the residuals of the result. The
    iterations end when rounding leaves nothing to gain, or after the last round; `with_gap` tells
    the distance from the optimum.

    Derivative: implicit, in the point, the step, the matrix, the target and the parameters; at
    kinks the convention of the given map. It is exact as far as the residual is 0.

    Args:
      prox: the map of phi, `prox(z, step, *parameters)`, elementwise.
      rounds: how often twenty iterations and a Newton step are made at most.

    Returns:
      `mapped(v, step, factor, *parameters, start=None, axis=-1)`, which returns the points; with
      `with_gap` a `SampleProx` of the points, the dual variables and the residual.

    Reference: Boyd et al., 2011, section 6.1; L. Qi and J. Sun, "A nonsmooth version of Newton's
    method", Mathematical Programming 58, 1993; their union is derived in the comments.
    """
    demand_proxes("precompose_samples", prox)

    @approximate
    def mapped(
        v: Array,
        step: Size,
        factor: SampleFactor,
        *parameters: Any,
        start: Array | None = None,
        axis: int = -1,
    ) -> SampleProx:
        point, step, wide = points_last(v, step, factor, axis)
        numbers = tuple(
            part.reshape((1,) * (point.ndim - part.ndim) + part.shape) if part.ndim else part
            for part in matched(point, *parameters)[1:]
        )
        step = step * jnp.ones_like(point[..., :1])
        rest = times(point, wide.matrix.mT) - spread(wide.target, point.ndim)
        first = jnp.zeros_like(rest) if start is None else matched(rest, start)[1]
        scalar = partial(_scalar, prox, numbers)
        fixed = jax.lax.stop_gradient((step, rest, first, numbers, wide))
        fixed_scalar = partial(_scalar, prox, fixed[3])
        w, weight, residual = _searched(fixed_scalar, rounds, *fixed[:3], fixed[4])
        # One more Newton step, of which only the derivative is kept: that of the root.
        moved = rest - _bent(w, weight, wide)
        off = moved - scalar(moved + w, weight * step)
        still, at = jax.lax.stop_gradient((off, moved + w))
        w = w + _newton(
            partial(fixed_scalar, scaled=weight * fixed[0]), off - still, at, weight, fixed[4]
        )
        found = point - times(w, wide.matrix) / weight
        kind = matched(v)[0].dtype
        dual = safe_ratio(w, weight * step).astype(kind)
        return SampleProx(take_back(found, v, axis), dual, residual.astype(kind))

    return mapped


def _scalar(prox, numbers, y, scaled):
    return prox(y, scaled, *numbers)


def _searched(prox, rounds, step, rest, dual, factor) -> tuple[Array, Array, Array]:
    """Return scaled dual variables, their weight, and what remains of the optimality condition.

    Dual variables u are scaled, `w = weight step u`: no step divides, so that it may be 0. The
    weight changes between the rounds, so that both residuals of the method shrink alike.
    """
    left, spectrum = factor.left, spread(factor.spectrum, rest.ndim)
    tolerance = 64 * jnp.finfo(rest.dtype).eps

    def length(part):
        return safe_norm(part, keepdims=True)

    def iterate(carry, _):
        # The residuals of the x that minimises, given z and w: A x - b without x.
        w, z, weight, _ = carry
        r = rest - times(spectrum / (weight + spectrum) * times(rest - z + w, left), left.mT)
        r = _RELAXATION * r + (1 - _RELAXATION) * z
        new = prox(r + w, weight * step)
        w = w + r - new
        ratio = safe_ratio(length(r - new), length(r)), safe_ratio(length(new - z), length(w))
        return (w, new, weight, ratio), None

    def condition(w, weight):
        """Return A x - b - z, which vanishes at the optimum, where it was looked at, its size."""
        r = rest - _bent(w, weight, factor)
        off = r - prox(r + w, weight * step)
        return off, r + w, safe_ratio(length(off), length(rest) + length(r) + length(w))

    def goes_on(carry):
        _, _, _, residual, done = carry
        return jnp.any(residual > tolerance) & (done < rounds)

    def improve(carry):
        w, z, weight, _, done = carry
        none = jnp.zeros_like(weight)
        begin = (w, z, weight, (none, none))
        (w, z, _, (primal, change)), _ = scan(iterate, begin, length=_BETWEEN)
        off, at, size = condition(w, weight)
        jumped = w + _newton(partial(prox, scaled=weight * step), off, at, weight, factor)
        jumped_off, jumped_at, jumped_size = condition(jumped, weight)
        # Of wrong pieces a step may go anywhere; of the right ones it gains many digits.
        better = length(jumped_off) < _GAIN * length(off)
        w, at = jnp.where(better, jumped, w), jnp.where(better, jumped_at, at)
        z = jnp.where(better, prox(at, weight * step), z)
        size = jnp.where(better, jumped_size, size)
        known = (change > 0) & (size > tolerance)
        ratio = jnp.sqrt(jnp.where(known, primal, 1.0) / jnp.where(known, change, 1.0))
        ratio = jnp.where((change > 0) | (size <= tolerance), ratio, _CHANGE)
        ratio = jnp.clip(ratio, 1 / _CHANGE, _CHANGE)
        ratio = jnp.where((ratio > 0.5) & (ratio < 2), 1.0, ratio)
        return w / ratio, z, weight / ratio, size, done + 1

    # The scalar maps move residuals by up to weight step: no more than the residuals are.
    mean = length(rest) / rest.shape[-1] ** 0.5
    share = jnp.where(step * mean > 0, safe_ratio(mean, factor.weight * step), 1.0)
    weight = factor.weight * jnp.minimum(share, 1.0)
    w = weight * step * dual
    _, at, size = condition(w, weight)
    carry = (w, prox(at, weight * step), weight, size, jnp.int32(0))
    w, _, weight, size, _ = while_loop(goes_on, improve, carry)
    return w, weight, size[..., 0]


def _bent(w: Array, weight: Array, factor: SampleFactor) -> Array:
    """Return `A A^T w / weight`."""
    return times(times(w / weight, factor.matrix), factor.matrix.mT)


def _newton(prox, off, at, weight, factor) -> Array:
    """Return the Newton step of w for `off = r - prox(r + w)`, `r = rest - K w`, linear in `off`.

    With D the slope of the map and E = I - D it solves `(E K + D) dw = off`. In
    `dw = off + E^(1/2) s` the matrix is symmetric:
    `(E^(1/2) K E^(1/2) + D) s = E^(1/2) (off - K off)`.
    """
    slopes = jax.jvp(prox, (at,), (jnp.ones_like(at),))[1]
    slopes = jnp.clip(slopes, 0.0, 1.0)
    root = jnp.sqrt(1 - slopes)

    def apply(s: Array) -> Array:
        return root * _bent(root * s, weight, factor) + slopes * s

    right = root * (off - _bent(off, weight, factor))
    solve = partial(_conjugate_gradients, limit=2 * factor.left.shape[-1] + 10)
    return off + root * jax.lax.custom_linear_solve(apply, right, solve, symmetric=True)


def _conjugate_gradients(apply, right, limit):
    """Solve a positive semidefinite system for right sides (..., m), each with its own steps."""

    def square(r):
        return jnp.sum(r * r, -1, keepdims=True)

    enough = jnp.finfo(right.dtype).eps ** 2 * square(right)

    def goes_on(carry):
        return jnp.any(carry[3] > enough) & (carry[4] < limit)

    def step(carry):
        x, r, direction, size, done = carry
        bent = apply(direction)
        bend = jnp.sum(direction * bent, -1, keepdims=True)
        going = (bend > 0) & (size > enough)
        length = jnp.where(going, size / jnp.where(going, bend, 1.0), 0.0)
        x, r = x + length * direction, r - length * bent
        new = jnp.where(going, square(r), 0.0)
        return x, r, r + new / jnp.where(going, size, 1.0) * direction, new, done + 1

    first = (jnp.zeros_like(right), right, right, square(right), jnp.int32(0))
    return while_loop(goes_on, step, first)[0]
