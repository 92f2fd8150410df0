r"""Decentralised consensus ADMM: neighbours on a graph agree on one model.

    minimise   sum_i f_i(x)

which has the minimisers of the mean of the losses. The constraint is x_i = x_j along every edge.
Each node keeps a letter y_ij of every neighbour j; with d_i its degree, one round is

    x_i  = argmin_x f_i(x) + rho d_i ||x - m_i||^2,    m_i = (1 / d_i) sum_j y_ij
    y_ji <- (1 - a) y_ji + a (2 x_i - y_ij)            for every neighbour j,  a = relaxation / 2

from y_ij = (x_i + x_j) / 2. With relaxation 1 and everybody present this is the decentralised ADMM
of the paper, whose nodes keep one multiplier each: `y_ij = (x_i + x_j) / 2 - alpha_ij / (2 rho)`
with `alpha_ij = -alpha_ji`, `alpha_i = sum_j alpha_ij`, and

    x_i     = argmin_x f_i(x) + alpha_i^T x + rho sum_j ||x - (x_i + x_j) / 2||^2
    alpha_i <- alpha_i + rho sum_j (x_i - x_j)

A fixed point has all models equal, and -alpha_i in the subdifferential of f_i; the multipliers add
up to 0, so that the model is a minimiser. Convex losses need no gradients and no bound on rho.

**Who is absent** keeps its model and still receives letters. A round is then a step of some
coordinates of an averaged operator, which converges almost surely where everybody is present with
some probability. Multipliers of nodes would not do: updated by those present alone, they do not add
up to 0 any more, and the limit is another point.

A node without neighbours takes proximal steps of weight 2 rho from where it is, to its own
minimiser. Weights of edges do not enter. There is no field for a regulariser: the proximal map of
its sum with a loss does not follow from the two maps. It belongs into the losses, or to `pg_extra`,
which takes one beside them.

**Messages** (`exchange`): the letter `2 x_i - y_ij` travels from i to every neighbour j. Each has a
code, a delay and a lie of its own, while those who lie are nodes. What arrives of it is what y_ji
moves towards; where nothing arrives, y_ji stays. A fixed point has
`y_ji + y_ij = 2 x_i` and `= 2 x_j` along every edge: models agree as soon as letters that settle
arrive as they were sent, as coded differences do. Lost letters do not move the limit.

An aggregator takes the place of the mean in m_i, over the node's letters. Neighbours who keep to
the rules then still agree exactly at a fixed point, but `sum_i d_i (x_i - m_i) = 0`, which the mean
owes to the letters of an edge adding up, is lost, and so is the minimiser: letters of honest
neighbours differ by their multipliers, of which the rule discards some. With everybody
present, multipliers of edges stay differences of numbers at nodes, and the limit does not depend on
the start; where nodes are absent and the graph has cycles, it may depend on who was.

Reference: W. Shi, Q. Ling, K. Yuan, G. Wu, W. Yin, "On the Linear Convergence of the ADMM in
Decentralized Consensus Optimization", arXiv:1307.5561, 2014; N. Bastianello, R. Carli, L. Schenato,
M. Todescato, "Asynchronous Distributed Optimization over Lossy Networks via Relaxed ADMM: Stability
and Linear Convergence", arXiv:1901.09252, 2021 (letters, relaxation, absent nodes).
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.ops import segment_sum
from jax.typing import ArrayLike

from fedjax_admm._checks import scalar
from fedjax_admm._pytrees import register_dataclass
from fedjax_admm._shown import short_repr
from fedjax_admm.capabilities import OnGraph
from fedjax_admm.graphs import Graph
from fedjax_admm.messages import Exchange
from fedjax_admm.participation import where_active
from fedjax_admm.solvers._declared import filled, open_fields
from fedjax_admm.solvers._gradients import largest_curvature
from fedjax_admm.solvers._local import LocalSolver, check_local, local_prox
from fedjax_admm.solvers._star import work_present
from fedjax_admm.solvers.graph._neighbours import (
    NeighbourSolver,
    averages,
    check_groups,
    check_peers,
    first_models,
)


@short_repr
class DecentralizedNodes(NamedTuple):
    """What every node keeps."""

    x: jax.Array  # shape=(nodes, dim): models
    memory: Any  # of the local solver, stacked over nodes


@short_repr
class DecentralizedState(NamedTuple):
    """Models, and letters."""

    nodes: DecentralizedNodes
    letters: jax.Array  # shape=(edges, 2, dim): y, what lies at the head and at the tail of each
    curvature: jax.Array  # shape=(): of the losses at the start; 1 where nothing follows from it
    post: Any = ()  # what the exchange remembers: a mailbox, stacked over 2 letters per edge


@register_dataclass
@dataclass(frozen=True, eq=False)
class DecentralizedADMM(NeighbourSolver):
    """ADMM for consensus over a graph; build it with `decentralized_admm`."""

    rho: jax.Array | None  # shape=(): weight of the constraints; from the curvature if None
    relaxation: jax.Array  # shape=(): 1 is no relaxation
    local: LocalSolver
    exchange: Exchange  # of 2 x_i - y_ij

    requires: ClassVar[tuple[type, ...]] = (OnGraph,)

    def init(self, problem, key) -> DecentralizedState:
        """Start at the problem's start; neighbours know each other's models."""
        graph, x = problem.graph, first_models(problem)
        middle = (x[graph.heads] + x[graph.tails]) / 2
        letters = jnp.stack([middle, middle], 1)
        return DecentralizedState(
            DecentralizedNodes(x, self.local.memory(problem, x)),
            letters,
            self._curvature(problem, x),
            self._open(graph, x, letters, key),
        )

    def _curvature(self, problem, x) -> jax.Array:
        if self.rho is None or open_fields(self.local):
            return largest_curvature(problem, x)
        return jnp.ones((), x.dtype)

    def check(self, problem, rounds: int) -> None:
        """Check that nodes have as many neighbours as the aggregator needs.

        Raises:
          InputError: they have fewer.
        """
        check_groups(self.exchange, problem.graph, own=0)

    def step(self, problem, state: DecentralizedState, info) -> DecentralizedState:
        """Return the state after one round: all nodes, then all letters."""
        graph, letters, post = problem.graph, state.letters, state.post
        degrees = jnp.maximum(graph.degrees, 1).astype(letters.dtype)
        if averages(self.exchange):
            means = _at_nodes(graph, letters) / degrees[:, None]
        else:
            means = where_active(info.active, self._made(graph, letters, post), post.last)
            post = post._replace(last=means)
        centre = jnp.where(graph.isolated[:, None], state.nodes.x, means)
        weight = 2 * self.weight(problem, state) * degrees

        local = filled(self.local, state.curvature)

        def work(present, clients, key):
            (x, memory), centre, weight = clients
            solved = local(present, centre, weight, x, memory, key)
            return DecentralizedNodes(*solved), centre, weight

        nodes, _, _ = work_present(problem, info, (state.nodes, centre, weight), work)
        sent, speaks = 2 * nodes.x[_ends(graph)] - letters, info.active[_ends(graph)]
        if not self.exchange.plain:
            delivery, post = self.exchange.send_up(
                info.key,
                info.index,
                post,
                sent.reshape(-1, sent.shape[-1]),
                (speaks & graph.present[:, None]).reshape(-1),
            )
            sent = delivery.values.reshape(sent.shape)
            speaks = delivery.arrived.reshape(speaks.shape)
        a = self.relaxation / 2
        received, written = sent[:, ::-1], speaks[:, ::-1, None]
        letters = jnp.where(written, (1 - a) * letters + a * received, letters)
        return DecentralizedState(nodes, letters, state.curvature, post)

    def weight(self, problem, state: DecentralizedState) -> jax.Array:
        """Return rho, shape ()."""
        if self.rho is not None:
            return self.rho
        mean_degree = jnp.mean(problem.graph.degrees.astype(state.curvature.dtype))
        return state.curvature / jnp.where(mean_degree > 0, mean_degree, 1)

    def estimate(self, state: DecentralizedState) -> jax.Array:
        """Return the models, shape (nodes, dim), which agree at the limit."""
        return state.nodes.x

    def _open(self, graph: Graph, x: jax.Array, letters: jax.Array, key: jax.Array):
        """Return the box of the letters; who lies does so in all of its own."""
        if self.exchange.plain:
            return ()
        first = (2 * x[_ends(graph)] - letters).reshape(-1, x.shape[-1])
        byzantine = self.exchange.byzantine(key, graph.num_nodes)
        bad = byzantine[_ends(graph)].reshape(-1)
        box = self.exchange.init_up(key, first, receivers=graph.num_nodes, bad=bad)
        return box._replace(last=x)

    def _made(self, graph: Graph, letters: jax.Array, post: Any) -> jax.Array:
        """Return what every node makes of its letters, shape (nodes, dim)."""
        votes = jnp.repeat(graph.present.astype(letters.dtype), 2)
        flat = letters.reshape(-1, letters.shape[-1])
        return self.exchange.aggregate(flat, votes, post.last, _ends(graph).reshape(-1))


def _ends(graph: Graph) -> jax.Array:
    """Return the nodes at the two ends of every edge, shape (edges, 2)."""
    return jnp.stack([graph.heads, graph.tails], 1)


def _at_nodes(graph: Graph, letters: jax.Array) -> jax.Array:
    """Add up every node's letters: (edges, 2, dim) to (nodes, dim)."""
    there = jnp.where(graph.present[:, None, None], letters, 0)
    at_heads = segment_sum(there[:, 0], graph.heads, graph.num_nodes, indices_are_sorted=True)
    return at_heads + segment_sum(there[:, 1], graph.tails, graph.num_nodes)


def decentralized_admm(
    rho: ArrayLike | None = None,
    *,
    relaxation: ArrayLike = 1.0,
    local: LocalSolver | None = None,
    exchange: Exchange | None = None,
) -> DecentralizedADMM:
    """Build `DecentralizedADMM`.

    Args:
      rho: weight of the constraints, positive; if None, the curvature of the losses at the start
        over the mean degree (1 over the mean degree where the problem has no gradients).
      relaxation: at most 2; above 1 it is over-relaxation. Convergence is proved below 2.
      local: how a node finds its model; `local_prox()` if None. `local_gradient()` takes some
        gradient steps in place of an exact solution.
      exchange: what happens to messages, `messages.exchange(...)`; nothing if None.

    Returns:
      The solver; its numbers are leaves.

    Raises:
      InputError: a number is out of range, `local` is no local solver, or the exchange is none or
        has a channel down.
    """
    return DecentralizedADMM(
        None if rho is None else scalar("rho", rho, above=0),
        scalar("relaxation", relaxation, above=0, at_most=2),
        local_prox() if local is None else check_local(local),
        check_peers(exchange),
    )
