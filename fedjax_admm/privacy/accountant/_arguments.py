"""Numbers that the accountant takes, checked on the host in float64, and a search between two."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from fedjax_admm._checks import InputError, one_line

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
    if seen.ndim:
        raise InputError(
            f"must be one number, but it has shape {seen.shape}", argument=name, value=value
        )
    return seen.item()


def real_numbers(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
) -> np.ndarray:
    """Checked numbers as a float64 array; infinity is a number, NaN is not."""
    try:
        given = np.asarray(value)
    except (TypeError, ValueError):  # ragged lists; values inside a transformation
        given = np.asarray(None)
    if given.dtype.kind not in "iuf":
        raise InputError(
            "must be a number or an array of numbers that is known on the host, but it is "
            f"{one_line(value)}",
            argument=name,
            value=value,
        )
    seen = given.astype(np.float64)
    limits = [(~np.isnan(seen), "a number")]
    if above is not None:
        limits.append((seen > above, f"greater than {above:g}"))
    if at_least is not None:
        limits.append((seen >= at_least, f"at least {at_least:g}"))
    if at_most is not None:
        limits.append((seen <= at_most, f"at most {at_most:g}"))
    if below is not None:
        limits.append((seen < below, f"less than {below:g}"))
    for holds, wanted in limits:
        bad = np.flatnonzero(~holds)
        if bad.size:
            where = f"entry {bad[0]} " if seen.ndim else "it "
            raise InputError(
                f"must be {wanted}, but {where}is {seen.ravel()[bad[0]]:g}",
                argument=name,
                value=value,
            )
    return seen


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
