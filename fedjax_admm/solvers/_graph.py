"""The harness of solvers whose nodes send messages to their neighbours on a graph.

A solver implements roles, each a function of rows stacked over nodes (all, or those that are drawn)
or over edges:

    start_nodes(problem, models) -> nodes               before the first round
    start_edges(graph, models) -> edges
    message(nodes) -> (nodes, dim)                      the same for all neighbours
    gather(graph, edges, known) -> pytree               what a node receives from its edges
    node(problem, nodes, heard, key) -> nodes

A `GraphSolver` keeps nothing on edges. A `FlowSolver` keeps one flow per edge, which both ends
compute alike:

    ahead(before, after) -> (nodes, dim)                whose differences along edges move flows
    edge(flows, difference, weights) -> flows

A `LetterSolver` keeps two vectors per edge (letters), one at each end, and a node's message depends
on the edge:

    letter(models, letters) -> (edges, 2, dim)          goes to the other end
    edge(letters, received) -> letters

The harness masks absent nodes, and edges with an absent end. It computes only the drawn rows, if
the problem can leave the others out (`Subset`). It sends messages through the exchange, and counts
messages and their numbers.

A node sends the same message to all its neighbours, and all receive it at the same time. Its
*known* model is the last one that they received; the node knows it too. Both ends of an edge
compute from known models only, so they agree with any exchange.
"""

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.ops import segment_sum

from fedjax_admm._checks import is_concrete
from fedjax_admm.capabilities import Subset, has
from fedjax_admm.graphs import Graph, metropolis_weights
from fedjax_admm.kernels import edge_difference
from fedjax_admm.lanes import computed_once
from fedjax_admm.messages import ChannelState, Exchange, Mean, at_rows, put_rows
from fedjax_admm.participation import where_active
from fedjax_admm.protocol import RoundInfo
from fedjax_admm.solvers._declared import exchanged, filled, open_fields
from fedjax_admm.solvers._gradients import (
    as_curvature,
    copies,
    curvature_alone,
    largest_curvature,
    row_alone,
)
from fedjax_admm.solvers.graph._blocks import replace_rows
from fedjax_admm.traffic import Traffic


class GraphState(NamedTuple):
    """The state of a solver whose nodes have neighbours."""

    nodes: Any  # stacked over nodes
    edges: Any  # stacked over edges; () where nothing lies there
    curvature: jax.Array  # shape=(): estimated before the first round; 1 where nothing needs it
    exchange: Any = ()  # ChannelState; () where nothing happens to messages


class FlowsState(GraphState):
    """The state of a solver with flows on edges."""

    @property
    def u(self) -> jax.Array:
        """Return the flows, shape (edges, dim)."""
        return self.edges


class Heard(NamedTuple):
    """Input of the nodes of a round, stacked over them."""

    known: Any  # shape=(nodes, dim): their own messages as everybody knows them; () with letters
    mean: Any  # shape=(nodes, dim): W x^ of the known messages, or what the aggregator makes of
    # them; with letters the mean of a node's letters; () unless a solver `mixes`
    apart: Any  # shape=(nodes, dim): x^ - W x^; the nodes' sum is 0 without an aggregator
    gathered: Any  # what comes from edges
    degrees: Any  # shape=(nodes,), int32: how many neighbours they hear


class GraphSolver:
    """A solver as the roles of its nodes; see the module's docstring."""

    exchange: Exchange = Exchange()

    mixes: ClassVar[bool] = False  # nodes read `Heard.mean` or `Heard.apart`
    speaks_first: ClassVar[bool] = False  # nodes send before they work, not after; then those that
    # are present hear each other alone
    works_whole: ClassVar[bool] = False  # all nodes are computed, even where some are drawn
    own_votes: ClassVar[int] = 1  # how many vectors of its own a node adds to what it hears

    # The roles.

    def first_models(self, problem: Any) -> jax.Array:
        """Return the models before the first round, which everybody knows, shape (nodes, dim)."""
        return copies(problem.start, problem) if problem.start.ndim == 1 else problem.start

    def start_nodes(self, problem: Any, models: jax.Array, /) -> Any:
        """Return what nodes hold before the first round, for first models (nodes, dim)."""
        raise NotImplementedError

    def start_edges(self, graph: Graph, models: jax.Array, /) -> Any:
        """Return what lies on edges before the first round."""
        return ()

    def message(self, nodes: Any, /) -> jax.Array:
        """Return what nodes send to all their neighbours, shape (nodes, dim)."""
        raise NotImplementedError

    def gather(self, graph: Graph, edges: Any, known: Any, /) -> Any:
        """Return what comes to every node from its edges and from known messages, stacked."""
        return ()

    def node(self, problem: Any, nodes: Any, heard: Heard, key: jax.Array, /) -> Any:
        """Return what nodes hold after their work.

        Args:
          problem: of these nodes, which may be some of all; then it may have no graph.
          nodes: what they hold, stacked.
          heard: what they know, stacked.
          key: of the round, the same for all nodes.
        """
        raise NotImplementedError

    # The protocol of `run`.

    def participants(self, problem: Any) -> tuple[int, ...]:
        """Return `(nodes,)`."""
        return (problem.num_clients,)

    def check(self, problem: Any, rounds: int) -> None:
        """Check that every node hears enough others; traced graphs and stacks are not looked at."""
        aggregator, graph = self.exchange.aggregator, problem.graph
        if not hasattr(aggregator, "check") or graph.heads.ndim != 1 or not is_concrete(graph):
            return
        with jax.ensure_compile_time_eval():  # of a run that is traced, on a graph that is not
            degrees = np.asarray(graph.degrees)
        joined = degrees[degrees > 0]
        if joined.size:
            aggregator.check(int(joined.min()) + self.own_votes)  # pyright: ignore[reportAttributeAccessIssue]

    def init(self, problem: Any, key: jax.Array) -> GraphState:
        """Return the state before the first round."""
        models = self.first_models(problem)
        curvature = jnp.ones((), models.dtype)
        if open_fields(self):
            curvature = largest_curvature(problem, models)
        solver = filled(self, curvature)
        nodes, edges = (
            solver.start_nodes(problem, models),
            solver.start_edges(problem.graph, models),
        )
        if self.exchange.plain:
            return GraphState(nodes, edges, curvature)
        channel = solver._open(problem.graph, nodes, edges, key)
        return GraphState(nodes, edges, curvature, channel)

    def step(self, problem: Any, state: Any, info: RoundInfo) -> Any:
        """Return the state after one round."""
        solver, graph, active = filled(self, state.curvature), problem.graph, info.active
        edges, channel, arrived = state.edges, state.exchange, ()
        if self.speaks_first:
            arrived, channel = solver._send(graph, edges, channel, state.nodes, active, info)
        known = solver._known(state.nodes, channel)
        heard, last = solver.hear(graph, edges, known, getattr(channel, "last", ()), active)
        if not self.exchange.plain:
            channel = channel._replace(last=last)

        rows = info.sampled if has(problem, Subset) and not self.works_whole else None
        own, there, here = at_rows(rows, (state.nodes, heard, active))
        present = problem if rows is None else problem.take(rows)
        nodes = put_rows(rows, here, solver.node(present, own, there, info.key), state.nodes)

        if not self.speaks_first:
            arrived, channel = solver._send(graph, edges, channel, nodes, active, info)
        edges = solver.tell(graph, edges, heard, arrived, active)
        return state._replace(nodes=nodes, edges=edges, exchange=channel)

    # The parts of it, for nodes that are elsewhere.

    def row(self, problem: Any, number: int) -> Any:
        """Return the problem of one node, from 0, of a problem of all; it has no neighbours."""
        if has(problem, Subset):
            return row_alone(problem, number)
        graph = problem.graph
        alone = Graph(graph.heads[:0], graph.tails[:0], graph.weights[:0], 1)
        return replace(row_alone(problem, number), graph=alone)

    def at(self, curvature: jax.Array) -> Any:
        """Return the solver with the numbers that follow from the curvature, shape ()."""
        return filled(self, curvature)

    as_curvature = staticmethod(as_curvature)

    def own_curvature(self, problem: Any, number: int, num_nodes: int) -> jax.Array:
        """Return the estimate of one node for `as_curvature`, shape ().

        Args:
          problem: of this node alone.
          number: which node it is, from 0.
          num_nodes: how many there are in all.
        """
        point = self.first_models(problem)[0]
        return curvature_alone(self, problem, point, number, num_nodes)

    def heard_along(self, graph: Graph, active: jax.Array) -> Graph:
        """Return the graph along which nodes hear each other, where some are active (nodes,)."""
        return among_present(graph, active) if self.speaks_first else graph

    def hear(
        self, graph: Graph, edges: Any, known: Any, last: Any, active: jax.Array
    ) -> tuple[Heard, Any]:
        """Return the input of the nodes of a round, and what the aggregator returned.

        Args:
          graph: whose nodes these are.
          edges: what lies there.
          known: what nodes have sent last, as all know it, shape (nodes, dim).
          last: what the aggregator returned before, shape (nodes, dim); () without an exchange.
          active: who takes part, bool, shape (nodes,).
        """
        mean, apart, graph = (), (), self.heard_along(graph, active)
        if self.mixes:
            weights = metropolis_weights(graph).astype(known.dtype)
            if self._averages:
                apart = graph.divergence(weights[:, None] * graph.difference(known))
                mean = known - apart
            else:
                mean = last = self._aggregated(graph, weights, known, last, active)
                apart = known - mean
        gathered = self.gather(graph, edges, known)
        return Heard(known, mean, apart, gathered, graph.degrees), last

    def tell(self, graph: Graph, edges: Any, heard: Heard, arrived: Any, active: jax.Array) -> Any:
        """Return what lies on edges after a round.

        Args:
          graph: whose edges these are.
          edges: what lay there.
          heard: the input of the nodes.
          arrived: what nodes have sent, as all know it after the round, shape (nodes, dim).
          active: who takes part, bool, shape (nodes,).
        """
        return edges

    def known(self, state: Any) -> jax.Array:
        """Return what nodes sent as everybody knows it, shape (nodes, dim)."""
        return self._known(state.nodes, state.exchange)

    def traffic(self, problem: Any) -> Traffic:
        """Return dim numbers for every message that is sent along an edge, and received."""
        shape = (problem.start.shape[-1],)
        return replace(self.exchange, down=self.exchange.up).traffic(up=[shape], down=[shape])

    def messages(self, problem: Any, active: jax.Array) -> jax.Array:
        """Count the neighbours of the nodes that take part, shape (), int32."""
        return jnp.sum(jnp.where(active, problem.graph.degrees, 0), dtype=jnp.int32)

    # The way of messages.

    @property
    def _averages(self) -> bool:
        return isinstance(self.exchange.aggregator, Mean)

    def _known(self, nodes: Any, channel: Any) -> jax.Array:
        return self.message(nodes) if self.exchange.plain else channel.known

    def _open(self, graph: Graph, nodes: Any, edges: Any, key: jax.Array) -> ChannelState:
        """Return the exchange of nodes that know each other's first messages."""
        models = self.message(nodes)
        return self.exchange.init_up(key, models, receivers=len(models))._replace(last=models)

    def _send(
        self, graph: Graph, edges: Any, channel: Any, nodes: Any, active: jax.Array, info: RoundInfo
    ) -> tuple[Any, Any]:
        """Return what has arrived once those that take part have sent, and the exchange."""
        if not self.exchange.plain:
            sent = self.message(nodes)
            _, channel = self.exchange.send_up(info.key, info.index, channel, sent, active)
        return self._known(nodes, channel), channel

    def _aggregated(self, graph, weights, known, last, active) -> jax.Array:
        """Return the aggregator in the place of `W x^`; the absent keep what they made last.

        It is of every neighbour j with weight m_ij and of the node itself with 1 - sum_j m_ij.
        """
        heads, tails, nodes = graph.heads, graph.tails, jnp.arange(graph.num_nodes, dtype=jnp.int32)
        others = segment_sum(weights, heads, graph.num_nodes, indices_are_sorted=True)
        others = others + segment_sum(weights, tails, graph.num_nodes)
        made = self.exchange.aggregate(
            jnp.concatenate([known[tails], known[heads], known]),
            jnp.concatenate([weights, weights, 1 - others]),
            last,
            jnp.concatenate([heads, tails, nodes]),
        )
        return where_active(active, made, last)


class FlowSolver(GraphSolver):
    """A solver with a flow on every edge, which stays where one end is absent."""

    def init(self, problem: Any, key: jax.Array) -> FlowsState:
        """Return the state before the first round."""
        return FlowsState(*super().init(problem, key))

    def start_edges(self, graph: Graph, models: jax.Array, /) -> jax.Array:
        """Start without flows."""
        return jnp.zeros((graph.num_edges, models.shape[-1]), models.dtype)

    def ahead(self, before: jax.Array, after: jax.Array, /) -> jax.Array:
        """Return what flows compare, of known messages before and after, (nodes, dim) each."""
        return after

    def edge(self, flows: jax.Array, difference: jax.Array, weights: jax.Array, /) -> jax.Array:
        """Return the flows after a round, which may be some of all.

        Args:
          flows: shape (edges, dim).
          difference: of `ahead` along edges, shape (edges, dim).
          weights: of edges, shape (edges,); 0 where an edge is not there.
        """
        raise NotImplementedError

    def tell(self, graph, edges, heard, arrived, active) -> jax.Array:
        """Return the flows after a round; they stay where one end is absent."""
        ahead = computed_once(self.ahead(heard.known, arrived))

        def update(flows, heads, tails, weights):
            moved = self.edge(flows, edge_difference(ahead, heads, tails), weights)
            return where_active(_both(active, heads, tails), moved, flows)

        return replace_rows(update, edges, (graph.heads, graph.tails, graph.weights), self)


class LetterSolver(GraphSolver):
    """A solver with a letter at each end of every edge, which comes from the other end.

    Each letter has a code and a delay of its own, and is false where its sender is Byzantine. A
    letter stays where nothing arrives; a node that is absent still receives.
    """

    own_votes: ClassVar[int] = 0

    def letter(self, models: jax.Array, letters: jax.Array, /) -> jax.Array:
        """Return what goes to the other ends.

        Args:
          models: the messages of the nodes at both ends, shape (edges, 2, dim).
          letters: that lie there, shape (edges, 2, dim).
        """
        raise NotImplementedError

    def edge(self, letters: jax.Array, received: jax.Array, /) -> jax.Array:
        """Return the letters after what has come from the other ends, (edges, 2, dim) each."""
        raise NotImplementedError

    def _open(self, graph, nodes, edges, key) -> ChannelState:
        models, ends = self.message(nodes), ends_of(graph)
        first = self.letter(models[ends], edges).reshape(-1, models.shape[-1])
        byzantine = self.exchange.byzantine(key, graph.num_nodes)[ends].reshape(-1)
        channel = self.exchange.init_up(key, first, receivers=graph.num_nodes, byzantine=byzantine)
        return channel._replace(last=models)

    def hear(self, graph, edges, known, last, active) -> tuple[Heard, Any]:
        """Return the input of the nodes of a round, of the letters (edges, 2, dim)."""
        if self._averages:
            there = jnp.where(graph.present[:, None, None], edges, 0)
            number = graph.num_nodes
            sums = segment_sum(there[:, 0], graph.heads, number, indices_are_sorted=True)
            sums = sums + segment_sum(there[:, 1], graph.tails, number)
            mean = sums / jnp.maximum(graph.degrees, 1).astype(edges.dtype)[:, None]
        else:
            votes = jnp.repeat(graph.present.astype(edges.dtype), 2)
            flat = edges.reshape(-1, edges.shape[-1])
            made = self.exchange.aggregate(flat, votes, last, ends_of(graph).reshape(-1))
            mean = last = where_active(active, made, last)
        return Heard((), mean, (), self.gather(graph, edges, ()), graph.degrees), last

    def tell(self, graph, edges, heard, arrived, active) -> jax.Array:
        """Return the letters after a round.

        Args:
          graph: whose edges these are.
          edges: the letters before, shape (edges, 2, dim).
          heard: the input of the nodes.
          arrived: the letters as they leave the ends of edges, shape (edges, 2, dim), and which of
            them arrive, bool, shape (edges, 2).
          active: who takes part, bool, shape (nodes,).
        """
        sent, there = arrived
        return where_active(there[:, ::-1], self.edge(edges, sent[:, ::-1]), edges)

    def _send(self, graph, edges, channel, nodes, active, info) -> tuple[Any, Any]:
        """Return the letters that leave the ends of edges and which arrive, and the exchange."""
        ends = ends_of(graph)
        sent, sending = self.letter(self.message(nodes)[ends], edges), active[ends]
        if self.exchange.plain:
            return (sent, sending), channel
        delivery, channel = self.exchange.send_up(
            info.key,
            info.index,
            channel,
            sent.reshape(-1, sent.shape[-1]),
            (sending & graph.present[:, None]).reshape(-1),
        )
        arrived = delivery.arrived.reshape(sending.shape)
        return (delivery.values.reshape(sent.shape), arrived), channel


def among_present(graph: Graph, active: jax.Array) -> Graph:
    """Return a graph with the edges alone whose ends are both present; `active` is (nodes,)."""
    working = _both(active, graph.heads, graph.tails)
    return replace(graph, weights=jnp.where(working, graph.weights, 0))


def _both(active: jax.Array, heads: jax.Array, tails: jax.Array) -> jax.Array:
    """Return whether both ends are active; XLA sees where all always are, and leaves masks out."""
    return jnp.all(active) | (active[heads] & active[tails])


def to_neighbours(**reasons: str) -> Any:
    """Declare the exchange of messages to neighbours: `exchanged`, and no channel down."""
    return exchanged(up_alone="nodes of a graph have no server above them", **reasons)


def ends_of(graph: Graph) -> jax.Array:
    """Return the nodes at the two ends of every edge, shape (edges, 2)."""
    return jnp.stack([graph.heads, graph.tails], 1)
