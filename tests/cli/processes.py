"""Commands that start a process, and what is seen of its run from outside."""

import sys
import time
from pathlib import Path

PROGRAM = [sys.executable, "-c", "from fedjax_admm.trials.cli import main; main()"]

_SMALL = """
import sys
sys.path.append({root!r})
from fedjax_admm.trials.cli import main
from fedjax_admm.trials.experiments import _finding
from tests.trials.small import EXPERIMENT
_finding.built_in = lambda: {{EXPERIMENT.name: EXPERIMENT}}
main()
"""
SMALL = [sys.executable, "-c", _SMALL.format(root=str(Path(__file__).parents[2]))]
"""The same program, but its only experiment is `consensus`, which compiles in a second."""


_SIGNALLING = """
import builtins, os
from pathlib import Path
from fedjax_admm._host import _files as files
def opened(path, mode="r", **more):
    file = builtins.open(path, mode, **more)
    if Path(path).name.startswith(".{name}."):
        os.kill(os.getpid(), {kind})
    return file
files.open = opened
"""


def signalling(name, kind):
    """Return the small program that sends itself a signal when it begins to write a file."""
    return [*SMALL[:-1], _SIGNALLING.format(name=name, kind=int(kind)) + SMALL[-1]]


def wait_until(true, *processes):
    """Wait until something is true while all processes still run."""
    limit = time.monotonic() + 100
    while not true():
        for process in processes:
            assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        time.sleep(0.002)


def chunks(out):
    """Return what tells whether a finished chunk has been written again."""
    stats = {path.name: path.stat() for path in out.glob("chunks/0*.npz")}
    return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in stats.items()}


def same_results(out, whole):
    """Check that a run has finished to the same bytes, and has left nothing else."""
    for name in ("trials.npz", "summary.csv"):
        assert (out / name).read_bytes() == (whole / name).read_bytes(), name
    names = sorted(path.name for path in whole.iterdir())
    assert sorted(path.name for path in out.iterdir()) == names
    return True
