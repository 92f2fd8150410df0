"""A fault as a row: a command, what is wrong around it, and what is wanted."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

REFUSED, DONE = 2, 0


def nothing(folder: Path) -> None:
    """Leave the folder empty."""


@dataclass(frozen=True)
class Row:
    """A command in a folder of its own, and what it must leave.

    Of every row it is asked that it ends in time with the wanted code, that nobody sees a traceback
    and that every file that was there before still holds the same bytes, but for those that
    `changes` names. A command that is refused (code 2) tells one sentence on standard error and
    leaves no new file.
    """

    name: str  # of the row, unique in its table
    words: tuple[str, ...]  # of the command, after "fedjax-admm"
    says: str = ""  # regular expression that is found in what is told
    wanted: int = REFUSED  # exit code
    prepare: Callable[[Path], object] = nothing  # makes the folder in which the command runs
    environment: Mapping[str, str | None] = field(default_factory=dict)  # None: not set
    fresh: bool = False  # a new interpreter: what is read while it starts, or done when it ends
    output: str = "kept"  # or "broken": nobody reads it
    changes: tuple[str, ...] = ()  # patterns of files that may be changed
    limit: float = 60  # seconds
    usage: bool = False  # the refusal shows how the command is used, not one sentence
    small: bool = True  # the only experiment is `consensus`, which compiles in a second
    check: Callable[[Path], object] = nothing  # looks at the folder afterwards


@dataclass(frozen=True)
class Misuse:
    """A call from Python with something wrong, which must end in one sentence."""

    name: str  # of the row, unique in its table
    call: Callable[[], object]
    says: str  # regular expression that is found in the sentence
    error: type[Exception] | None = None  # `InputError` if None
