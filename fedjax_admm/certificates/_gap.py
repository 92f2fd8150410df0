r"""How far a GTV solver is from the optimum: objective, exact residuals, duality gap.

    primal   F(w) = sum_i L_i(w_i) + lam sum_e A_e phi((D w)_e)
    dual     G(u) = -sum_i L_i*(-(D^T u)_i) - sum_e lam A_e phi*(u_e / (lam A_e))

Where some L_i is flat in a direction (inaccessible nodes, fewer samples than features) its
conjugate is infinite at almost every iterate, and so is the plain gap. The gap restricted to a ball
bounds the suboptimality all the same: if some minimiser has all ||w_i|| <= radius, then
F(w) - F* <= F(w) - G_radius(u) with the conjugates taken over that ball.

The residuals are exact too, for every loss: with (w, u) -> (w^+, u^+) in one round,

    r_p = (w - w^+) / tau - D^T (u - u^+)    lies in  dF_local(w^+) + D^T u^+
    r_d = (u - u^+) / sigma - D (w - w^+)    lies in  dG_edges(u^+) - D w^+

Reference: A. Chambolle, T. Pock, "A first-order primal-dual algorithm for convex problems with
applications to imaging", Journal of Mathematical Imaging and Vision 40 (2011) 120-145 (the
restricted gap); T. Goldstein et al., "Adaptive primal-dual hybrid gradient methods for
saddle-point problems", 2013 (the residuals).
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import is_concrete, is_real, known, refuse
from fedjax_admm._states import FlowState, FlowSteps
from fedjax_admm.capabilities import NodeLosses, OnGraph, Prox, Values, needs
from fedjax_admm.protocol import RoundInfo


@needs(OnGraph, Values, solver=[FlowSteps])
def gtv_objective(solver: Any, problem: Any, w: jax.Array) -> jax.Array:
    """Return F(w), shape (), for models w (nodes, dim)."""
    coupling = solver.penalty.values(problem.graph.difference(w))
    # A weight of zero hides whatever the difference is.
    return jnp.sum(problem.values(w)) + jnp.sum(solver.radius(problem) * coupling)


@needs(OnGraph, Values, NodeLosses, solver=[FlowSteps], state=[FlowState])
def duality_gap(solver: Any, problem: Any, state: Any, radius: Any = np.inf) -> jax.Array:
    """Return the duality gap at a state, restricted to models no longer than a radius.

    Args:
      solver: a `GTVPrimalDual`, or a `GTVSplitting`.
      problem: a network with squared losses (ridge included).
      state: of the solver.
      radius: shape (); some minimiser must have all ||w_i|| at most this. Infinite: the plain gap.

    Returns:
      Shape (): at least `F(w) - F*`, to rounding.

    Raises:
      InputError: the conjugates of the loss are not known.
    """
    _check_radius(radius)
    check_conjugates(problem)
    graph = problem.graph
    inward = -graph.divergence(state.u)
    dual = jnp.sum(problem.local.conjugates(inward, radius))
    dual = dual + jnp.sum(solver.penalty.conjugate(state.u, solver.radius(problem)))
    return gtv_objective(solver, problem, state.nodes.w) + dual


def gap_within(radius: ArrayLike) -> Callable[[Any, Any, Any], jax.Array]:
    """Return the gap restricted to a radius, as a residual for `run_until`.

    Equal radii give one function, which compiles once.

    Args:
      radius: a known number, positive; it may be infinite.
    """
    _check_radius(radius)
    known("radius", radius)
    return _gap_within(float(np.asarray(radius)))


def check_conjugates(problem: Any) -> None:
    """Check that the gap of a network's losses is known."""
    kind = type(problem.local).__name__
    told = f"the gap needs a loss with known conjugates (squared, ridge), but it is {kind}"
    unknown = not hasattr(problem.local, "conjugates")
    refuse(unknown, None, told, remedy="stop by optimality_residual")


def _check_radius(radius: Any) -> None:
    """Check that a radius that is not traced is a positive number."""
    number = is_real(radius) and np.ndim(radius) == 0
    refuse(
        not number or (is_concrete(radius) and not float(np.asarray(radius)) > 0),
        "radius",
        "must be a number greater than 0",
        radius,
    )


@cache
def _gap_within(radius: float) -> Callable[[Any, Any, Any], jax.Array]:
    return partial(duality_gap, radius=radius)


@needs(OnGraph, Prox, solver=[FlowSteps], state=[FlowState])
def optimality_residual(solver: Any, problem: Any, state: Any) -> jax.Array:
    """Return the relative residual of the round that follows a state, for `run_until`.

    `max(||r_p|| / (sqrt(nodes dim) + ||D^T u^+||), ||r_d|| / (sqrt(edges dim) + ||D w^+||))` over
    nodes with neighbours and edges that are there. It costs one round: look at it every 10 to 50.
    At a state of `GTVSplitting` it is that of a primal-dual round from its models and flows.

    Args:
      solver: a `GTVPrimalDual`, or a `GTVSplitting`.
      problem: any network; the residuals are exact if the prox is.
      state: of the solver.

    Returns:
      Shape ().
    """
    if hasattr(solver, "primal_dual"):
        solver, state = solver.primal_dual(problem, state)
    graph, w, u = problem.graph, state.nodes.w, state.u
    linked = graph.degrees > 0
    key = jax.random.key(0)  # a round of this solver draws nothing
    info = RoundInfo(jnp.zeros((), jnp.int32), key, jnp.ones(problem.num_clients, bool))
    new = solver.step(problem, state, info)
    tau, sigma = solver.steps(problem)
    primal = (w - new.nodes.w) / tau[:, None] - graph.divergence(u - new.u)
    dual = (u - new.u) / sigma - graph.difference(w - new.nodes.w)
    primal = _length(jnp.where(linked[:, None], primal, 0))
    dual = _length(jnp.where(graph.present[:, None], dual, 0))
    nodes, edges = jnp.sum(linked) * w.shape[-1], jnp.sum(graph.present) * w.shape[-1]
    return jnp.maximum(
        primal / _scale(nodes, graph.divergence(new.u)),
        dual / _scale(edges, jnp.where(graph.present[:, None], graph.difference(new.nodes.w), 0)),
    )


def _length(rows: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.sum(rows * rows))


def _scale(number: jax.Array, rows: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.maximum(number, 1).astype(rows.dtype)) + _length(rows)
