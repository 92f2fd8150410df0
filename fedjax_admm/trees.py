"""Trees of nodes: the clients are the leaves, below edge servers and the cloud.

Level 0 is the root (the cloud); a node's level is its distance from it. A tree of depth 1 is a star
(clients and one server), depth 2 has one layer of edge servers, and so on. Servers have any numbers
of children, and clients may hang at different levels.

    star(5)                                5 clients at the cloud
    from_counts([50, 50, 20])              3 edge servers with 50, 50 and 20 clients
    from_counts([[4, 4], [4, 4, 2]])       2 regions with 2 and 3 edge servers: depth 3
    from_nested([[0, 2], [1, 3], 4])       the same by client numbers; client 4 is at the cloud
    from_parents([-1, 0, 0, 1, 1, 2])      the parent of every node, -1 for the root
"""

from collections.abc import Sequence
from dataclasses import field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import count, instance, one_line, refuse, whole_numbers
from fedjax_admm._plots import plot_tree
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.devices import clients_axis
from fedjax_admm.lanes import computed_once

__all__ = ["Tree", "from_counts", "from_nested", "from_parents", "star"]


def __dir__() -> list[str]:
    return __all__


@pytree_dataclass
class Tree:
    """The parent of every node; build it with the functions of this module.

    Servers are numbered level by level, the root first; within a level by their parent's place,
    then as they were given. A server's children are clients, servers of the next level, or both.

    Where all servers of a level have equally many children, one server's after the other's, `each`
    says how many. Sums then have an axis of their own, which is faster than rows in any order. It
    is part of the structure: trees that are to be stacked have it replaced by zeros.
    """

    client_parents: jax.Array  # shape=(clients,), int32: number of the server above each client
    server_parents: tuple[jax.Array, ...]  # one per level from 1, shape=(servers of that level,),
    # int32: place of the parent within the level above
    level_sizes: tuple[int, ...] = field(metadata={"static": True})  # servers per level, root first
    each: tuple[int, ...] = field(metadata={"static": True})  # clients of each server of the last
    # level, then servers below each server of level 0, 1, ...; 0 where groups are not equal, not in
    # order, or not all at that level

    spread: ClassVar[tuple[str, ...]] = ("client_parents",)

    def plot(self, *, axes: Any = None) -> Any:
        """Draw the tree with matplotlib: servers above the middle of their children.

        Args:
          axes: what to draw into; new ones if None.
        """
        return plot_tree(self, axes)

    @property
    def num_clients(self) -> int:
        """Return the number of leaves."""
        return self.client_parents.shape[0]

    @property
    def num_servers(self) -> int:
        """Return the number of internal nodes, the root included."""
        return sum(self.level_sizes)

    @property
    def num_links(self) -> int:
        """Return the number of nodes that have a parent."""
        return self.num_clients + self.num_servers - 1

    @property
    def depth(self) -> int:
        """Return the number of levels of servers: 1 for a star, 2 with edge servers."""
        return len(self.level_sizes)

    @property
    def link_offsets(self) -> list[int]:
        """Return where each level of servers begins in a mask over links: clients come first."""
        sizes = [self.num_clients, *self.level_sizes[1:-1]]
        return np.cumsum(sizes).tolist() if self.depth > 1 else []

    def by_level(self, per_server: jax.Array) -> list[jax.Array]:
        """Split an array over all servers, shape (servers, ...), into one per level, root first."""
        ends = np.cumsum(self.level_sizes).tolist()
        starts = [0, *ends[:-1]]
        return [per_server[start:end] for start, end in zip(starts, ends, strict=True)]

    def above_clients(self, values: Sequence[jax.Array]) -> jax.Array:
        """Return what the parent of every client has.

        Args:
          values: one array per level of servers, root first, shape (servers of that level, ...).

        Returns:
          Shape (clients, ...).
        """
        each = self._each(0)
        if each:
            return _repeated(values[-1], each)
        return jnp.concatenate(values)[self.client_parents]

    def above_servers(self, values: jax.Array, level: int) -> jax.Array:
        """Return what the parent of every server of a level has.

        Args:
          values: shape (servers of the level above, ...).
          level: from 1.

        Returns:
          Shape (servers of that level, ...).
        """
        each = self._each(level)
        return _repeated(values, each) if each else values[self.server_parents[level - 1]]

    def sum_of_clients(self, values: jax.Array) -> list[jax.Array]:
        """Add up the clients of every server.

        Args:
          values: shape (clients, ...).

        Returns:
          One array per level of servers, root first, shape (servers of that level, ...); zero
          where a server has no clients of its own.
        """
        each = self._each(0)
        if not each:
            total = jax.ops.segment_sum(values, self.client_parents, num_segments=self.num_servers)
            return self.by_level(total)
        *above, _ = self.level_sizes
        none = [jnp.zeros((size, *values.shape[1:]), values.dtype) for size in above]
        return [*none, _sum_of_each(values, each)]

    def sum_of_servers(self, values: jax.Array, level: int) -> jax.Array:
        """Add up the servers of a level into their parents, one level above.

        Args:
          values: shape (servers of that level, ...).
          level: from 1.

        Returns:
          Shape (servers of the level above, ...); zero where a server has no servers below it.
        """
        each = self._each(level)
        if each:
            return _sum_of_each(values, each)
        parents = self.server_parents[level - 1]
        return jax.ops.segment_sum(values, parents, num_segments=self.level_sizes[level - 1])

    def _each(self, level: int) -> int:
        """Return `each` of a level, of clients at level 0; 0 where devices share the clients."""
        return self.each[level] if clients_axis() == 1 else 0

    def clients_below(self) -> list[jax.Array]:
        """Return how many clients each server has below it: one int32 array per level."""
        below = self.sum_of_clients(jnp.ones(self.num_clients, jnp.int32))
        for level in range(self.depth - 1, 0, -1):
            below[level - 1] = below[level - 1] + self.sum_of_servers(below[level], level)
        return below

    def children(self) -> list[jax.Array]:
        """Return how many children each server has: one int32 array per level."""
        number = self.sum_of_clients(jnp.ones(self.num_clients, jnp.int32))
        for level in range(1, self.depth):
            ones = jnp.ones(self.level_sizes[level], jnp.int32)
            number[level - 1] = number[level - 1] + self.sum_of_servers(ones, level)
        return number


def star(clients: int) -> Tree:
    """Build the tree of depth 1: every client at the cloud."""
    return _tree(np.zeros(count("clients", clients), np.int32), [], (1,))


def from_counts(counts: Sequence[Any]) -> Tree:
    """Build a tree from the number of clients of each edge server.

    Args:
      counts: numbers of clients, one per edge server: `[50, 50, 20]`; a list in place of a number
        is a server with edge servers of its own: `[[4, 4], [4, 4, 2]]`. Clients are numbered
        from left to right.
    """
    kind, remedy = "must be a list of numbers of clients", "for one server, use star"
    refuse(not _is_list(counts), "counts", kind, counts, remedy=remedy)
    levels: list[list[int]] = []  # of every server of a level, from 1: the place of its parent
    holders: list[tuple[int, int]] = []  # level and place of the servers with clients
    numbers: list[int] = []  # of these clients

    def add(parts: Sequence[Any], level: int, parent: int, name: str) -> None:
        _check_filled(name, parts)
        if level == len(levels):
            levels.append([])
        for i, part in enumerate(parts):
            place = len(levels[level])
            levels[level].append(parent)
            if _is_list(part):
                add(part, level + 1, place, f"{name}[{i}]")
            else:
                holders.append((level, place))
                numbers.append(count(f"{name}[{i}]", part))

    add(counts, 0, 0, "counts")
    sizes = (1, *map(len, levels))
    first = np.cumsum(sizes)  # the number of each level's first server, from level 1
    level, place = np.array(holders).T
    # By counts, and not client by client: a million clients are no list.
    parents = np.repeat((first[level] + place).astype(np.int32), numbers)
    return _tree(parents, levels, sizes)


def from_nested(nested: Sequence[Any]) -> Tree:
    """Build a tree from nested lists of client numbers.

    Args:
      nested: the children of the cloud; a number is a client (a row of the data, from 0), a list
        is a server with those children. `[[0, 2], [1, 3], 4]` has two edge servers, and client 4
        directly at the cloud.
    """
    refuse(not _is_list(nested), "nested", "must be a list of lists of client numbers", nested)
    parents: list[int] = [-1]
    clients: list[tuple[int, int]] = []  # the number of each client, and its node

    def add(children: Sequence[Any], parent: int, name: str) -> None:
        _check_filled(name, children)
        for i, child in enumerate(children):
            node = len(parents)
            parents.append(parent)
            if _is_list(child):
                add(child, node, f"{name}[{i}]")
            else:
                clients.append((count(f"{name}[{i}]", child, at_least=0), node))

    add(nested, 0, "nested")
    clients.sort()
    numbers = [number for number, _ in clients]
    told = f"must number its clients from 0 to {len(numbers) - 1}, each once"
    refuse(numbers != list(range(len(numbers))), "nested", told, numbers)
    return from_parents(parents, [node for _, node in clients])


def from_parents(parents: Sequence[int], clients: Sequence[int] | None = None) -> Tree:
    """Build a tree from the parent of every node.

    Args:
      parents: the number of each node's parent, -1 for the root; nodes in any order.
      clients: the nodes that have data, in the order of the data's rows; all nodes without
        children, in increasing order, if None.
    """
    most = np.size(parents) - 1
    numbers = np.asarray(whole_numbers("parents", parents, at_least=-1, at_most=most))
    roots = np.flatnonzero(numbers == -1)
    lone = roots.size == 1 and numbers.size > 1
    refuse(not lone, "parents", "must mark one root with -1, and have a node below it", parents)
    offspring = _offspring(numbers)
    levels = _levels(int(roots[0]), offspring)
    unreached = sorted(set(range(numbers.size)) - {node for level in levels for node in level})
    told = f"must lead every node to the root, which nodes {unreached} never reach"
    refuse(unreached, "parents", told, remedy="break the cycle")
    leaves = [node for node in range(numbers.size) if not offspring[node]]
    ordered = leaves if clients is None else np.asarray(clients).tolist()
    told = f"must name every node without children ({one_line(leaves)}), each once"
    refuse(sorted(ordered) != leaves, "clients", told, ordered)
    return _assemble(numbers, levels, ordered, offspring)


def check_clients(tree: Tree, clients: int) -> None:
    """Check that a tree has as many leaves as there are clients with data.

    Raises:
      InputError: it is no tree, or has more or fewer leaves than there are clients.
    """
    instance("tree", tree, Tree, "a tree of fedjax_admm.trees")
    told = f"must have one leaf per client of the data ({clients}), but it has {tree.num_clients}"
    refuse(tree.num_clients != clients, "tree", told)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _check_filled(name: str, children: Sequence[Any]) -> None:
    refuse(not children, name, "must hold at least one client, but it is empty")


def _offspring(parents: np.ndarray) -> list[list[int]]:
    """Return the children of every node."""
    children: list[list[int]] = [[] for _ in parents]
    for node, parent in enumerate(parents.tolist()):
        if parent >= 0:
            children[parent].append(node)
    return children


def _levels(root: int, offspring: list[list[int]]) -> list[list[int]]:
    """Return the nodes that the root reaches, level by level."""
    levels, level = [], [root]
    while level:
        levels.append(level)
        level = [child for node in level for child in offspring[node]]
    return levels


def _assemble(
    parents: np.ndarray, levels: list[list[int]], clients: list[int], offspring: list[list[int]]
) -> Tree:
    server_levels = [[node for node in level if offspring[node]] for level in levels]
    server_levels = [level for level in server_levels if level]
    number = {node: i for i, node in enumerate(node for level in server_levels for node in level)}
    place = {node: i for level in server_levels for i, node in enumerate(level)}
    return _tree(
        [number[int(parents[node])] for node in clients],
        [[place[int(parents[node])] for node in level] for level in server_levels[1:]],
        tuple(len(level) for level in server_levels),
    )


def _tree(clients: Any, servers: Sequence[Any], sizes: tuple[int, ...]) -> Tree:
    """Return a tree of numbers of parents, of the clients and of each level of servers from 1."""
    clients, *servers = (np.asarray(parents, np.int32) for parents in (clients, *servers))
    last = np.arange(sum(sizes) - sizes[-1], sum(sizes))
    above = [last, *map(np.arange, sizes[:-1])]
    each = tuple(map(_equal, (clients, *servers), above))
    return Tree(jnp.asarray(clients), tuple(map(jnp.asarray, servers)), sizes, each)


def _equal(children: np.ndarray, parents: np.ndarray) -> int:
    """Return how many children each parent has, one's after the other's; 0 if not equally many."""
    each = children.size // parents.size
    return each if np.array_equal(children, np.repeat(parents, each)) else 0


def _repeated(values: jax.Array, each: int) -> jax.Array:
    """Return every row so many times, one row's copies after the other's."""
    shape = (len(values), each, *values.shape[1:])
    return jnp.broadcast_to(values[:, None], shape).reshape(-1, *values.shape[1:])


def _sum_of_each(values: jax.Array, each: int) -> jax.Array:
    """Return the sums of groups of so many rows, at most ten at a time where that is possible.

    XLA reads ten rows at once in order, and more of them number by number, or in windows.
    """
    while each > 1:
        part = max((size for size in range(2, 11) if each % size == 0), default=each)
        groups = values.reshape(-1, part, *values.shape[1:])
        values = computed_once(jnp.sum(groups, 1, dtype=values.dtype))
        each //= part
    return values
