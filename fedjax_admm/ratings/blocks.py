"""Ratings of many clients in one array: sorted by client, each client's padded to whole blocks.

Clients hold very different numbers of ratings. Stacked to the length of the largest one they would
take twice the memory that they need (MovieLens 100K, 100 clients); in blocks of `BLOCK` a client
wastes half a block. A pass over the ratings of some clients goes through their blocks only, a chunk
of blocks at a time, so that it needs little memory besides.

Where clients are spread over devices (see `devices`), what belongs to them is, but every device
holds all ratings (24 bytes each, to learn from), so that any device can work for any client that is
drawn: the drawn ones are dealt out evenly, and it is their factors that travel.
"""

from collections.abc import Callable
from dataclasses import field, replace
from typing import Any, ClassVar, TypeVar

import jax
import jax.numpy as jnp

from fedjax_admm._linear_algebra import compensated_sum
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.devices import by_clients

Carry = TypeVar("Carry")

BLOCK = 64
"""Ratings per block."""

CHUNK = 2048
"""Ratings that are worked on at a time: a chunk fits the cache."""


@pytree_dataclass
class ClientRatings:
    """Ratings, one client after another. Where a block is not full, it holds padding."""

    users: jax.Array  # shape=(blocks, BLOCK), int32: number within the client; padding:
    # users_per_client
    items: jax.Array  # shape=(blocks, BLOCK), int32; padding: num_items
    values: jax.Array  # shape=(blocks, BLOCK); padding: 0
    first: jax.Array  # shape=(clients,), int32: each client's first block
    counts: jax.Array  # shape=(clients,), int32: ratings of each client
    users_per_client: int = field(metadata={"static": True})  # of the largest client
    num_items: int = field(metadata={"static": True})
    largest: int = field(metadata={"static": True})  # blocks of a client, at most

    spread: ClassVar[tuple[str, ...]] = ("first", "counts")

    def fold(
        self, clients: jax.Array, initial: Carry, add: Callable[..., Carry], chunk: int = CHUNK
    ) -> Carry:
        """Go through all ratings of some clients, in their order.

        Args:
          clients: shape (places,), int32: different clients.
          initial: the first carry, a pytree of arrays.
          add: `add(carry, place, users, items, values) -> carry` for a chunk of ratings, arrays
            (ratings,); `place` is the place of a rating's client in `clients`.
          chunk: ratings per chunk, rounded up to whole blocks.
        """
        places, width = clients.shape[0], -(-chunk // BLOCK)
        bound = min(places * self.largest, self.users.shape[0])
        lengths = -(-self.counts[clients] // BLOCK)
        ends = jnp.cumsum(lengths, dtype=jnp.int32)
        # Block number b of the pass is block b + shift[place] of the array.
        shift = self.first[clients] - (ends - lengths)

        def work(carry: Carry, start: jax.Array) -> Carry:
            numbers = start + jnp.arange(width, dtype=jnp.int32)
            place = jnp.sum(ends[:, None] <= numbers[None], 0, dtype=jnp.int32)
            beyond = (place == places)[:, None]
            place = jnp.minimum(place, places - 1)
            source = jnp.clip(numbers + shift[place], 0, self.users.shape[0] - 1)
            users = jnp.where(beyond, self.users_per_client, self.users[source])
            items = jnp.where(beyond, self.num_items, self.items[source])
            values = jnp.where(beyond, 0, self.values[source])
            whose = jnp.broadcast_to(place[:, None], users.shape)
            return add(carry, *(array.ravel() for array in (whose, users, items, values)))

        def step(carry: Carry, start: jax.Array):
            return jax.lax.cond(start < ends[-1], work, lambda kept, _: kept, carry, start), None

        starts = jnp.arange(0, bound, width, dtype=jnp.int32)
        return jax.lax.scan(step, initial, starts)[0]

    def of(self, clients: jax.Array) -> "ClientRatings":
        """Return the ratings of some clients, shape (places,), int32, numbered by their places."""
        return replace(self, first=self.first[clients], counts=self.counts[clients])

    def apart(
        self,
        collect: Callable[["ClientRatings", Any, Any], jax.Array],
        rows: Any,
        whole: Any = None,
        *,
        axis: int,
    ) -> jax.Array:
        """Collect an array of every client's ratings; each device goes through its own clients.

        Args:
          collect: `collect(ratings, rows, whole) -> array` for some of the clients, each of them
            apart from the others. It closes over no array.
          rows: a pytree of arrays (clients, ...).
          whole: a pytree of arrays that all clients share.
          axis: the clients' axis of the array.
        """

        def local(own, shared):
            (first, counts, rows), (ratings, whole) = own, shared
            return collect(replace(ratings, first=first, counts=counts), rows, whole)

        return by_clients(local, (self.first, self.counts, rows), (self, whole), axis=axis)

    @property
    def everyone(self) -> jax.Array:
        """Return the numbers of all clients."""
        return jnp.arange(self.first.shape[0], dtype=jnp.int32)

    def total(self, term: Callable[..., jax.Array]) -> jax.Array:
        """Sum `term(client, users, items, values)`, shape (ratings,), over all ratings.

        The rounding error is that of one addition; padding is left out.
        """

        def add(carry, client, users, items, values):
            terms = jnp.where(items < self.num_items, term(client, users, items, values), 0)
            return compensated_sum(carry, jnp.sum(terms))

        zero = jnp.zeros((), self.values.dtype)
        total, lost = self.fold(self.everyone, (zero, zero), add)
        return total + lost


def in_blocks(
    owner: jax.Array,
    users: jax.Array,
    items: jax.Array,
    values: jax.Array,
    keep: jax.Array,
    *,
    by: str,
    clients: int,
    users_per_client: int,
    num_items: int,
    capacity: int,
) -> ClientRatings:
    """Sort ratings by client, then by user or by item, and put them into blocks.

    Args:
      owner: shape (ratings,), int32: the client of each rating.
      users: shape (ratings,), int32: number of the user within its client.
      items: shape (ratings,), int32.
      values: shape (ratings,).
      keep: shape (ratings,), bool: which ratings to take, `capacity` at most.
      by: "users" or "items".
      clients: number of clients.
      users_per_client: of the largest client.
      num_items: number of items.
      capacity: room for ratings.
    """
    stride, place = {"users": (users_per_client, users), "items": (num_items, items)}[by]
    last = clients * stride
    order = jnp.argsort(jnp.where(keep, owner * stride + place, last), stable=True)
    ones = keep.astype(jnp.int32)
    counts = jax.ops.segment_sum(ones, owner, num_segments=clients)
    lengths = -(-counts // BLOCK)
    starts = jnp.cumsum(counts, dtype=jnp.int32) - counts
    ends = jnp.cumsum(lengths, dtype=jnp.int32)

    blocks = jnp.arange(-(-capacity // BLOCK) + clients, dtype=jnp.int32)
    client = jnp.minimum(jnp.searchsorted(ends, blocks, side="right"), clients - 1)
    block = (blocks - (ends - lengths)[client])[:, None]
    within = block * BLOCK + jnp.arange(BLOCK, dtype=jnp.int32)[None]
    there = within < counts[client][:, None]
    source = order[jnp.where(there, starts[client][:, None] + within, 0)]
    return ClientRatings(
        jnp.where(there, users[source], users_per_client),
        jnp.where(there, items[source], num_items),
        jnp.where(there, values[source], 0),
        ends - lengths,
        counts,
        users_per_client,
        num_items,
        blocks.shape[0],
    )
