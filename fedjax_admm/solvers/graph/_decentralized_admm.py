"""Decentralised consensus ADMM: neighbours on a graph agree on one model.

    minimise   sum_i f_i(x)   subject to x_i = x_j along every edge

Node i has d_i neighbours j and keeps one auxiliary vector y_ij per neighbour (a letter, in the
code). From y_ij = (x_i + x_j) / 2 at the start, one round is

    x_i  = argmin_x f_i(x) + rho d_i ||x - m_i||^2,    m_i = (1 / d_i) sum_j y_ij
    y_ji <- (1 - a) y_ji + a (2 x_i - y_ij)            for every neighbour j,  a = relaxation / 2

With relaxation 1 and full participation this is the ADMM of the first paper, which has one
multiplier per node: `y_ij = (x_i + x_j) / 2 - alpha_ij / (2 rho)` with `alpha_ij = -alpha_ji`,
`alpha_i = sum_j alpha_ij`, and

    x_i     = argmin_x f_i(x) + alpha_i^T x + rho sum_j ||x - (x_i + x_j) / 2||^2
    alpha_i <- alpha_i + rho sum_j (x_i - x_j)

At a fixed point all models are equal and -alpha_i is in the subdifferential of f_i. The multipliers
add up to 0, so the model is a minimiser. The method converges for convex losses and every rho, and
needs no gradients.

**Participation**: an absent node keeps its model and still receives messages. A round is then a
step in some coordinates of an averaged operator, which converges almost surely. (The multipliers
alpha_i would no longer add up to 0, and the limit would be another point.)

A node without neighbours takes proximal steps of weight 2 rho to its own minimiser. Weights of
edges do not enter. There is no regulariser, because the proximal map of its sum with a loss does
not follow from the two maps: add it to the losses, or take `pg_extra`.

**Messages** (`exchange`): node i sends `2 x_i - y_ij` to every neighbour j, each message with its
own code and delay. A Byzantine node sends false messages. y_ji moves towards the message that
arrives, and does not change if none arrives. A fixed point has `y_ji + y_ij = 2 x_i = 2 x_j` along
every edge, so models agree if converging messages arrive exactly, as coded differences do. Lost
messages do not change the limit.

An aggregator replaces the mean in m_i. Honest neighbours still agree exactly at a fixed point, but
`sum_i d_i (x_i - m_i) = 0` no longer holds, because the aggregator discards messages that differ
from the others. The limit is therefore not the minimiser. With full participation it does not
depend on the start; with absent nodes and cycles in the graph it may depend on which nodes were
absent.

Reference: W. Shi, Q. Ling, K. Yuan, G. Wu, W. Yin, "On the Linear Convergence of the ADMM in
Decentralized Consensus Optimization", arXiv:1307.5561, 2014; N. Bastianello, R. Carli, L. Schenato,
M. Todescato, "Asynchronous Distributed Optimization over Lossy Networks via Relaxed ADMM: Stability
and Linear Convergence", arXiv:1901.09252, 2021 (auxiliary vectors, relaxation, absent nodes).
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, flagged, positive
from fedjax_admm.capabilities import OnGraph
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers._graph import GraphState, Heard, LetterSolver, to_neighbours
from fedjax_admm.solvers._local import local_prox


class DecentralizedNodes(NamedTuple):
    """What every node holds."""

    x: jax.Array  # shape=(nodes, dim): models
    memory: Any  # of the local solver, stacked over nodes


@roles.pytree_dataclass
class DecentralizedADMM(LetterSolver):
    """ADMM for consensus over a graph; build it with `decentralized_admm`."""

    # shape=(): weight of the constraints
    rho: jax.Array = positive(curvature=lambda largest: largest)
    over_degrees: bool = flagged()  # whether the mean degree divides rho
    relaxation: jax.Array = positive(at_most=2)  # shape=(): 1 is no relaxation
    local: roles.LocalSolver = roles.locally(local_prox)
    exchange: roles.Exchange = to_neighbours()  # of 2 x_i - y_ij

    requires: ClassVar[tuple[type, ...]] = (OnGraph,)

    def start_nodes(self, problem, models) -> DecentralizedNodes:
        """Start at the first models."""
        return DecentralizedNodes(models, self.local.memory(problem, models))

    def start_edges(self, graph, models) -> jax.Array:
        """Start with y_ij = (x_i + x_j) / 2, shape (edges, 2, dim): at heads, and at tails."""
        middle = (models[graph.heads] + models[graph.tails]) / 2
        return jnp.stack([middle, middle], 1)

    def gather(self, graph, letters, known) -> jax.Array:
        """Return 2 rho d_i, shape (nodes,), with 1 in the place of d_i where it is 0."""
        return 2 * self.weight(graph) * jnp.maximum(graph.degrees, 1).astype(letters.dtype)

    def node(self, problem, nodes: DecentralizedNodes, heard: Heard, key) -> DecentralizedNodes:
        """Return about `argmin_x f_i(x) + rho d_i ||x - m_i||^2`."""
        centre = jnp.where(heard.degrees[:, None] > 0, heard.mean, nodes.x)
        return DecentralizedNodes(
            *self.local(problem, centre, heard.gathered, nodes.x, nodes.memory, key)
        )

    def message(self, nodes: DecentralizedNodes) -> jax.Array:
        """Return x."""
        return nodes.x

    def letter(self, models, letters) -> jax.Array:
        """Send 2 x_i - y_ij."""
        return 2 * models - letters

    def edge(self, letters, received) -> jax.Array:
        """Return (1 - a) y_ji + a (2 x_i - y_ij)."""
        a = self.relaxation / 2
        return (1 - a) * letters + a * received

    def weight(self, graph) -> jax.Array:
        """Return rho on a graph, shape ()."""
        if not self.over_degrees:
            return self.rho
        degree = graph.mean_degree.astype(self.rho.dtype)
        return self.rho / jnp.where(degree > 0, degree, 1)

    def estimate(self, state: GraphState) -> jax.Array:
        """Return the models, shape (nodes, dim), which agree at the limit."""
        return state.nodes.x


def decentralized_admm(
    rho: ArrayLike | None = None,
    *,
    relaxation: ArrayLike = 1.0,
    local: roles.LocalSolver | None = None,
    exchange: roles.Exchange | None = None,
) -> DecentralizedADMM:
    """Build `DecentralizedADMM`.

    Args:
      rho: weight of the constraints, positive; if None, the curvature of the losses at the start
        over the mean degree (1 over the mean degree where the problem has no gradients).
      relaxation: at most 2; above 1 it is over-relaxation. Convergence is proved below 2.
      local: how a node finds its model; `local_prox()` if None. `local_gradient()` takes some
        gradient steps in place of an exact solution.
      exchange: of messages, `messages.exchange(...)`; none if None.
    """
    over_degrees = rho is None
    return build(DecentralizedADMM, **locals())
