"""Users' files: opened only where they are files, and read only as far as memory goes.

A device, a pipe or a socket may give no end of bytes, or none at all until somebody writes; a run
that read one could not be repeated by its command either. So they are refused before anything is
read, whatever they are called (`/dev/stdin` is fine where it is a file).
"""

import contextlib
import csv
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from fedjax_admm._checks import InputError, listed, one_line
from fedjax_admm._host._memory import host_bytes, shown
from fedjax_admm._host._texts import unescape_cell

# In size: products of four such numbers are within float64.
SMALLEST_NUMBER, LARGEST_NUMBER = 1e-60, 1e60
LONGEST_LINE = 2**24  # bytes
LONGEST_NAME = 1000  # characters
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
# What a row and a cell of a table take in memory, about: a tuple, a list, texts.
_ROW_BYTES, _CELL_BYTES = 200, 70
LOOK_EVERY = 2**27  # bytes that rows take between two looks at the free memory

Rows = list[tuple[int, list[str]]]  # (line of the file, from 1; cells)


@contextlib.contextmanager
def opened(path: str | Path) -> Iterator[io.BufferedReader]:
    """Open a file to read bytes, and see at the end that nobody has changed it meanwhile.

    Raises:
      InputError: there is no such file, it is none, it cannot be read, or it was changed.
    """
    _check_is_path(path)
    try:
        check_is_file(path, os.stat(path))
        # A name may mean another thing now than it did a moment ago.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as file:
            before = os.fstat(descriptor)
            check_is_file(path, before)
            yield file
            after = os.fstat(descriptor)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist", value=path, remedy="check its name") from None
    except OSError as error:
        reason = error.strerror or str(error).rstrip(".")
        raise InputError(f"{path} cannot be read: {reason}", value=path) from None
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise InputError(
            f"{path} was changed while it was read",
            value=path,
            remedy="try again when nobody writes it",
        )


def _check_is_path(path: str | Path) -> None:
    """Check that a path is one: numbers would be taken for files that are open by chance."""
    text = str(path) if isinstance(path, str | os.PathLike) else ""
    if not text or "\0" in text:
        raise InputError(
            f"must be the path of a file, but it is {one_line(path)}", argument="path", value=path
        )


def check_is_file(path: str | Path, status: os.stat_result) -> None:
    """Check that what `os.stat` tells of is a regular file.

    Raises:
      InputError: it is something else.
    """
    for holds, kind in _KINDS:
        if holds(status.st_mode):
            remedy = "name a file in it" if kind == "a folder" else "write it to a file first"
            raise InputError(f"{path} is {kind}, not a file", value=path, remedy=remedy)


def check_room(path: str | Path, size: float) -> None:
    """Check that as many bytes of memory are free as a file is about to take.

    Raises:
      InputError: they are not.
    """
    free = host_bytes()
    if free is not None and size > free:
        raise InputError(
            f"{path} would take {shown(size)} of memory, but {shown(free)} are free",
            value=path,
            remedy="take a part of it, or a larger machine",
        )


def read_rows(path: str | Path) -> Rows:
    """Read the rows of a CSV file in UTF-8 that are not blank, cells as `unescape_cell` has them.

    Raises:
      InputError: it is no file, cannot be read, is not UTF-8 text, is larger than the memory, or
        its quotes do not end.
    """
    try:
        with opened(path) as file:
            check_room(path, os.fstat(file.fileno()).st_size)
            text = io.TextIOWrapper(file, "utf-8-sig", newline="")
            rows = _parsed(path, file, text)
            text.detach()
            return rows
    except UnicodeDecodeError:
        raise InputError(
            f"{path} is not UTF-8 text", value=path, remedy="save it as a CSV file in UTF-8"
        ) from None


def edge_columns(path: str | Path, header: list[str]) -> dict[str, int]:
    """Return the places of the ends of an edge, and of its weight if there is one, by their names.

    Raises:
      InputError: an end has no column, or a column is named twice.
    """
    named = [name.strip().lower() for name in header]
    kinds = (("head", "tail"), ("source", "target"))
    ends = next((kind for kind in kinds if {*kind} <= {*named}), kinds[0])
    missing = [name for name in ends if name not in named]
    if missing:
        raise InputError(
            f"{path} has no column {listed(missing)}",
            value=path,
            remedy="its first line must name the columns head, tail[, weight] or source, "
            f"target[, weight], separated by commas, but it is {','.join(header)!r:.80}",
        )
    columns = [name for name in (*ends, "weight") if name in named]
    twice = sorted({name for name in columns if named.count(name) > 1})
    if twice:
        raise InputError(
            f"{path} names the column {listed(twice)} twice",
            value=path,
            remedy="rename one of them",
        )
    return {name: named.index(name) for name in columns}


def check_edge_columns(path: str | Path) -> None:
    """Check that a file has the columns of edges, without whatever else is dear to check.

    Raises:
      InputError: it cannot be read, or it has not.
    """
    if rows := read_rows(path):  # that a file is empty is told where its edges are read
        edge_columns(path, rows[0][1])


def _parsed(path: str | Path, file: BinaryIO, text: io.TextIOWrapper) -> Rows:
    rows, taken, looked_at = [], 0, 0
    whole = os.fstat(file.fileno()).st_size
    reader = csv.reader(_lines(path, text), strict=True)
    try:
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            rows.append((reader.line_num, [unescape_cell(cell) for cell in row]))
            taken += _ROW_BYTES + sum(_CELL_BYTES + len(cell) for cell in row)
            if taken > looked_at + LOOK_EVERY:
                looked_at = taken
                check_room(path, taken * (whole / file.tell() - 1))  # for what is left of it
    except csv.Error as error:
        reason = "a quote is never closed" if "unexpected end" in str(error) else error
        raise InputError(
            f"{path}, line {reader.line_num} cannot be read as CSV: {reason}",
            value=path,
            remedy="repair that line",
        ) from None
    return rows


def _lines(path: str | Path, text: io.TextIOWrapper) -> Iterator[str]:
    for number, line in enumerate(iter(lambda: text.readline(LONGEST_LINE), ""), start=1):
        if "\0" in line:
            raise InputError(
                f"{path}, line {number} holds the character NUL, as no CSV file does",
                value=path,
                remedy="save it as a CSV file in UTF-8",
            )
        if len(line) == LONGEST_LINE:
            raise InputError(
                f"{path}, line {number} is longer than {LONGEST_LINE} characters",
                value=path,
                remedy="it must have a line per row",
            )
        yield line
