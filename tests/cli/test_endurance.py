"""Bad places, damaged files and changed circumstances: one sentence, and nothing is lost."""

import builtins
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from fedjax_admm._host import _files
from fedjax_admm._host._store import Chunks
from fedjax_admm.trials.experiments import _finding
from fedjax_admm.trials.running import Request, _configuration as configuration, run_experiment
from tests.cli.processes import same_results
from tests.trials.small import EXPERIMENT

NAME = ("run", "consensus")
RUN = (*NAME, "--trials", "12", "--batch", "2", "--set", "share=0,0.4")
NAMES = ["000000-000004.npz", "000004-000008.npz", "000008-000012.npz"]  # of the chunks


@pytest.fixture(autouse=True)
def only_the_small_experiment(monkeypatch):
    monkeypatch.setattr(_finding, "built_in", lambda: {"consensus": EXPERIMENT})


def make(out, save=Chunks.write, **changes):
    """Run without the command line, as RUN does."""
    request = Request(**{"trials": 12, "batch": 2, "settings": {"share": "0,0.4"}} | changes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Chunks, "write", save)
        run_experiment(EXPERIMENT, request, out, resume=False, progress=False)
    return out


def begin(out, **changes):
    """Run until two chunks are kept."""
    save = Chunks.write

    def stopping(self, first, *what):
        if len(list(out.rglob("*.npz"))) == 2:
            raise KeyboardInterrupt
        save(self, first, *what)

    with pytest.raises(KeyboardInterrupt):
        make(out, stopping, **changes)
    assert len(list(out.rglob("*.npz"))) == 2
    return out


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return make(tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    return begin(tmp_path_factory.mktemp("begun") / "run")


@pytest.fixture
def stopped(begun, tmp_path):
    """A stopped run of its own in ./run."""
    return shutil.copytree(begun, tmp_path / "run")


@pytest.fixture
def resume(command):
    def call(*words):
        return command(*NAME, "--out", "run", "--resume", *words)

    return call


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Places


class Full:
    """A file system that is full whenever a file of this name is written."""

    def __init__(self, name):
        self.name = name
        self.refused = 0

    def __call__(self, path, mode="r", **more):
        if self.name and Path(path).name.startswith(f".{self.name}."):
            self.refused += 1
            return builtins.open("/dev/full", mode.replace("x", "w"))
        return builtins.open(path, mode, **more)


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_full_disk_stops_a_run_anywhere_and_more_room_lets_it_go_on(
    command, resume, whole, monkeypatch, tmp_path
):
    out = tmp_path / "run"

    def refused(call, name, folder=out):
        disk = Full(name)
        monkeypatch.setattr(_files, "open", disk, raising=False)
        before = content(out)
        sentence = call().mistake()
        assert disk.refused == 1
        assert sentence.startswith(f"cannot write {folder.relative_to(tmp_path)}/")
        told = f"{name}: No space left on device; choose another place or make room"
        begun = name != "config.json"
        assert sentence.endswith(f"{told} and go on with --resume." if begun else f"{told}.")
        # What was whole is still there, and nothing half is.
        assert before.items() <= content(out).items()
        assert not [path for path in content(out) if path.name.endswith(".tmp")]

    def start():
        return command(*RUN, "--out", "run")

    refused(start, "config.json")
    assert not content(tmp_path)
    for call, name in zip((start, resume, resume), NAMES, strict=True):
        refused(call, name, out / "chunks")
    for name in ("trials.npz", "summary.csv", "figure.png"):
        refused(resume, name)
    monkeypatch.setattr(_files, "open", builtins.open)
    outcome = resume()
    assert outcome.code == 0, outcome.err
    assert same_results(out, whole)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(command, resume, stopped):
    for folder in (stopped, stopped / "chunks"):
        folder.chmod(0o500)
    before = content(stopped)
    assert "Permission denied; choose another place" in resume().mistake()
    assert content(stopped) == before
    for folder in (stopped, stopped / "chunks"):
        folder.chmod(0o700)


# Files


def test_files_of_others_are_left_and_unfinished_ones_of_ours_removed(resume, stopped, whole):
    ours = [stopped / f"{name}.7.fedjax-admm.tmp" for name in ("chunks/.1.npz", ".trials.npz")]
    for path in ours:
        path.write_bytes(b"half")
    strangers = [stopped / "chunks" / name for name in ("notes.txt", "1x.npz", "x.npz")]
    strangers.append(stopped / "chunks/plots/deeper.npz")
    strangers[-1].parent.mkdir()
    for path in strangers:
        path.write_bytes(b"mine")
    assert resume().code == 0
    assert {path.read_bytes() for path in strangers} == {b"mine"}
    assert not any(path.exists() for path in ours)
    assert same_results(stopped, whole)


# Circumstances


@pytest.mark.kin(3)
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--trials", "11"), "run was begun with trials 12, more than the 11 that are asked for"),
        (("--rounds", "21"), "run was begun with rounds 20, not 21; resume with"),
        (("--batch", "3"), "run was begun with width 2, not 3; resume with"),
        (("--quick", "--trials", "12"), None),
        (("--set", "rate=0.5"), "run was begun with the setting rate 0.25, not 0.5; resume"),
        (("--devices-per-trial", "2"), "run was begun with devices_per_trial 1, not 2; resume"),
        (("--devices", "1"), "run was begun on several devices, not one device; resume"),
    ],
)
def test_another_setting_does_not_go_on(resume, stopped, whole, words, sentence):
    if sentence is None:  # it changes nothing that is not given
        assert resume(*words).code == 0
        assert same_results(stopped, whole)
        return
    before = content(stopped)
    assert resume(*words).mistake().startswith(sentence)
    assert content(stopped) == before


def test_another_version_does_not_go_on(resume, stopped, monkeypatch):
    before = content(stopped)
    monkeypatch.setattr(configuration, "code_digest", lambda: "changed")
    assert "with the code of fedjax-admm as" in resume().mistake()
    monkeypatch.setattr(configuration, "installed_version", lambda package: "9.9")
    assert re.search(r"with fedjax-admm .*, not 9\.9; resume", resume().mistake())
    assert content(stopped) == before


# More trials


@pytest.fixture(scope="module")
def longer(tmp_path_factory):
    return make(tmp_path_factory.mktemp("longer") / "run", trials=22)


def kept(out):
    return {path: path.stat().st_mtime_ns for path in out.glob("chunks/*")}


def status(out):
    config = json.loads((out / "config.json").read_text())
    return config["status"], config["trials"]


@pytest.mark.thorough
@pytest.mark.bits
def test_a_run_that_stops_while_it_grows_goes_on(resume, whole, longer, tmp_path, monkeypatch):
    out = shutil.copytree(whole, tmp_path / "run")
    results = (out / "trials.npz").read_bytes()
    save = Chunks.write

    def stopping(self, first, *what):
        if first == 16:
            raise KeyboardInterrupt
        save(self, first, *what)

    with monkeypatch.context() as patch:
        patch.setattr(Chunks, "write", stopping)
        assert resume("--trials", "22").code == 130
    assert status(out) == ("running", 22)
    assert (out / "trials.npz").read_bytes() == results  # whole until the new ones are
    before = kept(out)
    assert len(before) == 4
    assert resume().code == 0
    assert before.items() <= kept(out).items()
    assert same_results(out, longer)
    assert status(out) == ("finished", 22)
