"""Convex functions with a kink: absolute value, elastic net, pinball, positive part, linear.

`Prox_g(v; step) = argmin_x g(x) + (x - v)**2 / (2 step)`. All arguments broadcast and may be
traced; the result has the dtype of `v`.
"""

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import matched, weighed
from fedjax_admm.kernels.compiling import Real, Share, Size
from fedjax_admm.kernels.elementwise._squares import prox_squared_l2


def soft_threshold(v: Array, threshold: Size) -> Array:
    """Shrink every entry towards 0 by a threshold.

    `S(v, t) = sign(v) max(|v| - t, 0)`, computed as `max(v - t, 0) + min(v + t, 0)`. Derivative at
    the kinks `|v| = t > 0`: 1/2, the middle of the generalised derivative [0, 1]; that in the
    threshold is `-sign(v)` where `|v| > t`, at `t = 0` too.

    Args:
      threshold: at least 0.

    Reference: Parikh and Boyd, 2014, section 6.5.2.
    """
    v, threshold = matched(v, threshold)
    # Not v - clip(v, -t, t): at t = 0 both bounds tie, and negative points lose their derivative.
    return jnp.maximum(v - threshold, 0.0) + jnp.minimum(v + threshold, 0.0)


def magnitude_of(x: Array) -> Array:
    """Absolute value with the subgradient 0 at 0 (that of `jnp.abs` is 1)."""
    return x * jnp.sign(x)


def l1_value(x: Array, weight: Size = 1.0) -> Array:
    """Absolute value, `g(x) = |x|`.

    Derivative at the kink `x = 0`: 0, of [-1, 1].
    """
    x, weight = matched(x, weight)
    return weight * magnitude_of(x)


def prox_l1(v: Array, step: Size, weight: Size = 1.0) -> Array:
    """Proximal map of the absolute value, `g(x) = |x|`.

    `Prox(v; step) = sign(v) max(|v| - step, 0)`. Derivative at the kinks `|v| = step`: 1/2, as in
    `soft_threshold`.

    Reference: Parikh and Boyd, 2014, section 6.5.2; R. Tibshirani, "Regression Shrinkage and
    Selection via the Lasso", Journal of the Royal Statistical Society B 58(1), 1996.
    """
    return soft_threshold(*weighed(v, step, weight))


def elastic_net_value(x: Array, l1: Size, l2: Size) -> Array:
    """Elastic net, `g(x) = l1 |x| + l2 x**2 / 2`.

    Derivative at the kink `x = 0`: 0, of [-l1, l1].
    """
    x, l1, l2 = matched(x, l1, l2)
    return l1 * magnitude_of(x) + 0.5 * (l2 * x) * x


def prox_elastic_net(v: Array, step: Size, l1: Size, l2: Size) -> Array:
    """Proximal map of the elastic net, `g(x) = l1 |x| + l2 x**2 / 2`.

    `Prox(v; step) = S(v, step l1) / (1 + step l2)` with the soft threshold `S`. Derivative at the
    kinks `|v| = step l1`: `1 / (2 (1 + step l2))`, the mean of both sides.

    Args:
      l1: weight of the absolute value, at least 0.
      l2: weight of the half square, at least 0.

    Reference: H. Zou and T. Hastie, "Regularization and variable selection via the elastic net",
    Journal of the Royal Statistical Society B 67, 2005; Parikh and Boyd, 2014, section 6.5.3.
    """
    v, step, l1, l2 = matched(v, step, l1, l2)
    return prox_squared_l2(soft_threshold(v, step * l1), step, l2)


def pinball_value(x: Array, quantile: Share) -> Array:
    """Pinball (quantile) loss, `g(x) = max(q x, (q - 1) x)`.

    Derivative at the kink `x = 0`: `q - 1/2`, the mean of both sides.

    Args:
      x: residuals (observed minus predicted), any shape.
    """
    x, quantile = matched(x, quantile)
    return quantile * jnp.maximum(x, 0.0) + (quantile - 1) * jnp.minimum(x, 0.0)


def prox_pinball(v: Array, step: Size, quantile: Share) -> Array:
    """Proximal map of the pinball (quantile) loss, `g(x) = max(q x, (q - 1) x)`.

    `Prox(v; step) = max(v - step q, 0) + min(v + step (1 - q), 0)`: 0 in between, shifted by the
    slope outside. Derivative at the kinks `v = step q` and `v = step (q - 1)`: 1/2, the mean of
    both sides.

    Args:
      quantile: `q` in [0, 1].

    Reference: R. Koenker and G. Bassett, "Regression Quantiles", Econometrica 46, 1978 (the loss);
    Parikh and Boyd, 2014, section 6.1.3 (piecewise linear scalar functions).
    """
    v, step, quantile = matched(v, step, quantile)
    above, below = step * quantile, step * (1 - quantile)
    return jnp.maximum(v - above, 0.0) + jnp.minimum(v + below, 0.0)


def sum_positive_value(x: Array, weight: Size = 1.0) -> Array:
    """Positive part, `g(x) = max(x, 0)`.

    Derivative at the kink `x = 0`: 1/2, the mean of both sides.
    """
    x, weight = matched(x, weight)
    return weight * jnp.maximum(x, 0.0)


def prox_sum_positive(v: Array, step: Size, weight: Size = 1.0) -> Array:
    """Proximal map of the positive part, `g(x) = max(x, 0)`.

    `Prox(v; step) = max(v - step, 0) + min(v, 0)`: 0 where `0 <= v <= step`. Derivative at the
    kinks `v = 0` and `v = step`: 1/2, the mean of both sides.

    Reference: Parikh and Boyd, 2014, section 6.1.3 (piecewise linear scalar functions).
    """
    v, step = matched(*weighed(v, step, weight))
    return jnp.maximum(v - step, 0.0) + jnp.minimum(v, 0.0)


def linear_value(x: Array, slope: Real) -> Array:
    """Linear function, `g(x) = slope x`.

    Derivative: `slope`, no kink.
    """
    x, slope = matched(x, slope)
    return slope * x


def prox_linear(v: Array, step: Size, slope: Real) -> Array:
    """Proximal map of a linear function, `g(x) = slope x`.

    `Prox(v; step) = v - step slope`: a step of gradient descent. Derivative: smooth, no kink.

    Args:
      slope: any sign.

    Reference: Parikh and Boyd, 2014, section 6.1.1.
    """
    v, step, slope = matched(v, step, slope)
    return v - step * slope
