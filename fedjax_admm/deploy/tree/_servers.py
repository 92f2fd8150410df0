"""The servers of a tree as their children see them, and the root."""

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm import trees
from fedjax_admm._checks import InputError, finite_array
from fedjax_admm.deploy._files import load, save
from fedjax_admm.deploy._links import Fields, decoded, keys_of, number
from fedjax_admm.deploy._messages import (
    Kind,
    Message,
    MessageError,
    check_sender,
    from_body,
    read,
    to_body,
    write,
)
from fedjax_admm.deploy._record import Recorded, check_all_heard
from fedjax_admm.deploy.tree._nodes import Node
from fedjax_admm.deploy.tree._work import Below, NodeState, codes_down, open_links, root_work
from fedjax_admm.solvers._tree import HierarchyState, TreeSolver

_stack = jax.jit(jnp.stack)  # one program; outside of `jit` it is several per key


class Parent(Node):
    """A server of the tree as its children see it; the root is one, and so is a middle node."""

    _state: NodeState | None = None
    _index: int = 0  # the pass that is open
    model: Any  # shape=(dim,): what the children are to read

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
            codes, fields = jax.tree.map(np.asarray, codes_down(*sent)), self._model_fields()
            rows = [jax.tree.map(lambda x, i=i: x[i], codes) for i in range(len(self.numbers))]
            self._bodies = [to_body(fields, Fields([code], [])) for code in rows]
        body = self._bodies[row]
        self.bytes_down += len(body)
        return self._write_down(Kind.DOWN, child, body, int(np.asarray(state.below.heard)[row]))

    def _complete(self) -> None:
        if self._state is None:
            check_all_heard(self.numbers, self._first)

    def _write_down(self, kind: Kind, child: int, body: bytes, heard: int) -> bytes:
        return write(Message(kind, child, self._index, heard, body), self._digest)

    def _keys_down(self) -> jax.Array:
        """Return the keys of the codes down in this pass, for every child."""
        return _stack([self._key(1, i, self._index) for i in self.numbers])

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
        link = jax.tree.map(lambda leaf: np.asarray(leaf)[row], self._state.below.up)
        value, link = decoded(channel, code, link, shape=self._shape, dtype=self._dtype)
        if not np.all(np.isfinite(value)):
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
            mask[:, self._under[i]] = inside[0]
        self._came, self._bodies = {}, []
        return mask, below, active

    def _open(self, model: jax.Array) -> Below:
        """Return what is remembered of the children, once all are ready."""
        self._complete()
        first = [self._first[i] for i in self.numbers]
        self._first, self._due = {}, Kind.UP
        sent = jnp.stack([jnp.asarray(each.codes[0]) for each in first])
        weights = jnp.stack([jnp.asarray(each.exact[0]) for each in first])
        return open_links(self.solver, model, sent, weights)


class TreeServer(Recorded, Parent):
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

    def __init__(self, solver: TreeSolver, model: jax.Array, tree: trees.Tree, key: jax.Array):
        self.model = finite_array("model", model, (None,))
        super().__init__(solver, tree, self.model, key, -1)
        self._begin_parent()
        self.masks, self.mask = [], (self.solver.passes, len(self._places))

    @property
    def estimate(self) -> jax.Array:
        """Return the root's model, shape (dim,)."""
        return self.model if self._state is None else self._state.nodes[0]

    def estimate_of(self, state: HierarchyState) -> jax.Array:
        """Return the root's model in the state of a simulation, to compare it with `estimate`."""
        return state.root

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
        model, below = root_work(self.solver, self._own_model(), below, active, keys)
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
        like = NodeState(self.model[None], (), (), open_links(self.solver, self.model, *rows))
        structure = jax.tree.structure(like)
        self._state = jax.tree.unflatten(structure, [jnp.asarray(x) for x in leaves])
        self._due, self.masks = Kind.UP, list(heard)
        self._index = len(self.masks) * self.solver.passes
