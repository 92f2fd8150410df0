"""What a family found, and the way there: read, solve, tell.

Every family writes what was run (config.json: command, settings, data, result, seconds, versions),
what was found (models.csv) and how it looks (figure.png and figure.pdf, or other formats, with a
caption in figure.txt), with whatever tables and arrays it has besides.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm.trials.solve._settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedjax_admm.trials.tables._observations import Observations

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


def model_rows(
    observations: "Observations",
    models: np.ndarray,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> Rows:
    """Return a row per node: columns before its coefficients, these, and columns after them."""
    own = {*before, *after}
    names = [f"{name} (coefficient)" if name in own else name for name in observations.columns]
    values = zip(*before.values(), *np.transpose(models), *after.values(), strict=True)
    return [[*before, *names, *after], *values]


def spacing(rounds: int, records: int) -> int:
    """Return the largest divisor of the rounds that leaves at least so many records, or all."""
    most = max(rounds // records, 1)
    small = [n for n in range(1, math.isqrt(rounds) + 1) if rounds % n == 0]
    return max(n for n in (*small, *(rounds // n for n in small)) if n <= most)


def rounded(values: np.ndarray, digits: int) -> np.ndarray:
    """Round numbers to some digits, so that one repeats as it is printed."""
    return np.array([float(f"{value:.{digits}g}") for value in values])
