"""Numbers of `messages-byzantine`, found by search.

What `python benchmarks/tune_exchanges.py messages-byzantine` prints, on 8 problems of other seeds:
of every solver the best of 12 numbers, by the mean error after the last round with the mean and
without Byzantine senders; and with it the best of 12 radii of centred clipping and of norm
bounding, by the mean over the task's attacks of the mean error at the share 0.2 of Byzantine
senders.
"""

from collections.abc import Mapping
from typing import NamedTuple

from fedjax_admm._shown import short_repr


@short_repr
class Tuned(NamedTuple):
    """What was found for a task."""

    chosen: float  # the number of the solver
    clipping: float  # radius, in the unit of the messages
    bounding: float  # likewise


CHOSEN: Mapping[str, Tuned] = {
    "FSMDM": Tuned(1.0, 7.13, 100.0),  # 2.96, 8.09
    "HFSAD": Tuned(0.351, 0.146, 3.48),  # 0.156, 0.361
    "FedADMM": Tuned(1.6, 0.248, 2.05),  # 0.129, 0.427
    "FedAvg": Tuned(0.0433, 0.146, 3.48),  # 0.145, 0.339
}
"""Task -> what was found; behind it the errors at the two radii."""
