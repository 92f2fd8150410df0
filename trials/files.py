"""Whole files: every file that is written here is whole or not there.

Every file is written under another name, synchronised to disk and renamed: a run that is killed
at any moment leaves whole files only.
"""

import contextlib
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from fedjax_admm._checks import InputError

_UNFINISHED = ".tmp"  # how a file's name ends while it is written


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file so that it is either whole or not there, even after a loss of power.

    Args:
      path: where it shall be.
      write: gets the open binary file.

    Raises:
      InputError: the file system refuses (read-only, full, not a folder).
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_UNFINISHED}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _synchronize(path.parent)
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror or error}",
            value=path,
            remedy="choose another place or make room",
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def remove_unfinished(folder: Path) -> None:
    """Remove what a killed process had begun to write."""
    for path in folder.glob(f".*{_UNFINISHED}"):
        with contextlib.suppress(OSError):
            path.unlink()


def _synchronize(folder: Path) -> None:
    """Have the names in a folder written to disk, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Write a text atomically, in UTF-8."""
    write_atomically(path, lambda file: file.write(text.encode()))


def write_json(path: Path, content: Any) -> None:
    """Write JSON atomically, indented, keys in the order given."""
    write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object.

    Raises:
      InputError: the file is missing or malformed.
    """
    try:
        content = json.loads(path.read_text())
        if not isinstance(content, dict):
            raise ValueError("it is not an object")
        return content
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"{path} does not exist", value=path, remedy="give the folder of a run"
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read ({error})", value=path, remedy="the run must be repeated"
        ) from None


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write named arrays as an uncompressed npz file, atomically and without pickle.

    The file is what `np.savez` writes; that takes names for keywords, so that an array could not be
    called `file`, and before NumPy 2.2 `allow_pickle=False` was written as one more array.
    """

    def write(file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)

    write_atomically(path, write)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read an npz file written by `write_arrays`.

    Raises:
      InputError: the file is missing or damaged.
    """
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            if any(member.comment for member in arrays.zip.infolist()):
                raise ValueError("a comment hides some of its arrays")  # `savez` writes none
            return dict(arrays)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; the run has not finished", value=path) from None
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, KeyError, RuntimeError) as error:
        raise InputError(
            f"{path} is damaged ({error})",
            value=path,
            remedy="delete it to have its trials computed again",
        ) from None
