"""Projections onto boxes."""

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import Real, matched


def project_box(v: Array, lower: Real, upper: Real) -> Array:
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
    v, lower, upper = matched(v, lower, upper)
    return jnp.clip(v, lower, upper)


def project_linf_ball(v: Array, radius: Real) -> Array:
    """Project onto the cube `||x||_inf <= radius`.

    `min(max(v, -radius), radius)`; derivative 1/2 at `|v| = radius > 0`, and `sign(v)` in the
    radius where `|v| > radius`, at the radius 0 too.

    Args:
      v: points, any shape, floating dtype.
      radius: at least 0, broadcasts with `v`.

    Returns:
      Projections, broadcast shape, dtype of `v`.

    Reference: N. Parikh and S. Boyd, "Proximal Algorithms", Foundations and Trends in Optimization
    1(3), 2014, section 6.2.4.
    """
    v, radius = matched(v, radius)
    # Not clip(v, -r, r): at r = 0 both bounds tie, and negative points lose their derivative.
    return jnp.where(v < 0, jnp.maximum(v, -radius), jnp.minimum(v, radius))
