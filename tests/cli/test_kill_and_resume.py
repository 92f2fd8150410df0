"""A run that is really killed goes on to the same bits."""

import json
import random
import signal
import time
from functools import partial

import pytest

from tests.cli.processes import PROGRAM, SMALL, chunks, completed, same_results, wait_until

# One trial per micro-batch and device: about twenty chunk files, some 50 ms each.
RUN = ("--trials", "40", "--rounds", "400000", "--batch", "1", "--set", "share=0,0.4")


@pytest.fixture(scope="module")
def whole(environment, tmp_path_factory):
    """An uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole")
    completed(environment, folder, SMALL, "run", "consensus", *RUN, "--out", "whole")
    return folder / "whole"


# Moments: each waits until it has come, and says whether it was in the middle of a run.


def in_the_beginning(seconds, process, out):
    """Start-up, or compiling; the first chunk at the latest."""
    before, end = chunks(out), time.monotonic() + seconds
    wait_until(lambda: time.monotonic() > end or chunks(out) != before, process)


def in_the_middle(delay, process, out):
    """Soon after a new chunk; or in the end, if there is none left."""
    before = chunks(out), _made(out, "trials.npz")
    wait_until(lambda: (chunks(out), _made(out, "trials.npz")) != before, process)
    time.sleep(delay)


def in_the_end(name, process, out):
    """While the results are written, before they take their places."""
    before = set(out.glob(f".*.tmp/{name}"))
    wait_until(lambda: set(out.glob(f".*.tmp/{name}")) - before, process)


def _made(out, name):
    path = out / name
    return path.stat().st_ino if path.exists() else None


def kill_again_and_again(start, out, moments):
    """Kill a run at every moment and go on each time, until the last one goes on to the end."""
    first, again, program = start
    for moment in moments:
        before = chunks(out)
        process = program(*(again if (out / "config.json").exists() else first))
        moment(process, out)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        # What was finished is not computed again: at most one chunk is lost.
        assert before.items() <= chunks(out).items()
        assert len(list(out.glob("chunks/.*.tmp"))) <= 1
        if (out / "config.json").exists():
            status = json.loads((out / "config.json").read_text())["status"]
            if status == "finished":  # the last file was in its place before the blow fell
                return
            assert status == "running"
    process = program(*again)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 0, err


def same_configuration(out, whole):
    first, second = (json.loads((path / "config.json").read_text()) for path in (whole, out))
    for name in ("status", "settings", "seed", "trials", "rounds", "width", "program", "command"):
        assert first[name] == second[name], name
    return True


@pytest.mark.bits
@pytest.mark.thorough
def test_killed_and_resumed_equals_uninterrupted(start, whole, tmp_path):
    out = tmp_path / "killed"
    moments = [
        partial(in_the_beginning, 1.0),
        partial(in_the_middle, 0.02),
        partial(in_the_end, "summary.csv"),
    ]
    program = partial(start, program=SMALL)
    name = ("run", "consensus", "--out", out)
    kill_again_and_again(((*name, *RUN), (*name, "--resume"), program), out, moments)
    assert same_results(out, whole)
    assert same_configuration(out, whole)


@pytest.mark.slow
def test_twenty_kills_at_random_moments(start, environment, tmp_path):
    name = ("run", "fsmdm-outliers")
    size = ("--trials", "200", "--rounds", "3000", "--batch", "1", "--set", "probability=0.1,0.3")
    completed(environment, tmp_path, PROGRAM, *name, *size, "--out", "whole")
    rng = random.Random(20)
    moments = [partial(in_the_beginning, rng.uniform(0, 4)) for _ in range(7)]
    moments += [partial(in_the_middle, rng.uniform(0, 0.05)) for _ in range(8)]
    rng.shuffle(moments)
    moments += [partial(in_the_end, rng.choice(["trials.npz", "summary.csv"])) for _ in range(5)]
    out = tmp_path / "killed"
    commands = (*name, *size, "--out", out), (*name, "--out", out, "--resume")
    kill_again_and_again((*commands, start), out, moments)
    assert same_results(out, tmp_path / "whole")
    assert same_configuration(out, tmp_path / "whole")


def test_a_run_killed_before_it_wrote_anything_is_begun_again(command, start, tmp_path):
    process = start("run", "fsmdm-outliers", "--out", tmp_path / "killed")
    time.sleep(0.3)
    process.kill()
    process.communicate()
    sentence = command("run", "fsmdm-outliers", "--out", "killed", "--resume").mistake()
    assert sentence == "killed holds no run to resume; leave out --resume to begin one."
    assert not list(tmp_path.iterdir())


# Requests to stop


def stop(process, out, kind, times=1):
    """Ask a run to stop after its next chunk; return its exit code and what it said."""
    before = chunks(out)
    wait_until(lambda: chunks(out) != before, process)
    for _ in range(times):
        process.send_signal(kind)
    text, err = process.communicate(timeout=60)
    assert text == ""
    assert before.items() <= chunks(out).items()
    assert not list(out.glob("chunks/.*"))
    return process.returncode, err


@pytest.mark.thorough
def test_ctrl_c_and_sigterm_end_after_a_chunk_and_tell_how_to_go_on(start, whole, tmp_path):
    out = tmp_path / "stopped"
    name = ("run", "consensus", "--out", out)
    go_on = f"Interrupted; go on with: fedjax-admm run consensus --out {out} --resume\n"
    process = start(*name, *RUN, program=SMALL)
    assert stop(process, out, signal.SIGINT) == (130, go_on)
    process = start(*name, "--resume", program=SMALL)
    assert stop(process, out, signal.SIGTERM) == (130, go_on)
    assert json.loads((out / "config.json").read_text())["status"] == "running"
    assert not (out / "trials.npz").exists()
    process = start(*name, "--resume", program=SMALL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert same_results(out, whole)


@pytest.mark.slow
def test_a_second_ctrl_c_does_not_wait_for_the_chunk(start, tmp_path):
    out = tmp_path / "stopped"
    # One chunk of several minutes.
    size = ("--trials", "2", "--rounds", "1000000000", "--batch", "1", "--set", "share=0")
    process = start("run", "consensus", *size, "--out", out, program=SMALL)
    wait_until((out / "config.json").exists, process)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    time.sleep(1)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err.split(";")[0]) == (130, "Interrupted")
    assert not chunks(out)
