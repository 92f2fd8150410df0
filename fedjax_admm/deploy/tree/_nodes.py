"""The nodes of a tree: their numbers, the fields of their messages, and their keys."""

from typing import Any, NamedTuple

import jax
import numpy as np

from fedjax_admm import trees
from fedjax_admm._checks import instance
from fedjax_admm._run._estimates import in_dtype_of
from fedjax_admm.deploy._links import Fields, check_deployable, number
from fedjax_admm.deploy._messages import digest_of, fields_of
from fedjax_admm.deploy.tree._work import code_key
from fedjax_admm.messages import Flag
from fedjax_admm.solvers._tree import TreeSolver

TREE = (TreeSolver, "a solver on a tree, such as solvers.hierarchical_admm(...)")


class Place(NamedTuple):
    """The place of a node with a parent."""

    level: int  # 0 for clients, and from 1 for servers
    row: int  # among the nodes of the level
    size: int  # how many nodes the level has
    parent: int  # its number; -1 for the root


def places(tree: trees.Tree) -> list[Place]:
    """Return the place of every node with a parent, in the order of their numbers."""
    first = tree.num_clients - 1  # a server's number is this more than that within the tree
    found = [
        Place(0, i, tree.num_clients, parent + first if parent else -1)
        for i, parent in enumerate(np.asarray(tree.client_parents).tolist())
    ]
    start = 0  # the number of the first server of the level above, within the tree
    for level, parents in enumerate(tree.server_parents, 1):
        above = [start + parent for parent in np.asarray(parents).tolist()]
        found += [
            Place(level, row, len(above), parent + first if parent else -1)
            for row, parent in enumerate(above)
        ]
        start += tree.level_sizes[level - 1]
    return found


class Node:
    """What all nodes of a tree have."""

    def __init__(self, solver: Any, tree: trees.Tree, model: Any, key: jax.Array, own: int) -> None:
        check_deployable(solver, *TREE)
        instance("tree", tree, trees.Tree, "a tree of fedjax_admm.trees")
        solver.participants(_OnTree(tree))
        solver.check(_OnTree(tree), 0)
        self.solver, self.tree, self.key, self.number = in_dtype_of(solver, [model]), tree, key, own
        self._places = places(tree)
        self._under: dict[int, list[int]] = {i: [] for i in range(len(self._places))}
        for i, place in enumerate(self._places):  # the numbers of all nodes below each
            above = place.parent
            while above >= 0:
                self._under[above].append(i)
                above = self._places[above].parent
        self._shape, self._dtype = model.shape, model.dtype
        self._digest = digest_of((self.solver, tree), tree.num_clients, key)

    def _model_fields(self) -> Fields:
        return Fields(fields_of(self.solver.exchange.down, [self._shape], self._dtype), [])

    def _upload_fields(self, channel: Any, own: int) -> Fields:
        """Return the fields of the message up of a node, in a work or before the first one."""
        codes = [number(self._shape, self._dtype)]
        rest: list[Any] = [number((), self._dtype)]
        if channel is not None:
            codes = fields_of(channel, [self._shape], self._dtype)
            rest.append(Flag((self._passes(own), len(self._under[own]))))
        return Fields(codes, rest)

    def _passes(self, own: int) -> int:
        """Return how many passes one work of a node has."""
        return self.solver.passes if self._places[own].parent < 0 else 1

    def _key(self, way: int, own: int, index: int) -> jax.Array:
        """Return the key of a node's code in a pass: 0 for its way up, 1 for that down."""
        level, row, size, _ = self._places[own]
        arguments = (np.int32(x) for x in (index, level, row))
        return code_key(
            *(self.solver, self.key, *arguments), way=way, depth=self.tree.depth, size=size
        )


class _OnTree(NamedTuple):
    """What a solver reads of a problem to check that it fits."""

    tree: trees.Tree
