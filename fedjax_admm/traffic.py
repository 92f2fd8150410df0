"""Traffic: how many numbers travel, counted exactly.

A solver states the sizes of its messages as Python integers; a run records how many messages there
were; the products and sums are taken on the host in whole numbers. (A float32 counter is wrong
after ten thousand rounds, an int32 one overflows.)
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedjax_admm._checks import InputError


class Traffic(NamedTuple):
    """Numbers in one message (one number = one float of the run's dtype)."""

    up: int  # towards the server
    down: int  # towards the client
    before: int = 0  # numbers sent up once, before the first round
    broadcast: int = 0  # numbers sent down in every round, besides messages


class Totals(NamedTuple):
    """Numbers sent since round 1, at each recorded round."""

    up: np.ndarray  # int64, the shape of the counts of messages
    down: np.ndarray  # int64, the shape of the counts of messages


def totals(traffic: Traffic, messages: ArrayLike, rounds: ArrayLike | None = None) -> Totals:
    """Add up what was sent.

    Args:
      traffic: what the solver's `traffic(problem)` says.
      messages: integers, shape (..., records): how many went each way since the record before, as
        `run` leaves it in `trace["messages"]`.
      rounds: integers, shape (records,): rounds done at each record, as in `trace["round"]`; only
        needed where there is a broadcast.

    Returns:
      Cumulative numbers sent up and down, exact up to 9.2e18.

    Raises:
      InputError: the solver broadcasts in every round, but `rounds` is None.
    """
    if traffic.broadcast and rounds is None:
        raise InputError(
            "must be given, because this solver broadcasts in every round",
            argument="rounds",
            remedy='pass trace["round"] of the run',
        )
    total = np.cumsum(np.asarray(messages, dtype=np.int64), axis=-1)
    done = np.asarray(0 if rounds is None else rounds, dtype=np.int64)
    return Totals(
        traffic.before + total * traffic.up, total * traffic.down + done * traffic.broadcast
    )
