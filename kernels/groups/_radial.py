"""What the maps of groups share: an elementwise map applied to the norm of each group.

Let `g(x) = phi(||x||)` with phi on [0, infinity), and let m(r) minimise `phi(t) + (t - r)**2 / (2
step)` over t >= 0. For any x, `|x - v|**2 >= (||x|| - ||v||)**2`, with equality for x in the
direction of v (any direction where v = 0). So no x is better than that of norm `m(||v||)` in the
direction of v, and this is the global minimiser, whatever phi is: convex or not, for every step,
and with the ties of m. If phi is an even function on the line, its elementwise prox at `r >= 0` is
such an m: |t| is as cheap as t and no farther from r.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from fedjax_admm.kernels._arguments import length_along, matched, widened
from fedjax_admm.kernels._safe import power_of_two, safe_norm

Axis = int | tuple[int, ...]


def group_norm(v: Array, axis: Axis) -> Array:
    """Norms along an axis or several, kept with size 1; float32 at least, right over the range."""
    v = widened(v)
    for one in (axis,) if isinstance(axis, int) else axis:
        v = safe_norm(v, one, keepdims=True)
    return v


def radial_value(x: Array, function: Callable[[Array], Array], axis: Axis) -> Array:
    """Return a function of the norms of groups, without the axes of a group, in the dtype of x."""
    (x,) = matched(x)
    values = function(group_norm(x, axis))
    return jnp.squeeze(values, axis).astype(x.dtype)


@jax.custom_jvp
def _ratio(part: Array, whole: Array) -> Array:
    """Return the ratio; its derivative divides twice and does not square what is below."""
    return part / whole


@_ratio.defjvp
def _ratio_slope(primals: tuple[Array, Array], tangents: tuple[Array, Array]):
    share = _ratio(*primals)
    return share, (tangents[0] - share * tangents[1]) / primals[1]


def kept_share(norm: Array, shrink: Callable[[Array], Array]) -> Array:
    """Return `shrink(norm) / norm`, at 0 its limit, with finite derivatives."""
    finfo = jnp.finfo(norm.dtype)
    positive = norm != 0  # the norm of NaN is NaN, and so is what is left of it
    # The limit is read off near 0: 1 for the identity, 0 for a threshold.
    near = jnp.where(positive, norm, 2.0 ** (finfo.minexp // 2))
    near = jnp.minimum(near, float(finfo.max))
    shrunk = shrink(near)
    return _ratio(shrunk, jnp.broadcast_to(near, shrunk.shape))


def shrink_norm(v: Array, shrink: Callable[[Array], Array], axis: Axis = -1) -> Array:
    """Apply a map of numbers to the norms of groups: the proximal map of a function of the norm.

    `v shrink(||v||) / ||v||`. With `shrink = lambda r: prox_x(r, step, ...)` of an even `g` of one
    number this is the proximal map of `g(||x||_2)`: the objective depends on the direction of x
    through `|x - v|**2 >= (||x|| - ||v||)**2` alone, with equality in the direction of `v`. Nothing
    is asked of `g` besides: global minimisers become global minimisers.

    Ties are those of `shrink`. Derivative at `v = 0`: the identity times the limit of `shrink(r) /
    r` at 0; by what `shrink` depends on, 0. Elsewhere exact.

    Args:
      shrink: maps positive norms, float32 or float64, size 1 along `axis`, entry by entry.

    Reference: Beck, 2017, theorem 6.18 (prox of a composition with the Euclidean norm; the proof
    above asks for no convexity).
    """
    (v,) = matched(v)
    return (widened(v) * kept_share(group_norm(v, axis), shrink)).astype(v.dtype)


def segment_norm(
    v: Array, segments: Array, count: int, axis: int
) -> tuple[Array, Callable[[Array], Array]]:
    """Return the norms of segments (size `count` along the axis), and how to hand back a share.

    The second is a function of shares, one for each segment, that returns one for each entry: that
    of its segment, and 1 where the entry belongs to none.
    """
    if count < 1:
        raise ValueError(f"there must be at least one segment, but the count is {count}.")
    length = length_along(v, axis)
    segments = jnp.asarray(segments)
    if segments.shape != (length,) or not jnp.issubdtype(segments.dtype, jnp.integer):
        raise ValueError(
            f"segments must be {length} integers, one for each entry along axis {axis}, but they "
            f"have the shape {segments.shape} and the dtype {segments.dtype}."
        )
    v = jnp.moveaxis(widened(v), axis, 0)
    member = (segments >= 0) & (segments < count)
    # Entries without a segment go to one more, which is thrown away.
    places = jnp.where(member, segments, count)
    largest = jax.ops.segment_max(stop_gradient(jnp.abs(v)), places, count + 1)
    scale, inverse = power_of_two(jnp.maximum(largest, 0.0))
    scaled = v * inverse[places]
    squared = jax.ops.segment_sum(scaled * scaled, places, count + 1)
    zero = squared == 0
    norm = jnp.where(zero, 0.0, jnp.sqrt(jnp.where(zero, 1.0, squared))) * scale

    def for_each_entry(share: Array) -> Array:
        share = jnp.moveaxis(share, axis, 0)
        member_of = member.reshape(-1, *(1,) * (v.ndim - 1))
        found = jnp.where(member_of, share[jnp.minimum(places, count - 1)], 1.0)
        return jnp.moveaxis(found, 0, axis)

    return jnp.moveaxis(norm[:count], 0, axis), for_each_entry
