"""Local losses: values, gradients, prox, minimisers, conjugates against NumPy and SciPy."""

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.optimize

from fedjax_admm import losses
from fedjax_admm.graphs import Graph
from fedjax_admm.losses._squared import factor
from fedjax_admm.problems import (
    networked_logistic,
    networked_regression,
    networked_training,
)

STEPS = (1e-3, 0.05, 1.0, 30.0, 1e3)


def chain(nodes):
    heads = np.arange(nodes - 1, dtype=np.int32)
    parts = (heads, heads + 1, np.ones(nodes - 1, jnp.result_type(float)))
    return Graph(*map(jnp.asarray, parts), num_nodes=nodes)


class Case(NamedTuple):
    """Ragged data and the options of the builder."""

    sizes: tuple[int, ...]
    dim: int
    options: dict[str, Any]
    rank: int | None = None  # of every node's data; full if None


# Nearly all have the shape (4 nodes, 7 samples at most, 3 features): one compilation serves them.
CASES = {
    "tall": Case((7, 7, 7, 7), 3, {}),
    "wide": Case((2, 2, 2, 2), 5, {}),
    "deficient": Case((7, 5, 4, 6), 3, {}, rank=2),
    "ragged": Case((1, 7, 3, 2), 3, {}),
    "sum": Case((1, 7, 3, 5), 3, {"scale": "sum"}),
    "weights": Case((4, 2, 7, 5), 3, {"node_weights": [0.3, 2.0, 7.0, 1.0]}),
    "ridge": Case((4, 2, 7, 3), 3, {"ridge": 0.4}),
    "ridges": Case((4, 1, 7, 2), 3, {"ridge": [0.1, 0.7, 2.0, 0.0], "scale": "sum"}),
    "access": Case((7, 2, 5, 3), 3, {"accessible": [True, False, True, True], "ridge": 0.2}),
    "one": Case((3, 1, 2, 3), 1, {}),
}


# Ragged, deficient and without access: the others are compared in the prox of least squares alone.
FEW = ["wide", "deficient", "ridges", "access"]


def data_of(case):
    """Features and targets of every node."""
    rng = np.random.default_rng(5)
    features = []
    for size in case.sizes:
        x = rng.standard_normal((size, case.dim))
        if case.rank is not None:
            x = x[:, : case.rank] @ rng.standard_normal((case.rank, case.dim))
        features.append(x)
    targets = [2 * rng.standard_normal(size) for size in case.sizes]
    return features, targets


def options_of(case):
    return {
        name: np.asarray(value) if isinstance(value, list) else value
        for name, value in case.options.items()
    }


def problem_of(case, dtype=float, **more):
    features, targets = data_of(case)
    graph = chain(len(case.sizes))
    return networked_regression(
        graph,
        [np.asarray(x, dtype) for x in features],
        [np.asarray(y, dtype) for y in targets],
        **options_of(case),
        **more,
    )


class Node(NamedTuple):
    """Least squares of one node by its formulas: ||X w - y||^2 weight + ridge ||w||^2."""

    x: np.ndarray
    y: np.ndarray
    weight: float
    ridge: float

    def value(self, w):
        total = 0.0
        for row, target in zip(self.x, self.y, strict=True):
            total += self.weight * (row @ w - target) ** 2
        return total + self.ridge * (w @ w)

    def gram(self):
        return self.weight * self.x.T @ self.x

    def correlation(self):
        return self.weight * self.x.T @ self.y

    def gradient(self, w):
        return 2 * (self.gram() @ w - self.correlation() + self.ridge * w)

    def prox(self, v, step):
        curved = np.eye(len(v)) * (1 + 2 * step * self.ridge) + 2 * step * self.gram()
        return np.linalg.solve(curved, v + 2 * step * self.correlation())


def nodes_of(case):
    options, (features, targets) = options_of(case), data_of(case)
    count = len(case.sizes)
    reached = options.get("accessible", np.ones(count, bool))
    weights = np.broadcast_to(options.get("node_weights", 1.0), count)
    ridges = np.broadcast_to(options.get("ridge", 0.0), count)
    nodes = []
    for i, (x, y) in enumerate(zip(features, targets, strict=True)):
        share = weights[i] * (1.0 if options.get("scale") == "sum" else 1 / len(y)) * reached[i]
        nodes.append(Node(x, y, share, ridges[i] * reached[i]))
    return nodes


def models(count, dim, seed=0):
    return 1.5 * np.random.default_rng(seed).standard_normal((count, dim))


def in_numpy(function):
    """Compile a function whose result is looked at entry by entry."""
    compiled = jax.jit(function)
    return lambda *arguments: np.asarray(compiled(*arguments))


values = in_numpy(lambda local, w: local.values(w))
gradients = in_numpy(lambda local, w: local.gradients(w))
slopes = in_numpy(jax.grad(lambda w, local: jnp.sum(local.values(w))))
minimizers = in_numpy(lambda local: local.minimizers())
shape_of = jax.jit(lambda local: (local.gram(), local.curvature()))
typical_norm = jax.jit(lambda local: local.typical_norm())
conjugates = in_numpy(lambda local, v, radius: local.conjugates(v, radius))


traced_factor = jax.jit(factor)


@jax.jit
def prox(local, v, step, previous):
    """The prox whose warm start, if it has one, are the previous models."""
    return local.prox(v, step, local.prox_memory(previous))


def prox_of(local, v, step):
    """The prox of all nodes with one step, from a cold start."""
    v = jnp.asarray(v, local.features.dtype if hasattr(local, "features") else v.dtype)
    return np.asarray(prox(local, v, np.full(len(v), step, v.dtype), np.zeros_like(v))[0])


# --- least squares ------------------------------------------------------------------------------


@pytest.mark.kin(1)
@pytest.mark.parametrize("name", FEW)
def test_values_and_gradients_of_least_squares(name, dtype):
    case, nodes = CASES[name], nodes_of(CASES[name])
    local = problem_of(case, dtype).local
    w = models(len(nodes), case.dim)
    tolerance = 1e-12 if dtype == "float64" else 2e-5
    seen = values(local, jnp.asarray(w, dtype))
    assert seen.dtype == dtype
    wanted = [node.value(row) for node, row in zip(nodes, w, strict=True)]
    np.testing.assert_allclose(seen, wanted, rtol=tolerance)
    slope = gradients(local, jnp.asarray(w, dtype))
    assert slope.dtype == dtype
    wanted = [node.gradient(row) for node, row in zip(nodes, w, strict=True)]
    scale = 1 + np.abs(wanted).max()
    np.testing.assert_allclose(slope, wanted, rtol=0, atol=tolerance * scale)
    by_jax = slopes(jnp.asarray(w, dtype), local)
    np.testing.assert_allclose(slope, by_jax, rtol=0, atol=tolerance * scale)


@pytest.mark.kin(4)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("x64")
def test_prox_of_least_squares(name):
    case, nodes = CASES[name], nodes_of(CASES[name])
    local, v = problem_of(case).local, models(len(nodes), case.dim)
    for step in STEPS:
        w = prox_of(local, v, step)
        wanted = [node.prox(row, step) for node, row in zip(nodes, v, strict=True)]
        np.testing.assert_allclose(w, wanted, rtol=0, atol=1e-9)
        # Stationary: gradient + (w - v) / step = 0.
        for node, new, old in zip(nodes, w, v, strict=True):
            np.testing.assert_allclose(node.gradient(new) + (new - old) / step, 0, atol=1e-9)


@pytest.mark.kin(1)
@pytest.mark.parametrize("name", FEW)
def test_prox_of_least_squares_in_float32(name):
    """Long steps must not cost digits: models are known, whatever 2 step q is."""
    case, nodes = CASES[name], nodes_of(CASES[name])
    local, v = problem_of(case, "float32").local, models(len(nodes), case.dim)
    for step in STEPS:
        wanted = np.array([node.prox(row, step) for node, row in zip(nodes, v, strict=True)])
        scale = 1 + np.abs(wanted).max()
        np.testing.assert_allclose(prox_of(local, v, step), wanted, rtol=0, atol=2e-5 * scale)


@pytest.mark.kin(2)
@pytest.mark.parametrize("name", FEW)
@pytest.mark.usefixtures("x64")
def test_minimizers_are_least_squares_solutions_of_minimum_norm(name):
    case, nodes = CASES[name], nodes_of(CASES[name])
    w = np.asarray(minimizers(problem_of(case).local))
    for node, found in zip(nodes, w, strict=True):
        if not node.weight:
            wanted = np.zeros(case.dim)
        elif node.ridge:
            rows = np.sqrt(node.ridge) * np.eye(case.dim)
            x = np.vstack([np.sqrt(node.weight) * node.x, rows])
            y = np.concatenate([np.sqrt(node.weight) * node.y, np.zeros(case.dim)])
            wanted = np.linalg.lstsq(x, y, rcond=None)[0]
        else:
            wanted = np.linalg.lstsq(node.x, node.y, rcond=1e-10)[0]
        np.testing.assert_allclose(found, wanted, atol=1e-9)


@pytest.mark.parametrize("ridge", [1e-3, 1e-9])
@pytest.mark.parametrize("name", ["wide", "deficient"])
def test_a_small_ridge_does_not_blow_up_rounding(name, ridge, dtype):
    """Where nothing is seen, a ridge, however small, gives zero and not rounding over ridge."""
    case = CASES[name]
    w = np.asarray(minimizers(problem_of(case, dtype, ridge=ridge).local))
    for node, found in zip(nodes_of(case), w, strict=True):
        x = np.vstack([np.sqrt(node.weight) * node.x, np.sqrt(ridge) * np.eye(case.dim)])
        y = np.concatenate([np.sqrt(node.weight) * node.y, np.zeros(case.dim)])
        wanted = np.linalg.lstsq(x, y, rcond=None)[0]
        tolerance = 1e-6 if dtype == "float64" else 1e-3
        np.testing.assert_allclose(found, wanted, atol=tolerance * (1 + np.abs(wanted).max()))


@pytest.mark.kin(1)
@pytest.mark.parametrize("name", FEW)
@pytest.mark.usefixtures("x64")
def test_curvature_and_gram(name):
    case, nodes = CASES[name], nodes_of(CASES[name])
    local = problem_of(case).local
    grams, curvatures = (np.asarray(part) for part in shape_of(local))
    for i, node in enumerate(nodes):
        curved = node.gram() + node.ridge * np.eye(case.dim)
        np.testing.assert_allclose(grams[i], curved, atol=1e-10)
        assert curvatures[i] == pytest.approx(2 * np.linalg.eigvalsh(curved)[-1])


@pytest.mark.kin(1)
@pytest.mark.parametrize("name", FEW)
def test_factor_inside_a_trace_is_the_factor_outside(name, dtype):
    local = problem_of(CASES[name], dtype).local
    host = local.basis, local.singular, local.projected, local.unexplained
    traced = traced_factor(local.features, local.targets, local.weights)
    scaled = np.asarray(local.features, float) * np.sqrt(local.weights)[..., None]
    aimed = np.asarray(local.targets, float) * np.sqrt(local.weights)
    gram, right = np.einsum("nmd,nme->nde", scaled, scaled), np.einsum("nmd,nm->nd", scaled, aimed)
    slack = (1e-11 if dtype == "float64" else 2e-6) * max(1.0, np.abs(gram).max())
    for basis, singular, projected, unexplained in (host, traced):
        assert basis.dtype == singular.dtype == projected.dtype == unexplained.dtype == dtype
        seen = np.asarray(singular) > 0
        np.testing.assert_array_equal(np.sum(seen, 1), np.linalg.matrix_rank(scaled, tol=1e-4))
        rows = np.asarray(singular)[..., None] * basis
        np.testing.assert_allclose(np.einsum("nrd,nre->nde", rows, rows), gram, atol=slack)
        np.testing.assert_allclose(np.einsum("nrd,nr->nd", rows, projected), right, atol=slack)
        explained = np.sum(np.asarray(projected) ** 2, 1)
        np.testing.assert_allclose(explained + unexplained, np.sum(aimed**2, 1), atol=slack)
        # Orthonormal rows where the singular value is not zero; zero rows elsewhere.
        inner = np.einsum("nrd,nsd->nrs", basis, basis)
        np.testing.assert_allclose(
            inner,
            seen[..., None] * np.eye(seen.shape[1]),
            atol=1e-8 if dtype == "float64" else 2e-4,
        )


@pytest.mark.usefixtures("x64")
def test_units_of_features_change_no_least_squares():
    """Features in units of 1e8 and 1 have the minimum and the conjugates of balanced ones."""
    rng, turns = np.random.default_rng(3), np.array([1e6, 1e-2, 1.0])
    x = rng.standard_normal((5, 7, 3))
    x[3, 2:], x[4, :, 2] = 0, x[4] @ [1.0, 1.0, 0.0] - x[4, :, 2]
    x[4, :, 1] = x[4, :, 0]  # of rank 2, and node 3 has two rows
    y, c = rng.standard_normal((5, 7)), np.full((5, 7), 1 / 7)
    v = np.einsum("nmd,nm->nd", x, rng.standard_normal((5, 7)))  # what the data see
    plain, turned = (losses.least_squares(x * units, y, c) for units in (1.0, turns))
    traced = dict(zip(FACTORS, traced_factor(x * turns, y, c), strict=True))
    for found in (turned, replace(turned, **traced)):
        np.testing.assert_array_equal(np.sum(found.singular > 0, 1), [3, 3, 3, 2, 2])
        np.testing.assert_allclose(found.unexplained, plain.unexplained, atol=1e-12)
        np.testing.assert_allclose(
            conjugates(found, v * turns, 0.0), conjugates(plain, v, 0.0), rtol=1e-9
        )
        residuals = np.einsum("nmd,nd->nm", x * turns, np.asarray(found.minimizers())) - y
        np.testing.assert_allclose(np.mean(residuals**2, 1), plain.unexplained, atol=1e-12)
        rows = jnp.asarray(v * turns)
        assert np.all(np.abs(found.unseen(rows)) <= 64 * np.asarray(found.rounding(rows)))


FACTORS = ("basis", "singular", "projected", "unexplained")


@pytest.mark.usefixtures("x64")
def test_gradients_through_the_prox_are_finite_and_right():
    local, v = problem_of(CASES["wide"]).local, jnp.asarray(models(4, 5))

    @jax.jit
    def total(step):
        return jnp.sum(local.prox(v, jnp.full(4, step), ())[0] ** 2)

    slope = jax.grad(total)(0.7)
    assert slope == pytest.approx(float(total(0.7 + 1e-6) - total(0.7 - 1e-6)) / 2e-6, rel=1e-6)


# --- conjugates of least squares ----------------------------------------------------------------


def supremum(node, v, radius):
    """sup of <v, w> - L(w) over the part of w that is not seen being no longer than the radius."""
    curved = node.gram() + node.ridge * np.eye(len(v))
    size, basis = np.linalg.eigh(curved)
    blind = basis[:, size < 1e-9]

    def cost(w):
        return node.value(w) - v @ w, node.gradient(w) - v

    constraints = ()
    if blind.shape[1]:
        constraints = {
            "type": "ineq",
            "fun": lambda w: radius**2 - np.sum((blind.T @ w) ** 2),
            "jac": lambda w: -2 * blind @ (blind.T @ w),
        }
    start = 0.1 * np.ones(len(v))
    options = {"ftol": 1e-15, "maxiter": 1000}
    found = scipy.optimize.minimize(
        cost, start, jac=True, method="SLSQP", constraints=constraints, options=options
    )
    return -found.fun


@pytest.mark.kin(1)
@pytest.mark.parametrize("name", FEW)
@pytest.mark.usefixtures("x64")
def test_conjugates_against_a_numerical_supremum(name):
    case, nodes = CASES[name], nodes_of(CASES[name])
    local, v = problem_of(case).local, models(len(nodes), case.dim, seed=3)
    for radius in (0.5, 4.0):
        found = np.asarray(conjugates(local, v, radius))
        for i, node in enumerate(nodes):
            assert found[i] == pytest.approx(supremum(node, v[i], radius), abs=1e-6, rel=1e-6)


@pytest.mark.kin(1)
@pytest.mark.parametrize("name", FEW)
def test_plain_conjugates_are_infinite_off_the_range(name, dtype):
    case, nodes = CASES[name], nodes_of(CASES[name])
    local = problem_of(case, dtype).local
    w = models(len(nodes), case.dim)
    off = np.asarray(conjugates(local, jnp.asarray(w, dtype), jnp.asarray(np.inf, dtype)))
    inside = np.array([node.gradient(row) for node, row in zip(nodes, w, strict=True)])
    on = np.asarray(conjugates(local, jnp.asarray(inside, dtype), jnp.asarray(np.inf, dtype)))
    for i, node in enumerate(nodes):
        full = np.linalg.matrix_rank(node.gram() + node.ridge * np.eye(case.dim)) == case.dim
        assert np.isfinite(off[i]) == full
        # At a gradient, equality: L*(grad L(w)) = <grad, w> - L(w).
        wanted = inside[i] @ w[i] - node.value(w[i])
        tolerance = 1e-10 if dtype == "float64" else 1e-4
        scale = 1 + abs(wanted) + node.value(w[i])
        assert on[i] == pytest.approx(wanted, abs=tolerance * scale)


# --- Lasso --------------------------------------------------------------------------------------

LASSO = ["wide", "weights", "ridges", "access"]
L1 = 0.3


def lasso_residual(node, w, v, step, l1):
    """How far w is from stationary for L + l1 ||.||_1 + ||. - v||^2 / (2 step)."""
    slope = node.gradient(w) + (w - v) / step
    resting = np.maximum(np.abs(slope) - l1, 0)
    return np.abs(np.where(w == 0, resting, slope + l1 * np.sign(w))).max()


@pytest.mark.kin(1)
@pytest.mark.parametrize("name", LASSO)
@pytest.mark.usefixtures("x64")
def test_values_and_gradients_of_lasso(name):
    case, nodes = CASES[name], nodes_of(CASES[name])
    local = problem_of(case, l1=L1).local
    w = models(len(nodes), case.dim)
    seen, slope = values(local, jnp.asarray(w)), gradients(local, jnp.asarray(w))
    np.testing.assert_allclose(slope, slopes(jnp.asarray(w), local), atol=1e-11)
    for i, node in enumerate(nodes):
        l1 = L1 if node.weight else 0.0
        assert seen[i] == pytest.approx(node.value(w[i]) + l1 * np.abs(w[i]).sum(), rel=1e-12)
        np.testing.assert_allclose(slope[i], node.gradient(w[i]) + l1 * np.sign(w[i]), atol=1e-11)


@pytest.mark.kin(1)
@pytest.mark.parametrize("name", LASSO)
@pytest.mark.usefixtures("x64")
def test_prox_of_lasso_is_stationary(name):
    """From the start; for long steps the rate is that of the data alone, so steps are many."""
    case, nodes = CASES[name], nodes_of(CASES[name])
    v = models(len(nodes), case.dim)
    local = problem_of(case, l1=L1, inner_steps=300).local
    for step in (1e-3, 0.05, 1.0, 10.0):
        w = jnp.zeros(v.shape)
        for _ in range(12):  # each call starts where the last one stopped
            w, memory = prox(local, jnp.asarray(v), jnp.full(len(v), step), w)
        np.testing.assert_array_equal(memory, w)
        for i, node in enumerate(nodes):
            l1 = L1 if node.weight else 0.0
            assert lasso_residual(node, np.asarray(w)[i], v[i], step, l1) < 1e-9


@pytest.mark.kin(1)
@pytest.mark.parametrize("name", LASSO)
@pytest.mark.usefixtures("x64")
def test_minimizers_of_lasso(name):
    case, nodes = CASES[name], nodes_of(CASES[name])
    w = np.asarray(minimizers(problem_of(case, l1=L1).local))
    for i, node in enumerate(nodes):
        if not node.weight:
            np.testing.assert_array_equal(w[i], 0)
            continue
        assert lasso_residual(node, w[i], w[i], 1.0, L1) < 1e-6


# --- logistic regression ------------------------------------------------------------------------

LOGISTIC = ["wide", "sum", "access"]


def logistic_of(case, dtype=float, **more):
    """The problem, and the nodes with labels for targets."""
    features, targets = data_of(case)
    labels = [np.where(y > 0, 1.0, -1.0) for y in targets]
    options = {name: given for name, given in options_of(case).items() if name != "ridge"}
    problem = networked_logistic(
        chain(len(case.sizes)),
        [np.asarray(x, dtype) for x in features],
        [np.asarray(y, dtype) for y in labels],
        **options,
        **more,
    )
    return problem, [node._replace(y=y) for node, y in zip(nodes_of(case), labels, strict=True)]


def logistic_value(node, w):
    return sum(
        node.weight * np.logaddexp(0, -y * (x @ w)) for x, y in zip(node.x, node.y, strict=True)
    )


def logistic_gradient(node, w):
    total = np.zeros_like(w)
    for x, y in zip(node.x, node.y, strict=True):
        total -= node.weight * y * x / (1 + np.exp(y * (x @ w)))
    return total


@pytest.mark.kin(1)
@pytest.mark.parametrize("name", LOGISTIC)
def test_values_and_gradients_of_logistic(name, dtype):
    case = CASES[name]
    problem, nodes = logistic_of(case, dtype)
    w = models(len(nodes), case.dim)
    tolerance = 1e-12 if dtype == "float64" else 2e-5
    seen, slope = (
        values(problem.local, jnp.asarray(w, dtype)),
        gradients(problem.local, jnp.asarray(w, dtype)),
    )
    assert seen.dtype == slope.dtype == dtype
    wanted = [logistic_value(node, row) for node, row in zip(nodes, w, strict=True)]
    np.testing.assert_allclose(seen, wanted, rtol=tolerance)
    wanted = [logistic_gradient(node, row) for node, row in zip(nodes, w, strict=True)]
    np.testing.assert_allclose(slope, wanted, rtol=0, atol=tolerance)
    np.testing.assert_allclose(slope, slopes(jnp.asarray(w, dtype), problem.local), atol=tolerance)


@pytest.mark.kin(1)
@pytest.mark.parametrize("name", LOGISTIC)
@pytest.mark.usefixtures("x64")
def test_prox_of_logistic_is_stationary(name):
    case = CASES[name]
    problem, nodes = logistic_of(case, newton_steps=25)
    v = models(len(nodes), case.dim)
    for step in STEPS:
        w = prox_of(problem.local, v, step)
        for i, node in enumerate(nodes):
            slope = logistic_gradient(node, w[i]) + (w[i] - v[i]) / step
            np.testing.assert_allclose(slope, 0, atol=1e-9)


@pytest.mark.usefixtures("x64")
def test_few_newton_steps_are_enough_on_usual_data():
    rng = np.random.default_rng(2)
    features = [rng.standard_normal((20, 5)) for _ in range(50)]
    labels = [
        np.where(x @ rng.standard_normal(5) + rng.standard_normal(20) > 0, 1.0, -1.0)
        for x in features
    ]
    problem = networked_logistic(chain(50), features, labels)
    v = rng.standard_normal((50, 5))
    for step in (1.0, 0.1, 0.02):
        w = jnp.asarray(prox_of(problem.local, v, step))
        slope = gradients(problem.local, w) + (w - v) / step
        np.testing.assert_allclose(slope, 0, atol=1e-10)


@pytest.mark.usefixtures("x64")
def test_minimizers_of_logistic():
    """With the ridge 1e-4 ||w||^2 / 2, which hardly matters where classes overlap."""
    rng = np.random.default_rng(6)
    features = [rng.standard_normal((40, 3)) for _ in range(4)]
    labels = [np.where(x[:, 0] + 2 * rng.standard_normal(40) > 0, 1.0, -1.0) for x in features]
    problem = networked_logistic(chain(4), features, labels)
    w = np.asarray(minimizers(problem.local))
    for x, y, found in zip(features, labels, w, strict=True):
        node = Node(x, y, 1 / 40, 0.0)
        np.testing.assert_allclose(logistic_gradient(node, found) + 1e-4 * found, 0, atol=1e-10)
        best = scipy.optimize.minimize(
            lambda w, node=node: (logistic_value(node, w), logistic_gradient(node, w)),
            np.zeros(3),
            jac=True,
            options={"gtol": 1e-10},
        )
        np.testing.assert_allclose(found, best.x, rtol=0.01, atol=0.01)


def test_logistic_curvature_bounds_the_hessian(dtype):
    problem, nodes = logistic_of(CASES["ragged"], dtype)
    bound = np.asarray(problem.local.curvature())
    for i, node in enumerate(nodes):
        assert bound[i] >= np.linalg.eigvalsh(node.gram())[-1] / 4 * (1 - 1e-6)
        assert bound[i] <= np.trace(node.gram()) / 4 * (1 + 1e-6)


def separable(size, samples, dtype):
    """Nodes whose classes a plane through zero keeps apart, and features of a given size."""
    rng = np.random.default_rng(8)
    features = [(size * rng.standard_normal((m, 3))).astype(dtype) for m in samples]
    labels = [np.where(x[:, 0] > 0, 1.0, -1.0).astype(dtype) for x in features]
    return features, labels, networked_logistic(chain(len(samples)), features, labels).local


@pytest.mark.kin(1)
@pytest.mark.parametrize("size", [1.0, 1e2, 1e4])
def test_the_prox_of_logistic_is_never_worse_than_staying(size, dtype):
    """L(w) + ||w - v||^2 / (2 step) is at most L(v), whatever the margins at v."""
    _, _, local = separable(size, [2, 6, 1, 8] * 3, dtype)
    rng = np.random.default_rng(3)
    for scale in (1e-2, 1.0, 1e2):
        v = jnp.asarray(scale * rng.standard_normal((12, 3)), dtype)
        before = np.asarray(values(local, v), float)
        for step in (1e-3, 1.0, 1e3):
            w = prox_of(local, v, step)
            moved = np.sum((np.asarray(w, float) - np.asarray(v, float)) ** 2, 1)
            after = np.asarray(values(local, jnp.asarray(w)), float) + moved / (2 * step)
            slack = 1e-4 if dtype == "float32" else 1e-10
            assert np.all(after <= before + slack * (1 + before))


# --- training -----------------------------------------------------------------------------------


def square_loss(w, x, y):
    """(x^T w - y)^2."""
    return (jnp.sum(x * w) - y) ** 2


def softmax_loss(w, x, y):
    """Three classes, a linear model of 3 x 2 numbers."""
    return optax.softmax_cross_entropy_with_integer_labels(x @ w.reshape(2, 3), y)


def training(optimizer=optax.sgd, **options):
    """Least squares by training, and the node formulas; ragged by a mask."""
    case = Case((4, 4, 4), 3, {})
    features, targets = data_of(case)
    present = np.arange(4) < np.array([4, 2, 3])[:, None]
    problem = networked_training(
        chain(3),
        np.stack(features),
        np.stack(targets),
        square_loss,
        models(3, 3, seed=9),
        optimizer=optimizer,
        present=present,
        **options,
    )
    nodes = [
        Node(x[here], y[here], 1 / here.sum(), 0.0)
        for x, y, here in zip(features, targets, present, strict=True)
    ]
    return problem, nodes


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("anchored", [True, False])
@pytest.mark.usefixtures("x64")
def test_sgd_takes_the_gradient_steps_of_its_definition(warm, anchored):
    problem, nodes = training(rate=0.07, steps=4, warm=warm, anchored=anchored)
    v, previous, step = models(3, 3), models(3, 3, seed=1), np.array([0.2, 1.0, 5.0])
    found, _ = prox(problem.local, jnp.asarray(v), jnp.asarray(step), jnp.asarray(previous))
    for i, node in enumerate(nodes):
        z = (previous if warm else v)[i]
        for _ in range(4):
            slope = node.gradient(z)
            if anchored:
                slope = slope + (z - v[i]) / step[i]
            z = z - 0.07 * slope
        np.testing.assert_allclose(found[i], z, atol=1e-13)


@pytest.mark.usefixtures("x64")
def test_nodes_on_their_own_take_solo_steps_from_the_start():
    problem, nodes = training(rate=0.03, steps=2, solo_steps=17)
    found = minimizers(problem.local)
    for i, node in enumerate(nodes):
        z = models(3, 3, seed=9)[i]
        for _ in range(17):
            z = z - 0.03 * node.gradient(z)
        np.testing.assert_allclose(found[i], z, atol=1e-13)
    np.testing.assert_array_equal(problem.start, models(3, 3, seed=9))
    sizes = np.linalg.norm(models(3, 3, seed=9), axis=1)
    assert problem.local.typical_norm() == pytest.approx(np.median(sizes))


def test_classes_may_be_whole_numbers(dtype):
    rng = np.random.default_rng(0)
    features = jnp.asarray(rng.standard_normal((4, 6, 2)), dtype)
    classes = jnp.asarray(rng.integers(0, 3, (4, 6)))
    problem = networked_training(
        chain(4), features, classes, softmax_loss, np.zeros(6), optimizer=optax.adam, steps=50
    )
    assert problem.start.shape == (4, 6)
    before = values(problem.local, problem.start)
    np.testing.assert_allclose(before, np.log(3), rtol=1e-5)
    w = prox_of(problem.local, problem.start, 10.0)
    assert np.all(np.asarray(values(problem.local, jnp.asarray(w))) < before)


# --- nodes without access -----------------------------------------------------------------------

OPEN = np.array([True, False, True])


@cache
def hidden_data():
    rng = np.random.default_rng(1)
    return rng.standard_normal((3, 4, 2)), rng.standard_normal((3, 4))


def hidden(kind):
    x, y = hidden_data()
    if kind == "logistic":
        return networked_logistic(chain(3), x, np.sign(y), accessible=OPEN)
    if kind == "training":
        return networked_training(
            chain(3), x, y, square_loss, np.ones(2), accessible=OPEN, optimizer=optax.adam
        )
    more = {"squared": {}, "ridge": {"ridge": 2.0}, "lasso": {"l1": 0.5}}[kind]
    return networked_regression(chain(3), x, y, accessible=OPEN, **more)


@jax.jit
def hidden_prox(problem, v, step, previous):
    return problem.prox(v, step, problem.prox_memory(previous))


@pytest.mark.kin(1)
@pytest.mark.parametrize("kind", ["squared", "ridge", "lasso", "logistic", "training"])
def test_the_prox_of_a_node_without_access_is_the_identity(kind):
    problem = hidden(kind)
    v, previous = jnp.asarray(models(3, 2)), jnp.asarray(models(3, 2, seed=1))
    step = jnp.asarray([0.3, 4.0, 20.0])
    w, memory = hidden_prox(problem, v, step, previous)
    assert jax.tree.structure(memory) == jax.tree.structure(problem.prox_memory(v))
    assert w.dtype == v.dtype
    np.testing.assert_array_equal(w[1], v[1])
    assert np.all(np.asarray(w[::2]) != np.asarray(v[::2]))
    assert values(problem, v)[1] == 0
    np.testing.assert_array_equal(gradients(problem, v)[1], 0)
    alone = np.asarray(minimizers(problem))
    np.testing.assert_array_equal(alone[1], 0)
    assert np.all(np.isfinite(alone))
