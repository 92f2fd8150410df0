"""A tree: its root, clients, and middle nodes on machines of their own.

Nodes are numbered as the columns of participation masks are: the clients, then the servers level by
level, without the root. Time counts passes; one work of a child of the root is a round, and one of
another node is a pass. A node's message to its parent holds its upload, and which nodes below it
have been heard in the passes of this work.

A middle node is a server of its children and a client of its parent:

    work(data):  reads the parent's model
                 in every pass:  its children work on its model of before the pass;
                                 servers(level, nodes, received, above)
                 returns the upload

A parent that closes a round, or a pass, without a node makes it take its work back, and so do the
nodes below it: the first message of the next work names the state from which they go on.
"""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from fedjax_admm import trees
from fedjax_admm._checks import finite_array, instance
from fedjax_admm.capabilities import first_model
from fedjax_admm.deploy import _messages as wire, _tree_work as work
from fedjax_admm.deploy._asking import Children
from fedjax_admm.deploy._endpoint import Child, Parent, check_problem, restored
from fedjax_admm.deploy._messages import Kind, Message
from fedjax_admm.deploy._tree_work import Below, NodeState
from fedjax_admm.messages import Flag, Identity
from fedjax_admm.solvers import TreeSolver

TREE = (TreeSolver, "a solver on a tree, such as solvers.hierarchical_admm(...)")


class Place(NamedTuple):
    """The place of a node with a parent."""

    level: int  # 0 for clients, and from 1 for servers
    row: int  # among the nodes of the level
    size: int  # how many nodes the level has
    parent: int  # its number; -1 for the root


class Links:
    """The links of a tree: the places of its nodes, the fields of their messages, and their keys.

    Args:
      solver: on a tree.
      tree: of `fedjax_admm.trees`.
      model: of which the shape (dim,) and the dtype are used.

    Raises:
      InputError: the solver is not one on this tree.
    """

    def __init__(self, solver: TreeSolver, tree: trees.Tree, model: jax.Array) -> None:
        instance("solver", solver, *TREE)
        instance("tree", tree, trees.Tree, "a tree of fedjax_admm.trees")
        solver.participants(_OnTree(tree))
        solver.check(_OnTree(tree), 0)
        self.solver, self.tree, self.places = solver, tree, places(tree)
        self.shape, self.dtype = model.shape, model.dtype
        self.under: list[list[int]] = [[] for _ in self.places]  # all nodes below each
        for i, place in enumerate(self.places):
            while place.parent >= 0:
                self.under[place.parent].append(i)
                place = self.places[place.parent]

    def model(self, channel: Any) -> list[Any]:
        """Return the fields of a model on its way down."""
        return wire.fields_of(channel, [self.shape], self.dtype)

    def upload(self, own: int, channel: Any) -> list[Any]:
        """Return the fields of the upload of a node."""
        return [*wire.fields_of(channel, [self.shape], self.dtype), wire.number((), self.dtype)]

    def heard(self, own: int) -> Flag:
        """Return the field of who was heard below a node, in the passes of one work."""
        return Flag((self.passes(own), len(self.under[own])))

    def passes(self, own: int) -> int:
        """Return how many passes one work of a node has."""
        return self.solver.passes if self.places[own].parent < 0 else 1

    def key(self, key: jax.Array, own: int, index: int, *, up: bool) -> jax.Array:
        """Return the key of a node's code: on its way up in a work that begins with a pass."""
        level, row, size, _ = self.places[own]
        index += (self.passes(own) - 1) * up
        arguments = (np.int32(x) for x in (index, level, row))
        return work.code_key(self.solver, key, *arguments, up=up, depth=self.tree.depth, size=size)


class _OnTree(NamedTuple):
    """What a solver reads of a problem to check that it fits."""

    tree: trees.Tree


def places(tree: trees.Tree) -> list[Place]:
    """Return the place of every node with a parent, in the order of their numbers."""
    first = tree.num_clients - 1  # a server's number is this more than that within the tree
    found = []
    for level, parents in enumerate((tree.client_parents, *tree.server_parents)):
        above = sum(tree.level_sizes[: level - 1]) if level else 0
        for row, parent in enumerate((np.asarray(parents) + above).tolist()):
            found.append(Place(level, row, len(parents), parent + first if parent else -1))
    return found


class _TreeChild(Child):
    """A node as its parent sees it: a client or a middle node."""

    problem: Any = None  # of a client

    def __init__(self, solver: Any, model: Any, number: int, tree: trees.Tree, key: Any) -> None:
        self._links = Links(solver, tree, model)
        super().__init__(number, TREE, solver, [model], key, tree.num_clients, tree)
        self.passes, self.passes_of_work = solver.passes, self._links.passes(number)
        level, row, size, _ = self._links.places[number]
        if level == 0:
            row, size = 0, 1  # in the problem of a client
        self._row, self._at = np.int32(row), {"level": level, "size": size}

    def _begin(self, largest: np.ndarray, body: bytes) -> bytes:
        (model,) = wire.from_body(self._links.model(Identity()), body)
        below = self._opened(model)
        state, upload = work.start(self.solver, self.problem, model, self._row, **self._at)
        self._states = {0: state._replace(below=below)}
        sent = upload.weighted if self.solver.exchange.plain else upload.values
        fields = self._links.upload(self.number, Identity())
        return wire.to_body(fields, [sent[0], upload.weights[0]])

    def _play(self, message: Message, state: NodeState) -> tuple[NodeState, bytes]:
        links, channel, index = self._links, self.solver.exchange.down, message.round
        key = links.key(self.key, self.number, index, up=False)
        (code,) = wire.from_body(links.model(channel), message.body, [key])
        above, (down,) = wire.decoded(channel, [code], [state.down], [links.shape], links.dtype)
        state, mask = self._pass(message, state._replace(down=down), np.stack(above))
        key = links.key(self.key, self.number, index, up=True)
        sent = work.send(self.solver, state.clients, state.up, key, self._row, **self._at)
        clients, up, code, weight = sent
        fields = [*links.upload(self.number, self.solver.exchange.up), links.heard(self.number)]
        return state._replace(clients=clients, up=up), wire.to_body(fields, [code, weight, mask])

    @property
    def _like(self) -> NodeState:
        start = partial(work.start, **self._at)
        model = jax.ShapeDtypeStruct(self._links.shape, self._links.dtype)
        state, _ = jax.eval_shape(start, self.solver, self.problem, model, self._row)
        return state._replace(below=self._below)

    # Of a node with children:

    _below: Any = ()  # the structure of what it remembers of them

    def _opened(self, model: np.ndarray) -> Any:
        """Return what it remembers of them first."""
        return ()

    def _pass(self, message: Message, state: NodeState, above: Any) -> tuple[Any, np.ndarray]:
        """Return the state after the passes of a work, and who was heard below."""
        raise NotImplementedError


class TreeClient(_TreeChild):
    """A client of a tree, with its own problem.

    Args:
      solver: on a tree, as all nodes have it.
      problem: of this client alone, `num_clients == 1`.
      number: which client it is, from 0.
      tree: of `fedjax_admm.trees`.
      key: of the run, as all nodes have it. It is no secret.

    Raises:
      InputError: the problem has several clients, or not what the solver needs; or the solver is
        not one on this tree, or simulates what happens in earnest here (an attack, a delay).
    """

    def __init__(
        self, solver: TreeSolver, problem: Any, number: int, tree: trees.Tree, key: jax.Array
    ) -> None:
        if getattr(problem, "tree", ()) is None:
            problem = replace(problem, tree=trees.star(1))
        check_problem(solver, problem)
        super().__init__(solver, first_model(problem), number, tree, key)
        self.problem = problem

    def _pass(self, message: Message, state: NodeState, above: Any) -> tuple[Any, np.ndarray]:
        passes = self.passes_of_work
        clients = work.client_work(self.solver, self.problem, state.clients, above, passes=passes)
        return state._replace(clients=clients), np.zeros((passes, 0), bool)


class _TreeParent(Parent):
    """A server of the tree as its children see it: the root, or that in a middle node."""

    def __init__(
        self, solver: TreeSolver, model: jax.Array, tree: trees.Tree, key: Any, number: int = -1
    ) -> None:
        model = finite_array("model", model, (None,))
        self._links = Links(solver, tree, model)
        passes = solver.passes if number < 0 else 1
        numbers = [i for i, place in enumerate(self._links.places) if place.parent == number]
        mask = (passes, len(self._links.places))
        super().__init__(numbers, mask, TREE, solver, [model], key, tree.num_clients, tree)
        self.number, self.passes = number, passes
        self.model = model  # shape=(dim,): what the children are to read
        rows = [np.zeros((len(numbers), *x), model.dtype) for x in (model.shape, ())]
        self._below: Any = jax.eval_shape(work.open_links, self.solver, model, *rows)

    def _greet(self) -> bytes:
        return wire.to_body(self._links.model(Identity()), [self.model])

    def _ready(self, message: Message) -> Any:
        return wire.from_body(self._links.upload(message.client, Identity()), message.body)

    def _open(self, came: dict[int, Any]) -> None:
        sent, weights = (np.stack(each) for each in zip(*map(came.get, self.numbers), strict=True))
        self._below = work.open_links(self.solver, self.model, sent, weights)

    def _encoded(self) -> dict[int, bytes]:
        fields = self._links.model(self.solver.exchange.down)
        codes = work.codes_down(self.solver, self.model, self._below.down, self._keys())
        return wire.rows_to_bodies(fields, [codes], self.numbers)

    def _receive(self, message: Message) -> Any:
        """Return what a child sends, decoded, and what its link remembers then."""
        links, child, channel = self._links, message.client, self.solver.exchange.up
        fields = [*links.upload(child, channel), links.heard(child)]
        key = links.key(self.key, child, message.round, up=True)
        code, weight, mask = wire.from_body(fields, message.body, [key])
        row = self.numbers.index(child)
        link = jax.tree.map(lambda leaf: np.asarray(leaf)[row], self._below.up)
        (value,), (link,) = wire.decoded(channel, [code], [link], [links.shape], links.dtype)
        return (value, weight, link), mask

    def _close(self, came: dict[int, Any]) -> np.ndarray:
        below, mask = self._below, np.zeros(self.mask, bool)
        for i, (_, inside) in came.items():
            mask[:, i] = True
            mask[:, self._links.under[i]] = inside
        rows = {self.numbers.index(i): row for i, (row, _) in came.items()}
        sent, weights, up = wire.with_rows((below.sent, below.weights, below.up), rows)
        below = below._replace(sent=sent, weights=weights, up=up)
        active = np.isin(self.numbers, list(came))
        self.model, self._below = self._stepped(below, active, self._keys())
        self._bodies = {}
        return mask

    def _keys(self) -> jax.Array:
        """Return the keys of the codes down in this pass, for every child."""
        keys = [self._links.key(self.key, i, self._pass, up=False) for i in self.numbers]
        return work.stack(keys)

    def _stepped(self, below: Below, active: np.ndarray, keys: jax.Array) -> tuple[Any, Below]:
        """Return the model after a round, or a pass, and what is remembered of the children."""
        raise NotImplementedError


class TreeServer(_TreeParent):
    """The root of a tree, which holds no client's data.

    Args:
      solver: on a tree, as all nodes have it.
      model: the first model, shape (dim,).
      tree: of `fedjax_admm.trees`.
      key: of the run, as all nodes have it.

    Raises:
      InputError: the solver is not one on this tree, or simulates what happens in earnest here (an
        attack, a delay).
    """

    @property
    def estimate(self) -> jax.Array:
        """Return the root's model, shape (dim,)."""
        return self.model

    def estimate_of(self, state: Any) -> jax.Array:
        """Return the root's model in the state of a simulation, to compare it with `estimate`."""
        return state.root

    def _stepped(self, below: Below, active: np.ndarray, keys: jax.Array) -> tuple[Any, Below]:
        return work.root_work(self.solver, self.model, below, active, keys)

    def _pack(self) -> tuple[Any, list[Any]]:
        return (self.model, self._below), []

    def _unpack(self, leaves: list[np.ndarray], numbers: list[Any]) -> None:
        like = jax.tree.structure((self.model, self._below))
        self.model, self._below = restored(like, leaves)


class Middle(_TreeChild):
    """A server of a tree with a parent: it has the methods of a client, and asks its children.

    Args:
      solver: on a tree, as all nodes have it.
      model: the first model, shape (dim,).
      number: which node it is: the clients come first, then the servers level by level.
      tree: of `fedjax_admm.trees`.
      key: of the run, as all nodes have it. It is no secret.
      below: how it reaches its children.

    Raises:
      InputError: the solver is not one on this tree, or simulates what happens in earnest here (an
        attack, a delay).
    """

    def __init__(
        self,
        solver: TreeSolver,
        model: jax.Array,
        number: int,
        tree: trees.Tree,
        key: jax.Array,
        below: Children,
    ) -> None:
        model = finite_array("model", model, (None,))
        super().__init__(solver, model, number, tree, key)
        self.server = _MiddleServer(self.solver, model, tree, key, number)
        self.children = below
        self._has_worked = False  # in this process, in which children compile first

    def hello(self) -> bytes:
        """Return the message that opens a deployment, once all children have sent theirs."""
        self.server.expect(Kind.HELLO, {})
        self.children.hello(self.server)
        return super().hello()

    def finish(self, data: bytes) -> None:
        """Read the message after the last round, and hand it on.

        Raises:
          MessageError: as `work`.
        """
        super().finish(data)
        last = self._read(data, Kind.DOWN)
        self.server.go_on(self._states[last.heard], last.round)
        self.children.finish(self.server)

    def _opened(self, model: np.ndarray) -> Any:
        first: Any = model
        self.server = _MiddleServer(self.solver, first, self._links.tree, self.key, self.number)
        self.server.expect(Kind.HELLO, dict.fromkeys(self.server.numbers, 0.0))
        self.children.begin(self.server)
        return self.server.remembered

    def _pass(self, message: Message, state: NodeState, above: Any) -> tuple[Any, np.ndarray]:
        server, children = self.server, self.children
        server.go_on(state, message.round, above)
        for _ in range(self.passes_of_work):
            children.report(children.round(server, first=not self._has_worked))
            self._has_worked = True
        mask = np.concatenate(server.masks)[:, self._links.under[self.number]]
        return state._replace(clients=server.nodes, below=server.remembered), mask

    @property
    def _below(self) -> Any:
        return self.server.remembered


class _MiddleServer(_TreeParent):
    """A middle node as its children see it; a round is a pass here."""

    nodes: Any  # of the solver, with one row
    above: Any  # shape=(1, dim): the parent's model

    def go_on(self, state: NodeState, index: int, above: Any = None) -> None:
        """Open a pass in a state, in which the parent's model is `above`."""
        self.first, self.masks, self.nodes, self.above = index, [], state.clients, above
        self._below, heard = state.below
        self._heard = dict(zip(self.numbers, np.asarray(heard).tolist(), strict=True))
        self.model, self._bodies = self.solver.model(self.nodes)[0], {}
        self.expect(Kind.UP, {})

    @property
    def remembered(self) -> tuple[Below, np.ndarray]:
        """Return what is remembered of the children, and when they were heard."""
        return self._below, np.array([self._heard[i] for i in self.numbers])

    def _stepped(self, below: Below, active: np.ndarray, keys: jax.Array) -> tuple[Any, Below]:
        level, row, size, _ = self._links.places[self.number]
        arguments = (self.solver, self.nodes, below, active, keys, self.above, np.int32(row))
        self.nodes, model, below = work.server_work(*arguments, level=level, size=size)
        return model, below
