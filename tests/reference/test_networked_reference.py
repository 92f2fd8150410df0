"""Checks of the reference of networked federated learning itself, by independent means."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

from tests.reference import networked

# Nothing in the library can change the reference.
pytestmark = pytest.mark.thorough

SINGULAR = np.array([[2.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])


def small_node(seed, m=4, d=3, scale=1.0, accessible=True):
    rng = np.random.default_rng(seed)
    return networked.Node(rng.standard_normal((m, d)), rng.standard_normal(m), accessible, scale)


def small_problem(seed=0, m=2, d=3):
    """Two clusters of four; two nodes are inaccessible, and with m < d no Q is regular."""
    rng = np.random.default_rng(seed)
    edges, weights, labels = networked.draw_sbm(rng, (4, 4), 0.9, 0.2)
    weights = weights * rng.uniform(0.5, 2.0, len(weights))
    accessible = np.array([1, 0, 1, 1, 1, 1, 0, 1], bool)
    truths = np.where(labels[:, None] == 0, 1.0, -1.0) * np.ones(d)
    return networked.draw_nodes(rng, truths, m, 0.1, accessible), edges, weights, labels


def smallest(function, start):
    """Minimiser of a smooth convex function, by BFGS with numerical gradients."""
    return minimize(function, start, method="BFGS", options={"gtol": 1e-9}).x


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("m", [2, 5])
@pytest.mark.parametrize("tau", [0.1, 1.0, 30.0])
def test_prox_squared(tau, m, ridge):
    node, v = small_node(3, m, scale=1.7), np.array([1.0, -2.0, 0.5])

    def function(z):
        return networked.squared_loss(node, z, ridge) + ((z - v) ** 2).sum() / (2.0 * tau)

    z = networked.prox_squared(node, v, tau, ridge)
    np.testing.assert_allclose(z, smallest(function, v), atol=2e-6)
    gradient = networked.squared_gradient(node, z) + 2.0 * ridge * z + (z - v) / tau
    np.testing.assert_allclose(gradient, 0.0, atol=1e-13)


@pytest.mark.parametrize("tau", [0.2, 2.0, math.inf])
def test_prox_lasso(tau):
    node, v, eta = small_node(4, 5, scale=1.3), np.array([1.0, -0.1, 0.5]), 0.4
    z = networked.prox_lasso_exact(node, v, tau, eta)

    # A smooth problem with bounds: z = p - n with p, n >= 0.
    def split(pair):
        z = pair[:3] - pair[3:]
        proximal = ((z - v) ** 2).sum() / (2.0 * tau)
        return networked.squared_loss(node, z) + eta * pair.sum() + proximal

    pair = minimize(
        split, np.full(6, 0.5), bounds=[(0.0, None)] * 6, options={"ftol": 1e-15, "gtol": 1e-10}
    ).x
    np.testing.assert_allclose(z, pair[:3] - pair[3:], atol=3e-6)
    assert networked.squared_loss(node, z, lasso=eta) == pytest.approx(
        networked.squared_loss(node, z) + eta * np.abs(z).sum()
    )
    gradient = networked.squared_gradient(node, z) + (z - v) / tau
    np.testing.assert_allclose(gradient[z != 0.0], -eta * np.sign(z[z != 0.0]), atol=1e-12)
    assert np.all(np.abs(gradient[z == 0.0]) <= eta)


@pytest.mark.parametrize("tau", [0.02, 1.0, 50.0])
@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_prox_logistic(tau, scale):
    rng = np.random.default_rng(6)
    node = networked.Node(rng.standard_normal((20, 3)), rng.choice([-1.0, 1.0], 20), True, scale)
    v = np.array([2.0, -5.0, 1.0])
    z = networked.prox_logistic(node, v, tau)
    gradient = networked.logistic_gradient(node, z) + (z - v) / tau
    assert np.linalg.norm(gradient) <= 1e-13 * (1.0 + np.linalg.norm(v) / tau)

    def function(z):
        return networked.logistic_loss(node, z) + ((z - v) ** 2).sum() / (2.0 * tau)

    np.testing.assert_allclose(z, smallest(function, v), atol=3e-6)
    rate = 1.0 / (scale * np.linalg.norm(node.x, 2) ** 2 / 80.0 + 1.0 / tau)
    many = networked.prox_gradient_steps(
        node, v, tau, 20000, rate, v, gradient=networked.logistic_gradient
    )
    np.testing.assert_allclose(many, z, atol=1e-11)


@pytest.mark.parametrize("radius", [0.3, 5.0])
@pytest.mark.parametrize("penalty", networked.PENALTIES)
def test_dual_updates_by_moreau(penalty, radius):
    """``v - sigma prox_(radius phi / sigma)(v / sigma)``, with the prox found numerically."""
    v, sigma = np.array([0.8, -0.2, 1.5]), 0.7

    def function(z):
        value = radius * networked.penalty_value(penalty, z, SINGULAR)
        return value + sigma / 2.0 * ((z - v / sigma) ** 2).sum()

    if penalty == "l1":  # One entry at a time.
        prox = np.empty(3)
        for index in range(3):

            def entry(z, index=index):
                return radius * abs(z) + sigma / 2.0 * (z - v[index] / sigma) ** 2

            prox[index] = minimize_scalar(entry, (-3.0, 3.0), options={"xtol": 1e-12}).x
    elif penalty == "nlasso":  # Along v.
        unit = v / np.linalg.norm(v)
        found = minimize_scalar(lambda s: function(s * unit), (-3.0, 3.0), options={"xtol": 1e-12})
        prox = found.x * unit
    else:
        prox = smallest(function, v)
    updated = networked.dual_update(penalty, v, radius, sigma, SINGULAR)
    np.testing.assert_allclose(updated, v - sigma * prox, atol=5e-7)


def test_limit_does_not_depend_on_the_ratio_and_solves_the_problem():
    nodes, edges, weights, _ = small_problem(m=6)
    problem = (nodes, edges, weights, 0.1, "squared")
    limits = [
        networked.primal_dual(*problem, ratio, 1200, margin, record=False)[0]
        for ratio, margin in ((1.0, 0.5), (3.0, 0.45))
    ]
    np.testing.assert_allclose(limits[0], limits[1], atol=1e-9)
    direct = smallest(
        lambda flat: networked.objective(*problem, flat.reshape(8, 3)), np.zeros(24)
    ).reshape(8, 3)
    np.testing.assert_allclose(limits[0], direct, atol=1e-5)


def test_certificate_by_hand():
    """Two pairs of nodes with ``L = (w - y)^2``; the joint minimisers are 1 and -1."""
    values = (1.1, 0.9, -1.0, -1.0)
    nodes = [networked.Node(np.ones((1, 1)), np.array([value])) for value in values]
    edges, weights = [(0, 1), (1, 2), (2, 3)], [2.0, 0.3, 2.0]
    first, second = networked.certificate(nodes, edges, weights, [0, 0, 1, 1], 0.5)
    # alpha = 4, beta = 2, delta = 0.2 and 0; node 1 has the boundary edge.
    assert first.boundary == second.boundary == 0.3
    assert first.alpha == second.alpha == 4.0
    assert first.bound == pytest.approx(0.5 * 0.3 / 4.0)
    # With i0 = 1 the demand of node 0 is 0.15 + 0.2 / 0.5, with i0 = 0 that of node 1 is 0.85.
    assert first.slack == pytest.approx(2.0 - 0.55)
    assert first.roots == [0, 1]
    assert second.slack == pytest.approx(2.0 - 0.15)
    weights[0] = 0.7
    first, _ = networked.certificate(nodes, edges, weights, [0, 0, 1, 1], 0.5)
    assert first.roots == [1]
    weights[0] = 0.5
    first, _ = networked.certificate(nodes, edges, weights, [0, 0, 1, 1], 0.5)
    assert not first.well_connected
