"""The nodes of a tree on machines of their own: the root, clients, and middle nodes.

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
nodes below it: the first message of the next work names the state from which they go on. A node
therefore keeps the state of the last work that its parent has heard, and that of the beginning of
the round.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm import trees
from fedjax_admm._checks import InputError, finite_array, instance
from fedjax_admm._run import in_dtype_of, round_keys
from fedjax_admm._shown import short_repr
from fedjax_admm.capabilities import check_capabilities, first_model
from fedjax_admm.deploy._asking import Ask, Round, ask_all, ask_round
from fedjax_admm.deploy._client import check_own
from fedjax_admm.deploy._files import load, save
from fedjax_admm.deploy._links import Fields, check_deployable, decoded, keys_of, number
from fedjax_admm.deploy._messages import (
    Kind,
    Message,
    MessageError,
    check_sender,
    digest_of,
    fields_of,
    from_body,
    read,
    to_body,
    write,
)
from fedjax_admm.deploy._record import Record
from fedjax_admm.messages import ChannelState, Flag
from fedjax_admm.participation import where_active
from fedjax_admm.solvers._messages import stacked
from fedjax_admm.solvers._tree import (
    HierarchyState,
    TreeExchange,
    TreeSolver,
    TreeUpload,
)

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
    of_clients = [int(parent) for parent in tree.client_parents]
    found = [
        Place(0, i, tree.num_clients, parent + first if parent else -1)
        for i, parent in enumerate(of_clients)
    ]
    start = 0  # the number of the first server of the level above, within the tree
    for level, parents in enumerate(tree.server_parents, 1):
        above = [start + int(parent) for parent in parents]
        found += [
            Place(level, row, len(above), parent + first if parent else -1)
            for row, parent in enumerate(above)
        ]
        start += tree.level_sizes[level - 1]
    return found


@short_repr
class Below(NamedTuple):
    """What a server remembers of its children, stacked over them."""

    sent: jax.Array  # shape=(children, dim): the last uploads; times the weights where messages
    # are left as they are
    weights: jax.Array  # shape=(children,)
    up: Any  # of the channel up at the receiver
    down: Any  # of the channel down at the sender
    last: jax.Array  # shape=(1, dim): what the aggregator returned last
    heard: jax.Array  # shape=(children,), int32: one more than the pass; 0 for never


@short_repr
class NodeState(NamedTuple):
    """What a node remembers."""

    nodes: Any  # of the solver, with one row; of the root its model, shape (1, dim)
    up: Any  # of the channel up at the sender
    down: Any  # of the channel down at the receiver
    below: Any  # Below; () of a client


class _Node:
    """What all nodes of a tree have."""

    def __init__(self, solver: Any, tree: trees.Tree, model: Any, key: jax.Array, own: int) -> None:
        check_deployable(solver, *TREE)
        instance("tree", tree, trees.Tree, "a tree of fedjax_admm.trees")
        solver.participants(_OnTree(tree))
        solver.check(_OnTree(tree), 0)
        self.solver, self.tree, self.key, self.number = in_dtype_of(solver, [model]), tree, key, own
        self._places = places(tree)
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
            rest.append(Flag((self._passes(own), len(self._under(own)))))
        return Fields(codes, rest)

    def _passes(self, own: int) -> int:
        """Return how many passes one work of a node has."""
        return self.solver.passes if self._places[own].parent < 0 else 1

    def _under(self, own: int) -> list[int]:
        """Return the numbers of all nodes below a node."""
        found: list[int] = []
        for i, place in enumerate(self._places):
            above = place.parent
            while above not in (own, -1):
                above = self._places[above].parent
            if above == own:
                found.append(i)
        return found

    def _key(self, way: int, own: int, index: int) -> jax.Array:
        """Return the key of a node's code in a pass: 0 for its way up, 1 for that down."""
        level, row, size, _ = self._places[own]
        arguments = (jnp.asarray(x, jnp.int32) for x in (index, level, row))
        return _code_key(
            *(self.solver, self.key, *arguments), way=way, depth=self.tree.depth, size=size
        )


class _OnTree(NamedTuple):
    """What a solver reads of a problem to check that it fits."""

    tree: trees.Tree


class _Parent(_Node):
    """A server of the tree as its children see it; the root is one, and so is a middle node."""

    _state: NodeState | None = None
    _index: int = 0  # the pass that is open

    def _begin_parent(self) -> None:
        self.numbers = [i for i, place in enumerate(self._places) if place.parent == self.number]
        self._due = Kind.HELLO
        self._first: dict[int, Any] = {}  # before the first round: what has come, by number
        self._came: dict[int, Any] = {}  # in this pass
        self._bodies: list[bytes] = []  # what every child is to read in this pass
        self.bytes_up = self.bytes_down = 0  # of bodies; a header has `HEADER_BYTES` more

    @property
    def heard(self) -> tuple[int, ...]:
        """Return who has been heard in the pass that is open, or before the first one."""
        return tuple(sorted(self._came if self._due == Kind.UP else self._first))

    def start(self) -> dict[int, bytes]:
        """Return by number the message with the first model, once all have said hello.

        Raises:
          InputError: somebody has not.
        """
        self._complete()
        self._first, self._due = {}, Kind.READY
        body = to_body([number(self._shape, self._dtype)], [self.model])
        return {i: self._write_down(Kind.START, i, body, 0) for i in self.numbers}

    def receive(self, data: bytes, sender: int | None = None) -> int:
        """Take a child's message; return whose it is.

        Args:
          data: the bytes.
          sender: who has sent it, where the transport knows: another's message is refused.

        Raises:
          MessageError: it does not fit; nothing has changed then, and the server can go on.
        """
        message = read(data, self._due, self._digest)
        check_sender(message, sender, self.numbers, self._index, self.heard)
        child = message.client
        if message.kind == Kind.HELLO:
            self._first[child] = None
        elif message.kind == Kind.READY:
            fields = self._upload_fields(None, child)
            self._first[child] = from_body(fields, message.body, [None, None])
        else:
            self._came[child] = self._read_up(message)
            self.bytes_up += len(message.body)
        return child

    def broadcast(self, child: int) -> bytes:
        """Return what a child is to read in the pass that is open.

        Raises:
          InputError: there is no such child, or not all are ready.
        """
        self._complete()
        if child not in self.numbers:
            raise InputError(f"must be one of {self.numbers}", argument="child", value=child)
        state, row = self._state, self.numbers.index(child)
        assert state is not None
        if not self._bodies:
            sent = (self.solver, self._own_model(), state.below.down, self._keys_down())
            codes, fields = jax.tree.map(np.asarray, _codes_down(*sent)), self._model_fields()
            rows = [jax.tree.map(lambda x, i=i: x[i], codes) for i in range(len(self.numbers))]
            self._bodies = [to_body(fields, Fields([code], [])) for code in rows]
        body = self._bodies[row]
        self.bytes_down += len(body)
        return self._write_down(Kind.DOWN, child, body, int(state.below.heard[row]))

    def _complete(self) -> None:
        missing = sorted(set(self.numbers) - set(self._first))
        if self._state is None and missing:
            raise InputError(
                f"has not heard nodes {missing[:10]} yet, and needs all before the first round",
                argument="server",
            )

    def _write_down(self, kind: Kind, child: int, body: bytes, heard: int) -> bytes:
        return write(Message(kind, child, self._index, heard, body), self._digest)

    def _keys_down(self) -> jax.Array:
        """Return the keys of the codes down in this pass, for every child."""
        return jnp.stack([self._key(1, i, self._index) for i in self.numbers])

    def _own_model(self) -> jax.Array:
        """Return the model that goes down, shape (dim,)."""
        raise NotImplementedError

    def _read_up(self, message: Message) -> Any:
        """Return what a child sends, decoded, and what its link remembers then."""
        assert self._state is not None
        child, channel = message.client, self.solver.exchange.up
        fields, last = self._upload_fields(channel, child), message.round + self._passes(child) - 1
        keys = keys_of(fields, [self._key(0, child, last)])
        (code,), (weight, *mask) = from_body(fields, message.body, keys)
        row = self.numbers.index(child)
        link = jax.tree.map(lambda leaf: leaf[row], self._state.below.up)
        value, link = decoded(channel, code, link, shape=self._shape, dtype=self._dtype)
        if not bool(jnp.all(jnp.isfinite(value))):
            raise MessageError("the message decodes to a number that is not finite")
        return value, weight, link, mask

    def _close(self, passes: int) -> tuple[np.ndarray, Below, np.ndarray]:
        """Return who was heard, (passes, links), what is remembered then, and which children."""
        assert self._state is not None
        below = jax.tree.map(np.array, self._state.below)  # copies
        mask = np.zeros((passes, len(self._places)), bool)
        active = np.isin(self.numbers, list(self._came))
        for i, (value, weight, link, inside) in self._came.items():
            row = self.numbers.index(i)
            for held, new in zip(jax.tree.leaves(below.up), jax.tree.leaves(link), strict=True):
                held[row] = new
            below.sent[row], below.weights[row] = value, weight
            below.heard[row] = self._index + passes
            mask[:, i] = True
            mask[:, self._under(i)] = inside[0]
        self._came, self._bodies = {}, []
        return mask, below, active

    def _open(self, model: jax.Array) -> Below:
        """Return what is remembered of the children, once all are ready."""
        self._complete()
        first = [self._first[i] for i in self.numbers]
        self._first, self._due = {}, Kind.UP
        sent = jnp.stack([jnp.asarray(each.codes[0]) for each in first])
        weights = jnp.stack([jnp.asarray(each.exact[0]) for each in first])
        return _open(self.solver, model, sent, weights)


class TreeServer(_Parent):
    """The root of a tree, and nobody's data.

    Args:
      solver: on a tree, as all nodes have it.
      model: the first model, shape (dim,).
      tree: of `fedjax_admm.trees`.
      key: of the run, as all nodes have it.

    Raises:
      InputError: the solver is not one on this tree, or simulates what happens in earnest here (an
        attack, a delay).
    """

    def __init__(self, solver: TreeSolver, model: jax.Array, tree: trees.Tree, key: jax.Array):
        self.model = finite_array("model", model, (None,))
        super().__init__(solver, tree, self.model, key, -1)
        self._begin_parent()
        self.masks: list[np.ndarray] = []

    @property
    def round(self) -> int:
        """Return the round that is open, from 0."""
        return len(self.masks)

    @property
    def estimate(self) -> jax.Array:
        """Return the root's model, shape (dim,)."""
        return self.model if self._state is None else self._state.nodes[0]

    @property
    def record(self) -> Record:
        """Return who has been heard in every pass, by which a simulation can replay it."""
        shape = (self.round, self.solver.passes, len(self._places))
        return Record(np.array(self.masks, bool).reshape(shape), self._digest.hex())

    def receive(self, data: bytes, sender: int | None = None) -> int:
        child = super().receive(data, sender)
        if self._due == Kind.READY and len(self._first) == len(self.numbers):
            self._state = NodeState(self.model[None], (), (), self._open(self.model))
        return child

    def close_round(self) -> tuple[int, ...]:
        """End the round with those who have been heard, and open the next; return who they are."""
        self._complete()
        assert self._state is not None
        came = self.heard
        keys = self._keys_down()
        mask, below, active = self._close(self.solver.passes)
        model, below = _root_work(self.solver, self._own_model(), below, active, keys)
        self._state = NodeState(model[None], (), (), below)
        self.masks.append(mask)
        self._index += self.solver.passes
        return came

    def _own_model(self) -> jax.Array:
        return self.estimate

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all rounds that are closed to a file, in the place of an older one."""
        self._complete()
        numbers = [self.bytes_up, self.bytes_down]
        save(path, self._digest, (self._state, self.record.heard), numbers)

    def resume(self, path: str | os.PathLike[str]) -> None:
        """Go on from a file of `save`.

        Raises:
          InputError: the file is of another solver or run, or damaged.
        """
        leaves, (self.bytes_up, self.bytes_down) = load(path, self._digest)
        *leaves, heard = leaves
        rows = [jnp.zeros((len(self.numbers), *shape), self._dtype) for shape in (self._shape, ())]
        like = NodeState(self.model[None], (), (), _open(self.solver, self.model, *rows))
        structure = jax.tree.structure(like)
        self._state = jax.tree.unflatten(structure, [jnp.asarray(x) for x in leaves])
        self._due, self.masks = Kind.UP, list(heard)
        self._index = len(self.masks) * self.solver.passes


class _Child(_Node):
    """A node as its parent sees it: a client or a middle node."""

    def _begin_child(self) -> None:
        self._states: dict[int, NodeState] = {}  # by one more than the pass of the last work
        self._base = 0  # that of the beginning of the round
        self._place = self._places[self.number]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what the node remembers to a file, in the place of an older one."""
        labels = list(self._states)
        states = [self._states[i] for i in labels]
        save(path, self._digest, states, [self.number, self._base, labels])

    def resume(self, path: str | os.PathLike[str]) -> None:
        """Go on from a file of `save`.

        Raises:
          InputError: the file is of another solver, run or node, or damaged.
        """
        leaves, (saved, base, labels) = load(path, self._digest)
        if saved != self.number:
            raise InputError(
                f"is of node {saved}, but this is {self.number}", argument="path", value=path
            )
        self._like()
        like = jax.tree.structure(self._states[0])
        parts = [leaves[i : i + like.num_leaves] for i in range(0, len(leaves), like.num_leaves)]
        states = [jax.tree.unflatten(like, [jnp.asarray(x) for x in part]) for part in parts]
        self._states, self._base = dict(zip(labels, states, strict=True)), base

    def _like(self) -> None:
        """Give the node the state before the first round, of some first model."""
        raise NotImplementedError

    @property
    def state(self) -> Any:
        """Return what the solver keeps for this node, with one row; None before `begin`."""
        return self._states[max(self._states)].nodes if self._states else None

    def _write_up(self, kind: Kind, index: int, body: bytes) -> bytes:
        return write(Message(kind, self.number, index, 0, body), self._digest)

    def _read_down(self, data: bytes, kind: Kind) -> Message:
        message = read(data, kind, self._digest)
        if message.client != self.number:
            raise MessageError(
                f"the message is for node {message.client}, but this is node {self.number}"
            )
        return message

    def _first_model(self, data: bytes) -> jax.Array:
        """Return the first model of the parent's first message."""
        fields = [number(self._shape, self._dtype)]
        (model,) = from_body(fields, self._read_down(data, Kind.START).body, [None])
        return jnp.asarray(model)

    def _ready(self, state: NodeState, upload: TreeUpload) -> bytes:
        """Keep the state before the first round; return what the parent remembers first."""
        self._states, self._base = {0: state}, 0
        sent = upload.weighted if self.solver.exchange.plain else upload.values
        fields = self._upload_fields(None, self.number)
        return self._write_up(
            Kind.READY, 0, to_body(fields, Fields([sent[0]], [upload.weights[0]]))
        )

    def _settle(self, data: bytes) -> tuple[Message, NodeState]:
        """Return the message of a work, and the state from which it goes on.

        Raises:
          MessageError: the message is old, or the state is not where the parent thinks it is.
        """
        message = self._read_down(data, Kind.DOWN)
        heard, index = message.heard, message.round
        if not self._states:
            raise MessageError("a round has begun before this node had its first model")
        if heard not in self._states:
            raise MessageError(
                f"the parent has heard this node last in pass {heard - 1}, which its state does "
                "not know: resume it from its latest file"
            )
        if index < heard:
            raise MessageError(f"pass {index} is over: the message is an old one")
        if heard <= index - index % self.solver.passes:
            self._base = heard  # no node above takes back what was heard before the round
        self._states = {i: self._states[i] for i in {self._base, heard}}
        return message, self._states[heard]

    def _received(self, message: Message, state: NodeState) -> tuple[jax.Array, Any]:
        """Return the parent's model as it arrives, shape (1, dim), and the link down."""
        fields, channel = self._model_fields(), self.solver.exchange.down
        keys = keys_of(fields, [self._key(1, self.number, message.round)])
        ((code,), _) = from_body(fields, message.body, keys)
        value, held = decoded(channel, code, state.down, shape=self._shape, dtype=self._dtype)
        return value[None], held

    def _up_key(self, index: int) -> jax.Array:
        return self._key(0, self.number, index + self._passes(self.number) - 1)

    def _answer(
        self, index: int, state: NodeState, code: Any, weight: Any, mask: np.ndarray
    ) -> bytes:
        """Keep the state after a work; return the message to the parent."""
        self._states[index + self._passes(self.number)] = state
        fields = self._upload_fields(self.solver.exchange.up, self.number)
        body = to_body(fields, Fields([code], [weight, mask]))
        return self._write_up(Kind.UP, index, body)


class TreeClient(_Child):
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
        check_own(problem)
        if getattr(problem, "tree", ()) is None:
            problem = replace(problem, tree=trees.star(1))
        check_capabilities(solver, problem)
        super().__init__(solver, tree, first_model(problem), key, number)
        self.problem = problem
        self._begin_child()

    def hello(self) -> bytes:
        """Return the message that opens a deployment."""
        return self._write_up(Kind.HELLO, 0, b"")

    def begin(self, data: bytes) -> bytes:
        """Read the first model; return what the parent remembers first.

        Raises:
          MessageError: the message is not the parent's first one.
        """
        return self._ready(*_start_client(self.solver, self.problem, self._first_model(data)))

    def work(self, data: bytes) -> bytes:
        """Read the message of a work, do the client's part of it, and return the upload.

        Raises:
          MessageError: the message is not for this client, or of a pass that is over.
        """
        message, state = self._settle(data)
        above, down = self._received(message, state)
        passes = self._passes(self.number)
        nodes, up, code, weight = _client_work(
            *(self.solver, self.problem, state, above, self._up_key(message.round)), passes=passes
        )
        mask = np.zeros((passes, 0), bool)
        return self._answer(message.round, NodeState(nodes, up, down, ()), code, weight, mask)

    def finish(self, data: bytes) -> None:
        """Read the message after the last round: the last work counts if it was heard.

        Raises:
          MessageError: as `work`.
        """
        _, state = self._settle(data)
        self._states = {self._base: state}

    def _like(self) -> None:
        self._states = {
            0: _start_client(self.solver, self.problem, jnp.zeros(self._shape, self._dtype))[0]
        }


@short_repr
class Children(NamedTuple):
    """How a middle node reaches its children, and how long it waits for them."""

    ask: Ask
    deadline: float = 30.0  # seconds after which a pass is closed without those who are missing
    patience: float = 300.0  # seconds for messages before the first round, and in the first pass
    quorum: int | None = None  # children that are enough in a pass; as in `Rounds`
    report: Callable[[Round], None] = lambda each: None  # called after every pass


class Middle(_Child, _Parent):
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
        self.model = finite_array("model", model, (None,))
        super().__init__(solver, tree, self.model, key, number)
        self.children = below
        self._begin_child()
        self._begin_parent()
        self._masks: list[np.ndarray] = []  # of the passes of this work
        self._above: jax.Array | None = None
        self._has_worked = False  # in this process, in which children compile first

    def hello(self) -> bytes:
        """Return the message that opens a deployment, once all children have sent theirs."""
        self._first, self._due = {}, Kind.HELLO
        asked = dict.fromkeys(self.numbers, b"")
        ask_all(self, self.children.ask, "hello", asked, self.children.patience)
        return self._write_up(Kind.HELLO, 0, b"")

    def begin(self, data: bytes) -> bytes:
        """Read the first model, and hand it on; return what the parent remembers first.

        Raises:
          MessageError: the message is not the parent's first one, or a child's does not fit.
        """
        self.model = self._first_model(data)
        self._state, self._index = None, 0
        self._first = dict.fromkeys(self.numbers)
        ask_all(self, self.children.ask, "begin", self.start(), self.children.patience)
        return self._ready(*self._start(self._open(self.model)))

    def work(self, data: bytes) -> bytes:
        """Read the message of a work, run its passes with the children, and return the upload.

        Raises:
          MessageError: the message is not for this node, or of a pass that is over.
        """
        message, state = self._settle(data)
        self._above, down = self._received(message, state)
        self._state, self._index, self._due = state._replace(down=down), message.round, Kind.UP
        self._came, self._bodies, self._masks = {}, [], []
        children = self.children
        for _ in range(self._passes(self.number)):
            seconds = children.deadline if self._has_worked else children.patience
            children.report(ask_round(self, children.ask, seconds, children.quorum))
            self._has_worked = True
        level, row, size, _ = self._place
        nodes, up, code, weight = _send(
            *(self.solver, self._state.nodes, self._state.up, self._up_key(message.round)),
            *(jnp.asarray(row),),
            level=level,
            size=size,
        )
        mask = np.concatenate(self._masks)[:, self._under(self.number)]
        state = self._state._replace(nodes=nodes, up=up)
        return self._answer(message.round, state, code, weight, mask)

    def finish(self, data: bytes) -> None:
        """Read the message after the last round, and hand it on.

        Raises:
          MessageError: as `work`.
        """
        message, state = self._settle(data)
        self._states = {self._base: state}
        self._state, self._index, self._due = state, message.round, Kind.UP
        self._bodies = []
        last = {i: self.broadcast(i) for i in self.numbers}
        for _ in self.children.ask("finish", last, self.children.deadline):
            pass

    @property
    def round(self) -> int:
        """Return the pass that is open, from 0."""
        return self._index

    def close_round(self) -> tuple[int, ...]:
        """End the pass with those who have been heard, and open the next; return who they are."""
        assert self._state is not None
        came = self.heard
        keys = self._keys_down()
        mask, below, active = self._close(1)
        level, row, size, _ = self._place
        self._state = _server_work(
            *(self.solver, self._state._replace(below=below), active, keys, self._above),
            jnp.asarray(row),
            level=level,
            size=size,
        )
        self._masks.append(mask)
        self._index += 1
        return came

    def _own_model(self) -> jax.Array:
        assert self._state is not None
        return self.solver.model(self._state.nodes)[0]

    def _start(self, below: Below) -> tuple[NodeState, TreeUpload]:
        level, row, size, _ = self._place
        return _start_server(
            *(self.solver, self.model, below, jnp.asarray(row)), level=level, size=size
        )

    def _like(self) -> None:
        rows = [jnp.zeros((len(self.numbers), *shape), self._dtype) for shape in (self._shape, ())]
        self._states = {0: self._start(_open(self.solver, self.model, *rows))[0]}


class _Uploads:
    """The roles of children, played by what they have sent: their state is their upload."""

    def upload(self, level, nodes):
        return nodes


def _gather(solver, model, below, active, keys):
    """Return what a server makes of its children's last uploads, and what it remembers then.

    The harness computes it, for a star whose clients are the children.
    """
    number, exchange = below.weights.shape[0], solver.exchange
    _, down = jax.vmap(exchange.down.encode)(stacked(model, number), below.down, keys)
    below = below._replace(down=where_active(active, down, below.down))
    receiver = object.__new__(type("Receiver", (_Uploads, type(solver)), {}))
    receiver.__dict__.update(vars(solver))
    state = HierarchyState(model, (), TreeUpload(below.sent, below.weights, below.sent))
    if not exchange.plain:
        up = ChannelState((), (), (), below.sent, below.weights, jnp.zeros(number, bool), ())
        state = state._replace(exchange=TreeExchange((up,), (), (below.last,)))
    received, state = receiver._receive(trees.star(number), state, 0)
    if exchange.plain:
        return received, below
    return received, below._replace(last=state.exchange.last[0])


def _spread(tree, size):
    """Return rows in all places of a level, whose parameters may differ from place to place."""
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (size, *x.shape[1:])), tree)


def _own(tree, row):
    """Return one row of a level, stacked."""
    return jax.tree.map(lambda x: x[row][None], tree)


@partial(jax.jit, static_argnames=("way", "depth", "size"))
def _code_key(solver, key, index, level, row, *, way, depth, size):
    """Return the key of a code, as the harness has it."""
    turn, place = jnp.divmod(index, solver.passes)
    key = jax.random.split(round_keys(key, turn)[1], solver.passes)[place]
    key = jax.random.split(key, (2, depth))[way, level]
    if way == 0:
        return solver.exchange.keys_up(key, 0, size)[2][row]
    return jax.random.split(key, size)[row]


@jax.jit
def _open(solver, model, sent, weights):
    """Return what a server remembers of its children before the first round."""
    number, exchange = weights.shape[0], solver.exchange
    return Below(
        sent,
        weights,
        jax.vmap(exchange.up.listen)(sent),
        jax.vmap(exchange.down.init)(stacked(model, number)),
        sent[:1],
        jnp.zeros(number, jnp.int32),
    )


@jax.jit
def _codes_down(solver, model, links, keys):
    """Return the codes of a server's model, stacked over its children."""
    copies = stacked(model, keys.shape[0])
    return jax.vmap(solver.exchange.down.send)(copies, links, keys)[0]


@jax.jit
def _root_work(solver, model, below, active, keys):
    """Return the root's model after a round, and what it remembers of its children."""
    received, below = _gather(solver, model, below, active, keys)
    return solver.root(received), below


@partial(jax.jit, static_argnames=("level", "size"))
def _server_work(solver, state, active, keys, above, row, *, level, size):
    """Return the state of a middle node after a pass."""
    model = solver.model(state.nodes)[0]
    received, below = _gather(solver, model, state.below, active, keys)
    rows = _spread((state.nodes, received, above), size)
    return state._replace(nodes=_own(solver.server(level, *rows), row), below=below)


@partial(jax.jit, static_argnames="passes")
def _client_work(solver, problem, state, above, key, *, passes):
    """Return a client after the passes of a work, and what it sends."""

    def work(nodes, _):
        return solver.client(problem, nodes, above), None

    nodes, _ = jax.lax.scan(work, state.nodes, length=passes)
    return _send(solver, nodes, state.up, key, 0, level=0, size=1)


@partial(jax.jit, static_argnames=("level", "size"))
def _send(solver, nodes, up, key, row, *, level, size):
    """Return a node that has sent its upload, its link, the code, and the weight."""
    exchange, upload = solver.exchange, _own(solver.upload(level, _spread(nodes, size)), row)
    value = (upload.weighted if exchange.plain else upload.values)[0]
    arrives, _ = exchange.up.encode(value, up, key)
    code, up = exchange.up.send(value, up, jax.random.clone(key))
    if not exchange.plain:
        values = stacked(arrives, size)
        nodes = _own(solver.apply_decoded(level, _spread(nodes, size), values), row)
    return nodes, up, code, upload.weights[0]


@jax.jit
def _start_client(solver, problem, model):
    """Return the state before the first round, and the first upload."""
    nodes = solver.start_clients(problem, stacked(model, 1))
    return _first(solver, nodes, model, (), solver.upload(0, nodes))


@partial(jax.jit, static_argnames=("level", "size"))
def _start_server(solver, model, below, row, *, level, size):
    """Return the state before the first round, and the first upload."""
    rows = solver.start_servers(level, stacked(model, size))
    nodes, upload = _own((rows, solver.upload(level, rows)), row)
    return _first(solver, nodes, model, below, upload)


def _first(solver, nodes, model, below, upload):
    up = solver.exchange.up.init(upload.values[0])
    return NodeState(nodes, up, solver.exchange.down.listen(model), below), upload
