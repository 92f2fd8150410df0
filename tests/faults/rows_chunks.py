"""Chunks and configurations of a run that were edited, moved, lost or put there by somebody."""

import json
import os
import pickle
import shutil
from pathlib import Path

import numpy as np

from fedjax_admm._host import _files as files
from tests.faults.prepared import RUN, finished, unfinished
from tests.faults.row import DONE, Row
from tests.faults.tampering import replaced

CHUNKS = "out/chunks/"
FIRST, SECOND = (f"{CHUNKS}{n:06d}-{n + 4:06d}.npz" for n in (0, 4))
RESUME = ("run", "consensus", "--out", "out", "--resume", "--devices", "2")
AGAIN = (*RUN, "--out", "out", "--resume")
AWAY = "; move it away to have its trials computed again"


# What is done to a chunk


def chunk(change):
    """Write the second chunk anew, with other arrays and what it told about itself."""

    def prepare(folder: Path) -> None:
        unfinished(folder)
        archive = files.read_archive(folder / SECOND)
        files.write_arrays(folder / SECOND, *change(*archive))

    return prepare


def about(change):
    return chunk(lambda arrays, about: (arrays, change(about)))


def forged(path: str = SECOND, first: int = 4, copies: tuple[str, ...] = (), **identity):
    """Write a chunk as another run would."""

    def prepare(folder: Path) -> None:
        unfinished(folder)
        for source in (SECOND, *copies):
            arrays, told = files.read_archive(folder / source)
            start = first if source == SECOND else told["first"]
            made_by = {**told["identity"], **identity}
            new = {"first": start, "stop": start + 4, "identity": made_by}
            files.write_arrays(folder / (path if source == SECOND else source), arrays, new)

    return prepare


def content(make):
    """Put other bytes into the place of the second chunk."""

    def prepare(folder: Path) -> None:
        unfinished(folder)
        path = folder / SECOND
        path.write_bytes(make(path.read_bytes()))

    return prepare


def flipped(whole: bytes) -> bytes:
    last = whole.index(b"PK\x01\x02") - 1  # of the last array, before the list of members
    return whole[:last] + bytes([whole[last] ^ 1]) + whole[last + 1 :]


class Loud:
    """An object whose pickle would leave a file."""

    def __reduce__(self):
        return os.system, ("touch loud",)


def moved(change):
    def prepare(folder: Path) -> None:
        unfinished(folder)
        change(folder)

    return prepare


def swapped(folder: Path) -> None:
    (folder / FIRST).rename(folder / "x")
    (folder / SECOND).rename(folder / FIRST)
    (folder / "x").rename(folder / SECOND)


# What is done to a configuration


def config(run=unfinished, **changes):
    """Edit what config.json says; None takes a key away."""

    def prepare(folder: Path) -> None:
        run(folder)
        path = folder / "out/config.json"
        known = json.loads(path.read_text())
        for name, value in changes.items():
            known[name] = known[name] | value if isinstance(value, dict) else value
            if value is None:
                del known[name]
        path.write_text(json.dumps(known))

    return prepare


def without(*names, run=unfinished):
    def prepare(folder: Path) -> None:
        run(folder)
        for name in names:
            path = folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return prepare


# What must hold afterwards


def has(trials: int):
    """Check that a run has finished with so many trials, all of which are kept."""

    def check(folder: Path) -> None:
        known = json.loads((folder / "out/config.json").read_text())
        assert (known["status"], known["trials"]) == ("finished", trials)
        found = files.read_archive(folder / "out/trials.npz").arrays
        assert found["steady/error"].shape[1] == trials
        assert np.isfinite(found["steady/error"]).all()
        spans = [path.stem.split("-") for path in (folder / CHUNKS).iterdir()]
        assert sum(int(stop) - int(first) for first, stop in spans) == trials

    return check


def refused(name, prepare, says, words=RESUME):
    return Row(name, words, says, prepare=prepare)


def goes_on(name, prepare, trials, words=RESUME, check=None):
    changes = ("out/*.json", "out/trials.npz", "out/summary.csv", "out/figure.*")
    check = check or has(trials)
    says = f"{trials} trials in"
    return Row(name, words, says, DONE, prepare, changes=changes, check=check, limit=120)


ROWS = [
    # What they tell about themselves
    refused("no-about", about(lambda told: {}), f"{SECOND} is no chunk of a run{AWAY}"),
    # Chunks of other runs
    refused("of-another-key", forged(key=[0, 1]), f"{SECOND} is of another run: its key is"),
    refused("of-another-program", forged(program="0" * 64), "its trial function, or a constant"),
    refused("of-another-version", forged(**{"version of jaxlib": "0.1"}), "jaxlib is 0.1, not"),
    refused(
        "all-of-another-key",
        forged(copies=(FIRST,), key=[0, 1]),
        "out/chunks holds trials of another run: its key is .*; go on with what made them or",
    ),
    refused("beyond-the-end", forged(f"{CHUNKS}000012-000016.npz", 12), "more than the 12 that"),
    # Files that were moved
    refused("swapped", moved(swapped), f"{FIRST} does not hold the trials that its name tells"),
    refused(
        "under-a-longer-name",
        moved(lambda f: shutil.copy(f / FIRST, f / f"{CHUNKS}000000-000008.npz")),
        "000000-000008.npz does not hold the trials",
    ),
    # Files that are no archives
    refused("half", content(lambda whole: whole[: len(whole) // 2]), f"{SECOND} is damaged"),
    refused("flipped", content(flipped), f"{SECOND} is damaged"),
    refused("pickle", content(lambda whole: pickle.dumps(Loud())), f"{SECOND} is damaged"),
    # Configurations that were edited
    refused("config-seed", config(seed=1), "its key is .*, not"),
    refused("config-setting", config(settings={"rate": 0.5}), "its trial function, or"),
    refused("config-width", config(width=1), "its width is 2, not 1"),
    refused("config-program", config(program="0" * 64), "has been changed since the run was begun"),
    refused("config-name", config(experiment="other"), "begun with experiment other"),
    refused("config-device", config(device={"kind": "abacus"}), "kind of device abacus, not cpu"),
    refused(
        "config-finished-seed",
        config(finished, seed=1),
        "its key is",
        (*RESUME, "--trials", "16"),
    ),
    # Other commands than the run's own
    refused("config-lost", without("out/config.json"), "not empty", (*RUN, "--out", "out")),
    refused("config-lost-other-run", without("out/config.json"), "its trial function, or", RESUME),
    refused(
        "config-lost-finished",
        without("out/config.json", run=finished),
        "out/trials.npz is not of this result",
        AGAIN,
    ),
    refused("config-cut", replaced("config.json", b"{", unfinished), "config.json cannot be read"),
    # What goes on
    goes_on("config-lost-same-run", without("out/config.json"), 12, AGAIN),
    goes_on("grown-without-chunks", without(CHUNKS, run=finished), 16, (*RESUME, "--trials", "16")),
]
