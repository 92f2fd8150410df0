"""Options of commands: typer's own, with the check of a value beside its help.

    rounds: Annotated[int, whole("Rounds of my method.")] = 1000

typer reads and shows such a parameter; as a field of `Settings` it is checked from Python too.
"""

import math
import operator
from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated, Any

import typer
from typer.models import OptionInfo

from fedjax_admm._checks import InputError, count, flag as check_flag, one_line, one_of
from fedjax_admm._host._times import FORMS

LARGEST_SEED, LARGEST_WHOLE = 2**32 - 1, 2**63 - 1
MOST_ROUNDS = 2**31 - 1  # rounds are counted in int32
_LIMITS = {  # name -> how it is told, and how it compares with the value
    "above": ("greater than", operator.lt),
    "at_least": ("at least", operator.le),
    "below": ("less than", operator.gt),
    "at_most": ("at most", operator.ge),
}


class Option(OptionInfo):
    """An option: what typer shows, and how its value is checked."""

    def __init__(self, help: str, check: Callable[[str, Any], Any], **shown: Any) -> None:
        """Declare an option.

        Args:
          help: one line.
          check: `(name, value) -> value`, which raises `InputError`.
          **shown: arguments of `typer.Option`.
        """
        super().__init__(default=..., help=help, **shown)
        self.check = check


def whole(help_: str, *, at_least: int = 1, at_most: int = LARGEST_WHOLE) -> Option:
    """Declare a whole number."""
    check = partial(count, at_least=at_least, at_most=at_most)
    return Option(help_, check, parser=whole_number, metavar="INTEGER")


def random_seed(help_: str) -> Option:
    """Declare the seed of draws."""
    return whole(help_, at_least=0, at_most=LARGEST_SEED)


def number(
    help_: str, *, infinite: bool = False, word: str | None = None, **limits: float
) -> Option:
    """Declare a finite number.

    Args:
      help_: one line.
      infinite: whether infinity is allowed.
      word: such as "auto": may be given in place of a number.
      **limits: `above`, `at_least`, `below`, `at_most`.
    """
    rules: dict[str, Callable[[float], bool]] = {} if infinite else {"finite": math.isfinite}
    for limit, value in limits.items():
        told, compares = _LIMITS[limit]
        rules[f"{told} {value:g}"] = partial(compares, value)
    kind = "a number" if word is None else f"a number or {word}"

    def check(name: str, value: Any) -> float | str:
        if word is not None and str(value).strip().lower() == word:
            return word
        try:
            checked, shown = float(_plain(value)), f"{float(value):g}"
        except (TypeError, ValueError):
            broken, checked, shown = [kind], math.nan, one_line(value)
        else:
            broken = [rule for rule, holds in rules.items() if not holds(checked)]
        if broken:
            told = f"must be {broken[0]}, but it is {shown}"
            raise InputError(told, argument=name, value=value)
        return checked

    if word is None:
        return Option(help_, check, parser=real_number, metavar="NUMBER")
    return Option(help_, check, parser=str, metavar=f"NUMBER|{word}")


def choice(help_: str, known: Iterable[str]) -> Option:
    """Declare one of a few names."""
    names = list(known)

    def check(name: str, value: Any) -> Any:
        one_of(name, value, names)
        return value

    return Option(help_, check, metavar="|".join(names))


def text(help_: str, metavar: str | None = None, kind: Callable[[Any], Any] = str) -> Option:
    """Declare a text such as the name of a column; `kind` converts it, as `Path` does."""
    return Option(help_, lambda _, value: kind(value), metavar=metavar)


def file(help_: str) -> Option:
    """Declare the path of a file."""
    return text(help_, metavar="FILE")


def flag(name: str, help_: str) -> Option:
    """Declare an option without a value, such as "--raw"."""
    return Option(help_, check_flag, param_decls=(name,))


def _plain(value: Any) -> Any:
    """Return a number or its text; Python would also read 1_000 and other scripts' digits."""
    if isinstance(value, str) and ("_" in value or not value.isascii()):
        raise ValueError
    return value


def _reader(kind: Callable[[Any], Any], what: str) -> Callable[[str], Any]:
    """Return what reads an option's text; typer's own message does not name the value."""

    def read(text: str) -> Any:
        try:
            return kind(_plain(text))
        except ValueError:
            raise typer.BadParameter(f"{one_line(text)} is not {what}.") from None

    return read


whole_number = _reader(int, "a whole number")
real_number = _reader(float, "a number")


def _form_of_times(name: str, value: Any) -> str:
    if "%" not in str(value) and value not in FORMS:
        told = f"must be {', '.join(FORMS)} or a pattern such as %d.%m.%y, but it is {value!r}"
        raise InputError(told, argument=name, value=value)
    return value


TimeFormat = Annotated[
    str | None,
    Option(
        f"How times are written: {', '.join(FORMS)}, or a pattern such as %d.%m.%y (found from "
        "the column).",
        _form_of_times,
        metavar="FORM",
    ),
]
Style = Annotated[
    str | None, text("Style of the figure: default, paper or slides.", metavar="NAME")
]
Format = Annotated[
    str | None, text("Files of the figure: any of png,pdf,svg (png,pdf).", metavar="KIND,...")
]
Columns = Annotated[int | None, whole("Figure width in page columns: 1 (3.5 in) or 2 (7.16 in).")]
