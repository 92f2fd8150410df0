"""Middle nodes of a tree: servers of their children, and clients of their parents."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm import trees
from fedjax_admm._checks import finite_array
from fedjax_admm.deploy._asking import Ask, Round, ask_all, ask_round
from fedjax_admm.deploy._messages import Kind
from fedjax_admm.deploy.tree._clients import Child
from fedjax_admm.deploy.tree._servers import Parent
from fedjax_admm.deploy.tree._work import (
    Below,
    NodeState,
    open_links,
    send,
    server_work,
    start_server,
)
from fedjax_admm.solvers._tree import TreeSolver, TreeUpload


class Children(NamedTuple):
    """How a middle node reaches its children, and how long it waits for them."""

    ask: Ask
    deadline: float = 30.0  # seconds after which a pass is closed without those who are missing
    patience: float = 300.0  # seconds for messages before the first round, and in the first pass
    quorum: int | None = None  # children that are enough in a pass; as in `Rounds`
    report: Callable[[Round], None] = lambda each: None  # called after every pass


class Middle(Child, Parent):
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
        self._above: np.ndarray | None = None
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

    def _work(self, data: bytes) -> bytes:
        state, message, self._above, down = self._settle(data)
        self._state, self._index, self._due = state._replace(down=down), message.round, Kind.UP
        self._came, self._bodies, self._masks = {}, [], []
        children = self.children
        for _ in range(self._passes(self.number)):
            seconds = children.deadline if self._has_worked else children.patience
            children.report(ask_round(self, children.ask, seconds, children.quorum))
            self._has_worked = True
        level, row, size, _ = self._place
        nodes, up, code, weight = send(
            *(self.solver, self._state.nodes, self._state.up, self._up_key(message.round)),
            *(jnp.asarray(row),),
            level=level,
            size=size,
        )
        mask = np.concatenate(self._masks)[:, self._under[self.number]]
        state = self._state._replace(nodes=nodes, up=up)
        return self._answer(message.round, state, code, weight, mask)

    def finish(self, data: bytes) -> None:
        """Read the message after the last round, and hand it on.

        Raises:
          MessageError: as `work`.
        """
        state, message, _, _ = self._settle(data, last=True)
        self._states = {message.heard: state}
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
        self._state = server_work(
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
        return start_server(
            *(self.solver, self.model, below, jnp.asarray(row)), level=level, size=size
        )

    def _like(self) -> None:
        rows = [jnp.zeros((len(self.numbers), *shape), self._dtype) for shape in (self._shape, ())]
        self._states = {0: self._start(open_links(self.solver, self.model, *rows))[0]}
