"""The wire: messages as bytes, on the host, exactly as many bits as `bits` counts.

A channel describes its code by a `layout`: a pytree of the structure of the code, with a field in
the place of every array. A field has the number `bits` of its bits, `pack(values)`, which returns
them as uint8, and `unpack(bits, key)`, which returns the array. The fields of a message follow each
other without gaps, the most significant bit first; zeros fill the last byte.

    field      an entry of an array                              bits of an entry
    Number     a float of single precision                       32
    Half       a float16 or a bfloat16                           16
    Whole      a whole number from 0 to 2^width - 1              width
    Flag       yes or no                                         1
    Known      what both ends know already, such as a draw       0
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import refuse
from fedjax_admm.traffic import NUMBER


@dataclass(frozen=True)
class Whole:
    """Whole numbers that are not negative."""

    shape: tuple[int, ...]
    width: int

    @property
    def bits(self):
        """Return the width times the entries."""
        return self.width * math.prod(self.shape)

    def pack(self, values):
        """Return the binary digits."""
        places = np.arange(self.width - 1, -1, -1, dtype=np.uint32)
        return (_flat(values, np.uint32)[:, None] >> places & 1).astype(np.uint8).ravel()

    def unpack(self, bits, key):
        """Return int32."""
        powers = 1 << np.arange(self.width - 1, -1, -1, dtype=np.uint32)
        digits = bits.reshape(math.prod(self.shape), self.width)
        return (digits @ powers).astype(np.int32).reshape(self.shape)


@dataclass(frozen=True)
class Flag:
    """Truth values."""

    shape: tuple[int, ...]

    @property
    def bits(self):
        """Return the number of entries."""
        return math.prod(self.shape)

    def pack(self, values):
        """Return 1 for yes."""
        return _flat(values, np.uint8)

    def unpack(self, bits, key):
        """Return bool."""
        return bits.astype(bool).reshape(self.shape)


@dataclass(frozen=True)
class Number:
    """Floats of 32 bits; of 64, where a run in double precision must keep all of them."""

    shape: tuple[int, ...]
    width: int = NUMBER

    @property
    def bits(self):
        """Return the width times the entries."""
        return self.width * math.prod(self.shape)

    def pack(self, values):
        """Return the bits of the floats, rounded to the width."""
        with np.errstate(all="ignore"):
            return np.unpackbits(_flat(values, self._dtype).view(np.uint8))

    def unpack(self, bits, key):
        """Return float32 or float64."""
        values = np.packbits(bits).view(self._dtype)
        return values.astype(self._dtype.newbyteorder("=")).reshape(self.shape)

    @property
    def _dtype(self):
        return np.dtype(f">f{self.width // 8}")


@dataclass(frozen=True)
class Half:
    """Floats of 16 bits."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def bits(self):
        """Return 16 per entry."""
        return 16 * math.prod(self.shape)

    def pack(self, values):
        """Return the bits of the dtype."""
        return Whole(self.shape, 16).pack(_flat(values, jnp.dtype(self.dtype)).view(np.uint16))

    def unpack(self, bits, key):
        """Return the dtype."""
        whole = Whole(self.shape, 16).unpack(bits, key)
        return whole.astype(np.uint16).view(jnp.dtype(self.dtype))


@dataclass(frozen=True)
class Known:
    """Numbers that both ends know, given the key that they share."""

    tell: Callable[[jax.Array | None], Any]

    @property
    def bits(self):
        """Return 0."""
        return 0

    def pack(self, values):
        """Return nothing."""
        return np.zeros(0, np.uint8)

    def unpack(self, bits, key):
        """Return what both ends know."""
        return np.asarray(self.tell(key))


def shared(key: jax.Array | None) -> jax.Array:
    """Return the key that both ends share, to draw from it what the sender has drawn."""
    refuse(key is None, "key", "must be that with which the message was coded", key)
    return jax.random.clone(key)


def bits_of(layout: Any) -> int:
    """Return how many bits a code has."""
    return sum(field.bits for field in jax.tree.leaves(layout))


def to_bytes(channel: Any, code: Any, shape: tuple[int, ...]) -> bytes:
    """Write the code of one message as bytes.

    Args:
      channel: a compressor or a channel around one, whose `layout(shape)` this follows.
      code: what `code` of the compressor returns.
      shape: of the message.

    Returns:
      ceil(bits / 8) bytes, where bits is `channel.bits(shape)`. Numbers travel in single precision:
      what a run in double precision computes with the decoded ones differs by that rounding.
    """
    fields, structure = jax.tree.flatten(_layout(channel, shape))
    values = structure.flatten_up_to(code)
    pieces = [field.pack(value) for field, value in zip(fields, values, strict=True)]
    return np.packbits(np.concatenate(pieces)).tobytes()


def from_bytes(
    channel: Any, data: bytes, shape: tuple[int, ...], key: jax.Array | None = None
) -> Any:
    """Read the code of one message from bytes; what `to_bytes` does, undone.

    Args:
      channel: as for `to_bytes`.
      data: what it returned.
      shape: of the message.
      key: with which the message was coded, where both ends draw from it, as `rand_k` does.

    Returns:
      The code, of NumPy arrays, of which `channel.read` makes the message.

    Raises:
      InputError: there are too few bytes or too many, or a key is needed and missing.
    """
    fields, structure = jax.tree.flatten(_layout(channel, shape))
    sizes = [field.bits for field in fields]
    length = -(-sum(sizes) // 8)
    told = f"must have {length} bytes for a message of shape {shape}, but it has {len(data)}"
    refuse(len(data) != length, "data", told)
    bits = np.unpackbits(np.frombuffer(data, np.uint8), count=sum(sizes))
    parts = np.split(bits, np.cumsum(sizes)[:-1])
    return structure.unflatten(
        [field.unpack(part, key) for field, part in zip(fields, parts, strict=True)]
    )


def _layout(channel: Any, shape: tuple[int, ...]) -> Any:
    return channel.layout(tuple(shape))


def _flat(values: Any, dtype: Any) -> np.ndarray:
    return np.asarray(values).ravel().astype(dtype)
