"""Proximal maps of convex penalties: l1, elastic net, group l2, pinball, quadratic.

`Prox_g(v; step) = argmin_x g(x) + (x - v)**2 / (2 step)`. All arguments broadcast and may be
traced; Python numbers keep the dtype of `v`.
"""

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._typing import Real


def soft_threshold(v: Array, threshold: Real) -> Array:
    """Shrink every entry towards 0 by a threshold.

    `S(v, t) = sign(v) max(|v| - t, 0)`, computed as `v - clip(v, -t, t)`.

    At the kinks `|v| = t > 0` the derivative is 1/2, the middle of the generalised derivative
    [0, 1].

    Args:
      v: points, any shape, floating dtype.
      threshold: at least 0, broadcasts with `v`.

    Returns:
      Shrunk entries, broadcast shape, dtype of `v`.

    Reference: N. Parikh and S. Boyd, "Proximal Algorithms", Foundations and Trends in Optimization
    1(3), 2014, section 6.5.2.
    """
    return v - jnp.clip(v, -threshold, threshold)


def prox_l1(v: Array, step: Real) -> Array:
    """Proximal map of the absolute value, `g(x) = |x|`.

    `Prox(v; step) = sign(v) max(|v| - step, 0)`; a weight multiplies `step`.

    Derivative at the kinks `|v| = step`: 1/2, as in `soft_threshold`.

    Args:
      v: points, any shape, floating dtype.
      step: at least 0, broadcasts with `v`.

    Returns:
      Minimisers, broadcast shape, dtype of `v`.

    Reference: N. Parikh and S. Boyd, "Proximal Algorithms", Foundations and Trends in Optimization
    1(3), 2014, section 6.5.2.
    """
    return soft_threshold(v, step)


def prox_elastic_net(v: Array, step: Real, l1: Real, l2: Real) -> Array:
    """Proximal map of the elastic net, `g(x) = l1 |x| + l2 x**2 / 2`.

    `Prox(v; step) = S(v, step l1) / (1 + step l2)` with the soft threshold `S`.

    Derivative at the kinks `|v| = step l1`: `1 / (2 (1 + step l2))`, the mean of both sides.

    Args:
      v: points, any shape, floating dtype.
      step: at least 0, broadcasts with `v`.
      l1: weight of the absolute value, at least 0.
      l2: weight of the half square, at least 0.

    Returns:
      Minimisers, broadcast shape, dtype of `v`.

    Reference: H. Zou and T. Hastie, "Regularization and variable selection via the elastic net",
    Journal of the Royal Statistical Society B 67, 2005; N. Parikh and S. Boyd, "Proximal
    Algorithms", 2014, section 6.5.3.
    """
    return soft_threshold(v, step * l1) / (1 + step * l2)


def prox_group_l2(v: Array, step: Real, axis: int = -1) -> Array:
    """Proximal map of the Euclidean norm of groups, `g(x) = ||x||_2` along an axis.

    `Prox(v; step) = max(0, 1 - step / ||v||) v`, and 0 where `||v|| <= step`.

    Derivative at `v = 0`: 0 (exact for `step > 0`); at the kink `||v|| = step`: the mean of
    both sides.

    Args:
      v: points, any shape, floating dtype; the groups lie along `axis`.
      step: at least 0; broadcasts with `v` and has size 1 along `axis` (or is a number).
      axis: the axis that holds the entries of a group.

    Returns:
      Minimisers, broadcast shape, dtype of `v`.

    Reference: N. Parikh and S. Boyd, "Proximal Algorithms", Foundations and Trends in Optimization
    1(3), 2014, section 6.5.1 (block soft thresholding); M. Yuan and Y. Lin, "Model selection and
    estimation in regression with grouped variables", 2006.
    """
    squared = jnp.sum(v * v, axis=axis, keepdims=True)
    positive = squared > 0
    norm = jnp.sqrt(jnp.where(positive, squared, 1.0))
    return jnp.where(positive, jnp.maximum(1 - step / norm, 0.0), 0.0) * v


def prox_pinball(v: Array, step: Real, quantile: Real) -> Array:
    """Proximal map of the pinball (quantile) loss, `g(x) = max(q x, (q - 1) x)`.

    `Prox(v; step) = v - clip(v, step (q - 1), step q)`: 0 in between, shifted by the slope
    outside.

    Derivative at the kinks `v = step q` and `v = step (q - 1)`: 1/2, the mean of both sides.

    Args:
      v: points, any shape, floating dtype.
      step: at least 0, broadcasts with `v`.
      quantile: `q` in [0, 1], broadcasts with `v`.

    Returns:
      Minimisers, broadcast shape, dtype of `v`.

    Reference: R. Koenker and G. Bassett, "Regression Quantiles", Econometrica 46, 1978 (the loss);
    N. Parikh and S. Boyd, "Proximal Algorithms", 2014, section 6.1.3 (piecewise linear scalar
    functions).
    """
    return v - jnp.clip(v, step * (quantile - 1), step * quantile)


def shrink_quadratic(v: Array, step: Real, weight: Real) -> Array:
    """Proximal map of a quadratic, `g(x) = weight x**2 / 2`.

    `Prox(v; step) = v / (1 + step weight)`: smooth, no kink.

    Args:
      v: points, any shape, floating dtype.
      step: at least 0, broadcasts with `v`.
      weight: at least 0, broadcasts with `v`.

    Returns:
      Minimisers, broadcast shape, dtype of `v`.

    Reference: N. Parikh and S. Boyd, "Proximal Algorithms", Foundations and Trends in Optimization
    1(3), 2014, section 6.1.1.
    """
    return v / (1 + step * weight)
