"""Messages between a server and its clients: a header, then the bits that `Traffic` counts.

    magic    4 bytes    "FADM"
    version  2 bytes    of this format
    kind     2 bytes    `Kind`
    client   4 bytes    whose message it is, or for whom
    round    4 bytes    below 2^30; of a tree the pass
    heard    4 bytes    the round in which the server heard this client last, plus 1; 0 for never
    length   8 bytes    of the body
    seal     16 bytes   BLAKE2b of all bytes before it and of the body, under the study's secret
    check    4 bytes    CRC-32 of all other bytes

The secret follows from the solver, its numbers and the key of the run. No message holds it. Without
the study's file, nobody can write a message or change one. Every client has the file and could
write any message: the transport must say who may speak as which client, by TLS.
"""

import hashlib
import hmac
import re
import struct
import zlib
from collections.abc import Collection, Iterable, Sequence
from enum import IntEnum
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._version import __version__
from fedjax_admm.messages import Number

VERSION = 3
_MAGIC = b"FADM"
_HEADER = struct.Struct(">4sHHIIIQ")
_CHECK = struct.Struct(">I")
_SEAL_BYTES = SHOWN_BYTES = 16
HEADER_BYTES = _HEADER.size + _SEAL_BYTES + _CHECK.size
_MOST_ROUNDS = 2**30  # sums with a number of passes are int32


class MessageError(ValueError):
    """A message is refused; the sentence says why, and nothing has changed."""


def check(fits: Any, words: str) -> None:
    """Check that a message, or a number in it, fits.

    Raises:
      MessageError: it does not, as `words` say.
    """
    if not fits:
        raise MessageError(words)


class Kind(IntEnum):
    """The kinds of messages."""

    HELLO = 1  # client to server, before round 0: its estimate of the curvature
    START = 2  # server to client: the first model, and the largest curvature
    READY = 3  # client to server: what it sends first, exactly
    DOWN = 4  # server to client, in a round
    UP = 5  # client to server, in a round


class Message(NamedTuple):
    """A message that was read."""

    kind: Kind
    client: int
    round: int
    heard: int
    body: bytes


def write(message: Message, digest: bytes) -> bytes:
    """Return the bytes of a message."""
    *fields, body = message
    header = _HEADER.pack(_MAGIC, VERSION, *fields, len(body))
    head = header + _seal(header, body, digest)
    return head + _CHECK.pack(zlib.crc32(body, zlib.crc32(head))) + body


def _seal(header: bytes, body: bytes, digest: bytes) -> bytes:
    key = digest[SHOWN_BYTES:]
    return hashlib.blake2b(header + body, key=key, digest_size=_SEAL_BYTES).digest()


def read(data: bytes, kind: Kind, digest: bytes) -> Message:
    """Read a message of a kind.

    Raises:
      MessageError: it is damaged, of another version, solver or kind.
    """
    data = bytes(data)
    told = f"this is no message of fedjax-admm: it has {len(data)} bytes, and does not begin with"
    check(len(data) >= HEADER_BYTES and data[:4] == _MAGIC, f"{told} the header")
    _, version, number, client, index, heard, length = _HEADER.unpack_from(data)
    told = f"the message has version {version} of the format, but this is version {VERSION}:"
    check(version == VERSION, f"{told} install the same release of fedjax-admm at both ends")
    body, head = data[HEADER_BYTES:], data[: HEADER_BYTES - _CHECK.size]
    told = f"the message is cut off or too long: its body has {len(body)} bytes, and its header"
    check(len(body) == length, f"{told} says {length}")
    (sum_,) = _CHECK.unpack_from(data, len(head))
    whole = sum_ == zlib.crc32(body, zlib.crc32(head))
    check(whole, "the message is damaged: its checksum does not fit")
    header, seal = head[: _HEADER.size], head[_HEADER.size :]
    check(
        hmac.compare_digest(seal, _seal(header, body, digest)),
        "the message is of another solver, other numbers of it, another precision, another key or "
        "another release, or was forged without them: start all machines from the same file",
    )
    check(number == kind, f"the message is of kind {number}, but {kind.name} ({kind}) is due")
    check(
        heard <= index < _MOST_ROUNDS,
        f"the message is of round {index} and says that the server heard this client in round "
        f"{heard - 1}: rounds are below {_MOST_ROUNDS}, and the round heard comes before",
    )
    return Message(kind, client, index, heard, body)


def index_of(data: bytes) -> int:
    """Return the round that a message says, unchecked."""
    return _HEADER.unpack_from(data)[4]


def digest_of(solver: Any, num_clients: int, key: jax.Array) -> bytes:
    """Return 32 bytes that tell a solver, all its numbers, the run's key and the release.

    The first `SHOWN_BYTES` name them in files. The others, the study's secret, seal messages.
    """
    leaves, structure = jax.tree.flatten(solver)
    named = re.sub(r" at 0x[0-9a-f]+", "", str(structure))
    pieces = [f"{__version__} {VERSION}", named, str(num_clients)]
    state = hashlib.sha256("\n".join(pieces).encode())
    for leaf in (*leaves, jax.random.key_data(key)):
        array = np.asarray(leaf)
        state.update(f"{array.dtype.str}{array.shape}".encode())
        state.update(array.tobytes())
    state.update(jax.dtypes.canonicalize_dtype(float).str.encode())
    return state.digest()


def fields_of(channel: Any, shapes: Iterable[tuple[int, ...]], dtype: Any) -> list[Any]:
    """Return the pytrees of fields of the codes of several arrays.

    Numbers have 64 bits in double precision, so that nothing is rounded on the way; `Traffic`
    counts 32 for each.
    """

    def wide(field: Any) -> Any:
        is_number = isinstance(field, Number) and jnp.dtype(dtype).itemsize == 8
        return Number(field.shape, 64) if is_number else field

    return [jax.tree.map(wide, channel.layout(shape)) for shape in shapes]


def number(shape: tuple[int, ...], dtype: Any) -> Number:
    """Return the field of numbers that no channel compresses."""
    return Number(shape, 8 * jnp.dtype(dtype).itemsize)


def bytes_of(fields: Any) -> int:
    """Return how long the body of a message of these fields is."""
    return -(-sum(field.bits for field in jax.tree.leaves(fields)) // 8)


def to_body(fields: Sequence[Any], values: Any) -> bytes:
    """Return the bits of values, one field after the other without gaps, as bytes."""
    leaves, structure = jax.tree.flatten(list(fields))
    arrays = structure.flatten_up_to(list(values))
    pieces = [field.pack(np.asarray(array)) for field, array in zip(leaves, arrays, strict=True)]
    return np.packbits(np.concatenate([np.zeros(0, np.uint8), *pieces])).tobytes()


def from_body(fields: Sequence[Any], body: bytes, keys: Sequence[Any] = ()) -> list[Any]:
    """Return the values, of NumPy arrays; `to_body` undone.

    Args:
      fields: a list of codes, each a pytree of fields.
      body: what `to_body` returned.
      keys: of the first codes, those that both ends share; the other codes need none.

    Raises:
      MessageError: the length does not fit, or a number is not finite.
    """
    leaves, structure = jax.tree.flatten(list(fields))
    due = bytes_of(leaves)
    check(len(body) == due, f"the body has {len(body)} bytes, but {due} are due")
    sizes = [field.bits for field in leaves]
    bits = np.unpackbits(np.frombuffer(body, np.uint8), count=sum(sizes))
    pieces = np.split(bits, np.cumsum(sizes)[:-1])
    own = [key for code, key in zip_longest(fields, keys) for _ in jax.tree.leaves(code)]
    values = [field.unpack(part, key) for field, part, key in zip(leaves, pieces, own, strict=True)]
    check_finite(values)
    return structure.unflatten(values)


def check_finite(values: Sequence[Any], words: str = "holds") -> None:
    """Check that what a message holds, or decodes to, is finite.

    Raises:
      MessageError: it is not.
    """
    finite = all(np.all(np.isfinite(value)) for value in values)
    check(finite, f"the message {words} a number that is not finite")


def with_rows(stacked: Any, rows: dict[int, Any]) -> Any:
    """Return a stacked pytree with other rows, as NumPy arrays."""
    stacked = jax.tree.map(np.array, stacked)  # copies
    for i, row in rows.items():
        for old, new in zip(jax.tree.leaves(stacked), jax.tree.leaves(row), strict=True):
            old[i] = new
    return stacked


def rows_to_bodies(fields: list[Any], values: Any, numbers: Collection[int]) -> dict[int, bytes]:
    """Return bodies by number, of values stacked in the order of the numbers."""
    values = jax.tree.map(np.asarray, values)
    rows = (jax.tree.map(lambda leaf, k=k: leaf[k], values) for k in range(len(numbers)))
    return {i: to_body(fields, row) for i, row in zip(numbers, rows, strict=True)}


def decoded(channel: Any, codes: list[Any], links: Any, shapes: list[Any], dtype: Any) -> Any:
    """Return what codes say, and what their receiver remembers of each link then.

    Raises:
      MessageError: one says a number that is not finite.
    """
    values, held = [], []
    for code, link, shape in zip(codes, links, shapes, strict=True):
        value, link = _decoded(channel, code, link, shape=shape, dtype=dtype)
        values.append(value)
        held.append(link)
    check_finite(values, "decodes to")
    return values, tuple(held)


@partial(jax.jit, static_argnames=("shape", "dtype"))
def _decoded(channel, code, held, *, shape, dtype):
    return channel.receive(code, held, shape, dtype)
