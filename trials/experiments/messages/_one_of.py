"""A channel out of several, by number: what differs in nothing else is one compiled program.

Methods that differ in their channel have different structures, and each would be traced and
compiled by itself. Here the channel is chosen by a leaf: methods are stacked, run in turn, and at
every message only the chosen channel is computed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from fedjax_admm._checks import InputError
from fedjax_admm._pytrees import register_dataclass
from fedjax_admm.messages import (
    Channel,
    cast,
    differences,
    error_feedback,
    identity,
    low_rank,
    natural,
    qsgd,
    rand_k,
    scaled_sign,
    top_k,
)

NONE = "none"
"""The channel beside which all others stand: 32 bits per number."""


@register_dataclass
@dataclass(frozen=True, eq=False)
class OneOf:
    """One of several channels; build it with `one_of_channels`."""

    channels: tuple[Channel, ...]
    place: jax.Array  # shape=(), int32

    @property
    def in_order(self) -> bool:
        """Return whether one of them needs every message, and in order."""
        return any(channel.in_order for channel in self.channels)

    def init(self, message):
        """Return what the chosen one remembers, as one vector, as long as any of them needs."""
        states = [_vector(channel.init(message), message) for channel in self.channels]
        longest = max(state.size for state in states)
        return jax.lax.select_n(self.place, *[_padded(state, longest) for state in states])

    def encode(self, message, state, key):
        """Return what the chosen one makes of a message; the others are not computed."""
        ways = [partial(_encode, channel) for channel in self.channels]
        return jax.lax.switch(self.place, ways, message, state, key)

    def bits(self, shape):
        """Return the bits of the chosen one, whose place must be known."""
        return self.channels[int(self.place)].bits(shape)


def _encode(
    channel: Channel, message: jax.Array, state: jax.Array, key: jax.Array
) -> tuple[jax.Array, jax.Array]:
    first = channel.init(message)  # of which the shapes alone are used
    if not jax.tree.leaves(first):
        return channel.encode(message, first, key)[0], state
    vector, restored = ravel_pytree(first)
    arrives, new = channel.encode(message, restored(state[: vector.size]), key)
    return arrives, _padded(_vector(new, message), state.size)


def _vector(state: Any, message: jax.Array) -> jax.Array:
    leaves = [leaf.ravel() for leaf in jax.tree.leaves(state)]
    return jnp.concatenate([jnp.zeros(0, message.dtype), *leaves])


def _padded(vector: jax.Array, size: int) -> jax.Array:
    return jnp.concatenate([vector, jnp.zeros(size - vector.size, vector.dtype)])


def one_of_channels(channels: Sequence[Channel], place: Any) -> OneOf:
    """Build `OneOf`.

    Args:
      channels: what may be chosen. What they remember must be of the dtype of the messages.
      place: of the chosen one; it may be traced.

    Raises:
      InputError: there is none.
    """
    if not channels:
        raise InputError("must hold a channel, but it holds none", argument="channels")
    return OneOf(tuple(channels), jnp.asarray(place, jnp.int32))


class Budget(NamedTuple):
    """What compressors of parameters are given."""

    levels: int  # of QSGD: 3 are two bits and a sign
    share: float  # of all numbers that top-k and rand-k send


def named_channels(
    shape: tuple[int, ...], budget: Budget, rank: int | None = None
) -> dict[str, Channel]:
    """Return the channels that are compared, for messages of a shape, the uncompressed one first.

    Args:
      shape: of a message.
      budget: of compressors.
      rank: of low rank, for messages that are matrices; left out if None.
    """
    entries = max(1, round(budget.share * math.prod(shape)))
    channels: dict[str, Channel] = {
        NONE: identity(),
        "float16": differences(cast("float16")),
        "natural": differences(natural()),
        "QSGD": differences(qsgd(budget.levels)),
        "sign": differences(scaled_sign()),
        "top-k": differences(top_k(entries)),
        "rand-k": differences(rand_k(entries)),
        "QSGD, no memory": qsgd(budget.levels),
        "top-k, no memory": top_k(entries),
        "top-k, error feedback": error_feedback(top_k(entries)),
    }
    if rank is not None:
        channels["low rank"] = differences(low_rank(rank))
    return channels
