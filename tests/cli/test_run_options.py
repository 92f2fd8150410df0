"""Options of `run` that guard a run, and that say on what it runs."""

import json
import re
import shlex

import numpy as np
import pytest

from fedjax_admm.trials.experiments import _finding
from tests.cli.processes import same_results
from tests.trials.small import EXPERIMENT

RUN = ("run", "consensus", "--trials", "12", "--batch", "2", "--set", "share=0,0.4")


@pytest.fixture(autouse=True)
def only_the_small_experiment(monkeypatch):
    monkeypatch.setattr(_finding, "built_in", lambda: {"consensus": EXPERIMENT})


@pytest.fixture
def run(command, tmp_path):
    """Run to a good end, and return the configuration that was written."""

    def call(name, *words, start=RUN):
        outcome = command(*start, "--out", name, *words)
        assert outcome.code == 0, outcome.err
        return json.loads((tmp_path / name / "config.json").read_text())

    return call


# --memory


def test_too_little_memory_is_told_before_anything_is_written(command, tmp_path):
    sentence = command(*RUN, "--out", "run", "--memory", "1e-6").mistake()
    assert sentence.startswith("a micro-batch of 2 trials needs ")
    assert "1.0 KiB are allowed on cpu; give a smaller batch" in sentence
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("amount", ["0", "nan"])
def test_an_amount_of_memory_that_makes_no_sense(command, tmp_path, amount):
    assert "--memory" in command(*RUN, "--out", "run", "--memory", amount).mistake()
    assert not list(tmp_path.iterdir())


# Runs without end


def test_a_run_that_cannot_end_is_refused_before_it_begins(command, tmp_path):
    """What every round computes counts, not the rounds alone."""
    sizes = ("--trials", "20000", "--rounds", "2000000000", "--set", "clients=1000000")
    sentence = command("run", "consensus", *sizes, "--out", "run").mistake()
    told = r"20000 trials would take [\d,]+ (days|years) at least on this machine; take fewer"
    assert re.match(told, sentence)
    assert not list(tmp_path.iterdir())


# --devices and --devices-per-trial


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("--devices-per-trial", "3"),
            "--devices-per-trial must divide the number of devices, 2, but it is 3",
        ),
    ],
)
def test_devices_that_are_not_there(command, tmp_path, words, sentence):
    message = command(*RUN, "--out", "run", *words).mistake()
    for part in sentence.split(".*"):
        assert part in message
    assert not list(tmp_path.iterdir())


@pytest.mark.thorough
def test_the_clients_of_a_trial_are_spread_over_devices(command, run, tmp_path):
    # An even number of clients: two devices get the same number of them.
    words = ("--set", "clients=6", "--set", "rate=0.123456789")
    alone = run("alone", *words)
    spread = run("spread", *words, "--devices-per-trial", "2")
    assert (alone["devices_per_trial"], spread["devices_per_trial"]) == (1, 2)
    assert "--devices-per-trial" not in alone["command"]
    assert "--devices-per-trial 2" in spread["command"]
    with (
        np.load(tmp_path / "alone/trials.npz") as first,
        np.load(tmp_path / "spread/trials.npz") as second,
    ):
        assert list(first) == list(second)
        for name in first:
            np.testing.assert_allclose(second[name], first[name], rtol=1e-5, atol=1e-6)
    program, *repeated = shlex.split(spread["command"])
    assert program == "fedjax-admm"
    assert command(*repeated, "--out", "again").code == 0
    assert same_results(tmp_path / "again", tmp_path / "spread")
