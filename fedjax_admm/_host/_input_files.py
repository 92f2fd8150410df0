"""Users' files: what is wrong with them becomes a sentence."""

import contextlib
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from fedjax_admm._checks import InputError, one_line
from fedjax_admm._host._memory import host_bytes, shown


@contextlib.contextmanager
def opened(path: str | Path) -> Iterator[io.BufferedReader]:
    """Open a file to read bytes; what is wrong with it becomes a sentence."""
    # A number would mean a file that is open by chance.
    text = str(path) if isinstance(path, str | os.PathLike) else ""
    if not text or "\0" in text:
        raise InputError(
            f"must be the path of a file, but it is {one_line(path)}", argument="path", value=path
        )
    try:
        if os.path.isdir(path):
            raise InputError(
                f"{path} is a folder, not a file", value=path, remedy="name a file in it"
            )
        with open(path, "rb") as file:
            yield file
    except FileNotFoundError:
        raise InputError(f"{path} does not exist", value=path, remedy="check its name") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0].rstrip(".")
        raise InputError(f"{path} cannot be read: {reason}", value=path) from None


@contextlib.contextmanager
def unpacked(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a file as `opened` does, and unpack what gzip has compressed."""
    with opened(path) as file:
        zipped = file.peek(2).startswith(b"\x1f\x8b")
        yield gzip.GzipFile(fileobj=file) if zipped else file  # pyright: ignore[reportReturnType]


def check_room(path: str | Path, size: float) -> None:
    """Refuse a file that is about to take more bytes of memory than are free."""
    free = host_bytes()
    if free is not None and size > free:
        raise InputError(
            f"{path} would take {shown(size)} of memory, but {shown(free)} are free",
            value=path,
            remedy="take a part of it, or a larger machine",
        )
