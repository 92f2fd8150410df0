"""Channels: what arrives of a message that is sent.

A channel is a pytree with

    init(message) -> state                               what both ends remember of the link
    encode(message, state, key) -> (arrives, state)      what the receiver reads
    bits(shape) -> int                                   of one message on the wire

and, where its two ends are different machines, with the same result as `encode`,

    send(message, state, key) -> (code, state)           at the sender
    listen(message) -> held                              what the receiver remembers of the link
    receive(code, held, shape, dtype) -> (arrives, held) at the receiver

It handles one message of one sender, an array of any shape; for many senders it is mapped over them
(`jax.vmap`), each with a state and a key of its own. A sender that is silent keeps its state.
"""

from typing import Any, Protocol

import jax
import jax.numpy as jnp

from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.messages.compression._wire import Number, bits_of


class Link(Protocol):
    """The two ends of a channel that remembers nothing at its receiver."""

    def send(self, message: jax.Array, state: Any, key: jax.Array) -> tuple[Any, Any]:
        """Return the code of a message, and the sender's new state."""
        code = self.code(message, key)  # pyright: ignore[reportAttributeAccessIssue]
        return code, state

    def listen(self, message: jax.Array) -> Any:
        """Return what the receiver remembers before the first message."""
        return ()

    def receive(
        self, code: Any, held: Any, shape: tuple[int, ...], dtype: Any
    ) -> tuple[jax.Array, Any]:
        """Return the message that a receiver reads from a code, and what it remembers then."""
        read = self.read(code, shape, dtype)  # pyright: ignore[reportAttributeAccessIssue]
        return read, held


class Channel(Link, Protocol):
    """A link that may change messages."""

    @property
    def in_order(self) -> bool:
        """Return whether the receiver must read every message, and in the order of sending."""
        ...

    def init(self, message: jax.Array) -> Any:
        """Return what both ends remember before the first message."""
        ...

    def encode(self, message: jax.Array, state: Any, key: jax.Array) -> tuple[jax.Array, Any]:
        """Return what arrives, of the shape and dtype of the message, and the new state.

        Args:
          message: of one sender.
          state: of its link.
          key: a typed key, for this message alone.
        """
        ...

    def bits(self, shape: tuple[int, ...]) -> int:
        """Return how many bits a message of a shape has on the wire."""
        ...


@pytree_dataclass
class Identity(Link):
    """Everything arrives as it was sent; build it with `identity`."""

    @property
    def in_order(self) -> bool:
        """Return False: every message stands for itself."""
        return False

    def init(self, message):
        """Remember nothing."""
        return ()

    def encode(self, message, state, key):
        """Return the message."""
        return message, state

    def omega(self, shape):
        """Return 0: there is no error."""
        return 0.0

    def contraction(self, shape):
        """Return 1: there is no error."""
        return 1.0

    def code(self, message, key):
        """Return the message."""
        return message

    def read(self, code, shape, dtype):
        """Return the message."""
        return jnp.asarray(code, dtype)

    def layout(self, shape):
        """Return that it is numbers."""
        return Number(tuple(shape))

    def bits(self, shape):
        """Return 32 per number."""
        return bits_of(self.layout(shape))


def identity() -> Identity:
    """Build the channel that changes nothing: 32 bits per number."""
    return Identity()
