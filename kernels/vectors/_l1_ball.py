"""Projections onto l1 balls and spheres."""

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from fedjax_admm.kernels._arguments import along, demand_entries, matched, widened
from fedjax_admm.kernels._safe import unit_of
from fedjax_admm.kernels.compiling import Size
from fedjax_admm.kernels.vectors._simplex import project_simplex, weighted_simplex


def project_l1_ball(v: Array, radius: Size = 1.0, axis: int = -1) -> Array:
    """Project onto the l1 ball `||x||_1 <= radius` along an axis.

    `v` where `||v||_1 <= radius`, else `sign(v) max(|v| - t, 0)` with the threshold `t` for which
    the norm is `radius`. Points in the ball come back unchanged, bit for bit. Derivative: at
    `||v||_1 = radius` the identity, that of the ball; entries at the threshold count as those that
    are 0.

    Args:
      radius: at least 0, may be infinite.

    Reference: Duchi et al., 2008.
    """
    v, radius = matched(v, radius)
    demand_entries(v, axis, "project_l1_ball")
    wide, limit = widened(v), widened(radius)
    sign = jnp.sign(wide)
    outside = exceeds(wide, limit, axis)
    # Where a point is inside, its simplex is any: the derivative by the radius stays 0 there.
    mass = jnp.where(outside, limit, 1.0)
    found = (sign * project_simplex(sign * wide, mass, axis)).astype(v.dtype)
    return jnp.where(outside, found, v)


def exceeds(v: Array, radius: Array, axis: int, weights: Array | None = None) -> Array:
    """Return whether the (weighted) l1 norm is greater than a radius, without overflow."""
    sizes = jnp.abs(stop_gradient(v))
    if weights is not None:
        unit = unit_of(jnp.max(weights, axis=axis, keepdims=True))
        sizes, radius = stop_gradient(weights) / unit * sizes, radius / unit
    scale = unit_of(jnp.max(sizes, axis=axis, keepdims=True))
    inside = jnp.sum(sizes / scale, axis=axis, keepdims=True) <= stop_gradient(radius) / scale
    return ~inside


def project_l1_sphere(v: Array, radius: Size = 1.0, axis: int = -1) -> Array:
    """Project onto the l1 sphere `||x||_1 = radius` along an axis.

    `sign(v) max(|v| - t, 0)` with the threshold `t`, negative inside of the ball, for which the
    norm is `radius`.

    Ties: an entry that is 0 takes the sign +; the other sign is as near. Derivative: that of the
    projection onto the simplex of the signs; entries at the threshold count as those that are 0.

    Args:
      radius: at least 0.

    Reference: Duchi et al., 2008 (lemma 3: the signs are those of `v`).
    """
    v, radius = matched(v, radius)
    demand_entries(v, axis, "project_l1_sphere")
    sign = jnp.where(v < 0, jnp.asarray(-1, v.dtype), 1)
    return sign * project_simplex(sign * v, radius, axis)


def project_weighted_l1_ball(v: Array, weights: Size, radius: Size = 1.0, axis: int = -1) -> Array:
    """Project onto the weighted l1 ball `<weights, |x|> <= radius` along an axis.

    `v` where it is in the ball, else `sign(v) max(|v| - t weights, 0)` with the threshold `t` for
    which the weighted sum is `radius`. An entry without weight stays as it is.

    Derivative: at `<weights, |v|> = radius` the identity, that of the ball; entries at the
    threshold count as those that are 0.

    Args:
      weights: at least 0; one for all points, or one for each.
      radius: at least 0, may be infinite.

    Reference: G. Perez, S. Ament, C. Gomes and M. Barlaud, "Efficient projection algorithms onto
    the weighted l1 ball", Artificial Intelligence 306, 2022.
    """
    v, weights, radius = matched(v, weights, radius)
    demand_entries(v, axis, "project_weighted_l1_ball")
    v, weights = jnp.broadcast_arrays(v, along(v, weights, axis))
    wide, heavy, limit = widened(v), widened(weights), widened(radius)
    sign = jnp.sign(wide)
    outside = exceeds(wide, limit, axis, heavy)
    mass = jnp.where(outside, limit, 1.0)
    found = (sign * weighted_simplex(sign * wide, heavy, mass, axis)).astype(v.dtype)
    return jnp.where(outside, found, v)
