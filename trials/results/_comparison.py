"""Comparison of methods: differences with standard errors, trial by trial if seeds are equal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedjax_admm._checks import InputError, listed, one_line
from fedjax_admm.trials.results._contract import Results
from fedjax_admm.trials.results._overview import metric_of
from fedjax_admm.trials.results._reading import load
from fedjax_admm.trials.results._summaries import (
    Difference,
    paired_difference,
    unpaired_difference,
)
from fedjax_admm.trials.results._text_table import number_text, text_lines, text_table

_ALIKE = ("experiment", "rounds", "x64", "data", "parameter")
_HEADINGS = ("mean difference", "standard error", "median", "smaller in")


@dataclass(frozen=True)
class ComparisonRow:
    """One method at one swept value; every entry of `difference` is a scalar."""

    method: str  # with its run, where there are several
    value: float  # swept
    difference: Difference


@dataclass(frozen=True)
class Comparison:
    """Differences of a metric at the last record; smaller is better."""

    metric: str
    label: str  # of the metric, with its unit
    title: str
    notes: Sequence[str]  # conditions under which they hold, a sentence each
    parameter: str
    rows: Sequence[ComparisonRow]
    paired: bool = True  # whether the trials are the same; else they are independent

    def __str__(self) -> str:
        """Return the text in 80 columns."""
        return self.text()

    def text(self, width: int = 80) -> str:
        """Return title, notes and table as text that fits so many columns; no number is "-"."""
        rows = [
            (
                f"{row.value:g}",
                row.method,
                f"{row.difference.trials}",
                number_text(row.difference.mean, "+"),
                number_text(row.difference.standard_error),
                number_text(row.difference.median, "+"),
                f"{100 * row.difference.smaller:.0f} %" if row.difference.trials else "-",
            )
            for row in self.rows
        ]
        number = "pairs" if self.paired else "trials"
        headings = (self.parameter, "method", number, *_HEADINGS)
        lines = text_lines([self.title, *self.notes], width)
        return "\n".join([*lines, "", text_table(headings, rows, width, names=1)])


def compare(
    folders: Sequence[Path], *, against: str | None = None, metric: str | None = None
) -> Comparison:
    """Compare at the last record every method with one of them, paired by trial.

    Trials of different seeds are independent: then means are compared, with the standard errors of
    `unpaired_difference`.

    Args:
      folders: runs; of unfinished ones the trials that they have so far. One: its methods are
        compared with each other. Several: they must share experiment, data, rounds and swept
        values, and trials if they share the seed, and each method of the later ones is compared
        with the same method of the first, unless `against` names one.
      against: the method to subtract; the first one (or the same one) if None.
      metric: the metric to compare; if None, the error, or the first that the experiment names.

    Returns:
      A `Comparison`: one row per swept value and method. Its notes say in what the runs differ that
      their problems may depend on (settings, versions, the user's file), which of them have not
      finished, and which methods the metric was not measured for.

    Raises:
      InputError: the runs cannot be compared, or a name is unknown.
    """
    if not folders:
        raise InputError("there is nothing to compare", remedy="give the folder of a run")
    runs = [load(folder, unfinished=True) for folder in folders]
    return compare_results(folders, runs, against=against, metric=metric)


def compare_results(
    folders: Sequence[Path],
    runs: Sequence[Results],
    *,
    against: str | None = None,
    metric: str | None = None,
) -> Comparison:
    """Compare runs as `compare` does, once they have been read from their folders."""
    _check_alike(folders, runs)
    first, alone = runs[0], len(runs) == 1
    measured = metric_of(first, metric, str(folders[0]))
    if against is not None and against not in first.methods:
        told = f"{folders[0]} has no method {against!r}; it has {listed(first.methods)}"
        raise InputError(told, value=against)
    baseline = against or (first.methods[0] if alone else None)  # None: the same method
    if baseline is not None and not first.has(baseline, measured):
        raise InputError(
            f"{measured} was not measured for {baseline}, from which the others are to differ",
            value=measured,
            remedy="name another method with --against or another metric with --metric",
        )
    rows: list[ComparisonRow] = []
    left_out = []
    for folder, run in zip(folders, runs, strict=True):
        for method in run.methods:
            reference = baseline or method
            if run is first and method == reference:
                continue
            label = method if alone else f"{folder.name}: {method}"
            if run.has(method, measured) and first.has(reference, measured):
                values = run.values(method, measured), first.values(reference, measured)
                rows += _rows(label, run, *values, paired=_same_seed([run, first]))
            else:
                left_out.append(label)
    if not rows:
        raise InputError(
            f"there is nothing to compare: {folders[0]} has one method that measures {measured}"
            if alone
            else f"there is nothing to compare: no method of the other runs measures {measured} "
            f"and is one of {folders[0]} too"
        )
    title = (
        f"{measured} minus that of {baseline or 'the same method'} in {folders[0]}, "
        f"after {first.rounds[-1]} rounds; {first.config['parameter_label']}"
    )
    notes = [*_differences(runs), *_unfinished(folders, runs)]
    if left_out:
        notes.append(f"Left out, for there is no {measured} to compare: {', '.join(left_out)}.")
    label = first.config["metrics"].get(measured, measured)
    parameter = first.config["parameter"]
    return Comparison(
        measured, label, title, tuple(notes), parameter, tuple(rows), _same_seed(runs)
    )


def _rows(
    label: str, run: Results, values: np.ndarray, reference: np.ndarray, *, paired: bool
) -> Iterator[ComparisonRow]:
    """Yield the differences of two metrics, (sweep, trial, round), at their last records."""
    first, second = values[..., -1], reference[..., -1]
    if paired:  # the number of a trial is its key
        both = min(first.shape[1], second.shape[1])
        table = paired_difference(first[:, :both], second[:, :both], axis=1)
    else:
        table = unpaired_difference(first, second, axis=1)
    for i, value in enumerate(run.sweep):
        yield ComparisonRow(label, value, Difference(*(column[i] for column in table)))


def _unfinished(folders: Sequence[Path], runs: Sequence[Results]) -> Iterator[str]:
    """Yield which runs have not finished, and which of their trials are compared."""
    unfinished = [
        f"{folder} ({run.extent})"
        for folder, run in zip(folders, runs, strict=True)
        if not run.finished
    ]
    if unfinished:
        paired = " Of two runs as many of the first trials are compared as both have."
        told = f"Not finished: {', '.join(unfinished)}."
        yield told + (paired if len(runs) > 1 and _same_seed(runs) else "")


def _same_seed(runs: Sequence[Results]) -> bool:
    return len({run.config["seed"] for run in runs}) == 1


def _check_alike(folders: Sequence[Path], runs: Sequence[Results]) -> None:
    """Check that all runs drew alike, trial for trial if seeds are equal, as far as is known."""
    first = runs[0]
    for i, (folder, other) in enumerate(zip(folders, runs, strict=True)):
        if folder.resolve() in [earlier.resolve() for earlier in folders[:i]]:
            raise InputError(f"{folder} is given twice", value=folder, remedy="name each run once")
        names = (*_ALIKE, "trials") if _same_seed([first, other]) else _ALIKE
        pairs = {name: (first.config[name], other.config[name]) for name in names}
        pairs[first.config["parameter"]] = (first.sweep.tolist(), other.sweep.tolist())
        for name, (one, another) in pairs.items():
            if one != another:
                raise InputError(
                    f"{folders[0]} and {folder} cannot be compared: {name} is "
                    f"{one_line(one)} in one and {one_line(another)} in the other",
                    remedy="compare runs that differ in methods, settings or seed only",
                )


def _differences(runs: Sequence[Results]) -> Iterator[str]:
    """Yield in what runs differ that their problems may depend on, a sentence each."""
    configs = [run.config for run in runs]
    same = _same_seed(runs)
    if not same:
        yield (
            "These runs have different seeds, so that their trials are independent: means are "
            "compared, and the standard errors are those of two samples."
        )
    paired = " They are paired, and the standard errors hold, only if their problems are the same."
    for what in ("settings", "versions"):
        names = {name for config in configs for name in config[what]}
        if what == "versions":
            names &= {"fedjax-admm", "code", "jax", "jaxlib"}
        differing = [
            name
            for name in sorted(names)
            if len({repr(config[what].get(name)) for config in configs}) > 1
        ]
        if differing:
            told = f"These runs differ in their {what}: {', '.join(differing)}."
            yield told + (paired if same else "")
    if len({config["digest"] for config in configs}) > 1:
        yield "These runs differ in their file of the experiment." + (paired if same else "")
