"""One writer at a time: a lock file says who writes into a folder.

The lock is a file `.lock` with the number, the start and the host of the process that holds it.
It appears whole, by a hard link that only one process can make, and the operating system locks it
besides (`flock`), which ends with the process and is seen by other hosts where their shared file
system supports it. What a killed process left is taken over: whoever has locked that file may
replace it, so that of two takers one succeeds.
"""

import contextlib
import errno
import json
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedjax_admm._checks import InputError
from fedjax_admm.trials.folders._places import made_folder, refused, remove_empty
from fedjax_admm.trials.folders._processes import boot, is_gone, started

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

LOCK = ".lock"
"""What the lock file of a folder is called."""

_PATIENCE, _PAUSE = 100, 0.01  # looks at a lock that is just changing hands; seconds between them
_FLAGS = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV}


@contextmanager
def locked(folder: Path, argument: str = "out", *, owner_only: bool = False) -> Iterator[None]:
    """Make a folder, if there is none, and be the only one that writes there.

    What was made is removed at the end if nothing has come into it.

    Args:
      folder: where to write.
      argument: what it was called, for the message.
      owner_only: whether nobody but this user may look into it, from now on.

    Raises:
      InputError: another process writes there, or the file system refuses.
    """
    made: list[Path] = []
    try:
        descriptor = None
        while descriptor is None:
            made += made_folder(folder, argument, owner_only=owner_only)
            descriptor = _taken(folder, argument)
        try:
            _remove_left(folder)
            if owner_only:
                _close_to_others(folder, argument)
            yield
        finally:
            _released(folder / LOCK, descriptor)
    finally:
        remove_empty(made)


def _close_to_others(folder: Path, argument: str) -> None:
    try:
        folder.chmod(0o700)
    except OSError as error:
        raise refused(folder, error, argument) from None


def _taken(folder: Path, argument: str) -> int | None:
    """Take the lock, and return the file that holds it; None if the folder was just removed."""
    path = folder / LOCK
    try:
        descriptor, name = tempfile.mkstemp(f".{os.getpid()}.tmp", f"{LOCK}.", folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refused(path, error, argument) from None
    mine, kept = Path(name), False
    try:
        _write(descriptor)
        _lock(descriptor)
        for _ in range(_PATIENCE):
            if _linked(mine, path) or _replaced(mine, path, argument):
                kept = True
                return descriptor
            time.sleep(_PAUSE)
        raise _in_use(path, _read(path), argument)
    except OSError as error:
        raise refused(path, error, argument) from None
    finally:
        with contextlib.suppress(OSError):
            mine.unlink(missing_ok=True)
        if not kept:
            os.close(descriptor)


def _linked(mine: Path, path: Path) -> bool:
    """Put my lock in its place if there is none."""
    try:
        os.link(mine, path)
        return True
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
    # A file system without hard links: an empty file keeps the place until mine is there.
    try:
        os.close(os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return False
    os.replace(mine, path)
    return True


def _replaced(mine: Path, path: Path, argument: str) -> bool:
    """Put my lock in the place of one that a killed process left.

    Returns:
      Whether it is there; False if the lock is just changing hands.

    Raises:
      InputError: the lock is held, or the file is none.
    """
    try:
        found = os.open(path, _FLAGS)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise _no_lock(path, argument) from None
        raise
    try:
        free, record = _lock(found), _read(found)
        if record is None and free is not False and os.fstat(found).st_size:
            raise _no_lock(path, argument)
        if record is None or (free is False and _left(record, free)):
            return False
        if free is False or not _left(record, free):
            raise _in_use(path, record, argument)
        if free:
            return _exchanged(mine, path, found)
        # Nothing but the contents tells who holds it: takers wait for each other here.
        with _alone(path.with_name(f"{LOCK}.taking")) as alone:
            return alone and _exchanged(mine, path, found)
    finally:
        os.close(found)


def _exchanged(mine: Path, path: Path, found: int) -> bool:
    """Replace a lock, if it is still the one that was looked at."""
    with contextlib.suppress(FileNotFoundError):
        if os.path.samestat(os.lstat(path), os.fstat(found)):
            os.replace(mine, path)
            return True
    return False


@contextmanager
def _alone(marker: Path) -> Iterator[bool]:
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        yield False
        return
    try:
        yield True
    finally:
        marker.unlink(missing_ok=True)


def _released(path: Path, descriptor: int) -> None:
    """Remove the lock, unless it has come into other hands or this is a fork of its process."""
    with contextlib.suppress(OSError):
        record = _read(descriptor)
        mine = record is not None and record["process"] == os.getpid()
        if mine and os.path.samestat(os.lstat(path), os.fstat(descriptor)):
            path.unlink()
    os.close(descriptor)


def _remove_left(folder: Path) -> None:
    """Remove the locks of processes that were killed before they had put them into their place."""
    with contextlib.suppress(OSError):
        for path in folder.glob(f"{LOCK}.*.tmp"):
            if path.is_file() and not path.is_symlink():
                record = _read(path)
                if record is not None and _left(record, None):
                    path.unlink()


def _lock(descriptor: int) -> bool | None:
    """Lock an open file; None where the file system cannot."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    except OSError:
        return None


def _write(descriptor: int) -> None:
    record = {
        "process": os.getpid(),
        "started": started(os.getpid()),
        "host": socket.gethostname(),
        "boot": boot(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
    }
    os.write(descriptor, (json.dumps(record) + "\n").encode())


def _read(file: int | Path) -> dict[str, Any] | None:
    """Return what a lock file says; None if it is no lock of ours."""
    try:
        if isinstance(file, Path):
            text = file.read_bytes()[:4096]
        else:
            os.lseek(file, 0, os.SEEK_SET)
            text = os.read(file, 4096)
        record = json.loads(text)
    except (OSError, ValueError, RecursionError):
        return None
    texts = ("started", "host", "boot", "since")
    fits = isinstance(record, dict) and all(isinstance(record.get(name), str) for name in texts)
    process = record.get("process") if fits else None
    return record if type(process) is int and 0 < process < 2**31 else None


def _left(record: dict[str, Any], free: bool | None) -> bool:
    """Return whether the process that held a lock is gone, as far as this machine can tell.

    Args:
      record: what the lock says.
      free: what `_lock` returned for its file. Without that the number of a process says something
        on this machine and since it was started only: another one may have the same name.
    """
    here = record["host"] == socket.gethostname()
    if record["boot"] != boot():
        return here and free is not None
    return (here or free is not None) and is_gone(record["process"], record["started"])


def _in_use(path: Path, record: dict[str, Any] | None, argument: str) -> InputError:
    told, remedy = f"{path.parent} is in use", f"wait or choose another {{{argument}}}"
    if record is not None:
        here = (record["host"], record["boot"]) == (socket.gethostname(), boot())
        host = "this machine" if here else f"the host {record['host']}"
        told = f"{told} by process {record['process']} of {host} since {record['since']}"
        remedy = f"wait, choose another {{{argument}}}"
    remedy = f"{remedy}, or delete {path} if that process is surely gone"
    return InputError(told, value=path.parent, remedy=remedy, others=[argument])


def _no_lock(path: Path, argument: str) -> InputError:
    return InputError(
        f"{path} is in the place of a lock and is none",
        value=path,
        remedy=f"remove it or choose another {{{argument}}}",
        others=[argument],
    )
