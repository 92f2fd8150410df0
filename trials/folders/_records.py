"""The files of a result take their places together, and config.json lists them under `files`.

A file of that list is the result's own, and may be written again. Files are written into a hidden
folder first; config.json lists them before they take their places, so that a process that is
killed at any moment leaves files that are known to be its own.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fedjax_admm._checks import InputError
from fedjax_admm.trials import files
from fedjax_admm.trials.folders._lock import LOCK, locked, remove_unfinished
from fedjax_admm.trials.folders._places import check_places, refused

CONFIG = "config.json"
"""Name of the file that says what made a folder."""

_FILES = "files"  # the key of config.json that lists the files of the result


def read_config(folder: Path) -> dict[str, Any]:
    """Return the config.json of a folder; empty where there is none that can be read."""
    with suppress(InputError):
        return files.read_json(folder / CONFIG)
    return {}


def write_config(folder: Path, config: Mapping[str, Any], names: Iterable[str] = ()) -> None:
    """Write config.json, which lists these files besides those that it lists already."""
    known = {*read_config(folder).get(_FILES, ()), *names, CONFIG}
    files.write_json(folder / CONFIG, {**config, _FILES: sorted(known)})


def check_empty(folder: Path, argument: str = "out") -> None:
    """Check that a locked folder is empty."""
    there = sorted(path.name for path in folder.iterdir() if path.name != LOCK)
    if there:
        raise InputError(
            f"{folder} is not empty: it holds {CONFIG if CONFIG in there else there[0]}",
            value=folder,
            remedy=f"choose another {{{argument}}}, or have what has the names of its files "
            "replaced with {overwrite}",
            others=[argument, "overwrite"],
        )


def check_own(folder: Path, names: Iterable[str], argument: str = "out") -> None:
    """Check that config.json lists those of some files that are there."""
    known = read_config(folder).get(_FILES, ())
    for name in names:
        if name not in known and os.path.lexists(folder / name):
            raise InputError(
                f"{folder / name} is not of this result: {CONFIG} does not list it",
                value=folder / name,
                remedy=f"move it away, choose another {{{argument}}}, or have it replaced with "
                "{overwrite}",
                others=[argument, "overwrite"],
            )


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """Give a hidden folder in which files wait for their places in `folder`, which is locked."""
    stage = folder / f".files{files.UNFINISHED}"
    try:
        stage.mkdir(0o700)
    except OSError as error:
        raise refused(folder, error, "out") from None
    try:
        yield stage
    finally:
        remove_unfinished(folder)


def publish(
    stage: Path,
    folder: Path,
    config: Mapping[str, Any],
    *,
    stale: Iterable[str] = (),
    inputs: Iterable[Path] = (),
    overwrite: bool = False,
) -> dict[str, Any]:
    """Move staged files into their folder; write its config.json, and return that.

    Args:
      stage: what `staged(folder)` gave.
      folder: where they go; it is locked.
      config: what made them.
      stale: files that this result has not; those of an earlier result are removed.
      inputs: files that the command reads.
      overwrite: replace files of the same names, whosever they are.
    """
    names = _place(stage, folder, inputs, overwrite)
    known = read_config(folder)[_FILES]
    remove(folder, [name for name in stale if name in known])
    content = {**config, _FILES: [*names, CONFIG]}
    files.write_json(folder / CONFIG, content)
    return content


def rewrite(
    folder: Path,
    write: Callable[[Path], object],
    *,
    overwrite: bool = False,
    argument: str = "folder",
) -> None:
    """Write some files of a finished result again; config.json lists them.

    Args:
      folder: holds the result; it is locked meanwhile.
      write: writes the files into the folder that it is given.
      overwrite: replace files of the same names, whosever they are.
      argument: the name of the argument that gave `folder`, for the message.
    """
    with locked(folder, argument):
        rewrite_locked(folder, write, overwrite=overwrite)


def rewrite_locked(
    folder: Path, write: Callable[[Path], object], *, overwrite: bool = False
) -> None:
    """Do what `rewrite` does in a folder that is locked already, of an unfinished result too."""
    with staged(folder) as stage:
        write(stage)
        _place(stage, folder, (), overwrite)


def remove(folder: Path, names: Iterable[str]) -> None:
    """Remove files of some names."""
    for name in names:
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise refused(folder / name, error, "out") from None


def _place(stage: Path, folder: Path, inputs: Iterable[Path], overwrite: bool) -> list[str]:
    """Move staged files into places that are free or their own, and return their names."""
    names = sorted(path.name for path in stage.iterdir())
    check_places(folder, (*names, CONFIG), inputs=inputs)
    if not overwrite:
        check_own(folder, names)
    write_config(folder, read_config(folder), names)
    for name in names:
        try:
            os.replace(stage / name, folder / name)
        except OSError as error:
            raise refused(folder / name, error, "out") from None
    return names
