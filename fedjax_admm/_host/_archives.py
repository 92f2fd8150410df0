"""Whole files: every file that is written here is whole or not there.

Every file is written under another name, synchronised to disk and renamed: a run that is killed
at any moment leaves whole files only. Whatever is read ends in a sentence if it is no such file.

Arrays by name are an npz file as NumPy writes it, which `numpy.load` opens. One more member,
`about.json`, holds what else goes with the arrays. An array of bfloat16 and its kin is written as
unsigned integers of the same bits, and `about.json` tells its type.
"""

import contextlib
import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from fedjax_admm._checks import InputError

UNFINISHED = ".fedjax-admm.tmp"
"""How the name of a file ends while it is written; it begins with a dot then."""

_ARRAY, _ABOUT = ".npy", "about.json"  # how a member with an array ends; what tells about arrays


def write_atomically(
    path: Path, write: Callable[[BinaryIO], object], *, owner_only: bool = False
) -> None:
    """Write a file so that it is either whole or not there, even after a loss of power.

    Args:
      path: where it shall be; its folder is made if there is none.
      write: writes into the open binary file.
      owner_only: let its owner alone read the file, from the first byte on.

    Raises:
      InputError: the file system refuses (read-only, full, not a folder).
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.unlink(missing_ok=True)  # an old one would keep its own mode
        mode = 0o600 if owner_only else 0o666
        with open(temporary, "xb", opener=partial(os.open, mode=mode)) as file:
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


def _synchronize(folder: Path) -> None:
    """Have the names in a folder written to disk, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def reason_of(error: Exception) -> str:
    """Say in one line why something cannot be read."""
    strerror = error.strerror if isinstance(error, OSError) else None
    return " ".join((strerror or str(error) or type(error).__name__).split())[:200]


class Archive(NamedTuple):
    """Contents of an npz file."""

    arrays: dict[str, np.ndarray]
    about: dict[str, Any]  # what went with the arrays when they were written


def write_arrays(
    path: Path, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any] | None = None
) -> None:
    """Write named arrays as an uncompressed npz file, atomically and without pickle.

    The file is what `np.savez` writes; that takes names for keywords, so that an array could not be
    called `file`.

    Args:
      path: where it shall be.
      arrays: by name.
      about: what goes with them, as JSON holds it; `read_archive` returns it.

    Raises:
      ValueError: an array holds Python objects.
      InputError: the file system refuses.
    """
    stored = {name: np.asanyarray(array) for name, array in arrays.items()}
    foreign = {name: str(array.dtype) for name, array in stored.items() if _foreign(array.dtype)}
    about = dict(about or {}) | ({"dtypes": foreign} if foreign else {})

    def write(file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w") as archive:
            if about:
                with archive.open(_ABOUT, "w") as member:
                    member.write(json.dumps(about, allow_nan=False).encode())
            for name, array in stored.items():
                if name in foreign:
                    array = array.view(f"u{array.dtype.itemsize}")
                with archive.open(f"{name}{_ARRAY}", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)

    write_atomically(path, write)


def _foreign(dtype: np.dtype) -> bool:
    """Return whether NumPy knows a type from another package only: bfloat16, float8, int4."""
    return dtype.isbuiltin == 2


def read_archive(
    path: Path, *, about_only: bool = False, missing: str = "", remedy: str | None = None
) -> Archive:
    """Read an npz file written by `write_arrays`, and what went with its arrays.

    Args:
      path: where it is.
      about_only: leave the arrays where they are.
      missing: what follows in the sentence about a file that does not exist.
      remedy: for a file that is damaged.

    Raises:
      InputError: the file is missing or damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            about: dict[str, Any] = {}
            names = archive.namelist()
            if _ABOUT in names:
                names.remove(_ABOUT)
                with archive.open(_ABOUT) as member:
                    about = json.load(member)
            foreign = about.pop("dtypes", {})
            if about_only:
                return Archive({}, about)
            arrays = {}
            for name in names:
                with archive.open(name) as member:
                    array = np.lib.format.read_array(member, allow_pickle=False)
                    member.read()  # its checksum is compared at its end
                arrays[name.removesuffix(_ARRAY)] = array
            for name, dtype in foreign.items():
                arrays[name] = arrays[name].view(dtype)
            return Archive(arrays, about)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist{missing}", value=path) from None
    except Exception as error:  # whatever the bytes are
        raise InputError(
            f"{path} is damaged ({reason_of(error)})",
            value=path,
            remedy=remedy,
        ) from None


def digest_of_json(content: Any) -> str:
    """Return the SHA-256 of what JSON can hold; the order of names in a mapping does not count."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def digest_of_arrays(arrays: Mapping[str, np.ndarray], **about: Any) -> str:
    """Return the SHA-256 of arrays, their names, types, shapes and order, and what goes with them.

    Args:
      arrays: as NumPy holds them.
      **about: what JSON can hold.
    """
    kinds = [[name, str(array.dtype), list(array.shape)] for name, array in arrays.items()]
    digest = hashlib.sha256(digest_of_json([about, kinds]).encode())
    for array in arrays.values():
        digest.update(bytes_of(array))
    return digest.hexdigest()


def bytes_of(array: np.ndarray) -> memoryview:
    """Return the bytes of an array, in the order of its entries."""
    # Types that NumPy does not know by itself, such as bfloat16, have no buffer.
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
