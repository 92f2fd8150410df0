"""How long a run takes at least, counted in the traced trial before anything is compiled.

An equation reads or returns at least the numbers of its largest array. Those of a body of `scan`
count as often as it turns, those of a body of `while` once, and of the branches of `cond` those of
the largest. The sum over all trials, divided by a rate that no run of ours reaches, is the least
time: runs take several times as long, most of all where arrays are small.
"""

import math
import os
from typing import Any

import jax

from fedjax_admm._checks import InputError
from fedjax_admm._host._jaxprs import inner_jaxprs

LONGEST = 30 * 86_400.0  # seconds
_WORTH_TELLING = 3600.0  # seconds of a run
_WORTH_TELLING_FIRST = 60.0  # seconds of its first chunk, before which no progress is shown
PER_CORE, PER_ACCELERATOR = 2.5e10, 1e14  # numbers in a second

# What XLA does while it reads the operands again, in place, or not at all.
_FREE = {"broadcast_in_dim", "convert_element_type", "copy", "dynamic_slice", "iota", "reshape"}
_FREE |= {"dynamic_update_slice", "slice", "squeeze", "stop_gradient", "transpose"}


def numbers(program: Any) -> float:
    """Return how many numbers a traced program computes at least."""
    return sum(map(_numbers, getattr(program, "jaxpr", program).eqns))


def _numbers(equation: Any) -> float:
    name, inner = equation.primitive.name, [numbers(each) for each in inner_jaxprs(equation)]
    if name in _FREE or name.startswith("scatter"):
        return 0
    if name == "cond":
        return max(inner)
    if inner and not name.startswith("reduce"):  # a loop, or a function
        return sum(inner) * equation.params.get("length", 1)
    read = () if name == "gather" else equation.invars
    return max((_size(each) for each in (*equation.outvars, *read)), default=0)


def _size(operand: Any) -> int:
    return math.prod(getattr(operand.aval, "shape", ()))


def least_seconds(program: Any, trials: int) -> float:
    """Return how long so many trials of a traced program take at least on this machine."""
    devices = jax.devices()
    rate = PER_ACCELERATOR * len(devices)
    if devices[0].platform == "cpu":
        rate = PER_CORE * (os.cpu_count() or 1) * jax.process_count()
    return numbers(program) * trials / rate


def check_time(program: Any, trials: int) -> None:
    """Check that so many trials of a traced program can end within a month."""
    seconds = least_seconds(program, trials)
    if seconds > LONGEST:
        raise InputError(
            f"{trials} trials would take {shown(seconds)} at least on this machine",
            value=trials,
            remedy="take fewer trials, rounds or local updates, or a smaller problem",
        )


def announcement(program: Any, trials: int, first: int) -> str | None:
    """Return a sentence on how long a run takes, if that is long; `first` is its first chunk."""
    whole, begun = (least_seconds(program, each) for each in (trials, first))
    if whole <= _WORTH_TELLING and begun <= _WORTH_TELLING_FIRST:
        return None
    part = f", the first chunk of {first} trials {shown(begun)}" if first < trials else ""
    return f"These {trials} trials take {shown(whole)} at least on this machine{part}."


def shown(seconds: float) -> str:
    """Return a time as people say it."""
    sizes = {"years": 365.25 * 86_400, "days": 86_400.0, "hours": 3600.0, "minutes": 60.0}
    unit, size = next((each for each in sizes.items() if seconds >= 2 * each[1]), ("seconds", 1.0))
    number = seconds / size
    return f"{number:,.0f} {unit}" if number < 1e6 else f"{number:.0e} {unit}"
