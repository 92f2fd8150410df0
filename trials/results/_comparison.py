"""Paired comparison of methods: differences trial by trial, with standard errors."""

from collections.abc import Sequence
from pathlib import Path

from fedjax_admm._checks import InputError
from fedjax_admm.trials.results._contract import Results, load
from fedjax_admm.trials.results._summaries import paired_difference

_PAIRED = ("experiment", "trials", "seed", "x64")
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
        share experiment, seed, trials and swept values, and each method of the later ones is
        compared with the same method of the first, unless `against` names one.
      against: the method to subtract; the first one (or the same one) if None.
      metric: what to compare; if None, the error, or what the experiment names first.

    Returns:
      A table as text, smaller is better: one line per swept value and method. Where a user's file
      has changed between the runs, a line above it says so.

    Raises:
      InputError: the runs are not paired, or a name is unknown.
    """
    runs = [load(folder) for folder in folders]
    first = runs[0]
    for folder, other in zip(folders[1:], runs[1:], strict=True):
        _check_paired(folders[0], first, folder, other)
    if against is not None and against not in first.methods:
        raise InputError(
            f"{folders[0]} has no method {against!r}; it has {', '.join(first.methods)}",
            value=against,
        )
    metrics = list(first.config["metrics"])
    measured = metric or ("error" if "error" in metrics else metrics[0])
    baseline = against if against is not None or len(runs) > 1 else first.methods[0]
    rows = []
    for folder, run in zip(folders, runs, strict=True):
        for method in run.methods:
            reference = baseline or method
            if run is first and ((len(runs) > 1 and baseline is None) or method == reference):
                continue
            label = method if len(runs) == 1 else f"{folder.name}: {method}"
            rows += _rows(label, run, method, first, reference, measured)
    if not rows:
        raise InputError("there is nothing to compare: the runs have one method between them.")
    title = (
        f"{measured} minus that of {baseline or 'the same method'} in {folders[0]}, "
        f"after {first.rounds[-1]} rounds; {first.config['parameter_label']}"
    )
    if len({run.config.get("digest") for run in runs}) > 1:
        title += (
            "\nThe file of the experiment has changed between these runs: they are paired only if "
            "their problems are the same."
        )
    return f"{title}\n\n{_table(rows)}"


def _rows(
    label: str, run: Results, method: str, first: Results, reference: str, metric: str
) -> list[tuple[str, ...]]:
    for results, name in ((run, method), (first, reference)):
        if not results.has(name, metric):
            metrics = ", ".join(results.config["metrics"])
            raise InputError(f"{name} has no metric {metric!r}; there are {metrics}", value=metric)
    mine, other = run.values(method, metric), first.values(reference, metric)
    table = paired_difference(mine[:, :, -1], other[:, :, -1], axis=1)
    return [
        (
            f"{value:g}",
            label,
            f"{table.trials[i]}",
            f"{table.mean[i]:+.4f}",
            f"{table.standard_error[i]:.4f}",
            f"{table.median[i]:+.4f}",
            f"{100 * table.smaller[i]:.0f} %",
        )
        for i, value in enumerate(run.sweep)
    ]


def _check_paired(folder: Path, first: Results, other_folder: Path, other: Results) -> None:
    for name in _PAIRED:
        if first.config[name] != other.config[name]:
            raise InputError(
                f"{folder} and {other_folder} are not paired: {name} is {first.config[name]} "
                f"in one and {other.config[name]} in the other."
            )
    if first.sweep.shape != other.sweep.shape or (first.sweep != other.sweep).any():
        raise InputError(
            f"{folder} and {other_folder} are not paired: their {first.config['parameter']} differ."
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
