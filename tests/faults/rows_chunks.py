"""Chunks and configurations of a run that were edited, moved, lost or put there by somebody."""

import io
import json
import os
import pickle
import shutil
import subprocess
import zipfile
from pathlib import Path

import numpy as np

from fedjax_admm.trials import files
from fedjax_admm.trials.engine._digest import digest_of_arrays
from tests.faults.prepared import RUN, finished, unfinished
from tests.faults.row import DONE, Row

CHUNKS = "out/chunks/"
FIRST, SECOND, THIRD = (f"{CHUNKS}{n:06d}-{n + 4:06d}.npz" for n in (0, 4, 8))
RESUME = ("run", "consensus", "--out", "out", "--resume", "--devices", "2")
AGAIN = (*RUN, "--out", "out", "--resume")
OVERWRITE = ("--out", "out", "--overwrite")
RESULTS = tuple(
    f"out/{name}"
    for name in (
        "config.json",
        "trials.npz",
        "summary.csv",
        "figure.png",
        "figure.pdf",
        "figure.txt",
    )
)
LONG_AGO = 10**9  # seconds
AWAY = "; move it away to have its trials computed again"


# What is done to a chunk


def chunk(change):
    """Write the second chunk anew, with other arrays and what it told about itself."""

    def prepare(folder: Path) -> None:
        unfinished(folder)
        archive = files.read_archive(folder / SECOND)
        files.write_arrays(folder / SECOND, *change(*archive))

    return prepare


def arrays(change):
    return chunk(lambda arrays, about: (change(arrays), about))


def about(change):
    return chunk(lambda arrays, about: (arrays, change(about)))


def each(change):
    return arrays(lambda arrays: {name: change(array) for name, array in arrays.items()})


def first_one(change):
    def changed(arrays):
        name = next(iter(arrays))
        return {**arrays, name: change(arrays[name])}

    return arrays(changed)


def forged(path: str = SECOND, first: int = 4, copies: tuple[str, ...] = (), **identity):
    """Write a chunk as another run would, digest and all."""

    def prepare(folder: Path) -> None:
        unfinished(folder)
        for source in (SECOND, *copies):
            arrays, told = files.read_archive(folder / source)
            start = first if source == SECOND else told["first"]
            made_by = {**told["identity"], **identity}
            new = {"first": start, "stop": start + 4, "identity": made_by}
            new["digest"] = digest_of_arrays(arrays, **new)
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
    middle = len(whole) // 2
    return whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]


def archive(*members, kind=zipfile.ZIP_STORED):
    """Put an archive in the place of a chunk; what a member holds may be made when it is needed."""

    def make(whole: bytes) -> bytes:
        text = io.BytesIO()
        with zipfile.ZipFile(text, "w", kind) as made:
            for name, data in members:
                made.writestr(name, data() if callable(data) else data)
        return text.getvalue()

    return content(make)


def npy(array: np.ndarray) -> bytes:
    text = io.BytesIO()
    np.save(text, array, allow_pickle=True)
    return text.getvalue()


def header(shape: str) -> bytes:
    """Return an array's file that claims a shape and holds nothing."""
    told = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(told).to_bytes(2, "little") + told.encode()


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


def instead(make):
    """Put something that is no plain file into the place of the second chunk."""

    def change(folder: Path) -> None:
        (folder / SECOND).unlink()
        make(folder / SECOND)

    return moved(change)


def no_folder(folder: Path) -> None:
    shutil.rmtree(folder / CHUNKS)
    (folder / "out/chunks").write_text("mine")


def linked_folder(folder: Path) -> None:
    (folder / "out/chunks").rename(folder / "elsewhere")
    (folder / "out/chunks").symlink_to(folder / "elsewhere")


def aside(folder: Path) -> None:
    """Leave what a process leaves that was killed after it had set chunks of a run aside."""
    finished(folder)
    process = subprocess.Popen(["true"])
    process.wait()
    kept = folder / f"out/.replaced.{process.pid}.tmp"
    kept.mkdir()
    for name in (FIRST, SECOND):
        os.utime(folder / name, (LONG_AGO, LONG_AGO))
        (folder / name).rename(kept / Path(name).name)


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


def unreadable(*lost):
    """Cut config.json short, and remove something besides."""

    def prepare(folder: Path) -> None:
        without(*lost)(folder)
        (folder / "out/config.json").write_text("{")

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
        found = files.read_arrays(folder / "out/trials.npz")
        assert found["steady/error"].shape[1] == trials
        assert np.isfinite(found["steady/error"]).all()
        spans = [path.stem.split("-") for path in (folder / CHUNKS).iterdir()]
        assert sum(int(stop) - int(first) for first, stop in spans) == trials

    return check


def put_back(folder: Path) -> None:
    """Check that chunks are in their places again, and were not computed anew."""
    has(16)(folder)
    assert [(folder / name).stat().st_mtime for name in (FIRST, SECOND)] == [LONG_AGO] * 2
    assert not list((folder / "out").glob(".replaced*"))


def refused(name, prepare, says, words=RESUME):
    return Row(name, words, says, prepare=prepare)


def goes_on(name, prepare, trials, words=RESUME, check=None):
    changes = ("out/*.json", "out/trials.npz", "out/summary.csv", "out/figure.*", "out/.replaced*")
    check = check or has(trials)
    says = f"{trials} trials in"
    return Row(name, words, says, DONE, prepare, changes=changes, check=check, limit=120)


CHANGED = f"{SECOND} has been changed since it was written{AWAY}"
ROWS = [
    # Arrays that were edited
    refused("zeroed", each(np.zeros_like), CHANGED),
    refused("nan", first_one(lambda a: np.full_like(a, np.nan)), CHANGED),
    refused("one-number", first_one(lambda a: a + np.eye(*a.shape[1:], dtype=a.dtype)), CHANGED),
    refused("rows-reversed", each(lambda a: a[::-1]), CHANGED),
    refused("one-row-less", each(lambda a: a[:-1]), CHANGED),
    refused("one-row-more", each(lambda a: np.concatenate([a, a[:1]])), CHANGED),
    refused("wider-type", first_one(lambda a: a.astype(np.float64)), CHANGED),
    refused("same-bits-as-whole-numbers", first_one(lambda a: a.view(np.int32)), CHANGED),
    refused("one-axis-more", each(lambda a: a[..., None]), CHANGED),
    refused("no-axis", each(lambda a: a.ravel()[0]), CHANGED),
    refused("renamed", arrays(lambda a: {f"x{name}": a[name] for name in a}), CHANGED),
    refused("one-more", arrays(lambda a: {**a, "x/y": np.zeros(4)}), CHANGED),
    refused("one-less", arrays(lambda a: dict(list(a.items())[1:])), CHANGED),
    refused("none", arrays(lambda a: {}), CHANGED),
    refused("reordered", arrays(lambda a: dict(reversed(a.items()))), CHANGED),
    refused(
        "names-exchanged",
        arrays(lambda a: dict(zip(a, reversed(a.values()), strict=True))),
        CHANGED,
    ),
    # What they tell about themselves
    refused("no-about", about(lambda told: {}), f"{SECOND} is no chunk of a run{AWAY}"),
    refused(
        "no-digest",
        about(lambda told: {name: told[name] for name in told if name != "digest"}),
        "is no chunk of a run",
    ),
    refused("another-digest", about(lambda told: {**told, "digest": "0" * 64}), CHANGED),
    refused("a-digest-of-two", about(lambda told: {**told, "digest": ["0"]}), "is no chunk"),
    refused("identity-is-text", about(lambda told: {**told, "identity": "x"}), "is no chunk"),
    refused("identity-is-empty", about(lambda told: {**told, "identity": {}}), "is of another run"),
    refused(
        "first-is-text",
        about(lambda told: {**told, "first": "4"}),
        f"{SECOND} does not hold the trials that its name tells",
    ),
    refused("foreign-types", about(lambda told: {**told, "dtypes": {"x": "int4"}}), "is damaged"),
    refused("types-are-a-list", about(lambda told: {**told, "dtypes": [1]}), "is damaged"),
    # Chunks of other runs
    refused("of-another-key", forged(key=[0, 1]), f"{SECOND} is of another run: its key is"),
    refused("of-another-width", forged(width=4), "its width is 4, not 2"),
    refused("of-another-program", forged(program="0" * 64), "its trial function, or a constant"),
    refused("of-another-version", forged(**{"version of jaxlib": "0.1"}), "jaxlib is 0.1, not"),
    refused("of-another-device", forged(**{"kind of device": "abacus"}), "is abacus, not cpu"),
    refused("of-float64", forged(**{"use of float64": True}), "float64 is True, not False"),
    refused(
        "all-of-another-key",
        forged(copies=(FIRST,), key=[0, 1]),
        "out/chunks holds trials of another run: its key is .*; go on with what made them or",
    ),
    refused("beyond-the-end", forged(f"{CHUNKS}000012-000016.npz", 12), "more than the 12 that"),
    # Files that were moved
    refused("swapped", moved(swapped), f"{FIRST} does not hold the trials that its name tells"),
    refused(
        "duplicated",
        moved(lambda folder: shutil.copy(folder / FIRST, folder / SECOND)),
        f"{SECOND} does not hold the trials",
    ),
    refused(
        "under-the-next-name",
        moved(lambda folder: (folder / SECOND).rename(folder / THIRD)),
        f"{THIRD} does not hold the trials",
    ),
    refused(
        "under-a-longer-name",
        moved(lambda f: shutil.copy(f / FIRST, f / f"{CHUNKS}000000-000008.npz")),
        "000000-000008.npz does not hold the trials",
    ),
    refused(
        "span-turned-round",
        moved(lambda f: shutil.copy(f / FIRST, f / f"{CHUNKS}000004-000000.npz")),
        "000004-000000.npz does not hold the trials",
    ),
    refused("a-file-for-the-folder", moved(no_folder), "chunks is in the place of a folder"),
    refused("a-link-for-the-folder", moved(linked_folder), "chunks is a link"),
    # Files that are no archives
    refused("empty", content(lambda whole: b""), f"{SECOND} is damaged"),
    refused("half", content(lambda whole: whole[: len(whole) // 2]), f"{SECOND} is damaged"),
    refused("flipped", content(flipped), f"{SECOND} is damaged"),
    refused("text", content(lambda whole: b"hello"), f"{SECOND} is damaged"),
    refused("one-array", content(lambda whole: npy(np.zeros(4))), f"{SECOND} is damaged"),
    refused("pickle", content(lambda whole: pickle.dumps(Loud())), f"{SECOND} is damaged"),
    refused("nothing-in-it", archive(), "is no chunk of a run"),
    refused("a-folder", instead(Path.mkdir), "it is no plain file"),
    refused("a-pipe", instead(os.mkfifo), "it is no plain file"),
    refused("an-endless-file", instead(lambda path: path.symlink_to("/dev/zero")), "plain file"),
    refused("a-link-to-nothing", instead(lambda path: path.symlink_to("gone")), "does not exist"),
    # Archives with something else in them
    refused("not-json", archive(("about.json", "{")), "is damaged"),
    refused("deep-json", archive(("about.json", "[" * 10**5)), "too deeply nested"),
    refused("json-twice", archive(("about.json", '{"a": 1, "a": 2}')), "stands there twice"),
    refused("json-nan", archive(("about.json", '{"first": NaN}')), "no finite number"),
    refused("json-large", archive(("about.json", '{"first": 1e999}')), "no finite number"),
    refused("a-program", archive(("run.py", "import os")), "something that is no array"),
    refused("huge-shape", archive(("a.npy", header("(1000000000000000,)"))), "is no chunk"),
    refused(
        "zip-bomb",
        archive(
            ("a.npy", lambda: npy(np.zeros(2**23))), ("about.json", lambda: " " * 2**27), kind=8
        ),
        "is damaged",
    ),
    # Configurations that were edited
    refused("config-rounds", config(rounds=21), "out/chunks holds trials of another run"),
    refused("config-seed", config(seed=1), "its key is .*, not"),
    refused("config-sweep", config(settings={"share": [0.0, 0.5]}), "its trial function, or"),
    refused("config-setting", config(settings={"rate": 0.5}), "its trial function, or"),
    refused("config-count", config(settings={"clients": 6}), "its trial function, or"),
    refused("config-width", config(width=1), "its width is 2, not 1"),
    refused("config-x64", config(x64=True), "its use of float64 is False, not True"),
    refused("config-fewer", config(trials=7), "holds 8 trials, more than the 7"),
    refused("config-program", config(program="0" * 64), "has been changed since the run was begun"),
    refused("config-no-program", config(program=None), "has been changed since the run was begun"),
    refused("config-name", config(experiment="other"), "begun with experiment other"),
    refused("config-code", config(versions={"code": "0" * 12}), "the code of fedjax-admm as 0000"),
    refused("config-device", config(device={"kind": "abacus"}), "was begun on abacus"),
    refused("config-one-device", config(partitioned=False), "was begun on one device"),
    refused(
        "config-finished-seed",
        config(finished, seed=1),
        "its key is",
        (*RESUME, "--trials", "16"),
    ),
    # Other commands than the run's own
    refused("fewer", unfinished, "trials 12, more than the 11", (*RESUME, "--trials", "11")),
    refused("other-batch", unfinished, "begun with width 2, not 3", (*RESUME, "--batch", "3")),
    refused("other-seed", unfinished, "begun with seed 2025, not 1", (*RESUME, "--seed", "1")),
    refused("other-width-of-numbers", unfinished, "x64 False, not True", (*RESUME, "--x64")),
    refused(
        "nothing-more", finished, "finished run of consensus; ask for more than its 12", RESUME
    ),
    refused("as-many", finished, "finished run of consensus", (*RESUME, "--trials", "12")),
    refused("finished-fewer", finished, "more than the 11", (*RESUME, "--trials", "11")),
    refused(
        "more-but-other-rounds",
        finished,
        "begun with rounds 20, not 21",
        (*RESUME, "--trials", "16", "--rounds", "21"),
    ),
    refused("config-lost", without("out/config.json"), "add --resume", (*RUN, "--out", "out")),
    refused("config-lost-other-run", without("out/config.json"), "its trial function, or", RESUME),
    refused(
        "config-lost-finished",
        without("out/config.json", run=finished),
        "config.json is gone, and beside them trials.npz, .*; move those files away to go on with",
        AGAIN,
    ),
    refused(
        "config-unreadable",
        unreadable(),
        "config.json cannot be read .*; move it away and add --resume to the command of its run",
    ),
    refused(
        "config-unreadable-alone",
        unreadable(CHUNKS),
        "config.json cannot be read .*; replace it with --overwrite or choose another --out",
    ),
    # What goes on
    goes_on("set-aside-by-a-killed-process", aside, 16, (*RESUME, "--trials", "16"), put_back),
    goes_on("unreadable-overwritten", unreadable(CHUNKS), 12, (*RUN, *OVERWRITE)),
    goes_on("config-lost-results-moved", without(*RESULTS, run=finished), 12, AGAIN),
    goes_on("resumed", unfinished, 12),
    goes_on("resumed-to-more", unfinished, 16, (*RESUME, "--trials", "16")),
    goes_on("grown", finished, 16, (*RESUME, "--trials", "16")),
    goes_on("results-lost", without("out/trials.npz", run=finished), 12),
    goes_on("config-lost-same-run", without("out/config.json"), 12, AGAIN),
    goes_on("chunk-lost", without(FIRST), 12),
    goes_on("chunks-lost", without(CHUNKS), 12),
    goes_on("grown-without-chunks", without(CHUNKS, run=finished), 16, (*RESUME, "--trials", "16")),
    goes_on("title-edited", config(title="mine", started="never"), 12),
]
