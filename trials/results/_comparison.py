"""Paired comparison of methods: differences trial by trial, with standard errors."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from fedjax_admm._checks import InputError, listed, one_line
from fedjax_admm._host import printable
from fedjax_admm.trials.results._contract import Results, load
from fedjax_admm.trials.results._summaries import paired_difference

_PAIRED = ("experiment", "trials", "rounds", "seed", "x64", "data", "parameter")
_HEADINGS = (
    "value",
    "method",
    "pairs",
    "mean difference",
    "standard error",
    "median",
    "smaller in",
)


def compare(folders: Sequence[Path], *, against: str | None, metric: str | None) -> str:
    """Compare at the last record every method with one of them, paired by trial.

    Args:
      folders: finished runs. One: its methods are compared with each other. Several: they must
        share experiment, data, seed, trials, rounds and swept values, and each method of the later
        ones is compared with the same method of the first, unless `against` names one.
      against: the method to subtract; the first one (or the same one) if None.
      metric: what to compare; if None, the error, or what the experiment names first.

    Returns:
      A table as text, smaller is better: one line per swept value and method. Lines above it say
      in what the runs differ that their problems may hang on (settings, versions, the user's file),
      and which methods the metric was not measured for. A cell without a number is "-".

    Raises:
      InputError: the runs are not paired, or a name is unknown.
    """
    if not folders:
        raise InputError("there is nothing to compare", remedy="give the folder of a run")
    runs = [load(folder) for folder in folders]
    _check_paired(folders, runs)
    first = runs[0]
    measured = _chosen_metric(folders[0], first, metric)
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
    notes = [title, *_differences(runs)]
    if left_out:
        notes.append(f"Left out, for there is no {measured} to compare: {', '.join(left_out)}.")
    return "\n".join([*map(printable, notes), "", _table(rows)])


def _chosen_metric(folder: Path, first: Results, metric: str | None) -> str:
    """Return the metric that is compared: one that was measured for some method."""
    measured = {name.rpartition("/")[2]: None for name in first.arrays}
    named = [name for name in first.config["metrics"] if name in measured]
    if metric is None:
        return "error" if "error" in named else named[0]
    if metric not in measured:
        raise InputError(
            f"{folder} has no metric {metric!r}; it has {listed(measured)}", value=metric
        )
    return metric


def _rows(
    label: str, run: Results, method: str, first: Results, reference: str, metric: str
) -> list[tuple[str, ...]]:
    mine, other = run.values(method, metric), first.values(reference, metric)
    table = paired_difference(mine[:, :, -1], other[:, :, -1], axis=1)
    return [
        (
            f"{value:g}",
            printable(label),
            f"{table.trials[i]}",
            _cell(table.mean[i], "+"),
            _cell(table.standard_error[i]),
            _cell(table.median[i], "+"),
            f"{100 * table.smaller[i]:.0f} %" if table.trials[i] else "-",
        )
        for i, value in enumerate(run.sweep)
    ]


def _cell(number: float, sign: str = "") -> str:
    """Write a number with four decimals, or with four digits where these would not show it."""
    if np.isnan(number):
        return "-"
    plain = number == 0 or 1e-3 <= abs(number) < 1e6
    return format(number, f"{sign}.4f" if plain else f"{sign}.3e")


def _check_paired(folders: Sequence[Path], runs: Sequence[Results]) -> None:
    """Check that trial for trial all runs drew the same, as far as their settings can tell."""
    first = runs[0]
    for i, (folder, other) in enumerate(zip(folders, runs, strict=True)):
        if folder.resolve() in [earlier.resolve() for earlier in folders[:i]]:
            raise InputError(f"{folder} is given twice", value=folder, remedy="name each run once")
        for name in _PAIRED:
            one, another = first.config[name], other.config[name]
            if one != another:
                raise InputError(
                    f"{folders[0]} and {folder} are not paired: {name} is "
                    f"{one_line(one)} in one and {one_line(another)} in the other",
                    remedy="compare runs that differ in methods or settings only",
                )
        if not np.array_equal(first.sweep, other.sweep):
            raise InputError(
                f"{folders[0]} and {folder} are not paired: their {first.config['parameter']} "
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
    for what, names in differing.items():
        if names:
            told = f"{what}: {', '.join(names)}".removesuffix(": ")
            yield (
                f"These runs differ in their {told}. They are paired, and the standard errors "
                "hold, only if their problems are the same."
            )


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    lines = [_HEADINGS, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(_HEADINGS))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 1 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
