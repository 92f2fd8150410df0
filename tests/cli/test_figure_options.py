"""`--style`, `--format`, `--columns`, `--bands`, `--all`: which files commands write, and whose."""

import dataclasses

import pytest

from fedjax_admm.trials.experiments import _finding
from fedjax_admm.trials.figures import panels_figure
from tests.cli.reading import config_of
from tests.trials.small import EXPERIMENT

DRAWN = dataclasses.replace(
    EXPERIMENT,
    shown=("steady",),
    figure=lambda results: panels_figure(results, metrics=["error"]),
)
RUN = ("run", "consensus", "--trials", 4, "--batch", 2, "--set", "share=0,1")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(_finding, "built_in", lambda: {"consensus": DRAWN})


def pictures(folder):
    return sorted(path.name for path in folder.glob("figure.*"))


def test_a_run_and_its_plots_keep_to_what_was_asked_for(command, tmp_path):
    out = tmp_path / "out"
    asked = ("--style", "paper", "--columns", 1, "--format", "svg", "--bands", "deviations")
    outcome = command(*RUN, "--out", "out", *asked)
    assert (outcome.code, outcome.err.count("fedjax-admm:")) == (0, 0)
    assert "Wrote out/figure.svg, figure.txt, summary.csv" in outcome.out
    assert pictures(out) == ["figure.svg", "figure.txt"]
    assert 'width="252pt"' in (out / "figure.svg").read_text()
    caption = (out / "figure.txt").read_text()
    assert caption.startswith("Distance from the mean (experiment ")
    assert "“mean ± standard deviation” stands for" in caption
    config = config_of(out)
    assert config["command"].endswith(" --style paper --columns 1 --format svg --bands deviations")
    assert set(pictures(out)) <= set(config["files"])

    # The same bytes from the stored results; another format beside it, in the same style.
    first = (out / "figure.svg").read_bytes()
    assert command("plot", "out").out == "Wrote out/figure.svg and figure.txt\n"
    assert (out / "figure.svg").read_bytes() == first
    assert "Legend: steady." in caption
    told = command("plot", "out", "--format", "pdf").out
    assert told == "Wrote out/figure.pdf and figure.txt\n"
    assert (out / "figure.txt").read_text() == caption
    assert pictures(out) == ["figure.pdf", "figure.svg", "figure.txt"]
    assert set(pictures(out)) <= set(config_of(out)["files"])
    more = ("--columns", 2, "--bands", "quantiles", "--all", "--format", "svg")
    assert command("plot", "out", *more).code == 0
    assert 'width="515.52pt"' in (out / "figure.svg").read_text()
    assert "from the 10 to the 90 % quantile" in (out / "figure.txt").read_text()
    assert "Legend: steady; " in (out / "figure.txt").read_text()

    # More trials are drawn likewise; a new run leaves nothing of the old one, and what is not ours.
    (out / "figure.png").write_text("mine")
    assert command("run", "consensus", "--out", "out", "--resume", "--trials", 6).code == 0
    assert config_of(out)["figure"] == config["figure"]
    assert command(*RUN, "--out", "out", "--overwrite", "--format", "svg").code == 0
    assert pictures(out) == ["figure.png", "figure.svg", "figure.txt"]
    assert (out / "figure.png").read_text() == "mine"
    sentence = command("plot", "out", "--format", "png").mistake()
    assert sentence.startswith("out/figure.png is not of this result")


RANGES = "x,y,range\n3,4,5\n-6,8,10\n5,-12,13\n-8,-15,17\n"


def test_a_problem_from_a_file_is_drawn_as_it_is_asked_for(command, tmp_path):
    (tmp_path / "mine.csv").write_text(RANGES)
    solve = ("solve", "localization", "--input", "mine.csv", "--rounds", 20, "--out", "out")
    asked = ("--style", "paper", "--format", "svg", "--columns", 1)
    outcome = command(*solve, *asked)
    assert "Wrote models.csv, residuals.csv, figure.svg, figure.txt, config.json" in outcome.out
    assert pictures(tmp_path / "out") == ["figure.svg", "figure.txt"]
    assert 'width="252pt"' in (tmp_path / "out/figure.svg").read_text()
    caption = (tmp_path / "out/figure.txt").read_text()
    assert caption.startswith("mine.csv: 4 sensors. Estimate x = ")
    assert "y (m) against x (m). Legend: sensor and range; estimate." in caption
    config = config_of(tmp_path / "out")
    assert config["command"].endswith(" --style paper --format svg --columns 1 --out out")
    assert {name: config["settings"][name] for name in ("style", "format", "columns")} == {
        "style": "paper",
        "format": "svg",
        "columns": 1,
    }

    # What is not drawn any more is removed where it was ours, and kept where it was not.
    assert "out is not empty" in command(*solve, "--format", "png").mistake()
    solve = (*solve, "--overwrite")
    (tmp_path / "out/figure.pdf").write_text("mine")
    assert command(*solve, "--format", "png").code == 0
    assert pictures(tmp_path / "out") == ["figure.pdf", "figure.png", "figure.txt"]
    assert (tmp_path / "out/figure.pdf").read_text() == "mine"
    sentence = command(*solve, "--style", "poster").mistake()
    assert sentence == "--style must be one of default, paper and slides, but it is 'poster'."


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--style", "poster"), "--style must be one of default, paper and slides"),
        (("--columns", "3"), "--columns must be 1 or 2, but it is 3."),
        (("--bands", "ranges"), "--bands must be one of errors, deviations and quantiles"),
        (("--format", "png,gif"), "--format must be of png, pdf and svg, with commas"),
    ],
)
def test_what_does_not_exist_is_refused_before_anything_is_written(
    command, tmp_path, words, sentence
):
    assert command(*RUN, "--out", "out", *words).mistake().startswith(sentence)
    assert not (tmp_path / "out").exists()
