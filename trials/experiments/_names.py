"""Names and texts of experiments, settings, methods and metrics.

Names become keys of `trials.npz`, columns of tables and words of a command. A name that could not
be read back is refused before anything runs.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from fedjax_admm._checks import InputError, one_line
from fedjax_admm.trials.results import DETAILS, MESSAGES, NONFINITE_ROUND

LONGEST_NAME = 200
_SENT = ("numbers_up", "numbers_down", "bits_up", "bits_down")


def check_name(what: str, name: Any, taken: Iterable[str] = (), without: str = "/") -> None:
    """Check the name of something, such as "a method of mine": `without` are separators."""
    plain = isinstance(name, str) and name.isprintable() and not set(without) & set(name)
    if not plain or not name.strip() or len(name) > LONGEST_NAME:
        separators = f" without {' or '.join(without)}" if without else ""
        raise InputError(
            f"the name of {what} must be a printable text of 1 to {LONGEST_NAME} letters"
            f"{separators}, but it is {one_line(name)}",
            value=name,
            remedy="give it another name",
        )
    if name in taken:
        raise InputError(
            f"the name of {what} must not be {name!r}, which means something else",
            value=name,
            remedy="give it another name",
        )


def check_method_name(experiment: str, name: Any) -> None:
    """Check the name of a method, which may hold "/", because that of a metric may not."""
    reserved = (DETAILS, NONFINITE_ROUND)
    first = name.partition("/")[0] if isinstance(name, str) else ""
    check_name(f"a method of {experiment}", name, (name,) if first in reserved else (), "")


def check_metric_names(experiment: str, method: str, names: Iterable[Any]) -> None:
    """Check the names of the metrics that a method has returned."""
    names = set(names)
    for name in names - {NONFINITE_ROUND, MESSAGES}:
        taken = _SENT if MESSAGES in names else ()
        check_name(f"a metric of the method {method!r} of {experiment}", name, taken)


def check_measured(names: Iterable[Any]) -> None:
    """Check that a measure leaves alone the names under which others are added."""
    for name in names:
        check_name("the result of a measure", name, (NONFINITE_ROUND, MESSAGES), "")


def check_defaults(experiment: str, swept: str, values: Any, settings: Mapping[Any, Any]) -> None:
    """Check the names and defaults of the setting that varies, and of the others."""
    check_name(f"the sweep of {experiment}", swept, ("rounds", *settings), "/=")
    for name, value in settings.items():
        check_name(f"a setting of {experiment}", name, ("rounds",), "/=")
        if not (isinstance(value, str) or _is_finite(value) or _are_numbers(value)):
            raise InputError(
                f"the setting {name} of {experiment} must be a text, a finite number or a tuple "
                f"of finite numbers, but it is {one_line(value)}",
                value=value,
            )
    if not _are_numbers(values) or len(set(values)) < len(values):
        raise InputError(
            f"the values of {swept} of {experiment} must be a tuple of different finite numbers, "
            f"but they are {one_line(values)}",
            value=values,
        )


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < math.inf


def _are_numbers(values: Any) -> bool:
    return isinstance(values, tuple) and bool(values) and all(map(_is_finite, values))
