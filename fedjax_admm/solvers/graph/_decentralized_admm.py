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
from fedjax_admm.capabilities import OnGraph
from fedjax_admm.graphs import Graph
from fedjax_admm.solvers._local import LocalSolver, check_local, curvature_at_start, local_prox
from fedjax_admm.solvers._present import update_present
from fedjax_admm.solvers.graph._neighbours import NeighbourSolver, first_models


class DecentralizedNodes(NamedTuple):
    """What every node keeps."""

    x: jax.Array  # shape=(nodes, dim): models
    memory: Any  # of the local solver, stacked over nodes


class DecentralizedState(NamedTuple):
    """Models, and letters."""

    nodes: DecentralizedNodes
    letters: jax.Array  # shape=(edges, 2, dim): y, what lies at the head and at the tail of each
    curvature: jax.Array  # shape=(): of the losses at the start; 1 where nothing follows from it


@register_dataclass
@dataclass(frozen=True, eq=False)
class DecentralizedADMM(NeighbourSolver):
    """ADMM for consensus over a graph; build it with `decentralized_admm`."""

    rho: jax.Array | None  # shape=(): weight of the constraints; from the curvature if None
    relaxation: jax.Array  # shape=(): 1 is no relaxation
    local: LocalSolver

    requires: ClassVar[tuple[type, ...]] = (OnGraph,)

    def init(self, problem, key) -> DecentralizedState:
        """Start at the problem's start; neighbours know each other's models."""
        graph, x = problem.graph, first_models(problem)
        middle = (x[graph.heads] + x[graph.tails]) / 2
        return DecentralizedState(
            DecentralizedNodes(x, self.local.memory(problem, x)),
            jnp.stack([middle, middle], 1),
            curvature_at_start(problem, x, self.local, self.rho),
        )

    def step(self, problem, state: DecentralizedState, turn) -> DecentralizedState:
        """Return the state after one round: all nodes, then all letters."""
        graph, letters = problem.graph, state.letters
        degrees = jnp.maximum(graph.degrees, 1).astype(letters.dtype)
        means = _at_nodes(graph, letters) / degrees[:, None]
        centre = jnp.where(graph.isolated[:, None], state.nodes.x, means)
        weight = 2 * self.weight(problem, state) * degrees

        def update(present, clients, key):
            (x, memory), centre, weight = clients
            solved = self.local(present, centre, weight, x, memory, key, state.curvature)
            return (DecentralizedNodes(*solved), centre, weight), ()

        (nodes, _, _), _, _ = update_present(problem, turn, (state.nodes, centre, weight), update)
        ends = jnp.stack([graph.heads, graph.tails], 1)
        received = (2 * nodes.x[ends] - letters)[:, ::-1]
        a = self.relaxation / 2
        written = turn.active[ends][:, ::-1, None]
        letters = jnp.where(written, (1 - a) * letters + a * received, letters)
        return DecentralizedState(nodes, letters, state.curvature)

    def weight(self, problem, state: DecentralizedState) -> jax.Array:
        """Return rho, shape ()."""
        if self.rho is not None:
            return self.rho
        mean_degree = jnp.mean(problem.graph.degrees.astype(state.curvature.dtype))
        return state.curvature / jnp.where(mean_degree > 0, mean_degree, 1)

    def estimate(self, state: DecentralizedState) -> jax.Array:
        """Return the models, shape (nodes, dim), which agree at the limit."""
        return state.nodes.x


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
) -> DecentralizedADMM:
    """Build `DecentralizedADMM`.

    Args:
      rho: weight of the constraints, positive; if None, the curvature of the losses at the start
        over the mean degree (1 over the mean degree where the problem has no gradients).
      relaxation: at most 2; above 1 it is over-relaxation. Convergence is proved below 2.
      local: how a node finds its model; `local_prox()` if None. `local_gradient()` takes some
        gradient steps in place of an exact solution.

    Returns:
      The solver; its numbers are leaves.

    Raises:
      InputError: a number is out of range, or `local` is no local solver.
    """
    return DecentralizedADMM(
        None if rho is None else scalar("rho", rho, above=0),
        scalar("relaxation", relaxation, above=0, at_most=2),
        local_prox() if local is None else check_local(local),
    )
