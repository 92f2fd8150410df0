"""The gap without a radius: flows are repaired, and what follows is a bound."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import InputError, graphs, penalties
from fedjax_admm._run._rounds import run
from fedjax_admm.certificates import (
    certified_gap,
    duality_gap,
    gtv_objective,
    relative_gap,
)
from fedjax_admm.certificates._repair import feasible_flows
from fedjax_admm.problems import networked_logistic, networked_regression
from fedjax_admm.solvers import gtv, gtv_primal_dual

NODES, DIM = 12, 3
# Two components and a node on its own; in the second component nobody sees the last feature.
PAIRS = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5), (5, 6)]
PAIRS += [(7, 8), (7, 10), (8, 9), (9, 10)]  # in the order of the graph
WEIGHTS = np.array([0.7, 1.3, 0.4, 2.0, 0.9, 0.3, 1.1, 0.6, 1.7, 0.01, 1.0, 3.0])
OPEN = np.array([1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 1, 1], bool)
SIZES = [5, 5, 2, 5, 1, 5, 5, 4, 2, 4, 4, 3]  # 2 and 4 have fewer samples than features
PENALTIES = {
    "network_lasso": penalties.network_lasso,
    "entrywise_l1": penalties.entrywise_l1,
    "mocha": penalties.mocha,
    "singular": lambda: penalties.quadratic_difference(FLAT),
}
FLAT = np.diag([1.0, 0.5, 0.0])


@cache
def data():
    rng = np.random.default_rng(5)
    x = [rng.standard_normal((m, DIM)) for m in SIZES]
    for i in range(7, 11):
        x[i][:, 2] = 0
    return x, [part @ rng.standard_normal(DIM) + rng.standard_normal(len(part)) for part in x]


def problem_of(ridge=0.0, reached=OPEN, more=2, dtype=float):
    graph = graphs.from_edges(NODES, PAIRS, WEIGHTS, max_edges=len(PAIRS) + more)
    x, y = ([np.asarray(part, dtype) for part in parts] for parts in data())
    return networked_regression(graph, x, y, accessible=reached, ridge=ridge)


def value_of_flows(u, name, lam, reached=OPEN):
    """G(u) of the definition, by loops; None if u is not feasible."""
    x, y = data()
    total = 0.0
    for i in range(NODES):
        inward = np.zeros(DIM)
        for (head, tail), flow in zip(PAIRS, u, strict=True):
            inward += flow * ((tail == i) - float(head == i))
        gram = x[i].T @ x[i] / SIZES[i] if reached[i] else np.zeros((DIM, DIM))
        right = x[i].T @ y[i] / SIZES[i] if reached[i] else np.zeros(DIM)
        # sup_w v^T w - w^T Q w + 2 q^T w is attained where 2 Q w = v + 2 q.
        best = np.linalg.lstsq(2 * gram, inward + 2 * right, rcond=1e-9)[0]
        if np.abs(2 * gram @ best - inward - 2 * right).max() > 1e-12:
            return None
        square = np.mean(y[i] ** 2) if reached[i] else 0.0
        total -= (inward + 2 * right) @ best / 2 - square
    for flow, weight in zip(u, lam * WEIGHTS, strict=True):
        size = {"network_lasso": np.linalg.norm(flow), "entrywise_l1": np.abs(flow).max()}.get(name)
        if size is not None:
            if size > weight * (1 + 1e-12):
                return None
        elif name == "mocha":
            total -= flow @ flow / (2 * weight)
        else:
            if abs(flow[2]) > 1e-12:
                return None
            total -= (flow[0] ** 2 + 2 * flow[1] ** 2) / (2 * weight)
    return total


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_flows_are_conserved_and_within_capacity_and_the_gap_is_theirs():
    problem, lam = problem_of(), 0.3
    solver = gtv_primal_dual(problem, lam, ratio=1.0)
    state = solver.init(problem, jax.random.key(0))
    u = np.random.default_rng(0).standard_normal((len(PAIRS) + 2, DIM))
    u[len(PAIRS) :] = 0
    w = jnp.asarray(np.random.default_rng(1).standard_normal((NODES, DIM)))
    state = state._replace(nodes=state.nodes._replace(w=w), edges=jnp.asarray(u))
    assert np.isinf(duality_gap(solver, problem, state))
    found = np.asarray(jax.jit(feasible_flows)(solver, problem, state.u))
    np.testing.assert_array_equal(found[len(PAIRS) :], 0)
    dual = value_of_flows(found[: len(PAIRS)], "network_lasso", lam)
    assert dual is not None
    wanted = float(gtv_objective(solver, problem, w)) - dual
    assert float(jax.jit(certified_gap)(solver, problem, state)) == pytest.approx(wanted, rel=1e-10)


@cache
def optimum(name, lam, ridge):
    """The optimal value, by an interior point method."""
    cvxpy = pytest.importorskip("cvxpy")
    x, y = data()
    w = cvxpy.Variable((NODES, DIM))
    terms = [ridge * cvxpy.sum_squares(w[i]) for i in range(NODES) if OPEN[i]]
    terms += [
        cvxpy.sum_squares(x[i] @ w[i] - y[i]) / SIZES[i] for i in range(NODES) if OPEN[i]
    ]  # fmt: skip
    for (head, tail), weight in zip(PAIRS, lam * WEIGHTS, strict=True):
        v = w[head] - w[tail]
        terms.append(weight * {
            "network_lasso": lambda v=v: cvxpy.norm(v, 2),
            "entrywise_l1": lambda v=v: cvxpy.norm(v, 1),
            "mocha": lambda v=v: cvxpy.sum_squares(v) / 2,
            "singular": lambda v=v: (v[0] ** 2 + 0.5 * v[1] ** 2) / 2,
        }[name]())  # fmt: skip
    task = cvxpy.Problem(cvxpy.Minimize(sum(terms)))
    task.solve(solver="CLARABEL", **dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-9))
    assert task.status == "optimal"
    return task.value


def watch(solver, problem, state):
    return {
        "value": gtv_objective(solver, problem, state.nodes.w),
        "gap": certified_gap(solver, problem, state),
        "share": relative_gap(solver, problem, state),
    }


@pytest.mark.thorough
@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.usefixtures("x64")
def test_the_gap_bounds_the_suboptimality_and_vanishes(name):
    for lam, ridge in ((0.1, 0.0), (0.5, 0.1)):
        problem = problem_of(ridge)
        solver = gtv(problem, lam, PENALTIES[name]())
        trace = run(
            solver, problem, jax.random.key(0), rounds=600, every=20, measure=watch
        ).trace  # fmt: skip
        value, gap, share = (np.asarray(trace[part]) for part in ("value", "gap", "share"))
        best = optimum(name, lam, ridge)
        assert np.all(np.isfinite(gap))
        assert np.all(gap >= value - best - 1e-8)
        assert gap[0] > 1e3 * gap[-1]
        assert gap[-1] < 1e-6 * best
        np.testing.assert_allclose(share, gap / value, atol=1e-13)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_nothing_is_repaired_where_nothing_is_wrong():
    """All data seen, flows within capacity: the gap is the plain one."""
    problem = problem_of(0.1, np.ones(NODES, bool))
    solver = gtv_primal_dual(problem, 0.3, ratio=1.0)
    state = run(solver, problem, jax.random.key(0), rounds=7).state.solver
    np.testing.assert_allclose(feasible_flows(solver, problem, state.u), state.u, rtol=1e-14)
    gap, plain = certified_gap(solver, problem, state), duality_gap(solver, problem, state)
    assert float(gap) == pytest.approx(float(plain), rel=1e-12)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_a_long_chain_of_nodes_without_data_has_a_gap():
    nodes = 300
    ends = np.isin(np.arange(nodes), [0, nodes - 1])
    x = np.where(ends[:, None, None], np.eye(2)[None], np.nan)
    y = np.where(ends[:, None], np.arange(nodes)[:, None] / 100 + np.array([[1.0, -1.0]]), np.nan)
    problem = networked_regression(graphs.chain(nodes), x, y, accessible=ends)
    solver = gtv_primal_dual(problem, 0.01, ratio=300.0)
    state = run(solver, problem, jax.random.key(0), rounds=100, every=100).state.solver
    gap = certified_gap(solver, problem, state)
    assert np.isfinite(gap)
    # Two nodes and one edge: each end moves by lam / 2 along the line between them.
    apart = np.linalg.norm([(nodes - 1) / 100] * 2)
    best = 2 * 0.5 * (0.01 / 2) ** 2 * 2 / 2 + 0.01 * (apart - 2 * 0.01 / 2 * 1)
    assert gtv_objective(solver, problem, state.nodes.w) - gap <= best + 1e-9


@pytest.mark.thorough
def test_single_precision_has_a_gap_too():
    problem = problem_of(dtype=np.float32)
    solver = gtv_primal_dual(problem, 0.5, ratio=3.0)
    state = run(solver, problem, jax.random.key(0), rounds=2000, every=2000).state.solver
    gap = relative_gap(solver, problem, state)
    assert gap.dtype == jnp.float32
    assert -1e-6 < gap < 1e-4


@pytest.mark.thorough
def test_losses_without_known_conjugates_have_no_gap():
    x = np.ones((2, 2, 1))
    problem = networked_logistic(graphs.chain(2), x, np.array([[1.0, -1.0]] * 2))
    solver = gtv_primal_dual(problem, 1.0, ratio=1.0)
    state = solver.init(problem, jax.random.key(0))
    for function in (certified_gap, relative_gap):
        with pytest.raises(InputError, match="needs a loss with known conjugates"):
            function(solver, problem, state)
