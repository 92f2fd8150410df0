"""A node of a deployment on a graph: its own data, and what its neighbours have sent."""

import hashlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import InputError, count
from fedjax_admm._run._estimates import in_dtype_of
from fedjax_admm._run._keys import init_key
from fedjax_admm.capabilities import Subset, check_capabilities, has
from fedjax_admm.deploy._files import load, save
from fedjax_admm.deploy._links import check_deployable, number
from fedjax_admm.deploy._messages import (
    Kind,
    Message,
    MessageError,
    check_not_begun,
    check_open,
    digest_of,
    fields_of,
    from_body,
    read_own,
    to_body,
    write,
)
from fedjax_admm.deploy.graph import _ego as ego
from fedjax_admm.deploy.graph._forwarded import Forwarded, forwarded
from fedjax_admm.graphs import Graph
from fedjax_admm.solvers._declared import open_fields
from fedjax_admm.solvers._gradients import as_curvature, looked_at
from fedjax_admm.solvers._graph import GraphSolver, GraphState, LetterSolver
from fedjax_admm.solvers.private._network import PrivateSolver

_LEDGER = b"privacy ledger"  # of any solver, in the place of a digest


class Released(NamedTuple):
    """All releases that have left a node, for `privacy.ledger`.

    A release counts whether or not the relay heard it. The same bytes sent again count once.
    """

    spent: jax.Array  # shape=(1,): sum of 1 / z_n^2, rounded up
    releases: jax.Array  # shape=(1,), int32: how many
    nominal: jax.Array  # shape=(1,), bool: whether gradients were not clipped
    tails: jax.Array  # shape=(1,): how much the ends of the noise may have added to delta


class Node:
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
        self.num_clients = graph.num_nodes
        self.number = count("number", number, at_least=0, at_most=self.num_clients - 1)
        check_deployable(solver, *ego.GRAPH)
        if not hasattr(problem, "graph"):
            raise InputError(
                f"must have a graph, but {type(problem).__name__} has none",
                argument="problem",
                value=problem,
            )
        if problem.num_clients != 1:
            raise InputError(
                f"must be the problem of one client, but it has {problem.num_clients}",
                argument="problem",
                value=problem,
                remedy="build it of the data of this node alone",
            )
        dtype = problem.start.dtype
        self.graph = replace(graph, weights=graph.weights.astype(dtype))
        self.problem: Any = replace(problem, graph=ego.view_of_node(self.graph, number))
        check_capabilities(solver, self.problem)
        solver.check(self.problem, 0)
        self.solver: Any = in_dtype_of(solver, [problem.start])
        self.key, self._noise_key = key, noise_key
        self._digest = digest_of((self.solver, self.graph), self.num_clients, key)
        self._neighbours = ego.neighbours_of(self.graph)[number]
        self._ego = ego.ego_of(self.graph, number)
        self._letters = isinstance(solver, LetterSolver)
        self._dim, self._dtype = problem.start.shape[-1], dtype
        self._fields = fields_of(solver.exchange.up, [(self._dim,)], dtype)[0]
        places = len(self._ego.edges) if self._letters else len(self._ego.members)
        self._none = np.zeros((places, self._dim), dtype)
        self._like = self._shaped()
        self._curvature = jnp.ones((), dtype)
        self._state: ego.NodeState | None = None  # with `_done` messages of every neighbour
        self._sent: ego.Sent | None = None  # the part of round `_worked - 1`
        self._done = self._worked = self._heard = 0
        self._answered = (b"", b"")  # the digest of a relay's message, and what was answered
        none = jnp.zeros(1, dtype)
        counts, never = jnp.zeros(1, jnp.int32), jnp.zeros(1, bool)
        self._released = Released(none, counts, never, none)
        self._ledger_file: str | os.PathLike[str] | None = None
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
            self._released = Released(
                *(jnp.asarray(x, old.dtype) for x, old in zip(leaves, self._released, strict=True))
            )
        self._ledger_file = path

    def hello(self) -> bytes:
        """Return the message that opens a deployment: an estimate of the curvature of the loss.

        It is 0 where no number of the solver follows from it, as in all private ones.
        """
        curvature, clients = jnp.zeros((), self._dtype), list(range(self.num_clients))
        if has(self.problem, Subset):
            clients = looked_at(self.num_clients)
        if open_fields(self.solver) and self.number in clients:
            place = np.int32(clients.index(self.number))
            curvature = ego.curvature(self.solver, self.problem, place, number=len(clients))
        return self._write(Kind.HELLO, 0, to_body([number((), np.float64)], [curvature]))

    def begin(self, data: bytes) -> bytes:
        """Read the largest curvature; return the first message to the neighbours, exactly.

        Raises:
          MessageError: the message is not the relay's first one.
        """
        message = self._read(data, Kind.START)
        check_not_begun(self._worked)
        (largest,) = from_body([number((), np.float64)], message.body, [None])
        if open_fields(self.solver):
            self._curvature = as_curvature(jnp.asarray(largest, self._dtype))
        first = ego.first_message(self.solver, self.problem, self._curvature)
        body = to_body([number((self._dim,), self._dtype)], [first])
        return self._write(Kind.READY, 0, body)

    def work(self, data: bytes) -> bytes:
        """Read what neighbours have sent, do this node's part of a round, and return its message.

        The part counts once a later message says that it was heard in time. The same message of the
        relay gets the same answer again.

        Raises:
          MessageError: the message is not for this node, or of a round that is over; or the next
            message would spend more than the privacy budget.
        """
        digest = hashlib.sha256(data).digest()
        if digest == self._answered[0]:
            return self._answered[1]
        message = self._settle(data, self._done - 1)
        state, work_key = self._state, None
        assert state is not None
        if self._private:
            kept = self._released
            spent = {"spent": kept.spent, "nominal": kept.nominal, "tails": kept.tails}
            state = state._replace(nodes=state.nodes._replace(**spent))
            work_key = self._drawn(int(kept.releases[0]) + 1)
        sent, codes = ego.said(
            *(self.solver, self.problem, self.graph, self._ego, state),
            *(np.int32(message.round), self.key, work_key),
        )
        if self._private:
            self._pay(sent.nodes)
        self._sent, self._worked = sent, message.round + 1
        codes = jax.tree.map(np.asarray, codes)
        rows = range(len(self._neighbours)) if self._letters else [...]
        bodies = [to_body(self._fields, jax.tree.map(lambda x, k=k: x[k], codes)) for k in rows]
        answer = self._write(Kind.UP, message.round, b"".join(bodies))
        self._answered = (digest, answer)
        return answer

    def finish(self, data: bytes) -> None:
        """Read the message after the last round: what neighbours sent in it, and who was heard.

        Raises:
          MessageError: as `work`.
        """
        self._settle(data, self._worked)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what the node remembers to a file, in the place of an older one."""
        answered = [np.frombuffer(part, np.uint8) for part in self._answered]
        numbers = [self.number, self._done, self._worked, self._heard, self._sent is not None]
        content = (self._curvature, self._released, answered, self._state, self._sent)
        save(path, self._digest, content, numbers)

    def resume(self, path: str | os.PathLike[str]) -> None:
        """Go on from a file of `save`.

        Raises:
          InputError: the file is of another solver, run or node, or damaged.
        """
        leaves, (saved, *numbers, sent) = load(path, self._digest)
        if saved != self.number:
            raise InputError(
                f"is of node {saved}, but this is {self.number}", argument="path", value=path
            )
        curvature, *released, digest, answer = leaves[:7]
        self._curvature = jnp.asarray(curvature)
        if self._ledger_file is None:
            self._released = Released(*map(jnp.asarray, released))
        self._answered = (digest.tobytes(), answer.tobytes())
        rest = [jnp.asarray(leaf) for leaf in leaves[7:]]  # none before the first round
        if rest:
            like = jax.tree.structure(self._like if sent else self._like[0])
            states = jax.tree.unflatten(like, rest)
            self._state, self._sent = states if sent else (states, None)
        self._done, self._worked, self._heard = numbers

    @property
    def clients(self) -> Any:
        """Return what the solver keeps for this node, with one row; None before the first round."""
        return None if self._state is None else self._state.nodes

    @property
    def estimate(self) -> jax.Array | None:
        """Return this node's row of `Run.estimate`, shape (dim,); None before the first round."""
        state = self._state
        if state is None:
            return None
        own = state._replace(known=state.known[self._ego.place][None])
        return self.solver.estimate(GraphState(own.nodes, (), own.curvature, own))[0]

    @property
    def released(self) -> Released:
        """Return what has left this node with noise: `privacy.ledger(node.released, delta)`."""
        return self._released

    @property
    def _private(self) -> bool:
        return isinstance(self.solver, PrivateSolver)

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
        if spent > self._budget:
            raise MessageError(
                f"node {self.number} has spent {float(self._released.spent[0]):.6g} of a privacy "
                f"budget of {float(self._budget):.6g} (the sum of 1 / z^2) in "
                f"{int(self._released.releases[0])} releases, and its next message would exceed it"
            )
        releases = self._released.releases + 1
        self._released = Released(nodes.spent, releases, nodes.nominal, nodes.tails)
        if self._ledger_file is not None:
            save(self._ledger_file, _LEDGER, self._released, [])

    def _write(self, kind: Kind, index: int, body: bytes) -> bytes:
        return write(Message(kind, self.number, index, self._heard, body), self._digest)

    def _read(self, data: bytes, kind: Kind) -> Message:
        return read_own(data, kind, self._digest, self.number)

    def _settle(self, data: bytes, open_round: int) -> Message:
        """Take over all rounds that are closed.

        Raises:
          MessageError: the message is old, does not fit, or the state is not where the relay thinks
            it is.
        """
        message = self._read(data, Kind.DOWN)
        check_open(message, open_round)
        came = self._unpacked(message)
        if came.first > self._done:
            raise MessageError(
                f"the relay has heard this node last in round {message.heard - 1}, which its state "
                f"does not know: resume it from its latest file"
            )
        state, done = self._state, self._done
        for each, (present, bodies) in enumerate(came.rounds, came.first):
            if each < done:
                continue
            index = each - 1
            known = self._sent is not None and self._worked == each
            if each and present[self.number] and not known:
                raise MessageError(
                    f"the relay has heard this node in round {index}, which its state does not "
                    f"know: resume it from its latest file"
                )
            state = self._ended(state, present, bodies, index)
        self._state, self._done, self._sent = state, message.round + 1, None
        self._heard = message.heard
        return message

    def _unpacked(self, message: Message) -> Forwarded:
        first = self._dim * self._dtype.itemsize
        later = -(-sum(field.bits for field in jax.tree.leaves(self._fields)) // 8)
        return forwarded(
            message.body, message.round, self.num_clients, self._neighbours, (first, later)
        )

    def _ended(self, state: Any, present: np.ndarray, bodies: dict[int, bytes], index: int) -> Any:
        """Return the state after a round: of all first messages, -1."""
        if index < 0:
            models = np.zeros((len(self._ego.members), self._dim), self._dtype)
            fields = [number((self._dim,), self._dtype)]
            places = self._places(sorted(bodies))
            for (_, body), place in zip(sorted(bodies.items()), places, strict=True):
                (models[place],) = from_body(fields, body, [None])
            own = ego.first_message(self.solver, self.problem, self._curvature)
            models[self._ego.place] = own
            return ego.opened(
                *(self.solver, self.problem, self.graph, self._ego, self._curvature, models)
            )
        held, arrived = state.held, self._none.copy()
        codes = 2 * self.graph.num_edges if self._letters else self.num_clients
        for sender, body in sorted(bodies.items()):
            (place,) = self._places([sender])
            row = sender
            if self._letters:  # a letter has the key of the end from which it comes
                place = int(np.searchsorted(self._neighbours, sender))
                row = 2 * self._ego.edges[place] + 1 - self._ego.ends[place]
            key = ego.code_key(self.solver, self.key, np.int32(index), np.int32(row), number=codes)
            code = from_body(self._fields, body, [key] * len(jax.tree.leaves(self._fields)))
            value, held = ego.received(
                *(self.solver.exchange.up, code, held, np.int32(place)),
                shape=(self._dim,),
                dtype=self._dtype,
            )
            arrived[place] = value
        if not np.all(np.isfinite(arrived)):
            raise MessageError(f"a neighbour's message of round {index} decodes to no number")
        own = self._sent if present[self.number] else self._absent
        return ego.ended(
            *(self.solver, self.problem, self.graph, self._ego, state._replace(held=held)),
            *(own, present, arrived),
            *(np.int32(index), self.key),
        )

    def _places(self, senders: Any) -> list[int]:
        members = self._ego.members[: len(self._neighbours) + 1]
        return [int(place) for place in np.searchsorted(members, senders)]

    def _shaped(self) -> Any:
        """Return the shapes of the state and of the node's part."""
        shape = jax.ShapeDtypeStruct
        models = shape((len(self._ego.members), self._dim), self._dtype)
        parts = (self.solver, self.problem, self.graph, self._ego)
        state = jax.eval_shape(ego.opened, *parts, shape((), self._dtype), models)
        round_ = (shape((), jnp.int32), self.key, init_key(self.key))
        return state, jax.eval_shape(ego.said, *parts, state, *round_)[0]

    @property
    def _absent(self) -> Any:
        return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), self._like[1])


def _budget(release: Any, dtype: Any) -> float:
    """Return what all planned releases spend together, added up as a node adds it up."""
    if release.rounds is None or not hasattr(release, "costs"):
        return np.inf
    total = dtype.type(0)
    for cost in np.asarray(release.costs(jnp.arange(1, release.rounds + 1)), dtype):
        total = np.nextafter(total + cost, dtype.type(np.inf))
    return float(total)
