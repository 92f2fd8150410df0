"""Which files of a folder are ours: those whose digests its config.json records.

`config.json` says under `files` what was written, name by name with its SHA-256, and under `coming`
what was about to be written by a process that was killed meanwhile. Its own digest is that of its
other contents. What has no such record, or another digest by now, is somebody else's.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedjax_admm._checks import InputError
from fedjax_admm.trials.folders._leftovers import is_leftover
from fedjax_admm.trials.folders._lock import LOCK

CONFIG = "config.json"
"""What the file is called that says what made a folder."""

FILES, COMING = "files", "coming"  # keys of it: digests by name
_LARGEST = 64 * 2**20  # bytes of a config.json that is read at all


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_places(
    folder: Path,
    names: Iterable[str],
    *,
    subfolders: Iterable[str] = (),
    inputs: Iterable[Path] = (),
    argument: str = "out",
) -> None:
    """Check what not even `--overwrite` may write to: links, folders, and the command's own input.

    Args:
      folder: where to write.
      names: of the files that may be written there.
      subfolders: names of folders in which files may be written.
      inputs: files that the command reads.
      argument: what `folder` was called, for the message.

    Raises:
      InputError: one of the names is taken by such a thing.
    """
    read = [found for path in inputs if (found := _status(path, follow=True)) is not None]
    for name in (*names, *subfolders):
        path, found = folder / name, _status(folder / name)
        if found is None:
            continue
        told = None
        if stat.S_ISLNK(found.st_mode):
            told = f"{path} is a link, and nothing is written through links"
        elif name in subfolders:
            told = None if stat.S_ISDIR(found.st_mode) else f"{path} is in the place of a folder"
        elif not stat.S_ISREG(found.st_mode):
            told = f"{path} is in the place of a file and is none"
        elif any(os.path.samestat(found, each) for each in read):
            told = f"{path} would be written over, but it is read by the same command"
        if told is not None:
            raise _mistake(told, path, f"choose another {{{argument}}}", argument)


def check_free(
    folder: Path,
    names: Iterable[str],
    kind: Mapping[str, Any] | None,
    *,
    subfolders: Iterable[str] = (),
    argument: str = "out",
) -> None:
    """Check that a folder is new, empty, or holds an unchanged earlier result of a kind.

    Args:
      folder: where to write; it is locked.
      names: of the files that may be written there.
      kind: what the config.json of such a result holds; None if nothing may be written over.
      subfolders: names of folders in which files may be written. Where they hold nothing they do
        not count: a process that is killed before its first file leaves them so.
      argument: what `folder` was called, for the message.

    Raises:
      InputError: something else is there.
    """
    empty = {name for name in subfolders if not _entries(folder / name)}
    there = sorted(set(_entries(folder)) - empty)
    if not there:
        return
    names = list(names)
    config = read_config(folder)
    if kind is None or config is None or not _is_ours(config, kind):
        foreign = next((name for name in (CONFIG, *names) if name in there), there[0])
        raise _mistake(
            f"{folder} is not empty and no earlier result of this command: it holds {foreign}",
            folder,
            f"choose another {{{argument}}}, or have what has the names of its files replaced with "
            "{overwrite}",
            *(argument, "overwrite"),
        )
    check_own(folder, (CONFIG, *names, *config[FILES]), argument=argument)


def check_own(folder: Path, names: Iterable[str], *, argument: str = "out") -> None:
    """Check that the files of some names that are in a folder are as its config.json records them.

    Raises:
      InputError: one of them was changed since, or was not written by us.
    """
    config = read_config(folder) or {}
    for name in dict.fromkeys(names):
        path = folder / name
        if name != Path(name).name or _status(path) is None or is_recorded(config, path):
            continue
        told = f"{path} is not what was written there: it has been changed or put there since"
        remedy = f"move it away, choose another {{{argument}}}, or have it replaced with "
        raise _mistake(told, path, f"{remedy}{{overwrite}}", argument, "overwrite")


def is_recorded(config: Mapping[str, Any], path: Path) -> bool:
    """Return whether a file is one that its folder's config.json records, unchanged."""
    known = [config.get(key) for key in (FILES, COMING)]
    digests = [each.get(path.name) for each in known if isinstance(each, dict)]
    found = _status(path)
    if not any(digests) or found is None or not stat.S_ISREG(found.st_mode):
        return False
    return (own_digest(config) if path.name == CONFIG else digest(path)) in digests


def own_digest(config: Mapping[str, Any]) -> str:
    """Return the digest of a config.json but for what it says of files."""
    rest = {name: value for name, value in config.items() if name not in (FILES, COMING)}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def read_config(folder: Path) -> dict[str, Any] | None:
    """Return the config.json of a folder; None where there is none that can be read."""
    path = folder / CONFIG
    found = _status(path)
    if found is None or not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
        return None
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def clear(folder: Path, names: Iterable[str]) -> None:
    """Remove the files of some names, which may be written over.

    Raises:
      InputError: the file system refuses.
    """
    for name in names:
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError as error:
            told = f"cannot remove {folder / name}: {error.strerror}"
            raise _mistake(told, folder / name, "choose another {out}", "out") from None


def _is_ours(config: Mapping[str, Any], kind: Mapping[str, Any]) -> bool:
    same = all(config.get(name) == value for name, value in kind.items())
    return same and isinstance(config.get(FILES), dict)


def _entries(folder: Path) -> list[str]:
    """Return what is in a folder, but for locks and what killed processes left."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _mistake(
            f"cannot read {folder}: {error.strerror}", folder, "choose another {out}", "out"
        ) from None
    return [
        name
        for name in names
        if name != LOCK and not name.startswith(f"{LOCK}.") and not is_leftover(folder / name)
    ]


def _status(path: Path, follow: bool = False) -> os.stat_result | None:
    try:
        return os.stat(path, follow_symlinks=follow)
    except (OSError, ValueError):
        return None


def _mistake(told: str, value: Path, remedy: str, *others: str) -> InputError:
    return InputError(told, value=value, remedy=remedy, others=others)
