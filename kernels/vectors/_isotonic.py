"""Projection onto the ordered cone: isotonic regression, by pooling in linear time."""

import jax
import jax.numpy as jnp
from jax import Array, lax

from fedjax_admm.kernels._arguments import along, matched, undefined_by, widened
from fedjax_admm.kernels._loops import scan, while_loop
from fedjax_admm.kernels._safe import safe_ratio
from fedjax_admm.kernels.compiling import Size
from fedjax_admm.kernels.vectors._thresholds import headroom


def project_isotonic(
    v: Array, weights: Size = 1.0, axis: int = -1, increasing: bool = True
) -> Array:
    """Project onto the ordered cone `x_1 <= x_2 <= ... <= x_n` along an axis.

    `x_i = max_{j <= i} min_{k >= i} mean(v_j, ..., v_k)`: violators are pooled to their mean. With
    weights it is the nearest point in `sum weights (x - v)**2`, with weighted means. Entry after
    entry joins the blocks before it that are not below it, in linear time; means are kept to twice
    the precision, so that an offset of all entries costs no accuracy. Made for CPUs: on a GPU a
    long vector takes a round for every entry, and only the rows of a batch run side by side.

    Derivative: the mean over the block of an entry; equal neighbours count as one block.

    Args:
      weights: above 0; one for all points, or one for each.
      axis: the axis along which entries are in order.
      increasing: whether they rise; else they fall.

    Reference: M. J. Best and N. Chakravarti, "Active set algorithms for isotonic regression; a
    unifying framework", Mathematical Programming 47, 1990 (pooling).
    """
    v, weights = matched(v, weights)
    weights = along(v, weights, axis)
    dtype, places = v.dtype, jnp.broadcast_shapes(v.shape, weights.shape)
    v, weights = (jnp.broadcast_to(widened(part), places) for part in (v, weights))
    v, weights = jnp.moveaxis(v, axis, -1), jnp.moveaxis(weights, axis, -1)
    found = ordered_fit(v, weights) if increasing else -ordered_fit(-v, weights)
    return jnp.moveaxis(undefined_by(found, weights).astype(dtype), -1, axis)


@jax.custom_jvp
def ordered_fit(v: Array, weights: Array) -> Array:
    """Return the nearest points that rise along the last axis, float32 or float64.

    Derivative: the mean over the block of an entry; equal neighbours count as one block.
    """
    size = v.shape[-1]
    if size < 2 or v.size == 0:
        return v
    scale = headroom(jnp.max(jnp.abs(v), axis=-1, keepdims=True))
    # Means of entries without weight are those of entries with little.
    weights = jnp.maximum(weights, float(jnp.finfo(v.dtype).tiny))
    rows = ((v / scale).reshape(-1, size), weights.reshape(-1, size))
    first = jnp.arange(size) == 0
    return scale * jax.vmap(pooled, (0, 0, None))(*rows, first).reshape(v.shape)


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
    """Return the number of the block of every entry, flat: equal neighbours are one block."""
    begins = jnp.concatenate([jnp.ones_like(x[..., :1], bool), x[..., 1:] != x[..., :-1]], -1)
    return jnp.cumsum(jnp.ravel(begins)) - 1


@jax.custom_batching.custom_vmap
def pooled(v: Array, w: Array, begins: Array) -> Array:
    """Return the fit of rows that lie one behind the other, each begun where `begins` is True.

    A stack holds the blocks so far, their means rising: an entry is a block that joins the one
    before as long as that is not below it. NaN is above and below nothing: it takes the row.
    A mean is the sum of two numbers, the second the rounding of the first. Points (n,) are at most
    half the largest number; weights are above 0. No derivatives: those follow from the blocks.
    """

    def enter(carry, entry):
        def violates(carry):
            top, (mean, rest, _, start) = carry
            before, more = stack[0][top], stack[1][top]
            below = (before < mean) | ((before == mean) & (more <= rest))
            return ~(begins[start] | below)

        def join(carry):
            top, (mean, rest, weight, _) = carry
            before, more, weight_before, start = (part[top] for part in stack)
            total = weight_before + weight
            # The heavier one moves, by little: what rounding takes from that adds up to nothing.
            lighter = weight < weight_before
            share = jnp.where(lighter, weight, -weight_before) / total
            gap = mean - before + (rest - more)
            moved = jnp.where(lighter, more, rest) + share * gap
            base = jnp.where(lighter, before, mean)
            finite = jnp.isfinite(gap)
            joined = jnp.where(finite, base + moved, before + mean)
            rest = jnp.where(finite, moved - (joined - base), 0.0)
            return top - 1, (joined, rest, total, start)

        top, stack = carry
        value, weight, place = entry
        block = value, jnp.zeros_like(value), weight, place
        top, block = while_loop(violates, join, (top, block))
        stack = tuple(
            lax.dynamic_update_index_in_dim(part, number, top + 1, 0)
            for part, number in zip(stack, block, strict=True)
        )
        return (top + 1, stack), None

    def spread(top, place):
        return jnp.where(starts[top] == place, top - 1, top), means[top]

    places, none = jnp.arange(v.size, dtype=jnp.int32), jnp.zeros_like(v)
    start = jnp.asarray(-1, jnp.int32), (none, none, none, places)
    (top, (means, *_, starts)), _ = scan(enter, start, (v, w, places))
    return scan(spread, top, places, reverse=True)[1]


@pooled.def_vmap
def _batched(size, batched, *arguments):
    parts = [
        part if mapped else jnp.broadcast_to(part, (size, *part.shape))
        for part, mapped in zip(arguments, batched, strict=True)
    ]
    return lax.platform_dependent(*parts, cpu=_end_to_end, default=jax.vmap(pooled.fun)), True


def _end_to_end(*parts: Array) -> Array:
    """Return `pooled` of rows in one long row: none waits for the slowest."""
    return pooled(*(part.reshape(-1) for part in parts)).reshape(parts[0].shape)
