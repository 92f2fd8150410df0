"""GTV minimisation that tunes itself: relaxed splitting between nodes and edges.

    minimise   sum_i L_i(x_i) + lam sum_e A_e phi(z_e)   subject to   x = w,  z = D w

with (D w)_e = w_{h_e} - w_{t_e}. A node keeps x_i and the slope y_i of L_i at x_i. An edge has a
difference z_e and a flow A_e u_e. A server that knows the graph holds the models w and all edges.
With the weights mu > 0 and s_k > 0, S = diag(s) and the relaxation alpha, one round is

    w     = argmin_w mu sum_i |w_i - x_i + y_i / mu|^2
                     + sum_e A_e ||(D w)_e - z_e + S^-1 u_e||_S^2
    m_i   = x_i + alpha (w_i - x_i)                d_e   = z_e + alpha ((D w)_e - z_e)
    x_i^+ = prox of L_i at m_i + y_i / mu          u_e^+ = argmin_u lam phi*(u / lam)
    y_i^+ = y_i + mu (m_i - x_i^+)                           + ||u - u_e - S d_e||_{S^-1}^2 / 2
                                                   z_e^+ = d_e + S^-1 (u_e - u_e^+)

The norm `|.|` measures models in the mean curvature of the nodes that have data (balanced units,
`_units`). If phi is a function of ||.||_2 (`isotropic`), each axis k of these units has a weight
s_k; otherwise all axes have the same weight, and the model of a node without data can converge
slowly if features have different units. **The penalty acts on differences of models in the units in
which they are given.** The linear system for w is solved by an eigendecomposition of the Laplacian,
or by conjugate gradients on large graphs (`_agreement`).

The objective hardly depends on a node without data that has as many neighbours in each of two
groups. On 5000 edges with a few such nodes the relative gap stays at 6e-6 and the objective at 1e-6
above the optimum; the certificates report this.

The method is Douglas-Rachford splitting: for convex losses and penalties, 0 < alpha < 2 and all
constant mu and s, (x, z) converges to (w*, D w*) and (y, A u) to a dual solution. The weights are
balanced after 10, 20, 30, 40, 50, 62, ... rounds, at growing intervals, and for the last time after
1103 rounds; the proof for constant weights applies from then on. mu is multiplied by the quotient
of |w - x| and |x^+ - x|, limited to the range from 1/5 to 5, and does not change where the quotient
lies between 1/1.5 and 1.5. Each s_k is balanced in the same way by the edges.

An absent node keeps x_i and y_i, as blocks of a splitting may be updated at random. Edges belong to
the server. The flows A_e u_e are feasible in every round.

Reference: J. Eckstein, D. P. Bertsekas, "On the Douglas-Rachford splitting method and the proximal
point algorithm for maximal monotone operators", Mathematical Programming 55 (1992) 293-318;
N. Parikh, S. Boyd, "Block splitting for distributed optimization", Mathematical Programming
Computation 6 (2014) 77-102; P. L. Combettes, J.-C. Pesquet, "Stochastic quasi-Fejer
block-coordinate fixed point iterations with random sweeping", SIAM Journal on Optimization 25
(2015) 1221-1248; C. Song, S. Yoon, V. Pavlovic, "Fast ADMM algorithm for distributed optimization
with adaptive penalty", AAAI 2016 (balancing each constraint's residuals); for the problem,
Y. SarcheshmehPour et al., "Clustered Federated Learning via Generalized Total Variation
Minimization", 2023.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, count, declared, positive, refuse
from fedjax_admm.capabilities import Minimizers, OnGraph, Prox, needs
from fedjax_admm.kernels import safe_ratio
from fedjax_admm.participation import where_active
from fedjax_admm.penalties import EdgePenalty
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers._graph import FlowsState
from fedjax_admm.solvers.graph._agreement import (
    Diagonal,
    Eigenvectors,
    agree,
    can_be_decomposed,
    eigenvectors,
)
from fedjax_admm.solvers.graph._gtv import GTVNodes, GTVPrimalDual, of_edges
from fedjax_admm.solvers.graph._units import BalancedUnits, GivenUnits, units_of
from fedjax_admm.traffic import Traffic

_EVERY = 10  # rounds between two looks at the weights, at first
_LAST = 1000  # a look after this round is the last one: it is after round 1103
_LONGEST = 5.0  # the factor by which a weight changes, at most
_SHORTEST = 1.5  # the imbalance that is left as it is
_STEPS = 300  # of conjugate gradients, at most


class GTVModels(NamedTuple):
    """What the server knows of the nodes."""

    w: jax.Array  # shape=(nodes, dim): models, in the user's units


class GTVAnswers(NamedTuple):
    """What every node keeps, in balanced units."""

    x: jax.Array  # shape=(nodes, dim): answers
    y: jax.Array  # shape=(nodes, dim): slopes of the losses there
    memory: Any  # of an inexact prox, stacked over nodes; () of an exact one


class GTVWeights(NamedTuple):
    """The weights of the two constraints, and when they are looked at."""

    mu: jax.Array  # shape=(): of x = w
    s: jax.Array  # shape=(dim,): of z = D w, for every axis of the units
    done: jax.Array  # shape=(), int32: rounds
    next: jax.Array  # shape=(), int32: after how many rounds they are balanced


class GTVSplittingState(NamedTuple):
    """Models, flows, answers of nodes and edges, weights, and the nodes' units."""

    nodes: GTVModels
    u: jax.Array  # shape=(edges, dim): flows A_e u_e
    answers: GTVAnswers
    z: jax.Array  # shape=(edges, dim): differences, along the axes of the units
    weights: GTVWeights
    units: GivenUnits | BalancedUnits  # constant


@roles.pytree_dataclass
class GTVSplitting:
    """The splitting method for GTV minimisation; build it with `gtv`."""

    lam: jax.Array = positive()  # shape=(): strength of the coupling
    relaxation: jax.Array = positive(at_most=1.95)  # shape=(): alpha
    penalty: EdgePenalty = of_edges()  # phi
    # how the system of w is solved
    agreement: Eigenvectors | Diagonal = declared(lambda _, value: value)

    requires: ClassVar[tuple[type, ...]] = (OnGraph, Prox, Minimizers)

    def participants(self, problem) -> tuple[int, ...]:
        """Return `(nodes,)`."""
        return (problem.num_clients,)

    def init(self, problem, key) -> GTVSplittingState:
        """Start at the problem's start without flows; isolated nodes at their own minimiser."""
        graph = problem.graph
        isolated = graph.degrees == 0
        # Learning alone can be dear: it is left out where nobody needs it.
        alone = jax.lax.cond(jnp.any(isolated), problem.minimizers, lambda: problem.start)
        w = jnp.where(isolated[:, None], alone, problem.start)
        units = units_of(problem)
        x = units.balanced(w)
        balanced = isinstance(units, BalancedUnits)
        mu = jnp.ones((), w.dtype) if balanced else units.metric[0]
        start = jnp.zeros((), jnp.int32)
        weights = GTVWeights(mu, mu * self._unit(problem, units), start, start + _EVERY)
        answers = GTVAnswers(x, jnp.zeros_like(x), units.memory(problem, w))
        u = jnp.zeros((graph.num_edges, w.shape[-1]), w.dtype)
        return GTVSplittingState(GTVModels(w), u, answers, graph.difference(w), weights, units)

    def step(self, problem, state: GTVSplittingState, info) -> GTVSplittingState:
        """Return the state after one round: the models, then all nodes and all edges."""
        graph, units = problem.graph, state.units
        (x, y, memory), z = state.answers, state.z
        mu, s = state.weights.mu, state.weights.s
        # Edges along the axes of the units; the radius per unit of weight: one s serves all edges.
        flow, reach = units.along(state.u), units.reach[None]
        pull = graph.weights[:, None] * s[None] * z - flow
        right = mu * x - y + reach * graph.divergence(pull)
        before = units.balanced(state.nodes.w)
        v = agree(self.agreement, graph, mu, s * units.reach**2, right, before)

        moved = x + self.relaxation * (v - x)
        steps = jnp.broadcast_to(1 / mu, (problem.num_clients,))
        answer, memory = units.prox(problem, moved + y / mu, steps, memory)
        new = GTVAnswers(answer, y + mu * (moved - answer), memory)
        new = where_active(info.active, new, state.answers)

        difference = reach * graph.difference(v)
        apart = z + self.relaxation * (difference - z)
        flow = safe_ratio(flow, graph.weights[:, None])
        pressed = self._pressed(units, flow + s[None] * apart, s)
        u = graph.weights[:, None] * units.across(pressed)
        between = apart + (flow - pressed) / s[None]

        weights = self._balance(
            problem,
            state,
            _Residuals(
                _square(jnp.where(info.active[:, None], v - x, 0)).sum(),
                _square(new.x - x).sum(),
                _square(new.x).sum(),
            ),
            _Residuals(
                self._axes(_square(difference - z, graph.weights)),
                self._axes(_square(between - z, graph.weights)),
                # Differences of models that are equal are rounding of the models.
                self._axes(units.reach**2 * _square(v, graph.weighted_degrees)),
            ),
        )
        models = GTVModels(units.models(v))
        after = GTVSplittingState(models, u, new, between, weights, units)
        # A round without anybody leaves everything as it is, edges too.
        somebody = jnp.any(info.active)
        return jax.tree.map(lambda one, other: jnp.where(somebody, one, other), after, state)

    @property
    def _isotropic(self) -> bool:
        return getattr(self.penalty, "isotropic", False)

    def _pressed(self, units, rows, s) -> jax.Array:
        """Return the edges' flows per unit of weight, along the axes of the units."""
        radius = jnp.broadcast_to(self.lam, rows.shape[:1])
        if self._isotropic:
            return self.penalty.prox_conjugate(rows, radius, s)
        return units.along(self.penalty.prox_conjugate(units.across(rows), radius, s[0]))

    def _axes(self, squares) -> jax.Array:
        """Return sums of every axis, or for every axis that of all where these share a weight."""
        return squares if self._isotropic else jnp.broadcast_to(jnp.sum(squares), squares.shape)

    def _balance(self, problem, state, nodes, edges) -> GTVWeights:
        """Return the weights for the next round."""
        mu, s, done, due = state.weights
        done = done + 1
        looks = done == due
        mu = mu * jnp.where(looks, nodes.factor(), 1)
        s = s * jnp.where(looks, edges.factor(), 1)
        unit = mu * self._unit(problem, state.units)
        s = jnp.clip(s, unit / self.agreement.stiffest, unit * self.agreement.stiffest)
        after = jnp.where(done < _LAST, done + jnp.maximum(_EVERY, done // 4), due)
        return GTVWeights(mu, s, done, jnp.where(looks, after, due))

    def _unit(self, problem, units) -> jax.Array:
        """Return the s, per mu, with which edges begin, shape (dim,).

        At `metric_k / degree` edges are as stiff as nodes along axis k. Axes that share a weight
        take the geometric mean of these; else each begins half way between it and its own.
        """
        degree = jax.lax.stop_gradient(jnp.mean(problem.graph.weighted_degrees))
        typical = 2 * jnp.log(units.reach)
        mean = jnp.mean(typical, keepdims=True)
        typical = jnp.exp((mean + typical) / 2 if self._isotropic else mean)
        unit = jnp.where(degree > 0, safe_ratio(1.0, degree * typical), 1)
        return jnp.broadcast_to(unit, units.reach.shape)

    def radius(self, problem) -> jax.Array:
        """Return lam A_e, shape (edges,)."""
        return self.lam * problem.graph.weights

    def steps(self, problem) -> tuple[jax.Array, jax.Array]:
        """Return the steps of `primal_dual` at first, of shapes (nodes,) and ()."""
        return self._published(problem, units_of(problem).metric).steps(problem)

    def primal_dual(self, problem, state: GTVSplittingState) -> tuple[GTVPrimalDual, FlowsState]:
        """Return the published iteration at the same models and flows, which judges these."""
        w = state.nodes.w
        one = jnp.ones((), w.dtype)
        there = FlowsState(GTVNodes(w, problem.prox_memory(w)), state.u, one)
        return self._published(problem, state.units.metric), there

    def _published(self, problem, metric) -> GTVPrimalDual:
        degree = jnp.maximum(jnp.mean(problem.graph.degrees.astype(metric.dtype)), 1)
        half = jnp.full((), 0.5, metric.dtype)
        ratio = degree / jnp.max(metric)
        return GTVPrimalDual(lam=self.lam, ratio=ratio, margin=half, penalty=self.penalty)

    def estimate(self, state: GTVSplittingState) -> jax.Array:
        """Return the models, shape (nodes, dim)."""
        return state.nodes.w

    def traffic(self, problem) -> Traffic:
        """Return dim numbers up to the server, and dim down."""
        dim = problem.start.shape[-1]
        return Traffic(dim, dim)

    def messages(self, problem, active: jax.Array) -> jax.Array:
        """Count the nodes with neighbours that take part."""
        return jnp.sum(active & (problem.graph.degrees > 0), dtype=jnp.int32)


class _Residuals(NamedTuple):
    """Squares of how far answers are from what they should agree with, and of what they moved."""

    apart: jax.Array  # shape=(), or (dim,)
    moved: jax.Array  # the same
    size: jax.Array  # of what these are computed from, for what is rounding

    def factor(self) -> jax.Array:
        """Return by what the weight of the constraint changes; 1 where it is balanced."""
        apart, moved, size = map(jax.lax.stop_gradient, self)
        noise = (64 * jnp.finfo(size.dtype).eps) ** 2 * size
        apart, moved = jnp.maximum(apart, noise), jnp.maximum(moved, noise)
        ratio = jnp.sqrt(jnp.where(noise > 0, apart, 1) / jnp.where(noise > 0, moved, 1))
        balanced = (ratio < _SHORTEST) & (ratio > 1 / _SHORTEST)
        return jnp.where(balanced, 1, jnp.clip(ratio, 1 / _LONGEST, _LONGEST))


def _square(rows: jax.Array, weights: jax.Array | None = None) -> jax.Array:
    """Return the sum of the squares of every column."""
    squares = rows * rows
    return jnp.sum(squares if weights is None else weights[:, None] * squares, 0)


@needs(OnGraph, Prox)
def gtv(
    problem: Any,
    lam: ArrayLike,
    penalty: EdgePenalty | None = None,
    *,
    relaxation: ArrayLike = 1.7,
    inner_steps: int | None = None,
) -> GTVSplitting:
    """Build `GTVSplitting`, the solver of GTV minimisation that tunes itself.

    Args:
      problem: the nodes and their graph.
      lam: strength of the coupling, positive; for 0 every node is on its own (`local_models`). It
        multiplies differences of models in the units of the problem's features.
      penalty: on differences along edges, of `fedjax_admm.penalties`; `network_lasso()` if
        None.
      relaxation: alpha, above 0 and at most 1.95.
      inner_steps: steps of conjugate gradients for the models in every round, each of which passes
        over the edges once, at most; they end where the residual is a tenth of what it was. If
        None, the Laplacian of a graph of at most 1000 nodes that is known before tracing is
        decomposed here, on the host, and one step is exact; larger and traced graphs take at most
        300.

    Returns:
      The solver; its numbers are leaves. It serves the problem's graph: on another one it would
      converge slowly.
    """
    refuse(
        hasattr(getattr(problem, "local", None), "anchor"),
        "problem",
        "must have losses with a prox, but these are trained by an optimiser",
        remedy="take gtv_primal_dual, whose steps do not change",
    )
    graph = problem.graph
    if inner_steps is not None:
        agreement = Diagonal(count("inner_steps", inner_steps))
    elif can_be_decomposed(graph):
        agreement = eigenvectors(graph)
    else:
        agreement = Diagonal(_STEPS)
    return build(GTVSplitting, **locals())
