"""Refuse runs that exceed the machine's memory or a day, before anything is compiled."""

import os
from typing import Any

import jax

from fedjax_admm._checks import InputError
from fedjax_admm._host._memory import shown
from fedjax_admm.trials.engine import memory

_LONGEST = 86_400.0  # seconds: a day
# Numbers computed in a second: the peak of a core's vector unit, an accelerator a thousand times.
_PER_CORE, _PER_ACCELERATOR = 1e11, 1e14


def check_memory(what: str, size: int, remedy: str) -> None:
    """Check that so many bytes, such as of "the problem of a trial", fit into the free memory."""
    devices = jax.local_devices()
    free = memory.free_bytes(devices[0])
    if free is not None and size > free * len(devices):
        needs = f"{what} needs {shown(size)}"
        raise InputError(
            f"{needs}, but {shown(free * len(devices))} is free", value=size, remedy=remedy
        )


def check_time(what: str, numbers: float, remedy: str) -> None:
    """Check that computing so many numbers, a lower bound, takes no longer than a day."""
    devices = jax.devices()
    speed = _PER_ACCELERATOR * len(devices)
    if devices[0].platform == "cpu":
        speed = _PER_CORE * (os.cpu_count() or 1) * jax.process_count()
    if numbers / speed > _LONGEST:
        days = numbers / speed / _LONGEST
        time = f"{days:.1f} days" if days < 1000 else f"{days / 365.25:,.0f} years"
        raise InputError(
            f"{what} would take {time} at least on this machine", value=numbers, remedy=remedy
        )


def tree_bytes(tree: Any) -> int:
    """Return the size of all arrays of a pytree, which may be shapes alone."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
