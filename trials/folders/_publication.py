"""Files of a result take their places together, and config.json records them.

They are written into a hidden folder first. Then config.json says what is coming, the files are
renamed, and config.json says what is there: a process that is killed at any moment leaves files
that are known to be ours.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedjax_admm.trials import files
from fedjax_admm.trials.folders._leftovers import STAGE, remove_stage
from fedjax_admm.trials.folders._lock import locked
from fedjax_admm.trials.folders._ownership import (
    COMING,
    CONFIG,
    FILES,
    check_own,
    check_places,
    clear,
    digest,
    is_recorded,
    own_digest,
    read_config,
)
from fedjax_admm.trials.folders._places import refused


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """Give a hidden folder in which files wait for their places in `folder`, which is locked.

    Raises:
      InputError: the file system refuses.
    """
    stage = folder / f".{STAGE}.{os.getpid()}.tmp"
    remove_stage(stage, ".*")  # of an earlier process of this number
    try:
        stage.mkdir(0o700)
    except OSError as error:
        raise refused(folder, error, "out") from None
    try:
        yield stage
    finally:
        remove_stage(stage, ".*")


def write_config(folder: Path, config: Mapping[str, Any], *, keep: bool = True) -> None:
    """Write the config.json of a result that is just begun.

    Args:
      folder: where it goes; it is locked.
      config: what makes the result.
      keep: keep what is known of files that are there, which will be replaced at the end.

    Raises:
      InputError: the file system refuses.
    """
    known = _settled(folder, read_config(folder) or {}) if keep else {}
    known = {name: text for name, text in known.items() if (folder / name).exists()}
    files.write_json(folder / CONFIG, {**config, FILES: {**known, CONFIG: own_digest(config)}})


def publish(
    stage: Path,
    folder: Path,
    config: Mapping[str, Any],
    kind: Mapping[str, Any],
    *,
    gone: Iterable[str] = (),
    inputs: Iterable[Path] = (),
    overwrite: bool = False,
) -> dict[str, Any]:
    """Move staged files into their folder, and write its config.json.

    Args:
      stage: what `staged(folder)` gave.
      folder: where they go; it is locked.
      config: what made them; it becomes the config.json.
      kind: what of it an earlier result must have in common to be replaced.
      gone: names of files that this result has not, unlike perhaps an earlier one: what that one
        wrote is removed.
      inputs: files that the command reads.
      overwrite: replace files of the same names, whosever they are.

    Returns:
      What was written into config.json.

    Raises:
      InputError: a file of somebody else is in the way, or the file system refuses.
    """
    coming = _checked(stage, folder, inputs, overwrite)
    found = read_config(folder) or {}
    earlier = found if kind.items() <= found.items() else dict(kind)
    unwanted = [name for name in gone if is_recorded(earlier, folder / name)]
    before = _settled(folder, earlier) | {CONFIG: own_digest(earlier)}
    _place(stage, folder, {**earlier, FILES: before, COMING: coming}, coming)
    clear(folder, unwanted)
    last = {**config, FILES: {**coming, CONFIG: own_digest(config)}}
    last.pop(COMING, None)
    files.write_json(folder / CONFIG, last)
    return last


def rewrite(
    folder: Path,
    write: Callable[[Path], object],
    *,
    overwrite: bool = False,
    argument: str = "folder",
) -> None:
    """Write some files of a finished result again; its config.json learns their digests.

    Args:
      folder: holds the result; it is locked meanwhile.
      write: writes the files into the folder that it is given.
      overwrite: replace files of the same names, whosever they are.
      argument: what `folder` was called, for the message.

    Raises:
      InputError: a file of somebody else is in the way, another process writes there, or the file
        system refuses.
    """
    with locked(folder, argument), staged(folder) as stage:
        write(stage)
        coming = _checked(stage, folder, (), overwrite)
        found = read_config(folder) or {}
        known = _settled(folder, found)
        _place(stage, folder, {**found, FILES: known, COMING: coming}, coming)
        found.pop(COMING, None)
        files.write_json(folder / CONFIG, {**found, FILES: {**known, **coming}})


def _checked(stage: Path, folder: Path, inputs: Iterable[Path], overwrite: bool) -> dict[str, str]:
    """Return the digests of staged files after checking that their places are free or ours."""
    coming = {path.name: digest(path) for path in sorted(stage.iterdir())}
    check_places(folder, (*coming, CONFIG), inputs=inputs)
    if not overwrite:
        check_own(folder, coming)
    return coming


def _place(stage: Path, folder: Path, config: Mapping[str, Any], names: Iterable[str]) -> None:
    files.write_json(folder / CONFIG, config)
    for name in names:
        try:
            os.replace(stage / name, folder / name)
        except OSError as error:
            raise refused(folder / name, error, "out") from None


def _settled(folder: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """Return the digests that a config.json records, with those of files that have come since."""
    files_then, coming = (config.get(key) for key in (FILES, COMING))
    known = dict(files_then) if isinstance(files_then, dict) else {}
    if isinstance(coming, dict):
        only_coming = {COMING: coming}
        known |= {name: coming[name] for name in coming if is_recorded(only_coming, folder / name)}
    return known
