"""Figures as published: every experiment that has some draws them from stored results."""

import dataclasses
import json
from functools import partial

import numpy as np
import pytest

from fedjax_admm._checks import InputError
from fedjax_admm.trials import figures
from fedjax_admm.trials.experiments import Published, all_experiments
from fedjax_admm.trials.results import load
from fedjax_admm.trials.running import Request, run_experiment
from tests.trials.figures.test_defaults import results_of
from tests.trials.results.made import made
from tests.trials.small import EXPERIMENT

PRINTED = {name: each for name, each in all_experiments().items() if each.published is not None}
DETAILS = {
    "nfl-star": {"models": np.arange(36.0).reshape(6, 3, 2), "lam": np.linspace(1, 2, 6)},
}


def published_results(name):
    """Return an experiment as it runs as published, and made results of such a run."""
    printed = PRINTED[name].published.run(PRINTED[name])
    experiment, results = results_of(
        name, experiment=printed, as_published=True, settings=printed.defaults()
    )
    return experiment, dataclasses.replace(results, details=results.details | DETAILS.get(name, {}))


@pytest.mark.parametrize("name", PRINTED)
def test_every_printed_figure_is_drawn(name):
    experiment, results = published_results(name)
    for kind, draw in PRINTED[name].published.figures.items():
        assert kind.partition("-")[0] in ("figure", "table")
        figure = experiment.published.draw(experiment, results, kind)
        word, number, *ours = kind.split("-")
        said = f"{word.capitalize()} {number} as published: "
        said = f"Consensus beside {said}" if ours else said
        assert figure.get_suptitle().replace("\n", " ").startswith(said), draw
        assert figure.get_figwidth() <= figures._style.WIDEST + 2
        for axes in figure.axes:
            lines = {str(line.get_label()) for line in axes.lines}
            assert len(lines) <= 6
            assert axes.lines or axes.tables or axes.collections


def test_figures_need_their_methods_and_settings():
    experiment, results = published_results("fsmdm-convergence")
    lacking = {**results.config, "methods": ["FSMDM"]}
    arrays = {name: each for name, each in results.arrays.items() if "DSRL" not in name}
    few = dataclasses.replace(results, config=lacking, arrays=arrays)
    with pytest.raises(InputError) as told:
        experiment.published.draw(experiment, few, "figure-3")
    assert str(told.value) == (
        "figure-3 as published cannot be drawn from this run: it has no 'error' of "
        "'DSRL 16 k^-0.5'; run `fedjax-admm run fsmdm-convergence --as-published`."
    )


PANEL = {"metric": "error", "methods": {"ours": "steady"}}
SMALL = dataclasses.replace(
    EXPERIMENT,
    published=Published(
        figures={
            "figure-1": partial(figures.printed_figure, panels=[PANEL]),
            "figure-2": partial(figures.printed_figure, panels=[PANEL | {"against": "rounds"}]),
            "table-1": partial(
                figures.printed_table,
                rows={"ours": "steady"},
                metrics={"error": 1.0},
                printed={"ours": ["0.1"]},
            ),
        },
        changes={"settings": {**EXPERIMENT.settings, "rate": 0.5}, "trials": 4},
    ),
)


def test_a_run_as_published_repeats_itself(tmp_path):
    look = figures.FigureFiles(formats=("png",))
    request = Request(as_published=True, batch=4, figure=look)
    results = run_experiment(SMALL, request, tmp_path, progress=False)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["as_published"]
    assert config["settings"]["rate"] == 0.5
    assert config["trials"] == 4
    assert config["command"].endswith("--format png --as-published")
    assert "--set" not in config["command"]
    assert {"figure-1.png", "figure-2.png", "table-1.png", "table-1.txt"} <= set(config["files"])
    assert not (tmp_path / "figure.png").exists()
    assert SMALL.draw(load(tmp_path)).get_suptitle().startswith("Figure 1 as published: ")
    more = run_experiment(SMALL, Request(trials=6), tmp_path, resume=True, progress=False)
    assert more.config["as_published"]
    np.testing.assert_array_equal(
        more.values("steady", "error")[:, :4], results.values("steady", "error")
    )


def test_a_default_run_with_other_settings_does_not_serve():
    results = made(1, methods=("steady",), settings={"clients": 5, "rate": 0.25})
    with pytest.raises(InputError, match=r"this run has rate 0\.25, not 0\.5; run `fedjax-admm"):
        SMALL.published.draw(SMALL, results, "figure-1")


def test_an_experiment_without_a_printed_figure_says_so():
    with pytest.raises(InputError, match="as_published cannot be had of consensus"):
        EXPERIMENT.printed()
