"""The table of stored summaries, from which findings are written, against short runs."""

import csv
from pathlib import Path

import numpy as np
import pytest

from fedjax_admm.trials.experiments import all_experiments, find
from fedjax_admm.trials.results import summarize
from fedjax_admm.trials.running import Request, run_experiment
from tests.memory import drop_programs

STORED = Path(__file__).parents[3] / "benchmarks/findings.csv"


def stored():
    with STORED.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_table_names_what_there_is():
    rows = stored()
    for name in {row["experiment"] for row in rows}:
        assert name in all_experiments()
        metrics = {row["metric"] for row in rows if row["experiment"] == name}
        assert metrics == {next(iter(find(name).metrics))}
    places = [(row["experiment"], row["method"], row["value"]) for row in rows]
    assert len(set(places)) == len(places)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "settings"),
    [("fsmdm-cauchy", {"scale": "1,4"}), ("fsmdm-asynchrony", {"active": "1,0.5"})],
)
def test_a_short_run_agrees_with_the_table(tmp_path, name, settings):
    request = Request(trials=100, seed=7, settings=settings)
    run = run_experiment(find(name), request, tmp_path / "run", progress=False)
    rows = {(row["method"], row["value"]): row for row in stored() if row["experiment"] == name}
    for method in run.methods:
        table = summarize(run.values(method, "error")[..., -1], axis=1)
        for i, value in enumerate(run.sweep):
            row = rows[method, f"{value:g}"]
            apart = table.mean[i] - float(row["mean"])
            # Standard errors of a hundred trials of heavy tails are too small more often than not.
            error = float(row["standard_error"]) * np.sqrt(1 + float(row["trials"]) / 100)
            assert abs(apart) < 4 * error, (method, value)
    drop_programs()
