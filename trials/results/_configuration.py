"""Contents of `config.json`: read from disk, they are data from outside and are checked once.

A table says what each key must hold that somebody reads. Other keys are notes, of a later version
or of a person.
"""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedjax_admm._checks import InputError, listed, one_line

FINISHED, UNFINISHED = "finished", "running"  # values of `status`
RESTORE = "put back what the run wrote, or run it again into another folder"

Check = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    """Return whether a value is a text that can be shown, drawn and written."""
    return isinstance(value, str) and len(value) <= 10_000 and not re.search(_UNSHOWN, value)


_UNSHOWN = "[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"  # control characters, halves of letters


def _is_name(value: Any) -> bool:
    return _is_text(value) and value.strip() != "" and not set("\n\t") & set(value)


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value and len(value) <= 10_000


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _is_setting(value: Any) -> bool:
    if isinstance(value, list):
        return value != [] and all(map(_is_number, value))
    return isinstance(value, bool | str) or _is_number(value)


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _is_count(value: Any, least: int = 1) -> bool:
    return type(value) is int and least <= value < 2**63


def _are_names(value: Any) -> bool:
    return (
        isinstance(value, list) and all(map(_is_name, value)) and 0 < len(value) == len(set(value))
    )


def _object(check: Check, *keys: str) -> Check:
    """Return the check of an object with these keys, whose values are all of one kind."""

    def holds(value: Any) -> bool:
        if not isinstance(value, dict) or not set(keys) <= set(value):
            return False
        return all(map(_is_name, value)) and all(map(check, value.values()))

    return holds


def _or_null(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _is_figure(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) - {"bands", "everything"} == {"style", "columns", "formats"}
        and _is_name(value["style"])
        and value["columns"] in (None, 1, 2)
        and _are_names(value["formats"])
        and _or_null(_is_name)(value.get("bands"))
        and isinstance(value.get("everything", False), bool)
    )


_COUNT = "a whole number from 1", _is_count
_YES_OR_NO = "true or false", lambda value: isinstance(value, bool)
_SENT = _or_null(_object(_or_null(lambda value: _is_count(value, least=0))))
_SOURCE = _object(_or_null(_is_path), "asked", "again", "file", "distribution")
_VERSIONS = _object(_is_text, "fedjax-admm", "code", "jax", "jaxlib")

_REQUIRED: dict[str, tuple[str, Check]] = {
    "experiment": ("a text of one line", _is_name),
    "source": (
        "null or an object with the texts asked and again, and file and distribution",
        _or_null(lambda value: _SOURCE(value) and None not in (value["asked"], value["again"])),
    ),
    "digest": ("null or a SHA-256 digest in hexadecimal", _or_null(_is_digest)),
    "title": ("a text", _is_text),
    "statement": ("null or a text", _or_null(_is_text)),
    "parameter": ("a text of one line", _is_name),
    "parameter_label": ("a text", _is_text),
    "metrics": ("an object of labels", lambda value: bool(value) and _object(_is_text)(value)),
    "methods": ("a list of different names", _are_names),
    "trials": _COUNT,
    "rounds": _COUNT,
    "seed": ("a whole number from 0", lambda value: _is_count(value, least=0) and value < 2**32),
    "settings": ("an object of texts, numbers and lists of numbers", _object(_is_setting)),
    "data": ("a text", _is_path),
    "devices_per_trial": _COUNT,
    "x64": _YES_OR_NO,
    "quick": _YES_OR_NO,
    "traffic": ("an object of methods and what they send", _object(_SENT)),
    "versions": ("an object of texts with fedjax-admm, code, jax and jaxlib", _VERSIONS),
    "device": (
        "an object with the text kind",
        lambda value: isinstance(value, dict) and _is_text(value.get("kind")),
    ),
    "partitioned": _YES_OR_NO,
    "width": _COUNT,
    "chunk": _COUNT,
    "status": (f"{FINISHED!r} or {UNFINISHED!r}", lambda value: value in (FINISHED, UNFINISHED)),
}
_OPTIONAL: dict[str, tuple[str, Check]] = {
    "paper": ("a text", _is_text),
    "findings": ("a text", _is_text),
    "measured_on": ("a text", _is_text),
    "verdict": ("a text", _is_text),
    "command": ("a text", _is_text),
    "until_se": ("null or a number", _or_null(_is_number)),
    "program": ("a SHA-256 digest in hexadecimal", _is_digest),
    "figure": ("an object with the texts style and bands, columns, and a list formats", _is_figure),
}


def check_configuration(path: Path, config: Mapping[str, Any]) -> None:
    """Check what `config.json` holds, of a finished or an unfinished run.

    Args:
      path: of the file, for the message.
      config: what was read from it.
    """
    missing = [name for name in _REQUIRED if name not in config]
    if missing:
        few = missing if len(missing) <= 4 else [*missing[:3], f"{len(missing) - 3} more"]
        raise damaged(path, f"it lacks {listed(few)}")
    for name, (kind, holds) in (_REQUIRED | _OPTIONAL).items():
        if name in config and not holds(config[name]):
            raise damaged(path, f"its {name} must be {kind}, but it is {one_line(config[name])}")
    if not isinstance(config["settings"].get(config["parameter"]), list):
        raise damaged(path, "its settings must hold the list of numbers that its parameter names")
    if set(config["methods"]) != set(config["traffic"]):
        raise damaged(path, "its methods must be those of its traffic")


def damaged(path: Path, defect: str) -> InputError:
    """Return the mistake that a file is not what the run wrote."""
    return InputError(f"{path} is not what a run writes: {defect}", value=path, remedy=RESTORE)
