"""The weighted half square: value and proximal map."""

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import matched, widened
from fedjax_admm.kernels.compiling import Size


def squared_l2_value(x: Array, weight: Size = 1.0) -> Array:
    """Weighted half square, `g(x) = weight x**2 / 2`.

    Derivative: `weight x`, no kink.
    """
    x, weight = matched(x, weight)
    return 0.5 * (weight * x) * x


def prox_squared_l2(v: Array, step: Size, weight: Size = 1.0) -> Array:
    """Proximal map of the weighted half square, `g(x) = weight x**2 / 2`.

    `Prox(v; step) = v / (1 + step weight)`. Derivative: smooth, no kink.

    Reference: Parikh and Boyd, 2014, section 6.1.1; A. E. Hoerl and R. W. Kennard, "Ridge
    Regression: Biased Estimation for Nonorthogonal Problems", Technometrics 12(1), 1970.
    """
    v, step, weight = matched(v, step, weight)
    by, weight = widened(step), widened(weight)
    product = by * weight
    beyond = jnp.isinf(product)  # where the 1 is nothing beside it, and a quotient may still count
    shrunk = widened(v) / jnp.where(beyond, by, 1 + product)
    return (shrunk * jnp.where(beyond, 1 / jnp.where(beyond, weight, 1.0), 1.0)).astype(v.dtype)
