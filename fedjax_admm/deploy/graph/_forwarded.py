"""What a relay forwards to a node: the messages of its neighbours, and who was heard.

    first    4 bytes            of which message on: 0 for those before the first round, i + 1 for
                                those of round i
    then for each of them, up to those of the round that was closed last:
    present  ceil(N / 8) bytes  one bit per node: who was heard
    bodies                      of the neighbours that were heard, in the order of their numbers

All bodies of a solver have one length, which both ends know; those before the first round another.
"""

import struct
from typing import NamedTuple

import numpy as np

from fedjax_admm.deploy._messages import MessageError

_FIRST = struct.Struct(">I")


class Forwarded(NamedTuple):
    """What a node reads."""

    first: int  # of which message on
    rounds: list[tuple[np.ndarray, dict[int, bytes]]]  # who was heard, bool; bodies by sender


def to_forward(first: int, rounds: list[tuple[np.ndarray, dict[int, bytes]]]) -> bytes:
    """Return the body of a message to a node; `forwarded` undone."""
    parts = [_FIRST.pack(first)]
    for present, bodies in rounds:
        parts += [np.packbits(present).tobytes(), *(bodies[i] for i in sorted(bodies))]
    return b"".join(parts)


def forwarded(
    body: bytes, index: int, num_nodes: int, neighbours: np.ndarray, lengths: tuple[int, int]
) -> Forwarded:
    """Read the body of a message to a node.

    Args:
      body: what `to_forward` returned.
      index: the round that is open.
      num_nodes: of the whole graph.
      neighbours: their numbers, in increasing order.
      lengths: of bodies before the first round, and later.

    Raises:
      MessageError: the length does not fit.
    """
    place, rounds = _FIRST.size, []
    first = _FIRST.unpack_from(body)[0] if len(body) >= place else index + 1
    for each in range(first, index + 1):
        mask = np.frombuffer(body[place : place + -(-num_nodes // 8)], np.uint8)
        place += -(-num_nodes // 8)
        if len(mask) * 8 < num_nodes:
            break
        present = np.unpackbits(mask, count=num_nodes).astype(bool)
        length = lengths[each > 0]
        bodies = {}
        for i in neighbours[present[neighbours]]:
            bodies[int(i)] = body[place : place + length]
            place += length
        rounds.append((present, bodies))
    if place != len(body) or len(rounds) != index + 1 - first:
        raise MessageError(f"what was forwarded has {len(body)} bytes, which does not fit")
    return Forwarded(first, rounds)
