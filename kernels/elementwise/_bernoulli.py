"""Cross-entropy of a probability: its map is the root of a cubic between 0 and 1."""

import jax
import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import matched, widened
from fedjax_admm.kernels.compiling import Share, Size
from fedjax_admm.kernels.elementwise._barriers import larger_root

# Coefficients above it are divided, so that no sum of them leaves the range.
_LARGE = 1e24


def bernoulli_value(x: Array, target: Share) -> Array:
    """Binary cross-entropy of a probability, `g(x) = -t log(x) - (1 - t) log(1 - x)`.

    `t` is the target. Infinite outside [0, 1], at 0 for `t > 0`, and at 1 for `t < 1`. Derivative:
    `(1 - t) / (1 - x) - t / x`, no kink inside; 0 where the value is infinite.
    """
    x, target = matched(x, target)
    value = 0.0 * x
    for share, part in ((target, x), (1 - target, 1 - x)):
        inside = part > 0
        logarithm = jnp.log(jnp.where(inside, part, 1.0))
        outside = (part < 0) | ((part == 0) & (share > 0))
        value = jnp.where(outside, jnp.inf, value - jnp.where(inside, share * logarithm, 0.0))
    return value


def prox_bernoulli(v: Array, step: Size, target: Share) -> Array:
    """Proximal map of the cross-entropy of a probability, `g(x) = -t log(x) - (1 - t) log(1 - x)`.

    `Prox(v; step)` is the root in [0, 1] of `(x - v) x (1 - x) + step (x - t) = 0` with the target
    `t`, found to a few roundings of `x` and, below 1/2, of its logarithm. A weight multiplies
    `step`. At the step 0 it is the projection on [0, 1]; for `t = 0` results may be 0, for `t = 1`
    they may be 1. (`prox_cross_entropy` is the map of the same loss by its logit.)

    Derivative: smooth for positive steps and targets inside (0, 1). At the kinks, `v = step` for `t
    = 0`, `v = 1 - step` for `t = 1`, and 0 and 1 at the step 0, the mean of both sides in the
    point, and 0 in what would change it by a root.

    Args:
      target: `t`, in [0, 1].

    Returns:
      Minimisers in [0, 1], broadcast shape, dtype of `v`.

    Reference: T. Hastie, R. Tibshirani and J. Friedman, "The Elements of Statistical Learning", 2nd
    edition, Springer, 2009, chapter 11 (the loss); the root is derived in the comments.
    """
    v, step, target = matched(v, step, target)
    wide, by, t = widened(v), widened(step), widened(target)
    # The equation keeps its form if x, v and t turn into 1 - x, 1 - v and 1 - t: its root may be
    # taken to be at most 1/2, and its logarithm is then found as well as its value.
    upper = 0.25 - 0.5 * wide + by * (1 - 2 * t) < 0
    point = jnp.where(upper, 1 - wide, wide)
    small = _lower_root(point, by, jnp.where(upper, 1 - t, t), jnp.where(upper, t, 1 - t))
    return jnp.where(upper, 1 - small, small).astype(v.dtype)


def _level(v: Array, step: Array) -> Array:
    """Return the power of two that multiplies the coefficients of the equation."""
    return jnp.where(jnp.maximum(jnp.abs(v), step) > _LARGE, 2.0**-40, 1.0).astype(v.dtype)


@jax.custom_jvp
def _lower_root(v: Array, step: Array, target: Array, rest: Array) -> Array:
    """Solve `x - v + step rest / (1 - x) - step target / x = 0` for a root of at most 1/2.

    Times x it is `(1 + b / (1 - x)) x**2 - (v - b) x - step target` with `b = step rest`: convex,
    not positive at 0. With 1 + b in front of the square its root lies above, and at most by a
    factor of 2: for the factor 1 / (1 - x) is at most 2. Newton falls from there to the root: five
    steps reach float32, six float64. Divided by x, no square of it underflows.
    """
    level = _level(v, step)
    by, place = level * step, level * v
    b = by * rest
    middle = place - b
    top = level + b
    x = jnp.minimum(larger_root(middle / top, by / top, target), 0.5)
    tiny = float(jnp.finfo(v.dtype).tiny)
    for _ in range(6 if v.dtype.itemsize > 4 else 5):
        odds = 1 / (1 - x)
        pull = jnp.where(target == 0, 0.0, (by / jnp.maximum(x, tiny)) * target)
        rise = level * x + b * (x * odds)
        error = (rise - middle) - pull
        slope = 2 * rise - middle + b * (x * odds) * (x * odds)
        positive = slope > 0
        x = x - x * jnp.where(positive, error / jnp.where(positive, slope, 1.0), 0.0)
        x = jnp.clip(x, 0.0, 0.75)
    return jnp.where(jnp.isinf(v), 0.0, x)


@_lower_root.defjvp
def _lower_root_jvp(primals, tangents):
    """Differentiate the equation; where the root is 0 its share of target is its limit."""
    v, step, target, rest = primals
    x = _lower_root(v, step, target, rest)
    level = _level(v, step)
    by = level * step
    odds = 1 / (1 - x)
    positive = x > 0
    pull = (by / jnp.where(positive, x, 1.0)) * target
    pull = jnp.where(positive, pull, jnp.maximum(by * rest - level * v, 0.0))
    # Times x: the slope of the equation.
    slope = level * x + by * rest * (x * odds) * odds + pull
    flat = slope == 0  # at 0, between what stays there and what leaves it
    slope = jnp.where(flat, 1.0, slope)
    by_v = jnp.where(flat, 0.5 * level / (level + by * rest), level * x / slope)
    own = jnp.where(flat, 0.0, 1 / slope)
    change = by_v * (tangents[0] - (odds * rest) * tangents[1] - step * odds * tangents[3])
    return x, change + own * level * (target * tangents[1] + step * tangents[2])
