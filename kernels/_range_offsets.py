"""Proximal maps of ranges that share an unknown offset, for one position or a path of them.

An anchor at `a` measures ranges to positions `x_t`. With its offset `b` it costs

    f(x) = min over lower <= b <= upper of
               sum_ti w_ti | ||x_t - a|| + c_t + b - d_ti | + precision (b - centre)^2 / 2

where `c_t` is a coordinate of its own that all anchors share, such as the offset of a clock, or 0.
The minimiser over `x_t` of a function of `||x_t - a||` plus a square lies on the ray from the
anchor through the point, and in the radii, the `c_t` and `b` together the problem is convex: radii
are at least 0, and `|rho + c + b - d|` is convex in all three. It is solved without local minima.

For a given `b` each time is a problem of one number `s = rho + c + b`. With the knots `d_1 <= ...
<= d_n` of a sum of weighted moduli and its slopes `m_0 < ... < m_n` between them,

    argmin_s sum_i w_i |s - d_i| + (s - v)^2 / (2 step) = max over k of min(d_(k+1), v - step m_k)

with `d_(n+1)` infinite, because a rising and a falling sequence cross once. The derivative in `b`
of what remains is a nondecreasing function, piecewise linear, whose zero is found by bisection and
one Newton step, which carries the derivatives.
"""

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from fedjax_admm.kernels._arguments import matched
from fedjax_admm.kernels._loops import scan
from fedjax_admm.kernels._safe import safe_norm
from fedjax_admm.kernels.compiling import Real, Size, Upper


def prox_ranges(
    p: Array,
    anchor: Array,
    distances: Array,
    step: Size,
    weights: Size = 1.0,
    *,
    pull: Real = 0.0,
    centre: Real = 0.0,
    precision: Size | None = None,
    lower: Real = -jnp.inf,
    upper: Upper = jnp.inf,
) -> tuple[Array, Array]:
    """Proximal map of an anchor's ranges to a path, jointly with the offset of the anchor.

    `Prox(p; step)` minimises `f(x) + sum_t pull_t ||x_t - anchor|| + ||x - p||^2 / (2 step)` with
    `f(x) = min_b sum_ti w_ti | ||x_t - anchor|| + c_t + b - d_ti | + precision (b - centre)^2 / 2`
    over `lower <= b <= upper`. Points may have one column more than the anchor: then the last one
    is `c_t`, a common offset, else `c_t = 0`. The result is a global minimiser, unless `pull` is so
    negative that the sum is no longer convex in the radius. Where `p_t = anchor` no direction is
    distinguished, and the first axis is taken. Where more than one offset is best, the result is
    one of them.

    At kinks the derivative is a mean of those of both sides.

    Args:
      p: points, shape (..., times, dim) or (..., times, dim + 1), floating dtype.
      anchor: shape (..., dim).
      distances: ranges, shape (..., times, ranges); finite, also where the weight is 0.
      step: shape (...); positive where there is an offset.
      weights: not negative, broadcast against `distances`; 0 for a range that is missing.
      pull: weight of the radius itself, broadcast against (..., times).
      centre: of the offset's prior, shape (...).
      precision: of the offset's prior, shape (...); no offset (`b = 0`) if None.
      lower: least offset, shape (...).
      upper: largest offset, shape (...).

    Returns:
      Minimisers, shape and dtype of `p`, and the offset, shape (...).

    Reference: R. Mirzaeifard, A. Moradi, M. Yukawa, S. Werner, "Federated Smoothing ADMM for
    Localization", arXiv:2503.09497 (2025), equations (15)-(18), is the case of one range without an
    offset; Y. Li, S. Osher, "A new median formula with applications to PDE based denoising",
    Communications in Mathematical Sciences 7(3), 2009 (sums of moduli).
    """
    p, step, anchor, distances, weights, pull = matched(p, step, anchor, distances, weights, pull)
    dim = anchor.shape[-1]
    offset = p[..., :dim] - anchor[..., None, :]
    radius = safe_norm(offset)
    clock = p[..., dim] if p.shape[-1] > dim else None
    step = jnp.asarray(step)[..., None]
    cells = _Cells(radius - step * pull, clock, step, *_knots(distances, weights))
    if precision is None:
        best = jnp.zeros(radius.shape[:-1], p.dtype)
    else:
        _, _, centre, precision, lower, upper = matched(p, 1.0, centre, precision, lower, upper)
        best = _best_offset(cells, distances, weights, centre, precision)
        best = jnp.clip(best, lower, upper)
    inside, shared, _ = cells.at(best)
    distinguished = (radius > 0)[..., None]
    size = jnp.where(distinguished[..., 0], radius, 1.0)[..., None]
    first = jnp.zeros(dim, p.dtype).at[0].set(1)
    direction = jnp.where(distinguished, offset / size, first)
    moved = p[..., :dim] + (inside - radius)[..., None] * direction
    if clock is not None:
        moved = jnp.concatenate([moved, shared[..., None]], -1)
    return moved, best


def range_offset(
    lengths: Array,
    distances: Array,
    weights: Size = 1.0,
    *,
    centre: Real = 0.0,
    precision: Size = 0.0,
    lower: Real = -jnp.inf,
    upper: Upper = jnp.inf,
) -> tuple[Array, Array]:
    """Best offset of an anchor at given lengths, and the slopes of its loss in them.

    The offset minimises `sum_i w_i |l_i + b - d_i| + precision (b - centre)^2 / 2` over `lower <= b
    <= upper`: a weighted median that the prior draws to its centre. It is the centre where no range
    has a weight. The slopes `g_i` are a subgradient of that minimum in the lengths, so that
    `sum_i g_i = -precision (b - centre)` unless `b` is at a bound; ranges that are met exactly
    share what balances the others in proportion to their weights.

    Args:
      lengths: shape (..., ranges), floating dtype.
      distances: likewise; finite, also where the weight is 0.
      weights: likewise, not negative.
      centre: of the prior, shape (...).
      precision: of the prior, shape (...), not negative.
      lower: least offset, shape (...).
      upper: largest offset, shape (...).

    Returns:
      The offset, shape (...), and the slopes, shape (..., ranges).

    Reference: derived from the optimality condition `0 in sum_i w_i sign(l_i + b - d_i) + precision
    (b - centre)`; without a prior it is the weighted median.
    """
    lengths, _, distances, weights, centre, precision, lower, upper = matched(
        lengths, 1.0, distances, weights, centre, precision, lower, upper
    )
    weights = jnp.broadcast_to(weights, jnp.broadcast_shapes(lengths.shape, weights.shape))
    gaps = jnp.broadcast_to(distances - lengths, weights.shape)
    knots, slopes = _knots(gaps, weights)
    informed = (precision > 0)[..., None]
    drawn = centre[..., None] - slopes / jnp.where(informed, precision[..., None], 1.0)
    flat = jnp.where(slopes < 0, jnp.inf, -jnp.inf)
    best = jnp.max(jnp.minimum(knots, jnp.where(informed, drawn, flat)), -1)
    best = jnp.where(slopes[..., -1] > 0, best, centre)
    inside = (best > lower) & (best < upper)
    best = jnp.clip(best, lower, upper)
    # A knot is met exactly: the offset has its bits.
    residual = best[..., None] - gaps
    exact = residual == 0
    bent = weights * jnp.sign(residual)
    rest = jnp.sum(bent, -1) + precision * (best - centre)
    loose = jnp.sum(jnp.where(exact, weights, 0.0), -1)
    some = (loose > 0) & inside
    share = jnp.where(some, jnp.clip(-rest / jnp.where(some, loose, 1.0), -1.0, 1.0), 0.0)
    return best, jnp.where(exact, weights * share[..., None], bent)


def _knots(distances: Array, weights: Array) -> tuple[Array, Array]:
    """Return sorted knots, the last one infinite, and slopes between them, (..., ranges + 1)."""
    shape = jnp.broadcast_shapes(distances.shape, weights.shape)
    distances, weights = jnp.broadcast_to(distances, shape), jnp.broadcast_to(weights, shape)
    if shape[-1] > 1:
        order = jnp.argsort(distances, -1)
        distances = jnp.take_along_axis(distances, order, -1)
        weights = jnp.take_along_axis(weights, order, -1)
    nothing = jnp.zeros((*shape[:-1], 1), weights.dtype)
    below = jnp.concatenate([nothing, jnp.cumsum(weights, -1)], -1)
    knots = jnp.concatenate([distances, jnp.full_like(nothing, jnp.inf)], -1)
    return knots, 2 * below - below[..., -1:]


def _crossing(v: Array, step: Array, knots: Array, slopes: Array) -> Array:
    """Return the prox of a sum of weighted moduli, given by its knots and slopes."""
    return jnp.max(jnp.minimum(knots, v[..., None] - step[..., None] * slopes), -1)


class _Cells:
    """The problem of each time for a given offset: radii and common offsets, (..., times)."""

    def __init__(self, radius, clock, step, knots, slopes):
        self.radius, self.clock, self.step = radius, clock, step
        self.knots, self.slopes = knots, slopes

    def at(self, offset: Array) -> tuple[Array, Array, Array]:
        """Return the radii, the common offsets and the derivatives in the offset."""
        offset = offset[..., None]
        if self.clock is None:
            v = self.radius + offset
            s = _crossing(v, self.step, self.knots, self.slopes)
            ends = s - offset < 0
            # At the radius 0 the slope is that of the piece in which the offset lies.
            piece = jnp.sum(self.knots <= offset[..., None], -1)
            steep = jnp.take_along_axis(self.slopes, piece[..., None], -1)[..., 0]
            slope = (v - s) / self.step
            return jnp.maximum(s - offset, 0.0), offset, jnp.where(ends, steep, slope)
        v = self.radius + self.clock + offset
        s = _crossing(v, jnp.multiply(self.step, 2), self.knots, self.slopes)
        half = (s - v) / 2
        ends = self.radius + half < 0
        at_zero = _crossing(self.clock + offset, self.step, self.knots, self.slopes)
        shared = jnp.where(ends, at_zero - offset, self.clock + half)
        return jnp.where(ends, 0.0, self.radius + half), shared, (self.clock - shared) / self.step


def _best_offset(cells, distances, weights, centre, precision):
    """Return the offset at which the derivative of what the times cost changes its sign."""

    def derivative(offset):
        return jnp.sum(cells.at(offset)[2], -1) + precision * (offset - centre)

    reached = jnp.maximum(cells.radius, 0.0)
    reached = reached if cells.clock is None else reached + cells.clock
    gaps = distances - reached[..., None]
    inner = jnp.broadcast_to(centre, reached.shape[:-1])
    counts = weights > 0
    least = jnp.minimum(inner, jnp.min(jnp.where(counts, gaps, jnp.inf), (-2, -1)))
    most = jnp.maximum(inner, jnp.max(jnp.where(counts, gaps, -jnp.inf), (-2, -1)))

    def halve(ends, _):
        low, high = ends
        middle = low + (high - low) / 2
        over = derivative(middle) > 0
        return (jnp.where(over, low, middle), jnp.where(over, middle, high)), None

    bits = jnp.finfo(inner.dtype).nmant + 3
    ends = (stop_gradient(least), stop_gradient(most))
    (low, high), _ = scan(halve, ends, length=bits)
    low, high = stop_gradient((low, high))
    middle = low + (high - low) / 2
    value, slope = jax.jvp(derivative, (middle,), (jnp.ones_like(middle),))
    bent = slope > 0
    change = jnp.where(bent, value / jnp.where(bent, slope, 1.0), 0.0)
    # A jump of the derivative has its zero between both ends already.
    room = 2 * (high - low) + 4 * jnp.finfo(inner.dtype).eps * jnp.abs(middle)
    return middle - jnp.where(jnp.abs(change) <= room, change, 0.0)
