"""Where a folder of results may be."""

import contextlib
import errno
import os
import stat
from pathlib import Path

from fedjax_admm._checks import InputError


def checked_folder(folder: Path, argument: str = "out") -> Path:
    """Return a folder after checking that there can be one in its place; nothing is written.

    Args:
      folder: what is asked for; a link to a folder will do.
      argument: what it was called, for the message.

    Raises:
      InputError: something else is there, or the file system refuses.
    """
    place = folder
    while True:
        try:
            mode = os.stat(place).st_mode
            break
        except FileNotFoundError:
            if place.is_symlink():
                what = "is a link to nothing"
                if place != folder:
                    what = f"cannot be made, because {place} {what}"
                raise _unusable(folder, what, argument) from None
            place = place.parent
        except NotADirectoryError:
            place = place.parent
        except (OSError, ValueError) as error:
            raise refused(folder, error, argument) from None
    if not stat.S_ISDIR(mode):
        what = "is a file, not a folder" if stat.S_ISREG(mode) else "is not a folder"
        if place != folder:
            what = f"cannot be made, because {place} {what}"
        raise _unusable(folder, what, argument)
    if not os.access(place, os.W_OK | os.X_OK):
        raise refused(folder, PermissionError(errno.EACCES, "Permission denied"), argument)
    return folder


def made_folder(folder: Path, argument: str = "out", *, owner_only: bool = False) -> list[Path]:
    """Make a folder and what it lies in.

    Args:
      folder: what is asked for.
      argument: what it was called, for the message.
      owner_only: whether nobody but this user may look into a new one.

    Returns:
      The folders that were made, the outermost first.

    Raises:
      InputError: the file system refuses.
    """
    checked_folder(folder, argument)
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    made: list[Path] = []
    for path in reversed(missing):
        try:
            path.mkdir(0o700 if owner_only and path == folder else 0o777)
            made.append(path)
        except FileExistsError:  # another process was faster
            pass
        except OSError as error:
            remove_empty(made)
            raise refused(folder, error, argument) from None
    return made


def remove_empty(made: list[Path]) -> None:
    """Remove the folders that `made_folder` or `new_folder` made, if nothing has come into them."""
    for path in reversed(made):
        with contextlib.suppress(OSError):
            path.rmdir()


def new_folder(base: Path, name: str) -> list[Path]:
    """Make `BASE/NAME`, or `BASE/NAME-2`, ... if that is taken: of two processes each gets one.

    Returns:
      The folders that were made, the outermost first: what is asked for is the last one.

    Raises:
      InputError: the file system refuses.
    """
    made, number = made_folder(base), 1
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


def _unusable(path: Path, what: str, argument: str) -> InputError:
    return InputError(
        f"{path} {what}",
        argument=argument,
        value=path,
        remedy=f"choose another {{{argument}}}",
        others=[argument],
    )
