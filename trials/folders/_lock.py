"""One process writes into a folder at a time."""

import contextlib
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedjax_admm._checks import InputError
from fedjax_admm.trials.files import UNFINISHED
from fedjax_admm.trials.folders._places import make_folder, refused, remove_empty

LOCK = ".fedjax-admm.lock"
"""Name of the lock file of a folder."""


@contextmanager
def locked(folder: Path, argument: str = "out", *, owner_only: bool = False) -> Iterator[None]:
    """Make a folder if there is none, and keep other writers out of it.

    The lock ends with its process, and files that killed processes had begun are removed. A new
    folder that is still empty at the end is removed.

    Args:
      folder: the folder to write into.
      argument: the name of the argument that gave it, for the message.
      owner_only: allow nobody but this user to look into it, from now on.

    Raises:
      InputError: another process writes there, or the file system refuses.
    """
    import filelock  # only commands that write pay for it

    made: list[Path] = []
    lock = filelock.FileLock(folder / LOCK, timeout=0.2, poll_interval=0.02)
    try:
        while not lock.is_locked:
            made += make_folder(folder, argument, owner_only=owner_only)
            # The process that made the folder may remove it before this one has locked it.
            with contextlib.suppress(FileNotFoundError):
                lock.acquire()
        if isinstance(lock, filelock.UnixFileLock):  # others write their own text
            since = time.strftime("%Y-%m-%d %H:%M:%S")
            holder = f"process {os.getpid()} of {socket.gethostname()} since {since}"
            (folder / LOCK).write_text(holder)
        if owner_only:
            folder.chmod(0o700)
        remove_unfinished(folder)
    except filelock.Timeout:
        raise _in_use(folder, argument) from None
    except OSError as error:
        _release(lock, folder / LOCK)
        remove_empty(made)
        raise refused(folder, error, argument) from None
    try:
        yield
    finally:
        _release(lock, folder / LOCK)
        remove_empty(made)


def _release(lock: Any, path: Path) -> None:
    if lock.is_locked:
        with contextlib.suppress(OSError):
            path.unlink()  # a process that waits for this file sees that it is gone
    lock.release()


def _in_use(folder: Path, argument: str) -> InputError:
    holder = ""
    with contextlib.suppress(OSError, UnicodeError):
        holder = " ".join((folder / LOCK).read_text()[:200].split())
    return InputError(
        f"{folder} is in use by {holder or 'another process'}",
        value=folder,
        remedy=f"wait or choose another {{{argument}}}",
        others=[argument],
    )


def remove_unfinished(folder: Path) -> None:
    """Remove files and folders of files that killed processes had begun; the folder is locked."""
    for path in folder.glob(f".*{UNFINISHED}"):
        with contextlib.suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
