"""Options of `run` that guard a run, and that say on what it runs."""

import csv
import json
import re
import shlex

import numpy as np
import pytest

from fedjax_admm.trials.experiments import _finding
from tests.cli.processes import same_results
from tests.trials.small import EXPERIMENT, FAULT_ROUND

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


# --until-se


def test_a_run_ends_where_its_standard_errors_suffice_with_the_trials_of_a_shorter_one(
    command, run, tmp_path
):
    start = ("run", "consensus", "--trials", "300", "--batch", "4", "--set", "share=0")
    first = run("first", "--until-se", "1e9", start=start)
    assert (first["trials"], first["until_se"], first["status"]) == (52, 1e9, "finished")
    assert "--trials 52 " in first["command"]
    assert "--until-se 1000000000.0" in first["command"]
    run("short", "--trials", "52", start=(*start[:2], *start[4:]))
    assert same_results(tmp_path / "first", tmp_path / "short")

    # Between the errors after 52 and after 104 trials: with those it ends, whatever the chunks are.
    with np.load(tmp_path / "first/trials.npz") as arrays:
        ends = [arrays[name][0, :, -1] for name in arrays if name.endswith("/error")]
    wanted = 0.85 * max(end.std(ddof=1) / 52**0.5 for end in ends)
    outcome = command(*start, "--out", "second", "--until-se", str(wanted))
    assert outcome.out.startswith("104 trials in ")
    said = re.search(r"standard error of error in the last round is (\S+)\.\n", outcome.out)
    assert 0 < float(said[1]) <= wanted * 1.05
    more = run("first", "--resume", "--trials", "60", start=start[:2])
    assert (more["trials"], more["until_se"]) == (60, None)


@pytest.mark.parametrize("number", ["0", "nan"])
def test_a_standard_error_that_cannot_be_reached_is_told(command, number):
    outcome = command(*RUN, "--out", "none", f"--until-se={number}")
    assert outcome.code == 2
    assert outcome.err == (
        f"fedjax-admm: --until-se must be a number above 0, but it is {number}; give the largest "
        "standard error that suffices.\n"
    )


# --fail-on-nan


@pytest.mark.thorough
def test_the_first_nonfinite_trial_ends_the_run_and_is_counted_without_the_flag(
    command, run, tmp_path
):
    run("whole")
    with np.load(tmp_path / "whole/trials.npz") as arrays:
        flags = arrays["first_nonfinite_round/fragile"]  # shape=(share, trial)
    trial = int(np.argwhere(flags[1])[0, 0])
    assert not flags[0].any()
    assert set(flags[1]) == {0, FAULT_ROUND}

    outcome = command(*RUN, "--out", "guarded", "--fail-on-nan")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.splitlines() == [
        f"fedjax-admm: fragile turned non-finite in trial {trial} at 0.4, round {FAULT_ROUND}; the "
        "chunk is kept: go on without --fail-on-nan to have such trials counted and left out of "
        "the means.",
        "Go on with: fedjax-admm run consensus --out guarded --resume",
    ]
    out = tmp_path / "guarded"
    kept = sorted(path.name for path in out.glob("chunks/0*.npz"))
    # The chunk of that trial is the last one.
    assert kept == [f"{4 * n:06d}-{4 * n + 4:06d}.npz" for n in range(trial // 4 + 1)]
    assert json.loads((out / "config.json").read_text())["status"] == "running"

    # A chunk that is kept is not judged again.
    again = command("run", "consensus", "--out", "guarded", "--resume", "--fail-on-nan")
    assert (again.code, f" in trial {trial} " in again.err) == (1, False)

    resumed = command("run", "consensus", "--out", "guarded", "--resume")
    assert resumed.code == 0, resumed.err
    assert f"fragile: {(flags > 0).sum()} of 24 runs turned non-finite" in resumed.out
    assert same_results(out, tmp_path / "whole")
    with open(out / "summary.csv", newline="") as file:
        counted = {
            int(row["nonfinite"])
            for row in csv.DictReader(file)
            if (row["method"], row["value"], row["round"]) == ("fragile", "0.4", "20")
            and row["metric"] == "error"
        }
    assert counted == {(flags > 0).sum()}


def test_the_guard_stays_quiet_where_all_is_finite(run):
    start = (*RUN[:-1], "share=0")
    assert run("quiet", "--fail-on-nan", start=start)["status"] == "finished"


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
