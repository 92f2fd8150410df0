"""What a command `solve FAMILY` does once its options are known: read, solve, tell, write.

Every family writes what was run (config.json: command, settings, data, result, seconds, versions),
what was found (models.csv) and how it looks (figure.png and figure.pdf, or other formats, with a
caption in figure.txt) into a folder, with whatever tables and arrays it has besides.
"""

import math
import os
import platform
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from importlib import metadata
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm._version import __version__
from fedjax_admm.trials import figures, files, folders, results
from fedjax_admm.trials.solve._settings import Settings
from fedjax_admm.trials.tables._cells import csv_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODELS = "models.csv"
Rows = Iterable[Sequence[Any]]  # of a table; the first one names the columns
Columns = Mapping[str, Any]  # of a table, all equally long


class Stages:
    """Reports stages of the work as they begin, and measures their seconds."""

    def __init__(self, tell: Callable[[str], object] = lambda _: None) -> None:
        """`tell` is called with the name of every stage as it begins."""
        self.seconds: dict[str, float] = {}
        self._tell = tell

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Report and time a stage."""
        self._tell(name)
        start = perf_counter()
        yield
        self.seconds[name] = perf_counter() - start


@dataclass(frozen=True)
class Solution:
    """The result of a family, ready to be read and written."""

    settings: Settings  # as they were completed by the data
    text: str  # for a person to read
    data: Mapping[str, Any]  # about the input
    result: Mapping[str, Any]  # numbers
    draw: Callable[[], "Figure"]
    tables: Mapping[str, Rows | Columns | None]  # by files; None: an old one is removed
    arrays: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)  # file -> arrays


@contextmanager
def claimed_folder(
    settings: Settings, path: Path, out: Path | None, *, overwrite: bool = False
) -> Iterator[Path]:
    """Give the folder of the result, FAMILY-INPUT in the current one if none is named.

    Nobody else writes there meanwhile. It is new or empty.

    Args:
      settings: what will be solved.
      path: the file that holds the problem.
      out: the folder, or None.
      overwrite: write into any folder, and replace the files there that have the names of ours.
    """
    folder = out or Path(f"{settings.family}-{path.stem}")
    names = (MODELS, *settings.tables, *settings.figure().names, results.CONFIG)
    with folders.locked(folder, owner_only=settings.owner_only()):
        folders.check_places(folder, names, inputs=_inputs(settings, path))
        if not overwrite:
            folders.check_empty(folder)
        yield folder


def solve_file(
    settings: Settings,
    path: Path,
    stages: Stages,
    prepare: Callable[[], object] = lambda: None,
) -> Solution:
    """Read a file and solve its problem; `prepare` is called between reading and computing."""
    if not os.path.lexists(path):  # not "may not be looked at", which reading tells
        missing = f"{path} does not exist; check the name given with {{input}}"
        raise InputError(missing, others=["input"])
    try:
        with stages("reading"):
            data = settings.read(path)
        prepare()
        return settings.solve(data, path.name, stages)
    except InputError as error:
        raise error.renamed(settings.arguments) from None


def write_solution(
    solution: Solution, path: Path, folder: Path, stages: Stages, *, overwrite: bool = False
) -> list[str]:
    """Write the solution of the problem in a file into a folder, over an earlier one.

    Args:
      solution: what `solve_file` returned.
      path: the file that holds the problem.
      folder: where to write; see `claimed_folder`.
      stages: told what is done.
      overwrite: as in `claimed_folder`.

    Returns:
      The names of the files.
    """
    with claimed_folder(solution.settings, path, folder, overwrite=overwrite):
        return put_solution(solution, path, folder, stages, overwrite=overwrite)


def put_solution(
    solution: Solution, path: Path, folder: Path, stages: Stages, *, overwrite: bool = False
) -> list[str]:
    """Do what `write_solution` does in a folder that `claimed_folder` gave."""
    settings, written = solution.settings, []
    with folders.staged(folder) as stage:
        with stages("figure and tables"):
            for name, rows in solution.tables.items():
                if rows is not None:
                    files.write_text(stage / name, _as_csv(rows), owner_only=settings.owner_only())
                    written.append(name)
            for name, arrays in solution.arrays.items():
                files.write_arrays(stage / name, arrays)
                written.append(name)
            figure, chosen = solution.draw(), settings.figure()
            caption = figures.titled_caption(figure)
            look = {"formats": chosen.formats, "style": chosen.look}
            figures.save_figure(figure, stage, caption=caption, **look)
        stale = [name for name, rows in solution.tables.items() if rows is None]
        stale += set(figures.PICTURES) - set(chosen.names)
        config = {
            "command": repeating_command(settings, path, folder),
            "family": settings.family,
            "settings": {"input": path, **settings.stored(), "out": folder},
            "data": solution.data,
            "result": solution.result,
            "seconds": stages.seconds if settings.timed else None,
            "versions": {
                "fedjax-admm": __version__,
                "python": platform.python_version(),
                **{name: metadata.version(name) for name in ("jax", "jaxlib", "numpy")},
            },
        }
        folders.publish(
            stage,
            folder,
            _as_json(config),
            stale=stale,
            inputs=_inputs(settings, path),
            overwrite=overwrite,
        )
    return [*written, *chosen.names, results.CONFIG]


def repeating_command(settings: Settings, path: Path, folder: Path) -> str:
    """Return the command that repeats a run, in full."""
    start = ["fedjax-admm", "solve", settings.family, "--input", str(path)]
    return shlex.join([*start, *settings.words(), "--out", str(folder)])


def spacing(rounds: int, records: int) -> int:
    """Return the largest divisor of the rounds that leaves at least so many records, or all."""
    small = [n for n in range(1, math.isqrt(rounds) + 1) if rounds % n == 0]
    divisors = small + [rounds // n for n in small]
    return max(n for n in divisors if n <= max(rounds // records, 1))


def _as_csv(table: Rows | Columns) -> str:
    rows = table
    if isinstance(table, Mapping):
        rows = [[*table], *zip(*table.values(), strict=True)]
    return csv_text([_cell(value) for value in row] for row in rows)


def _cell(value: Any) -> Any:
    """Return a number with the digits that tell it from others; anything else as it is."""
    digits = 9 if getattr(value, "dtype", None) == "float32" else 12
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, float):
        return f"{plain:.{digits}g}"
    return int(plain) if isinstance(plain, bool) else plain


def _as_json(value: Any) -> Any:
    """Return what JSON can hold: infinity, NaN and paths become texts."""
    if isinstance(value, Mapping):
        return {name: _as_json(each) for name, each in value.items()}
    if hasattr(value, "tolist"):
        return _as_json(value.tolist())
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    lost = isinstance(value, float) and not math.isfinite(value)
    return str(value) if lost or isinstance(value, Path) else value


def _inputs(settings: Settings, path: Path) -> list[Path]:
    """Return the files that may be read: the input, and whatever a setting may name."""
    values = [getattr(settings, each.name) for each in fields(settings)]
    return [path, *(Path(value) for value in values if isinstance(value, str | Path))]
