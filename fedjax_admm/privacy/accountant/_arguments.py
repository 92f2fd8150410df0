"""Numbers that the accountant takes, checked on the host in float64, and a search between two."""

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from fedjax_admm._checks import known, refuse, refuse_entries

Values = TypeVar("Values", float, np.ndarray)

_WIDTH = 1e-13  # relative width at which a bisection ends


def each_number(
    function: Callable[[float], float], name: str, value: Values, **limits: float
) -> Values:
    """Apply a function of one number to a checked number or to every entry of an array."""
    seen = real_numbers(name, value, **limits)
    results = [function(entry) for entry in seen.ravel().tolist()]
    if seen.ndim == 0:
        return cast(Values, results[0])
    return cast(Values, np.array(results, dtype=np.float64).reshape(seen.shape))


def checked_delta(delta: float) -> float:
    """The checked probability of failure."""
    return checked_number("delta", delta, above=0.0, below=1.0)


def checked_number(name: str, value: Any, **limits: float) -> float:
    """One checked number as a Python float."""
    seen = real_numbers(name, value, **limits)
    refuse(seen.ndim, name, f"must be one number, but it has shape {seen.shape}")
    return seen.item()


_LIMITS: dict[str, tuple[Any, str]] = {
    "above": (np.greater, "greater than"),
    "at_least": (np.greater_equal, "at least"),
    "at_most": (np.less_equal, "at most"),
    "below": (np.less, "less than"),
}


def real_numbers(name: str, value: Any, **limits: float) -> np.ndarray:
    """Checked numbers as a float64 array; infinity is a number, NaN is not."""
    known(name, value)
    array = np.asarray(value)
    refuse(array.dtype.kind not in "iuf", name, "must be a number or an array of numbers", value)
    seen = array.astype(np.float64)
    refuse_entries(np.isnan(seen), name, "must be a number", seen)
    for name_of_limit, limit in limits.items():
        holds, words = _LIMITS[name_of_limit]
        refuse_entries(~holds(seen, limit), name, f"must be {words} {limit:g}", seen)
    return seen


def stepped_while(holds: Callable[[float], bool], number: float, towards: float) -> float:
    """Return the first number of float64, from one on towards another, for which `holds` ends."""
    while holds(number):
        number = math.nextafter(number, towards)
    return number


def bisected(holds: Callable[[float], bool], good: float, bad: float) -> float:
    """Narrow [good, bad] (in any order) around the place where `holds` ends; return the good end.

    It ends at a relative width of 1e-13, or after as many steps as float64 has powers of two.
    """
    for _ in range(1200):
        if abs(good - bad) <= _WIDTH * max(good, bad):
            break
        middle = good + (bad - good) / 2.0
        if holds(middle):
            good = middle
        else:
            bad = middle
    return good
