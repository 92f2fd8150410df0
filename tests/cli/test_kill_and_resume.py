"""A run that is really killed goes on to the same bits."""

import json
import signal
import time

import pytest

# One trial per micro-batch and device: twenty chunk files, two seconds from first to last.
RUN = ("run", "fsmdm-outliers", "--trials", "200", "--rounds", "3000", "--batch", "1")
SETTINGS = ("--set", "probability=0.1,0.3")


def wait_for_chunks(process, out, number=1):
    """Wait until so many chunks are on disk and the run still goes on."""
    limit = time.monotonic() + 100
    while len(list(out.glob("chunks/0*.npz"))) < number:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        time.sleep(0.002)


@pytest.fixture
def interrupted(start, tmp_path):
    def interrupt(kind):
        out = tmp_path / "stopped"
        process = start(*RUN, *SETTINGS, "--out", out)
        wait_for_chunks(process, out)
        process.send_signal(kind)
        _, err = process.communicate(timeout=60)
        assert json.loads((out / "config.json").read_text())["status"] == "running"
        chunks = sorted(path.name for path in out.glob("chunks/0*.npz"))
        assert chunks
        assert not (out / "trials.npz").exists()
        return out, process.returncode, err

    return interrupt


@pytest.fixture
def whole(shell, tmp_path):
    outcome = shell(*RUN, *SETTINGS, "--out", tmp_path / "whole")
    assert outcome.code == 0, outcome.err
    return tmp_path / "whole"


def test_killed_and_resumed_equals_uninterrupted(interrupted, whole, shell):
    out, code, _ = interrupted(signal.SIGKILL)
    assert code == -signal.SIGKILL
    # Without --resume nothing is touched; with another seed neither.
    assert "add --resume to go on" in shell(*RUN, *SETTINGS, "--out", out).mistake()
    other = shell("run", "fsmdm-outliers", "--out", out, "--resume", "--seed", "1").mistake()
    assert "was begun with seed 2025, not 1" in other

    kept = {path: path.stat().st_mtime_ns for path in out.glob("chunks/0*.npz")}
    resumed = shell("run", "fsmdm-outliers", "--out", out, "--resume")
    assert resumed.code == 0, resumed.err
    assert kept
    for name in ("trials.npz", "summary.csv"):
        assert (out / name).read_bytes() == (whole / name).read_bytes()
    first, second = (json.loads((path / "config.json").read_text()) for path in (whole, out))
    for name in ("status", "settings", "seed", "trials", "rounds", "width", "chunk", "command"):
        assert first[name] == second[name]
    assert not (out / "chunks").exists()


def test_ctrl_c_tells_how_to_go_on(interrupted):
    out, code, err = interrupted(signal.SIGINT)
    assert code == 130
    assert "Traceback" not in err
    assert f"fedjax-admm run fsmdm-outliers --out {out} --resume" in err
