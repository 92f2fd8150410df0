"""Ranks of entries, by the bits of floats: the largest without sorting, and a fast order."""

from operator import index

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import bitcast_convert_type, broadcasted_iota, stop_gradient

from fedjax_admm.kernels._arguments import length_along
from fedjax_admm.kernels._loops import while_loop


def largest(v: Array, count: int, axis: int) -> Array:
    """Return a mask of the `count` largest entries along an axis, of all where there are fewer.

    Of equal entries those with the lowest index are taken; NaN is above infinity.
    """
    length = length_along(v, axis)
    if index(count) < 0:
        raise ValueError(f"the count of entries must be at least 0, but it is {count}.")
    if count == 0 or count >= length:
        return jnp.full(v.shape, count > 0)
    keys = _keys(stop_gradient(v))
    low, high = (f(keys, axis=axis, keepdims=True) for f in (jnp.min, jnp.max))
    last = _from_top(keys, low, high, jnp.asarray(count, jnp.int32), axis)
    above, tied = keys > last, keys == last
    missing = count - jnp.sum(above, axis=axis, keepdims=True, dtype=jnp.int32)
    # Earlier entries of the tie have the larger keys.
    order = length - broadcasted_iota(keys.dtype, v.shape, axis % v.ndim)
    order = jnp.where(tied, order, 0)
    surplus = jnp.sum(tied, axis=axis, keepdims=True, dtype=jnp.int32) > missing
    high = jnp.where(surplus, jnp.asarray(length, keys.dtype), 1)
    return above | (tied & (order >= _from_top(order, jnp.ones_like(high), high, missing, axis)))


def ascending(v: Array) -> tuple[Array, Array]:
    """Return entries in rising order along the last axis, and the first place of an equal one.

    Keys are sorted alone, which takes a fraction of the time that keys with their places take.
    """
    if v.size == 0:
        return v, jnp.zeros(v.shape, jnp.int32)
    keys = _keys(stop_gradient(v))
    ordered = jnp.sort(keys, axis=-1)
    rows = (-1, v.shape[-1])
    places = jax.vmap(jnp.searchsorted)(ordered.reshape(rows), keys.reshape(rows))
    sign = jnp.asarray(1 << (8 * v.dtype.itemsize - 1), keys.dtype)
    bits = jnp.where(ordered >= sign, ordered ^ sign, ~ordered)
    return bitcast_convert_type(bits, v.dtype), places.reshape(v.shape)


def _keys(v: Array) -> Array:
    """Return unsigned integers that are ordered as floats are, zeros of both signs equal."""
    kind = jnp.uint64 if v.dtype.itemsize == 8 else jnp.uint32
    bits = bitcast_convert_type(jnp.where(v == 0, 0.0, v), kind)
    sign = jnp.asarray(1 << (8 * v.dtype.itemsize - 1), kind)
    return jnp.where(bits >= sign, ~bits, bits | sign)


def _from_top(keys: Array, low: Array, high: Array, count: Array, axis: int) -> Array:
    """Return the greatest number that at least `count` keys reach, between `low` and `high`."""

    def halve(carry):
        low, high = carry
        middle = high - (high - low) // 2
        reached = jnp.sum(keys >= middle, axis=axis, keepdims=True, dtype=jnp.int32)
        return (
            jnp.where(reached >= count, middle, low),
            jnp.where(reached > count, high, jnp.where(reached < count, middle - 1, middle)),
        )

    return while_loop(lambda carry: jnp.any(carry[0] < carry[1]), halve, (low, high))[0]
