"""GTV minimisation by a primal-dual method: one model per node, coupled along the edges.

    minimise   sum_i L_i(w_i) + lam sum_e A_e phi(w_{h_e} - w_{t_e})

over the models w_i of the nodes of a graph. GTV stands for generalised total variation. The dual
variable is a flow u_e on every edge. With (D w)_e = w_{h_e} - w_{t_e}, the steps
tau_i = c / degree_i and sigma = margin / c, one round is

    v_i   = w_i - tau_i (D^T u)_i
    w_i^+ = argmin_z L_i(z) + ||z - v_i||^2 / (2 tau_i)
    s_e   = u_e + sigma (D (2 w^+ - w))_e
    u_e^+ = argmin_z lam A_e phi*(z / (lam A_e)) + ||z - s_e||^2 / (2 sigma)

Every node sends its model to its neighbours once per round. The weights A_e enter in the last line
only. With margin <= 1/2 the norm `||Sigma^(1/2) D T^(1/2)||`, Sigma and T being diagonal matrices
of the steps, is at most 1 (equality on bipartite graphs), and the iterates converge for convex
losses.

Nodes without neighbours stay at their own minimiser. An absent node keeps its model, and a flow
changes only if both ends of its edge are present; the fixed points stay the same.

**Messages** (`exchange`): a node sends w^+ to all its neighbours. Both ends of an edge compute its
flow from the known models w^, which are those that the neighbours received last,

    s_e   = u_e + sigma (D (2 w^^+ - w^))_e

and a node continues from its own model. Fixed points with w^ = w stay the same, such as those of
coded differences. There is no aggregator: since ||u_e|| <= lam A_e in the dual norm of the penalty,
a Byzantine neighbour pulls a node by at most lam A_e.

Reference: Y. SarcheshmehPour, Y. Tian, L. Zhang, A. Jung, "Clustered Federated Learning via
Generalized Total Variation Minimization", 2023, Algorithm 1; L. Condat, "A primal-dual splitting
method for convex optimization involving Lipschitzian, proximable and linear composite terms", 2013.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import (
    build,
    count,
    declared,
    having,
    number,
    positive,
    scalar,
)
from fedjax_admm.capabilities import Minimizers, OnGraph, Prox, TypicalNorm, needs
from fedjax_admm.kernels import safe_ratio
from fedjax_admm.participation import where_active
from fedjax_admm.penalties import EdgePenalty, network_lasso
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers._graph import FlowSolver, FlowsState, Heard, to_neighbours


class GTVNodes(NamedTuple):
    """What every node holds."""

    w: jax.Array  # shape=(nodes, dim): models
    memory: Any  # of an inexact prox, stacked over nodes; () of an exact one


_check_penalty = having(
    "prox_conjugate",
    kind="a penalty of edges, such as network_lasso()",
    default=network_lasso,
    remedy="flows need a convex conjugate; penalties of models, group_mcp among them, go on the "
    "links of a tree (tree_link)",
)


def of_edges() -> Any:
    """Declare phi, a penalty of edges with a dual prox; None stands for the network lasso."""
    return declared(_check_penalty, default=network_lasso)


@roles.pytree_dataclass
class GTVPrimalDual(FlowSolver):
    """The primal-dual method for GTV minimisation; build it with `gtv_primal_dual`."""

    lam: jax.Array = positive()  # shape=(): strength of the coupling
    ratio: jax.Array = positive()  # shape=(): c, the ratio of primal to dual steps
    margin: jax.Array = positive(at_most=0.5)  # shape=(): sigma tau_i degree_i
    penalty: EdgePenalty = of_edges()  # phi
    exchange: roles.Exchange = to_neighbours(  # of w^+
        mean_alone="here a neighbour moves a node by at most lam A_e, whatever it says"
    )

    requires: ClassVar[tuple[type, ...]] = (OnGraph, Prox, Minimizers)

    def start_nodes(self, problem, models) -> GTVNodes:
        """Start at the first models; isolated nodes at their own minimiser."""
        isolated = problem.graph.degrees == 0
        # Learning alone can be dear: it is left out where nobody needs it.
        alone = jax.lax.cond(jnp.any(isolated), problem.minimizers, lambda: models)
        w = jnp.where(isolated[:, None], alone, models)
        return GTVNodes(w, problem.prox_memory(w))

    def gather(self, graph, u, known) -> jax.Array:
        """Return D^T u."""
        return graph.divergence(u)

    def node(self, problem, nodes: GTVNodes, heard: Heard, key) -> GTVNodes:
        """Return w^+, the prox of the loss at v; a node alone stays at its own minimiser."""
        tau = self._tau(heard.degrees)
        v = nodes.w - tau[:, None] * heard.gathered
        moved = GTVNodes(*problem.prox(v, tau, nodes.memory))
        return where_active(heard.degrees > 0, moved, nodes)

    def message(self, nodes: GTVNodes) -> jax.Array:
        """Send w^+."""
        return nodes.w

    def ahead(self, before, after) -> jax.Array:
        """Return 2 w^+ - w."""
        return 2 * after - before

    def edge(self, flows, difference, weights) -> jax.Array:
        """Return u^+, the dual prox at s."""
        sigma = self.margin / self.ratio
        moved = flows + sigma * difference
        return self.penalty.prox_conjugate(moved, self.lam * weights, sigma)

    def _tau(self, degrees) -> jax.Array:
        return self.ratio / jnp.maximum(degrees, 1).astype(self.ratio.dtype)

    def steps(self, problem) -> tuple[jax.Array, jax.Array]:
        """Return tau, shape (nodes,), and sigma, shape ()."""
        return self._tau(problem.graph.degrees), self.margin / self.ratio

    def radius(self, problem) -> jax.Array:
        """Return lam A_e, shape (edges,)."""
        return self.lam * problem.graph.weights

    def estimate(self, state: FlowsState) -> jax.Array:
        """Return the models, shape (nodes, dim)."""
        return state.nodes.w

    def messages(self, problem, active: jax.Array) -> jax.Array:
        """Count the edges that are there and whose ends are both present."""
        graph = problem.graph
        return jnp.sum(graph.present & active[graph.heads] & active[graph.tails], dtype=jnp.int32)


def gtv_primal_dual(
    problem: Any,
    lam: ArrayLike,
    penalty: EdgePenalty | None = None,
    *,
    rounds: int = 1000,
    ratio: ArrayLike | None = None,
    margin: ArrayLike = 0.5,
    exchange: roles.Exchange | None = None,
) -> GTVPrimalDual:
    """Build `GTVPrimalDual`.

    Args:
      problem: the nodes and their graph, for the default ratio; may be None where one is given.
      lam: strength of the coupling, positive; for 0 every node is on its own (`local_models`).
      penalty: on differences along edges, of `fedjax_admm.penalties`; `network_lasso()` if
        None.
      rounds: for how many rounds the default ratio is chosen.
      ratio: c; `gtv_step_ratio(problem, lam, rounds)` if None. Limits do not depend on it.
      margin: `sigma tau_i degree_i`, at most 1/2; smaller keeps a strict margin.
      exchange: what happens to messages, `messages.exchange(...)` without an aggregator; nothing if
        None.
    """
    lam = scalar("lam", lam, above=0)
    count("rounds", rounds)
    ratio = gtv_step_ratio(problem, lam, rounds) if ratio is None else ratio
    return build(GTVPrimalDual, **locals())


@needs(TypicalNorm)
def gtv_step_ratio(problem: Any, lam: ArrayLike, rounds: int) -> jax.Array:
    """Choose the ratio c of primal to dual steps: `max(1, 20 ||w|| / (lam rounds))`.

    A round moves a model by at most `c lam weighted_degree / degree` in directions that its own
    data do not see, so that nodes without data need about `||w|| / (c lam)` rounds to get anywhere;
    ||w|| is the typical length of a model that a node learns on its own.

    Args:
      problem: the nodes.
      lam: strength of the coupling; traced values are fine.
      rounds: for how many rounds.

    Returns:
      Shape ().
    """
    lam = number("lam", lam, above=0)
    length = problem.typical_norm()
    reach = 20 * length / count("rounds", rounds)
    return jnp.maximum(1, safe_ratio(reach, lam.astype(length.dtype)))
