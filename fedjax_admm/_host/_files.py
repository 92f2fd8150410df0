"""Whole files: every file that is written here is whole or not there.

Every file is written under another name, synchronised to disk and renamed: a process that is killed
at any moment leaves whole files only. What is read may be anything: it ends in a sentence if it is
no such file, and reading it runs no code.

Arrays by name are an npz file as NumPy writes it, which `numpy.load` opens. One more member,
`about.json`, holds what else goes with the arrays. An array of bfloat16 and its kin is written as
unsigned integers of the same bits, and `about.json` tells its type.
"""

import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
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
        with suppress(OSError):  # the names in a folder, where the system can
            descriptor = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    except OSError as error:
        raise refused(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str, *, owner_only: bool = False) -> None:
    """Write a text atomically, in UTF-8; `owner_only` is that of `write_atomically`."""
    write_atomically(path, lambda file: file.write(text.encode()), owner_only=owner_only)


def write_json(path: Path, content: Any) -> None:
    """Write JSON atomically, indented, keys in the order given."""
    write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object; an `InputError` tells that it is missing or broken."""
    try:
        loaded = json.loads(path.read_bytes())
        if not isinstance(loaded, dict):
            raise ValueError("it is not an object")
        return loaded
    except (FileNotFoundError, NotADirectoryError):
        told, remedy = f"{path} does not exist", "give the folder of a run"
    except Exception as error:  # whatever the bytes are
        told, remedy = f"{path} cannot be read ({reason_of(error)})", "the run must be repeated"
    raise InputError(told, value=path, remedy=remedy)


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
    # Types that NumPy knows from another package only: bfloat16, float8, int4.
    foreign = {name: str(a.dtype) for name, a in stored.items() if a.dtype.isbuiltin == 2}
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


def read_archive(path: Path, *, about_only: bool = False) -> Archive:
    """Read an npz file written by `write_arrays`, and what went with its arrays.

    Args:
      path: where it is.
      about_only: leave the arrays where they are.

    Raises:
      InputError: the file is missing or damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            about, arrays = {}, {}
            names = archive.namelist()
            if _ABOUT in names:
                names.remove(_ABOUT)
                about = json.loads(archive.read(_ABOUT))
            foreign = about.pop("dtypes", {})
            for name in () if about_only else names:
                with archive.open(name) as member:
                    array = np.lib.format.read_array(member, allow_pickle=False)
                    member.read()  # its checksum is compared at its end
                arrays[name.removesuffix(_ARRAY)] = array
            for name, dtype in () if about_only else foreign.items():
                arrays[name] = arrays[name].view(dtype)
            return Archive(arrays, about)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist", value=path) from None
    except Exception as error:  # whatever the bytes are
        told, remedy = f"{path} is damaged ({reason_of(error)})", "take an older copy, or delete it"
        raise InputError(told, value=path, remedy=remedy) from None


def digest_of(content: Any, arrays: Mapping[str, np.ndarray] | None = None) -> str:
    """Return the SHA-256 of what JSON can hold, and of named arrays in their order.

    The order of names in a mapping of JSON does not count; types and shapes of arrays do.
    """
    arrays = arrays or {}
    kinds = [[name, str(array.dtype), list(array.shape)] for name, array in arrays.items()]
    digest = hashlib.sha256(json.dumps([content, kinds], sort_keys=True).encode())
    for array in arrays.values():
        digest.update(bytes_of(array))
    return digest.hexdigest()


def bytes_of(array: np.ndarray) -> memoryview:
    """Return the bytes of an array, in the order of its entries."""
    # Types that NumPy does not know by itself, such as bfloat16, have no buffer.
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def reason_of(error: Exception) -> str:
    """Say in one line why something cannot be read or written."""
    strerror = error.strerror if isinstance(error, OSError) else None
    return " ".join((strerror or str(error) or type(error).__name__).split())[:200]


def refused(path: Path, error: Exception, argument: str | None = None) -> InputError:
    """Return the mistake that the file system refuses a path, which an argument gave."""
    shown = str(path) if len(str(path)) <= 200 else f"{str(path)[:197]}..."
    place = "place" if argument is None else f"{{{argument}}}"
    return InputError(
        f"cannot write {shown}: {reason_of(error)}",
        value=path,
        remedy=f"choose another {place} or make room",
        others=[] if argument is None else [argument],
    )
