"""Proximal maps of functions that are cut off at a height: the capped l1, the capped square.

Both are the smaller of a convex function and a constant: a minimiser is one of the convex function
or the point itself, whichever is cheaper.
"""

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from fedjax_admm.kernels._arguments import matched, undefined_by, weighed, widened
from fedjax_admm.kernels.compiling import Size
from fedjax_admm.kernels.elementwise._absolute import soft_threshold
from fedjax_admm.kernels.elementwise._squares import prox_squared_l2


def capped_l1_value(x: Array, weight: Size, theta: Size) -> Array:
    """Capped absolute value, `g(x) = min(|x|, theta)`.

    Derivative: 0 at the kink `x = 0`, half of the slope at `|x| = theta`.
    """
    x, weight, theta = matched(x, weight, theta)
    return weight * jnp.minimum(x * jnp.sign(x), theta)


def prox_capped_l1(v: Array, step: Size, weight: Size, theta: Size) -> Array:
    """Proximal map of the capped absolute value, `g(x) = min(|x|, theta)`, for every step.

    `step <= 2 theta`: `Prox(v; step) = S(v, step)` where `|v| <= theta + step / 2`, else `v`, with
    the soft threshold `S`. `step > 2 theta`: 0 where `|v| <= sqrt(2 step theta)`, else `v`.

    Ties, `|v| = theta + step / 2` and `|v| = sqrt(2 step theta)`: the smaller magnitude is
    returned, not `v`. Derivative: 1/2 at the kinks `|v| = step`, the mean of both sides; at the
    jumps that of the smaller magnitude.

    Args:
      theta: the magnitude from which g is flat, at least 0.

    Reference: P. Gong, C. Zhang, Z. Lu, J. Huang and J. Ye, "A General Iterative Shrinkage and
    Thresholding Algorithm for Non-convex Regularized Optimization Problems", ICML 2013 (penalty and
    its two candidates); the regimes follow by comparing them; T. Zhang, "Analysis of Multi-stage
    Convex Relaxation for Sparse Regularization", Journal of Machine Learning Research 11, 2010.
    """
    v, step, theta = weighed(v, step, weight, theta)
    wide = widened(theta)
    hard = jnp.sqrt(step) * jnp.sqrt(2 * wide)
    end = jnp.where(step <= 2 * wide, wide + 0.5 * step, hard)
    # Beyond 2 theta the jump comes before the soft threshold leaves 0.
    small = jnp.abs(widened(v)) <= stop_gradient(end)
    return undefined_by(jnp.where(small, soft_threshold(v, step), v), step, theta)


def capped_quadratic_value(x: Array, weight: Size, cap: Size) -> Array:
    """Capped quadratic, `g(x) = min(weight x**2 / 2, cap)`.

    Derivative at the kinks `weight x**2 = 2 cap`: half of the slope.
    """
    x, weight, cap = matched(x, weight, cap)
    return jnp.minimum(0.5 * x * (weight * x), cap)


def prox_capped_quadratic(v: Array, step: Size, weight: Size, cap: Size) -> Array:
    """Proximal map of the capped quadratic, `g(x) = min(weight x**2 / 2, cap)`.

    `Prox(v; step) = v / (1 + step weight)` where `|v| <= sqrt(2 cap (step + 1 / weight))`, else
    `v`: small entries are smoothed, large ones (edges) are kept. `weight = 2 alpha` and `cap =
    kappa` give the relaxed Mumford-Shah penalty `min(alpha x**2, kappa)`.

    Ties, `|v| = sqrt(2 cap (step + 1 / weight))`: the shrunk value is returned, not `v`. Derivative
    at the jump: that of the shrunk value; smooth elsewhere.

    Args:
      weight: curvature at 0, at least 0.
      cap: largest value, at least 0.

    Reference: E. Strekalovskiy and D. Cremers, "Real-Time Minimization of the Piecewise Smooth
    Mumford-Shah Functional", ECCV 2014; A. Blake and A. Zisserman, "Visual Reconstruction", MIT
    Press, 1987.
    """
    v, step, weight, cap = matched(v, step, weight, cap)
    bend = stop_gradient(widened(weight))
    reach = widened(step) + 1 / jnp.where(bend > 0, bend, 1.0)
    end = jnp.where(bend > 0, jnp.sqrt(2 * widened(cap)) * jnp.sqrt(reach), jnp.inf)
    small = jnp.abs(widened(v)) <= stop_gradient(end)
    return undefined_by(jnp.where(small, prox_squared_l2(v, step, weight), v), step, weight, cap)
