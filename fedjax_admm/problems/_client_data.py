"""The samples of clients of different sizes: stacked, in buckets of like sizes, or made on demand.

All three have `each(function, *rows)`, which applies a function to the samples of every client,
and `take(clients)`, which selects clients. A client is padded with copies of its first sample, so
that a loss only sees samples that exist; sums leave the padding out.
"""

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._host._programs import compiled
from fedjax_admm._pytrees import pytree_dataclass

# Clients whose samples are made on demand are processed in groups of so many.
_AT_ONCE = 64


class Client(NamedTuple):
    """The samples of one client, as functions of them receive it."""

    samples: Any  # a pytree of arrays (samples, ...), padded
    size: jax.Array  # shape=(), int32: how many of them there are
    number: jax.Array  # shape=(), int32: the client's number among all clients
    key: Any = None  # a typed key of its losses; None where no round gives one
    state: Any = None  # a pytree: the state of its losses; None where they have none


class ClientData(Protocol):
    """The samples of some clients."""

    @property
    def sizes(self) -> jax.Array:
        """Return how many samples each client has, shape (clients,), int32."""
        ...

    @property
    def numbers(self) -> jax.Array:
        """Return the number of each client among all, shape (clients,), int32."""
        ...

    def each(self, function: Callable[..., Any], *rows: Any) -> Any:
        """Return `function(Client, *row)` for every client; rows and result are (clients, ...)."""
        ...

    def take(self, clients: jax.Array) -> "ClientData":
        """Return the data of some clients, given their places, shape (count,), int32."""
        ...


@pytree_dataclass
class StackedData:
    """Clients that are all padded to the size of the largest."""

    samples: Any  # a pytree of arrays (clients, samples, ...)
    sizes: jax.Array
    numbers: jax.Array

    spread: ClassVar[tuple[str, ...]] = ("samples", "sizes", "numbers")

    def each(self, function, *rows):
        """Apply the function to all clients at once."""
        return jax.vmap(function)(Client(self.samples, self.sizes, self.numbers), *rows)

    def take(self, clients):
        """Gather the rows."""
        return jax.tree.map(lambda leaf: leaf[clients], self)


@pytree_dataclass
class BucketedData:
    """Clients in buckets, each padded to the largest of its bucket."""

    buckets: tuple[StackedData, ...]  # their numbers are the clients' places here
    bucket: jax.Array  # shape=(clients,), int32: the bucket of each client
    row: jax.Array  # shape=(clients,), int32: its place in the bucket
    place: jax.Array  # shape=(clients,), int32: its place among the rows of all buckets in turn

    @property
    def sizes(self) -> jax.Array:
        """Return the number of samples of every client."""
        return jnp.concatenate([part.sizes for part in self.buckets])[self.place]

    @property
    def numbers(self) -> jax.Array:
        """Return 0, 1, and so on."""
        return jnp.arange(self.place.shape[0], dtype=jnp.int32)

    def each(self, function, *rows):
        """Apply the function to one bucket after the other."""
        parts = [
            part.each(function, *jax.tree.map(lambda leaf, part=part: leaf[part.numbers], rows))
            for part in self.buckets
        ]
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[self.place], *parts)

    def take(self, clients):
        """Gather the rows of each bucket, and keep those of the clients' own."""
        longest = max(jax.tree.leaves(part.samples)[0].shape[1] for part in self.buckets)
        bucket, row = self.bucket[clients], self.row[clients]
        taken = None
        for number, part in enumerate(self.buckets):
            last = part.sizes.shape[0] - 1
            here = jax.tree.map(
                lambda leaf: _lengthened(leaf, longest), part.take(jnp.minimum(row, last)).samples
            )
            taken = here if taken is None else _chosen(bucket == number, here, taken)
        return StackedData(taken, self.sizes[clients], clients.astype(jnp.int32))


@pytree_dataclass
class GeneratedData:
    """Clients whose samples are made on demand, from the client's number."""

    sizes: jax.Array
    numbers: jax.Array
    make: Callable[[jax.Array], Any] = field(metadata={"static": True})

    def each(self, function, *rows):
        """Apply the function to groups of clients, one after the other."""

        def one(row):
            size, number, *others = row
            return function(Client(self.make(number), size, number), *others)

        everyone = (self.sizes, self.numbers, *rows)
        return jax.lax.map(one, everyone, batch_size=min(_AT_ONCE, self.sizes.shape[0]))

    def take(self, clients):
        """Select the numbers."""
        return GeneratedData(self.sizes[clients], self.numbers[clients], self.make)


def whole(samples: Any, clients: int, longest: int) -> StackedData:
    """Return stacked data, (clients, samples, ...), all of which count."""
    sizes, numbers = np.full(clients, longest, np.int32), np.arange(clients, dtype=np.int32)
    return StackedData(samples, *jax.device_put((sizes, numbers)))


def stacked(samples: Any, sizes: jax.Array) -> StackedData:
    """Return stacked data, (clients, samples, ...); what is beyond a client's size is replaced."""
    longest = jax.tree.leaves(samples)[0].shape[1]
    beyond = jnp.arange(longest, dtype=jnp.int32)[None] >= sizes[:, None]

    def padded(leaf: jax.Array) -> jax.Array:
        mask = jnp.expand_dims(beyond, range(2, leaf.ndim))
        return jnp.where(mask, leaf[:, :1], leaf)

    numbers = jnp.arange(sizes.shape[0], dtype=jnp.int32)
    return StackedData(jax.tree.map(padded, samples), sizes, numbers)


@compiled
def compacted(samples: Any, mask: jax.Array) -> StackedData:
    """Return stacked data with the samples that a mask (clients, samples) marks."""
    order = jnp.argsort(~mask, axis=1, stable=True)

    def sorted_samples(leaf: jax.Array) -> jax.Array:
        return jnp.take_along_axis(leaf, jnp.expand_dims(order, range(2, leaf.ndim)), axis=1)

    sizes = jnp.sum(mask, 1, dtype=jnp.int32)
    return stacked(jax.tree.map(sorted_samples, samples), sizes)


def bucketed(clients: Sequence[Any]) -> StackedData | BucketedData:
    """Return the data of a list of clients, in as many buckets as save memory.

    Args:
      clients: a pytree of NumPy arrays (samples, ...) per client, of one structure.
    """
    leaves, structure = zip(*(jax.tree.flatten(client) for client in clients), strict=True)
    sizes = np.array([len(parts[0]) for parts in leaves], np.int32)
    kinds, bucket = np.unique(padded_sizes(sizes), return_inverse=True)
    members = [np.flatnonzero(bucket == kind) for kind in range(kinds.size)]
    parts = tuple(
        _bucket([leaves[i] for i in here], sizes[here], here, structure[0]) for here in members
    )
    if len(parts) == 1:
        return parts[0]
    place = np.empty(sizes.size, np.int32)
    place[np.concatenate(members)] = np.arange(sizes.size)
    row = np.empty(sizes.size, np.int32)
    for here in members:
        row[here] = np.arange(here.size)
    return BucketedData(
        parts, jnp.asarray(bucket.astype(np.int32)), jnp.asarray(row), jnp.asarray(place)
    )


def padded_sizes(sizes: np.ndarray) -> np.ndarray:
    """Return to how many samples each client is padded, that is, the largest size of its bucket.

    A bucket holds the clients whose sizes lie between one power of two and the next, so that
    padding at most doubles the data; where one bucket for all does that too, there is one.
    """
    if sizes.max() * sizes.size <= 2 * sizes.sum():
        return np.full_like(sizes, sizes.max())
    _, bucket = np.unique(np.ceil(np.log2(sizes)), return_inverse=True)
    longest = np.zeros(bucket.max() + 1, sizes.dtype)
    np.maximum.at(longest, bucket, sizes)
    return longest[bucket]


def _bucket(leaves, sizes, numbers, structure) -> StackedData:
    longest = int(sizes.max())

    def padded(part: np.ndarray) -> np.ndarray:
        return np.concatenate([part, np.repeat(part[:1], longest - len(part), axis=0)])

    columns = [jnp.asarray(np.stack([padded(p) for p in c])) for c in zip(*leaves, strict=True)]
    return StackedData(
        jax.tree.unflatten(structure, columns),
        jnp.asarray(sizes),
        jnp.asarray(numbers.astype(np.int32)),
    )


def _lengthened(leaf: jax.Array, longest: int) -> jax.Array:
    short = longest - leaf.shape[1]
    return jnp.concatenate([leaf, jnp.repeat(leaf[:, :1], short, axis=1)], 1) if short else leaf


def _chosen(here: jax.Array, new: Any, old: Any) -> Any:
    return jax.tree.map(
        lambda a, b: jnp.where(jnp.expand_dims(here, range(1, a.ndim)), a, b), new, old
    )
