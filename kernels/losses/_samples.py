"""Losses of many samples, `g(x) = sum_i phi(<a_i, x> - b_i)`, from the scalar map of phi.

With slopes u of phi at the residuals `r = A x - b` the minimiser has `x - v + step A^T u = 0`. The
method of multipliers smooths phi: at the unit t, with `y = r + w`, the slopes are those of the
envelope, `t u = y - prox(y, t)`, and `w = t u` follows. Unknown is x, not u, whose product with a
large step has no digits. In the coordinates s of `x = v + V S s`, with the singular values d and
vectors V of A and `S^2 = step / (t + step d^2)`, all equations have the size of the residuals:

    G s + S V^T A^T w = 0,   G = t / (t + step d^2) = 1 - S^2 d^2,
    r = prox(r + w, t).
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

# Newton steps between two changes of the multipliers; bisections of a step; corrections of a
# Newton step at kinks; how fast the smoothing changes; what a Newton step may leave of the
# condition.
_BETWEEN, _BISECTIONS, _CORRECTIONS, _CHANGE, _GAIN = 20, 30, 6, 5.0, 0.1


class SampleFactor(NamedTuple):
    """Residuals `A x - b` of samples; build it with `sample_factor`.

    Attributes:
      matrix: A, shape (m, n).
      target: b, shape (m,).
      basis: right singular vectors as columns, shape (n, k) with k = min(m, n).
      spectrum: squares of the singular values, shape (k,); 0 where they are rounding.
    """

    matrix: Array
    target: Array
    basis: Array
    spectrum: Array


class SampleProx(NamedTuple):
    """What the proximal map of a loss of samples found.

    Attributes:
      point: the minimiser, as the points.
      dual: slopes of the loss at the residuals, shape (..., m): `point = v - step A^T dual` but for
        rounding, which a large step enlarges. The next call takes them as its `start`.
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
        _, values, basis = decompose(fixed, None)
    else:
        _, values, rows = np.linalg.svd(np.asarray(fixed, np.float64), full_matrices=False)
        basis = np.swapaxes(rows, -1, -2)
    rounding = max(matrix.shape[-2:]) * jnp.finfo(values.dtype).eps
    seen = values > rounding * values.max(-1, initial=0, keepdims=True)
    values = values * seen.astype(values.dtype)
    basis, values = jnp.asarray(basis, matrix.dtype), jnp.asarray(values, matrix.dtype)
    return SampleFactor(matrix, target, basis, values * values)


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
      rounds: how often the multipliers change at most, each time after twenty Newton steps or less.

    Returns:
      `mapped(v, step, factor, *parameters, start=None, axis=-1)`, which returns the points; with
      `with_gap` a `SampleProx` of the points, the dual variables and the residual.

    Reference: R. T. Rockafellar, "Augmented Lagrangians and applications of the proximal point
    algorithm in convex programming", Mathematics of Operations Research 1, 1976; L. Qi and J. Sun,
    "A nonsmooth version of Newton's method", Mathematical Programming 58, 1993.
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
        step = step * jnp.ones((*point.shape[:-1], 1), point.dtype)
        rest = residuals(point, wide)
        first = jnp.zeros_like(rest) if start is None else matched(rest, start)[1]
        fixed = jax.lax.stop_gradient((rest, step, wide, first, point, numbers))
        task = _Task(*fixed[:3], partial(_scalar, prox, fixed[5]))
        s, w, unit, residual = _searched(task, rounds, fixed[3])
        # One more Newton step, of which only the derivative is kept: that of the root. A part of
        # the change of x is that of the conditions itself, so that nothing is divided by the step.
        basis, (scale, share) = fixed[2].basis, task.scales(unit)
        x = fixed[4] + times(scale * s, basis.mT)
        r = residuals(x, wide)
        off = r - _scalar(prox, numbers, r + w, unit)
        apart = x - point + step / unit * times(w, wide.matrix)
        still, at = jax.lax.stop_gradient(((off, apart), r + w))
        off, apart = off - still[0], apart - still[1]
        along = times(apart, basis)
        # No direction is outside of a square basis: only rounding, which the step would enlarge.
        square = basis.shape[-2] == basis.shape[-1]
        outside, inside = apart - (apart if square else times(along, basis.mT)), share * along
        bend = task.force(at, unit)[1]
        ds, dw = _newton(
            task,
            unit,
            bend,
            off - bend * times(times(inside, basis.mT), fixed[2].matrix.mT),
            scale * spread(fixed[2].spectrum, point.ndim) * inside,
        )
        found = x - outside + times(scale * ds - inside, basis.mT)
        kind = matched(v)[0].dtype
        dual = ((w + dw) / unit).astype(kind)
        return SampleProx(take_back(found, v, axis), dual, residual.astype(kind))

    return mapped


def residuals(x: Array, factor: SampleFactor) -> Array:
    """Return `A x - b` for points with their coordinates last."""
    return times(x, factor.matrix.mT) - spread(factor.target, x.ndim)


def _scalar(prox, numbers, y, unit):
    return prox(y, unit, *numbers)


class _Task(NamedTuple):
    """What is solved, for points (..., n) with steps (..., 1); s and w as in the module's text."""

    rest: Array  # A v - b
    step: Array
    factor: SampleFactor
    prox: Callable[[Array, Array], Array]

    def scales(self, unit):
        """Return S and G, shape (..., k)."""
        ratio, spectrum = self.step / unit, spread(self.factor.spectrum, self.rest.ndim)
        share = 1 / (1 + ratio * spectrum)
        return jnp.sqrt(jnp.where(spectrum > 0, ratio * share, 0.0)), share

    def change(self, s, unit):
        """Return A V S s."""
        moved = times(self.scales(unit)[0] * s, self.factor.basis.mT)
        return times(moved, self.factor.matrix.mT)

    def pull(self, s, unit):
        """Return `V G^(1/2) s`, which is x - v in other units; V need not be quite orthogonal."""
        return times(jnp.sqrt(self.scales(unit)[1]) * s, self.factor.basis.mT)

    def slope(self, s, w, unit):
        """Return G s + S V^T A^T w."""
        scale, share = self.scales(unit)
        parts = jnp.sqrt(share), self.pull(s, unit), scale, times(w, self.factor.matrix)
        return sum(a * times(b, self.factor.basis) for a, b in (parts[:2], parts[2:]))

    def force(self, y, unit):
        """Return `y - prox(y, t)`, which is t times a slope of the loss, and its derivative E.

        Away from kinks the derivative of the map by t is `-slope (1 - E)`: it has all digits of a
        slope, of which the difference leaves none where y is much larger.
        """
        z, along = jax.linearize(self.prox, y, unit)
        slopes = jnp.clip(along(jnp.ones_like(y), jnp.zeros_like(unit)), 0.0, 1.0)
        smooth = slopes > 0.5
        small = along(jnp.zeros_like(y), -unit) / jnp.where(smooth, slopes, 1.0)
        return jnp.where(smooth, small, y - z), 1 - slopes

    def inverse(self, weights, unit):
        """Return the inverse of `G + S V^T A^T diag(weights) A V S`."""
        scale, share = self.scales(unit)
        sides = times(self.factor.matrix, self.factor.basis)
        sides = sides.reshape((1,) * (weights.ndim - 1) + sides.shape) * scale[..., None, :]
        return _inverse(times(sides.mT, weights[..., None] * sides) + _diagonal(share))


def _length(*parts):
    return safe_norm(jnp.concatenate(parts, -1), keepdims=True)


def _searched(task, rounds, start):
    """Return s, w, the unit, and what remains of the optimality condition."""
    eps = jnp.finfo(start.dtype).eps

    def condition(s, w, unit):
        """Return r - prox(r + w), the slope, the bends, and their size relative to their terms."""
        r, slope = task.rest + task.change(s, unit), task.slope(s, w, unit)
        force, bend = task.force(r + w, unit)
        kink = bend >= 0.5
        off = jnp.where(kink, r - (r + w - force), force - w)
        at, *terms = (jnp.where(kink, part, 0.0) for part in (off, task.rest, r, w))
        size = safe_ratio(_length(at), _length(*terms))
        terms = w, force, task.scales(unit)[1] * s
        return off, slope, bend, size + safe_ratio(_length(off - at, slope), _length(*terms))

    def descend(carry):
        """Take a Newton step for the smoothed loss, all of it or to the least loss along it."""
        s, w, unit, _, done = carry
        y = task.rest + task.change(s, unit) + w
        force, bend = task.force(y, unit)
        slope = task.slope(s, force, unit)
        ds = -_applied(task.inverse(bend, unit), slope)
        dy, pull, dpull = task.change(ds, unit), task.pull(s, unit), task.pull(ds, unit)

        def rise(length):
            moved = task.force(y + length * dy, unit)[0]
            parts = jnp.concatenate((dpull * (pull + length * dpull), dy * moved), -1)
            return jnp.sum(parts, -1, keepdims=True)

        def halve(carry):
            low, high, done = carry
            middle = jnp.sqrt(low * high)
            falls = rise(middle) <= 0
            return jnp.where(falls, middle, low), jnp.where(falls, high, middle), done + 1

        one = jnp.ones_like(unit)
        full = jnp.abs(rise(one)) <= -0.5 * jnp.sum(ds * slope, -1, keepdims=True)
        ends = (1e-12 * one, 4 * one, jnp.int32(0))
        low, *_ = while_loop(lambda c: jnp.any(~full) & (c[2] < _BISECTIONS), halve, ends)
        length = jnp.where(full, 1.0, low)
        enough = _length(slope) <= 0.1 * _length(force - w) + 4 * eps * _length(force)
        return s + length * ds, w, unit, enough, done + 1

    def improve(carry):
        s, w, unit, ratio, before, done = carry
        # The smoothed loss is minimised in a smaller unit, the condition is that of the unit.
        s, w, smooth = turned(s, w, unit, ratio)
        begin = (s, w, smooth, before < 0, jnp.int32(0))
        s = while_loop(lambda c: jnp.any(~c[3]) & (c[4] < _BETWEEN), descend, begin)[0]
        r = task.rest + task.change(s, smooth)
        s, w, unit = turned(s, task.force(r + w, smooth)[0], smooth, fitting(r) / smooth)
        off, slope, bend, size = condition(s, w, unit)
        ds, dw = _newton(task, unit, bend, off, slope)
        jumped = condition(s + ds, w + dw, unit)[3]
        better = jumped < _GAIN * size
        s, w = jnp.where(better, s + ds, s), jnp.where(better, w + dw, w)
        size = jnp.where(better, jumped, size)
        # The smaller the smoothing, the faster the multipliers.
        slow = (size > 0.3 * before) & (ratio > eps ** (1 / 3))
        return s, w, unit, jnp.where(slow, ratio / _CHANGE, ratio), size, done + 1

    def turned(s, w, unit, ratio):
        """Return s, w and the unit in another one."""
        other = task.scales(unit * ratio)[0]
        return s * safe_ratio(task.scales(unit)[0], other), w * ratio, unit * ratio

    def fitting(r):
        """Return a unit: a mean size of residuals that few outliers do not raise."""
        sizes = (jnp.mean(jnp.sqrt(jnp.abs(part)), -1, keepdims=True) for part in (task.rest, r))
        most = task.step * jnp.max(task.factor.spectrum, initial=0)
        unit = jnp.minimum(jnp.maximum(*sizes) ** 2, most)
        return jnp.where(unit > 0, unit, 1.0)

    def goes_on(carry):
        return jnp.any(carry[4] > 64 * eps) & (carry[5] < rounds)

    unit = fitting(task.rest)
    w, (scale, share) = unit * start, task.scales(unit)
    s = -safe_ratio(task.slope(jnp.zeros_like(scale), w, unit), share)
    carry = (s, w, unit, jnp.ones_like(unit), condition(s, w, unit)[3], jnp.int32(0))
    s, w, unit, _, size, _ = while_loop(goes_on, improve, carry)
    return s, w, unit, size[..., 0]


def _newton(task, unit, bend, off, slope):
    """Return the Newton step of s and w, linear in `off = r - prox(r + w)` and in the slope.

    With B = A V S, E the bend and D = I - E it solves `G ds + B^T dw = -slope` and
    `E B ds - D dw = -off`. At a kink D is 0 and the second equation a constraint: D + delta E takes
    its place, and the difference is corrected with the last dw, as by multipliers.
    """
    eps = jnp.finfo(off.dtype).eps
    delta = eps ** (1 / 3)
    soft = 1 - bend + delta * bend
    inverse = task.inverse(bend / soft, unit)

    def correct(carry, _):
        ds, dw = carry
        ahead = (off + bend * task.change(ds, unit) + delta * bend * dw) / soft
        down = slope + task.slope(ds, ahead, unit)
        more = -_applied(inverse, down)
        return (ds + more, ahead + bend / soft * task.change(more, unit)), None

    none = (jnp.zeros_like(slope), jnp.zeros_like(off))
    return scan(correct, none, length=_CORRECTIONS)[0]


def _applied(matrix, vector):
    return times(matrix, vector[..., None])[..., 0]


_diagonal = jnp.vectorize(jnp.diag, signature="(k)->(k,k)")


@partial(jnp.vectorize, signature="(k,k)->(k,k)")
def _inverse(matrix):
    """Invert a positive definite matrix, and a ridge for rounding, by Gauss-Jordan elimination."""
    if not matrix.size:
        return matrix
    places = jnp.arange(matrix.shape[-1])
    ridge = 64 * jnp.finfo(matrix.dtype).eps * jnp.max(jnp.abs(matrix), initial=0)

    def eliminate(a, k):
        here = places == k
        row, column = jnp.where(here, 1, a[k]) / a[k, k], jnp.where(here, -1, a[:, k])
        rest = jnp.where(here[:, None] | here[None], 0, a)
        return rest - column[:, None] * row[None], None

    return scan(eliminate, matrix + ridge * jnp.eye(*matrix.shape, dtype=matrix.dtype), places)[0]
