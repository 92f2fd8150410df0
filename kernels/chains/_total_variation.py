"""Total variation on chains, alone and with the absolute value: exact in linear time."""

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from fedjax_admm.kernels._arguments import length_along, matched, widened
from fedjax_admm.kernels.chains._centred import centred
from fedjax_admm.kernels.chains._segments import chain_segments
from fedjax_admm.kernels.compiling import Size
from fedjax_admm.kernels.elementwise._absolute import soft_threshold


def prox_tv1d(v: Array, step: Size, weights: Size = 1.0, axis: int = -1) -> Array:
    """Proximal map of the total variation of a chain, `g(x) = sum_i w_i |x_{i+1} - x_i|`.

    `Prox(v; step)` is constant on segments of the chain: on each it is `mean(v) + step (w_r s_r
    - w_l s_l) / length`, where `s_r` and `s_l` are the signs of the jumps `x_{i+1} - x_i` at
    the right and the left end (0 at the ends of the chain). The segments are found exactly, by
    dynamic programming in linear time; the means are taken of distances to an estimate of them,
    so that an offset of all entries costs no accuracy. A chain with an entry that is not finite
    gives NaN.

    Ties: none, the minimiser is unique. Derivative: a segment averages that of the point, and moves
    with the step by `(w_r s_r - w_l s_l) / length`. At a kink, where two segments merge, it is that
    of one side, with the segments as they are found; at `step = 0` equal neighbours are one
    segment, which is the derivative from above.

    Args:
      weights: `w` of the links, at least 0; a number, or of the size of `v` less 1 (or 1) along
        `axis`. A weight of 0 cuts the chain, an infinite one ties two entries.

    Reference: N. A. Johnson, "A dynamic programming algorithm for the fused lasso and
    L0-segmentation", Journal of Computational and Graphical Statistics 22(2), 2013; L. I. Rudin, S.
    Osher and E. Fatemi, "Nonlinear total variation based noise removal algorithms", Physica D 60,
    1992.
    """
    v, step, weights = matched(v, step, weights)
    rows, links, cut = _rows(v, step, weights, axis)
    if rows.shape[-1] < 2 or rows.size == 0:
        return jnp.moveaxis(rows, -1, axis).astype(v.dtype)
    estimate, signs, sound = _estimate(stop_gradient(rows), stop_gradient(links), cut)
    # What pulls at an entry; an infinite link is within a segment, where its sign is 0.
    pulls = signs * jnp.where(signs == 0, 0.0, links)
    nothing = jnp.zeros_like(rows[..., :1])
    pulled = jnp.concatenate([pulls, nothing], -1) - jnp.concatenate([nothing, pulls], -1)
    begins = jnp.concatenate([nothing == 0, cut | (signs != 0)], -1)
    total, count = _segment_sums(rows - estimate + pulled, begins)
    found = jnp.where(count == 1, rows + pulled, estimate + total / count)
    found = jnp.where(sound, found, jnp.nan)
    return jnp.moveaxis(found, -1, axis).astype(v.dtype)


def _rows(v: Array, step: Array, weights: Array, axis: int) -> tuple[Array, Array, Array]:
    """Return chains along the last axis, the strengths of their links, and which links cut."""
    weights = weights if weights.ndim else jnp.full((1,) * v.ndim, weights)
    size = length_along(v, axis)
    # Infinite numbers become the largest: with them, 0 has products and derivatives.
    v, step, weights = (widened(a) for a in (v, step, weights))
    largest = float(jnp.finfo(v.dtype).max)
    links = jnp.minimum(step, largest) * jnp.minimum(weights, largest)
    v, links, weights = (jnp.moveaxis(a, axis, -1) for a in (v, links, weights))
    batch = jnp.broadcast_shapes(v.shape[:-1], links.shape[:-1])
    inner = (*batch, max(size - 1, 0))
    links = jnp.broadcast_to(links, inner)
    return jnp.broadcast_to(v, (*batch, size)), links, jnp.broadcast_to(weights == 0, inner)


def _segment_sums(x: Array, begins: Array) -> tuple[Array, Array]:
    """Return for every entry the sum over its segment, and how many entries that has."""
    ids = jnp.cumsum(begins.reshape(-1), dtype=jnp.int32) - 1

    def summed(a: Array) -> Array:
        found = jax.ops.segment_sum(a.reshape(-1), ids, a.size, indices_are_sorted=True)
        return found[ids].reshape(a.shape)

    return summed(x), summed(jnp.ones_like(x))


def _estimate(rows: Array, links: Array, cut: Array) -> tuple[Array, Array, Array]:
    """Return minimisers up to rounding, the signs of their jumps, and which chains are sound."""
    size = rows.shape[-1]
    sound = jnp.all(jnp.isfinite(rows), -1, keepdims=True)
    sound &= ~jnp.any(jnp.isnan(links), -1, keepdims=True)
    rows, links = jnp.where(sound, rows, 0.0), jnp.where(sound, links, 0.0)
    scaled, middle, scale = centred(rows, -1)
    # No flow over a link exceeds the size times the range: stronger links are as strong.
    strengths = jnp.minimum(links / scale, 4.0 * size + 1)
    strengths = jnp.concatenate([strengths, jnp.zeros_like(rows[..., :1])], -1)
    flat = scaled.reshape(-1), strengths.reshape(-1)
    found, signs = (part.reshape(rows.shape) for part in chain_segments(*flat))
    # Over a link of weight 0 signs move no value; a jump of rounding must not move a derivative.
    even = cut & (jnp.abs(jnp.diff(found, axis=-1)) <= 16 * float(jnp.finfo(found.dtype).eps))
    return middle + scale * found, jnp.where(even, 0, signs[..., :-1]), sound


def tv1d_value(x: Array, weights: Size = 1.0, axis: int = -1) -> Array:
    """Total variation of a chain, `g(x) = sum_i w_i |x_{i+1} - x_i|`.

    Derivative at `x_{i+1} = x_i`: that of `|.|` there is 0, the middle of the subdifferential.
    """
    x, weights = matched(x, weights)
    jumps = jnp.diff(widened(x), axis=axis)
    sizes = jumps * stop_gradient(jnp.sign(jumps))
    # A link without a jump costs nothing, however strong it is.
    weighted = jnp.where(sizes == 0, sizes, widened(weights) * sizes)
    return jnp.sum(weighted, axis=axis).astype(x.dtype)


def prox_fused_lasso(v: Array, step: Size, l1: Size, tv: Size, axis: int = -1) -> Array:
    """Proximal map of the fused lasso, `g(x) = l1 sum_i |x_i| + tv sum_i |x_{i+1} - x_i|`.

    `Prox(v; step) = S(Prox_tv(v; step tv), step l1)` with the soft threshold `S` and the map of the
    total variation `prox_tv1d`: thresholding does not part what that has fused.

    Ties: none, the minimiser is unique. Derivative: that of `prox_tv1d`, times 1 above and 0 below
    the threshold, and 1/2 at it.

    Args:
      l1: weight of the absolute values, at least 0, as `step`.
      tv: weight of the total variation, at least 0, as `step`.

    Reference: J. Friedman, T. Hastie, H. Hoefling and R. Tibshirani, "Pathwise coordinate
    optimization", Annals of Applied Statistics 1(2), 2007 (the fused lasso signal approximator, and
    that thresholding follows fusing).
    """
    v, step, l1, tv = matched(v, step, l1, tv)
    return soft_threshold(prox_tv1d(v, step * tv, axis=axis), step * l1)


def fused_lasso_value(x: Array, l1: Size, tv: Size, axis: int = -1) -> Array:
    """Penalty of the fused lasso, `g(x) = l1 sum_i |x_i| + tv sum_i |x_{i+1} - x_i|`.

    Derivative at `x_i = 0` and at `x_{i+1} = x_i`: 0, the middle of the subdifferential.
    """
    x, l1, tv = matched(x, l1, tv)
    wide = widened(x)
    sizes = jnp.sum(widened(l1) * wide * stop_gradient(jnp.sign(wide)), axis=axis)
    return (sizes + tv1d_value(wide, widened(tv), axis)).astype(x.dtype)
