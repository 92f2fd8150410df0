"""A relay: it forwards messages between the nodes of a graph, and keeps no model of them."""

import os
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from fedjax_admm._checks import count, finite_array
from fedjax_admm._run._estimates import in_dtype_of
from fedjax_admm.deploy._files import load, save
from fedjax_admm.deploy._links import check_deployable, number
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
from fedjax_admm.deploy._record import Recorded, check_all_heard
from fedjax_admm.deploy.graph._ego import GRAPH, neighbours_of
from fedjax_admm.deploy.graph._forwarded import to_forward
from fedjax_admm.graphs import Graph
from fedjax_admm.solvers._graph import GraphSolver, LetterSolver


class Relay(Recorded):
    """The relay of a solver on a graph: it has neither models nor data, and rounds as a `Server`.

    A node sends one message for all its neighbours, or a letter for each. The relay reads headers,
    refuses lengths that do not fit and numbers that are not finite, and keeps the bytes until all
    who need them have them: a node that was absent gets all messages of the rounds that it has
    missed, in their order, and who was heard in them. Before round 0 it reads one number of each
    node, the estimate of the curvature.

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
        check_deployable(solver, *GRAPH)
        model = finite_array("model", model, (None,))
        graph = replace(graph, weights=graph.weights.astype(model.dtype))
        self.num_clients, self.neighbours = graph.num_nodes, neighbours_of(graph)
        self.solver = in_dtype_of(solver, [model])
        self._digest = digest_of((self.solver, graph), self.num_clients, key)
        (self._fields,) = fields_of(solver.exchange.up, [model.shape], model.dtype)
        self._first_fields = number(model.shape, model.dtype)
        self._first_length, self._length = map(_bytes_of, (self._first_fields, self._fields))
        self._key = key
        self._letters = isinstance(solver, LetterSolver)
        self._hellos: dict[int, float] = {}
        self._curvature: float | None = None
        self._came: dict[int, bytes] = {}  # in this round, or before the first one
        # Bodies by sender, of the messages from `_dropped` on: 0 for those before the first round.
        self._kept: list[dict[int, bytes]] = []
        self._dropped = 0
        self._opened = False
        self._heard = np.zeros(self.num_clients, np.int64)  # one more than the round; 0 for never
        self.masks, self.mask = [], (self.num_clients,)
        # Of bodies: as nodes send them, and along edges, which is what `Traffic` counts.
        self.bytes_up = self.bytes_down = 0

    def start(self) -> dict[int, bytes]:
        """Return by node the message with the largest curvature, once all have said hello.

        Raises:
          InputError: somebody has not.
        """
        check_all_heard(self.numbers, self._hellos)
        self._curvature = max(float(value) for value in self._hellos.values())
        body = to_body([number((), np.float64)], [self._curvature])
        return {i: self._write(Kind.START, i, body) for i in self.numbers}

    @property
    def numbers(self) -> range:
        """Return the numbers of the nodes."""
        return range(self.num_clients)

    @property
    def heard(self) -> tuple[int, ...]:
        """Return who has been heard in the round that is open, or before the first one."""
        return tuple(sorted(self._came if self._curvature is not None else self._hellos))

    def receive(self, data: bytes, sender: int | None = None) -> int:
        """Take a node's message; return whose it is.

        Args:
          data: the bytes.
          sender: who has sent it, where the transport knows: another's message is refused.

        Raises:
          MessageError: its header or its length does not fit; nothing has changed then.
        """
        kind = Kind.UP if self._opened else Kind.READY
        kind = Kind.HELLO if self._curvature is None else kind
        message = read(data, kind, self._digest)
        check_sender(message, sender, self.numbers, self.round, self.heard)
        node, body = message.client, message.body
        if kind == Kind.HELLO:
            (self._hellos[node],) = from_body([number((), np.float64)], body, [None])
            return node
        due = self._due(node) if self._opened else self._first_length
        if len(body) != due:
            raise MessageError(f"the body has {len(body)} bytes, but {due} are due")
        fields = self._fields if self._opened else self._first_fields
        # The key of a code tells its places, and not whether its numbers are finite.
        keys, length = [self._key] * len(jax.tree.leaves(fields)), _bytes_of(fields)
        for start in range(0, due, length):
            from_body(fields, body[start : start + length], keys)
        self._came[node] = body
        if self._opened:
            self.bytes_up += due
        elif len(self._came) == self.num_clients:
            self._kept, self._came, self._opened = [self._came], {}, True
        return node

    def broadcast(self, client: int) -> bytes:
        """Return what a node is to read in the round that is open.

        After the last round it is what `Node.finish` reads.

        Raises:
          InputError: there is no such node, or not all are ready.
        """
        count("client", client, at_least=0, at_most=self.num_clients - 1)
        self._complete()
        first = int(self._heard[client])
        rounds = []
        for each in range(first, self.round + 1):
            kept = self._kept[each - self._dropped]
            senders = [int(i) for i in self.neighbours[client] if i in kept]
            bodies = {i: self._for(client, i, kept[i], each) for i in senders}
            present = self.masks[each - 1] if each else np.ones(self.num_clients, bool)
            rounds.append((present, bodies))
        return self._write(Kind.DOWN, client, to_forward(first, rounds))

    def close_round(self) -> tuple[int, ...]:
        """End the round with those who have been heard, and open the next; return who they are."""
        self._complete()
        came = self._came
        active = np.isin(np.arange(self.num_clients), list(came))
        self.masks.append(active)
        self._heard[active] = self.round
        self._kept.append(came)
        for node in came:
            self.bytes_down += self._length * len(self.neighbours[node])
        # What all have read is dropped.
        oldest = int(self._heard.min())
        self._kept = self._kept[oldest - self._dropped :]
        self._dropped, self._came = oldest, {}
        return tuple(sorted(came))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all rounds that are closed to a file, in the place of an older one.

        Raises:
          InputError: no round has been opened yet.
        """
        self._complete()
        kept = [np.frombuffer(b"".join(x[i] for i in sorted(x)), np.uint8) for x in self._kept]
        numbers = [self._dropped, self._curvature, self.bytes_up, self.bytes_down]
        save(path, self._digest, (self._heard, self.record.heard, kept), numbers)

    def resume(self, path: str | os.PathLike[str]) -> None:
        """Go on from a file of `save`.

        Raises:
          InputError: the file is of another solver or run, or damaged.
        """
        leaves, numbers = load(path, self._digest)
        self._dropped, self._curvature, self.bytes_up, self.bytes_down = numbers
        self._heard, heard, *kept = leaves
        self.masks, self._kept, self._opened = list(heard), [], True
        for each, whole in enumerate(kept, self._dropped):
            senders = np.flatnonzero(heard[each - 1]) if each else self.numbers
            lengths = [self._first_length if each == 0 else self._due(int(i)) for i in senders]
            ends = np.cumsum([0, *lengths])
            pairs = zip(senders, ends[:-1], ends[1:], strict=True)
            self._kept.append({int(i): whole[a:b].tobytes() for i, a, b in pairs})

    def _due(self, node: int) -> int:
        """Return how long a node's body of a round is."""
        return self._length * (len(self.neighbours[node]) if self._letters else 1)

    def _for(self, receiver: int, sender: int, body: bytes, each: int) -> bytes:
        """Return what goes from one node to another: all of a message, or a letter of it."""
        if not (self._letters and each):
            return body
        place = int(np.searchsorted(self.neighbours[sender], receiver)) * self._length
        return body[place : place + self._length]

    def _complete(self) -> None:
        if not self._opened:
            check_all_heard(self.numbers, self._came)

    def _write(self, kind: Kind, client: int, body: bytes) -> bytes:
        message = Message(kind, client, self.round, int(self._heard[client]), body)
        return write(message, self._digest)


def _bytes_of(fields: Any) -> int:
    return -(-sum(field.bits for field in jax.tree.leaves(fields)) // 8)
