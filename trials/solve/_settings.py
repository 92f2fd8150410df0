"""What the options of a command `solve FAMILY` are: the fields of a dataclass, a line for each.

    @dataclass(frozen=True, kw_only=True)
    class MySettings(Settings):
        '''Solve my problem.'''

        rounds: int = whole("Rounds of my method.", 1000)

A field is an option of the command with its help, its default and its checks, an argument in
Python, an entry of config.json and a part of the command that repeats a run. All families share
what `Settings` declares of their figures, and --input, --out, --overwrite and --no-cache. Nothing
here is dear to import: help and most mistakes come at once.
"""

import abc
import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from fedjax_admm._checks import InputError, count, one_line
from fedjax_admm._shown import short_repr
from fedjax_admm.trials.figures import FigureFiles, figure_files

if TYPE_CHECKING:
    from fedjax_admm.trials.solve._command import Solution, Stages

LARGEST_SEED, LARGEST_WHOLE = 2**32 - 1, 2**63 - 1
MOST_ROUNDS = 2**31 - 1  # rounds are counted in int32


@short_repr
class Demand(NamedTuple):
    """What a number must be."""

    holds: Callable[[float], bool]
    told: str  # "must ..."
    remedy: str | None = None


POSITIVE = Demand(lambda value: 0 < value < math.inf, "be positive and finite")
NOT_NEGATIVE = Demand(lambda value: 0 <= value < math.inf, "be finite and not negative")
SHARE = Demand(lambda value: 0 < value < 1, "lie between 0 and 1")


@short_repr
@dataclass(frozen=True)
class Option:
    """An option of a command: a field of its settings."""

    help: str
    kind: type = str  # what its text is read as: int, float, Path; bool for a flag
    metavar: str | None = None
    check: Callable[[str, Any], Any] = lambda _, value: value  # name, value -> what is kept
    repeated: bool = False  # it may be given several times
    secret: bool = False  # its value is written nowhere


def whole(
    help_: str,
    default: Any = MISSING,
    *,
    at_least: int = 1,
    at_most: int = LARGEST_WHOLE,
    **more: Any,
) -> Any:
    """Declare a whole number, or with `repeated=True` several of them."""

    def one(name: str, value: Any) -> int:
        return count(name, value, at_least=at_least, at_most=at_most)

    def several(name: str, values: Any) -> tuple[int, ...]:
        return tuple(one(name, value) for value in values)

    check = several if more.get("repeated") else one
    return _field(Option(help_, int, "INTEGER", check, **more), default)


def random_seed(help_: str, default: Any = 2025, **more: Any) -> Any:
    """Declare the seed of draws."""
    return whole(help_, default, at_least=0, at_most=LARGEST_SEED, **more)


def number(help_: str, default: Any = MISSING, *must: Demand, word: str | None = None) -> Any:
    """Declare a number, or with a word such as "auto" a number or that; all demands must hold."""

    def check(name: str, value: Any) -> float | str:
        if word is not None and str(value).strip().lower() == word:
            return word
        try:
            found = float(value.replace("_", "?") if isinstance(value, str) else value)
        except (TypeError, ValueError):
            wanted = "a number" if word is None else f"a positive number or {word}"
            told = f"must be {wanted}, but it is {one_line(value)}"
            raise InputError(told, argument=name) from None
        for holds, told, remedy in must:
            if not holds(found):
                told = f"must {told}, but it is {found:g}"
                raise InputError(told, argument=name, remedy=remedy, others=[name])
        return found

    kind, metavar = (float, "NUMBER") if word is None else (str, f"NUMBER|{word}")
    return _field(Option(help_, kind, metavar, check), default)


def choice(help_: str, known: Iterable[str], default: Any = MISSING) -> Any:
    """Declare one of a few names."""
    names = list(known)

    def check(name: str, value: Any) -> Any:
        if value not in names:
            told = f"must be one of {', '.join(names)}, but it is {value!r}"
            raise InputError(told, argument=name, value=value)
        return value

    return _field(Option(help_, metavar="|".join(names), check=check), default)


def text(
    help_: str,
    default: Any = MISSING,
    *,
    kind: type = str,
    metavar: str | None = None,
    repeated: bool = False,
) -> Any:
    """Declare a text, such as the name of a column, several, or with `kind=Path` a file's path."""

    def check(_: str, value: Any) -> Any:
        return tuple(map(kind, value)) if repeated else kind(value)

    return _field(Option(help_, kind, metavar, check, repeated), default)


def flag(help_: str) -> Any:
    """Declare an option that is given or not."""
    return _field(Option(help_, bool), False)


def _field(option: Option, default: Any) -> Any:
    shown = not option.secret
    return dataclasses.field(default=default, repr=shown, metadata={"option": option})


@short_repr
@dataclass(frozen=True, kw_only=True)
class Settings(abc.ABC):
    """The options of a command `solve FAMILY`, checked when they are made.

    The first paragraph of a class's docstring is the help of its command.
    """

    family: ClassVar[str]  # name of the command
    reads: ClassVar[str]  # help of --input
    timed: ClassVar[bool] = True  # whether config.json may tell how long each stage took
    arguments: ClassVar[Mapping[str, str]] = {}  # what the library calls otherwise -> option

    style: str | None = text("Of the figure: default, paper or slides.", None, metavar="NAME")
    format: str | None = text(
        "Of the figure: any of png,pdf,svg,pgf (png,pdf).", None, metavar="KIND,..."
    )
    columns: int | None = whole(
        "Of the page, 1 or 2, that the figure is as wide as (3.5 or 7.16 inches).", None
    )

    def __post_init__(self) -> None:
        """Check every option by itself, then all together.

        Raises:
          InputError: an option is out of range, or options do not go together.
        """
        for field in dataclasses.fields(self):
            value, option = getattr(self, field.name), field.metadata["option"]
            if value is not None or field.default is not None:
                object.__setattr__(self, field.name, option.check(field.name, value))
        self.figure()
        self.check_together()

    def check_together(self) -> None:  # noqa: B027 - most families have nothing to check
        """Check how options go together, as far as that does not depend on data."""

    def mistake(self, told: str, about: str | None = None) -> InputError:
        """Return a mistake to raise, of one option or of several, which stand in braces."""
        return InputError(told, argument=about, others=list(options(type(self))))

    def figure(self) -> FigureFiles:
        """Return which files of the figure are written, and how it looks in them.

        Raises:
          InputError: there is no such style, format or number of columns.
        """
        return figure_files(style=self.style, format=self.format, columns=self.columns)

    def wide(self) -> bool:
        """Return whether to compute in float64."""
        return False

    def owner_only(self) -> bool:
        """Return whether nobody but the user may look into the folder of the result."""
        return False

    @abc.abstractmethod
    def read(self, path: Path) -> Any:
        """Read and check the file that --input names."""

    @abc.abstractmethod
    def solve(self, data: Any, title: str, stages: "Stages") -> "Solution":
        """Solve the problem that was read; figures call it `title`."""

    def stored(self) -> dict[str, Any]:
        """Return the options as config.json has them."""
        values = {name: getattr(self, name) for name in options(type(self))}
        hidden = {name for name, option in options(type(self)).items() if option.secret}
        given = {name: "given, not stored" for name in hidden if values[name] is not None}
        return {**values, **given}

    def words(self) -> list[str]:
        """Return the options as the command line takes them, without those that are secret."""
        words = []
        for name, option in options(type(self)).items():
            value = getattr(self, name)
            if option.secret or value is None or value is False:
                continue
            for each in value if option.repeated else [value]:
                words += [option_name(name)] if each is True else [option_name(name), str(each)]
        return words


def options(settings: type[Settings]) -> dict[str, Option]:
    """Return the options that a class of settings declares: its own, and then those of all."""
    found = {field.name: field.metadata["option"] for field in dataclasses.fields(settings)}
    shared = {field.name for field in dataclasses.fields(Settings)}
    return dict(sorted(found.items(), key=lambda option: option[0] in shared))


def option_name(name: str) -> str:
    """Return how the command line calls an option."""
    return f"--{name.replace('_', '-')}"
