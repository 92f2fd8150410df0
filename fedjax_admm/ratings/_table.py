"""Ratings in memory: three columns sorted by user and item.

table = from_arrays([7, 7, 9], [1, 4, 1], [5.0, 0.0, 3.5])
table.num_users, table.user_ids       2, array([7, 9])
table.users, table.items              array([0, 0, 1]), array([0, 1, 0])
table.user(9)                         1
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from fedjax_admm._checks import InputError, count, of_shape, refuse, refuse_entries


@dataclass(frozen=True, eq=False)
class Ratings:
    """The known entries of a matrix of users and items, sorted by user, then by item."""

    users: np.ndarray  # shape=(ratings,), int32: 0..num_users-1
    items: np.ndarray  # shape=(ratings,), int32: 0..num_items-1
    values: np.ndarray  # shape=(ratings,), float32
    user_ids: np.ndarray  # shape=(num_users,), int64 or texts: the source's, ascending
    item_ids: np.ndarray  # shape=(num_items,), int64 or texts
    ignored: tuple[str, ...] = ()  # other columns of the file

    @property
    def num_users(self) -> int:
        """Return how many users have rated."""
        return len(self.user_ids)

    @property
    def num_items(self) -> int:
        """Return how many items have been rated."""
        return len(self.item_ids)

    def __len__(self) -> int:
        """Return the number of ratings."""
        return len(self.values)

    def user(self, identity: int | str) -> int:
        """Return the position of the user with the number or text `identity`."""
        return _position("user", identity, self.user_ids)

    def item(self, identity: int | str) -> int:
        """Return the position of the item with the number or text `identity`."""
        return _position("item", identity, self.item_ids)


def from_arrays(users: ArrayLike, items: ArrayLike, values: ArrayLike) -> Ratings:
    """Build a table of ratings from arrays.

    Users and items that occur are renumbered from 0 in ascending order of their numbers. Numbers
    that are not much larger than the number of ratings are looked up in tables; others are sorted.
    Apart from the arrays given, this takes about 29 bytes per rating: 2.9 GB for 100 million.

    Args:
      users: shape (ratings,), integers from 0; gaps are allowed.
      items: shape (ratings,), likewise.
      values: shape (ratings,); kept as float32. 0 is a rating like any other.

    Returns:
      The table.

    Raises:
      InputError: the arrays have different lengths; a user or an item is no whole number from 0; a
        rating is not a finite number; or a user has rated an item twice.
    """
    columns = {"users": users, "items": items, "values": values}
    arrays = [_array(name, column) for name, column in columns.items()]
    sizes = [array.size for array in arrays]
    told = f"users, items and values must have one entry per rating, but they have {sizes}"
    refuse(len({0, *sizes}) != 2, None, told)
    _check_identities("users", arrays[0])
    _check_identities("items", arrays[1])
    values = _single(arrays[2])
    return tabulated(_renumbered(arrays[0]), _renumbered(arrays[1]), values)


def _array(name: str, column: Any) -> np.ndarray:
    """Return a column as an array of one axis."""
    refuse(np.ma.is_masked(column), name, "has masked entries", remedy="leave them out")
    array = np.asarray(column)
    of_shape(name, array, (None,))
    return array


Ranked = tuple[np.ndarray, np.ndarray]
"""A rank per rating, int32, and what the ranks stand for, ascending."""


def tabulated(
    users: Ranked,
    items: Ranked,
    values: np.ndarray,
    *,
    place: Callable[[int], str] = "ratings, entry {}".format,
) -> Ratings:
    """Sort checked columns, and refuse two ratings of an item by one user.

    Args:
      users: who rated, shape (ratings,).
      items: what was rated, shape (ratings,).
      values: shape (ratings,), float32 and finite; the table may keep this very array.
      place: names the place of a rating in its source, for the sentence.
    """
    (rows, user_ids), (columns, item_ids) = users, items
    order = _order(rows, columns, item_ids.size)
    if order is None:
        return Ratings(rows, columns, values, user_ids, item_ids)
    rows, columns = rows[order], columns[order]
    repeat = _repeat(rows, columns, order)
    if repeat is not None:
        first, second = repeat
        user, item = (ids[ranks[second]] for ranks, ids in (users, items))
        told = f"{place(second)}: user {user} has rated item {item} in"
        told = f"{told} {place(first).rpartition(', ')[2]} already, {values[first]:g} there"
        raise InputError(f"{told} and {values[second]:g} here", remedy="remove one of the two")
    return Ratings(rows, columns, values[order], user_ids, item_ids)


# NumPy copies indices into 64-bit integers; block by block these copies are small.
RENUMBERED_AT_ONCE = 2**20
_SPARE = 10**7  # a table of the numbers may be that much longer than the list of ratings


def _position(name: str, identity: int | str, identities: np.ndarray) -> int:
    """Return the place of a user or an item among the sorted ones."""
    if identities.dtype.kind == "U":
        identity = str(identity)
    else:
        if isinstance(identity, str) and identity.isascii() and identity.isdecimal():
            identity = int(identity)
        identity = count(name, cast(int, identity), at_least=0, at_most=2**63 - 1)
    place = int(np.searchsorted(identities, identity))
    nearest = identities[max(place - 1, 0) : place + 1]
    ends = f"from {identities[0]} to {identities[-1]}"
    told = f"must be one of the {len(identities)} that occur, {ends}, but it is {identity}"
    remedy = f"take {' or '.join(map(str, nearest))}"
    refuse(identity not in nearest, name, told, remedy=remedy)
    return place


def _check_identities(name: str, array: np.ndarray) -> None:
    remedy = "repair numbers such as 1.5, and convert the whole ones with .astype(int)"
    told = f"must hold integers, but its dtype is {array.dtype}"
    refuse(array.dtype.kind not in "iu", name, told, remedy=remedy)
    refuse_entries(array < 0, name, "must not be negative", array)


def _single(array: np.ndarray) -> np.ndarray:
    """Return a copy in float32."""
    told = f"must hold numbers, but its dtype is {array.dtype}"
    refuse(array.dtype.kind not in "iuf", "values", told)
    with np.errstate(over="ignore"):
        values = array.astype(np.float32)
    remedy = "remove or repair that rating"
    refuse_entries(~np.isfinite(values), "values", "must be finite in float32", array, remedy)
    return values


def _renumbered(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rank of every number among those that occur, and these in ascending order."""
    largest = int(ids.max())
    if largest < ids.size + _SPARE:
        occurs = np.zeros(largest + 1, bool)
        for part in _blocks(ids.size):
            occurs[ids[part]] = True
        identities = np.flatnonzero(occurs)
        ranks = np.zeros(largest + 1, np.int32)
        ranks[identities] = np.arange(identities.size)
        rank = ranks.__getitem__
    else:
        identities = np.unique(ids)
        rank = identities.searchsorted
    renumbered = np.empty(ids.size, np.int32)
    for part in _blocks(ids.size):
        renumbered[part] = rank(ids[part])
    return renumbered, identities.astype(np.int64)


def _blocks(size: int) -> Iterator[slice]:
    return (
        slice(start, start + RENUMBERED_AT_ONCE) for start in range(0, size, RENUMBERED_AT_ONCE)
    )


def _order(users: np.ndarray, items: np.ndarray, num_items: int) -> np.ndarray | None:
    """Return what sorts the ratings by user, then by item; None if they are, and no two agree."""
    key = users.astype(np.int64)
    key *= num_items
    key += items
    return None if (key[1:] > key[:-1]).all() else np.argsort(key)


def _repeat(users: np.ndarray, items: np.ndarray, order: np.ndarray) -> tuple[int, int] | None:
    """Return two entries of one user and item, in ascending order; None if no two agree."""
    same = users[1:] == users[:-1]
    same &= items[1:] == items[:-1]
    ranks = np.flatnonzero(same)
    if not ranks.size:
        return None
    pairs = np.sort(np.stack([order[ranks], order[ranks + 1]]), axis=0)
    first, second = pairs[:, pairs[1].argmin()]
    return int(first), int(second)
