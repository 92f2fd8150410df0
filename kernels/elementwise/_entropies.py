"""Entropies of a positive number: their maps are a root of `u + log(u) = z`, Lambert's function."""

import math

import jax
import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import matched, undefined_by, weighed, widened
from fedjax_admm.kernels.compiling import Size


def kl_value(x: Array, reference: Size) -> Array:
    """Kullback-Leibler divergence of two positive numbers, `g(x) = x log(x / y) - x + y`.

    `y` is the reference: at least 0, with the minimum 0 at `x = y`. Infinite where `x < 0`, and
    where `y = 0 < x`. Derivative: `log(x / y)`, no kink inside; 0 where `x <= 0`.
    """
    x, reference = matched(x, reference)
    inside = (x > 0) & (reference > 0)
    logarithm = _log_ratio(jnp.where(inside, x, 1.0), jnp.where(inside, reference, 1.0))
    value = jnp.where(inside, x * logarithm - (x - reference), reference - 0.0 * x)
    return jnp.where((x < 0) | ((x > 0) & (reference == 0)), jnp.inf, value)


def prox_kl(v: Array, step: Size, reference: Size) -> Array:
    """Proximal map of the Kullback-Leibler divergence, `g(x) = x log(x / y) - x + y`.

    `Prox(v; step) = step W(exp(v / step) y / step)` with Lambert's function W and the reference
    `y`: the root of `x + step log(x / y) = v`, computed without that exponential as `step u`, `u +
    log(u) = v / step + log(y / step)`. At the step 0 it is `max(v, 0)`, for the reference 0 it is
    0.

    Derivative: `x / (x + step)` in the point, `-log(x / y)` times that in the step, and `step / (x
    + step)` times `x / y` in the reference; smooth, no kink, of any order. At the step 0 the mean
    of both sides at `v = 0` and 0 in the step there, and 0 in the reference at `y = 0`.

    Args:
      reference: `y`, at least 0.

    Reference: R. M. Corless, G. H. Gonnet, D. E. G. Hare, D. J. Jeffrey, and D. E. Knuth, "On the
    Lambert W Function", Advances in Computational Mathematics 5, 1996; the map is derived in the
    comments; I. Csiszar, "Why Least Squares and Maximum Entropy? An Axiomatic Approach to Inference
    for Linear Inverse Problems", Annals of Statistics 19(4), 1991.
    """
    v, step, reference = matched(v, step, reference)
    return _divergence_root(widened(v), widened(step), widened(reference)).astype(v.dtype)


def entropy_value(x: Array, weight: Size = 1.0) -> Array:
    """Negative entropy, `g(x) = x log(x)`.

    0 at `x = 0`, infinite where `x < 0`. Derivative: `1 + log(x)`, no kink inside; 0 where `x <=
    0`.
    """
    x, weight = matched(x, weight)
    inside = x > 0
    safe = jnp.where(inside, x, 1.0)
    return jnp.where(x < 0, jnp.inf, weight * jnp.where(inside, safe * jnp.log(safe), 0.0 * x))


def prox_entropy(v: Array, step: Size, weight: Size = 1.0) -> Array:
    """Proximal map of the negative entropy, `g(x) = x log(x)`.

    `Prox(v; step) = step W(exp(v / step - 1) / step)` with Lambert's function W: the map of the
    Kullback-Leibler divergence with the reference `exp(-1)`. Derivative: as in `prox_kl`, smooth,
    no kink.

    Reference: R. M. Corless, G. H. Gonnet, D. E. G. Hare, D. J. Jeffrey, and D. E. Knuth, "On the
    Lambert W Function", Advances in Computational Mathematics 5, 1996; the map is derived in the
    comments; Boyd and Vandenberghe, 2004, section 3.1.5.
    """
    v, step = weighed(v, step, weight)
    wide = widened(v)
    inverse = jnp.asarray(0.36787944117144233, wide.dtype)  # exp(-1)
    return _divergence_root(wide, widened(step), inverse).astype(v.dtype)


def _log_ratio(x: Array, y: Array) -> Array:
    """`log(x / y)` of positive numbers whose quotient may leave the range."""
    return 2 * jnp.log(jnp.sqrt(x) / jnp.sqrt(y))


def _omega(z: Array) -> Array:
    """Solve `u + log(u) = z` for z in [-80, 1e15].

    Starts and iteration as in P. W. Lawrence, R. M. Corless, and D. J. Jeffrey, "Algorithm 917:
    Complex Double-Precision Evaluation of the Wright omega Function", ACM Transactions on
    Mathematical Software 38(3), 2012: each iterate raises the error to the fourth power.
    """
    above = jnp.maximum(z, 1.0)
    power = jnp.exp(jnp.where(z < -2, z, (jnp.minimum(z, 1.0) - 1) * (2 / 3)))
    u = jnp.where(z < 1, power, above - jnp.log(above))
    for _ in range(2):
        residual = z - u - jnp.log(u)
        w = u + 1
        t = w * (w + (2 / 3) * residual)
        u = u * (1 + (residual / w) * (t - 0.5 * residual) / (t - residual))
    return u


@jax.custom_jvp
def _divergence_root(v: Array, step: Array, reference: Array) -> Array:
    """Solve `x + step log(x / y) = v`.

    With `x = step u` this is `u + log(u) = z`. Where u is small the root is taken as
    `y exp(v / step - u)`, which forgives an error of u; where it is large one Newton step in x
    corrects `step u`, whose z lost digits of v. So the relative error is that of the data.
    """
    regular = (step > 0) & (reference > 0)
    by, y = (jnp.where(regular, number, 1.0) for number in (step, reference))
    ratio = v / by
    z = ratio + _log_ratio(y, by)
    u = _omega(jnp.clip(z, -80.0, 1e15))

    longest = math.log(float(jnp.finfo(v.dtype).max)) - 1
    root = jnp.exp(jnp.minimum(0.5 * (ratio - u), longest))  # its square may leave the range
    small = (y * root) * root

    large = jnp.where(z < 1e15, by * u, v)
    safe = jnp.where(large > 0, large, 1.0)
    large = large - (safe / (safe + by)) * ((large - v) + by * _log_ratio(safe, y))

    bound = jnp.where((reference == 0) & ~jnp.isnan(v), 0.0, jnp.maximum(v, 0.0))
    found = jnp.where(regular & jnp.isfinite(v), jnp.where(z < 1, small, large), bound)
    return undefined_by(found, step, reference)


@_divergence_root.defjvp
def _divergence_root_jvp(primals, tangents):
    """Differentiate the equation: `(x + step) dx = x dv - x log(x / y) dstep + step x / y dy`."""
    v, step, reference = primals
    x = _divergence_root(v, step, reference)
    total = x + step
    nowhere = total == 0  # step 0 and no point: the kink is at v = 0
    total = jnp.where(nowhere, 1.0, total)
    by_v = jnp.where(nowhere, jnp.where(v == 0, 0.5, 0.0), x / total)
    inside = (x > 0) & (reference > 0)
    safe, y = (jnp.where(inside, number, 1.0) for number in (x, reference))
    by_step = jnp.where(inside, -by_v * _log_ratio(safe, y), 0.0)
    by_reference = jnp.where(inside, (step / total) * safe / y, 0.0)
    return x, by_v * tangents[0] + by_step * tangents[1] + by_reference * tangents[2]
