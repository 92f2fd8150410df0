"""Samples of clients that stay on the host, of which a round gets those of the clients drawn.

A run draws the clients of a round before it computes it, since draws are functions of the key. It
reads their samples from files or from a function of the user's, and computes the round on a problem
that holds these alone. The numbers are those of a run with all samples held at once.
"""

import mmap
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import InputError, NotHereError, count, is_concrete, listed
from fedjax_admm._host._ahead import ahead
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.problems._client_data import StackedData, padded_sizes

# What goes through all clients reads so many at a time.
_AT_ONCE = 64


class Streamed(NamedTuple):
    """What `streamed` returns."""

    clients: Any
    prefetch: int


def streamed(clients: Any, *, prefetch: int = 2) -> Any:
    """Leave client data on the host, from where a round takes those of the clients drawn.

    The result goes to `federated` as its data: `federated(loss, streamed(clients), start)`.
    A run brings the samples of the clients that take part in a round to the device, and no others:
    with `participation.without_replacement(100)` the memory is that of 100 clients for each of
    `prefetch + 2` rounds. The result is that of the same data held at once, to rounding. A step is
    compiled for each number of clients and each length to which their samples are padded; there is
    one length, unless padding to that of the largest client would more than double the data.

    What the methods keep for every client, such as the control variates of SCAFFOLD and the models
    and dual variables of FedADMM, stays on the device, updated in place: one or two vectors of the
    length of the model for each client. FedAvg and FedProx keep nothing. A method or a measure that
    needs all clients at once, such as the objective, reads all data in groups of clients, where it
    is computed outside of `jax.jit`. A run itself is not traced: no `jax.jit`, `jax.vmap` or
    `jax.grad` around it.

    Args:
      clients: a list of pytrees of arrays (samples, ...), one per client, such as those of
        `np.load(path, mmap_mode="r")`; or a pytree of arrays (clients, samples, ...); or a function
        that makes such a pytree of a client's number, a Python int, with `sizes` given to
        `federated`. Another thread calls it, and it must return the same in every call. The
        pages of memory maps are given back after reading, and stay in the system's cache alone.
      prefetch: how many rounds are read while one is computed.

    Returns:
      The data, for `problems.federated`.
    """
    return Streamed(clients, count("prefetch", prefetch, at_least=0))


@dataclass(frozen=True, eq=False)
class Source:
    """The clients' samples on the host."""

    clients: Any  # a list of pytrees, one pytree, or a function
    sizes: np.ndarray  # shape=(clients,), int32: samples of each client
    like: Any  # a pytree of ShapeDtypeStruct: what a client's samples become, of any number
    prefetch: int

    def rows(self, clients: np.ndarray, active: np.ndarray | None = None) -> StackedData:
        """Read the samples of some clients, stacked, as NumPy arrays.

        Another thread may call it: settings of JAX such as `jax.enable_x64` are those of a thread.

        Args:
          clients: their numbers, shape (count,).
          active: bool, shape (count,), True before False; an inactive client is not read, and has
            the samples of an active one.

        Raises:
          InputError: a function returns something else than it did for the first client.
        """
        if active is not None:
            clients = np.where(active, clients, clients[np.count_nonzero(active) - 1])
        sizes, longest = self.sizes[clients], int(padded_sizes(self.sizes)[clients].max())
        expected, structure = jax.tree.flatten(self.like)
        columns = [
            np.empty((len(clients), longest, *leaf.shape[1:]), leaf.dtype) for leaf in expected
        ]
        last, parts, maps = -1, [], {}
        for row, (client, size) in enumerate(zip(clients.tolist(), sizes.tolist(), strict=True)):
            if client != last:
                parts = self._leaves(client, size, structure, expected)
                maps |= {id(each): each for each in map(_memory_map, parts) if each is not None}
                last = client
            for column, part in zip(columns, parts, strict=True):
                column[row, :size] = part
                column[row, size:] = column[row, :1]
        for each in maps.values():
            each.madvise(mmap.MADV_DONTNEED)
        # NumPy arrays in the place of those of JAX, which the caller's thread makes of them.
        arrays: tuple[Any, ...] = (sizes, clients.astype(np.int32))
        return StackedData(jax.tree.unflatten(structure, columns), *arrays)

    def _leaves(self, client: int, size: int, structure: Any, expected: list[Any]) -> list[Any]:
        leaves, own = jax.tree.flatten(client_at(self.clients, client))
        leaves = list(map(_as_numpy, leaves))
        wanted = [(size, *leaf.shape[1:]) for leaf in expected]
        same = own == structure and [leaf.shape for leaf in leaves] == wanted
        if not same or any(
            not np.can_cast(leaf.dtype, other.dtype, "same_kind")
            for leaf, other in zip(leaves, expected, strict=True)
        ):
            kinds = listed(f"{leaf.dtype}{[size, *leaf.shape[1:]]}" for leaf in expected)
            told = f"must hold {kinds} of client {client}, as of client 0, but it holds"
            held = listed(f"{leaf.dtype}{list(leaf.shape)}" for leaf in leaves)
            raise InputError(f"{told} {held}", "data")
        return leaves


@pytree_dataclass
class StreamedData:
    """Clients whose samples are on the host, but for those of some."""

    sizes: jax.Array
    numbers: jax.Array
    here: StackedData | None  # of the clients whose rows a round computes, in this order
    source: Source | None = field(metadata={"static": True})  # None inside of a program
    # The numbers of the clients that are here; None where they are those of the round.
    asked: tuple[int, ...] | None = field(default=None, metadata={"static": True})

    spread: ClassVar[tuple[str, ...]] = ("sizes", "numbers")

    def holding(self, here: StackedData | None = None, asked: Any = None) -> "StreamedData":
        """Return the data for a program, with the samples of some clients on the device."""
        return replace(self, here=jax.device_put(here), source=None, asked=asked)

    def shaped(self) -> StackedData:
        """Return the shapes of all samples held at once."""
        source = self.source
        assert source is not None
        longest = int(padded_sizes(source.sizes).max())

        def shape(leaf: Any) -> Any:
            return jax.ShapeDtypeStruct((len(source.sizes), longest, *leaf.shape[1:]), leaf.dtype)

        return StackedData(jax.tree.map(shape, source.like), self.sizes, self.numbers)

    def each(self, function, *rows):
        """Apply the function to groups of clients, which are read one after the other."""
        if self.here is not None and self.asked == self._everyone():
            return self.here.each(function, *rows)
        return self.in_groups(lambda part, *rows: part.each(function, *rows), *rows)

    def in_groups(self, function, *rows):
        """Return `function(part, *rows)` of groups of clients and their rows, for all clients."""
        source, number = self.source, self.sizes.shape[0]
        if source is None or not is_concrete((rows, self.sizes, jnp.zeros(()))):
            raise _not_here("those of all are asked for", self._everyone() or None)
        program = jax.jit(function)
        groups = np.split(np.arange(number), range(_AT_ONCE, number, _AT_ONCE))
        read = ahead((partial(source.rows, group) for group in groups), source.prefetch)
        parts = [
            program(
                jax.device_put(part), *jax.tree.map(lambda leaf, group=group: leaf[group], rows)
            )
            for group, part in zip(groups, read, strict=True)
        ]
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)

    def take(self, clients):
        """Return the samples that are here, of the clients of the round; else read them."""
        known = tuple(np.asarray(clients).tolist()) if is_concrete(clients) else None
        if self.here is not None:
            if self.asked == known and clients.shape == self.here.sizes.shape:
                return self.here
            if self.asked == self._everyone():
                return self.here.take(clients)
        if self.source is None or known is None or not is_concrete(jnp.zeros(())):
            raise _not_here("those of some others are asked for", known)
        return jax.device_put(self.source.rows(np.asarray(clients)))

    def _everyone(self) -> tuple[int, ...]:
        """Return the numbers of all clients, where a program may hold the samples of all."""
        number = self.sizes.shape[0]
        return tuple(range(number)) if number <= _AT_ONCE else ()


def shaped(problem: Any) -> Any:
    """Return a problem with the shapes of its samples, where they are on the host."""
    return replace(problem, data=problem.data.shaped()) if _on_host(problem.data) else problem


def in_groups(problem: Any, function: Any) -> Any:
    """Return `function(problem)`; by groups of clients where their samples are on the host."""
    data = problem.data
    if not _on_host(data):
        return function(problem)

    def of_group(part: StackedData, clients: jax.Array) -> Any:
        return function(replace(problem, data=data.holding(part)).take(clients))

    return data.in_groups(of_group, data.numbers)


def _on_host(data: Any) -> bool:
    """Return whether data are those of clients whose samples are on the host."""
    return isinstance(data, StreamedData) and data.source is not None


def client_at(clients: Any, number: int) -> Any:
    """Return the samples of a client, from a function, a list or a stacked pytree."""
    if callable(clients):
        return clients(number)
    if isinstance(clients, list):
        return clients[number]
    return jax.tree.map(lambda leaf: leaf[number], clients)


def streamed_data(clients: Any, sizes: np.ndarray, like: Any, prefetch: int) -> StreamedData:
    """Return the data of clients whose samples have been checked."""
    sizes = sizes.astype(np.int32)
    numbers = jnp.arange(sizes.size, dtype=jnp.int32)
    return StreamedData(jnp.asarray(sizes), numbers, None, Source(clients, sizes, like, prefetch))


def _not_here(why: str, clients: tuple[int, ...] | None) -> NotHereError:
    error = NotHereError(
        "is streamed from the host, so that a program has the samples of the clients that a round "
        f"draws, but {why}",
        argument="data",
        remedy="compute it outside of jax.jit, take a method on a star, or hold all data at once",
    )
    error.clients = clients
    return error


def _as_numpy(leaf: Any) -> np.ndarray:
    return leaf if isinstance(leaf, np.ndarray) else np.asarray(leaf)


def _memory_map(array: Any) -> mmap.mmap | None:
    """Return the memory map that an array is a view of; None where it holds changes of its own."""
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap) and array.mode == "c":
            return None
        array = array.base
    return array if isinstance(array, mmap.mmap) else None
