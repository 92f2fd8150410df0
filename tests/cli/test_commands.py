"""Every command and every mistake, as a person meets them."""

import json
import re
import shutil

import pytest

from fedjax_admm.trials.cli import _environment as environment
from fedjax_admm.trials.experiments import _finding, all_experiments, find, meanings
from tests.cli.outcomes import called, stand_aside
from tests.package.sources import ROOT
from tests.solvers import matrix
from tests.trials.results.made import edit
from tests.trials.small import EXPERIMENT

NAMES = list(all_experiments())
SMALL = ("--trials", "4", "--rounds", "10", "--set", "share=0,0.4", "--batch", "2")


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A small finished run and what the command has told; copy it before changing it."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        stand_aside(patch)
        patch.setattr(_finding, "built_in", lambda: {EXPERIMENT.name: EXPERIMENT})
        return called(folder, "run", "consensus", *SMALL, "--out", folder / "run"), folder


# What works


def test_list_has_every_experiment_below_its_topic_with_trials_and_time(command):
    outcome = command("list")
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 46
    topics = [line for line in lines if not line.startswith(" ")]
    assert len(topics) == len(set(topics))
    for experiment in all_experiments().values():
        seconds = f"{experiment.usual_seconds:g} s" if experiment.usual_seconds else ""
        words = [experiment.name, str(experiment.trials), *seconds.split(), experiment.title]
        place = [" ".join(line.split()) for line in lines].index(" ".join(words))
        topic = next(line for line in reversed(lines[:place]) if not line.startswith(" "))
        assert topic == experiment.topic


@pytest.mark.kin(4)
def test_list_has_every_solver_with_what_it_asks_for(command):
    outcome = command("list", "--solvers")
    assert (outcome.code, outcome.err) == (0, "")
    assert max(map(len, outcome.out.splitlines())) <= 80
    names = re.findall(r"^  (\w+) ", outcome.out, re.MULTILINE)
    assert set(names) == {name.split()[0].rstrip(",") for name in matrix.ROWS}
    words = " ".join(outcome.out.split())
    assert "splitting between nodes and edges. Asks for Prox, Minimizers." in words
    page = (ROOT / "docs/howto/which-solver.md").read_text("utf-8")
    assert all(f"`{name}`" in page for name in names)


@pytest.mark.parametrize("name", NAMES)
def test_show_tells_settings_methods_metrics_and_findings(command, name):
    outcome = command("show", name)
    assert outcome.code == 0
    experiment = find(name)
    defaults = experiment.defaults()
    for word in (*defaults, *experiment.metrics, experiment.method_names()[0]):
        assert f"  {word}" in outcome.out
    whole = " ".join(outcome.out.split())
    findings = experiment.findings.splitlines()
    assert len(findings) <= 5
    assert all(f" - {finding}" in whole for finding in findings)
    # Every setting is explained.
    assert set(defaults) <= {*meanings(name), experiment.sweep.name}
    # The longest path to a figure aside.
    assert max(map(len, outcome.out.partition("\nfigure\n")[0].splitlines())) <= 80
    assert f"{name}.png" in outcome.out


def test_run_plot_and_compare(ran, command, monkeypatch, tmp_path):
    monkeypatch.setattr(_finding, "built_in", lambda: {EXPERIMENT.name: EXPERIMENT})
    outcome, folder = ran
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("4 trials in ")
    assert f"{folder}/run/figure.png" in outcome.out
    shutil.copytree(folder / "run", tmp_path / "one")
    config = json.loads((tmp_path / "one/config.json").read_text())
    assert (config["status"], config["width"], config["trials"]) == ("finished", 2, 4)

    figures = [tmp_path / "one" / f"figure.{kind}" for kind in ("png", "pdf")]
    for figure in figures:
        figure.unlink()
    assert command("plot", "one").code == 0
    assert all(figure.stat().st_size > 2_000 for figure in figures)

    outcome = command("compare", "one", "--against", "exact")
    assert outcome.code == 0
    title, _, table = outcome.out.partition("\n\n")
    assert title.startswith("error minus that of exact in one, after 10 rounds")
    rows = [line for line in table.splitlines() if " %" in line]
    assert {"share", "method", "pairs", "difference"} <= set(table.split())
    assert len(rows) == 2 * 2
    assert max(map(len, outcome.out.splitlines())) <= 80
    # Nobody is better than the reference after ten rounds.
    assert all(re.search(r" \+\d", row) for row in rows)
    edit(shutil.copytree(tmp_path / "one", tmp_path / "two"), x64=True)
    told = command("compare", "one", "two").mistake()
    assert "cannot be compared: x64 is False in one and True" in told


def test_doctor_reports_devices_versions_and_cache(command):
    outcome = command("doctor")
    assert (outcome.code, outcome.err) == (0, "")
    for word in ("Python 3.", "fedjax-admm", "jax", "cpu", "Compilation cache", "off", "Real data"):
        assert word in outcome.out


@pytest.mark.parametrize("words", [("--help",), ("run", "--help"), ("solve", "--help")])
def test_help_is_shown(command, words):
    outcome = command(*words)
    assert (outcome.code, outcome.err) == (0, "")
    assert "Usage:" in outcome.out


@pytest.mark.parametrize("words", [(), ("solve",)])
def test_a_command_that_says_nothing_gets_the_help(command, words):
    outcome = command(*words)
    assert outcome.code == 2
    text = outcome.out + outcome.err
    assert "Usage:" in text
    assert len(text.splitlines()) > 5


# Mistakes

RUN = ("run", "fsmdm-outliers")
TINY = (*RUN, "--trials", "2", "--rounds", "2")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("run", "no-such-thing"), "no experiment 'no-such-thing'; name one that"),
        (("rum", "fsmdm-outliers"), "No such command 'rum'"),
        # A larger one would be cut to 32 bits: another seed, the same draws.
        ((*TINY, "--seed", "4294967296"), "--seed must be at most 4294967295"),
        ((*RUN, "--devices", "99"), "--devices must be at most 2 here, but it is 99"),
        ((*RUN, "--resume"), "no unfinished run of fsmdm-outliers"),
        (("compare",), "DIR"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_mistake_gets_one_sentence_and_code_2(command, tmp_path, words, sentence):
    (tmp_path / "file").write_text("not a folder")
    assert re.search(sentence, command(*words).mistake())
    # Nothing was begun.
    assert not list(tmp_path.rglob("config.json"))


def test_ctrl_c_before_the_run_leaves_quietly(command, monkeypatch, tmp_path):
    def interrupt(**options):
        raise KeyboardInterrupt

    monkeypatch.setattr(environment, "prepare", interrupt)
    outcome = command(*RUN)
    assert outcome.code == 130
    assert not list(tmp_path.iterdir())


# The real thing, once


@pytest.mark.thorough
def test_a_process_of_its_own(shell, tmp_path):
    outcome = shell(*RUN, "--trials", "4", "--rounds", "10", "--set", "probability=0.2", "--x64")
    assert outcome.code == 0, outcome.err
    config = json.loads((tmp_path / "results/fsmdm-outliers/config.json").read_text())
    assert config["x64"] is True
    assert config["device"]["count"] == config["device"]["cores"]
    assert config["command"].endswith("--x64")
    assert "--trials" in shell(*RUN, "--trials", "ten").mistake()
    doctor = shell("doctor")
    assert doctor.code == 0
    assert re.search(r"\n  [1-9]\d* files, .* MiB\n", doctor.out), doctor.out
