"""Files of a run: finished chunks while it lasts, the result contract when it is done.

Every file is written under another name, synchronised to disk and renamed: a run that is killed
at any moment leaves whole files only.
"""

import contextlib
import json
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from fedjax_admm.checks import InputError

CONFIG, ARRAYS, SUMMARY, CHUNKS = "config.json", "trials.npz", "summary.csv", "chunks"
_LAYOUT = "layout.json"  # in the folder of chunks: what tells their run from others
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
            f"cannot write {path}: {error.strerror or error}; choose another place or make room."
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


def write_json(path: Path, content: Any) -> None:
    """Write JSON atomically, indented, keys in the order given."""
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object.

    Raises:
      InputError: it is missing or malformed.
    """
    try:
        content = json.loads(path.read_text())
        if not isinstance(content, dict):
            raise ValueError("it is not an object")
        return content
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path} does not exist; give the folder of a run.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}); the run must be repeated.") from None


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write named arrays as an uncompressed npz file, atomically and without pickle."""
    write_atomically(path, lambda file: np.savez(file, allow_pickle=False, **arrays))


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read an npz file written by `write_arrays`.

    Raises:
      InputError: it is missing or damaged.
    """
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            if any(member.comment for member in arrays.zip.infolist()):
                raise ValueError("a comment hides some of its arrays")  # `savez` writes none
            return dict(arrays)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; the run has not finished.") from None
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, KeyError, RuntimeError) as error:
        raise InputError(
            f"{path} is damaged ({error}); delete it to have its trials computed again."
        ) from None


class ChunkStore:
    """Finished chunks of trials in a folder, one file each."""

    def __init__(self, folder: Path | str):
        """Keep chunks in `folder`; nothing is written yet."""
        self.folder = Path(folder)

    def begun(self) -> bool:
        """Return whether a run has begun to keep chunks here."""
        return (self.folder / _LAYOUT).exists()

    def open(
        self, identity: Mapping[str, Any], lengths: Sequence[int]
    ) -> dict[int, dict[str, np.ndarray]]:
        """Return the finished chunks by number, or begin a new store.

        Args:
          identity: what tells this run from others; it is kept in `layout.json`.
          lengths: how many trials each chunk has.

        Raises:
          InputError: the store belongs to another run, or a file is damaged.
        """
        wanted = dict(identity)
        layout = self.folder / _LAYOUT
        remove_unfinished(self.folder)
        if not self.begun():
            write_json(layout, wanted)
            return {}
        found = read_json(layout)
        if found != wanted:
            raise InputError(
                f"{self.folder} holds chunks of another run ({_numbers(found)}, not "
                f"{_numbers(wanted)}); resume with those numbers or choose another folder."
            )
        paths = {number: self._path(number) for number in range(len(lengths))}
        chunks = {number: read_arrays(path) for number, path in paths.items() if path.exists()}
        kinds = {number: _kind(arrays) for number, arrays in chunks.items()}
        usual = next(iter(kinds.values()), None)
        for number, arrays in chunks.items():
            if kinds[number] != usual or any(
                array.shape[:1] != (lengths[number],) for array in arrays.values()
            ):
                raise InputError(
                    f"{paths[number]} does not hold {lengths[number]} trials of this run; delete "
                    "it to have its trials computed again."
                )
        return chunks

    def save(self, number: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Write one finished chunk."""
        write_arrays(self._path(number), arrays)

    def clear(self) -> None:
        """Remove all chunks: their content has been written elsewhere."""
        if not self.folder.is_dir():
            return
        remove_unfinished(self.folder)
        for path in self.folder.glob("*.npz"):
            if path.stem.isdecimal():
                path.unlink()
        (self.folder / _LAYOUT).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # somebody keeps files of their own there
            self.folder.rmdir()

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}.npz"


def _kind(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return what is alike in all chunks: names, types, shapes but for the number of trials."""
    return {name: (array.dtype, array.shape[1:]) for name, array in arrays.items()}


def _numbers(layout: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in layout.items())
