"""Projections onto boxes and balls."""

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._typing import Real


def prox_box(v: Array, lower: Real, upper: Real) -> Array:
    """Project onto a box: the proximal map, for every step, of its indicator.

    `min(max(v, lower), upper)`. Infinite bounds are allowed; a half line is a box.

    Derivative at `v = lower` and `v = upper`: 1/2, the mean of both sides.

    Args:
      v: points, any shape, floating dtype.
      lower: lower bounds, broadcast with `v`.
      upper: upper bounds, not below `lower`.

    Returns:
      Projections, broadcast shape, dtype of `v`.

    Reference: N. Parikh and S. Boyd, "Proximal Algorithms", Foundations and Trends in Optimization
    1(3), 2014, section 6.2.4.
    """
    return jnp.clip(v, lower, upper)


def clip_entries(v: Array, radius: Real) -> Array:
    """Project onto the cube `||x||_inf <= radius`.

    `min(max(v, -radius), radius)`; derivative 1/2 at `|v| = radius > 0`.

    Args:
      v: points, any shape, floating dtype.
      radius: at least 0, broadcasts with `v`.

    Returns:
      Projections, broadcast shape, dtype of `v`.

    Reference: N. Parikh and S. Boyd, "Proximal Algorithms", Foundations and Trends in Optimization
    1(3), 2014, section 6.2.4.
    """
    return jnp.clip(v, -radius, radius)


def project_l2_ball(v: Array, radius: Real, axis: int = -1) -> Array:
    """Project onto the Euclidean ball `||x||_2 <= radius` along an axis.

    `v` where `||v|| <= radius`, else `radius v / ||v||`. Points in the ball come back
    unchanged, bit for bit; the norm of others exceeds `radius` by rounding at most.

    Derivative at the sphere `||v|| = radius` and at `v = 0`: the identity, that of the ball.

    Args:
      v: points, any shape, floating dtype; the coordinates lie along `axis`.
      radius: at least 0; broadcasts with `v` and has size 1 along `axis` (or is a number).
      axis: the axis that holds the coordinates of a point.

    Returns:
      Projections, broadcast shape, dtype of `v`.

    Reference: N. Parikh and S. Boyd, "Proximal Algorithms", Foundations and Trends in Optimization
    1(3), 2014, section 6.5.1.
    """
    squared = jnp.sum(v * v, axis=axis, keepdims=True)
    outside = squared > radius * radius
    norm = jnp.sqrt(jnp.where(outside, squared, 1.0))
    return v * jnp.where(outside, radius / norm, 1.0)
