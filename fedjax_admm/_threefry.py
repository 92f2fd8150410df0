"""Threefry in one loop: the random numbers of `jax.random`, compiled and drawn in less time.

On a CPU, JAX lowers every hash of Threefry to a loop of five turns, which XLA compiles to about
eight kernels: half and more of the time in which a program that draws a problem compiles.
`one_loop(key)` stands for the same numbers, and each of its hashes is one kernel. XLA may not merge
that kernel with those that read it, since each of them would hash anew.

Reference: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel Random Numbers: As Easy as
1, 2, 3", 2011.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.random import define_prng_impl, threefry_prng_impl

# By how many bits Threefry rotates in its rounds, every other time.
_TURNS = (13, 15, 26, 6), (17, 29, 16, 24)
# Whether JAX counts numbers by their places in an array, as is done here.
_COUNTS_PLACES = "jax_threefry_partitionable"


def hashed(key: Any, high: Any, low: Any) -> tuple[Any, Any]:
    """Return the two words of each counter, all twenty rounds as one chain of operations.

    Args:
      key: two words, uint32.
      high: the counters' first words, uint32, of any shape.
      low: their second words.
    """
    keys = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    a, b = high + keys[0], low + keys[1]
    for number in range(5):
        for turn in _TURNS[number % 2]:
            a = a + b
            b = a ^ (b << np.uint32(turn) | b >> np.uint32(32 - turn))
        a = a + keys[(number + 1) % 3]
        b = b + (keys[(number + 2) % 3] + np.uint32(number + 1))
    return a, b


def one_loop(key: jax.Array) -> jax.Array:
    """Return a key of the same numbers, each of whose hashes is one loop on a CPU.

    Keys of other generators, and all keys on other devices, come back as they are. The functions of
    `jax.random` take the result, except for `poisson`; it does not mix with other keys in an array.

    Args:
      key: a typed key, or a stack of them.
    """
    cpu = jax.default_backend() == "cpu"
    if not (is_threefry(key) and cpu and getattr(jax.config, _COUNTS_PLACES)):
        return key
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=_ONE_LOOP)


def is_threefry(key: jax.Array) -> bool:
    """Return whether a key's numbers are those of Threefry."""
    return jax.random.key_impl(key) in ("threefry2x32", _ONE_LOOP)


def fold_in(key: jax.Array, data: Any) -> jax.Array:
    """Return `jax.random.fold_in(key, data)`, a key of the same kind."""
    return of_kind(key, jax.random.fold_in(one_loop(key), data))


def split(key: jax.Array, shape: int | tuple[int, ...] = 2) -> jax.Array:
    """Return `jax.random.split(key, shape)`, keys of the same kind."""
    return of_kind(key, jax.random.split(one_loop(key), shape))


def of_kind(key: jax.Array, made: jax.Array) -> jax.Array:
    """Return keys that `one_loop(key)` made as keys of the kind of `key`."""
    return jax.random.wrap_key_data(jax.random.key_data(made), impl=jax.random.key_impl(key))


def _counters(shape: tuple[int, ...]) -> jax.Array:
    """Return the number of every place of an array, uint32; a sum that devices can share."""
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    places = (lax.broadcasted_iota(jnp.uint32, shape, axis) for axis in range(len(shape)))
    parts = (np.uint32(stride) * place for stride, place in zip(strides, places, strict=True))
    return sum(parts, jnp.zeros(shape, jnp.uint32))


def _pairs(key: jax.Array, counters: jax.Array) -> jax.Array:
    """Return both words of every counter side by side, shape (..., 2)."""
    shape = (*counters.shape, 2)
    both = (
        lax.broadcast_in_dim(word, shape, range(counters.ndim)) for word in hashed(key, 0, counters)
    )
    return lax.select(lax.broadcasted_iota(jnp.int32, shape, counters.ndim) == 0, *both)


@jax.jit
def _fold_in(key: jax.Array, data: jax.Array) -> jax.Array:
    return _pairs(key, data)


@partial(jax.jit, static_argnums=1)
def _split(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return _pairs(key, _counters(shape))


@partial(jax.jit, static_argnums=(1, 2))
def _bits(key: jax.Array, width: int, shape: tuple[int, ...]) -> jax.Array:
    high, low = hashed(key, 0, _counters(shape))
    if width == 64:
        return high.astype(jnp.uint64) << 32 | low.astype(jnp.uint64)
    return (high ^ low).astype(f"uint{width}")


def _alone(function: Callable) -> Callable:
    """Return a function of keys' words that XLA does not merge with what reads its results."""

    def call(*args: Any) -> jax.Array:
        with set_xla_metadata(inlineable="false"):
            return function(*args)

    return call


_ONE_LOOP = define_prng_impl(
    key_shape=(2,),
    seed=threefry_prng_impl.seed,
    split=_alone(_split),
    random_bits=_alone(_bits),
    fold_in=_alone(lambda key, data: _fold_in(key, jnp.asarray(data).astype(jnp.uint32))),
    name="threefry2x32 in one loop",
    tag="one",
)
