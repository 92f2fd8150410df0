"""One store: folders of results and of trials, each with one writer and of one origin.

A result is a folder. Its `config.json` says what made it and lists, under `files`, the files that
are its own and may be written again; whatever else lies there is somebody's, and stays. Files are
listed before they take their places, so that a process that is killed at any moment leaves files
that are known to be its own. Trials are kept in `chunks/` as they finish.
"""

import os
import re
import shutil
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm._host._files import (
    UNFINISHED,
    digest_of,
    read_archive,
    read_json,
    reason_of,
    refused,
    write_arrays,
    write_json,
)

CONFIG, CHUNKS = "config.json", "chunks"  # of a folder: what made it, and its trials
LOCK = ".fedjax-admm.lock"

_FILES = "files"  # the key of config.json that lists the files of the result
_AWAY = "move it away to have its trials computed again"


@contextmanager
def locked(
    folder: Path, argument: str = "out", *, owner_only: bool = False, new: bool = False
) -> Iterator[Path]:
    """Make a folder if there is none, keep other writers out of it, and give it.

    The lock ends with its process, and files that killed processes had begun are removed. What was
    made and is still empty at the end is removed.

    Args:
      folder: the folder to write into.
      argument: the name of the argument that gave it, for the message.
      owner_only: allow nobody but this user to look into it, from now on.
      new: take FOLDER-2, FOLDER-3, ... where it is there: of two processes each gets one.

    Raises:
      InputError: another process writes there, or the file system refuses.
    """
    import filelock  # only commands that write pay for it

    with ExitStack() as end:
        for each in reversed([each for each in folder.parents if not os.path.exists(each)]):
            end.callback(_remove_empty, each)
        try:
            made = new or not os.path.exists(folder)
            folder = _made(folder, 0o700 if owner_only else 0o777, new)
            if made:
                end.callback(_remove_empty, folder)
            lock = filelock.FileLock(folder / LOCK, timeout=0.2, poll_interval=0.02)
            while not lock.is_locked:
                try:
                    lock.acquire()
                except FileNotFoundError:  # the process that had made the folder removed it
                    folder.mkdir(0o700 if owner_only else 0o777, exist_ok=True)
            end.callback(_release, lock, folder / LOCK)
            since = time.strftime("%Y-%m-%d %H:%M:%S")
            holder = f"process {os.getpid()} of {socket.gethostname()} since {since}"
            with suppress(OSError):
                (folder / LOCK).write_text(holder)
            if owner_only:
                folder.chmod(0o700)
            _remove_unfinished(folder)
        except filelock.Timeout:
            holder = "another process"
            with suppress(OSError, UnicodeError):
                holder = " ".join((folder / LOCK).read_text()[:200].split()) or holder
            raise InputError(
                f"{folder} is in use by {holder}",
                value=folder,
                remedy=f"wait or choose another {{{argument}}}",
                others=[argument],
            ) from None
        except OSError as error:
            if not isinstance(error, FileExistsError) or not os.path.exists(folder):
                raise refused(folder, error, argument) from None
            raise InputError(
                f"{folder} is a file, not a folder",
                argument=argument,
                value=folder,
                remedy=f"choose another {{{argument}}}",
                others=[argument],
            ) from None
        yield folder


def _made(folder: Path, mode: int, new: bool) -> Path:
    """Make a folder, under the first name that is free if it must be new."""
    if not folder.parent.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
    names = (folder.with_name(f"{folder.name}-{number}") for number in count(2))
    while True:
        try:
            folder.mkdir(mode, exist_ok=not new)
            return folder
        except FileExistsError:
            if not new:
                raise
            folder = next(names)


def _release(lock: Any, path: Path) -> None:
    with suppress(OSError):
        path.unlink()  # a process that waits for this file sees that it is gone
    lock.release()


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _remove_unfinished(folder: Path) -> None:
    """Remove what killed processes had begun in a folder, which is locked, and in its chunks."""
    begun = f".*{UNFINISHED}"
    for path in (*folder.glob(begun), *folder.glob(f"{CHUNKS}/{begun}")):
        with suppress(OSError):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def check_places(
    folder: Path, names: Iterable[str], *, inputs: Iterable[Path] = (), argument: str = "out"
) -> None:
    """Check that no input of the command is a file that it writes; `--overwrite` does not help.

    Args:
      folder: the folder to write into.
      names: the files that may be written there.
      inputs: the files that the command reads.
      argument: the name of the argument that gave `folder`, for the message.
    """
    there = [path for path in (folder / name for name in names) if path.exists()]
    for read in filter(os.path.exists, inputs):
        for path in there:
            if os.path.samefile(path, read):
                raise InputError(
                    f"{path} would be written over, but it is read by the same command",
                    value=path,
                    remedy=f"choose another {{{argument}}}",
                    others=[argument],
                )


def check_new(path: Path, *, overwrite: bool = False, argument: str = "out") -> None:
    """Check that the place of a file is free, or that the file there may be replaced."""
    if os.path.lexists(path) and not overwrite:
        raise _taken(f"{path} is there already", path, argument)


def check_empty(folder: Path, argument: str = "out") -> None:
    """Check that a locked folder is empty."""
    there = sorted(path.name for path in folder.iterdir() if path.name != LOCK)
    if there:
        first = CONFIG if CONFIG in there else there[0]
        raise _taken(f"{folder} is not empty: it holds {first}", folder, argument)


def check_own(folder: Path, names: Iterable[str], argument: str = "out") -> None:
    """Check that config.json lists those of some files that are there."""
    known = read_config(folder).get(_FILES, ())
    for path in (folder / name for name in names if name not in known):
        if os.path.lexists(path):
            told = f"{path} is not of this result: {CONFIG} does not list it"
            raise _taken(told, path, argument)


def _taken(told: str, path: Path, argument: str) -> InputError:
    remedy = f"choose another {{{argument}}}, or have it replaced with {{overwrite}}"
    return InputError(told, value=path, remedy=remedy, others=[argument, "overwrite"])


def read_config(folder: Path) -> dict[str, Any]:
    """Return the config.json of a folder; empty where there is none that can be read."""
    with suppress(InputError):
        return read_json(folder / CONFIG)
    return {}


def write_config(folder: Path, config: Mapping[str, Any], names: Iterable[str] = ()) -> None:
    """Write config.json, which lists these files besides those that it lists already."""
    known = {*read_config(folder).get(_FILES, ()), *names, CONFIG}
    write_json(folder / CONFIG, {**config, _FILES: sorted(known)})


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """Give a hidden folder in which files wait for their places in `folder`, which is locked."""
    stage = folder / f".files{UNFINISHED}"
    try:
        stage.mkdir(0o700)
    except OSError as error:
        raise refused(folder, error, "out") from None
    try:
        yield stage
    finally:
        _remove_unfinished(folder)


def publish(
    stage: Path,
    folder: Path,
    config: Mapping[str, Any] | None = None,
    *,
    stale: Iterable[str] = (),
    inputs: Iterable[Path] = (),
    overwrite: bool = False,
) -> dict[str, Any]:
    """Move staged files into places that are free or their own; return what config.json says.

    Args:
      stage: what `staged(folder)` gave.
      folder: where they go; it is locked.
      config: what made them; None keeps what is told there, and its other files.
      stale: files that this result has not; those of an earlier result are removed.
      inputs: files that the command reads.
      overwrite: replace files of the same names, whosever they are.
    """
    names = sorted(path.name for path in stage.iterdir())
    check_places(folder, (*names, CONFIG), inputs=inputs)
    if not overwrite:
        check_own(folder, names)
    write_config(folder, read_config(folder), names)
    known = read_config(folder)[_FILES]
    for name in names:
        try:
            os.replace(stage / name, folder / name)
        except OSError as error:
            raise refused(folder / name, error, "out") from None
    if config is None:
        return {}
    remove(folder, [name for name in stale if name in known])
    content = {**config, _FILES: [*names, CONFIG]}
    write_json(folder / CONFIG, content)
    return content


def remove(folder: Path, names: Iterable[str]) -> None:
    """Remove files of some names."""
    for name in names:
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise refused(folder / name, error, "out") from None


# --- trials ---


class Chunks:
    """Finished trials in a folder, one file for each chunk.

    `000000-000064.npz` holds the trials 0 to 63; the folder knows spans of trials, not how many
    there shall be, so that more can be added at any time. Every file tells what made it (its
    identity) and which trials it holds. What was made by something else, or stands under another
    file's name, is refused.
    """

    def __init__(self, folder: Path | str, *, replace: bool = False):
        """Keep chunks in `folder`; nothing is written yet.

        Args:
          folder: where they are.
          replace: take no notice of the chunks that are there; `clear` removes them.
        """
        self.folder = Path(folder)
        self._replaces = replace

    def spans(self) -> list[tuple[int, int, Path]]:
        """Return the first trials, those after the last, and the files, in their order."""
        try:
            paths = [] if self._replaces else list(self.folder.iterdir())
        except FileNotFoundError:
            paths = []
        except OSError as error:
            told = f"cannot read {self.folder} ({reason_of(error)})"
            raise InputError(told, value=self.folder, remedy="choose another folder") from None
        matches = [(re.fullmatch(r"([0-9]{6,18})-([0-9]{6,18})\.npz", p.name), p) for p in paths]
        return sorted((int(match[1]), int(match[2]), path) for match, path in matches if match)

    def identity(self) -> dict[str, Any]:
        """Return what made the first chunk; nothing if there is none."""
        return next((_identity(*span) for span in self.spans()), {})

    def read(self, made_by: Mapping[str, Any] | str) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Yield the first trial and the arrays of every chunk that is there now, in their order.

        Nothing is locked, changed or removed: another process may be adding chunks meanwhile.

        Args:
          made_by: the identity that all of them must have, or its digest.
        """
        spans = self.spans()
        digest = made_by if isinstance(made_by, str) else digest_of(made_by)
        told = [(span[-1], _identity(*span)) for span in spans]
        others = [(path, each) for path, each in told if digest_of(each) != digest]
        if others:
            path, other = others[0]
            change = " than the configuration beside it"
            if not isinstance(made_by, str):
                change = f": {difference(other, made_by)}"
            whole = len(others) == len(spans) > 1
            what = f"{self.folder} holds trials" if whole else f"{path} is"
            remedy = "go on with what made them or choose another folder" if whole else _AWAY
            raise InputError(f"{what} of another run{change}", value=path, remedy=remedy)
        for first, _, path in spans:
            yield first, read_archive(path).arrays

    def write(
        self, first: int, arrays: Mapping[str, np.ndarray], identity: Mapping[str, Any]
    ) -> None:
        """Write one finished chunk, whose first trial has this number."""
        stop = first + len(next(iter(arrays.values()), ()))
        about = {"first": first, "stop": stop, "identity": identity}
        write_arrays(self.folder / f"{first:06d}-{stop:06d}.npz", arrays, about)

    def clear(self) -> None:
        """Remove all chunks, and the folder if nothing else is there."""
        self._replaces = False
        for _, _, path in self.spans():
            path.unlink(missing_ok=True)
        _remove_empty(self.folder)


def _identity(first: int, stop: int, path: Path) -> dict[str, Any]:
    """Return what made a chunk, if it tells and is what its name says."""
    about = read_archive(path, about_only=True).about
    identity = about.get("identity")
    if not isinstance(identity, dict):
        raise InputError(f"{path} is no chunk of a run", value=path, remedy=_AWAY)
    if (about.get("first"), about.get("stop")) != (first, stop):
        raise InputError(
            f"{path} does not hold the trials that its name tells",
            value=path,
            remedy=f"give it its own name again, or {_AWAY}",
        )
    return identity


def difference(stored: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """Return the first thing in which two identities differ, as a part of a sentence."""
    name = next(name for name in [*asked, *stored] if stored.get(name) != asked.get(name))
    if name == "program":
        return "its trial function, or a constant or a setting in it, is another"
    return f"its {name} is {stored.get(name)}, not {asked.get(name)}"
