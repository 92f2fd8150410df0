"""Ratings from files.

table = read_ratings("ml-100k/u.data")             user, item, rating, time; separated by tabs
table = read_ratings("ml-1m/ratings.dat")          user::item::rating::time
table = read_ratings("ml-25m/ratings.csv")         columns known by their names
table = read_ratings("mine.parquet", user="who", item="what", rating="how")

Users and items are numbered, or named by texts such as `anna`.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedjax_admm._checks import InputError, listed
from fedjax_admm._host._input_files import check_room
from fedjax_admm._host._tables import (
    LONGEST_NAME,
    Layout,
    first_row,
    numbers_of,
    read_columns,
    read_texts,
)
from fedjax_admm.ratings._table import Ratings, Texts, tabulated

if TYPE_CHECKING:
    import pyarrow


def read_ratings(
    path: str | Path,
    *,
    user: str | None = None,
    item: str | None = None,
    rating: str | None = None,
) -> Ratings:
    """Read a file with one rating per row: user, item, rating and other columns, such as a time.

    The file is a table of Parquet, or UTF-8 text, which may be compressed by gzip. Cells of a text
    are separated by tabs, `::`, commas, semicolons or single spaces, as the first line shows, and
    may stand in quotes. A first line without any number names the columns; otherwise user, item and
    rating come first, in this order. Blank lines are skipped.

    Users and items are whole numbers, or texts, where one of them has a letter and is no number:
    `007` and `7` are two users then. Plain numbers are read at about 7 million ratings per second,
    texts and numbers such as `+5` at 0.8 million; sorting takes longer. At its peak a rating
    takes about 39 bytes: 3.9 GB for 100 million.

    Args:
      path: the file.
      user: the column of users; found by the usual names, such as userId, if None.
      item: the column of items, likewise.
      rating: the column of the ratings, likewise.

    Returns:
      The table. Users and items that occur are renumbered, as in `from_arrays`.

    Raises:
      InputError: the file cannot be read or has no ratings; a column is missing or cannot be
        guessed; a row has too few or too many cells; a user or an item is no whole number or text;
        a rating is not a finite number; or a user has rated an item twice. The sentence names the
        line and the value.
    """
    row = first_row(path, "it must have a line for each rating: user, item, rating", _SEPARATORS)
    chosen = {"user": user, "item": item, "rating": rating}
    named = any(chosen.values()) or not any(map(_NUMBER.fullmatch, row.cells))
    layout = replace(row, named=named or not row.separator)
    places, names = [0, 1, 2], [*chosen]
    if layout.named:
        places = [_place(layout, role, name) for role, name in chosen.items()]
        names = [layout.cells[place] for place in places]
    if len(set(places)) < 3:
        raise InputError(
            f"{path}: user, item and rating must be three columns, but they are {listed(names)}; "
            "name them by {user}, {item}, {rating}.",
            others=_KEYWORDS,
        )
    texts: tuple[Texts, Texts] = None, None
    columns = _plain_columns(layout, places)
    if columns is None:
        columns, texts = other_columns(layout, places, names)
    if not columns[0].size:
        below = f" below its line {layout.line}" if layout.named and layout.separator else ""
        raise InputError(f"{path} has no ratings{below}", value=path, remedy="add a row for each")
    table = tabulated(*columns, texts=texts, place=layout.place)
    ignored = [
        cell if layout.named else str(number)
        for number, cell in enumerate(layout.cells, start=1)
        if number - 1 not in places
    ]
    return replace(table, ignored=tuple(ignored))


_SEPARATORS = ("\t", "::", ",", ";", " ")
_USUAL = {
    "user": {"user", "userid", "userno", "uid", "client", "clientid", "customer", "customerid"},
    "item": {"item", "itemid", "itemno", "iid", "movie", "movieid", "product", "productid"}
    | {"book", "bookid", "anime", "animeid", "artist", "artistid", "joke", "jokeid", "song"}
    | {"songid", "track", "trackid"},
    "rating": {"rating", "ratings", "star", "stars", "score", "value", "userrating", "bookrating"},
}
_KEYWORDS = {role: f"{role}=" for role in _USUAL}  # how a caller names a column
_INTEGER = re.compile(r"[+-]?[0-9]{1,99}")
_NUMBER = re.compile(
    r"[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?|nan|inf|infinity)", re.IGNORECASE
)

_Columns = tuple[np.ndarray, np.ndarray, np.ndarray]  # users, items, values


def _place(layout: Layout, role: str, name: str | None) -> int:
    """Return which column the user's `name` means, or a usual name of its role."""
    usual = [re.sub("[^a-z0-9]", "", cell.lower()) in _USUAL[role] for cell in layout.cells]
    fits = usual if name is None else [cell == name for cell in layout.cells]
    if sum(fits) == 1:
        return fits.index(True)
    problem = {
        (True, False): f"it is not clear which column is the {role}; name one by {{{role}}}",
        (True, True): f"several columns may be the {role}; name one by {{{role}}}",
        (False, False): f"there is no column {name!r}, which {{{role}}} names",
        (False, True): f"the column {name!r} is named twice; rename one of them",
    }[name is None, any(fits)]
    columns = listed(map(repr, layout.cells))
    raise InputError(f"{layout.path}: {problem}. The columns are {columns}.", others=_KEYWORDS)


def _plain_columns(layout: Layout, places: Sequence[int]) -> _Columns | None:
    """Read columns of plain numbers; None where something else is in them."""
    import pyarrow

    kinds = [pyarrow.int64(), pyarrow.int64(), pyarrow.float64()]
    parts, taken = [], 0
    try:
        for columns in read_columns(layout, places, kinds):
            if any(column.null_count for column in columns):
                return None
            users, items, values = map(numbers_of, columns)
            part = (_narrow(users), _narrow(items), _single(values))
            if users.min() < 0 or items.min() < 0 or not np.isfinite(part[2]).all():
                return None
            parts.append(part)
            taken += sum(column.nbytes for column in part)
            check_room(layout.path, taken)
    except pyarrow.ArrowException:
        return None
    return _joined(parts)


def _narrow(identities: np.ndarray) -> np.ndarray:
    return identities.astype(np.int32) if identities.max() < 2**31 else identities


def _single(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _joined(parts: list[_Columns]) -> _Columns:
    """Join the parts of each column, and let go of them."""
    empty = (np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32))
    columns = list(zip(*parts, strict=True)) or [(column,) for column in empty]
    parts.clear()
    users, items, values = (np.concatenate(columns.pop(0)) for _ in range(3))
    return users, items, values


def other_columns(
    layout: Layout, places: Sequence[int], names: Sequence[str]
) -> tuple[_Columns, tuple[Texts, Texts]]:
    """Read columns of any cells, each different one once; numbers are those of Python."""
    codes: tuple[dict[str, int], dict[str, int]] = {}, {}  # of all texts of users and of items
    parts, taken, row = [], 0, 0
    for columns in read_texts(layout, places):
        users, items = (_coded(column, codes[k]) for k, column in enumerate(columns[:2]))
        values = _values(layout, row, names[2], columns[2])
        parts.append((users, items, values))
        row += values.size
        taken += users.nbytes + items.nbytes + values.nbytes
        check_room(layout.path, taken)
    users, items, values = _joined(parts)
    users, user_texts = _identities(layout, names[0], users, codes[0])
    items, item_texts = _identities(layout, names[1], items, codes[1])
    return (users, items, values), (user_texts, item_texts)


def _coded(column: "pyarrow.Array", codes: dict[str, int]) -> np.ndarray:
    """Return a number for every cell, the same for equal ones."""
    encoded = column.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    numbers = [codes.setdefault(text.strip(), len(codes)) for text in texts]
    return np.array(numbers, np.int32)[numbers_of(encoded.indices)]


def _values(layout: Layout, row: int, name: str, column: "pyarrow.Array") -> np.ndarray:
    """Return ratings as `float` reads them, of cells from a row on."""
    encoded = column.dictionary_encode()
    texts = [text.strip() for text in encoded.dictionary.to_pylist()]
    numbers = [float(text) if _NUMBER.fullmatch(text) else np.nan for text in texts]
    indices, values = numbers_of(encoded.indices), _single(np.array(numbers))
    for wrong in np.flatnonzero(~np.isfinite(values[indices]))[:1]:
        text = texts[indices[wrong]]
        demand = "be finite in float32" if _NUMBER.fullmatch(text) else "be a number"
        raise _mistake(layout, row + int(wrong), name, demand, text)
    return values[indices]


def _identities(
    layout: Layout, name: str, column: np.ndarray, codes: dict[str, int]
) -> tuple[np.ndarray, Texts]:
    """Return the whole numbers that a column's cells are; or the cells' codes, and their texts."""
    texts = list(codes)
    as_texts = any(not _NUMBER.fullmatch(text) and any(map(str.isalpha, text)) for text in texts)
    for code, text in enumerate(texts):
        demand = None
        if as_texts:
            if not 0 < len(text) <= LONGEST_NAME:
                demand = f"have 1 to {LONGEST_NAME} characters"
        elif not _INTEGER.fullmatch(text):
            demand = "be a whole number"
        elif int(text) < 0:
            demand = "not be negative"
        elif int(text) >= 2**63:
            demand = "be less than 2**63"
        if demand is not None:
            raise _mistake(layout, int(np.argmax(column == code)), name, demand, text)
    if as_texts:
        return column, codes
    return np.array([int(text) for text in texts], np.int64)[column], None


def _mistake(layout: Layout, row: int, name: str, demand: str, text: str) -> InputError:
    return InputError(
        f"{layout.place(row)}: {name} must {demand}, but it is {text!r:.60}",
        value=text,
        remedy="repair or remove that row",
    )
