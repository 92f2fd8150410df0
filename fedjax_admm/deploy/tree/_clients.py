"""Clients of a tree, and what is the same for all nodes with a parent."""

import os
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm import trees
from fedjax_admm._checks import InputError
from fedjax_admm.capabilities import check_capabilities, first_model
from fedjax_admm.deploy._client import check_own
from fedjax_admm.deploy._files import load, save
from fedjax_admm.deploy._links import Fields, decoded, keys_of, number
from fedjax_admm.deploy._messages import (
    Kind,
    Message,
    MessageError,
    check_not_begun,
    check_open,
    from_body,
    read_own,
    to_body,
    write,
)
from fedjax_admm.deploy.tree._nodes import Node
from fedjax_admm.deploy.tree._work import NodeState, client_work, start_client
from fedjax_admm.solvers._tree import TreeSolver, TreeUpload


class Child(Node):
    """A node as its parent sees it: a client or a middle node."""

    def _begin_child(self) -> None:
        self._states: dict[int, NodeState] = {}  # by one more than the pass of the last work
        self._base = 0  # that of the beginning of the round
        self._place = self._places[self.number]
        self._answered = (b"", b"")  # the parent's last message, and what was answered

    def work(self, data: bytes) -> bytes:
        """Read the message of a work, do this node's part of it, and return the upload.

        The same message again gets the same answer.

        Raises:
          MessageError: the message is not for this node, or of a pass that is over.
        """
        if data != self._answered[0]:
            self._answered = data, self._work(data)
        return self._answered[1]

    def _work(self, data: bytes) -> bytes:
        raise NotImplementedError

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
        return read_own(data, kind, self._digest, self.number)

    def _first_model(self, data: bytes) -> jax.Array:
        """Return the first model of the parent's first message."""
        fields, message = [number(self._shape, self._dtype)], self._read_down(data, Kind.START)
        check_not_begun(max(self._states, default=0))
        (model,) = from_body(fields, message.body, [None])
        return jnp.asarray(model)

    def _ready(self, state: NodeState, upload: TreeUpload) -> bytes:
        """Keep the state before the first round; return what the parent remembers first."""
        self._states, self._base = {0: state}, 0
        sent = upload.weighted if self.solver.exchange.plain else upload.values
        fields = self._upload_fields(None, self.number)
        return self._write_up(
            Kind.READY, 0, to_body(fields, Fields([sent[0]], [upload.weights[0]]))
        )

    def _settle(self, data: bytes, *, last: bool = False) -> tuple[NodeState, Message, Any, Any]:
        """Return the state from which a work goes on, the message, the parent's model and the link.

        Args:
          data: the message.
          last: whether it is the one after the last round, whose model is not read.

        Raises:
          MessageError: the message is old, or the state is not where the parent thinks it is.
        """
        message, passes = self._read_down(data, Kind.DOWN), self.solver.passes
        heard, index = message.heard, message.round
        if not self._states:
            raise MessageError("a round has begun before this node had its first model")
        # Within a round a middle node that has stopped may begin its passes again.
        worked = max(self._states)
        check_open(message, worked if last else (worked - 1) // passes * passes)
        if heard not in self._states:
            raise MessageError(
                f"the parent has heard this node last in pass {heard - 1}, which its state does "
                "not know: resume it from its latest file"
            )
        state = self._states[heard]
        above, down = (None, None) if last else self._received(message, state)
        if heard <= index - index % passes:
            self._base = heard  # no node above takes back what was heard before the round
        kept = {self._base, heard}
        self._states = {i: x for i, x in self._states.items() if i in kept or i > index}
        return state, message, above, down

    def _received(self, message: Message, state: NodeState) -> tuple[np.ndarray, Any]:
        """Return the parent's model as it arrives, shape (1, dim), and the link down."""
        fields, channel = self._model_fields(), self.solver.exchange.down
        keys = keys_of(fields, [self._key(1, self.number, message.round)])
        ((code,), _) = from_body(fields, message.body, keys)
        value, held = decoded(channel, code, state.down, shape=self._shape, dtype=self._dtype)
        return np.asarray(value)[None], held

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


class TreeClient(Child):
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
        model = self._first_model(data)
        return self._ready(*start_client(self.solver, self.problem, model))

    def _work(self, data: bytes) -> bytes:
        state, message, above, down = self._settle(data)
        passes = self._passes(self.number)
        nodes, up, code, weight = client_work(
            *(self.solver, self.problem, state, above, self._up_key(message.round)), passes=passes
        )
        mask = np.zeros((passes, 0), bool)
        return self._answer(message.round, NodeState(nodes, up, down, ()), code, weight, mask)

    def finish(self, data: bytes) -> None:
        """Read the message after the last round: the last work counts if it was heard.

        Raises:
          MessageError: as `work`.
        """
        state, message, _, _ = self._settle(data, last=True)
        self._states = {message.heard: state}

    def _like(self) -> None:
        self._states = {
            0: start_client(self.solver, self.problem, jnp.zeros(self._shape, self._dtype))[0]
        }
