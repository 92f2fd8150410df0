"""Projections onto balls."""

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import Real, matched, widened
from fedjax_admm.kernels._safe import scaled_norm


def project_l2_ball(v: Array, radius: Real, axis: int = -1) -> Array:
    """Project onto the Euclidean ball `||x||_2 <= radius` along an axis.

    `v` where `||v|| <= radius`, else `radius v / ||v||`. Points in the ball come back unchanged,
    bit for bit; the norm of others exceeds `radius` by rounding at most. Derivative at the sphere
    `||v|| = radius` and at `v = 0`: the identity, that of the ball.

    Args:
      radius: at least 0.

    Reference: Parikh and Boyd, 2014, section 6.5.1.
    """
    v, radius = matched(v, radius)
    _, norm, scale = scaled_norm(v, axis)
    radius = radius.astype(norm.dtype)
    outside = (norm * scale > radius) | jnp.isnan(radius)
    factor = radius / jnp.where(outside, norm, 1.0)
    # XLA computes quotients once per point, and whatever is cheaper again for every entry.
    inverse = jnp.where(outside, 1.0, 0.0) / scale
    return jnp.where(inverse > 0, (widened(v) * inverse * factor).astype(v.dtype), v)
