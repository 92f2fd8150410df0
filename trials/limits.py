"""What a run would take, from shapes alone: refused before anything is compiled or drawn.

Times are lower bounds: a core of a CPU is taken to compute 1e11 numbers in a second, which is the
peak of its vector unit and five to twenty times what experiments reach, an accelerator a thousand
times as many; and what a while loop repeats counts once. What is refused takes longer than a day by
any reckoning.
"""

import os
from typing import Any

import jax

from fedjax_admm._checks import InputError
from fedjax_admm.trials.engine import memory

LONGEST = 86_400.0
"""Seconds: a day."""

_PER_CORE, _PER_ACCELERATOR = 1e11, 1e14  # numbers computed in a second


def check_memory(what: str, size: int, remedy: str = "take less") -> None:
    """Check that something fits into the memory that is free.

    Args:
      what: what takes the memory, such as "the problem of a trial", as a sentence begins.
      size: in bytes.
      remedy: what to do about it.
    """
    devices = jax.local_devices()
    free = memory.free_bytes(devices[0])
    if free is not None and size > free * len(devices):
        told = f"{what} needs {memory.shown(size)}, but {memory.shown(free * len(devices))} is free"
        raise InputError(told, value=size, remedy=remedy)


def check_time(what: str, numbers: float, remedy: str = "take less") -> None:
    """Check that something takes no longer than a day.

    Args:
      what: what takes the time, such as "2000 trials of 10 rounds", as a sentence begins.
      numbers: how many numbers are computed, at least.
      remedy: what to do about it.
    """
    seconds = numbers / speed()
    if seconds > LONGEST:
        told = f"{what} would take {shown_days(seconds)} at least on this machine"
        raise InputError(told, value=seconds, remedy=remedy)


def speed() -> float:
    """Return how many numbers all devices together compute in a second, at most."""
    devices = jax.devices()
    if devices[0].platform == "cpu":
        return _PER_CORE * (os.cpu_count() or 1) * jax.process_count()
    return _PER_ACCELERATOR * len(devices)


def shown_days(seconds: float) -> str:
    """Return a long time as text."""
    days = seconds / LONGEST
    return f"{days:.1f} days" if days < 1000 else f"{days / 365.25:,.0f} years"


def tree_bytes(tree: Any) -> int:
    """Return the size of all arrays of a pytree, which may be shapes alone."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def numbers_computed(jaxpr: Any) -> float:
    """Return how many numbers a traced program computes, at least; while loops count once."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    total = 0.0
    for equation in jaxpr.eqns:
        inner = [part for value in equation.params.values() for part in _programs(value)]
        if equation.primitive.name == "cond":
            total += min((numbers_computed(part) for part in inner), default=0.0)
        elif inner:
            times = equation.params.get("length", 1) if equation.primitive.name == "scan" else 1
            total += float(times) * sum(numbers_computed(part) for part in inner)
        else:
            total += sum(float(getattr(out.aval, "size", 0)) for out in equation.outvars)
    return total


def _programs(value: Any) -> list[Any]:
    """Return the programs that a parameter of an equation holds."""
    if isinstance(value, tuple | list):
        return [part for each in value for part in _programs(each)]
    return [value] if hasattr(value, "eqns") or hasattr(value, "jaxpr") else []
