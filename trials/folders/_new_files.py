"""New files beside others: all of them, or none where one of the names is taken."""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from fedjax_admm._checks import InputError
from fedjax_admm.trials.folders._ownership import check_places
from fedjax_admm.trials.folders._places import checked_folder, made_folder, refused, remove_empty


def write_new(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write new files, and make their folder if there is none.

    Args:
      folder: where they go.
      texts: what each of them holds, by name.

    Returns:
      Where they are.

    Raises:
      InputError: a name is taken, if only by a link to nothing, or the file system refuses.
    """
    checked_folder(folder)
    paths = [folder / name for name in texts]
    for path in paths:
        if os.path.lexists(path):
            raise _taken(path)
    made, written = made_folder(folder), []
    path = folder
    try:
        for path, text in zip(paths, texts.values(), strict=True):
            # "x": another process that was faster is not written over.
            with open(path, "x", encoding="utf-8") as file:
                written.append(path)
                file.write(text)
    except BaseException as error:
        for path in written:
            with contextlib.suppress(OSError):
                path.unlink()
        remove_empty(made)
        if isinstance(error, FileExistsError):
            raise _taken(path) from None
        if isinstance(error, OSError):
            raise refused(path, error, "out") from None
        raise
    return paths


def check_new(path: Path, *, overwrite: bool, argument: str = "out") -> None:
    """Check that a file can be written: its place is free, or it is a file that may be replaced.

    Args:
      path: of the file.
      overwrite: whether a file that is there may be replaced.
      argument: what the path was called, for the message.

    Raises:
      InputError: something is there, or the file system refuses.
    """
    check_places(path.parent, [path.name], argument=argument)
    checked_folder(path.parent, argument)
    if os.path.lexists(path) and not overwrite:
        raise InputError(
            f"{path} is there already",
            value=path,
            remedy=f"choose another {{{argument}}}, or have it replaced with {{overwrite}}",
            others=[argument, "overwrite"],
        )


def _taken(path: Path) -> InputError:
    return InputError(
        f"{path} is there already",
        value=path,
        remedy="choose another NAME or {out}",
        others=["out"],
    )
