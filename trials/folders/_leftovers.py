"""What killed processes had begun to write, told from everything else that may lie there."""

import contextlib
import re
from pathlib import Path

from fedjax_admm.trials.folders._processes import is_gone

_UNFINISHED = re.compile(r"\.(?P<name>.+)\.(?P<process>[1-9][0-9]{0,9})\.tmp")
STAGE = "files"  # what the folder of files that wait for their places is called


def remove_unfinished(folder: Path, ours: str) -> None:
    """Remove what killed processes had begun to write; call it where `locked` keeps others out.

    Files are written under a name `.NAME.PROCESS.tmp` first.

    Args:
      folder: where they lie.
      ours: a regular expression of the names that are written there; of others nothing is removed.
    """
    with contextlib.suppress(OSError):
        for path in list(folder.iterdir()):
            found = _UNFINISHED.fullmatch(path.name)
            if found is None or path.is_symlink() or not is_gone(int(found["process"])):
                continue
            if path.is_file() and re.fullmatch(ours, found["name"]):
                with contextlib.suppress(OSError):
                    path.unlink()
            elif path.is_dir() and found["name"] == STAGE:
                remove_stage(path, ours)


def remove_stage(stage: Path, ours: str) -> None:
    """Remove a folder of files that wait for their places, if there is nothing else in it."""
    with contextlib.suppress(OSError):
        for path in list(stage.iterdir()):
            name = re.sub(r"^\.(.+)\.[0-9]+\.tmp$", r"\1", path.name)
            if path.is_file() and not path.is_symlink() and re.fullmatch(ours, name):
                path.unlink()
        stage.rmdir()


def is_leftover(path: Path) -> bool:
    """Return whether a path is what a killed process of ours may have left."""
    return _UNFINISHED.fullmatch(path.name) is not None
