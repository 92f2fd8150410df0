"""What `config.json` must hold: read from disk, it is data from outside and is checked once.

A table says what stands under every key that somebody reads; a second one, how the keys must agree.
Keys that neither names are let through: they are notes, of a later version or of a person.
"""

import re
import sys
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fedjax_admm._checks import InputError, listed, one_line
from fedjax_admm._shown import short_repr

FINISHED, UNFINISHED = "finished", "running"  # what stands under `status`

_MOST = 2**63 - 1  # of any count
_LONGEST = 10_000  # characters of a text


@short_repr
class _Kind(NamedTuple):
    """What may stand under a key."""

    wanted: str  # in words
    holds: Callable[[Any], bool]


def _count(least: int, most: int = _MOST) -> _Kind:
    def holds(value: Any) -> bool:
        return type(value) is int and least <= value <= most

    return _Kind(f"a whole number from {least} to {most}", holds)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _is_text(value: Any, forbidden: str = "") -> bool:
    """Whether a value is a text without what a terminal or a file would not take as one."""
    if not isinstance(value, str) or len(value) > _LONGEST:
        return False
    kinds = (unicodedata.category(letter) for letter in value if letter not in "\n\t")
    return not any(kind in ("Cc", "Cs") for kind in kinds) and not set(forbidden) & set(value)


def _is_name(value: Any) -> bool:
    return _is_text(value, forbidden="\n\t") and value.strip() != ""


def _is_setting(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(map(_is_number, value))
    return isinstance(value, bool | str) or _is_number(value)


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value and len(value) <= _LONGEST


def _mapping(
    wanted: str, holds: Callable[[Any], bool], *, empty: bool = True, keys: tuple[str, ...] = ()
) -> _Kind:
    """Return the kind of an object whose names are texts and whose values are of one sort.

    Args:
      wanted: what it is, in words.
      holds: of every value that counts.
      empty: whether it may hold nothing.
      keys: those that must be there; if there are some, no others count.
    """

    def all_hold(value: Any) -> bool:
        if not isinstance(value, dict) or not (value or empty) or not set(keys) <= set(value):
            return False
        return all(map(holds, map(value.get, keys) if keys else value.values())) and (
            all(map(_is_name, value))
        )

    return _Kind(wanted, all_hold)


def _or_none(kind: _Kind) -> _Kind:
    return _Kind(f"null or {kind.wanted}", lambda value: value is None or kind.holds(value))


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _is_figure(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) - {"bands"} == {"style", "columns", "formats"}
        and _is_name(value["style"])
        and value["columns"] in (None, 1, 2)
        and isinstance(value["formats"], list)
        and bool(value["formats"])
        and all(map(_is_name, value["formats"]))
        and (value.get("bands") is None or _is_name(value["bands"]))
    )


_NAME = _Kind("a text of one line", _is_name)
_TEXT = _Kind("a text", _is_text)
_PATH = _Kind("a text", _is_path)
_YES_OR_NO = _Kind("true or false", lambda value: isinstance(value, bool))
_DIGEST = _Kind("a SHA-256 digest in hexadecimal", _is_digest)
_NAMES = _Kind(
    "a list of different names",
    lambda value: (
        isinstance(value, list)
        and bool(value)
        and all(map(_is_name, value))
        and len(set(value)) == len(value)
    ),
)
_SENT = _or_none(_mapping("", _or_none(_count(0)).holds))  # bits may be left out

_REQUIRED: dict[str, _Kind] = {
    "experiment": _NAME,
    "source": _or_none(
        _mapping(
            "an object with the texts `asked` and `again`, and `file` and `distribution`",
            _or_none(_PATH).holds,
            keys=("asked", "again", "file", "distribution"),
        )
    ),
    "digest": _or_none(_DIGEST),
    "title": _TEXT,
    "statement": _or_none(_TEXT),
    "parameter": _NAME,
    "parameter_label": _TEXT,
    "metrics": _mapping("an object of metrics and their labels", _is_text, empty=False),
    "methods": _NAMES,
    "trials": _count(1),
    "rounds": _count(1),
    "seed": _count(0, 2**32 - 1),
    "settings": _mapping(
        "an object of texts, finite numbers and lists of finite numbers", _is_setting
    ),
    "data": _PATH,
    "devices_per_trial": _count(1),
    "x64": _YES_OR_NO,
    "quick": _YES_OR_NO,
    "traffic": _mapping("an object of methods and what they send", _SENT.holds),
    "versions": _mapping(
        "an object of names and versions with fedjax-admm, code, jax and jaxlib",
        _is_text,
        keys=("fedjax-admm", "code", "jax", "jaxlib"),
    ),
    "device": _mapping("an object with the text `kind`", _is_text, keys=("kind",)),
    "partitioned": _YES_OR_NO,
    "width": _count(1),
    "chunk": _count(1),
    "status": _Kind(
        f"{FINISHED!r} or {UNFINISHED!r}", lambda value: value in (FINISHED, UNFINISHED)
    ),
}
_OPTIONAL: dict[str, _Kind] = {
    "paper": _TEXT,
    "findings": _TEXT,
    "command": _TEXT,
    "program": _DIGEST,
    "figure": _Kind(
        "an object with the texts `style`, `bands` and `formats`, a list, and `columns`, 1, 2 or "
        "null",
        _is_figure,
    ),
    "files": _mapping("an object of names of files and their SHA-256 digests", _is_digest),
}


def _sweeps(config: Mapping[str, Any]) -> bool:
    return isinstance(config["settings"].get(config["parameter"]), list)


def _names_itself(config: Mapping[str, Any]) -> bool:
    source = config["source"]
    return source is None or None not in (source["asked"], source["again"])


_AGREEMENTS: tuple[tuple[str, Callable[[Mapping[str, Any]], bool]], ...] = (
    ("its settings must hold the list of numbers that its parameter names", _sweeps),
    (
        "its methods must be those of its traffic",
        lambda config: set(config["methods"]) == set(config["traffic"]),
    ),
    ("its source must say `asked` and `again`", _names_itself),
    (
        "an experiment without a source must have no digest",
        lambda config: config["source"] is not None or config["digest"] is None,
    ),
)

RESTORE = "put back what the run wrote, or run it again into another folder"


def check_configuration(path: Path, config: Mapping[str, Any]) -> None:
    """Check what `config.json` holds, of a finished or an unfinished run.

    Args:
      path: of the file, for the message.
      config: what was read from it.

    Raises:
      InputError: it is not what a run has written.
    """
    missing = [name for name in _REQUIRED if name not in config]
    if missing:
        few = missing if len(missing) <= 4 else [*missing[:3], f"{len(missing) - 3} more"]
        raise damaged(path, f"it lacks {listed(few)}")
    for name, kind in (_REQUIRED | _OPTIONAL).items():
        if name in config and not kind.holds(config[name]):
            value = one_line(config[name])
            raise damaged(path, f"its {name} must be {kind.wanted}, but it is {value}")
    for wanted, holds in _AGREEMENTS:
        if not holds(config):
            raise damaged(path, wanted)


def damaged(path: Path, defect: str) -> InputError:
    """Return the mistake that a file is not what the run wrote."""
    return InputError(f"{path} is not what a run writes: {defect}", value=path, remedy=RESTORE)
