"""The channels that are compared: what each is called, and what it is given."""

import math
from typing import NamedTuple

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


class Budget(NamedTuple):
    """What compressors of parameters are given."""

    levels: int  # of QSGD: 3 are two bits and a sign
    share: float  # of all numbers that top-k and rand-k send


def named_channels(
    shape: tuple[int, ...], budget: Budget, rank: int | None = None
) -> dict[str, Channel]:
    """Return the channels that are compared, the uncompressed one first; low rank with a rank."""
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
