"""What a command `solve FAMILY` does once its options are known: read, solve, tell, write.

Every family writes what was run (config.json: command, settings, data, result, seconds, versions),
what was found (models.csv) and how it looks (figure.png, figure.pdf) into a folder, with whatever
tables and arrays it has besides.
"""

import csv
import io
import math
import platform
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm._version import __version__
from fedjax_admm.trials import figures, files, results
from fedjax_admm.trials.solve._settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODELS = "models.csv"
Rows = Iterable[Sequence[Any]]  # of a table; the first one names the columns


class Stages:
    """Tells stages of the work as they begin, and keeps how long each took in seconds."""

    def __init__(self, tell: Callable[[str], object] = lambda _: None) -> None:
        """Keep who is told the name of every stage as it begins."""
        self.seconds: dict[str, float] = {}
        self._tell = tell

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Tell and time what is done within."""
        self._tell(name)
        start = perf_counter()
        yield
        self.seconds[name] = perf_counter() - start


@dataclass(frozen=True)
class Solution:
    """What a family found, ready to be read and written."""

    settings: Settings  # as they were completed by the data
    text: str  # what a person reads
    data: Mapping[str, Any]  # what was read
    result: Mapping[str, Any]  # what was found, in numbers
    draw: Callable[[], "Figure"]
    tables: Mapping[str, Rows | None]  # file -> rows; None: not this time, an old one is removed
    arrays: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)  # file -> arrays


def output_folder(settings: Settings, path: Path, out: Path | None) -> Path:
    """Return the folder of the result: FAMILY-INPUT in the current one if none is named.

    Raises:
      InputError: a file is in its place.
    """
    folder = out or Path(f"{settings.family}-{path.stem}")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"must be a folder, but {folder} is a file", argument="out")
    return folder


def solve_file(
    settings: Settings,
    path: Path,
    stages: Stages,
    prepare: Callable[[], object] = lambda: None,
) -> Solution:
    """Read a file and solve its problem; `prepare` is called between reading and computing.

    Raises:
      InputError: the file is missing or malformed, or the settings do not fit it.
    """
    if not path.exists():
        told = f"{path} does not exist; check the name given with {{input}}"
        raise InputError(told, others=["input"])
    try:
        with stages("reading"):
            data = settings.read(path)
        prepare()
        return settings.solve(data, path.name, stages)
    except InputError as error:
        raise error.renamed(settings.arguments) from None


def write_solution(solution: Solution, path: Path, folder: Path, stages: Stages) -> list[str]:
    """Write the solution of the problem in a file into a folder, over an earlier one.

    Returns:
      The names of the files.

    Raises:
      InputError: the file system refuses.
    """
    settings, written = solution.settings, []
    with stages("figure and tables"):
        for name, rows in solution.tables.items():
            if rows is None:
                _remove(folder / name)
            else:
                files.write_text(folder / name, _as_csv(rows))
                written.append(name)
        for name, arrays in solution.arrays.items():
            files.write_arrays(folder / name, arrays)
            written.append(name)
        figures.save_figure(solution.draw(), folder)
    config = {
        "command": repeating_command(settings, path, folder),
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
    files.write_json(folder / results.CONFIG, _as_json(config))
    return [*written, "figure.png", "figure.pdf", results.CONFIG]


def repeating_command(settings: Settings, path: Path, folder: Path) -> str:
    """Return the command that repeats a run, in full."""
    start = ["fedjax-admm", "solve", settings.family, "--input", str(path)]
    return shlex.join([*start, *settings.words(), "--out", str(folder)])


def spacing(rounds: int, records: int) -> int:
    """Return the largest divisor of the rounds that leaves at least so many records, or all."""
    return max(n for n in range(1, max(rounds // records, 1) + 1) if rounds % n == 0)


def _as_csv(rows: Rows) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


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


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot remove {path} of an earlier run: {error.strerror or error}; choose another "
            "folder with {out}.",
            others=["out"],
        ) from error
