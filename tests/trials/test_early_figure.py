"""Long runs draw the figure of their first trials; their results are those of runs that do not."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fedjax_admm.trials import figures
from fedjax_admm.trials.figures import FigureFiles
from fedjax_admm.trials.running import Request, _early, run_experiment
from tests.trials.results.made import RESULT
from tests.trials.small import EXPERIMENT

CHUNKS = Request(trials=30, batch=4, devices=2, settings={"share": "0,0.4"})  # of 8, 8, 8 and 6


@pytest.fixture
def long(monkeypatch):
    """Let every run be a long one, and drawings cost nothing."""
    monkeypatch.setattr(_early, "WORTH_SECONDS", 0.0)
    monkeypatch.setattr(_early, "SHARE", np.inf)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The files of a run that draws nothing early, by name."""
    out = tmp_path_factory.mktemp("whole")
    assert drawn(out) == [30]
    return files(out)


def files(out):
    return {name: (out / name).read_bytes() for name in RESULT}


def drawn(out, request=CHUNKS, *, failing=None, **options):
    """Run the small experiment; return of how many trials figures were drawn.

    Args:
      out: the folder of the run.
      request: what is run.
      failing: called before a figure is drawn, with its results; it may raise.
      **options: of `run_experiment`.
    """
    trials = []

    def figure(results):
        trials.append(results.trials)
        if failing is not None:
            failing(results)
        return figures.usual_figure(results)

    run_experiment(replace(EXPERIMENT, figure=figure), request, out, **options)
    return trials


def test_the_first_trials_are_drawn_and_again_when_they_have_doubled(long, whole, tmp_path, capsys):
    early = []

    def keep(results):
        if (tmp_path / "figure.png").exists():
            config = json.loads((tmp_path / "config.json").read_text())
            early.append(((tmp_path / "figure.png").read_bytes(), config))

    assert drawn(tmp_path, failing=keep) == [8, 16, 30]
    # Of 8 trials, and of 16: pictures of an unfinished run, whose configuration lists them.
    (first, config), (second, _) = early
    assert first[:4] == second[:4] == b"\x89PNG"
    assert len({first, second, whole["figure.png"]}) == 3
    assert (config["status"], config["files"]) == ("running", ["config.json", "figure.png"])
    assert files(tmp_path) == whole
    assert capsys.readouterr().err == (
        f"{tmp_path}/figure.png shows the first 8 of 30 trials; it is drawn again when there are "
        "many more.\n"
    )


def test_a_dear_figure_is_drawn_once(long, monkeypatch, tmp_path):
    monkeypatch.setattr(_early, "SHARE", 1e-9)
    assert drawn(tmp_path) == [8, 30]


def test_what_is_no_png_is_drawn_at_the_end(long, tmp_path):
    request = replace(CHUNKS, figure=FigureFiles(formats=("svg",)))
    assert drawn(tmp_path, request) == [30]


def test_a_figure_that_fails_early_stops_no_run(long, whole, tmp_path, capsys):
    def early_only(results):
        if results.trials < 30:
            raise ValueError("too\nfew trials")

    assert drawn(tmp_path, failing=early_only) == [8, 30]
    assert files(tmp_path) == whole
    assert capsys.readouterr().err == "No figure of the first trials: too few trials\n"


def test_a_run_that_was_stopped_after_an_early_figure_goes_on(long, whole, tmp_path, capsys):
    def stop(results):
        if results.trials == 16:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drawn(tmp_path, failing=stop, progress=False)
    assert (tmp_path / "figure.png").exists()
    assert drawn(tmp_path, resume=True, progress=False)[-1] == 30
    assert files(tmp_path) == whole
    assert capsys.readouterr().err == ""
