"""Projection onto the section of a box by a hyperplane."""

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from fedjax_admm.kernels._arguments import along, matched, widened
from fedjax_admm.kernels._safe import unit_of
from fedjax_admm.kernels.compiling import Real, Upper
from fedjax_admm.kernels.vectors._thresholds import clipped_part


def project_box_section(
    v: Array, lower: Real, upper: Upper, weights: Real, total: Real, axis: int = -1
) -> Array:
    """Project onto a box cut by a hyperplane, `lower <= x <= upper`, `<weights, x> = total`.

    `clip(v - t weights, lower, upper)` with the `t` for which the weighted sum is `total`, by
    Newton's method kept between signs. NaN where the section is empty.

    Derivative: that of the projection onto the plane's section with the entries between their
    bounds; entries at a bound count as those that stay there.

    Args:
      lower: may be `-inf`; one for all points, or one for each.
      upper: may be `inf`; like `lower`.
      weights: of any sign, like `lower`; an entry without weight is only clipped.
      total: broadcasts with `v` and has size 1 along `axis` (or is a number).

    Reference: P. M. Pardalos and N. Kovoor, "An algorithm for a singly constrained class of
    quadratic programs subject to upper and lower bounds", Mathematical Programming 46, 1990; R.
    Cominetti, W. F. Mascarenhas and P. J. S. Silva, "A Newton's method for the continuous quadratic
    knapsack problem", Mathematical Programming Computation 6, 2014.
    """
    v, lower, upper, weights, total = matched(v, lower, upper, weights, total)
    dtype = v.dtype
    lower, upper, weights = (along(v, part, axis) for part in (lower, upper, weights))
    wide = jnp.broadcast_arrays(*(widened(part) for part in (v, lower, upper, weights)))
    v, lower, upper, weights = wide
    total = jnp.broadcast_to(widened(total), jnp.sum(v, axis=axis, keepdims=True).shape)
    unit = unit_of(jnp.max(jnp.abs(weights), axis=axis, keepdims=True, initial=0))
    weights, total = weights / unit, total / unit
    sizes = jnp.abs(jnp.clip(v, lower, upper))
    size = jnp.maximum(jnp.max(sizes, axis=axis, keepdims=True, initial=0), jnp.abs(total))
    scale = unit_of(jnp.maximum(size, 1.0))
    v, lower, upper, total = (part / scale for part in (v, lower, upper, total))
    found = scale * clipped_part(v, lower, upper, weights, total, axis)
    empty = _is_empty(lower, upper, weights, total, axis)
    return jnp.where(empty, jnp.nan, found).astype(dtype)


def _is_empty(lower: Array, upper: Array, weights: Array, total: Array, axis: int) -> Array:
    """Return whether the weighted sum misses its total by more than rounding explains."""
    lower, upper, weights, total = (stop_gradient(x) for x in (lower, upper, weights, total))
    none = weights == 0

    def reach(bound):
        part = jnp.where(none, 0.0, weights) * jnp.where(none, 0.0, bound)
        size = jnp.sum(jnp.abs(part), axis=axis, keepdims=True)
        return jnp.sum(part, axis=axis, keepdims=True), size

    least, below = reach(jnp.where(weights > 0, lower, upper))
    most, over = reach(jnp.where(weights > 0, upper, lower))
    slack = 16 * float(jnp.finfo(total.dtype).eps)

    def room(size):
        return slack * jnp.where(size < jnp.inf, size, 0.0)

    missed = (total < least - room(below)) | (total > most + room(over))
    return missed | jnp.any(~(lower <= upper), axis=axis, keepdims=True)
