"""Traffic: how many numbers and bits travel, counted exactly.

A solver states the sizes of its messages as Python integers; a run records how many messages there
were; the products and sums are taken on the host in whole numbers. (A float32 counter is wrong
after ten thousand rounds, an int32 one overflows.)
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedjax_admm._checks import refuse

__all__ = ["Traffic", "totals"]

NUMBER = 32
"""Bits of a number on the wire where nothing compresses it, whatever the precision of a run."""


def __dir__() -> list[str]:
    return __all__


class Traffic(NamedTuple):
    """Numbers in one message (one number = one float of the run's dtype), and their bits."""

    up: int  # towards the server
    down: int  # towards the client
    before: int = 0  # numbers sent up once, before the first round
    broadcast: int = 0  # numbers sent down in every round, besides messages
    up_bits: int | None = None  # of a message up; 32 per number if None
    down_bits: int | None = None  # of a message down, likewise


class Totals(NamedTuple):
    """What was sent since round 1, at each recorded round: int64, of the shape of the counts."""

    up: np.ndarray  # numbers
    down: np.ndarray
    up_bits: np.ndarray
    down_bits: np.ndarray


def totals(traffic: Traffic, messages: ArrayLike, rounds: ArrayLike | None = None) -> Totals:
    """Add up what was sent.

    Args:
      traffic: what the solver's `traffic(problem)` says.
      messages: integers, shape (..., records): how many went each way since the record before, as
        `run` leaves it in `trace["messages"]`.
      rounds: integers, shape (records,): rounds done at each record, as in `trace["round"]`; only
        needed where there is a broadcast.

    Returns:
      Cumulative numbers and bits sent up and down, exact up to 9.2e18. What is sent before the
      first round, and what is broadcast, has 32 bits per number.

    Raises:
      InputError: the solver broadcasts in every round, but `rounds` is None.
    """
    told = "must be given, because this solver broadcasts in every round"
    remedy = 'pass trace["round"] of the run'
    refuse(traffic.broadcast and rounds is None, "rounds", told, remedy=remedy)
    total = np.cumsum(np.asarray(messages, dtype=np.int64), axis=-1)
    done = np.asarray(0 if rounds is None else rounds, dtype=np.int64)
    once, always = traffic.before, done * traffic.broadcast
    up_bits = NUMBER * traffic.up if traffic.up_bits is None else traffic.up_bits
    down_bits = NUMBER * traffic.down if traffic.down_bits is None else traffic.down_bits
    return Totals(
        once + total * traffic.up,
        total * traffic.down + always,
        NUMBER * once + total * up_bits,
        total * down_bits + NUMBER * always,
    )
