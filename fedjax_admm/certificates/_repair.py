r"""A duality gap of GTV minimisation that is finite without a bound on the models.

    primal   F(w) = sum_i L_i(w_i) + lam sum_e A_e phi((D w)_e),      L_i >= 0, quadratic
    dual     G(u) = -sum_i L_i*(-(D^T u)_i) - sum_e r_e phi*(u_e / r_e),      r_e = lam A_e

Let B_i project onto the directions that the data of node i do not see (all of them where there are
no data). L_i* is infinite unless `B_i (D^T u)_i = 0`: a node must pass on, in these directions, all
that flows into it. The flows u of an iteration nearly do, and are repaired in two steps.

**Conservation.** With b = B D^T u, what is left over, take the smallest correction

    minimise sum_e ||c_e||^2 / (2 room_e)   subject to   B D^T c = b
    c = room D x,      (B D^T room D B) x = b

with room_e = r_e^2 for a norm phi (corrections relative to what an edge may carry) and r_e M for
phi = v^T M v / 2 (corrections that cost little). c = u satisfies the constraint, so that the
system can be solved; it is a Laplacian between blind directions, positive semidefinite, and x is
found by conjugate gradients with the nodes' own room as preconditioner.

**Capacity.** For a norm phi the dual asks for `||u_e||_* <= r_e`. Flows are cut to that and made
conserved again, in turn, a few times (alternating projections: on sparse graphs with many blind
nodes the excess falls a hundredfold); what excess is left after the last correction is scaled away,

    theta = min(1, min_e r_e / ||u_e - c_e||_*)

which keeps conservation, as its right hand side is zero. Other phi need no scaling: theta = 1.

So theta (u - c) is feasible, and by weak duality `F(w) - F* <= F(w) - G(theta (u - c))` for every
w, whatever w and u are and wherever the minimisers lie. Nothing is lost in the limit: where
the iteration converges, b goes to 0, hence c does, theta goes to 1, and G, which is concave and for
a norm phi at least G(0) = sum_i min L_i on the way,

    G(theta (u - c)) >= theta G(u - c) + (1 - theta) sum_i min L_i

goes to G of the limit. If conjugate gradients have not arrived (more than rounding errors are left
over), the gap is infinite, which is a bound too.

Reference: A. Chambolle, T. Pock, "A first-order primal-dual algorithm for convex problems with
applications to imaging", Journal of Mathematical Imaging and Vision 40 (2011) 120-145 (the gap of
the iteration); M. R. Hestenes, E. Stiefel, "Methods of conjugate gradients for solving linear
systems", Journal of Research of the National Bureau of Standards 49 (1952) 409-436.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.ops import segment_sum

from fedjax_admm._states import FlowState, FlowSteps
from fedjax_admm.capabilities import NodeLosses, OnGraph, Values, needs
from fedjax_admm.certificates._gap import check_conjugates, gtv_objective
from fedjax_admm.graphs import Graph
from fedjax_admm.kernels import safe_norm, safe_ratio

_ALTERNATIONS = 8  # between conservation and capacity
_SLIGHT = 1e-9  # excess over the capacity that scaling may remove
_ITERATIONS = 500  # of conjugate gradients, at most
_FORGIVEN = 256  # units in the last place of the largest flow of a feature through a node
_AIM = 16  # the same, at which conjugate gradients stop
_LEAST = 1e-6  # share of the loss of zero models that stands for a smaller objective


@needs(OnGraph, Values, NodeLosses, solver=[FlowSteps], state=[FlowState])
def certified_gap(solver: Any, problem: Any, state: Any) -> jax.Array:
    """Return a bound of `F(w) - F*` at a state, without any bound on the models.

    It costs one round where all data are seen, else as many as conjugate gradients take (10 to 100
    on sparse random graphs, fewer near the optimum): look at it every 10 to 100 rounds.

    Args:
      solver: a `GTVPrimalDual`, or a `GTVSplitting`.
      problem: a network with squared losses (ridge included).
      state: of the solver.

    Returns:
      Shape (): at least `F(w) - F*`, to rounding; infinite where there is no bound.

    Raises:
      InputError: the conjugates of the loss are not known.
    """
    check_conjugates(problem)
    flows = feasible_flows(solver, problem, state.u)
    return gtv_objective(solver, problem, state.nodes.w) - _dual_value(solver, problem, flows)


@needs(OnGraph, Values, NodeLosses, solver=[FlowSteps], state=[FlowState])
def relative_gap(solver: Any, problem: Any, state: Any) -> jax.Array:
    """Return `certified_gap` as a share of the objective, a residual for `run_until`.

    At 1e-6 the objective is at most a millionth above the optimum. Where the objective is below a
    millionth of the loss of zero models, the share is of that millionth. Single precision
    reaches about 1e-5.

    Args:
      solver: as in `certified_gap`.
      problem: as in `certified_gap`.
      state: as in `certified_gap`.

    Returns:
      Shape (); 0 where both objective and gap are.
    """
    gap = certified_gap(solver, problem, state)
    w = state.nodes.w
    least = _LEAST * jnp.sum(problem.values(jnp.zeros_like(w)))
    return safe_ratio(gap, jnp.maximum(gtv_objective(solver, problem, w), least))


@needs(OnGraph, NodeLosses, solver=[FlowSteps])
def feasible_flows(solver: Any, problem: Any, u: jax.Array) -> jax.Array:
    """Return flows near u at which the dual objective is finite: conserved, and within capacity.

    Args:
      solver: as in `certified_gap`.
      problem: as in `certified_gap`.
      u: flows, shape (edges, dim).

    Returns:
      Shape (edges, dim).
    """
    check_conjugates(problem)
    radius, penalty = solver.radius(problem), solver.penalty

    def conserved(flows: jax.Array) -> jax.Array:
        return flows - _correction(penalty, problem, radius, flows)

    if not hasattr(penalty, "dual_norm"):
        return conserved(conserved(u))  # the second time repairs what rounding left of the first

    def excess(flows: jax.Array) -> jax.Array:
        lengths = penalty.dual_norm(flows)
        return jnp.max(jnp.where(radius > 0, safe_ratio(lengths, radius), 0), initial=0) - 1

    def unfinished(carry):
        k, flows = carry
        return (k < _ALTERNATIONS) & (excess(flows) > _SLIGHT)

    def alternate(carry):
        k, flows = carry
        inside = penalty.prox_conjugate(flows, radius, jnp.ones_like(radius[:1])[0])
        return k + 1, conserved(inside)

    _, u = jax.lax.while_loop(unfinished, alternate, (jnp.zeros((), jnp.int32), conserved(u)))
    u = conserved(u)
    return u / (1 + jnp.maximum(excess(u), 0))


def _dual_value(solver: Any, problem: Any, u: jax.Array) -> jax.Array:
    """Return G(u); what rounding errors leave over counts as nothing."""
    inward = -problem.graph.divergence(u)
    over = problem.local.unseen(inward)
    lost = jnp.abs(over) > _FORGIVEN * _rounding(problem, u)
    # Radius 0: the remainder was checked above.
    conjugates = jnp.sum(problem.local.conjugates(inward - over, 0.0))
    conjugates = conjugates + jnp.sum(solver.penalty.conjugate(u, solver.radius(problem)))
    return jnp.where(jnp.any(lost), -jnp.inf, -conjugates)


def _correction(penalty: Any, problem: Any, radius: jax.Array, u: jax.Array) -> jax.Array:
    """Return c, shape (edges, dim), by conjugate gradients."""
    graph, local = problem.graph, problem.local
    eps = jnp.finfo(u.dtype).eps
    room = _room(penalty, radius)
    enough = _AIM * _rounding(problem, u)
    stiffness = _per_node(graph, safe_norm(room(jnp.ones_like(u)))[:, None])[:, 0]
    eased = safe_ratio(1.0, stiffness)[:, None]

    def unfinished(carry):
        k, _, rest, _, size = carry
        return (k < _ITERATIONS) & (size > 0) & jnp.any(jnp.abs(rest) > enough)

    def step(carry):
        k, x, rest, along, size = carry
        image = local.unseen(graph.divergence(room(graph.difference(along))))
        bent = jnp.sum(along * image)
        # A component that sees nothing of a direction: there, all that is left is rounding errors.
        flat = bent <= 64 * eps * jnp.sum(along * stiffness[:, None] * along)
        length = jnp.where(flat, 0, safe_ratio(size, bent))
        x, rest = x + length * along, rest - length * image
        new = jnp.where(flat, 0, jnp.sum(rest * eased * rest))
        return k + 1, x, rest, eased * rest + safe_ratio(new, size) * along, new

    rest = local.unseen(graph.divergence(u))
    first = (jnp.zeros((), jnp.int32), jnp.zeros_like(rest), rest, eased * rest)
    x = jax.lax.while_loop(unfinished, step, (*first, jnp.sum(rest * eased * rest)))[1]
    return room(graph.difference(x))


def _room(penalty: Any, radius: jax.Array) -> Callable[[jax.Array], jax.Array]:
    """Return what multiplies the rows of (edges, dim) by the room of their edge."""
    if hasattr(penalty, "dual_norm"):
        largest = jnp.max(radius, initial=0)
        square = safe_ratio(radius, largest) ** 2
        return lambda rows: square[:, None] * rows
    # r phi(v) = r v^T M v / 2 has the gradient r M v.
    return jax.grad(lambda rows: jnp.sum(radius * penalty.values(rows)))


def _rounding(problem: Any, u: jax.Array) -> jax.Array:
    """Return the rounding of what flows through the busiest node, for every feature, (1, dim)."""
    through = problem.local.rounding(_per_node(problem.graph, jnp.abs(u)))
    return jnp.max(through, 0, keepdims=True, initial=0)


def _per_node(graph: Graph, values: jax.Array) -> jax.Array:
    """Return the sums of the edges' rows (edges, n) at every node, shape (nodes, n)."""
    at_heads = segment_sum(values, graph.heads, graph.num_nodes, indices_are_sorted=True)
    return at_heads + segment_sum(values, graph.tails, graph.num_nodes)
