"""Projections onto what one vector describes: half-spaces, hyperplanes, slabs, lines.

The normal is divided by a power of two before it is squared, and the offset with it: neither a long
normal nor a short one leaves the range of the dtype.
"""

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import along, matched, widened
from fedjax_admm.kernels._safe import scaled_norm
from fedjax_admm.kernels.compiling import Real, Upper


def project_halfspace(v: Array, normal: Array, offset: Real, axis: int = -1) -> Array:
    """Project onto the half-space `C = {x: <normal, x> <= offset}` along an axis.

    `Prox(v; step) = v - max(<normal, v> - offset, 0) / ||normal||_2^2 normal`. The whole space if
    `normal = 0`: `v` is returned (also for `offset < 0`, where the set is empty). Points of the
    half-space come back unchanged, bit for bit.

    Derivative at the kink `<normal, v> = offset`: the mean of both sides; at `normal = 0`: the
    identity in the point, 0 in the others.

    Args:
      normal: outward, of any length; one for all points, or one for each.
      offset: may be infinite.

    Reference: Bauschke and Combettes, 2017, chapter 29.
    """
    v, normal, offset = matched(v, normal, offset)
    scaled, length, level, upper = _levels(v, normal, offset, axis)
    return _moved(v, scaled, jnp.maximum(level - upper, 0.0) / length)


def project_hyperplane(v: Array, normal: Array, offset: Real, axis: int = -1) -> Array:
    """Project onto the hyperplane `C = {x: <normal, x> = offset}` along an axis.

    `Prox(v; step) = v - (<normal, v> - offset) / ||normal||_2^2 normal`; `v` if `normal = 0` (the
    whole space, or the empty set for `offset != 0`). Derivative: smooth, no kink; at `normal = 0`
    the identity in the point, 0 in the others.

    Args:
      normal: of any length; one for all points, or one for each.
      offset: broadcasts with `v` and has size 1 along `axis` (or is a number).

    Reference: Bauschke and Combettes, 2017, chapter 29.
    """
    v, normal, offset = matched(v, normal, offset)
    scaled, length, level, there = _levels(v, normal, offset, axis)
    return _moved(v, scaled, (level - there) / length)


def project_hyperslab(v: Array, normal: Array, lower: Real, upper: Upper, axis: int = -1) -> Array:
    """Project onto the slab `C = {x: lower <= <normal, x> <= upper}` along an axis.

    With `p = <normal, v>`: `Prox(v; step) = v - (max(p - upper, 0) + min(p - lower, 0)) /
    ||normal||_2^2 normal`; `v` if `normal = 0`. Points of the slab come back unchanged, bit for
    bit.

    Derivative at the kinks `p = lower` and `p = upper`: the mean of both sides; at `normal = 0`:
    the identity in the point, 0 in the others.

    Args:
      normal: of any length; one for all points, or one for each.
      lower: may be minus infinity.
      upper: at least `lower`, may be infinite, likewise.

    Reference: Bauschke and Combettes, 2017, chapter 29.
    """
    v, normal, lower, upper = matched(v, normal, lower, upper)
    scaled, length, level, lowest, highest = _levels(v, normal, lower, axis, upper)
    excess = jnp.maximum(level - highest, 0.0) + jnp.minimum(level - lowest, 0.0)
    return _moved(v, scaled, excess / length)


def project_line(v: Array, direction: Array, axis: int = -1) -> Array:
    """Project onto the line `C = {t direction: t real}` through the origin along an axis.

    `Prox(v; step) = <direction, v> / ||direction||_2^2 direction`; 0 if `direction = 0` (the line
    is then the origin). Derivative: smooth, no kink; at `direction = 0` it is 0 in both.

    Args:
      direction: of any length; one for all points, or one for each.

    Reference: Bauschke and Combettes, 2017, chapter 29.
    """
    v, direction = matched(v, direction)
    scaled, norm, _ = scaled_norm(along(v, direction, axis), axis)
    zero = norm == 0
    unit = jnp.where(zero, 0.0, scaled / jnp.where(zero, 1.0, norm))
    return (jnp.sum(unit * widened(v), axis=axis, keepdims=True) * unit).astype(v.dtype)


def _levels(
    v: Array, normal: Array, offset: Array, axis: int, *offsets: Array
) -> tuple[Array, ...]:
    """Return the scaled normal, its length, where points lie along it, and the offsets there."""
    scaled, norm, scale = scaled_norm(along(v, normal, axis), axis)
    zero = norm == 0
    length = jnp.where(zero, 1.0, norm)
    level = jnp.where(zero, 0.0, jnp.sum(scaled * widened(v), axis=axis, keepdims=True) / length)
    places = []
    for part in (offset, *offsets):
        # A normal of zero bounds nothing: every point then lies at the offsets, which are 0.
        part, endless = part.astype(norm.dtype), jnp.isinf(part)
        place = jnp.where(zero | endless, 0.0, part) / scale / length
        places.append(jnp.where(endless & ~zero, part, place))
    return scaled, length, level, *places


def _moved(v: Array, scaled: Array, share: Array) -> Array:
    return (widened(v) - share * scaled).astype(v.dtype)
