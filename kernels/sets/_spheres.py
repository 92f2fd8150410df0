"""Projections onto spheres."""

import jax.numpy as jnp
from jax import Array
from jax.lax import broadcasted_iota

from fedjax_admm.kernels._arguments import matched, undefined_by
from fedjax_admm.kernels._safe import scaled_norm
from fedjax_admm.kernels.compiling import Size


def project_l2_sphere(v: Array, radius: Size, axis: int = -1) -> Array:
    """Project onto the Euclidean sphere, `C = {x: ||x||_2 = radius}` along an axis.

    `Prox(v; step) = radius v / ||v||_2`. Ties, at `v = 0`: every point of the sphere is nearest,
    and `(radius, 0, ..., 0)` is returned. Derivative: smooth but for `v = 0`, where that in the
    point is 0 and that in the radius is the point returned, divided by the radius.

    Args:
      radius: at least 0.

    Returns:
      Projections, broadcast shape, dtype of `v`; their norm is `radius` to rounding.

    Reference: Bauschke and Combettes, 2017, chapter 29 (the ball, of which this is the boundary).
    """
    v, radius = matched(v, radius)
    scaled, norm, _ = scaled_norm(v, axis)
    zero = norm == 0
    first = broadcasted_iota(jnp.int32, v.shape, axis % v.ndim) == 0
    radius = radius.astype(norm.dtype)
    stretched = scaled * (radius / jnp.where(zero, 1.0, norm))
    found = jnp.where(zero, jnp.where(first, radius, 0.0), stretched)
    return undefined_by(found, radius).astype(v.dtype)
