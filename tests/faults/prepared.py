"""Folders with a run of `consensus`, made once by every process of tests and copied for a row."""

import atexit
import functools
import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.faults.forking import forked

_SIZE = ("--trials", "12", "--batch", "2", "--devices", "2")
RUN = ("run", "consensus", *_SIZE, "--set", "share=0,0.4")
"""The command of both runs, but for their folder: it makes three chunks of four trials."""

_KEPT = 2  # chunks of the unfinished run


def finished(folder: Path) -> None:
    """Put a finished run into `folder/out`."""
    shutil.copytree(_made(None), folder / "out")


def unfinished(folder: Path) -> None:
    """Put a run that was stopped after two of three chunks into `folder/out`."""
    shutil.copytree(_made(_KEPT), folder / "out")


@functools.cache
def _made(chunks: int | None) -> Path:
    """Run `consensus`, to its end or until so many chunks are kept; return its folder."""
    folder = Path(tempfile.mkdtemp(prefix="fedjax-admm-faults-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    process = forked(_run, folder, chunks)
    process.join()
    told = (folder / "told").read_text()
    assert process.exitcode == (0 if chunks is None else 130), told
    return folder / "out"


def _run(folder: Path, chunks: int | None) -> None:
    """Be the command: the target of a forked process."""
    told = os.open(folder / "told", os.O_WRONLY | os.O_CREAT)
    os.dup2(told, 1)
    os.dup2(told, 2)
    os.chdir(folder)
    sys.argv = ["fedjax-admm", *RUN, "--out", "out"]
    from fedjax_admm._host._store import Chunks
    from fedjax_admm.trials.cli import main
    from fedjax_admm.trials.experiments import _finding
    from tests.trials.small import EXPERIMENT

    _finding.built_in = lambda: {EXPERIMENT.name: EXPERIMENT}
    write, saved = Chunks.write, []

    def stopping(store, *arguments):
        if len(saved) == chunks:
            raise KeyboardInterrupt
        saved.append(arguments)
        return write(store, *arguments)

    Chunks.write = stopping
    main()
