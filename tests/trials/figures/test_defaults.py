"""Default figures say one thing: at most four panels, and at most six lines with names in each."""

import dataclasses

import numpy as np
import pytest

from fedjax_admm.trials import figures
from fedjax_admm.trials.experiments import all_experiments, find
from fedjax_admm.trials.figures._style import WIDEST
from tests.trials.results.made import made


def results_of(name, experiment=None, **config):
    """Return made results of an experiment at its defaults, with all its methods and metrics."""
    experiment = experiment or find(name)
    methods, sweep = experiment.method_names(), experiment.sweep.values
    results = made(
        np.linspace(0.2, 0.9, len(sweep))[:, None, None],
        sweep=sweep,
        methods=methods,
        **({"metrics": experiment.labels()} | config),
    )
    shape = next(iter(results.arrays.values())).shape
    for method in methods:
        for metric in experiment.labels():
            results.arrays[f"{method}/{metric}"] = np.broadcast_to(
                next(iter(results.arrays.values())), shape
            )
    clouds = {key: np.ones((3, 2)) for key in ("local", "coupled")} | {"threshold": np.float64(5)}
    details = clouds if name == "nfl-weather" else dict.fromkeys(methods, np.float64(0.1))
    return experiment, type(results)(**{**vars(results), "details": details})


@pytest.mark.parametrize("name", all_experiments())
def test_a_default_figure_has_few_panels_and_few_lines(name):
    experiment, results = results_of(name, verdict="It is so.")
    figure = experiment.draw(results)
    assert len(figure.axes) <= 4
    for axes in figure.axes:
        named = {str(line.get_label()) for line in axes.lines} - {""}
        assert len({label for label in named if not label.startswith("_")}) <= 6
    assert figure.get_suptitle().startswith("It is so.")
    assert figure.get_figwidth() <= WIDEST
    assert len(experiment.findings.partition("\n")[0]) <= 130  # two lines of a title at most
    unknown = [
        each
        for each in experiment.shown
        if not any(each in (method, method.partition(": ")[2]) for method in results.methods)
        and not each.startswith("GTSAM")  # a run has it where it is installed
    ]
    assert unknown == []


def test_all_is_drawn_where_it_is_asked_for():
    asked = {"style": "default", "columns": None, "formats": ["png"], "everything": True}
    experiment, results = results_of("messages-delay", figure=asked)
    figure = experiment.draw(results)
    assert len(figure.axes) == 9
    shown = {text.get_text() for legend in figure.legends for text in legend.get_texts()}
    assert shown == {name.partition(": ")[2] for name in results.methods}


def test_lines_of_a_title_are_about_equally_long():
    verdict = " ".join(["words"] * 21)  # 125 letters, in a figure with room for 99
    shown = figures.usual_figure(made(np.ones((2, 1, 1)), sweep=(1, 2), verdict=verdict))
    first, second, _ = shown.get_suptitle().splitlines()
    assert abs(len(first) - len(second)) <= len("words ")


def test_powers_are_drawn_as_powers():
    assert figures.readable("DSRL 16 k^-0.5") == "DSRL 16 $k^{-0.5}$"
    assert figures.readable("Subgradient 0.99^k") == "Subgradient $0.99^k$"


def test_a_quick_run_is_a_preview_that_concludes_nothing():
    experiment, results = results_of("nfl-weather", verdict="It is so.", quick=True)
    title = experiment.draw(results).get_suptitle()
    assert title.startswith("Preview of a quick run, too short to conclude from: ")
    assert "It is so." not in title


def test_an_unfinished_run_is_a_preview_that_concludes_nothing():
    shown = made(1, verdict="It is so.", trials=3)
    assert figures.usual_figure(shown).get_suptitle().startswith("It is so.")
    begun = dataclasses.replace(shown, config={**shown.config, "trials": 10})
    title = figures.usual_figure(begun).get_suptitle()
    assert title.startswith(
        "Preview of the first 3 trials: distance from the mean\nconsensus: 3 of 10 trials"
    )


def test_what_is_left_out_is_counted():
    shown = figures.with_methods(made(1), ["first, 1"])
    assert shown.methods == ["a: first, 1", "b: first, 1"]
    assert "--all draws 1 more" in figures.usual_figure(shown).get_suptitle()
    assert figures.with_methods(made(1), ["nobody"]).methods == made(1).methods
