"""A graph: its nodes, and the relay that forwards messages between neighbours.

A node sends one message for all its neighbours, or a letter for each. What the relay forwards to a
node is

    first    4 bytes            of which message on: 0 for those before the first round, i + 1 for
                                those of round i
    then for each of them, up to those of the round that was closed last:
    present  ceil(N / 8) bytes  one bit per node: who was heard
    bodies                      of the neighbours that were heard, in the order of their numbers

All bodies of a solver have one length, which both ends know; those before the first round another.
"""

import os
import struct
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import count, finite_array, instance
from fedjax_admm._run._keys import init_key
from fedjax_admm.deploy import _ego as ego, _messages as wire
from fedjax_admm.deploy._endpoint import Child, Parent, check_problem
from fedjax_admm.deploy._files import load, save
from fedjax_admm.deploy._messages import Message
from fedjax_admm.graphs import Graph
from fedjax_admm.solvers import GraphSolver, LetterSolver

GRAPH = (GraphSolver, "a solver on a graph, such as solvers.extra()")
_LEDGER = b"privacy ledger"  # of any solver, in the place of a digest
_FIRST = struct.Struct(">I")


class Fields(NamedTuple):
    """What the messages of a graph are on the wire."""

    first: list[Any]  # of a message before the first round
    code: list[Any]  # of a later one, or of a letter
    lengths: tuple[int, int]  # how many bytes reach one neighbour then, and in a round
    letters: bool  # whether a node sends each neighbour another message

    @classmethod
    def of(cls, solver: Any, shape: tuple[int, ...], dtype: Any) -> "Fields":
        """Return the fields of the messages of a solver, for models of a shape."""
        first = [wire.number(shape, dtype)]
        code = wire.fields_of(solver.exchange.up, [shape], dtype)
        lengths = wire.bytes_of(first), wire.bytes_of(code)
        return cls(first, code, lengths, isinstance(solver, LetterSolver))


class Released(NamedTuple):
    """All releases that have left a node, for `privacy.ledger`.

    A release counts whether or not the relay heard it. The same bytes sent again count once.
    """

    spent: jax.Array  # shape=(1,): sum of 1 / z_n^2, rounded up
    releases: jax.Array  # shape=(1,), int32: how many
    nominal: jax.Array  # shape=(1,), bool: whether gradients were not clipped
    tails: jax.Array  # shape=(1,): how much the ends of the noise may have added to delta


class Remembered(NamedTuple):
    """What a node remembers between rounds."""

    state: ego.NodeState  # with `done` messages of every neighbour; zeros before the first one
    sent: ego.Sent  # the node's part of its last work; zeros before
    done: np.int64
    released: Released

    @property
    def clients(self) -> Any:
        return self.state.nodes if self.done else None


class Node(Child):
    """One node of a solver on a graph; a relay carries messages between it and its neighbours.

    **Noise** of a private solver is drawn here, from the system's entropy, before a message leaves.
    The node keeps a ledger of all that has left it, and `work` refuses when the next message would
    spend more than the plan of the solver's release. `keep_ledger` names a file for it, which
    outlives the deployment.

    Args:
      solver: as all nodes and the relay have it, with the same numbers.
      problem: of this node alone, with the data of one client; its graph is not looked at.
      number: which node it is, from 0.
      graph: the whole one, which is public.
      key: of the run, as all have it. It is no secret.
      noise_key: of the noise, so that a simulation can draw the same: the n-th release has the key
        `fold_in(noise_key, n)`, from 1. Whoever knows it reads what the noise hides. If None, the
        key of every release is drawn from the system's entropy, and nothing keeps it.

    Raises:
      InputError: the problem has several clients, or not what the solver needs; or the solver is
        not one of graphs, or simulates what happens in earnest here (an attack, a delay).
    """

    def __init__(
        self,
        solver: GraphSolver,
        problem: Any,
        number: int,
        graph: Graph,
        key: jax.Array,
        *,
        noise_key: jax.Array | None = None,
    ) -> None:
        count("number", number, at_least=0, at_most=graph.num_nodes - 1)
        instance("solver", solver, *GRAPH)
        if not hasattr(problem, "start"):
            check_problem(solver, problem)  # says what is missing
        dtype = problem.start.dtype
        graph = replace(graph, weights=graph.weights.astype(dtype))
        self.problem: Any = replace(problem, graph=ego.view_of_node(graph, number))
        check_problem(solver, problem, self.problem)
        super().__init__(number, GRAPH, solver, [problem.start], key, graph.num_nodes, graph)
        self.graph = graph
        solver.check(self.problem, 0)
        self._noise_key = noise_key
        self._neighbours = ego.neighbours_of(graph)[number]
        self._ego = ego.ego_of(graph, number)
        self._parts = (self.solver, self.problem, graph, self._ego)
        self._shape, self._dtype = problem.start.shape[-1:], dtype
        self._fields = Fields.of(solver, self._shape, dtype)
        none = jnp.zeros(1, dtype)
        self.released = Released(none, jnp.zeros(1, jnp.int32), jnp.zeros(1, bool), none)
        self._ledger_file: str | os.PathLike[str] | None = None
        self._private = hasattr(self.solver, "release")
        self._budget = _budget(self.solver.release, dtype) if self._private else np.inf

    def keep_ledger(self, path: str | os.PathLike[str]) -> None:
        """Go on with the ledger of a file, and write it there before every message with noise.

        The budget of a node's data is spent once: a later deployment, of this solver or another,
        goes on with what is in the file.

        Raises:
          InputError: the file holds no ledger.
        """
        if Path(path).exists():
            leaves, _ = load(path, _LEDGER)
            pairs = zip(leaves, self.released, strict=True)
            self.released = Released(*(jnp.asarray(x, old.dtype) for x, old in pairs))
        self._ledger_file = path

    @property
    def estimate(self) -> jax.Array | None:
        """Return this node's row of `Run.estimate`, shape (dim,); None before the first round."""
        if self.clients is None:
            return None
        return ego.estimate(self.solver, self._ego, self._states[self._worked].state)

    def _curvature(self) -> jax.Array:
        return self.solver.own_curvature(self.problem, self.number, self.num_clients)

    def _begin(self, largest: np.ndarray, body: bytes) -> bytes:
        curvature = self.solver.as_curvature(jnp.asarray(largest, self._dtype))
        state, sent = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), self._shapes)
        first = ego.first_message(self.solver, self.problem, curvature)
        state.known[self._ego.place] = first
        state = state._replace(curvature=curvature)
        self._states = {0: Remembered(state, sent, np.int64(0), self.released)}
        return wire.to_body(self._fields.first, [first])

    def _play(self, message: Message, state: Remembered) -> tuple[Remembered, bytes]:
        """Do this node's part of a round.

        Raises:
          MessageError: the next message would spend more than the privacy budget.
        """
        own, noise_key, paid = state.state, None, self.released
        if self._private:
            spent = {"spent": paid.spent, "nominal": paid.nominal, "tails": paid.tails}
            own = own._replace(nodes=own.nodes._replace(**spent))
            noise_key = self._drawn(int(paid.releases[0]) + 1)
        index = np.int32(message.round)
        sent, codes = ego.said(*self._parts, own, index, self.key, noise_key)
        if self._private:
            self._pay(sent.nodes)
        rows = range(len(self._neighbours) if self._fields.letters else 1)
        bodies = wire.rows_to_bodies(self._fields.code, [codes], rows)
        return state._replace(sent=sent, released=self.released), b"".join(bodies.values())

    def _keep(self, message: Message, settled: Any, state: Remembered) -> None:
        self._states = {message.round + 1: state}

    def _caught_up(self, message: Message) -> Remembered:
        """Return what is remembered after all rounds that are closed.

        Raises:
          MessageError: the message does not fit, or the state is not where the relay thinks it is.
        """
        begins, rounds = self._unpacked(message)
        kept = self._states[self._worked]
        state, done = kept.state, int(kept.done)
        self._check_known(begins <= done, begins - 1)
        for each, (present, bodies) in enumerate(rounds, begins):
            if each < done:
                continue
            known = not (each and present[self.number]) or self._worked == each
            self._check_known(known, each - 1)
            state = self._ended(state, kept.sent, present, bodies, each - 1)
        return kept._replace(state=state, done=np.int64(message.round + 1))

    def _unpacked(self, message: Message) -> tuple[int, list[tuple[np.ndarray, dict[int, bytes]]]]:
        """Return of which message on there are some, and who was heard in each, with the bodies.

        Raises:
          MessageError: the length does not fit.
        """
        body, index, place, rounds = message.body, message.round, _FIRST.size, []
        first = _FIRST.unpack_from(body)[0] if len(body) >= place else index + 1
        width = -(-self.num_clients // 8)
        for each in range(first, index + 1):
            mask = np.frombuffer(body[place : place + width], np.uint8)
            place += width
            if len(mask) < width:
                break
            present = np.unpackbits(mask, count=self.num_clients).astype(bool)
            length, bodies = self._fields.lengths[each > 0], {}
            for i in self._neighbours[present[self._neighbours]].tolist():
                bodies[i] = body[place : place + length]
                place += length
            rounds.append((present, bodies))
        whole = place == len(body) and len(rounds) == index + 1 - first
        wire.check(whole, f"what was forwarded has {len(body)} bytes, which does not fit")
        return first, rounds

    def _ended(self, state: Any, own: Any, present: np.ndarray, bodies: Any, index: int) -> Any:
        """Return the state after a round: of all first messages, -1."""
        members = self._ego.members[: len(self._neighbours) + 1]
        if index < 0:
            models = np.array(state.known)  # its own one
            for sender, body in bodies.items():
                place = np.searchsorted(members, sender)
                (models[place],) = wire.from_body(self._fields.first, body)
            return ego.opened(*self._parts, state.curvature, models)
        held, channel = state.held, self.solver.exchange.up
        keys = ego.code_keys(*self._parts, np.int32(index), self.key)
        arrived = np.zeros((len(keys), *self._shape), self._dtype)
        for sender, body in bodies.items():
            among = self._neighbours if self._fields.letters else members
            place = int(np.searchsorted(among, sender))
            (code,) = wire.from_body(self._fields.code, body, [keys[place]])
            link = jax.tree.map(lambda leaf, k=place: leaf[k], held)
            values, (link,) = wire.decoded(channel, [code], [link], [self._shape], self._dtype)
            arrived[place] = values[0]
            held = jax.tree.map(lambda leaf, new, k=place: leaf.at[k].set(new), held, link)
        state = state._replace(held=held)
        return ego.ended(*self._parts, state, own, present, arrived, np.int32(index), self.key)

    def _drawn(self, n: int) -> jax.Array:
        """Return the key of the noise of the n-th release."""
        if self._noise_key is not None:
            return jax.random.fold_in(self._noise_key, n)
        words = np.frombuffer(os.urandom(8), np.uint32)
        return jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")

    def _pay(self, nodes: Any) -> None:
        """Write a release into the ledger, before it leaves.

        Raises:
          MessageError: it would spend more than there is.
        """
        spent = float(nodes.spent[0])
        wire.check(
            spent <= self._budget,
            f"node {self.number} has spent {float(self.released.spent[0]):.6g} of a privacy budget "
            f"of {float(self._budget):.6g} (the sum of 1 / z^2) in "
            f"{int(self.released.releases[0])} releases, and its next message would exceed it",
        )
        releases = self.released.releases + 1
        self.released = Released(nodes.spent, releases, nodes.nominal, nodes.tails)
        if self._ledger_file is not None:
            save(self._ledger_file, _LEDGER, self.released, [])

    @cached_property
    def _shapes(self) -> tuple[Any, Any]:
        """Return the shapes of the state and of the node's part."""
        shape = jax.ShapeDtypeStruct
        models = shape((len(self._ego.members), *self._shape), self._dtype)
        state = jax.eval_shape(ego.opened, *self._parts, shape((), self._dtype), models)
        round_ = (shape((), jnp.int32), self.key, init_key(self.key))
        return state, jax.eval_shape(ego.said, *self._parts, state, *round_)[0]

    @property
    def _like(self) -> Remembered:
        return Remembered(*self._shapes, np.int64(0), self.released)

    def _restore(self, leaves: list[np.ndarray], numbers: list[Any]) -> None:
        super()._restore(leaves, numbers)
        if self._ledger_file is None and self._states:
            self.released = self._states[self._worked].released


class Relay(Parent):
    """The relay of a solver on a graph: it has neither models nor data, and rounds as a `Server`.

    The relay reads headers, refuses lengths that do not fit and numbers that are not finite, and
    keeps the bytes until all who need them have them: a node that was absent gets all messages of
    the rounds that it has missed, in their order, and who was heard in them. Before round 0 it
    reads one number of each node, the estimate of the curvature.

    Args:
      solver: as the nodes have it.
      model: of which the shape (dim,) and the dtype are used.
      graph: the whole one, which is public.
      key: of the run, as the nodes have it.

    Raises:
      InputError: the solver is not one of graphs, or simulates what happens in earnest here (an
        attack, a delay).
    """

    def __init__(self, solver: GraphSolver, model: jax.Array, graph: Graph, key: jax.Array) -> None:
        model = finite_array("model", model, (None,))
        graph = replace(graph, weights=graph.weights.astype(model.dtype))
        number = graph.num_nodes
        super().__init__(range(number), (number,), GRAPH, solver, [model], key, number, graph)
        self.neighbours = ego.neighbours_of(graph)
        self._fields = Fields.of(solver, model.shape, model.dtype)
        # Bodies by sender, of the messages from `_dropped` on: 0 for those before the first round.
        self._sent: list[dict[int, list[bytes]]] = []
        self._dropped = 0

    # `bytes_down` is along edges, which is what `Traffic` counts.

    def _ready(self, message: Message) -> list[bytes]:
        wire.from_body(self._fields.first, message.body)
        return [message.body]

    def _open(self, came: dict[int, Any]) -> None:
        self._sent = [came]

    def _receive(self, message: Message) -> list[bytes]:
        """Return the message for all neighbours, or the letters in the order of the neighbours."""
        body, length = message.body, self._fields.lengths[1]
        letters = len(self.neighbours[message.client]) if self._fields.letters else 1
        due = length * letters
        wire.check(len(body) == due, f"the body has {len(body)} bytes, but {due} are due")
        pieces = [body[start : start + length] for start in range(0, due, length)]
        for piece in pieces:
            # The key of a code tells its places, and not whether its numbers are finite.
            wire.from_body(self._fields.code, piece, [self.key])
        return pieces

    def _body(self, client: int) -> bytes:
        first = self._heard[client]
        pieces = [_FIRST.pack(first)]
        for each in range(first, self.round + 1):
            kept = self._sent[each - self._dropped]
            present = self.masks[each - 1] if each else np.ones(self.num_clients, bool)
            pieces.append(np.packbits(present).tobytes())
            for sender in self.neighbours[client].tolist():
                if sender in kept:
                    own = np.searchsorted(self.neighbours[sender], client)
                    pieces.append(kept[sender][int(own) if len(kept[sender]) > 1 else 0])
        return b"".join(pieces)

    def _close(self, came: dict[int, Any]) -> np.ndarray:
        self._sent.append(came)
        length = self._fields.lengths[1]
        self.bytes_down += sum(length * len(self.neighbours[node]) for node in came)
        # What all have read is dropped.
        heard = self._heard | dict.fromkeys(came, self.round + 1)
        oldest = min(heard.values())
        self._sent = self._sent[oldest - self._dropped :]
        self._dropped = oldest
        return np.isin(np.arange(self.num_clients), list(came))

    def _pack(self) -> tuple[Any, list[Any]]:
        kept = [each for bodies in self._sent for pieces in bodies.values() for each in pieces]
        numbers = [[(i, len(pieces)) for i, pieces in bodies.items()] for bodies in self._sent]
        return [np.frombuffer(each, np.uint8) for each in kept], [self._dropped, numbers]

    def _unpack(self, leaves: list[np.ndarray], numbers: list[Any]) -> None:
        (self._dropped, sent), pieces = numbers, iter(leaves)
        self._sent = [
            {i: [next(pieces).tobytes() for _ in range(n)] for i, n in each} for each in sent
        ]


def _budget(release: Any, dtype: Any) -> float:
    """Return what all planned releases spend together, added up as a node adds it up."""
    if release.rounds is None or not hasattr(release, "costs"):
        return np.inf
    total = dtype.type(0)
    for cost in np.asarray(release.costs(jnp.arange(1, release.rounds + 1)), dtype):
        total = np.nextafter(total + cost, dtype.type(np.inf))
    return float(total)
