"""Projections onto balls."""

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import matched, widened
from fedjax_admm.kernels._safe import scaled_norm
from fedjax_admm.kernels.compiling import Size


def project_l2_ball(v: Array, radius: Size, axis: int = -1) -> Array:
    """Project onto the Euclidean ball `||x||_2 <= radius` along an axis.

    `v` where `||v|| <= radius`, else `radius v / ||v||`. Points in the ball come back unchanged,
    bit for bit, except that a CPU makes subnormal entries 0; the norm of others exceeds `radius` by
    rounding at most. Derivative at the sphere `||v|| = radius` and at `v = 0`: the identity, that
    of the ball.

    Args:
      radius: at least 0.

    Reference: Parikh and Boyd, 2014, section 6.5.1.
    """
    v, radius = matched(v, radius)
    _, norm, scale = scaled_norm(v, axis)
    radius = radius.astype(norm.dtype)
    outside = (norm * scale > radius) | jnp.isnan(radius)
    # Two quotients per point, both 1 inside. XLA computes them once, and there is no branch for
    # every point, which processors predict badly.
    inverse = 1 / jnp.where(outside, scale, 1)
    factor = jnp.where(outside, radius, 1) / jnp.where(outside, norm, 1)
    return (widened(v) * inverse * factor).astype(v.dtype)
