"""Results of an experiment: the four files of the result contract, read and written.

config.json   every setting, seed, width, versions, device, durations, the repeating command
trials.npz    "method/metric" with axes (sweep, trial, round), "sweep" and "round" beside them, and
              "details/..." where the figure shows more than metrics
summary.csv   tidy: one row per method, sweep value, recorded round and metric
figure.png, figure.pdf   or other formats that were asked for, with a caption in figure.txt
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_admm._checks import InputError, listed
from fedjax_admm._frames import optional
from fedjax_admm._host._files import write_arrays, write_text
from fedjax_admm._host._store import CONFIG as CONFIG
from fedjax_admm.trials.results._frames import trials_dataset, trials_frame
from fedjax_admm.trials.results._summaries import summarize
from fedjax_admm.trials.tables._cells import csv_text

ARRAYS, SUMMARY = "trials.npz", "summary.csv"  # the files of a run
FINISHED = "finished"  # of a configuration: its `status`
DETAILS = "details"
"""The group of arrays that a figure shows besides metrics."""
NONFINITE_ROUND = "first_nonfinite_round"
"""The group of arrays that say when a trial stopped being finite."""
SWEEP, ROUND = "sweep", "round"
MESSAGES = "messages"
"""The array that says how many messages a method sent."""
_COLUMNS = (
    *("experiment", "method", "parameter", "value", "round", "metric", "trials"),
    *("mean", "standard_error", "median", "q10", "q90", "nonfinite"),
)


@dataclass(frozen=True)
class Results:
    """Results of a run, or of the trials that it has so far."""

    config: Mapping[str, Any]
    sweep: np.ndarray  # shape=(sweep,)
    rounds: np.ndarray  # shape=(round,), int: rounds done at each record
    # "method/metric" -> (sweep, trial, round)
    arrays: Mapping[str, np.ndarray] = field(repr=False)
    # method -> (sweep, trial), int: 0 where there is none
    nonfinite: Mapping[str, np.ndarray] = field(repr=False)
    # what else the figure shows
    details: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)

    @property
    def methods(self) -> list[str]:
        """Return the names of the methods, in the experiment's order."""
        return list(self.config["methods"])

    @property
    def finished(self) -> bool:
        """Return whether the run has finished, as its configuration tells."""
        return self.config["status"] == FINISHED

    @property
    def trials(self) -> int:
        """Return how many trials there are; fewer than were asked for while the run goes on."""
        return next((values.shape[1] for values in self.arrays.values()), 0)

    @property
    def extent(self) -> str:
        """Return in words how many trials there are: "312 of 1000 trials", or "1000 trials"."""
        asked = self.config["trials"]
        return f"{asked} trials" if self.trials == asked else f"{self.trials} of {asked} trials"

    @property
    def run_in_words(self) -> str:
        """Return trials, rounds and seed, as "1000 trials, 1 round, seed 2025"."""
        rounds = self.config["rounds"]
        return f"{self.extent}, {rounds} round{'s' * (rounds != 1)}, seed {self.config['seed']}"

    def has(self, method: str, metric: str) -> bool:
        """Return whether a metric was measured for a method."""
        return f"{method}/{metric}" in self.arrays

    def values(self, method: str, metric: str) -> np.ndarray:
        """Return the array (sweep, trial, round) of a metric."""
        if not self.has(method, metric):
            raise InputError(
                f"there is no metric {metric!r} of {method!r} in these results; the metrics are "
                f"{listed(self.config['metrics'])}",
                value=metric,
            )
        return self.arrays[f"{method}/{metric}"]

    def label(self, metric: str) -> str:
        """Return the label of a metric, with its unit."""
        if metric not in self.config["metrics"]:
            raise InputError(
                f"these results do not say what the metric {metric!r} is called; they name "
                f"{listed(self.config['metrics'])}",
                value=metric,
            )
        return self.config["metrics"][metric]

    def detail(self, name: str, dimensions: int = 0) -> np.ndarray:
        """Return an array that the figure shows besides metrics, of so many dimensions."""
        detail = self.details.get(name)
        if detail is None or np.ndim(detail) != dimensions:
            has = "there is none" if detail is None else f"it has {np.ndim(detail)}"
            raise InputError(
                f"the figure needs {name!r} among the details of these results, with {dimensions} "
                f"dimensions, but {has}",
                value=name,
            )
        return np.asarray(detail)

    def to_dataframe(
        self, *, summary: bool = False, method: str | None = None, metric: str | None = None
    ) -> Any:
        """Return a pandas DataFrame.

        Args:
          summary: the rows of `summary.csv` if true, else a row per method, metric, sweep value,
            trial and round.
          method: the method whose trials are returned; all if None.
          metric: the metric whose trials are returned; all if None.
        """
        if not summary:
            return trials_frame(self, method, metric)
        pandas = optional("pandas", "to_dataframe()")
        return pandas.read_csv(StringIO(summary_text(self)))

    def to_xarray(self) -> Any:
        """Return an xarray Dataset: a variable per metric over method, sweep, trial and round.

        A method is `dataset["error"].loc["FSMDM"]`, for `sel` has an argument `method` of its own.
        """
        return trials_dataset(self)

    def save(self, folder: Path) -> None:
        """Write `trials.npz` and `summary.csv`."""
        write_arrays(folder / ARRAYS, stored_arrays(self))
        write_text(folder / SUMMARY, summary_text(self))


def stored_arrays(results: Results) -> dict[str, np.ndarray]:
    """Return the arrays of `trials.npz` by their names there."""
    flags = {f"{NONFINITE_ROUND}/{name}": value for name, value in results.nonfinite.items()}
    flags |= {f"{DETAILS}/{name}": value for name, value in results.details.items()}
    return {**results.arrays, **flags, SWEEP: results.sweep, ROUND: results.rounds}


def summary_text(results: Results) -> str:
    """Return the text of `summary.csv`; a number that does not exist is an empty cell."""
    return csv_text(_summary_rows(results))


def _summary_rows(results: Results) -> Iterator[Sequence[str | int]]:
    yield _COLUMNS
    experiment, parameter = results.config["experiment"], results.config["parameter"]
    for name, values in results.arrays.items():
        method, metric = name.rsplit("/", 1)
        for one, value in zip(values, results.sweep, strict=True):
            table = summarize(one, axis=0)  # one at a time, for it takes several times its memory
            for j, round_ in enumerate(results.rounds):
                row = [column[j] for column in table]
                yield [
                    *(experiment, method, parameter, _cell(value), int(round_), metric),
                    *map(_cell, row),
                ]


def _cell(number: float | int) -> str:
    if isinstance(number, int | np.integer):
        return str(int(number))
    return f"{number:.9g}" if np.isfinite(number) else ""
