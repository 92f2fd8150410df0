"""Whole files: every file that is written here is whole or not there.

Every file is written under another name, synchronised to disk and renamed: a run that is killed
at any moment leaves whole files only. What is read may be anything: it ends in a sentence, and
takes no more memory than there is.

Arrays by name are an npz file as NumPy writes it, which `numpy.load` opens. Names are data there:
an array may be called `file` or `a.npy`. What NumPy does not know by itself, and what else goes
with the arrays, stands in one more member, `about.json`, which no name can collide with, because
those of arrays end in `.npy` there. An array of bfloat16 and its kin is written as unsigned
integers of the same bits, and `about.json` tells its type.
"""

import contextlib
import io
import json
import math
import os
import stat
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm._host import host_bytes, shown
from fedjax_admm._shown import short_repr

_UNFINISHED = ".tmp"  # how a file's name ends while it is written
_ARRAY, _ABOUT = ".npy", "about.json"  # how a member with an array ends; what tells about arrays
_LONGEST_NAME = 60_000  # bytes of an array's name: an archive has room for 65,535
_LARGEST_JSON = 2**26  # bytes
_MOST_DEFLATED = 1100  # times smaller than its content: deflate's own limit is 1032


def write_atomically(
    path: Path, write: Callable[[BinaryIO], object], *, owner_only: bool = False
) -> None:
    """Write a file so that it is either whole or not there, even after a loss of power.

    Args:
      path: where it shall be.
      write: gets the open binary file.
      owner_only: whether nobody but this user may read it, from the first byte on.

    Raises:
      InputError: the file system refuses (read-only, full, not a folder).
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_UNFINISHED}")
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


def write_text(path: Path, text: str, *, owner_only: bool = False) -> None:
    """Write a text atomically, in UTF-8; `owner_only` is that of `write_atomically`."""
    write_atomically(path, lambda file: file.write(text.encode()), owner_only=owner_only)


def write_json(path: Path, content: Any) -> None:
    """Write JSON atomically, indented, keys in the order given."""
    write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object, of finite numbers and no name twice.

    Raises:
      InputError: the file is missing or malformed.
    """
    try:
        with _opened(path) as file:
            return _json_object(file.read(_LARGEST_JSON + 1))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"{path} does not exist", value=path, remedy="give the folder of a run"
        ) from None
    except Exception as error:  # whatever the bytes are
        raise InputError(
            f"{path} cannot be read ({_reason(error)})",
            value=path,
            remedy="the run must be repeated",
        ) from None


def _json_object(content: bytes) -> dict[str, Any]:
    if len(content) > _LARGEST_JSON:
        raise ValueError(f"it is larger than {shown(_LARGEST_JSON)}")
    found = json.loads(
        content.decode(),
        object_pairs_hook=_without_repetition,
        parse_constant=_finite,
        parse_float=_finite,
    )
    if not isinstance(found, dict):
        raise ValueError("it is not an object")
    json.dumps(found, ensure_ascii=False).encode()  # half a character could never be shown
    return found


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands there twice")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no finite number")
    return number


def _opened(path: Path) -> BinaryIO:
    """Open a file to be read; a pipe or a device could go on for ever."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError("it is no plain file")
    return open(path, "rb")


def _reason(error: Exception) -> str:
    """Say in one line why something cannot be read."""
    if isinstance(error, RecursionError):
        return "it is too deeply nested"
    if isinstance(error, UnicodeError):
        return "it is no text in UTF-8"
    told = error.strerror if isinstance(error, OSError) else None
    return " ".join((told or str(error) or type(error).__name__).split())[:200]


@short_repr
class Archive(NamedTuple):
    """What an npz file holds."""

    arrays: dict[str, np.ndarray]
    about: dict[str, Any]  # what else was told when it was written


def write_arrays(
    path: Path, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any] | None = None
) -> None:
    """Write named arrays as an uncompressed npz file, atomically and without pickle.

    The file is what `np.savez` writes; that takes names for keywords, so that an array could not be
    called `file`, and before NumPy 2.2 `allow_pickle=False` was written as one more array.

    Args:
      path: where it shall be.
      arrays: by name.
      about: what goes with them, as JSON holds it; `read_archive` returns it.

    Raises:
      InputError: a name does not fit into an archive, an array holds Python objects, or the file
        system refuses.
    """
    stored = {name: np.asanyarray(array) for name, array in arrays.items()}
    for name, array in stored.items():
        _check_storable(name, array)
    unknown = {name: str(array.dtype) for name, array in stored.items() if _foreign(array.dtype)}
    told = dict(about or {}) | ({"dtypes": unknown} if unknown else {})

    def write(file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w") as archive:
            if told:
                with archive.open(_ABOUT, "w") as member:
                    member.write(json.dumps(told, allow_nan=False).encode())
            for name, array in stored.items():
                if name in unknown:
                    array = array.view(f"u{array.dtype.itemsize}")
                with archive.open(f"{name}{_ARRAY}", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)

    write_atomically(path, write)


def _foreign(dtype: np.dtype) -> bool:
    """Whether NumPy knows a type from another package only: bfloat16, float8, int4."""
    return dtype.isbuiltin == 2


def _check_storable(name: str, array: np.ndarray) -> None:
    if array.dtype.hasobject:
        raise InputError(
            f"the array {name[:80]!r} holds Python objects, which would have to be pickled",
            value=name,
            remedy="make it an array of numbers",
        )
    try:
        long = len(name.encode()) > _LONGEST_NAME
    except UnicodeEncodeError:
        problem = "holds half a character"
    else:
        other = next((sign for sign in ("\0", os.sep) if sign in name and sign != "/"), None)
        problem = "is too long" if long else f"holds {other!r}" if other else None
    if problem is not None:
        raise InputError(
            f"an array cannot be stored under the name {name[:80]!a}, which {problem}",
            value=name,
            remedy="give it another name",
        )


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read an npz file written by `write_arrays`.

    Raises:
      InputError: the file is missing or damaged.
    """
    return read_archive(path).arrays


def read_archive(path: Path, *, about_only: bool = False) -> Archive:
    """Read an npz file written by `write_arrays`, and what was told about its arrays.

    Args:
      path: where it is.
      about_only: leave the arrays where they are.

    Raises:
      InputError: the file is missing or damaged, or its arrays need more memory than there is.
    """
    try:
        with _opened(path) as file, zipfile.ZipFile(file) as archive:
            members = _checked_members(archive, os.fstat(file.fileno()).st_size)
            about: dict[str, Any] = {}
            if _ABOUT in members:
                with archive.open(members.pop(_ABOUT)) as member:
                    about = _json_object(member.read(_LARGEST_JSON + 1))
            arrays: dict[str, np.ndarray] = {}
            if not about_only:
                arrays = {
                    name.removesuffix(_ARRAY): _array(archive, member)
                    for name, member in members.items()
                }
            foreign = about.pop("dtypes", {})
            for name in foreign if arrays else ():
                arrays[name] = _as_foreign(arrays[name], foreign[name])
            return Archive(arrays, about)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; the run has not finished", value=path) from None
    except Exception as error:  # whatever the bytes are
        raise InputError(
            f"{path} is damaged ({_reason(error)})",
            value=path,
            remedy="delete it to have its trials computed again",
        ) from None


def _checked_members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Return the members of an archive after checking what they say of their sizes.

    Args:
      archive: opened.
      size: bytes of its file.
    """
    members = {member.filename: member for member in archive.infolist()}
    if len(members) < len(archive.infolist()):
        raise ValueError("an array stands there twice")
    if any(member.comment for member in members.values()):
        raise ValueError("a comment hides some of its arrays")  # none is ever written
    if any(not name.endswith(_ARRAY) for name in members if name != _ABOUT):
        raise ValueError("it holds something that is no array")
    for member in members.values():
        most = 1 if member.compress_type == zipfile.ZIP_STORED else _MOST_DEFLATED
        if member.file_size > most * max(1, member.compress_size):
            raise ValueError("an array is larger than its file can hold")
    if sum(member.compress_size for member in members.values()) > size:
        raise ValueError("its arrays are larger than the file")
    needed, free = sum(member.file_size for member in members.values()), host_bytes()
    if free is not None and needed > free:
        raise ValueError(f"its arrays need {shown(needed)}, but {shown(free)} are free")
    return members


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    """Read one array; its size is what its header says, or nothing is read."""
    with archive.open(entry) as member:
        version = np.lib.format.read_magic(member)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, by_columns, dtype = read(member)
        if dtype.hasobject:
            raise ValueError("an array holds pickled objects, which are never read")
        size = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or size != entry.file_size - member.tell():
            raise ValueError("an array has another size than it says")
        content = bytearray(size)
        if cast(io.BufferedIOBase, member).readinto(content) != size or member.read(1):
            raise ValueError("an array ends too early")
    return np.ndarray(shape, dtype, content, order="F" if by_columns else "C")


def _as_foreign(array: np.ndarray, name: str) -> np.ndarray:
    dtype = np.dtype(name)
    if not _foreign(dtype) or array.dtype != np.dtype(f"u{dtype.itemsize}"):
        raise ValueError(f"an array is no {name}")
    return array.view(dtype)
