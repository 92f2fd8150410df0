"""Folders in which something is already: nothing is lost, and one process writes at a time."""

import json
import os
import socket
import subprocess
from pathlib import Path

from fedjax_admm.trials import files, folders
from tests.faults import prepared
from tests.faults.row import DONE, Row

RUN = ("run", "consensus", "--trials", "4", "--rounds", "20", "--batch", "2", "--set", "share=0.4")
OUT = ("--out", "out")
RUN_FILES = ("config.json", "trials.npz", "summary.csv", "figure.png", "figure.pdf", "figure.txt")

RANGES = "x,y,range\n3,4,5\n-6,8,10\n5,-12,13\n-8,-15,17\n"
SITES = ("--node", "site", "--target", "y", "--features", "a")
FAMILIES = {  # the words of a command, the name of a table, an option that names another input
    "localization": (("--rounds", "20"), "residuals.csv", ()),
    "networked": (
        (*SITES, "--threshold", "20"),
        "comparison.csv",
        (*SITES, "--graph", "out/comparison.csv"),
    ),
    "private": (
        ("--client", "site", "--target", "y", "--features", "a", "--epsilon", "1", "--clip", "1"),
        "curve.csv",
        (
            "--client",
            "site",
            "--target",
            "y",
            "--features",
            "a",
            "--epsilon",
            "1",
            "--clip",
            "1",
            "--edges",
            "out/curve.csv",
        ),
    ),
    "ratings": (("--rank", "2"), "factors.npz", ()),
}


# Making folders


def put(name, text="mine"):
    """Return what puts a file with a text into the folder of a row."""

    def make(folder: Path):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)

    return make


def link(name, target):
    """Return what puts a link into the folder of a row."""

    def make(folder: Path):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(target)

    return make


def made(name):
    return lambda folder: (folder / name).mkdir(parents=True)


def piped(name):
    def make(folder: Path):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(folder / name)

    return make


def both(*makers):
    def make(folder: Path):
        for maker in makers:
            maker(folder)

    return make


def lost(name):
    return lambda folder: (folder / name).unlink()


def lock(where="out", **changes):
    """Return what puts the lock of this process into a folder, with changes."""

    def make(folder: Path):
        record = {
            "process": os.getpid(),
            "started": folders.started(os.getpid()),
            "host": socket.gethostname(),
            "boot": folders.boot(),
            "since": "2026-11-22 14:03:12",
        }
        put(f"{where}/.lock", json.dumps(record | changes))(folder)

    return make


def left_lock(folder: Path, where="out"):
    """Put the lock of a process that has ended into a folder."""
    process = subprocess.Popen(["true"])
    process.wait()
    lock(where, process=process.pid)(folder)


def left_while_compiling(folder: Path):
    """Leave what a run leaves that was killed before it had written its config.json."""
    left_lock(folder)
    left_lock(folder, "out/chunks")


def half_taken(folder: Path):
    """Leave what a process leaves that was killed while it took the lock of `out`."""
    left_lock(folder)
    (folder / "out/.lock").rename(folder / "out/.lock.x2_y.7.tmp")


def left_files(folder: Path):
    """Put what others call temporary into `out`, beside what a run that was killed leaves."""
    process = subprocess.Popen(["true"])
    process.wait()
    for name in (".notes.1.tmp", ".x.tmp", f".notes.{process.pid}.tmp", "chunks/.x.tmp"):
        put(f"out/{name}")(folder)
    put(f"out/.trials.npz.{process.pid}.tmp")(folder)


def swept(folder: Path):
    assert not list((folder / "out").glob(".trials.npz.*"))


def solved(family):
    """Return what puts an earlier result of a family into `out`, as its command leaves it."""

    def make(folder: Path):
        out, kind = folder / "out", {"family": family}
        table = FAMILIES[family][1]
        with folders.locked(out), folders.staged(out) as stage:
            for name in ("models.csv", "figure.png", "figure.pdf", table):
                files.write_text(stage / name, f"{name} as it was\n")
            folders.publish(stage, out, {**kind, "result": 1}, kind)

    return make


# Looking at folders


def holds(name, text="mine"):
    """Return the check that a file still holds a text."""

    def check(folder: Path):
        assert (folder / name).read_text() == text

    return check


def ours(name="out"):
    """Return the check that a finished run is in a folder, all of it recorded, and nobody there."""

    def check(folder: Path):
        config = json.loads((folder / name / "config.json").read_text())
        assert config["status"] == "finished"
        assert set(RUN_FILES) == set(config["files"])
        for file in set(RUN_FILES) - {"config.json"}:
            assert config["files"][file] == folders.digest(folder / name / file)
        assert not (folder / name / ".lock").exists()

    return check


def located(folder: Path):
    """Check that the result of a localization is in `out`, all of it recorded."""
    config = json.loads((folder / "out" / "config.json").read_text())
    assert config["family"] == "localization"
    assert set(config["files"]) == {
        *("models.csv", "residuals.csv", "config.json"),
        *("figure.png", "figure.pdf", "figure.txt"),
    }
    assert (folder / "out" / "models.csv").read_text().startswith("method,x,y")
    assert not list((folder / "out").glob(".*"))


def gone(name):
    def check(folder: Path):
        assert not (folder / name).exists()

    return check


def refused_run(name, prepare, *words, says):
    return Row(f"run-{name}", (*RUN, *words), prepare=prepare, says=says)


LONG = "x" * 300
NO_PLACES = {  # where a folder cannot be: what is asked for, what makes it, what is said
    "empty-name": ("", put("kept"), "--out.* is no name of a folder"),
    "nul": ("a\0b", put("kept"), "--out.* is no name of a folder"),
    "newline": ("a\nb", put("kept"), "--out.* is no name of a folder"),
    "no-text": ("a\udcff", put("kept"), "--out.* is no name of a folder"),
    "file": ("file", put("file"), "--out file is a file, not a folder"),
    "below-a-file": ("file/deeper", put("file"), "--out file/deeper cannot be made"),
    "device": ("/dev/null", put("kept"), "/dev/null is not a folder"),
    "below-a-device": ("/dev/null/x", put("kept"), "/dev/null/x cannot be made"),
    "long-name": (LONG, put("kept"), "File name too long; choose another --out"),
    "long-path": ("a/" * 3000, put("kept"), "File name too long; choose another --out"),
    "no-permission": ("/proc/results", put("kept"), "cannot write /proc/results"),
    "link-to-nothing": ("there", link("there", "nowhere"), "--out there is a link to nothing"),
    "below-a-link-to-nothing": ("there/x", link("there", "nowhere"), "is a link to nothing"),
    "link-to-itself": ("there", link("there", "there"), "cannot write there"),
    "link-to-a-file": (
        "there",
        both(put("file"), link("there", "file")),
        "--out there is a file, not a folder",
    ),
    "pipe": ("pipe", piped("pipe"), "--out pipe is not a folder"),
}
PLACES = [
    Row(f"{kind}-{name}", (*words, "--out", out), prepare=prepare, says=says)
    for kind, words in {
        "run": RUN,
        "solve": ("solve", "localization", "--input", "in.csv"),
        "new": ("new", "kernel", "mine"),
    }.items()
    for name, (out, prepare, says) in NO_PLACES.items()
]

FOREIGN = "out is not empty and no earlier result of this command: it holds {}; .* --overwrite"
RUNS = [
    refused_run("notes", put("out/notes.txt"), *OUT, says=FOREIGN.format("notes.txt")),
    refused_run("hidden", put("out/.notes"), *OUT, says=FOREIGN.format(".notes")),
    refused_run("deeper-folder", made("out/deeper"), *OUT, says=FOREIGN.format("deeper")),
    refused_run("foreign-trials", put("out/trials.npz"), *OUT, says=FOREIGN.format("trials.npz")),
    refused_run("foreign-table", put("out/summary.csv"), *OUT, says=FOREIGN.format("summary.csv")),
    refused_run("foreign-chunk", put("out/chunks/7.npz"), *OUT, says=FOREIGN.format("chunks")),
    refused_run("left-by-others", put("out/.x.tmp"), *OUT, says=FOREIGN.format(".x.tmp")),
    refused_run("config-no-json", put("out/config.json"), *OUT, says="out/config.json"),
    refused_run("config-list", put("out/config.json", "[1]"), *OUT, says="out/config.json"),
    refused_run("config-other", put("out/config.json", "{}"), *OUT, says="out/config.json"),
    refused_run("config-deep", put("out/config.json", "[" * 99999), *OUT, says="out/config.json"),
    refused_run("config-folder", made("out/config.json"), *OUT, says="out/config.json is in the"),
    refused_run("config-pipe", piped("out/config.json"), *OUT, says="out/config.json is in the"),
    refused_run("of-solve", solved("localization"), *OUT, says="out/config.json"),
    refused_run(
        "finished-again",
        prepared.finished,
        *OUT,
        says="holds a finished run.*--resume --trials N.*--overwrite.*another --out",
    ),
    refused_run("unfinished-again", prepared.unfinished, *OUT, says="add --resume to go on"),
    refused_run(
        "resume-and-overwrite",
        prepared.unfinished,
        *(*OUT, "--resume", "--overwrite"),
        says="--resume goes on with a run, and --overwrite replaces it",
    ),
    refused_run("overwrite-what", put("kept"), "--overwrite", says="--overwrite .* --out"),
    refused_run(
        "lost-config",
        both(prepared.unfinished, lost("out/config.json")),
        *OUT,
        says="trials of a run whose config.json is gone; add --resume",
    ),
    refused_run(
        "lost-config-overwrite",
        both(prepared.unfinished, lost("out/config.json")),
        *(*OUT, "--overwrite"),
        says="trials of a run whose config.json is gone; go on with them by --resume",
    ),
    refused_run(
        "broken-config-overwrite",
        both(prepared.unfinished, put("out/config.json", "[1]")),
        *(*OUT, "--overwrite"),
        says="trials of a run whose config.json is damaged; go on with them by --resume",
    ),
    refused_run("results-is-a-file", put("results"), says="--out results is a file, not a folder"),
    refused_run(
        "results-is-a-link-to-nothing", link("results", "nowhere"), says="is a link to nothing"
    ),
    Row(
        "run-more-trials-over-an-edited-table",
        ("run", "consensus", *OUT, "--resume", "--trials", "16"),
        prepare=both(prepared.finished, put("out/summary.csv")),
        says="out/summary.csv is not what was written there",
    ),
    Row(
        "run-resume-over-a-foreign-figure",
        ("run", "consensus", *OUT, "--resume"),
        prepare=both(prepared.unfinished, put("out/figure.png")),
        says="out/figure.png is not what was written there",
    ),
    Row(
        "run-resume-through-a-link",
        ("run", "consensus", *OUT, "--resume"),
        prepare=both(prepared.unfinished, link("out/trials.npz", "../kept"), put("kept")),
        says="out/trials.npz is a link",
        check=holds("kept"),
    ),
    *(
        refused_run(
            f"link-{name}",
            both(link(f"out/{name}", "../elsewhere"), put("elsewhere")),
            *(*OUT, "--overwrite"),
            says=f"out/{name} is a link, and nothing is written through links",
        )
        for name in RUN_FILES
    ),
    refused_run(
        "link-chunks",
        both(made("elsewhere"), link("out/chunks", "../elsewhere")),
        *(*OUT, "--overwrite"),
        says="out/chunks is a link",
    ),
    refused_run(
        "link-profile",
        both(made("elsewhere"), link("out/profile", "../elsewhere")),
        *(*OUT, "--overwrite", "--profile"),
        says="out/profile is a link",
    ),
    refused_run(
        "chunks-is-a-file", put("out/chunks"), *OUT, "--overwrite", says="in the place of a folder"
    ),
    refused_run(
        "figure-is-a-folder", made("out/figure.pdf"), *OUT, "--overwrite", says="place of a file"
    ),
    refused_run(
        "table-is-a-pipe", piped("out/summary.csv"), *OUT, "--overwrite", says="place of a file"
    ),
    refused_run(
        "own-input",
        put("out/trials.npz"),
        *(*OUT, "--overwrite", "--set", "data=out/trials.npz"),
        says="out/trials.npz would be written over, but it is read",
    ),
    refused_run(
        "own-input-by-a-link",
        both(put("out/trials.npz"), link("data.npz", "out/trials.npz")),
        *(*OUT, "--overwrite", "--set", "data=data.npz"),
        says="out/trials.npz would be written over, but it is read",
    ),
    # Locks
    refused_run("locked", lock(), *OUT, says=r"in use by process \d+ of this machine since 2026"),
    refused_run("locked-and-overwrite", lock(), *OUT, "--overwrite", says=r"in use by process \d+"),
    refused_run(
        "locked-elsewhere",
        lock(host="node7", boot="another"),
        *OUT,
        says=r"of the host node7 since 2026-11-22 14:03:12; .* delete out/\.lock if that process",
    ),
    Row(
        "run-locked-resume",
        ("run", "consensus", *OUT, "--resume"),
        prepare=both(prepared.unfinished, lock()),
        says=r"in use by process \d+ of this machine",
    ),
    refused_run("lock-foreign", put("out/.lock"), *OUT, says=r"out/\.lock is in the place of a"),
    refused_run("lock-folder", made("out/.lock"), *OUT, says=r"out/\.lock is in the place of a"),
    refused_run(
        "lock-link", link("out/.lock", "../x"), *OUT, says=r"out/\.lock is in the place of a"
    ),
    refused_run("lock-empty", put("out/.lock", ""), *OUT, says=r"out is in use.* out/\.lock"),
    # What is done
    Row(
        "run-lock-of-a-killed-process",
        (*RUN, *OUT),
        wanted=DONE,
        prepare=left_lock,
        changes=("out/.lock",),
        check=ours(),
    ),
    Row(
        "run-killed-while-compiling",
        (*RUN, *OUT),
        wanted=DONE,
        prepare=left_while_compiling,
        changes=("out/.lock", "out/chunks/.lock"),
        check=ours(),
    ),
    Row(
        "run-lock-that-was-half-taken",
        (*RUN, *OUT),
        wanted=DONE,
        prepare=half_taken,
        changes=("out/.lock.*",),
        check=both(ours(), gone("out/.lock.x2_y.7.tmp")),
    ),
    Row(
        "run-lock-of-a-reused-number",
        (*RUN, *OUT),
        wanted=DONE,
        prepare=lock(started="12"),
        changes=("out/.lock",),
        check=ours(),
    ),
    Row(
        "run-overwrite-keeps-the-rest",
        (*RUN, *OUT, "--overwrite"),
        wanted=DONE,
        prepare=both(*(put(f"out/{name}") for name in (*RUN_FILES, "notes", "chunks/7.npz"))),
        changes=tuple(f"out/{name}" for name in RUN_FILES),
        check=both(ours(), holds("out/notes"), holds("out/chunks/7.npz")),
    ),
    Row(
        "run-overwrite-a-finished-run",
        (*RUN, *OUT, "--overwrite"),
        wanted=DONE,
        prepare=both(prepared.finished, put("out/notes")),
        changes=("out/*",),
        check=both(ours(), holds("out/notes")),
    ),
    Row(
        "run-overwrite-an-unfinished-run",
        (*RUN, *OUT, "--overwrite"),
        wanted=DONE,
        prepare=prepared.unfinished,
        changes=("out/*",),
        check=ours(),
    ),
    Row(
        "run-overwrite-leaves-what-others-left",
        (*RUN, *OUT, "--overwrite"),
        wanted=DONE,
        prepare=left_files,
        changes=("out/.trials.npz.*.tmp",),
        check=both(ours(), holds("out/.notes.1.tmp"), holds("out/chunks/.x.tmp"), swept),
    ),
    Row(
        "run-into-a-link-to-a-folder",
        (*RUN, *OUT),
        wanted=DONE,
        prepare=both(made("there"), link("out", "there")),
        check=ours("there"),
    ),
    Row("run-into-an-empty-folder", (*RUN, *OUT), wanted=DONE, prepare=made("out"), check=ours()),
    Row(
        "run-beside-another",
        RUN,
        wanted=DONE,
        prepare=put("results/consensus/notes"),
        check=ours("results/consensus-2"),
    ),
    Row(
        "run-overwrite-refused-loses-no-chunk",
        (*RUN, *OUT, "--overwrite", "--memory", "1e-6"),
        prepare=prepared.finished,
        says="memory|KiB",
    ),
    Row(
        "run-refused-leaves-no-folder",
        (*RUN, "--memory", "1e-6"),
        prepare=put("kept"),
        says="memory|KiB",
        check=gone("results"),
    ),
]


def solve(family, name, *words, says, prepare, **options):
    command = ("solve", family, "--input", "in.csv", *words, *OUT)
    prepare = both(put("in.csv", RANGES), prepare)
    return Row(f"{family}-{name}", command, says=says, prepare=prepare, **options)


SOLVES = []
for _family, (_words, _table, _other) in FAMILIES.items():
    _another = next(name for name in FAMILIES if name != _family)
    SOLVES += [
        solve(_family, "notes", *_words, prepare=put("out/notes"), says=FOREIGN.format("notes")),
        solve(
            *(_family, "edited-table", *_words),
            prepare=both(solved(_family), put(f"out/{_table}")),
            says=f"out/{_table} is not what was written there.*--overwrite",
        ),
        solve(
            *(_family, "edited-config", *_words),
            prepare=both(
                solved(_family),
                lambda folder: files.write_json(
                    folder / "out/config.json",
                    {**json.loads((folder / "out/config.json").read_text()), "result": 2},
                ),
            ),
            says="out/config.json is not what was written there",
        ),
        solve(
            *(_family, "foreign-figure", *_words),
            prepare=both(solved(_family), put("out/figure.png")),
            says="out/figure.png is not what was written there",
        ),
        solve(
            *(_family, "over-another-family", *_words),
            prepare=solved(_another),
            says=FOREIGN.format("config.json"),
        ),
        solve(
            *(_family, "over-a-run", *_words),
            prepare=prepared.finished,
            says=FOREIGN.format("config.json"),
        ),
        solve(
            *(_family, "link", *_words, "--overwrite"),
            prepare=link(f"out/{_table}", "../elsewhere"),
            says=f"out/{_table} is a link",
        ),
        Row(
            f"{_family}-own-input",
            ("solve", _family, *_words, "--input", f"out/{_table}", *OUT, "--overwrite"),
            prepare=put(f"out/{_table}", RANGES),
            says=f"out/{_table} would be written over, but it is read by the same command",
        ),
        solve(_family, "locked", *_words, prepare=lock(), says=r"in use by process \d+ of this"),
    ]
    if _other:
        SOLVES.append(
            solve(
                *(_family, "other-input", *_other, "--overwrite"),
                prepare=put(f"out/{_table}"),
                says=f"out/{_table} would be written over, but it is read by the same command",
            )
        )


def hard_link(folder: Path):
    put("figure.png", RANGES)(folder)
    (folder / "out").mkdir()
    os.link(folder / "figure.png", folder / "out/figure.png")


def left_table(folder: Path):
    """Put a table of ours into `out` that another family's command writes besides."""
    solved("localization")(folder)
    put("out/curve.csv")(folder)


LOCATE = ("solve", "localization", "--rounds", "20", "--input")
CHANGED = tuple(
    f"out/{name}" for name in ("models.csv", "residuals.csv", "figure.*", "config.json", ".lock")
)
SOLVES += [
    Row(
        "localization-input-figure",
        (*LOCATE, "figure.png", "--out", ".", "--overwrite"),
        prepare=put("figure.png", RANGES),
        says="figure.png would be written over, but it is read by the same command",
    ),
    Row(
        "localization-input-by-a-hard-link",
        (*LOCATE, "figure.png", *OUT, "--overwrite"),
        prepare=hard_link,
        says="out/figure.png would be written over, but it is read by the same command",
    ),
    Row(
        "localization-input-through-a-linked-folder",
        (*LOCATE, "there/models.csv", *OUT, "--overwrite"),
        prepare=both(put("out/models.csv", RANGES), link("there", "out")),
        says="out/models.csv would be written over, but it is read by the same command",
    ),
    Row(
        "localization-usual-folder-taken",
        (*LOCATE, "in.csv"),
        prepare=both(put("in.csv", RANGES), put("localization-in/notes")),
        says="localization-in is not empty",
    ),
    Row(
        "localization-no-input",
        (*LOCATE, "nowhere.csv", "--out", "new/deeper"),
        prepare=put("kept"),
        says="nowhere.csv does not exist",
        check=gone("new"),
    ),
    solve(
        *("localization", "again", "--rounds", "20"),
        wanted=DONE,
        prepare=both(solved("localization"), put("out/notes")),
        changes=CHANGED,
        says="Wrote models.csv",
        check=both(located, holds("out/notes")),
    ),
    solve(
        *("localization", "overwrite", "--rounds", "20", "--overwrite"),
        wanted=DONE,
        prepare=both(*(put(f"out/{name}") for name in ("models.csv", "config.json", "notes"))),
        changes=CHANGED,
        says="Wrote models.csv",
        check=both(located, holds("out/notes")),
    ),
    solve(
        *("localization", "table-of-others", "--rounds", "20"),
        wanted=DONE,
        prepare=left_table,
        changes=CHANGED,
        says="Wrote models.csv",
        check=both(located, holds("out/curve.csv")),
    ),
    solve(
        *("localization", "left-lock", "--rounds", "20"),
        wanted=DONE,
        prepare=left_lock,
        changes=CHANGED,
        says="Wrote models.csv",
        check=located,
    ),
]

NEW = [
    *(
        Row(
            f"new-{kind}-there",
            ("new", kind, "mine"),
            prepare=put("mine.py"),
            says="mine.py is there already; choose another NAME or --out",
        )
        for kind in ("experiment", "solver", "kernel")
    ),
    *(
        Row(
            f"new-{kind}-test-there",
            ("new", kind, "mine"),
            prepare=put("test_mine.py"),
            says="test_mine.py is there already",
        )
        for kind in ("solver", "kernel")
    ),
    Row(
        "new-test-is-a-link-to-nothing",
        ("new", "kernel", "mine"),
        prepare=link("test_mine.py", "nowhere"),
        says="test_mine.py is there already",
        check=gone("nowhere"),
    ),
    Row(
        "new-long-file-name",
        ("new", "solver", "m" * 300),
        prepare=put("kept"),
        says="File name too long; choose another --out",
    ),
    Row(
        "new-folder-of-that-name",
        ("new", "solver", "mine"),
        prepare=made("mine.py"),
        says="mine.py is there already",
    ),
]

ROWS = [*PLACES, *RUNS, *SOLVES, *NEW]
