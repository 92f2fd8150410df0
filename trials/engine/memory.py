"""How much memory devices have, and how much arrays and compiled programs take."""

from typing import Any

import jax

from fedjax_admm._checks import InputError
from fedjax_admm._host._memory import host_bytes, shown


def free_bytes(device: Any) -> int | None:
    """Return the memory that is free for one device; None where the system does not tell.

    CPU devices of a process share the memory of their machine, or of their container if that has
    less.
    """
    if device.platform == "cpu":
        free = host_bytes()
        return None if free is None else free // len(jax.local_devices())
    stats = device.memory_stats() or {}
    return stats["bytes_limit"] - stats["bytes_in_use"] if "bytes_limit" in stats else None


def program_bytes(compiled: Any) -> int:
    """Return what one device needs for a compiled chunk, by the program's own analysis.

    Its results count twice: those of one chunk are brought home while the next one is computed.
    """
    analysis = compiled.memory_analysis()
    if analysis is None:  # a back end that does not tell
        return 0
    return (
        analysis.argument_size_in_bytes
        + 2 * analysis.output_size_in_bytes
        + analysis.temp_size_in_bytes
        - analysis.alias_size_in_bytes
    )


def check_memory(what: str, size: int, remedy: str) -> None:
    """Check that so many bytes, such as of "the problem of a trial", fit into the free memory."""
    devices = jax.local_devices()
    free = free_bytes(devices[0])
    if free is not None and size > free * len(devices):
        told = f"{what} needs {shown(size)}, but {shown(free * len(devices))} is free"
        raise InputError(told, value=size, remedy=remedy)


def tree_bytes(tree: Any) -> int:
    """Return the size of all arrays of a pytree, which may be shapes alone."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
