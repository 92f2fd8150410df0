"""Losses of one residual, margin or logit: Huber, hinge, squared hinge, logistic, cross-entropy.

A loss of a label `y` in {-1, 1} and a prediction `x` is a function of the margin `y x`; its
proximal map is that of the margin between two changes of sign, `y prox(y v, step)`.
"""

import jax
import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import matched, undefined_by, widened
from fedjax_admm.kernels.compiling import Share, Size
from fedjax_admm.kernels.elementwise._absolute import soft_threshold
from fedjax_admm.kernels.elementwise._boxes import project_linf_ball


def huber_value(x: Array, delta: Size) -> Array:
    """Huber loss, `g(x) = x**2 / 2` where `|x| <= delta`, else `delta (|x| - delta / 2)`.

    Derivative: `min(max(x, -delta), delta)`, no kink; that in `delta` is `|x| - delta` outside.
    """
    x, delta = matched(x, delta)
    inside = project_linf_ball(x, delta)
    return inside * (x - 0.5 * inside)


def prox_huber(v: Array, step: Size, delta: Size) -> Array:
    """Proximal map of the Huber loss, `g(x) = x**2 / 2` up to `|x| = delta`, linear beyond.

    `Prox(v; step) = v / (1 + step)` where `|v| <= (1 + step) delta`, else `v - step delta sign(v)`;
    computed as `u + step S(u, delta)` with `u = v / (1 + step)` and the soft threshold `S`. A
    weight multiplies `step`; an infinite `delta` gives the square. The loss of unit slope, `x**2 /
    (2 delta)` near 0, has the map `prox_huber(v, step / delta, delta)`.

    Derivative at the kinks `|v| = (1 + step) delta`: the mean of both sides.

    Args:
      delta: where the square ends, at least 0 and possibly infinite.

    Reference: P. J. Huber, "Robust Estimation of a Location Parameter", Annals of Mathematical
    Statistics 35(1), 1964 (the loss); Beck, 2017, chapter 6 (the map).
    """
    v, step, delta = matched(v, step, delta)
    shorter = v / (1 + step)
    return shorter + step * soft_threshold(shorter, delta)


def hinge_value(x: Array) -> Array:
    """Hinge loss of a margin, `g(x) = max(0, 1 - x)`.

    Derivative at the kink `x = 1`: -1/2, the mean of both sides.
    """
    (x,) = matched(x)
    return jnp.maximum(1 - x, 0.0)


def prox_hinge(v: Array, step: Size) -> Array:
    """Proximal map of the hinge loss of a margin, `g(x) = max(0, 1 - x)`.

    `Prox(v; step) = min(v + step, 1)` where `v < 1`, else `v`. A weight multiplies `step`. With a
    label `y` in {-1, 1} the loss `max(0, 1 - y x)` has the map `y prox_hinge(y v, step)`; with a
    margin `m > 0` the loss `max(0, m - x)` has the map `m prox_hinge(v / m, step / m)`.

    Derivative at the kinks: at `v = 1 - step` the mean of both sides, at `v = 1` that from above.

    Reference: Parikh and Boyd, 2014, section 6.1.3 (piecewise linear scalar functions); C. Cortes
    and V. Vapnik, "Support-Vector Networks", Machine Learning 20, 1995.
    """
    v, step = matched(v, step)
    # Not max(v, min(v + step, 1)): at the step 0 both tie, and half of the derivative is lost.
    return undefined_by(jnp.where(v < 1, jnp.minimum(v + step, 1.0), v), step)


def squared_hinge_value(x: Array) -> Array:
    """Squared hinge loss of a margin, `g(x) = max(0, 1 - x)**2`, without a factor of a half.

    Derivative: continuous, 0 at `x = 1`.
    """
    missing = hinge_value(x)
    return missing * missing


def prox_squared_hinge(v: Array, step: Size) -> Array:
    """Proximal map of the squared hinge loss of a margin, `g(x) = max(0, 1 - x)**2`.

    `Prox(v; step) = (v + 2 step) / (1 + 2 step)` where `v < 1`, else `v`. A weight multiplies
    `step`, and a label `y` in {-1, 1} has the map `y prox_squared_hinge(y v, step)`. Derivative at
    the kink `v = 1`: that from above, 1.

    Reference: Y.-J. Lee and O. L. Mangasarian, "SSVM: A Smooth Support Vector Machine for
    Classification", Computational Optimization and Applications 20, 2001 (the loss); Parikh and
    Boyd, 2014, section 6.1.1 (the map of a square).
    """
    v, step = matched(v, step)
    low = jnp.minimum(v, 1.0)  # the branch not taken must not overflow
    # Halved: twice a step may leave the range.
    return undefined_by(jnp.where(v < 1, (0.5 * low + step) / (0.5 + step), v), step)


def logistic_value(x: Array) -> Array:
    """Logistic loss of a margin, `g(x) = log(1 + exp(-x))`.

    Derivative: `-1 / (1 + exp(x))`, no kink.
    """
    (x,) = matched(x)
    return jax.nn.softplus(-x)


def prox_logistic(v: Array, step: Size) -> Array:
    """Proximal map of the logistic loss of a margin, `g(x) = log(1 + exp(-x))`.

    `Prox(v; step)` is the root of `x = v + step / (1 + exp(x))`, as in `prox_cross_entropy` with
    the target 1. A weight multiplies `step`. With a label `y` in {-1, 1} the loss `log(1 + exp(-y
    x))` has the map `y prox_logistic(y v, step)`.

    Derivative: with `s = 1 / (1 + exp(-x))` it is `1 / (1 + step s (1 - s))` in the point and `(1 -
    s)` times that in the step; smooth, no kink.

    Reference: D. R. Cox, "The Regression Analysis of Binary Sequences", Journal of the Royal
    Statistical Society B 20, 1958 (the loss); the root is derived in the comments.
    """
    return prox_cross_entropy(v, step, 1.0)


def cross_entropy_value(x: Array, target: Share) -> Array:
    """Binary cross-entropy of a logit, `g(x) = log(1 + exp(x)) - target x`.

    Derivative: `1 / (1 + exp(-x)) - target`, no kink.
    """
    x, target = matched(x, target)
    # One of two terms grows: their difference is never that of two large numbers.
    return target * jax.nn.softplus(-x) + (1 - target) * jax.nn.softplus(x)


def prox_cross_entropy(v: Array, step: Size, target: Share) -> Array:
    """Proximal map of the binary cross-entropy, `g(x) = log(1 + exp(x)) - target x`.

    `Prox(v; step)` is the root of `x = v + step (target - 1 / (1 + exp(-x)))`, found to a few
    roundings whatever the size of point and step. A weight multiplies `step`.

    Derivative: with `s = 1 / (1 + exp(-x))` it is `1 / (1 + step s (1 - s))` in the point, and in
    step and target `target - s` and `step` times that; smooth, no kink, of any order.

    Args:
      target: probabilities in [0, 1].

    Reference: D. R. Cox, "The Regression Analysis of Binary Sequences", Journal of the Royal
    Statistical Society B 20, 1958 (the loss); the root is derived in the comments.
    """
    v, step, target = matched(v, step, target)
    root = _logit_root(widened(v), widened(step), widened(target))
    return root.astype(v.dtype)


@jax.custom_jvp
def _logit_root(v: Array, step: Array, target: Array) -> Array:
    """Solve `x = v + step (target s(-x) - (1 - target) s(x))` with `s(x) = 1 / (1 + exp(-x))`.

    The equation keeps its form if x, v change sign and target turns into 1 - target: let x >= 0.
    With `c = v - step (1 - target)` it is then `F(x) = x - c - step s(-x) = 0`, and F increases and
    is concave. Each of these lies below the root: c; the first Newton iterate from 0,
    `(c + step / 2) / (1 + step / 4)`; and `log(step / (above - c) - 1)` for every `above` that lies
    above the root, such as `max(c, 0) + log(1 + step exp(-max(c, 0)))`. The largest of them is
    within 0.5 of it, and every iterate of Halley cubes the error: two of them reach float32, three
    float64.
    """
    pull, push = step * target, step * (1 - target)
    positive = v + 0.5 * (pull - push) >= 0
    sign = jnp.where(positive, 1.0, -1.0).astype(v.dtype)
    c = jnp.where(positive, v - push, -v - pull)
    smallest = float(jnp.finfo(v.dtype).tiny)
    base = jnp.maximum(c, 0.0)
    rise = jnp.log(1 + step * jnp.exp(-base))
    ratio = step / jnp.maximum(rise + (base - c), smallest)
    below = jnp.maximum((c + 0.5 * step) / (1 + 0.25 * step), c)
    x = jnp.maximum(jnp.log(jnp.maximum(ratio - 1, smallest)), below)
    x = jnp.minimum(x, base + rise)
    for _ in range(3 if v.dtype.itemsize > 4 else 2):
        half = jnp.exp(-0.5 * x)  # exp(-x) may leave the range where step exp(-x) does not
        falling = half * half
        share = 1 / (1 + falling)
        pulled = (step * half) * half * share
        slope = 1 + pulled * share
        newton = ((x - c) - pulled) / slope
        bend = pulled * share * share * (1 - falling) / slope
        x = x - newton / jnp.maximum(1 + 0.5 * newton * bend, 0.5)
    return jnp.where(jnp.isinf(v), v, sign * x)


@_logit_root.defjvp
def _logit_root_jvp(primals, tangents):
    """Differentiate the equation: this holds again for the derivative, hence for every order."""
    v, step, target = primals
    x = _logit_root(v, step, target)
    up, down = jax.nn.sigmoid(x), jax.nn.sigmoid(-x)
    by_step = target * down - (1 - target) * up
    change = tangents[0] + by_step * tangents[1] + step * tangents[2]
    return x, change / (1 + step * up * down)
