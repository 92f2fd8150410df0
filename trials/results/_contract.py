"""Results of an experiment: the four files of the result contract, read and written.

config.json   every setting, seed, width, versions, device, durations, the repeating command
trials.npz    "method/metric" with axes (sweep, trial, round), "sweep" and "round" beside them, and
              "details/..." where the figure shows more than metrics
summary.csv   tidy: one row per method, sweep value, recorded round and metric
figure.png, figure.pdf
"""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_admm._checks import InputError, listed
from fedjax_admm.trials import files
from fedjax_admm.trials.results._summaries import summarize

CONFIG, ARRAYS, SUMMARY = "config.json", "trials.npz", "summary.csv"
_DETAILS = "details"
NONFINITE_ROUND = "first_nonfinite_round"
MESSAGES = "messages"
COLUMNS = [
    "experiment",
    "method",
    "parameter",
    "value",
    "round",
    "metric",
    "trials",
    "mean",
    "standard_error",
    "median",
    "q10",
    "q90",
    "nonfinite",
]


@dataclass(frozen=True)
class Results:
    """What a finished run left."""

    config: Mapping[str, Any]
    sweep: np.ndarray  # shape=(sweep,)
    rounds: np.ndarray  # shape=(round,), int: rounds done at each record
    arrays: Mapping[str, np.ndarray]  # "method/metric" -> (sweep, trial, round)
    nonfinite: Mapping[str, np.ndarray]  # method -> (sweep, trial), int: 0 where there is none
    details: Mapping[str, np.ndarray] = field(default_factory=dict)  # what else the figure shows

    @property
    def methods(self) -> list[str]:
        """Return the names of the methods, in the experiment's order."""
        return list(self.config["methods"])

    def has(self, method: str, metric: str) -> bool:
        """Return whether a metric was measured for a method."""
        return f"{method}/{metric}" in self.arrays

    def values(self, method: str, metric: str) -> np.ndarray:
        """Return the array (sweep, trial, round) of a metric.

        Raises:
          InputError: the method or the metric is unknown.
        """
        if not self.has(method, metric):
            raise InputError(
                f"there is no metric {metric!r} of {method!r} in these results; the metrics are "
                f"{listed(self.config['metrics'])}",
                value=metric,
            )
        return self.arrays[f"{method}/{metric}"]

    def save(self, folder: Path) -> None:
        """Write `trials.npz` and `summary.csv`."""
        flags = {f"{NONFINITE_ROUND}/{name}": value for name, value in self.nonfinite.items()}
        flags |= {f"{_DETAILS}/{name}": value for name, value in self.details.items()}
        files.write_arrays(
            folder / ARRAYS,
            {**self.arrays, **flags, "sweep": self.sweep, "round": self.rounds},
        )
        files.write_text(folder / SUMMARY, summary_text(self))


def load(folder: Path) -> Results:
    """Read the results of a finished run.

    Raises:
      InputError: the folder holds no finished run, or a file is damaged.
    """
    config = files.read_json(folder / CONFIG)
    arrays = files.read_arrays(folder / ARRAYS)
    sweep, rounds = arrays.pop("sweep"), arrays.pop("round")
    nonfinite, details = _taken(arrays, NONFINITE_ROUND), _taken(arrays, _DETAILS)
    return Results(config, sweep, rounds, arrays, nonfinite, details)


def _taken(arrays: dict[str, np.ndarray], group: str) -> dict[str, np.ndarray]:
    """Take the arrays of a group out of a dictionary."""
    prefix = f"{group}/"
    names = [name for name in arrays if name.startswith(prefix)]
    return {name.removeprefix(prefix): arrays.pop(name) for name in names}


def summary_text(results: Results) -> str:
    """Return the text of `summary.csv`; a number that does not exist is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    experiment = results.config["experiment"]
    parameter = results.config["parameter"]
    for name, values in results.arrays.items():
        method, metric = name.rsplit("/", 1)
        table = summarize(values, axis=1)
        for i, value in enumerate(results.sweep):
            for j, round_ in enumerate(results.rounds):
                row = [column[i, j] for column in table]
                writer.writerow(
                    [experiment, method, parameter, _cell(value), int(round_), metric]
                    + [_cell(number) for number in row]
                )
    return text.getvalue()


def _cell(number: float | int) -> str:
    if isinstance(number, int | np.integer):
        return str(int(number))
    return f"{number:.9g}" if np.isfinite(number) else ""
