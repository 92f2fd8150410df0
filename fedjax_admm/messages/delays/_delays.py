"""Delays: the rounds between sending and arrival of a message, and the links that hold messages.

A delay is a pytree with

    depth: int                        static: the longest wait after which a message still arrives
    loses: bool                       whether messages may never arrive
    in_order: bool                    whether no message overtakes an earlier one of its sender
    draw(key, index, number) -> (number,) int32

`draw` returns the waits of the messages of round `index`, in rounds: 0 is at once, more than
`depth` is never. Participation decides who sends. On a link in order a message that would overtake
waits for the one before it, and a lost message blocks nothing.
"""

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from fedjax_admm._checks import having
from fedjax_admm._pytrees import pytree_dataclass


class Delay(Protocol):
    """How long messages are on their way."""

    @property
    def depth(self) -> int:
        """Return the longest wait, in rounds, after which a message is still heard."""
        ...

    @property
    def loses(self) -> bool:
        """Return whether messages may never arrive."""
        ...

    @property
    def in_order(self) -> bool:
        """Return whether no message overtakes an earlier one of its sender."""
        ...

    def draw(self, key: jax.Array, index: jax.Array, number: int) -> jax.Array:
        """Return how many rounds messages wait, shape (number,), int32; beyond `depth`, for ever.

        Args:
          key: a typed key, for this round alone.
          index: absolute number of the round, shape (), int32.
          number: how many senders there are.
        """
        ...


@pytree_dataclass
class Prompt:
    """Everything is heard at once; build it with `prompt`."""

    depth = 0
    loses = False
    in_order = True

    def draw(self, key, index, number):
        """Return zeros."""
        return jnp.zeros(number, jnp.int32)


def prompt() -> Prompt:
    """Build the delay of messages that are heard at once."""
    return Prompt()


check_delay = having(
    "depth",
    "loses",
    "in_order",
    "draw",
    kind="a delay such as bounded_delay(3)",
    default=Prompt,
)


class Transit(NamedTuple):
    """Messages on their way: a ring of slots, one per round in which something may arrive."""

    values: jax.Array  # shape=(depth + 1, senders, ...)
    weights: jax.Array  # shape=(depth + 1, senders)
    sent: jax.Array  # shape=(depth + 1, senders), int32: the round it was sent in; -1: none
    heard: jax.Array  # shape=(senders,), int32: when the newest heard so far was sent; -1: none
    due: jax.Array  # shape=(senders,), int32: when the last message that is not lost arrives


def open_transit(depth: int, values: jax.Array, weights: jax.Array) -> Transit:
    """Return links with nothing on its way."""
    senders = values.shape[0]
    none = jnp.full(senders, -1, jnp.int32)
    return Transit(
        jnp.zeros((depth + 1, *values.shape), values.dtype),
        jnp.zeros((depth + 1, *weights.shape), weights.dtype),
        jnp.full((depth + 1, senders), -1, jnp.int32),
        none,
        none,
    )


def move(
    delay: Delay,
    transit: Transit,
    values: jax.Array,
    weights: jax.Array,
    sends: jax.Array,
    index: jax.Array,
    key: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array, Transit]:
    """Send the messages of a round, and return what arrives in it.

    Of messages of one sender that arrive at once the newest counts, and a message that arrives
    after a newer one was heard is discarded.

    Args:
      delay: how long messages wait.
      transit: the links, as deep as the delay.
      values: what is sent, shape (senders, ...).
      weights: with which weight, shape (senders,).
      sends: who sends, bool, shape (senders,).
      index: the absolute number of the round, shape (), int32; every round is moved once.
      key: a typed key, for this round alone.

    Returns:
      The messages that arrive, shape (senders, ...), their weights, whose they are, bool, and the
      links. Where nothing arrives values and weights are 0.
    """
    slots, senders = transit.sent.shape
    rows = jnp.arange(senders, dtype=jnp.int32)
    index = jnp.asarray(index, jnp.int32)
    waits = delay.draw(key, index, senders)
    leaves = sends & (waits <= delay.depth)
    due = index + waits
    if delay.in_order:
        due = jnp.maximum(due, transit.due)
    # What is due together shares a slot, which the newest takes; others are dropped beyond the end.
    place = jnp.where(leaves, due % slots, slots)

    def put(ring, new):
        return ring.at[place, rows].set(new, mode="drop")

    values, weights = put(transit.values, values), put(transit.weights, weights)
    sent = put(transit.sent, jnp.broadcast_to(index, senders))
    now = index % slots
    here = sent[now]
    arrived = here > transit.heard
    transit = Transit(
        values,
        weights,
        sent,  # what was heard stays there; it is not newer than itself and arrives no more
        jnp.maximum(here, transit.heard),
        jnp.where(leaves, due, transit.due),
    )
    mask = jnp.expand_dims(arrived, range(1, values.ndim - 1))
    arriving = jnp.where(mask, values[now], 0), jnp.where(arrived, weights[now], 0)
    return *arriving, arrived, transit
