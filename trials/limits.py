"""Refuse runs that exceed the machine's memory, before anything is compiled."""

from typing import Any

import jax

from fedjax_admm._checks import InputError
from fedjax_admm._host._memory import shown
from fedjax_admm.trials.engine import memory


def check_memory(what: str, size: int, remedy: str) -> None:
    """Check that so many bytes, such as of "the problem of a trial", fit into the free memory."""
    devices = jax.local_devices()
    free = memory.free_bytes(devices[0])
    if free is not None and size > free * len(devices):
        needs = f"{what} needs {shown(size)}"
        raise InputError(
            f"{needs}, but {shown(free * len(devices))} is free", value=size, remedy=remedy
        )


def tree_bytes(tree: Any) -> int:
    """Return the size of all arrays of a pytree, which may be shapes alone."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
