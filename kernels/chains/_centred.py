"""Chains and images moved to 0 and taken to the size of 1."""

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from fedjax_admm.kernels._safe import unit_of


def centred(x: Array, axis: int | tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Return points less the middle of their range, in units of half of it, and both numbers.

    `x = middle + scale * scaled`, where `scale` is a power of two near half the range, and 1 where
    all entries are equal: nothing is lost to an offset, and no square leaves the range of the
    dtype. Maps that follow shifts and factors do not depend on both numbers, whose derivative is 0.
    Points are finite, of 32 bits at least; middle and scale have size 1 along `axis`.
    """
    fixed = stop_gradient(x)
    low = jnp.min(fixed, axis, keepdims=True, initial=jnp.inf)
    high = jnp.max(fixed, axis, keepdims=True, initial=-jnp.inf)
    middle = low / 2 + high / 2
    scale = unit_of(high / 2 - low / 2)
    return (x - middle) / scale, middle, scale
