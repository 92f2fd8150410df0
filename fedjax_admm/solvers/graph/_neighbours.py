r"""What solvers share whose nodes send their models to all neighbours.

A node says the same to all its neighbours, in one message, and keeps what it heard last of each of
them: its model as it is known, x^_i. The node itself knows what is known of it. What is computed at
both ends of an edge is computed from known models alone, so that both ends find the same, whatever
happens on the way. Delays are those of nodes: a message is heard by all neighbours at once.
"""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.ops import segment_sum

from fedjax_admm._checks import InputError, is_concrete
from fedjax_admm.graphs import Graph, metropolis_weights
from fedjax_admm.messages import ChannelState, Exchange, Identity, Mean, check_exchange
from fedjax_admm.participation import where_active
from fedjax_admm.solvers._star import copies
from fedjax_admm.traffic import Traffic


class NeighbourSolver:
    """A solver whose nodes, where they take part, send dim numbers to each of their neighbours."""

    exchange: Exchange

    def participants(self, problem: Any) -> tuple[int, ...]:
        """Return `(nodes,)`."""
        return (problem.num_clients,)

    def traffic(self, problem: Any) -> Traffic:
        """Return dim numbers for every message that is sent along an edge, and received."""
        return peer_traffic(self.exchange, problem.start.shape[-1])

    def messages(self, problem: Any, active: jax.Array) -> jax.Array:
        """Count the neighbours of the nodes that take part, shape (), int32."""
        return jnp.sum(jnp.where(active, problem.graph.degrees, 0), dtype=jnp.int32)


def first_models(problem: Any) -> jax.Array:
    """Return the model that each node starts from, shape (nodes, dim)."""
    return copies(problem.start, problem) if problem.start.ndim == 1 else problem.start


def among_present(graph: Graph, active: jax.Array) -> Graph:
    """Return a graph with the edges alone whose ends are both present; `active` is (nodes,)."""
    working = active[graph.heads] & active[graph.tails]
    return replace(graph, weights=jnp.where(working, graph.weights, 0))


# --- messages ---


def open_box(exchange: Exchange, key: jax.Array, models: jax.Array) -> ChannelState | tuple[()]:
    """Return the box of nodes that know each other's models; nothing where nothing happens.

    Args:
      exchange: of the solver.
      key: of `init`; it may be used for other things, too.
      models: that everybody knows at the start, shape (nodes, dim).
    """
    if exchange.plain:
        return ()
    box = exchange.init_up(key, models, receivers=models.shape[0])
    return box._replace(last=models)


def broadcast(
    exchange: Exchange, info: Any, box: Any, models: jax.Array, active: jax.Array | None = None
) -> ChannelState:
    """Return the box after nodes have sent their models; in it is what everybody knows of them.

    Args:
      exchange: of the solver, not plain.
      info: of the round.
      box: from before.
      models: shape (nodes, dim).
      active: who sends, bool, shape (nodes,); who takes part if None.
    """
    speaks = info.active if active is None else active
    return exchange.send_up(info.key, info.index, box, models, speaks)[1]


def neighbourhoods(
    exchange: Exchange,
    graph: Graph,
    weights: jax.Array,
    models: jax.Array,
    last: jax.Array,
    active: jax.Array,
) -> jax.Array:
    """Return what every node makes of its neighbours' models and its own, shape (nodes, dim).

    That is the aggregator in the place of the Metropolis mean W x: of every node j with weight m_ij
    and of i itself with 1 - sum_j m_ij.

    Args:
      exchange: of the solver.
      graph: of those who count.
      weights: m, shape (edges,); 0 where an edge is not there.
      models: as they are known, shape (nodes, dim).
      last: what they made of them before, (nodes, dim), which the absent keep.
      active: who takes part, bool, shape (nodes,).
    """
    heads, tails, nodes = graph.heads, graph.tails, jnp.arange(graph.num_nodes, dtype=jnp.int32)
    others = segment_sum(weights, heads, graph.num_nodes, indices_are_sorted=True)
    others = others + segment_sum(weights, tails, graph.num_nodes)
    made = exchange.aggregate(
        jnp.concatenate([models[tails], models[heads], models]),
        jnp.concatenate([weights, weights, 1 - others]),
        last,
        jnp.concatenate([heads, tails, nodes]),
    )
    return where_active(active, made, last)


def apart(
    exchange: Exchange, graph: Graph, info: Any, models: jax.Array, box: Any
) -> tuple[jax.Array, Any]:
    """Return `x - W x` with the Metropolis weights of a graph, (nodes, dim), and the box.

    Nodes that take part send their models first, and those that are known, x^, take their place:
    `x^ - W x^`, which adds up to zero over the nodes. With an aggregator it is `x^ - Agg(x^)`, and
    does not.

    Args:
      exchange: of the solver.
      graph: of those who are present.
      info: of the round.
      models: x, shape (nodes, dim).
      box: from before.
    """
    weights = metropolis_weights(graph).astype(models.dtype)
    known = models
    if not exchange.plain:
        box = broadcast(exchange, info, box, models)
        known = box.known
    if averages(exchange):
        return graph.divergence(weights[:, None] * graph.difference(known)), box
    last = neighbourhoods(exchange, graph, weights, known, box.last, info.active)
    return known - last, box._replace(last=last)


def averages(exchange: Exchange) -> bool:
    """Return whether nodes take weighted means of what they hear; a part of the structure."""
    return isinstance(exchange.aggregator, Mean)


def peer_traffic(exchange: Exchange, dim: int) -> Traffic:
    """Return the traffic of messages of dim numbers that are sent along an edge, and received."""
    return replace(exchange, down=exchange.up).traffic(up=[(dim,)], down=[(dim,)])


# --- checks ---


def check_peers(given: Any) -> Exchange:
    """Return the exchange of a solver without a server, the plain one if None.

    Raises:
      InputError: it is none, or it has a channel down.
    """
    chosen = check_exchange(given)
    if not isinstance(chosen.down, Identity):
        raise InputError(
            "must have no channel down, because nodes of a graph have no server above them",
            argument="exchange",
            value=given,
            remedy="give it as up, which every message to neighbours passes",
        )
    return chosen


def check_flows(given: Any, why: str) -> Exchange:
    """Return the exchange of a solver with flows on edges, the plain one if None.

    Args:
      given: the argument.
      why: there is nothing to aggregate, for the sentence.

    Raises:
      InputError: it is none, or it has a channel down or an aggregator.
    """
    chosen = check_peers(given)
    if not averages(chosen):
        raise InputError(
            f"must have no aggregator but the mean, because {why}",
            argument="exchange",
            value=given,
            remedy="leave the aggregator out",
        )
    return chosen


def check_groups(exchange: Exchange, graph: Graph, own: int) -> None:
    """Check that every node hears enough others; a traced graph, or a stack, is not looked at.

    Args:
      exchange: of the solver.
      graph: whose nodes aggregate what they hear, if they have neighbours.
      own: how many vectors of its own a node adds.

    Raises:
      InputError: the aggregator needs more.
    """
    if averages(exchange) or graph.heads.ndim != 1 or not is_concrete(graph):
        return
    with jax.ensure_compile_time_eval():  # of a run that is traced, on a graph that is not
        degrees = np.asarray(graph.degrees)
    joined = degrees[degrees > 0]
    if joined.size and hasattr(exchange.aggregator, "check"):
        exchange.aggregator.check(int(joined.min()) + own)
