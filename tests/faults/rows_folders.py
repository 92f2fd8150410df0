"""Folders in which something is already: nothing is lost, and one process writes at a time."""

import json
import os
from pathlib import Path

from fedjax_admm._host import _files as files, _store as store
from tests.faults import prepared
from tests.faults.row import DONE, Row

RUN = ("run", "consensus", "--trials", "4", "--rounds", "20", "--batch", "2", "--set", "share=0.4")
OUT = ("--out", "out")
FIGURES = ("figure.png", "figure.pdf", "figure.txt")
RUN_FILES = ("trials.npz", "summary.csv", *FIGURES)
WRITTEN = (*RUN_FILES, "config.json")

RANGES = "x,y,range\n3,4,5\n-6,8,10\n5,-12,13\n-8,-15,17\n"
SITES = ("--node", "site", "--target", "y", "--features", "a")
CLIENTS = ("--client", "site", "--target", "y", "--features", "a", "--epsilon", "1", "--clip", "1")
FAMILIES = {  # the words of a command, the name of a table, an option that names another input
    "localization": (("--rounds", "20"), "residuals.csv", ()),
    "networked": ((*SITES, "--threshold", "20"), "comparison.csv", (*SITES, "--graph")),
    "private": (CLIENTS, "curve.csv", (*CLIENTS, "--edges")),
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


def both(*makers):
    def make(folder: Path):
        for maker in makers:
            maker(folder)

    return make


def left_by_others(folder: Path):
    """Put what others call temporary into `out`, beside what a run that was killed leaves."""
    for name in (".notes.1.tmp", ".x.tmp", "chunks/.x.tmp"):
        put(f"out/{name}")(folder)
    put(f"out/.trials.npz.7{files.UNFINISHED}")(folder)
    put(f"out/{store.LOCK}", "process 7 of another host")(folder)


def solved(family):
    """Return what puts an earlier result of a family into `out`."""

    def make(folder: Path):
        for name in ("models.csv", "figure.png", FAMILIES[family][1]):
            put(f"out/{name}", f"{name} as it was\n")(folder)
        put("out/config.json", json.dumps({"family": family}))(folder)

    return make


# Looking at folders


def holds(name, text="mine"):
    """Return the check that a file still holds a text."""

    def check(folder: Path):
        assert (folder / name).read_text() == text

    return check


def ours(name="out"):
    """Return the check that a finished run is in a folder, and nobody writes there."""

    def check(folder: Path):
        config = json.loads((folder / name / "config.json").read_text())
        assert config["status"] == "finished"
        assert set(config["files"]) == set(WRITTEN)
        assert not list((folder / name).glob(".*fedjax-admm*"))

    return check


def located(folder: Path):
    """Check that the result of a localization is in `out`."""
    config = json.loads((folder / "out" / "config.json").read_text())
    assert config["family"] == "localization"
    assert set(config["files"]) == {"models.csv", "residuals.csv", "config.json", *FIGURES}
    assert (folder / "out" / "models.csv").read_text().startswith("method,x,y")
    assert not list((folder / "out").glob(".*"))


def gone(name):
    def check(folder: Path):
        assert not (folder / name).exists()

    return check


# Places where a folder cannot be

NO_PLACES = [
    ("no-text", "a\udcff", put("kept"), "--out.* is no name of a folder"),
    ("file", "file", put("file"), "--out file is a file, not a folder"),
    ("below-a-file", "file/deeper", put("file"), "cannot write file/deeper: Not a directory"),
    ("device", "/dev/null", put("kept"), "/dev/null is a file, not a folder"),
    ("long-name", "x" * 300, put("kept"), "File name too long; choose another --out"),
    ("no-permission", "/proc/results", put("kept"), "cannot write /proc/results"),
    ("link-to-nothing", "there", link("there", "nowhere"), "cannot write there"),
]
PLACES = [
    Row(f"run-{name}", (*RUN, "--out", out), prepare=prepare, says=says)
    for name, out, prepare, says in NO_PLACES
]


# Runs

FOREIGN = "out is not empty: it holds {}; .* --overwrite"


def refused_run(name, prepare, *words, says, **options):
    return Row(f"run-{name}", (*RUN, *words), prepare=prepare, says=says, **options)


def resumed(name, prepare, *words, says, **options):
    words = ("run", "consensus", *OUT, "--resume", *words)
    return Row(f"resume-{name}", words, prepare=prepare, says=says, **options)


def done(name, prepare, *words, check, **options):
    return Row(f"run-{name}", (*RUN, *words), wanted=DONE, prepare=prepare, check=check, **options)


RUNS = [
    refused_run("notes", put("out/notes.txt"), *OUT, says=FOREIGN.format("notes.txt")),
    refused_run("foreign-chunk", put("out/chunks/7.npz"), *OUT, says=FOREIGN.format("chunks")),
    refused_run("config-no-json", put("out/config.json"), *OUT, says=FOREIGN.format("config.json")),
    refused_run("of-solve", solved("localization"), *OUT, says=FOREIGN.format("config.json")),
    refused_run(
        "finished-again",
        prepared.finished,
        *OUT,
        says="holds a finished run.*--resume --trials N.*--overwrite.*another --out",
    ),
    refused_run("unfinished-again", prepared.unfinished, *OUT, says="add --resume to go on"),
    refused_run("overwrite-what", put("kept"), "--overwrite", says="--overwrite .* --out"),
    refused_run(
        "resume-and-overwrite",
        prepared.unfinished,
        *(*OUT, "--resume", "--overwrite"),
        says="--resume goes on with a run, and --overwrite replaces it",
    ),
    resumed(
        "over-a-foreign-figure",
        both(prepared.unfinished, put("out/figure.png")),
        says="out/figure.png is not of this result",
    ),
    refused_run(
        "own-input-by-a-link",
        both(put("out/trials.npz"), link("data.npz", "out/trials.npz")),
        *(*OUT, "--overwrite", "--set", "data=data.npz"),
        says="out/trials.npz would be written over, but it is read",
    ),
    refused_run(
        "overwrite-refused-loses-no-chunk",
        prepared.finished,
        *(*OUT, "--overwrite", "--memory", "1e-6"),
        says="memory|KiB",
    ),
    refused_run(
        "refused-leaves-no-folder",
        put("kept"),
        *("--memory", "1e-6"),
        says="memory|KiB",
        check=gone("results"),
    ),
    # What is done
    done(
        "overwrite-keeps-the-rest",
        both(
            *(put(f"out/{name}") for name in (*RUN_FILES, "config.json", "notes", "chunks/7.npz"))
        ),
        *(*OUT, "--overwrite"),
        changes=tuple(f"out/{name}" for name in WRITTEN),
        check=both(ours(), holds("out/notes"), holds("out/chunks/7.npz")),
    ),
    done(
        "overwrite-a-finished-run",
        both(prepared.finished, put("out/notes")),
        *(*OUT, "--overwrite"),
        changes=("out/*",),
        check=both(ours(), holds("out/notes")),
    ),
    done(
        "overwrite-leaves-what-others-left",
        left_by_others,
        *(*OUT, "--overwrite"),
        changes=(f"out/.*{files.UNFINISHED}", f"out/{store.LOCK}"),
        check=both(ours(), holds("out/.notes.1.tmp"), holds("out/chunks/.x.tmp")),
    ),
    done("beside-another", put("results/consensus/notes"), check=ours("results/consensus-2")),
]


# Solutions


def solve(family, name, *words, says, prepare, **options):
    command = ("solve", family, "--input", "in.csv", *words, *OUT)
    prepare = both(put("in.csv", RANGES), prepare)
    return Row(f"{family}-{name}", command, says=says, prepare=prepare, **options)


SOLVES = []
for _family, (_words, _table, _other) in FAMILIES.items():
    SOLVES += [
        solve(_family, "notes", *_words, prepare=put("out/notes"), says=FOREIGN.format("notes")),
        solve(_family, "again", *_words, prepare=solved(_family), says="not empty.*--overwrite"),
        Row(
            f"{_family}-own-input",
            ("solve", _family, *_words, "--input", f"out/{_table}", *OUT, "--overwrite"),
            prepare=put(f"out/{_table}", RANGES),
            says=f"out/{_table} would be written over, but it is read by the same command",
        ),
    ]
    if _other:
        SOLVES.append(
            solve(
                *(_family, "other-input", *_other, f"out/{_table}", "--overwrite"),
                prepare=put(f"out/{_table}"),
                says=f"out/{_table} would be written over, but it is read by the same command",
            )
        )


def hard_link(folder: Path):
    put("figure.png", RANGES)(folder)
    (folder / "out").mkdir()
    os.link(folder / "figure.png", folder / "out/figure.png")


LOCATE = ("solve", "localization", "--rounds", "20", "--input")
SOLVES += [
    Row(
        "localization-input-by-a-hard-link",
        (*LOCATE, "figure.png", *OUT, "--overwrite"),
        prepare=hard_link,
        says="out/figure.png would be written over, but it is read by the same command",
    ),
    Row(
        "localization-no-input",
        (*LOCATE, "nowhere.csv", "--out", "new/deeper"),
        prepare=put("kept"),
        says="nowhere.csv does not exist",
        check=gone("new"),
    ),
    solve(
        *("localization", "overwrite", "--rounds", "20", "--overwrite"),
        wanted=DONE,
        prepare=both(solved("localization"), put("out/notes")),
        changes=tuple(f"out/{name}" for name in ("models.csv", "residuals.csv", "f*", "config*")),
        says="Wrote models.csv",
        check=both(located, holds("out/notes")),
    ),
]

NEW = [
    Row(
        f"new-{kind}-there",
        ("new", kind, "mine"),
        prepare=prepare,
        says="mine.py is there already; choose another NAME or --out",
    )
    for kind, prepare in (
        ("experiment", put("mine.py")),
        ("solver", put("test_mine.py")),
        ("kernel", link("test_mine.py", "nowhere")),
    )
]

ROWS = [*PLACES, *RUNS, *SOLVES, *NEW]
