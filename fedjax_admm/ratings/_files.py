"""Ratings from files.

table = read_ratings("ml-100k/u.data")             user, item, rating, time; separated by tabs
table = read_ratings("ml-1m/ratings.dat")          user::item::rating::time
table = read_ratings("ml-25m/ratings.csv")         columns known by their names
table = read_ratings("mine.parquet", user="who", item="what", rating="how")

Users and items are numbered, or named by texts such as `anna`.
"""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedjax_admm._checks import InputError, listed
from fedjax_admm._host._tables import NUMBER, Header, read_header, read_table
from fedjax_admm.ratings._table import Ratings, tabulated


def read_ratings(
    path: str | Path,
    *,
    user: str | None = None,
    item: str | None = None,
    rating: str | None = None,
) -> Ratings:
    """Read a file with one rating per row: user, item, rating and other columns, such as a time.

    The file is a table of Parquet, or UTF-8 text, which may be compressed by gzip. Cells of a text
    are separated by tabs, `::`, semicolons, commas or spaces, as the first rows show, and may stand
    in quotes. Without separating commas, `3,5` is a number. A first line without any number names
    the columns; otherwise user, item and rating come first, in this order. Blank lines are skipped.

    Users and items are whole numbers where all of them are, without leading zeros; otherwise they
    are texts: `007` and `7` are two users. A million ratings take one to three seconds.

    Args:
      path: the file.
      user: the column of users; found by the usual names, such as userId, if None.
      item: the column of items, likewise.
      rating: the column of the ratings, likewise.

    Returns:
      The table. Users and items that occur are renumbered, as in `from_arrays`.

    Raises:
      InputError: the file cannot be read or has no ratings; a column is missing or cannot be
        guessed; a row has too few or too many cells; a user or an item is missing; a rating is not
        a finite number; or a user has rated an item twice. The sentence names the line and the
        value.
    """
    demand = "it must have a line for each rating: user, item, rating"
    header = read_header(path, demand, least=3)
    chosen = {"user": user, "item": item, "rating": rating}
    columns = [*chosen]
    if header.separator and not any(chosen.values()) and any(map(NUMBER.fullmatch, header.names)):
        others = (str(number) for number in range(4, len(header.names) + 1))
        header = replace(header, names=(*columns, *others), named=False)
    else:
        columns = [_column(header, role, name) for role, name in chosen.items()]
    if len(set(columns)) < 3:
        told = f"{path}: user, item, rating must be three columns, but they are {listed(columns)}"
        raise InputError(told, remedy="name them by {user}, {item}, {rating}", others=_KEYWORDS)
    table = read_table(header, columns)
    if not len(table):
        below = f" below its line {header.line}" if header.named and header.separator else ""
        raise InputError(f"{path} has no ratings{below}", remedy="add a row for each")
    largest = float(np.finfo(np.float32).max)
    values = table.numbers(columns[2:], complete=True, largest=largest)[:, 0].astype(np.float32)
    users, items = map(table.identities, columns[:2])
    return replace(
        tabulated(users, items, values, place=table.place), ignored=header.others(columns)
    )


class Pairs(NamedTuple):
    """Users and items of a file, as it names them, and their places in a table of ratings."""

    users: np.ndarray  # shape=(pairs,): texts
    items: np.ndarray  # shape=(pairs,): texts
    places: np.ndarray  # shape=(pairs, 2), int: of user and item; -1 of one without a rating


def read_pairs(
    path: str | Path, ratings: Ratings, *, user: str | None = None, item: str | None = None
) -> Pairs:
    """Read a file with one pair per row, a user and an item, whose ratings are to be predicted.

    Args:
      path: the file, written as those of `read_ratings`; its first line names the columns.
      ratings: the table that knows users and items.
      user: the column of users; found by the usual names if None.
      item: the column of items, likewise.

    Raises:
      InputError: the file cannot be read, or a column or a name is missing.
    """
    header = read_header(path, "it must have a line for each pair: user, item", least=2)
    columns = [_column(header, role, name) for role, name in {"user": user, "item": item}.items()]
    table = read_table(header, columns)
    users, items = (table.texts(column, complete=True) for column in columns)
    places = _places(users, ratings.user_ids), _places(items, ratings.item_ids)
    return Pairs(users, items, np.stack(places, 1))


def read_titles(path: str | Path, ratings: Ratings, *, item: str | None = None) -> list[str]:
    """Return a title for every item, from a file with the columns item and title, or name.

    An item that the file does not have is called by its number or text.

    Raises:
      InputError: the file cannot be read, or a column is missing.
    """
    header = read_header(path, "it must have the columns item, title", least=2)
    titles = [column for column, _ in header.find(("title", "name"))]
    owner = _column(header, "item", item)
    header.require(titles[:1] or ["title"], "item, title")
    table = read_table(header, [owner, titles[0]])
    found = [str(each) for each in ratings.item_ids]
    places = _places(table.texts(owner), ratings.item_ids)
    for place, title in zip(places.tolist(), table.texts(titles[0]).tolist(), strict=True):
        if place >= 0 and title:
            found[place] = title
    return found


def _places(names: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return the places of names among identities, -1 of those that are not there."""
    place = {str(identity): number for number, identity in enumerate(ids.tolist())}
    return np.array([place.get(name, -1) for name in names.tolist()], int)


_USUAL = {
    "user": {"user", "userid", "userno", "uid", "client", "clientid", "customer", "customerid"},
    "item": {"item", "itemid", "itemno", "iid", "movie", "movieid", "product", "productid"}
    | {"book", "bookid", "anime", "animeid", "artist", "artistid", "joke", "jokeid", "song"}
    | {"songid", "track", "trackid"},
    "rating": {"rating", "ratings", "star", "stars", "score", "value", "userrating", "bookrating"},
}
_KEYWORDS = {role: f"{role}=" for role in _USUAL}  # how a caller names a column


def _column(header: Header, role: str, name: str | None) -> str:
    """Return the column that the user's `name` means, or one with a usual name of its role."""
    usual = [each for each, _ in header.find(_USUAL[role])]
    fits = usual if name is None else [each for each in header.names if each == name]
    if len(fits) == 1:
        return fits[0]
    problem = {
        (True, False): f"it is not clear which column is the {role}; name one by {{{role}}}",
        (True, True): f"several columns may be the {role}; name one by {{{role}}}",
        (False, False): f"there is no column {name!r}, which {{{role}}} names",
        (False, True): f"the column {name!r} is named twice; rename one of them",
    }[name is None, bool(fits)]
    columns = listed(map(repr, header.names))
    raise InputError(f"{header.path}: {problem}. The columns are {columns}.", others=_KEYWORDS)
