"""Traffic: how many numbers travel, counted exactly.

A solver states the sizes of its messages as Python integers; a run records how many clients were
active; the products and sums are taken on the host in whole numbers. (A float32 counter is wrong
after ten thousand rounds, an int32 one overflows.)
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Traffic(NamedTuple):
    """Numbers sent per active client and round (one number = one float of the run's dtype)."""

    up: int  # from the client
    down: int  # to the client


class Ledger(NamedTuple):
    """Numbers sent since round 1, at each recorded round."""

    up: np.ndarray  # int64, the shape of the active counts
    down: np.ndarray  # int64, the shape of the active counts


def ledger(traffic: Traffic, active: ArrayLike) -> Ledger:
    """Add up what was sent.

    Args:
      traffic: what the solver's `traffic(problem)` says.
      active: integers, shape (..., records): how many messages were due since the record before,
        as `run` leaves it in `trace["active"]`.

    Returns:
      Cumulative numbers sent up and down, exact up to 9.2e18.
    """
    messages = np.cumsum(np.asarray(active, dtype=np.int64), axis=-1)
    return Ledger(messages * traffic.up, messages * traffic.down)
