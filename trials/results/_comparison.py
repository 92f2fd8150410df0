"""Comparison of methods: differences with standard errors, trial by trial if seeds are equal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedjax_admm._checks import InputError, listed, one_line
from fedjax_admm._shown import short_repr
from fedjax_admm.trials.results._contract import Results
from fedjax_admm.trials.results._overview import chosen_metric
from fedjax_admm.trials.results._reading import load
from fedjax_admm.trials.results._summaries import (
    Difference,
    paired_difference,
    unpaired_difference,
)
from fedjax_admm.trials.results._text_table import number_text, text_lines, text_table

_ALIKE = ("experiment", "rounds", "x64", "data", "parameter")
_HEADINGS = ("mean difference", "standard error", "median", "smaller in")


@short_repr
@dataclass(frozen=True)
class ComparisonRow:
    """One method at one swept value; every entry of `difference` is a scalar."""

    method: str  # with its run, where there are several
    value: float  # swept
    difference: Difference


@short_repr
@dataclass(frozen=True)
class Comparison:
    """Differences of a metric at the last record; smaller is better."""

    metric: str
    label: str  # of the metric, with its unit
    title: str
    notes: Sequence[str]  # what has to be known of them, a sentence each
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

    Trials of different seeds are independent: then it is means that are compared, with the standard
    errors of `unpaired_difference`.

    Args:
      folders: runs; of unfinished ones the trials that they have so far. One: its methods are
        compared with each other. Several: they must share experiment, data, rounds and swept
        values, and trials if they share the seed, and each method of the later ones is compared
        with the same method of the first, unless `against` names one.
      against: the method to subtract; the first one (or the same one) if None.
      metric: what to compare; if None, the error, or what the experiment names first.

    Returns:
      A `Comparison`: one row per swept value and method. Its notes say in what the runs differ that
      their problems may hang on (settings, versions, the user's file), which of them have not
      finished, and which methods the metric was not measured for.

    Raises:
      InputError: the runs cannot be compared, or a name is unknown.
    """
    if not folders:
        raise InputError("there is nothing to compare", remedy="give the folder of a run")
    return compare_results(
        folders,
        [load(folder, unfinished=True) for folder in folders],
        against=against,
        metric=metric,
    )


def compare_results(
    folders: Sequence[Path],
    runs: Sequence[Results],
    *,
    against: str | None = None,
    metric: str | None = None,
) -> Comparison:
    """Compare runs that have been read: what `compare` does with its folders.

    Args:
      folders: where they were read, for the names of runs.
      runs: their results, in the same order, at least one.
      against: as for `compare`.
      metric: as for `compare`.

    Raises:
      InputError: the runs cannot be compared, or a name is unknown.
    """
    _check_alike(folders, runs)
    first = runs[0]
    measured = chosen_metric(first, metric, str(folders[0]))
    if against is not None and against not in first.methods:
        raise InputError(
            f"{folders[0]} has no method {against!r}; it has {listed(first.methods)}",
            value=against,
        )
    baseline = against if against is not None or len(runs) > 1 else first.methods[0]
    if baseline is not None and not first.has(baseline, measured):
        raise InputError(
            f"{measured} was not measured for {baseline}, from which the others are to differ",
            value=measured,
            remedy="name another method with --against or another metric with --metric",
        )
    rows, left_out = [], []
    for folder, run in zip(folders, runs, strict=True):
        for method in run.methods:
            reference = baseline or method
            if run is first and ((len(runs) > 1 and baseline is None) or method == reference):
                continue
            label = method if len(runs) == 1 else f"{folder.name}: {method}"
            if run.has(method, measured) and first.has(reference, measured):
                rows += _rows(label, run, method, first, reference, measured)
            else:
                left_out.append(label)
    if not rows:
        raise InputError(
            f"there is nothing to compare: {folders[0]} has one method that measures {measured}"
            if len(runs) == 1
            else f"there is nothing to compare: no method of the other runs measures {measured} "
            f"and is one of {folders[0]} too"
        )
    title = (
        f"{measured} minus that of {baseline or 'the same method'} in {folders[0]}, "
        f"after {first.rounds[-1]} rounds; {first.config['parameter_label']}"
    )
    paired = _same_seed(runs)
    notes = [*_differences(runs), *_unfinished(folders, runs)]
    if left_out:
        notes.append(f"Left out, for there is no {measured} to compare: {', '.join(left_out)}.")
    label = first.config["metrics"].get(measured, measured)
    parameter = first.config["parameter"]
    return Comparison(measured, label, title, tuple(notes), parameter, tuple(rows), paired)


def _rows(
    label: str, run: Results, method: str, first: Results, reference: str, metric: str
) -> Iterator[ComparisonRow]:
    mine, other = run.values(method, metric)[..., -1], first.values(reference, metric)[..., -1]
    if _same_seed([run, first]):
        both = min(run.trials, first.trials)  # the first ones of each: a trial's number is its key
        table = paired_difference(mine[:, :both], other[:, :both], axis=1)
    else:
        table = unpaired_difference(mine, other, axis=1)
    for i, value in enumerate(run.sweep):
        yield ComparisonRow(label, value, Difference(*(column[i] for column in table)))


def _unfinished(folders: Sequence[Path], runs: Sequence[Results]) -> Iterator[str]:
    """Yield which runs have not finished, and what is compared of them, a sentence each."""
    waiting = [
        f"{folder} ({run.extent})"
        for folder, run in zip(folders, runs, strict=True)
        if not run.finished
    ]
    if waiting:
        told = f"Not finished: {', '.join(waiting)}."
        paired = " Of two runs as many of the first trials are compared as both have."
        yield told + (paired if len(runs) > 1 and _same_seed(runs) else "")


def _same_seed(runs: Sequence[Results]) -> bool:
    return len({run.config["seed"] for run in runs}) == 1


def _check_alike(folders: Sequence[Path], runs: Sequence[Results]) -> None:
    """Check that all runs drew alike, trial for trial if seeds are equal, as far as is known."""
    first = runs[0]
    for i, (folder, other) in enumerate(zip(folders, runs, strict=True)):
        if folder.resolve() in [earlier.resolve() for earlier in folders[:i]]:
            raise InputError(f"{folder} is given twice", value=folder, remedy="name each run once")
        for name in (*_ALIKE, "trials") if _same_seed([first, other]) else _ALIKE:
            one, another = first.config[name], other.config[name]
            if one != another:
                raise InputError(
                    f"{folders[0]} and {folder} cannot be compared: {name} is "
                    f"{one_line(one)} in one and {one_line(another)} in the other",
                    remedy="compare runs that differ in methods, settings or seed only",
                )
        if not np.array_equal(first.sweep, other.sweep):
            raise InputError(
                f"{folders[0]} and {folder} cannot be compared: their {first.config['parameter']} "
                "differ",
                remedy="run both with the same values",
            )


def _differences(runs: Sequence[Results]) -> Iterator[str]:
    """Yield in what runs differ that their problems may hang on, a sentence each."""
    configs = [run.config for run in runs]
    differing = {
        "settings": sorted(
            name
            for name in set().union(*(config["settings"] for config in configs))
            if len({repr(config["settings"].get(name)) for config in configs}) > 1
        ),
        "versions": sorted(
            name
            for name in ("fedjax-admm", "code", "jax", "jaxlib")
            if len({config["versions"][name] for config in configs}) > 1
        ),
        "file of the experiment": [""] if len({c["digest"] for c in configs}) > 1 else [],
    }
    same = _same_seed(runs)
    if not same:
        yield (
            "These runs have different seeds, so that their trials are independent: means are "
            "compared, and the standard errors are those of two samples."
        )
    for what, names in differing.items():
        if names:
            told = f"{what}: {', '.join(names)}".removesuffix(": ")
            held = " They are paired, and the standard errors hold, only if their problems are the"
            yield f"These runs differ in their {told}." + (f"{held} same." if same else "")
