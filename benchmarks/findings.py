"""What the comparative sentences of findings rest on: a table of differences, for two seeds.

    fedjax-admm run fsmdm-cauchy --out cauchy
    fedjax-admm run fsmdm-cauchy --seed 77 --out cauchy-77
    python benchmarks/findings.py cauchy cauchy-77 [DIR ...]

benchmarks/findings.toml holds for every experiment what its findings claim: the words, the methods
of which the first is lower, and where. Every DIR holds a finished run of the experiment's rounds,
on the data that its `measured_on` names. Its rows take the place of those of the same experiment
and seed in benchmarks/findings.csv: for each claim, pair of methods and swept value the difference
`times * lower - higher`, trial by trial, with its standard error, the share of trials in which it
is negative, trials and seed. A claim about ratios takes the difference of the decimal logarithms;
one about medians that of the medians, whose standard error is that of 1,000 bootstrap samples of
trials.
"""

import argparse
import csv
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedjax_admm import InputError
from fedjax_admm.trials import experiments, results

CLAIMS = Path(__file__).with_name("findings.toml")
STORED = Path(__file__).with_name("findings.csv")


class Comparison(NamedTuple):
    """One comparison of a claim: what is lower, and than what."""

    words: str  # of the findings
    lower: str
    higher: str
    value: float  # swept
    higher_value: float
    metric: str
    statistic: str  # mean, ratio or median
    round: int
    higher_round: int
    times: float  # what the lower one is multiplied with
    shown: bool  # whether it holds beyond two standard errors; else the words say that it does not

    def texts(self) -> list[str]:
        """Return what tells it from the others, as it stands in the table."""
        return [f"{part:g}" if isinstance(part, float) else str(part) for part in self[:-1]]


IDENTITY = ("experiment", *Comparison._fields[:-1])
COLUMNS = (*IDENTITY, "difference", "standard_error", "smaller", "trials", "seed")


def claims(name: str) -> list[dict[str, Any]]:
    """Return what the findings of an experiment claim."""
    return tomllib.loads(CLAIMS.read_text(encoding="utf-8")).get(name, [])


def measured_claims(name: str) -> list[dict[str, Any]]:
    """Return those that are measured at the experiment's own settings."""
    return [claim for claim in claims(name) if "elsewhere" not in claim]


def comparisons(name: str, claim: dict[str, Any]) -> Iterator[Comparison]:
    """Yield the comparisons of a claim of an experiment, pair by pair and value by value."""
    experiment = experiments.find(name)
    metric = claim.get("metric", next(iter(experiment.metrics)))
    last = claim.get("round", experiment.rounds)
    for lower in _listed(claim["lower"]):
        for higher in _listed(claim.get("higher", lower)):
            for value in claim.get("at", experiment.sweep.values):
                yield Comparison(
                    claim["words"],
                    lower,
                    higher,
                    float(value),
                    float(claim.get("higher_at", value)),
                    metric,
                    claim.get("statistic", "mean"),
                    last,
                    claim.get("higher_round", last),
                    float(claim.get("times", 1)),
                    claim.get("shown", True),
                )


def rows(run: results.Results) -> Iterator[dict[str, str]]:
    """Yield the rows of a run."""
    config = run.config
    for claim in measured_claims(config["experiment"]):
        for each in comparisons(config["experiment"], claim):
            if not {each.value, each.higher_value} <= {float(f"{x:g}") for x in run.sweep}:
                continue  # a run of some of the swept values
            lower = each.times * _values(run, each.lower, each.metric, each.value, each.round)
            higher = _values(run, each.higher, each.metric, each.higher_value, each.higher_round)
            if each.statistic == "ratio":
                lower, higher = np.log10(lower), np.log10(higher)
            found = results.paired_difference(lower, higher, axis=0)
            mean, error = found.mean, found.standard_error
            if each.statistic == "median":
                mean, error = medians_difference(lower, higher)
            numbers = (f"{mean:.4g}", f"{error:.3g}", f"{found.smaller:.3g}", f"{found.trials}")
            row = (config["experiment"], *each.texts(), *numbers, str(config["seed"]))
            yield dict(zip(COLUMNS, row, strict=True))


def medians_difference(lower: np.ndarray, higher: np.ndarray) -> tuple[float, float]:
    """Return the difference of the medians of two methods on the same trials, and its error."""
    drawn = np.random.default_rng(0).integers(0, len(lower), (1000, len(lower)))
    again = np.median(lower[drawn], axis=1) - np.median(higher[drawn], axis=1)
    return float(np.median(lower) - np.median(higher)), float(np.std(again, ddof=1))


def stored() -> list[dict[str, str]]:
    """Return all rows of the table."""
    with STORED.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def check_usual(folder: Path, run: results.Results) -> None:
    """Check that a run has its experiment's own rounds and data; seed and trials may be others.

    Raises:
      InputError: somebody has set something.
    """
    experiment = experiments.find(run.config["experiment"])
    usual = {"rounds": experiment.rounds, "data": experiment.measured_on}
    for name, value in usual.items():
        if run.config[name] != value:
            told = f"{folder} has {name} {run.config[name]}, but the experiment's own is {value}"
            raise InputError(told, remedy="run it without options, on those data")


def main(folders: Sequence[Path]) -> None:
    """Replace the rows of some runs."""
    table = stored() if STORED.exists() else []
    for folder in folders:
        run = results.load(folder)
        check_usual(folder, run)
        kept = (run.config["experiment"], str(run.config["seed"]))
        table = [row for row in table if (row["experiment"], row["seed"]) != kept]
        table += rows(run)
    table.sort(key=lambda row: row["experiment"])
    with STORED.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


def _listed(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else names


def _values(
    run: results.Results, method: str, metric: str, value: float, round_: int
) -> np.ndarray:
    """Return a metric at a swept value and a round by trial; of `NAME*` that of the worst one."""
    place = int(np.flatnonzero(np.isclose(run.sweep, value))[0])
    last = int(np.flatnonzero(run.rounds == round_)[0])
    family = [name for name in run.methods if name.startswith(method[:-1])]
    of = family if method.endswith("*") else [method]
    found = [run.values(name, metric)[place, :, last] for name in of]
    return max(found, key=np.nanmean)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    main(parser.parse_args().folders)
