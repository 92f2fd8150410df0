"""Squares and what is a square near 0: squared l2 and Huber, values and proximal maps."""

from jax import Array

from fedjax_admm.kernels._arguments import Real, matched
from fedjax_admm.kernels.elementwise._absolute import soft_threshold
from fedjax_admm.kernels.elementwise._boxes import project_linf_ball


def squared_l2_value(x: Array, weight: Real) -> Array:
    """Weighted half square, `g(x) = weight x**2 / 2`.

    Derivative: `weight x`, no kink.

    Args:
      x: points, any shape, floating dtype.
      weight: at least 0, broadcasts with `x`.

    Returns:
      Values (not summed), broadcast shape, dtype of `x`.

    Reference: A. E. Hoerl and R. W. Kennard, "Ridge Regression: Biased Estimation for Nonorthogonal
    Problems", Technometrics 12(1), 1970.
    """
    x, weight = matched(x, weight)
    return 0.5 * (weight * x) * x


def prox_squared_l2(v: Array, step: Real, weight: Real) -> Array:
    """Proximal map of the weighted half square, `g(x) = weight x**2 / 2`.

    `Prox(v; step) = v / (1 + step weight)`.

    Derivative: smooth, no kink.

    Args:
      v: points, any shape, floating dtype.
      step: at least 0, broadcasts with `v`.
      weight: at least 0, broadcasts with `v`.

    Returns:
      Minimisers, broadcast shape, dtype of `v`.

    Reference: N. Parikh and S. Boyd, "Proximal Algorithms", Foundations and Trends in Optimization
    1(3), 2014, section 6.1.1.
    """
    v, step, weight = matched(v, step, weight)
    return v / (1 + step * weight)


def huber_value(x: Array, delta: Real) -> Array:
    """Huber loss, `g(x) = x**2 / 2` where `|x| <= delta`, else `delta (|x| - delta / 2)`.

    Derivative: `min(max(x, -delta), delta)`, no kink; that in `delta` is `|x| - delta` outside.

    Args:
      x: residuals, any shape, floating dtype.
      delta: where the square ends, at least 0 and possibly infinite, broadcasts with `x`.

    Returns:
      Values (not summed), broadcast shape, dtype of `x`.

    Reference: P. J. Huber, "Robust Estimation of a Location Parameter", Annals of Mathematical
    Statistics 35(1), 1964.
    """
    x, delta = matched(x, delta)
    inside = project_linf_ball(x, delta)
    return inside * (x - 0.5 * inside)


def prox_huber(v: Array, step: Real, delta: Real) -> Array:
    """Proximal map of the Huber loss, `g(x) = x**2 / 2` up to `|x| = delta`, linear beyond.

    `Prox(v; step) = v / (1 + step)` where `|v| <= (1 + step) delta`, else
    `v - step delta sign(v)`; computed as `u + step S(u, delta)` with `u = v / (1 + step)` and the
    soft threshold `S`. A weight multiplies `step`; an infinite `delta` gives the square. The loss
    of unit slope, `x**2 / (2 delta)` near 0, has the map `prox_huber(v, step / delta, delta)`.

    Derivative at the kinks `|v| = (1 + step) delta`: the mean of both sides.

    Args:
      v: points, any shape, floating dtype.
      step: at least 0, broadcasts with `v`.
      delta: where the square ends, at least 0 and possibly infinite, broadcasts with `v`.

    Returns:
      Minimisers, broadcast shape, dtype of `v`.

    Reference: P. J. Huber, "Robust Estimation of a Location Parameter", Annals of Mathematical
    Statistics 35(1), 1964 (the loss); A. Beck, "First-Order Methods in Optimization", SIAM, 2017,
    chapter 6 (the map).
    """
    v, step, delta = matched(v, step, delta)
    shorter = v / (1 + step)
    return shorter + step * soft_threshold(shorter, delta)
