"""Functions of a positive number whose maps are the larger root of a quadratic.

The Poisson likelihood and the logarithmic barrier.
"""

import jax
import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import matched, widened
from fedjax_admm.kernels.compiling import Size


def _logarithm(x: Array) -> Array:
    """Logarithm of what is positive, 0 elsewhere: for branches that are not taken."""
    return jnp.log(jnp.where(x > 0, x, 1.0))


def poisson_value(x: Array, counts: Size) -> Array:
    """Negative log-likelihood of counts with the mean `x`, `g(x) = x - counts log(x)`.

    Infinite where `x < 0`, and at `x = 0` for positive counts. Derivative: `1 - counts / x`, no
    kink inside; 0 where the value is infinite.

    Returns:
      Values (not summed, without the logarithm of the factorial), broadcast shape, dtype of `x`.
    """
    x, counts = matched(x, counts)
    allowed = (x > 0) | ((x == 0) & (counts == 0)) | jnp.isnan(x)
    return jnp.where(allowed, x - counts * _logarithm(x), jnp.inf)


def prox_poisson(v: Array, step: Size, counts: Size) -> Array:
    """Proximal map of the Poisson negative log-likelihood, `g(x) = x - counts log(x)`.

    `Prox(v; step) = (w + sqrt(w**2 + 4 step counts)) / 2` with `w = v - step`, computed as `2 step
    counts / (sqrt(w**2 + 4 step counts) - w)` where `w < 0`: no cancellation, and no square that
    leaves the range. At the step 0, and for no counts, negative results become 0.

    Derivative: smooth for positive counts and steps. At the kink `v = step` for no counts the mean
    of both sides in point and step, and 0 in the counts, where the derivative is infinite.

    Args:
      counts: at least 0.

    Reference: Combettes and Pesquet, 2011, table 10.2 (the map; the form without cancellation is
    derived in the comments); L. A. Shepp and Y. Vardi, "Maximum Likelihood Reconstruction for
    Emission Tomography", IEEE Transactions on Medical Imaging 1(2), 1982.
    """
    v, step, counts = matched(v, step, counts)
    wide, by = widened(v), widened(step)
    return larger_root(wide - by, by, widened(counts)).astype(v.dtype)


def log_barrier_value(x: Array, weight: Size = 1.0) -> Array:
    """Logarithmic barrier, `g(x) = -weight log(x)`.

    Infinite where `x <= 0` (for the weight 0: where `x < 0`). Derivative: `-weight / x`, no kink
    inside; 0 where `x <= 0`.
    """
    x, weight = matched(x, weight)
    allowed = (x > 0) | ((x == 0) & (weight == 0)) | jnp.isnan(x)
    logarithm = jnp.where(jnp.isnan(x), x, _logarithm(x))
    return jnp.where(allowed, -weight * logarithm, jnp.inf)


def prox_log_barrier(v: Array, step: Size, weight: Size = 1.0) -> Array:
    """Proximal map of the logarithmic barrier, `g(x) = -weight log(x)`.

    `Prox(v; step) = (v + sqrt(v**2 + 4 step weight)) / 2`, computed as `2 step weight / (sqrt(v**2
    + 4 step weight) - v)` where `v < 0`: no cancellation, and no square that leaves the range.
    Where `step weight = 0` it is `max(v, 0)`.

    Derivative: smooth where `step weight > 0`. At the kink `v = 0` with `step weight = 0` the mean
    of both sides in the point, and 0 in step and weight, where the derivative is infinite.

    Reference: Combettes and Pesquet, 2011, table 10.2 (the map; the form without cancellation is
    derived in the comments); Boyd and Vandenberghe, 2004, section 11.2.1.
    """
    v, step, weight = matched(v, step, weight)
    return larger_root(widened(v), widened(step), widened(weight)).astype(v.dtype)


@jax.custom_jvp
def larger_root(w: Array, step: Array, weight: Array) -> Array:
    """Return the larger root of `x**2 - w x = step weight`, at least 0.

    With `q = sqrt(step) sqrt(weight)` the roots multiply to `-q**2`: where `w < 0` the larger one
    is `q**2` over the modulus of the smaller, which is a sum of positive numbers.
    """
    q = jnp.sqrt(step) * jnp.sqrt(weight)
    outer = jnp.hypot(0.5 * w, q) + 0.5 * jnp.abs(w)
    return jnp.where(w > 0, outer, q * (q / jnp.where(outer == 0, 1.0, outer)))


@larger_root.defjvp
def _larger_root_jvp(primals, tangents):
    """Differentiate the equation: `(2 x - w) dx = x dw + weight dstep + step dweight`."""
    w, step, weight = primals
    x = larger_root(w, step, weight)
    apart = x + (x - w)  # the distance of the two roots
    together = apart == 0
    apart = jnp.where(together, 1.0, apart)
    by_w = jnp.where(together, 0.5, x / apart)
    by_step = jnp.where(together, 0.0, weight / apart)
    by_weight = jnp.where(together, 0.0, step / apart)
    return x, by_w * tangents[0] + by_step * tangents[1] + by_weight * tangents[2]
