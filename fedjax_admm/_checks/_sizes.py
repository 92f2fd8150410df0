"""Checks of sizes that must be counted and of data that must be squared, before either is done."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks._values import LARGEST_COUNT, InputError, is_concrete, wider


def countable(**counts: int) -> None:
    """Check that the product of some whole numbers, each checked by `count`, fits into int32.

    Raises:
      InputError: it does not; the sentence names all of them.
    """
    product = math.prod(counts.values())
    if product > LARGEST_COUNT:
        names = " times ".join(f"{{{name}}}" for name in counts)
        raise InputError(
            f"{names} must be at most {LARGEST_COUNT}, but it is {product}",
            value=product,
            remedy="take less",
            others=counts.keys(),
        )


def squarable(name: str, value: jax.Array, *, small: bool = True) -> None:
    """Check that squares and sums of products of data stay within the range of their dtype.

    Args:
      name: what the data are called.
      value: as `finite_array` returns it; traced data are not looked at.
      small: whether data must not be so small either that all their squares vanish.

    Raises:
      InputError: an entry is larger than the limit, 1e15 in float32 and 1e123 in float64, or all
        are smaller than its inverse and not all are 0.
    """
    if not is_concrete(value) or not value.size:
        return
    dtype = np.dtype(value.dtype)
    limit = largest_squarable(dtype)
    largest = float(np.max(np.abs(np.asarray(value, np.float64))))
    if largest > limit:
        told = f"must not exceed {limit:g}, so that squares stay within {dtype}, but it holds"
    elif small and 0 < largest < 1 / limit:
        told = f"must reach {1 / limit:g}, so that squares do not vanish in {dtype}, but it reaches"
    else:
        return
    told = f"{told} {largest:g}"
    raise InputError(told, argument=name, value=value, remedy=wider(dtype))


def largest_squarable(dtype: np.dtype) -> float:
    """Return how large data may be whose squares are summed: 1e15 in float32, 1e123 in float64."""
    if dtype == np.float16:
        return 200.0
    return 10.0 ** int(0.4 * math.log10(float(jnp.finfo(dtype).max)))
