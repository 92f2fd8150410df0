"""The settings of a command `solve FAMILY`: the fields of a dataclass, a line for each.

    @dataclass(frozen=True, kw_only=True)
    class MySettings(Settings):
        '''Solve my problem.'''

        rounds: Annotated[int, whole("Rounds of my method.")] = 1000

A field is an option of the command with its help, its default and its check, an argument in
Python, an entry of config.json and a part of the command that repeats a run. Every family has the
options of `Settings`, and --input, --out, --overwrite and --no-cache. This module imports nothing
large, so that help and most mistakes come at once.
"""

import abc
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_type_hints

from fedjax_admm._checks import InputError
from fedjax_admm._host._tables import edge_header
from fedjax_admm.trials.figures import FigureFiles, figure_files
from fedjax_admm.trials.solve._options import Columns, Format, Option, Style, TimeFormat, text

if TYPE_CHECKING:
    from fedjax_admm.trials.solve._solution import Solution, Stages
    from fedjax_admm.trials.tables._observations import Observations


@dataclass(frozen=True, kw_only=True)
class Settings(abc.ABC):
    """The options of a command `solve FAMILY`, checked when they are made.

    The first paragraph of a class's docstring is the help of its command. A field without `repr`
    is secret: its value is written nowhere.
    """

    family: ClassVar[str]  # name of the command
    reads: ClassVar[str]  # help of --input
    wide: ClassVar[bool] = False  # whether to compute in float64
    timed: ClassVar[bool] = True  # whether config.json may tell how long each stage took
    tables: ClassVar[tuple[str, ...]] = ()  # files that may be written besides models.csv
    arguments: ClassVar[Mapping[str, str]] = {}  # argument of the library -> option

    style: Style = None
    format: Format = None
    columns: Columns = None

    def __post_init__(self) -> None:
        """Check every option by itself, then all together."""
        declared = options(type(self))
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None or field.default is not None:
                checked = declared[field.name].check(field.name, value)
                object.__setattr__(self, field.name, checked)
        self.figure()
        self.check_together()

    def check_together(self) -> None:  # noqa: B027 - most families have nothing to check
        """Check how options go together, as far as that does not depend on data."""

    def mistake(self, told: str, about: str | None = None) -> InputError:
        """Return a mistake to raise, of one option or of several, which stand in braces."""
        return InputError(told, argument=about, others=list(options(type(self))))

    def check_memory(self, what: str, numbers: float, remedy: str) -> None:
        """Check that so many numbers fit into memory; options stand in braces in the texts."""
        from fedjax_admm.trials.engine import memory as limits

        try:
            limits.check_memory(what, int(numbers * (8 if self.wide else 4)), remedy)
        except InputError as error:
            raise self.mistake(str(error)) from None

    def figure(self) -> FigureFiles:
        """Return which files of the figure are written, and how it looks in them."""
        return figure_files(style=self.style, format=self.format, columns=self.columns)

    def owner_only(self) -> bool:
        """Return whether only the user may look into the folder of the result."""
        return False

    @abc.abstractmethod
    def read(self, path: Path) -> Any:
        """Read and check the file that --input names."""

    @abc.abstractmethod
    def solve(self, data: Any, title: str, stages: "Stages") -> "Solution":
        """Solve the problem that was read; `title` is its name in figures."""

    def stored(self) -> dict[str, Any]:
        """Return the options as config.json has them; those that are secret only as given."""
        values = {name: getattr(self, name) for name in options(type(self))}
        secret = [each.name for each in fields(self) if not each.repr]
        hidden = {name: "given, not stored" for name in secret if values[name] is not None}
        return values | hidden

    def words(self) -> Iterator[str]:
        """Yield the options as the command line takes them, without those that are secret."""
        secret = [each.name for each in fields(self) if not each.repr]
        for name in options(type(self)):
            value, option = getattr(self, name), f"--{name.replace('_', '-')}"
            if value is True:
                yield option
            elif name not in secret and value is not None and value is not False:
                for each in value if isinstance(value, tuple) else [value]:
                    yield from (option, str(each))


@dataclass(frozen=True, kw_only=True)
class RowSettings(Settings):
    """The columns of a regression: of families with a row per observation of a node or a client."""

    target: Annotated[str, text("Column that is predicted.")]
    features: Annotated[str, text("Columns, as in 'a,b[-1]'; [-1] is that of the row before.")]
    time: Annotated[str | None, text("Column that orders rows (order of the file).")] = None
    time_format: TimeFormat = None

    def rows(self, path: Path, edges: str | None, **how: Any) -> "Observations":
        """Read all rows; the columns of a file of edges are looked at before."""
        from fedjax_admm.trials.tables._observations import read_observations

        if edges is not None and os.path.isfile(edges):
            edge_header(edges)
        names = ("target", "features", "time", "time_format")
        return read_observations(path, **{name: getattr(self, name) for name in names}, **how)


@cache
def options(settings: type[Settings]) -> dict[str, Option]:
    """Return the options that a class of settings declares: its own, and then those of all."""
    hints = get_type_hints(settings, include_extras=True)
    shared = [field.name for field in fields(Settings)]
    own = [field.name for field in fields(settings) if field.name not in shared]
    return {name: hints[name].__metadata__[0] for name in [*own, *shared]}
