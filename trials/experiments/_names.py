"""What an experiment, its settings, methods and metrics may be called, and what they may say.

Names become keys of `trials.npz`, columns of tables and words of a command. What could not be read
back is refused before anything runs.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from fedjax_admm._checks import InputError, one_line
from fedjax_admm.trials.results import DETAILS, MESSAGES, NONFINITE_ROUND

LONGEST_NAME, LONGEST_TEXT = 200, 10_000
_SENT = ("numbers_up", "numbers_down", "bits_up", "bits_down")


def check_name(what: str, name: Any, taken: Iterable[str] = (), without: str = "/") -> None:
    """Check that something can be kept and found again under a name."""
    told = None
    if not isinstance(name, str):
        told = f"{what} must be named by a text, but it is {one_line(name)}"
    elif not name.strip() or len(name) > LONGEST_NAME:
        told = f"the name of {what} must have 1 to {LONGEST_NAME} letters, but it is "
        told += one_line(name)
    elif not name.isprintable() or set(without) & set(name):
        none = f" and hold no {' or '.join(without)}" if without else ""
        told = f"the name of {what} must be printable{none}, but it is {one_line(name)}"
    elif name in taken:
        told = f"the name of {what} must not be {name!r}, which means something else"
    if told is not None:
        raise InputError(told, value=name, remedy="give it another name")


def check_method_name(experiment: str, name: Any) -> None:
    """Check what a method is called; its name may hold "/", for a metric's may not."""
    what = f"a method of {experiment}"
    check_name(what, name, without="")
    if name.partition("/")[0] in (DETAILS, NONFINITE_ROUND):
        check_name(what, name, (name,), "")


def check_metric_names(experiment: str, method: str, names: Iterable[Any]) -> None:
    """Check what the metrics are called that a method has returned."""
    names = set(names)
    for name in names - {NONFINITE_ROUND, MESSAGES}:
        taken = _SENT if MESSAGES in names else ()
        check_name(f"a metric of the method {method!r} of {experiment}", name, taken)


def check_measured(names: Iterable[Any]) -> None:
    """Check that a measure leaves alone the names under which others are added."""
    for name in names:
        if name in (NONFINITE_ROUND, MESSAGES):
            check_name("what a measure returns", name, (name,))


def check_text(what: str, text: Any) -> None:
    """Check that a text can be kept and shown: ends of lines and tabs may be in it."""
    plain = isinstance(text, str) and len(text) <= LONGEST_TEXT
    if not plain or not text.replace("\n", "").replace("\t", "").isprintable():
        raise InputError(
            f"{what} must be a printable text of at most {LONGEST_TEXT} letters, but it is "
            f"{one_line(text)}",
            value=text,
        )


def check_defaults(experiment: str, swept: str, values: Any, settings: Mapping[Any, Any]) -> None:
    """Check the settings of an experiment and their defaults."""
    check_name(f"what {experiment} sweeps", swept, ("rounds", *settings), "/=")
    for name, value in settings.items():
        check_name(f"a setting of {experiment}", name, ("rounds",), "/=")
        if isinstance(value, str):
            check_text(f"the setting {name} of {experiment}", value)
        elif not (_is_finite(value) or _are_numbers(value)):
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
