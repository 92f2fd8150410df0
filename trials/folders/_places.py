"""Places of folders and files, and what may lie there already."""

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from fedjax_admm._checks import InputError


def make_folder(folder: Path, argument: str = "out", *, owner_only: bool = False) -> list[Path]:
    """Make a folder and its parents, and return those that were made, the outermost first.

    Args:
      folder: the folder; a link to a folder serves too.
      argument: the name of the argument that gave it, for the message.
      owner_only: allow nobody but this user to look into a new one.
    """
    made: list[Path] = []
    try:
        for path in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
            try:
                path.mkdir(0o700 if owner_only and path == folder else 0o777)
                made.append(path)
            except FileExistsError:
                if not path.is_dir():  # else another process was faster
                    raise
        if not folder.is_dir():
            raise InputError(
                f"{folder} is a file, not a folder",
                argument=argument,
                value=folder,
                remedy=f"choose another {{{argument}}}",
                others=[argument],
            )
    except OSError as error:
        remove_empty(made)
        raise refused(folder, error, argument) from None
    return made


def remove_empty(made: list[Path]) -> None:
    """Remove the folders that `make_folder` or `new_folder` made if nothing has come into them."""
    for path in reversed(made):
        with contextlib.suppress(OSError):
            path.rmdir()


def new_folder(base: Path, name: str) -> list[Path]:
    """Make `BASE/NAME`, or `BASE/NAME-2`, ... if that is taken: of two processes each gets one.

    Returns:
      The folders that were made, the outermost first; the new folder is the last one.
    """
    made, number = make_folder(base), 1
    while True:
        folder = base / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
            return [*made, folder]
        except FileExistsError:
            number += 1
        except OSError as error:
            remove_empty(made)
            raise refused(folder, error, "out") from None


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
    written = [folder / name for name in names]
    for path in written:
        read = (each for each in inputs if os.path.exists(each) and os.path.exists(path))
        if any(os.path.samefile(path, each) for each in read):
            raise InputError(
                f"{path} would be written over, but it is read by the same command",
                value=path,
                remedy=f"choose another {{{argument}}}",
                others=[argument],
            )


def check_new(path: Path, *, overwrite: bool, argument: str = "out") -> None:
    """Check that the place of a file is free, or that the file there may be replaced."""
    if os.path.lexists(path) and not overwrite:
        remedy = f"choose another {{{argument}}}, or have it replaced with {{overwrite}}"
        told = f"{path} is there already"
        raise InputError(told, value=path, remedy=remedy, others=[argument, "overwrite"])


def write_new(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write new files, all of them or none, and make their folder if there is none.

    Args:
      folder: where they go.
      texts: their contents by name.
    """
    made, written = make_folder(folder), []
    path = folder
    try:
        for path in [folder / name for name in texts]:
            with open(path, "x", encoding="utf-8") as file:
                written.append(path)
                file.write(texts[path.name])
    except OSError as error:
        for each in written:
            each.unlink(missing_ok=True)
        remove_empty(made)
        if not isinstance(error, FileExistsError):
            raise refused(path, error, "out") from None
        raise InputError(
            f"{path} is there already",
            value=path,
            remedy="choose another NAME or {out}",
            others=["out"],
        ) from None
    return written


def refused(path: Path, error: Exception, argument: str) -> InputError:
    """Return the mistake that the file system refuses a path."""
    reason = getattr(error, "strerror", None) or str(error)
    shown = str(path) if len(str(path)) <= 200 else f"{str(path)[:197]}..."
    return InputError(
        f"cannot write {shown}: {reason}",
        value=path,
        remedy=f"choose another {{{argument}}} or make room",
        others=[argument],
    )
