"""Projections onto the second-order cone and the rotated one.

A point of the cone is a vector whose first entry is the height, as in the conic solvers. Squares
are taken of numbers near 1 only: see `scaled_norm`.
"""

import jax.numpy as jnp
from jax import Array
from jax.lax import slice_in_dim

from fedjax_admm.kernels._arguments import demand_entries, matched, widened
from fedjax_admm.kernels._safe import safe_ratio, scaled_norm


def project_second_order_cone(v: Array, axis: int = -1) -> Array:
    """Project onto the second-order cone, `C = {(t, x): ||x||_2 <= t}` along an axis.

    The height `t` is the first entry along the axis, `x` are the others (none: the half line `t >=
    0`). `Prox(v; step) = (t, x)` where `||x|| <= t`, 0 where `||x|| <= -t`, else `(t + ||x||) / 2
    (1, x / ||x||)`. Points of the cone come back unchanged, bit for bit.

    Derivative on the boundary of the cone and at its apex 0: the identity, that of the cone; on the
    boundary of the polar cone `||x|| <= -t`, apart from 0: zero, that of the polar cone.

    Args:
      v: points, any shape; heights and coordinates lie along `axis`.
      axis: the axis that holds a point, the height first.

    Reference: Parikh and Boyd, 2014, section 6.3.2 (second-order cone).
    """
    (v,) = matched(v)
    demand_entries(v, axis, "project_second_order_cone")
    inside, projected = _in_cone(widened(v), axis)
    return jnp.where(inside, v, projected.astype(v.dtype))


def project_rotated_second_order_cone(v: Array, axis: int = -1) -> Array:
    """Project onto the rotated second-order cone, `C = {(a, b, x): ||x||_2^2 <= 2 a b, a, b >= 0}`.

    `a` and `b` are the first two entries along the axis, `x` are the others. With the rotation `R
    (a, b, x) = ((a + b) / sqrt(2), (a - b) / sqrt(2), x)`, which maps it onto the second-order cone
    Q: `Prox(v; step) = R Prox_Q(R v)`. Points of the cone come back unchanged, bit for bit, where
    rounding does not take them out of it.

    Derivative on the boundary of the cone and at its apex 0: the identity, that of the cone; on the
    boundary of the polar cone, apart from 0: zero, that of the polar cone.

    Args:
      axis: the axis that holds a point, `a` and `b` first.

    Reference: M. S. Lobo, L. Vandenberghe, S. Boyd and H. Lebret, "Applications of second-order
    cone programming", Linear Algebra and its Applications 284, 1998, section 2.3 (hyperbolic
    constraints); Parikh and Boyd, 2014, section 6.3.2.
    """
    (v,) = matched(v)
    demand_entries(v, axis, "project_rotated_second_order_cone", 2)
    inside, projected = _in_cone(_rotated(widened(v), axis), axis)
    return jnp.where(inside, v, _rotated(projected, axis).astype(v.dtype))


def _in_cone(v: Array, axis: int) -> tuple[Array, Array]:
    """Return which points the cone holds, and the projections."""
    height = slice_in_dim(v, 0, 1, axis=axis)
    x = slice_in_dim(v, 1, None, axis=axis)
    _, norm, scale = scaled_norm(x, axis)
    length = norm * scale
    inside, polar = length <= height, length <= -height
    # Between both cones the height is shorter than x: in units of the scale it is near 1 as well.
    top = (jnp.where(inside | polar, 0.0, height) / scale + norm) / 2
    sloped = jnp.concatenate([top * scale, safe_ratio(top, norm) * x], axis)
    return inside, jnp.where(inside, v, jnp.where(polar, 0.0, sloped))


def _rotated(v: Array, axis: int) -> Array:
    """Return the points with a and b rotated and mirrored, a map that is its own inverse."""
    a, b = slice_in_dim(v, 0, 1, axis=axis), slice_in_dim(v, 1, 2, axis=axis)
    root = 0.5**0.5
    rest = slice_in_dim(v, 2, None, axis=axis)
    return jnp.concatenate([root * a + root * b, root * a - root * b, rest], axis)
