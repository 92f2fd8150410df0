"""Findings are stated of a run on the data that they were measured on, and of no other."""

import csv
import sys
from dataclasses import replace

import numpy as np
import pytest

from fedjax_admm.trials import figures
from fedjax_admm.trials.experiments import all_experiments, fedmc, find
from fedjax_admm.trials.experiments.nfl import weather
from fedjax_admm.trials.running import Request, run_experiment, summary
from fedjax_admm.trials.running._configuration import configuration
from fedjax_admm.trials.tables import _digits
from tests.trials.small import EXPERIMENT

ON_DATA = [name for name, each in all_experiments().items() if each.data is not None]


def on_its_data(name):
    """Return the small experiment with the findings, the settings and the data of another one."""
    experiment = find(name)
    settings = {**experiment.settings, **EXPERIMENT.settings}
    texts = {each: getattr(experiment, each) for each in ("findings", "measured_on", "data")}
    return replace(EXPERIMENT, settings=settings, **texts)


def verdict(name, **asked):
    return configuration(on_its_data(name), Request(**asked))["verdict"]


def first_finding(name):
    return find(name).findings.splitlines()[0]


def write(path, head, rows):
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter="," if head else "\t").writerows([head, *rows] if head else rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of the sizes of MovieLens 100K, of the 203 stations and of Plaza 1."""
    folder = tmp_path_factory.mktemp("data")
    rated = ((k % 943 + 1, k % 1682 + 1, k % 5 + 1, 0) for k in range(100_000))
    write(folder / "ml-100k/u.data", None, rated)
    draw, days = np.random.default_rng(0), [f"2021-04-{day:02}" for day in range(3, 9)]
    write(
        folder / weather.FILE,
        ("date", "min_temp", "max_temp", "latitude", "longitude", "station"),
        (
            (day, *draw.normal(size=2), 60 + k / 50, 20 + k / 50, f"station {k}")
            for k in range(203)
            for day in days
        ),
    )
    kit, times = folder / "plaza1", np.arange(3529) / 2
    write(kit / "tags.csv", ("tag", "x_m", "y_m"), ((k, 10 * k, k * k) for k in range(4)))
    write(kit / "ranges.csv", ("time_s", "tag", "range_m"), ((t, int(t) % 4, 9) for t in times))
    write(kit / "odometry.csv", ("time_s", "distance_m", "turn_rad"), ((t, 0.1, 0) for t in times))
    write(kit / "truth.csv", ("time_s", "x_m", "y_m"), ((t, t, 0) for t in times))
    return folder


@pytest.fixture(autouse=True)
def forget_what_was_loaded():
    yield
    for load in (fedmc.load, weather.load):
        load.cache_clear()


@pytest.fixture
def present(forget_what_was_loaded, monkeypatch, folder):
    monkeypatch.setenv("FEDJAX_ADMM_DATA", str(folder))
    fedmc.load.cache_clear()
    weather.load.cache_clear()


@pytest.fixture
def absent(forget_what_was_loaded, monkeypatch):
    monkeypatch.delenv("FEDJAX_ADMM_DATA", raising=False)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    monkeypatch.setattr(_digits, "scikit_learn_digits", _digits.scikit_learn_digits.__wrapped__)
    fedmc.load.cache_clear()
    weather.load.cache_clear()


@pytest.mark.kin(1)
@pytest.mark.parametrize("name", ON_DATA)
def test_the_data_of_the_findings_are_recognised(name, present):
    assert find(name).words(find(name).defaults(), 1)[1] == find(name).measured_on
    assert verdict(name) == first_finding(name)
    assert verdict(name, trials=3) == ""


@pytest.mark.parametrize("name", ON_DATA)
def test_a_run_on_other_data_states_no_finding(name, absent):
    drawn = {"data": "synthetic"}
    assert "synthetic" in find(name).words(find(name).defaults() | drawn, 1)[1]
    assert verdict(name, settings=drawn) == ""


def test_the_weather_stations_come_with_the_package(absent):
    assert verdict("nfl-weather") == first_finding("nfl-weather")


@pytest.mark.parametrize("name", sorted(set(all_experiments()) - set(ON_DATA)))
def test_findings_of_drawn_problems_are_about_all_of_them(name):
    assert find(name).measured_on == "drawn"


@pytest.mark.kin(1)
@pytest.mark.parametrize("measured_on", ["a stand-in", "real data"])
def test_the_figure_and_the_last_lines_tell_whether_findings_are_about_the_data(
    tmp_path, measured_on
):
    experiment = replace(
        EXPERIMENT,
        data=lambda settings: "a stand-in",
        measured_on=measured_on,
        figure=figures.usual_figure,
    )
    results = run_experiment(experiment, Request(), tmp_path / "run", progress=False)
    title = experiment.draw(results).get_suptitle().splitlines()[0]
    told = (
        "The findings of consensus are not about the data of this run (a stand-in): they were "
        "measured on real data."
    )
    if measured_on == "a stand-in":
        assert title == "It works."
        assert "findings" not in summary(results, "run")
    else:
        assert title == "Distance from the mean"
        assert told in summary(results, "run")
