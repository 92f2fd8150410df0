"""GTV minimisation at its optimum: against CVXPY, with gaps, residuals, masks and padding."""

import itertools
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedjax_admm import InputError, graphs, participation, penalties as edges
from fedjax_admm._run._rounds import run, run_until
from fedjax_admm.certificates import duality_gap, gap_within, gtv_objective, optimality_residual
from fedjax_admm.problems import (
    Networked,
    networked_logistic,
    networked_regression,
    networked_training,
)
from fedjax_admm.protocol import RoundInfo
from fedjax_admm.solvers import gtv_primal_dual

# Nodes 7 and 8 have no neighbours; the data of 2, 5 and 8 are not accessible.
NODES, DIM = 9, 2
PAIRS = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 4), (3, 4), (3, 5), (4, 6), (5, 6)]
WEIGHTS = np.array([0.7, 1.3, 0.4, 2.0, 0.9, 0.3, 1.1, 0.6, 1.7])
OPEN = np.array([True, True, False, True, True, False, True, True, False])
EVERYBODY = np.ones(NODES, bool)
SIZES = [4, 6, 5, 4, 5, 6, 4, 5, 6]
MATRIX = np.array([[2.0, 0.6], [0.6, 0.5]])
FLAT = np.array([[1.0, 2.0], [2.0, 4.0]])

PENALTIES = {
    "network_lasso": edges.network_lasso,
    "entrywise_l1": edges.entrywise_l1,
    "mocha": edges.mocha,
    "squared": edges.squared_difference,
    "quadratic": lambda: edges.quadratic_difference(MATRIX),
    "singular": lambda: edges.quadratic_difference(FLAT),
}
CURVED = {"mocha": np.eye(DIM), "squared": 2 * np.eye(DIM), "quadratic": MATRIX, "singular": FLAT}
LOSSES = ("mean", "sum", "ridge", "lasso", "logistic", "training")
# Alike to the compiler: one compilation serves a group.
LOSS_GROUPS = [("mean", "sum", "ridge"), ("lasso",), ("logistic",), ("training",)]
PENALTY_GROUPS = [
    ("network_lasso",),
    ("entrywise_l1",),
    ("mocha", "squared"),
    ("quadratic", "singular"),
]
# How near the optimal value the objective comes, relative to 1 + its modulus.
ACCURACY = dict.fromkeys(LOSSES, 1e-6) | {"training": 1e-5}
LAM = 0.25


def graph_of(more=0):
    return graphs.from_edges(NODES, PAIRS, WEIGHTS, max_edges=len(PAIRS) + more)


def data():
    """Two groups of nodes with models of their own, with noise."""
    rng = np.random.default_rng(11)
    truth = np.where(np.arange(NODES)[:, None] < 4, [2.0, -1.0], [-1.0, 1.5])
    features = [rng.standard_normal((m, DIM)) for m in SIZES]
    noise = [0.5 * rng.standard_normal(m) for m in SIZES]
    return features, [x @ w + e for x, w, e in zip(features, truth, noise, strict=True)]


def labels():
    """Classes that no plane through zero keeps apart, on any node: an optimum exists."""
    features, targets = data()
    signs = [np.where(y > 0, 1.0, -1.0) for y in targets]
    for x, y in zip(features, signs, strict=True):
        x[-1], y[-1] = x[0], -y[0]
        x[-2], y[-2] = [-x[0][1], x[0][0]], 1.0
        x[-3], y[-3] = x[-2], -1.0
    return features, signs


def square_loss(w, x, y):
    """(x^T w - y)^2."""
    return (jnp.sum(x * w) - y) ** 2


def problem_of(loss, reached=OPEN, graph=None, dtype=float):
    """The network; what is not accessible holds NaN, where the builder does not look."""
    graph = graph_of() if graph is None else graph
    features, targets = labels() if loss == "logistic" else data()
    if loss == "training":
        present = np.arange(max(SIZES)) < np.array(SIZES)[:, None]
        x, y = np.zeros((*present.shape, DIM)), np.zeros(present.shape)
        for i, m in enumerate(SIZES):
            x[i, :m], y[i, :m] = features[i], targets[i]
        options = {"rate": 0.06, "steps": 60, "solo_steps": 3000}
        start = np.zeros(DIM)
        return networked_training(
            graph, x, y, square_loss, start, present=present, accessible=reached, **options
        )
    features = [
        np.asarray(x if i else np.nan * x, dtype) for x, i in zip(features, reached, strict=True)
    ]
    targets = [np.asarray(y, dtype) for y in targets]
    if loss == "logistic":
        return networked_logistic(graph, features, targets, accessible=reached)
    options = {
        "mean": {},
        "sum": {"scale": "sum"},
        "ridge": {"ridge": 0.1},
        "lasso": {"l1": 0.2, "inner_steps": 60},
    }[loss]
    return networked_regression(graph, features, targets, accessible=reached, **options)


def coupling(cvxpy, name, difference):
    if name == "network_lasso":
        return cvxpy.norm(difference, 2)
    if name == "entrywise_l1":
        return cvxpy.norm(difference, 1)
    size, basis = np.linalg.eigh(CURVED[name])
    root = np.sqrt(np.maximum(size, 0))[:, None] * basis.T
    return cvxpy.sum_squares(root @ difference) / 2


@cache
def optimum(loss, name, lam=LAM, reached=tuple(OPEN)):
    """The optimal value, by an interior point method."""
    cvxpy = pytest.importorskip("cvxpy")
    w = cvxpy.Variable((NODES, DIM))
    features, targets = labels() if loss == "logistic" else data()
    terms = []
    for i, (x, y) in enumerate(zip(features, targets, strict=True)):
        if not reached[i]:
            continue
        if loss == "logistic":
            terms.append(cvxpy.sum(cvxpy.logistic(-cvxpy.multiply(y, x @ w[i]))) / len(y))
            continue
        share = 1.0 if loss == "sum" else 1 / len(y)
        terms.append(share * cvxpy.sum_squares(x @ w[i] - y))
        if loss == "ridge":
            terms.append(0.1 * cvxpy.sum_squares(w[i]))
        if loss == "lasso":
            terms.append(0.2 * cvxpy.norm(w[i], 1))
    for (head, tail), weight in zip(PAIRS, WEIGHTS, strict=True):
        terms.append(lam * weight * coupling(cvxpy, name, w[head] - w[tail]))
    task = cvxpy.Problem(cvxpy.Minimize(sum(terms)))
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-9)
    task.solve(solver="CLARABEL", **tight)
    assert task.status == "optimal"
    return task.value


def value_by_loops(loss, name, w, lam=LAM, reached=OPEN):
    """F(w) from the definition."""
    features, targets = labels() if loss == "logistic" else data()
    total = 0.0
    for i, (x, y) in enumerate(zip(features, targets, strict=True)):
        if not reached[i]:
            continue
        if loss == "logistic":
            total += np.mean(np.logaddexp(0, -y * (x @ w[i])))
            continue
        squares = np.sum((x @ w[i] - y) ** 2)
        total += squares if loss == "sum" else squares / len(y)
        total += 0.1 * w[i] @ w[i] if loss == "ridge" else 0
        total += 0.2 * np.abs(w[i]).sum() if loss == "lasso" else 0
    for (head, tail), weight in zip(PAIRS, WEIGHTS, strict=True):
        v = w[head] - w[tail]
        phi = {"network_lasso": np.linalg.norm(v), "entrywise_l1": np.abs(v).sum()}.get(name)
        total += lam * weight * (v @ CURVED[name] @ v / 2 if phi is None else phi)
    return total


def solved(solver, problem, tolerance=1e-10, max_rounds=60000):
    return run_until(
        solver,
        problem,
        jax.random.key(0),
        residual=optimality_residual,
        tolerance=tolerance,
        max_rounds=max_rounds,
        every=50,
    )


# --- the optimum --------------------------------------------------------------------------------


alone = jax.jit(lambda problem: problem.minimizers())


@pytest.mark.kin(1)
@pytest.mark.parametrize(
    ("losses", "names"),
    [
        *((losses, PENALTY_GROUPS[0]) for losses in LOSS_GROUPS),
        *((LOSS_GROUPS[0][:1], names) for names in PENALTY_GROUPS[1:]),
    ],
    ids=lambda names: "-".join(names),
)
@pytest.mark.usefixtures("x64")
def test_the_limit_is_the_optimum_that_cvxpy_finds(losses, names):
    for loss, name in itertools.product(losses, names):
        problem = problem_of(loss)
        solver = gtv_primal_dual(problem, LAM, PENALTIES[name](), ratio=1.0)
        result = solved(solver, problem)
        assert result.status.converged > 0
        assert result.status.nonfinite == 0
        w = np.asarray(result.estimate)
        wanted, found = optimum(loss, name), value_by_loops(loss, name, w)
        assert abs(found - wanted) < ACCURACY[loss] * (1 + abs(wanted))
        # Without neighbours a node learns alone; without data too it stays where it was.
        if loss in LOSS_GROUPS[0]:
            # Another program: it may round otherwise.
            np.testing.assert_allclose(w[7], alone(problem)[7], rtol=1e-12)
        np.testing.assert_array_equal(w[8], 0)


@pytest.mark.thorough
@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.usefixtures("x64")
def test_the_objective_is_that_of_the_definition(name):
    w = np.random.default_rng(0).standard_normal((NODES, DIM))
    for loss in LOSSES:
        problem = problem_of(loss)
        solver = gtv_primal_dual(problem, LAM, PENALTIES[name](), ratio=1.0)
        wanted = value_by_loops(loss, name, w)
        assert float(gtv_objective(solver, problem, jnp.asarray(w))) == pytest.approx(
            wanted, rel=1e-12
        )


def watch(solver, problem, state):
    """What is known of the distance to the optimum."""
    return {
        "value": gtv_objective(solver, problem, state.nodes.w),
        "gap": duality_gap(solver, problem, state),
        "restricted": duality_gap(solver, problem, state, 10.0),
        "residual": optimality_residual(solver, problem, state),
        "length": jnp.max(jnp.sqrt(jnp.sum(state.nodes.w**2, -1))),
    }


def watched(solver, problem, rounds=1600, every=20):
    trace = run(solver, problem, jax.random.key(0), rounds=rounds, every=every, measure=watch).trace
    return {key: np.asarray(value) for key, value in trace.items()}


@pytest.mark.thorough
@pytest.mark.parametrize("names", PENALTY_GROUPS[::2], ids=lambda names: "-".join(names))
@pytest.mark.usefixtures("x64")
def test_the_gap_bounds_the_suboptimality_along_the_run(names):
    for loss, name in itertools.product(("mean", "ridge"), names):
        problem = problem_of(loss)
        trace = watched(gtv_primal_dual(problem, LAM, PENALTIES[name]()), problem)
        best = optimum(loss, name)
        assert trace["length"][-1] < 10  # the minimiser lies in the ball of the restricted gap
        assert np.all(trace["restricted"] >= trace["value"] - best - 1e-8)
        assert trace["restricted"][0] > 100 * trace["restricted"][-1]
        assert trace["restricted"][-1] < 1e-6
        # Inaccessible nodes have no curvature: but for lucky rounds the plain gap is infinite.
        assert np.mean(np.isinf(trace["gap"][:20])) > 0.5
        assert np.all(trace["gap"] >= trace["restricted"] - 1e-9)
        # Where all data are seen, both are the same.
        problem = problem_of(loss, EVERYBODY)
        trace = watched(gtv_primal_dual(problem, LAM, PENALTIES[name]()), problem)
        best = optimum(loss, name, LAM, tuple(EVERYBODY))
        assert np.all(trace["gap"] >= trace["value"] - best - 1e-8)
        assert trace["gap"][0] > 100 * abs(trace["gap"][-1])
        assert abs(trace["gap"][-1]) < 1e-9
        np.testing.assert_allclose(trace["gap"], trace["restricted"], rtol=1e-9, atol=1e-12)


# --- stopping -----------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("size", [1.0, 1e3])
@pytest.mark.usefixtures("x64")
def test_a_prox_that_is_stuck_is_not_called_solved(size):
    """Features without a scale are hard for Newton's method: not arriving is fine, a lie is not."""
    rng = np.random.default_rng(0)
    x = size * rng.standard_normal((6, 40, 3))
    y = np.where(x[..., 0] / size + rng.standard_normal((6, 40)) > 0, 1.0, -1.0)
    problem = networked_logistic(graphs.chain(6), x, y)
    solver = gtv_primal_dual(problem, 0.05, ratio=1.0)
    result = solved(solver, problem, tolerance=1e-8, max_rounds=2000)
    state = result.state.solver
    slope = problem.gradients(state.nodes.w) + problem.graph.divergence(state.u)
    solvable = np.abs(np.asarray(slope)).max() < 1e-5 * size
    assert solvable or result.status.converged == 0
    if size == 1.0:
        assert result.status.converged > 0


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_a_gap_makes_one_residual():
    """The function is the same one: run_until compiles once for a radius."""
    assert gap_within(10.0) is gap_within(10.0)
    problem = problem_of("mean")
    solver = gtv_primal_dual(problem, LAM)
    state = solver.init(problem, jax.random.key(0))
    assert gap_within(10.0)(solver, problem, state) == duality_gap(solver, problem, state, 10.0)
    state = solver.step(problem, state, RoundInfo(None, None, jnp.ones(NODES, bool)))
    state = solver.step(problem, state, RoundInfo(None, None, jnp.ones(NODES, bool)))
    assert duality_gap(solver, problem, state, 20.0) > duality_gap(solver, problem, state, 10.0)


def normal_cone(name, u, radius, s):
    """How far s is from the subdifferential of r phi*(. / r) at the flow u of one edge."""
    if name in CURVED:
        # s with M s = u / r, up to the null space of M.
        return np.abs(CURVED[name] @ s - u / radius).max()
    if name == "network_lasso":
        if np.linalg.norm(u) < radius * (1 - 1e-12):
            return np.abs(s).max()
        outward = max(0.0, s @ u) / (u @ u)
        return np.abs(s - outward * u).max()
    free = np.abs(u) < radius * (1 - 1e-12)
    return np.where(free, np.abs(s), np.maximum(0, -s * np.sign(u))).max()


def remember(solver, problem, state):
    """The state after every round."""
    residual = optimality_residual(solver, problem, state)
    return {"w": state.nodes.w, "u": state.u, "residual": residual}


@pytest.mark.thorough
@pytest.mark.parametrize("names", PENALTY_GROUPS, ids=lambda names: "-".join(names))
@pytest.mark.usefixtures("x64")
def test_residuals_certify_every_entry(names):
    """r_p is the gradient of the Lagrangian at the new point; r_d + D w a normal of the flows."""
    problem, (features, targets) = problem_of("ridge"), data()
    incidence = np.zeros((len(PAIRS), NODES))
    for e, (head, tail) in enumerate(PAIRS):
        incidence[e, head], incidence[e, tail] = 1, -1
    degree = np.abs(incidence).sum(0)
    linked = degree > 0
    tau, sigma = 1.7 / np.maximum(degree, 1), 0.4 / 1.7
    for name in names:
        solver = gtv_primal_dual(problem, LAM, PENALTIES[name](), ratio=1.7, margin=0.4)
        np.testing.assert_allclose(solver.steps(problem)[0], tau)
        np.testing.assert_allclose(solver.steps(problem)[1], sigma)
        trace = run(solver, problem, jax.random.key(0), rounds=400, measure=remember).trace
        models, flows = np.asarray(trace["w"]), np.asarray(trace["u"])
        for t in (0, 1, 2, 30, 398):
            w, u, w_new, u_new = models[t], flows[t], models[t + 1], flows[t + 1]
            primal = (w - w_new) / tau[:, None] - incidence.T @ (u - u_new)
            dual = (u - u_new) / sigma - incidence @ (w - w_new)
            for i in np.flatnonzero(linked):
                slope = np.zeros(DIM)
                if OPEN[i]:
                    x, y = features[i], targets[i]
                    slope = 2 / len(y) * x.T @ (x @ w_new[i] - y) + 0.2 * w_new[i]
                np.testing.assert_allclose(primal[i], slope + (incidence.T @ u_new)[i], atol=1e-10)
            for e, weight in enumerate(WEIGHTS):
                normal = dual[e] + (incidence @ w_new)[e]
                assert normal_cone(name, u_new[e], LAM * weight, normal) < 1e-10
            wanted = max(
                np.linalg.norm(primal[linked])
                / (np.sqrt(linked.sum() * DIM) + np.linalg.norm(incidence.T @ u_new)),
                np.linalg.norm(dual) / (np.sqrt(dual.size) + np.linalg.norm(incidence @ w_new)),
            )
            assert float(trace["residual"][t]) == pytest.approx(wanted, rel=1e-7, abs=1e-14)


# --- absence ------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_an_optimiser_remembers_nothing_of_rounds_it_missed():
    """Momentum of an absent node stays as it was."""
    base = problem_of("training")
    local = type(base.local)(
        **{**vars(base.local), "optimizer": partial(optax.sgd, momentum=0.5), "steps": 2}
    )
    problem = Networked(base.graph, local, base.accessible, base.start)
    solver, key = gtv_primal_dual(problem, LAM), jax.random.key(0)
    masks = np.ones((3, NODES), bool)
    masks[1, :4] = False
    absent = participation.replay(masks)
    first = run(solver, problem, key, rounds=1, participation=absent).state
    second = run(solver, problem, key, rounds=1, participation=absent, start=first).state
    for before, after in zip(
        jax.tree.leaves(first.solver.nodes.memory),
        jax.tree.leaves(second.solver.nodes.memory),
        strict=True,
    ):
        np.testing.assert_array_equal(after[:4], before[:4])
        assert np.any(np.asarray(after[4:]) != np.asarray(before[4:]))


# --- mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [0.0, -2.0, np.nan])
def test_a_radius_that_is_none(radius):
    with pytest.raises(
        InputError, match=f"radius must be a number greater than 0, but it is {radius}"
    ):
        gap_within(radius)


@pytest.mark.thorough
@pytest.mark.kin(1)
@pytest.mark.parametrize("loss", ["logistic", "lasso", "training"])
def test_losses_without_known_conjugates_have_no_gap(loss):
    problem = problem_of(loss)
    solver = gtv_primal_dual(problem, LAM)
    state = solver.init(problem, jax.random.key(0))
    sentence = r"the gap needs a loss with known conjugates .*Loss; stop by optimality_residual"
    with pytest.raises(InputError, match=sentence):
        duality_gap(solver, problem, state)
    with pytest.raises(InputError, match="stop by optimality_residual"):
        run_until(
            solver,
            problem,
            jax.random.key(0),
            residual=gap_within(10.0),
            tolerance=1e-3,
            max_rounds=10,
        )
