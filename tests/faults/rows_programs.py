"""Folders of results that name a program: nobody runs it but who has named it himself."""

from tests.faults.prepared import finished, unfinished
from tests.faults.row import DONE, Row
from tests.faults.rows_results import COMPARE, DRAWN, PLOT, plots, resumes
from tests.faults.tampering import edited


def planted(change, start=finished):
    """Put beside the results a program that leaves a mark, and name it in their configuration."""

    def prepare(folder):
        evil = folder / "out/evil.py"
        changes = change(evil)
        edited(start=start, **changes)(folder)
        evil.write_text("open('mark', 'w').close()\n")
        (folder / "evil.py").write_bytes(evil.read_bytes())

    return prepare


def unmarked(folder):
    assert not (folder / "mark").exists()


def sourced(again, file):
    source = {"asked": again, "again": again, "file": file, "distribution": None}
    return {"source": source, "digest": "0" * 64}


def in_folder(evil):
    return sourced(str(evil), str(evil))


def in_module(evil):
    return sourced("evil:EXPERIMENT", None)


def as_name(evil):
    return {"experiment": str(evil)}


def as_plug_in(evil):
    source = {"asked": "a", "again": str(evil), "file": str(evil), "distribution": "a 1.0"}
    return {"source": source, "digest": "0" * 64, "experiment": str(evil)}


NAMED = ("--experiment", "consensus")
ROWS = [
    plots("planted-file", planted(in_folder), "out/evil.py', a program that is run only where"),
    plots("planted-module", planted(in_module), "'evil:EXPERIMENT', a program that is run only"),
    plots("planted-name", planted(as_name), "there is no experiment '/.*evil.py' in fedjax-admm"),
    plots("planted-plug-in", planted(as_plug_in), "came with a 1.0, which does not offer it"),
    Row(
        "plot-planted-and-another-named",
        (*PLOT, *NAMED),
        "Wrote",
        wanted=DONE,
        prepare=planted(in_folder),
        check=unmarked,
        changes=DRAWN,
    ),
    Row(
        "compare-planted",
        COMPARE,
        "minus that of",
        wanted=DONE,
        prepare=planted(in_folder),
        check=unmarked,
    ),
    resumes("planted", planted(in_folder, unfinished), "was begun with other contents"),
    Row(
        "plot-named-gone",
        (*PLOT, "--experiment", "gone.py"),
        "there is no file gone.py",
        prepare=finished,
    ),
]
