"""Boxes: projections onto them, and the maps of penalties on them.

For a convex g of one number and an interval, the map of their sum is that of g, then clipped.
"""

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import matched, undefined_by, weighed
from fedjax_admm.kernels.compiling import High, Real, Size, Upper
from fedjax_admm.kernels.elementwise._absolute import elastic_net_value, soft_threshold
from fedjax_admm.kernels.elementwise._squares import prox_squared_l2


def project_non_negative(v: Array) -> Array:
    """Project onto the non-negative numbers.

    `max(v, 0)`. Derivative at `v = 0`: 1/2, the mean of both sides.

    Reference: Parikh and Boyd, 2014, section 6.2.4.
    """
    (v,) = matched(v)
    return jnp.maximum(v, 0.0)


def project_box(v: Array, lower: Real, upper: Upper) -> Array:
    """Project onto a box: the proximal map, for every step, of its indicator.

    `min(max(v, lower), upper)`. Infinite bounds are allowed; a half line is a box. Derivative at `v
    = lower` and `v = upper`: 1/2, the mean of both sides. Outside it is 1 in the bound that was
    hit, also where both bounds are equal.

    Args:
      lower: lower bounds.
      upper: upper bounds, not below `lower`.

    Reference: Parikh and Boyd, 2014, section 6.2.4.
    """
    v, lower, upper = matched(v, lower, upper)
    # Not min(max(v, lower), upper): equal bounds tie, and (-r, r) at r = 0 has no derivative in r.
    below = v - lower < upper - v
    return undefined_by(jnp.where(below, jnp.maximum(v, lower), jnp.minimum(v, upper)), lower)


def project_linf_ball(v: Array, radius: Size) -> Array:
    """Project onto the cube `||x||_inf <= radius`.

    `min(max(v, -radius), radius)`. Derivative at `|v| = radius > 0`: 1/2, the mean of both sides;
    that in the radius is `sign(v)` where `|v| > radius`, at the radius 0 too.

    Args:
      radius: at least 0, broadcasts with `v`: one for each entry, or one for all.

    Reference: Parikh and Boyd, 2014, section 6.2.4.
    """
    v, radius = matched(v, radius)
    # Not clip(v, -r, r): at r = 0 both bounds tie, and negative points lose their derivative.
    return jnp.where(v < 0, jnp.maximum(v, -radius), jnp.minimum(v, radius))


def project_binary(v: Array, low: Real, high: High) -> Array:
    """Project onto two values: the nearer one. The set is not convex.

    `low` where `v < (low + high) / 2`, else `high`. Ties, `v = (low + high) / 2`: `high`.
    Derivative: 0 in the point, 1 in the value taken; at the jump that of `high`.

    Args:
      low: the smaller value.
      high: the larger value, not below `low`.

    Returns:
      Projections, broadcast shape, dtype of `v`; NaN where `v` is.

    Reference: S. Diamond, R. Takapoui, and S. Boyd, "A general system for heuristic minimization of
    convex functions over non-convex sets", Optimization Methods and Software 33(1), 2018 (Boolean
    sets); the nearest point is that of the definition.
    """
    v, low, high = matched(v, low, high)
    nearer = jnp.where(v - low < high - v, low, high)
    return undefined_by(nearer, v, low, high)


def _held(x: Array, lower: Array, upper: Array) -> Array:
    """Clip, with the derivative from within at the bounds: a step of 0 leaves points on them."""
    return undefined_by(jnp.where(x < lower, lower, jnp.where(x > upper, upper, x)), lower, upper)


def non_negative_l1_value(x: Array, weight: Size = 1.0) -> Array:
    """Absolute value of what is not negative, `g(x) = x` where `x >= 0`, else infinity.

    Derivative: 1 where `x >= 0`, 0 elsewhere.
    """
    x, weight = matched(x, weight)
    return jnp.where(x < 0, jnp.inf, weight * x)


def prox_non_negative_l1(v: Array, step: Size, weight: Size = 1.0) -> Array:
    """Proximal map of the absolute value on `x >= 0`, `g(x) = x` there.

    `Prox(v; step) = max(v - step, 0)`. Derivative at the kink `v = step`: 1/2 in the point, -1/2 in
    the step, the mean of both sides.

    Reference: Parikh and Boyd, 2014, section 6.5.2.
    """
    v, step = matched(*weighed(v, step, weight))
    return jnp.maximum(v - step, 0.0)


def non_negative_squared_l2_value(x: Array, weight: Size = 1.0) -> Array:
    """Weighted half square of what is not negative, `g(x) = weight x**2 / 2` where `x >= 0`.

    Infinite elsewhere. Derivative: `weight x` where `x >= 0`, 0 elsewhere.
    """
    return box_squared_l2_value(x, weight, 0.0, jnp.inf)


def prox_non_negative_squared_l2(v: Array, step: Size, weight: Size = 1.0) -> Array:
    """Proximal map of the weighted half square on `x >= 0`, `g(x) = weight x**2 / 2` there.

    `Prox(v; step) = max(v, 0) / (1 + step weight)`. Derivative at the kink `v = 0`: the mean of
    both sides.

    Reference: Parikh and Boyd, 2014, sections 6.1.1 and 6.2.4; A. E. Hoerl and R. W. Kennard,
    "Ridge Regression: Biased Estimation for Nonorthogonal Problems", Technometrics 12(1), 1970.
    """
    return prox_squared_l2(project_non_negative(v), step, weight)


def box_l1_value(x: Array, weight: Size, lower: Real, upper: Upper) -> Array:
    """Absolute value on a box, `g(x) = |x|` where `lower <= x <= upper`, else infinity.

    Derivative at the kink `x = 0`: 0, of [-1, 1]; 0 outside the box.
    """
    x, lower, upper = matched(x, lower, upper)
    return jnp.where((x < lower) | (x > upper), jnp.inf, elastic_net_value(x, weight, 0.0))


def prox_box_l1(v: Array, step: Size, weight: Size, lower: Real, upper: Upper) -> Array:
    """Proximal map of the absolute value on a box, `g(x) = |x|` where `lower <= x <= upper`.

    `Prox(v; step) = min(max(S(v, step), lower), upper)` with the soft threshold `S`. Derivative at
    the kinks: at `|v| = step` the mean of both sides, where a bound is met that from within the
    box.

    Args:
      lower: lower bounds; may be infinite.
      upper: upper bounds, not below `lower`; may be infinite.

    Reference: Parikh and Boyd, 2014, sections 6.2.4 and 6.5.2; R. Tibshirani, "Regression Shrinkage
    and Selection via the Lasso", Journal of the Royal Statistical Society B 58(1), 1996.
    """
    v, step, lower, upper = weighed(v, step, weight, lower, upper)
    return _held(soft_threshold(v, step), lower, upper)


def box_squared_l2_value(x: Array, weight: Size, lower: Real, upper: Upper) -> Array:
    """Weighted half square on a box, `g(x) = weight x**2 / 2` where `lower <= x <= upper`.

    Infinite elsewhere. Derivative: `weight x` on the box, 0 outside.
    """
    x, lower, upper = matched(x, lower, upper)
    return jnp.where((x < lower) | (x > upper), jnp.inf, elastic_net_value(x, 0.0, weight))


def prox_box_squared_l2(v: Array, step: Size, weight: Size, lower: Real, upper: Upper) -> Array:
    """Proximal map of the weighted half square on a box, `g(x) = weight x**2 / 2` there.

    `Prox(v; step) = min(max(v / (1 + step weight), lower), upper)`. Derivative at the kinks, where
    a bound is met: that from within the box.

    Args:
      lower: lower bounds; may be infinite.
      upper: upper bounds, not below `lower`; may be infinite.

    Reference: Parikh and Boyd, 2014, sections 6.1.1 and 6.2.4; A. E. Hoerl and R. W. Kennard,
    "Ridge Regression: Biased Estimation for Nonorthogonal Problems", Technometrics 12(1), 1970.
    """
    v, step, weight, lower, upper = matched(v, step, weight, lower, upper)
    return _held(prox_squared_l2(v, step, weight), lower, upper)
