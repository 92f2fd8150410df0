"""Experiments by name, their usual figure, and what is seen before a run."""

import numpy as np
import pytest

from fedjax_admm._checks import InputError
from fedjax_admm.trials import Results, figures
from fedjax_admm.trials.experiments import (
    _finding,
    all_experiments,
    find,
    find_again,
    headlines,
)
from tests.trials.small import EXPERIMENT


def test_the_packages_own_have_no_origin_and_are_found_without_plug_ins(monkeypatch):
    def looked(**selection):
        raise AssertionError("plug-ins were looked at")

    monkeypatch.setattr(_finding.metadata, "entry_points", looked)
    experiment = find("fsmdm-outliers")
    assert experiment.origin is None
    assert find_again({"experiment": "fsmdm-outliers"}) is experiment


def test_an_unknown_name_gets_the_nearest(monkeypatch):
    monkeypatch.setattr(_finding, "built_in", lambda: {"consensus": EXPERIMENT})
    with pytest.raises(InputError) as error:
        find("consensu")
    assert str(error.value) == "there is no experiment 'consensu'; did you mean consensus?"
    with pytest.raises(InputError, match="no experiment 'zzz'; name one that `fedjax-admm list`"):
        find("zzz")
    assert list(all_experiments()) == ["consensus"]


def test_what_list_says_is_what_the_experiments_say():
    own = _finding.built_in()
    assert len(own) > 30
    for told in own.headlines():
        experiment = own[told.name]
        for field in told._fields:
            assert getattr(told, field) == getattr(experiment, field)
    assert [each.name for each in headlines()] == list(all_experiments())


def test_labels_of_numbers_sent_may_be_left_out():
    assert list(EXPERIMENT.labels()) == ["error", "numbers_up", "numbers_down"]
    assert EXPERIMENT.labels()["numbers_up"] == "sent up"  # its own


def results(values, metrics):
    """Return results of one method whose metric has given values, shape (sweep, trial, round)."""
    config = {
        "experiment": "own",
        "title": "a title",
        "methods": ["mine"],
        "metrics": metrics,
        "parameter_label": "what is swept",
        **dict.fromkeys(("trials", "rounds", "seed"), 3),
    }
    sweep, rounds = np.arange(len(values), dtype=float), np.arange(1, values.shape[-1] + 1)
    return Results(config, sweep, rounds, {"mine/gain": values}, {})


@pytest.mark.parametrize(("sweep", "columns"), [(1, 3), (3, 2)])
def test_the_usual_figure_has_a_row_for_a_second_metric(sweep, columns):
    values = 1 + np.random.default_rng(0).random((sweep, 4, 5))
    metrics = dict.fromkeys(("gain", "nowhere", "loss", "third", "numbers_up"), "in m")
    shown = results(values, metrics | {"loss": "loss (W)"})
    shown.config["methods"] += ["mine, tuned"]
    for name in ("mine/third", "mine/numbers_up", "mine, tuned/gain", "mine, tuned/loss"):
        shown.arrays[name] = values
    shown.arrays["mine/loss"] = 2 * values
    figure = figures.usual_figure(shown)
    assert [axes.get_ylabel() for axes in figure.axes] == columns * ["in m"] + columns * [
        "loss (W)"
    ]
    upper, lower = figure.axes[0], figure.axes[columns]
    np.testing.assert_allclose(lower.lines[0].get_ydata(), 2 * upper.lines[0].get_ydata())
    for axes in (upper, lower):  # a family shares its colour, in both rows
        assert len({line.get_color() for line in axes.lines}) == 1
        assert [line.get_linestyle() for line in axes.lines] == ["-", "--"]
    entries = [text.get_text() for text in figure.legends[0].get_texts()]
    assert entries == ["mine", "mine, tuned"]


@pytest.mark.parametrize(
    ("sweep", "panels", "across"), [(1, 3, "global round"), (3, 2, "what is swept")]
)
def test_the_usual_figure(sweep, panels, across):
    values = 1 + np.random.default_rng(0).random((sweep, 4, 5))
    metrics = {"nowhere": "not measured", "gain": "gain (m)", "numbers_up": "numbers sent"}
    figure = figures.usual_figure(results(values, metrics))
    assert len(figure.axes) == panels
    first = figure.axes[0]
    assert (first.get_xlabel(), first.get_ylabel()) == (across, "gain (m)")
    mean = values[:, :, -1].mean(1) if sweep > 1 else values[0].mean(0)
    np.testing.assert_allclose(first.lines[0].get_ydata(), mean)
    assert first.get_yscale() == "log"
    # Negative numbers are shown, too.
    figure = figures.usual_figure(results(values - 2, metrics))
    assert figure.axes[0].get_yscale() == "linear"
