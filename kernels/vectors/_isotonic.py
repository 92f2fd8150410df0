"""Projection onto the ordered cone: isotonic regression."""

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.lax import broadcasted_iota, fori_loop

from fedjax_admm.kernels._arguments import Real, matched, widened
from fedjax_admm.kernels._safe import safe_ratio
from fedjax_admm.kernels.vectors._thresholds import along, falling_root, headroom

# Vectors up to the one length are put in order entry after entry, longer ones in chunks.
_LONGEST, _CHUNK = 128, 32


def project_isotonic(
    v: Array, weights: Real = 1.0, axis: int = -1, increasing: bool = True
) -> Array:
    """Project onto the ordered cone `x_1 <= x_2 <= ... <= x_n` along an axis.

    `x_i = max_{j <= i} min_{k >= i} mean(v_j, ..., v_k)`: violators are pooled to their mean. With
    weights it is the nearest point in `sum weights (x - v)**2`, with weighted means. Short chunks
    are put in order entry after entry, all at once; halves that are in order are joined by pooling
    the end of one with the beginning of the other, a few passes for each level of halves.

    Derivative: the mean over the block of an entry; equal neighbours count as one block.

    Args:
      v: points, any shape, floating dtype; the entries lie along `axis`.
      weights: above 0; broadcasts with `v`, or has one axis, and lies along `axis`.
      axis: the axis along which entries are in order.
      increasing: whether they rise; else they fall.

    Returns:
      Projections, broadcast shape, dtype of `v`.

    Reference: M. J. Best and N. Chakravarti, "Active set algorithms for isotonic regression; a
    unifying framework", Mathematical Programming 47, 1990 (pooling); the joining of halves is
    derived in the comments.
    """
    v, weights = matched(v, weights)
    weights = along(v, weights, axis)
    dtype, places = v.dtype, jnp.broadcast_shapes(v.shape, weights.shape)
    v, weights = (jnp.broadcast_to(widened(part), places) for part in (v, weights))
    v, weights = jnp.moveaxis(v, axis, -1), jnp.moveaxis(weights, axis, -1)
    found = ordered_fit(v, weights) if increasing else -ordered_fit(-v, weights)
    return jnp.moveaxis(found.astype(dtype), -1, axis)


@jax.custom_jvp
def ordered_fit(v: Array, weights: Array) -> Array:
    """Return the nearest points that rise along the last axis.

    Derivative: the mean over the block of an entry; equal neighbours count as one block.

    Args:
      v: float32 or float64.
      weights: above 0, the shape of `v`.

    Returns:
      The nearest points, the shape of `v`.
    """
    *batch, size = v.shape
    if size < 2:
        return v
    chunk = size if size <= _LONGEST else _CHUNK
    chunks = -(-size // chunk)
    top = jnp.max(v, axis=-1, keepdims=True)
    scale = headroom(jnp.maximum(top, -jnp.min(v, axis=-1, keepdims=True)))
    # Entries without weight above all others fill the last chunk.
    room = [(0, 0)] * len(batch) + [(0, chunks * chunk - size)]
    x = jnp.pad(v, room)
    x = jnp.where(broadcasted_iota(jnp.int32, x.shape, x.ndim - 1) < size, x, top) / scale
    x, w = (part.reshape(*batch, chunks, chunk) for part in (x, jnp.pad(weights, room)))
    x = _inserted(x, w)
    levels = (chunks - 1).bit_length()
    if levels:
        x = fori_loop(0, levels, lambda level, x: _joined(x, w, 1 << level), x)
    return scale * x.reshape(*batch, chunks * chunk)[..., :size]


@ordered_fit.defjvp
def _ordered_fit_jvp(primals, tangents):
    (v, weights), (moved, heavier) = primals, tangents
    x = ordered_fit(v, weights)
    blocks = blocks_of(x)

    def total(parts):
        return jax.ops.segment_sum(jnp.ravel(parts), blocks, x.size, indices_are_sorted=True)

    means = safe_ratio(total(weights * moved + heavier * (v - x)), total(weights))
    return x, means[blocks].reshape(x.shape)


def blocks_of(x: Array) -> Array:
    """Return the number of the block of every entry: equal neighbours along the last axis are one.

    Args:
      x: any shape.

    Returns:
      Numbers from 0 on, flat, in the order of the entries.
    """
    begins = jnp.concatenate([jnp.ones_like(x[..., :1], bool), x[..., 1:] != x[..., :-1]], -1)
    return jnp.cumsum(jnp.ravel(begins)) - 1


def _inserted(v: Array, w: Array) -> Array:
    """Return the fit of every chunk, entry after entry.

    With entry t, the fit of the last one is `m_t = max_j mean(v_j, ..., v_t)`, and what stood
    before comes down to it: `x_i = min_{t >= i} m_t`. The sums are of differences from `v_t`.
    """
    place = broadcasted_iota(jnp.int32, v.shape, v.ndim - 1)

    def insert(t, carry):
        x, sums, weight, before = carry
        now = lax.dynamic_index_in_dim(v, t, -1)
        sums = jnp.where(place < t, sums + weight * (before - now), 0.0)
        weight = weight + jnp.where(place <= t, lax.dynamic_index_in_dim(w, t, -1), 0.0)
        means = jnp.where((place < t) & (weight > 0), sums, 0.0) / jnp.where(weight > 0, weight, 1)
        level = now + jnp.max(means, axis=-1, keepdims=True)
        return jnp.where(place <= t, jnp.minimum(x, level), x), sums, weight, now

    # Sums of nothing, in the form of the entries.
    none = jnp.zeros_like(v)
    carry = (jnp.full_like(v, jnp.inf), none, none, v[..., :1])
    return fori_loop(0, v.shape[-1], insert, carry)[0]


def _joined(x: Array, w: Array, half: Array | int) -> Array:
    """Return chunks (..., chunks, entries), in order by halves, in order by pairs of halves.

    What is pooled is the end of the first half above a level m and the beginning of the second
    half below it, where m is their mean: `sum_first w max(x - m, 0) = sum_second w max(m - x, 0)`.
    The difference of both sides falls in m along a broken line, so that m is its root.
    """
    chunk = jnp.arange(x.shape[-2])
    pair = chunk // (2 * half)
    middle = (2 * pair + 1) * half
    begin = jnp.take(x[..., :1], middle, axis=-2, mode="clip")
    last = jnp.take(x[..., -1:], middle - 1, axis=-2, mode="clip")
    place = broadcasted_iota(chunk.dtype, begin.shape, begin.ndim - 2)
    second = place // half % 2 == 1
    crossed = (last > begin) & (place // (2 * half) * 2 * half + half < x.shape[-2])
    begin, last = jnp.where(crossed, begin, 0.0), jnp.where(crossed, last, 0.0)
    known = float(jnp.finfo(x.dtype).eps) * (last - begin)

    def total(parts):
        parts = jnp.sum(parts, axis=-1, keepdims=True)
        return jnp.zeros_like(parts).at[..., pair, :].add(parts)[..., pair, :]

    def at(level):
        moved = x - level
        # The first half has no part that is negative, the second none that is positive.
        pooled = crossed & jnp.where(second, moved < 0, moved > 0)
        slope = total(jnp.where(pooled, w, 0.0))
        return total(jnp.where(pooled, w * moved, 0.0)), slope, slope * known

    level = falling_root(at, begin / 2 + last / 2, begin, last)
    ordered = jnp.where(second, jnp.maximum(x, level), jnp.minimum(x, level))
    return jnp.where(crossed, ordered, x)
