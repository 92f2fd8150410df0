"""A run that is really killed or stopped, at a moment that it chooses itself, goes on."""

import json
import signal

import pytest

from fedjax_admm.trials.experiments import _finding
from tests.cli.outcomes import called, stand_aside
from tests.cli.processes import chunks, same_results, signalling
from tests.trials.small import EXPERIMENT

NAME = ("run", "consensus", "--out", "run")
RUN = (*NAME, "--trials", "20", "--batch", "2", "--devices", "2", "--set", "share=0,0.4")
GO_ON = (130, "Interrupted; go on with: fedjax-admm run consensus --out run --resume\n")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(_finding, "built_in", lambda: {"consensus": EXPERIMENT})


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted run of five chunks."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        stand_aside(patch)
        patch.setattr(_finding, "built_in", lambda: {"consensus": EXPERIMENT})
        outcome = called(folder, *RUN)
    assert outcome.code == 0, outcome.err
    assert len(chunks(folder / "run")) == 5
    return folder / "run"


@pytest.fixture
def signalled(start):
    """Run a command that sends itself a signal when it begins to write a file."""

    def call(words, name, kind):
        process = start(*words, program=signalling(name, kind))
        out, err = process.communicate(timeout=100)
        assert out == ""
        return process.returncode, err

    return call


def status(out):
    return json.loads((out / "config.json").read_text())["status"]


def test_resuming_begins_where_nothing_is_there_and_says_so(command, tmp_path):
    words = (*NAME, "--trials", "2", "--rounds", "2", "--resume")
    (tmp_path / "run").mkdir()
    outcome = command(*words)
    assert outcome.code == 0, outcome.err
    assert "run holds no run to go on with: this one begins there." in outcome.err
    assert command(*words).mistake().startswith("run holds a finished run of consensus")


@pytest.mark.bits
@pytest.mark.thorough
def test_killed_and_resumed_equals_uninterrupted(command, signalled, whole, tmp_path):
    """In the beginning, in the middle, and while the results are written."""
    out = tmp_path / "run"
    assert signalled(RUN, "config.json", signal.SIGKILL)[0] == -signal.SIGKILL
    assert not (out / "config.json").exists()
    kept = {}
    # Nothing is there to go on with yet: the command line that resumes begins.
    moments = [((*RUN, "--resume"), "000008-000012.npz"), ((*NAME, "--resume"), "summary.csv")]
    for words, name in moments:
        assert signalled(words, name, signal.SIGKILL)[0] == -signal.SIGKILL
        # What was finished is not computed again.
        assert kept.items() <= chunks(out).items()
        kept = chunks(out)
        assert status(out) == "running"
        assert [*out.rglob(f".{name}.*.tmp")]
    assert len(kept) == 5
    outcome = command(*NAME, "--resume")
    assert outcome.code == 0, outcome.err
    assert kept == chunks(out)
    assert same_results(out, whole)
    first, second = (json.loads((path / "config.json").read_text()) for path in (whole, out))
    for name in ("status", "settings", "seed", "trials", "rounds", "width", "program", "command"):
        assert first[name] == second[name], name


@pytest.mark.thorough
def test_ctrl_c_and_sigterm_end_after_a_chunk_and_tell_how_to_go_on(
    command, signalled, whole, tmp_path
):
    out = tmp_path / "run"
    kept = {}
    moments = [
        (RUN, "000000-000004.npz", signal.SIGINT),
        ((*NAME, "--resume"), "000008-000012.npz", signal.SIGTERM),
    ]
    for words, name, kind in moments:
        assert signalled(words, name, kind) == GO_ON
        assert kept.items() <= chunks(out).items()
        kept = chunks(out)
        # The chunk that was being written is whole, and at most one more, which had begun.
        assert (out / "chunks" / name).exists()
        assert not [*out.rglob(".*.tmp")]
        assert status(out) == "running"
        assert not (out / "trials.npz").exists()
    assert len(kept) < 5
    outcome = command(*NAME, "--resume")
    assert outcome.code == 0, outcome.err
    assert same_results(out, whole)
