"""The numbers that findings of experiments are written from: one table of stored summaries.

    fedjax-admm run fsmdm-cauchy --out cauchy
    python benchmarks/findings.py cauchy [DIR ...]

Every DIR holds a finished run of an experiment with its own trials, rounds and seed, on the data
that its `measured_on` names. Its rows take the place of those of the same experiment and method in
benchmarks/findings.csv: the first metric after the last round, by method and swept value, with the
standard error of the mean, the seed, the trials that count, and the commit at which this is
written, which must be that of the run.
"""

import argparse
import csv
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedjax_admm import InputError
from fedjax_admm.trials import experiments, results

STORED = Path(__file__).with_name("findings.csv")
COLUMNS = (
    *("experiment", "method", "parameter", "value", "metric", "mean", "standard_error"),
    *("seed", "trials", "commit"),
)


def rows(run: results.Results, commit: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a run."""
    config = run.config
    metric = next(name for name in config["metrics"] if name != "messages")
    for method in run.methods:
        if not run.has(method, metric):
            continue
        table = results.summarize(run.values(method, metric)[..., -1], axis=1)
        for i, value in enumerate(run.sweep):
            numbers = (f"{table.mean[i]:.6g}", f"{table.standard_error[i]:.3g}")
            counted = str(int(table.trials[i] - table.nonfinite[i]))
            about = (config["experiment"], method, config["parameter"], f"{value:g}", metric)
            row = (*about, *numbers, str(config["seed"]), counted, commit)
            yield dict(zip(COLUMNS, row, strict=True))


def stored() -> list[dict[str, str]]:
    """Return all rows of the table."""
    with STORED.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def check_usual(folder: Path, run: results.Results) -> None:
    """Check that a run is what its experiment is by itself.

    Raises:
      InputError: somebody has set something.
    """
    experiment = experiments.find(run.config["experiment"])
    usual = {"trials": experiment.trials, "rounds": experiment.rounds, "seed": 2025}
    usual["data"] = experiment.measured_on
    for name, value in usual.items():
        if run.config[name] != value:
            told = f"{folder} has {name} {run.config[name]}, but the experiment's own is {value}"
            raise InputError(told, remedy="run it without options, on those data")


def main(folders: Sequence[Path]) -> None:
    """Replace the rows of the experiments of some runs."""
    told = ["git", "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(told, check=True, capture_output=True, text=True).stdout.strip()
    table = stored() if STORED.exists() else []
    for folder in folders:
        run = results.load(folder)
        check_usual(folder, run)
        new = list(rows(run, commit))
        replaced = {(row["experiment"], row["method"]) for row in new}
        table = [row for row in table if (row["experiment"], row["method"]) not in replaced] + new
    table.sort(key=lambda row: row["experiment"])
    with STORED.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    main(parser.parse_args().folders)
