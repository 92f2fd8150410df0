"""Ratings of a table in blocks, client by client on the host: sorted in pieces, by every core.

A table is sorted by user, and a client owns whole users: its ratings are pieces of the table, and
what is sorted is one client's. A piece takes about 100 bytes per rating while it is worked on.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._host._memory import cores
from fedjax_admm.ratings.blocks import BLOCK, ClientRatings

_ALIGNED = 64  # bytes: an array that starts at such a place becomes a device's without a copy


@dataclass(frozen=True)
class Home:
    """Where the users of a table live."""

    places: np.ndarray  # shape=(users,), int32: client * width + number within the client
    clients: int
    width: int  # users of the largest client
    num_items: int


class Lists(NamedTuple):
    """The ratings of all clients, and how they were standardised."""

    by_user: ClientRatings  # what is learnt from, each client's sorted by user
    by_item: ClientRatings  # the same, sorted by item
    held_out: ClientRatings  # what predictions are judged by, sorted by user
    mean: float
    deviation: float


def ratings_per_client(users: np.ndarray, home: Home) -> np.ndarray:
    """Return how many ratings every client has, shape (clients,), int32, of users in order."""
    ends = users.searchsorted(np.arange(home.places.size + 1, dtype=users.dtype))
    sizes = np.bincount(home.places // home.width, np.diff(ends), home.clients)
    return sizes.astype(np.int32)


def sort_by_client(
    columns: tuple[np.ndarray, np.ndarray, np.ndarray],
    draws: np.ndarray,
    home: Home,
    low: np.ndarray,
    high: np.ndarray,
    *,
    standardize: bool,
    room: bool,
    dtype: Any,
) -> Lists:
    """Learn from a client's ratings of the lowest draws, hold out the next ones.

    Args:
      columns: users, items and values of a table, shape (ratings,), sorted by user, then by item.
      draws: shape (ratings,) or longer, uint32: a client's ratings are numbered in their order,
        then in that of the table.
      home: the clients of the users.
      low: shape (clients,): ratings with lower numbers are learnt from.
      high: shape (clients,): ratings from `low` on and below this are held out.
      standardize: values become (value - mean) / deviation of those learnt from. A deviation that
        is rounding is returned as 0, and 1 is divided by instead.
      room: make room for all ratings in every list, whatever the shares are.
      dtype: of the values.
    """
    users = columns[0]
    bounds = users.searchsorted(np.arange(home.places.size + 1, dtype=users.dtype))
    owners = np.argsort(home.places)  # users, in the order of their places
    cuts = np.searchsorted(home.places[owners] // home.width, np.arange(home.clients + 1))
    parts = (low, low, high - low)
    lists = [_empty(part, home, users.size if room else None, dtype) for part in parts]
    sums = np.zeros((home.clients, 2))
    shift = float(columns[2][0])

    def deal(client: int) -> None:
        members = owners[cuts[client] : cuts[client + 1]]
        entries, local, kind, by_table = _numbered(
            draws, bounds, members, int(low[client]), int(high[client])
        )
        learnt, judged = np.flatnonzero(kind == 1), np.flatnonzero(kind == 2)
        again = by_table[kind[by_table] == 1]
        sources = (learnt, again[_order(columns[1][entries[again]])], judged)
        for listed, source in zip(lists, sources, strict=True):
            start = listed.starts[client] * BLOCK
            place = slice(start, start + source.size)
            rows = entries[source]
            listed.users[place] = local[source]
            listed.items[place] = columns[1][rows]
            listed.values[place] = columns[2][rows]
        values = columns[2][entries[learnt]].astype(np.float64) - shift
        sums[client] = values.sum(), (values**2).sum()

    _for_each(deal, home.clients)
    mean, deviation = 0.0, 1.0
    if standardize:
        number = max(int(low.sum()), 1)
        first, second = sums.sum(0) / number
        mean, deviation = shift + first, np.sqrt(max(second - first**2, 0.0))
        if deviation <= 4 * np.finfo(dtype).eps * abs(mean):
            deviation = 0.0
    middle, unit = dtype(mean), dtype(deviation if deviation > 0 else 1)

    def scale(client: int) -> None:
        for listed, part in zip(lists, parts, strict=True):
            start = listed.starts[client] * BLOCK
            values = listed.values[start : start + part[client]]
            values -= middle
            values /= unit

    if standardize:
        _for_each(scale, home.clients)
    made = [listed.on_device(home) for listed in lists]
    return Lists(*made, mean=mean, deviation=deviation)


@dataclass
class _Filling:
    """A list that is being filled, flat."""

    users: Any
    items: Any
    values: Any
    starts: np.ndarray  # first blocks
    counts: np.ndarray

    def on_device(self, home: Home) -> ClientRatings:
        """Return the list; each array is let go as soon as it is there."""
        columns: list[jax.Array] = []
        for name in ("users", "items", "values"):
            columns.append(jnp.asarray(getattr(self, name).reshape(-1, BLOCK)))
            setattr(self, name, None)
        users, items, values = columns
        starts, counts = (jnp.asarray(part, jnp.int32) for part in (self.starts, self.counts))
        room = users.shape[0]
        return ClientRatings(users, items, values, starts, counts, home.width, home.num_items, room)


def _empty(counts: np.ndarray, home: Home, room: int | None, dtype: Any) -> _Filling:
    """Return an empty list with room for so many ratings per client, or for a number in all."""
    lengths = -(-counts.astype(np.int64) // BLOCK)
    blocks = int(lengths.sum()) if room is None else -(-room // BLOCK) + home.clients
    size = max(blocks, 1) * BLOCK
    return _Filling(
        _filled(size, home.width, np.int32),
        _filled(size, home.num_items, np.int32),
        _filled(size, 0, dtype),
        np.cumsum(lengths) - lengths,
        counts,
    )


def _filled(size: int, value: int, dtype: Any) -> np.ndarray:
    """Return an array of one value that starts where a device's array may start."""
    width = np.dtype(dtype).itemsize
    raw = np.empty(size * width + _ALIGNED, np.uint8)
    skipped = -raw.ctypes.data % _ALIGNED
    array = raw[skipped : skipped + size * width].view(dtype)
    array[:] = value
    return array


def _numbered(
    draws: np.ndarray, bounds: np.ndarray, members: np.ndarray, low: int, high: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Say which ratings of a client are learnt from, and which are held out.

    `members` are the client's users in the order of their numbers. Returned are, in this order of
    users, places in the table; the users' numbers in the client; 1 where a rating is learnt from, 2
    where it is held out; and the order of the table.
    """
    lengths = bounds[members + 1] - bounds[members]
    entries = _ranges(bounds[members], lengths)
    local = np.repeat(np.arange(members.size, dtype=np.int32), lengths)
    order = np.argsort(members)
    by_table = _ranges((np.cumsum(lengths) - lengths)[order], lengths[order])
    ranked = by_table[_order(draws[entries[by_table]])]
    kind = np.zeros(entries.size, np.int8)
    kind[ranked[:low]] = 1
    kind[ranked[low:high]] = 2
    return entries, local, kind, by_table


def _order(numbers: np.ndarray) -> np.ndarray:
    """Return what sorts numbers below 2^32, equal ones in their order: faster than `argsort`."""
    key = numbers.astype(np.uint64) << np.uint64(32)
    key |= np.arange(key.size, dtype=np.uint64)
    key.sort()
    return (key & np.uint64(2**32 - 1)).astype(np.int64)


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the numbers from each start on, as many as its length, one after another."""
    ends = np.cumsum(lengths)
    shift = starts - (ends - lengths)
    return np.repeat(shift, lengths) + np.arange(int(ends[-1]) if ends.size else 0)


def _for_each(work: Callable[[int], None], number: int) -> None:
    """Do the work for every number, on all cores: sorting and copying let other threads run."""
    with ThreadPoolExecutor(cores()) as pool:
        for _ in pool.map(work, range(number)):
            pass
