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


# --- losses and proxes --------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, 4.0, 2.5])
@pytest.mark.parametrize(
    ("loss", "gradient"),
    [
        (networked.squared_loss, networked.squared_gradient),
        (networked.logistic_loss, networked.logistic_gradient),
    ],
)
def test_gradients(loss, gradient, scale):
    node = small_node(1, scale=scale)
    node.y = np.sign(node.y)
    w, direction = np.array([0.3, -1.0, 0.7]), np.array([1.0, 0.5, -0.2])
    numerical = (loss(node, w + 1e-6 * direction) - loss(node, w - 1e-6 * direction)) / 2e-6
    assert gradient(node, w) @ direction == pytest.approx(numerical, rel=1e-7)


def test_scales():
    node, w = small_node(2), np.array([1.0, -1.0, 0.5])
    squares = ((node.x @ w - node.y) ** 2).sum()
    assert networked.squared_loss(node, w) == pytest.approx(squares / 4)
    node.scale = 4.0
    assert networked.squared_loss(node, w) == pytest.approx(squares)
    quadratic = w @ networked.second_moment(node) @ w - 2.0 * networked.cross_moment(node) @ w
    assert quadratic + node.y @ node.y == pytest.approx(squares)


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


def test_steps_of_the_inner_solvers_compose():
    node, v = small_node(5), np.array([1.0, -0.1, 0.5])
    whole = networked.prox_lasso(node, v, 0.5, 0.2, 7, np.zeros(3))
    first = networked.prox_lasso(node, v, 0.5, 0.2, 4, np.zeros(3))
    np.testing.assert_array_equal(networked.prox_lasso(node, v, 0.5, 0.2, 3, first), whole)
    many = networked.prox_gradient_steps(node, v, 0.5, 3000, 0.05, np.zeros(3))
    np.testing.assert_allclose(many, networked.prox_squared(node, v, 0.5), atol=1e-13)


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


def test_the_objective_of_an_inaccessible_node_is_absent():
    node, v = small_node(7, accessible=False), np.array([1.0, -2.0, 0.5])
    for z in (
        networked.prox_squared(node, v, 0.5, 0.3),
        networked.prox_lasso(node, v, 0.5, 0.3, 5, np.zeros(3)),
        networked.prox_lasso_exact(node, v, 0.5, 0.3),
        networked.prox_logistic(node, v, 0.5),
        networked.prox_gradient_steps(node, v, 0.5, 5, 0.1, np.zeros(3)),
    ):
        np.testing.assert_array_equal(z, v)
    assert networked.squared_loss(node, v, 0.3, 0.3) == networked.logistic_loss(node, v) == 0.0
    np.testing.assert_array_equal(networked.squared_gradient(node, v), np.zeros(3))
    np.testing.assert_array_equal(networked.local_model(node), np.zeros(3))


# --- dual updates -------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [0.3, 5.0])
@pytest.mark.parametrize("penalty", networked.PENALTIES)
def test_dual_updates_solve_their_problem(penalty, radius):
    """No feasible point around the update has a smaller value, in any of many directions."""
    rng = np.random.default_rng(8)
    v, sigma = np.array([0.8, -0.2, 1.5]), 0.7

    def function(z):
        value = networked.conjugate_value(penalty, z, radius, SINGULAR)
        return value + ((z - v) ** 2).sum() / (2.0 * sigma)

    z = networked.dual_update(penalty, v, radius, sigma, SINGULAR)
    best = function(z)
    assert np.isfinite(best)
    for _ in range(300):
        direction = rng.standard_normal(3)
        if penalty == "quadratic":
            direction = SINGULAR @ direction
        for length in (1e-4, 1e-2, 1.0):
            assert function(z + length * direction) >= best - 1e-9


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


@pytest.mark.parametrize("penalty", networked.PENALTIES)
def test_dual_updates_at_radius_zero(penalty):
    for v in (np.array([0.8, -0.2, 1.5]), np.zeros(3)):
        updated = networked.dual_update(penalty, v, 0.0, 0.7, SINGULAR)
        np.testing.assert_array_equal(updated, np.zeros(3))
        assert networked.conjugate_value(penalty, updated, 0.0, SINGULAR) == 0.0
    assert networked.conjugate_value(penalty, np.ones(3), 0.0, SINGULAR) == math.inf


def test_quadratic_penalties_agree():
    v, w, u, d = np.array([0.8, -0.2, 1.5]), np.ones(3), np.array([0.1, 0.2, 0.3]), 3
    for name, matrix in (("mocha", np.eye(d)), ("squared", 2.0 * np.eye(d))):
        np.testing.assert_allclose(
            networked.dual_update(name, v, 0.4, 0.7),
            networked.dual_update("quadratic", v, 0.4, 0.7, matrix),
        )
        assert networked.penalty_value(name, w) == pytest.approx(
            networked.penalty_value("quadratic", w, matrix)
        )
        assert networked.conjugate_value(name, u, 0.4) == pytest.approx(
            networked.conjugate_value("quadratic", u, 0.4, matrix)
        )


# --- Algorithm 1 --------------------------------------------------------------------------------


def test_operators_are_adjoint():
    _, edges, _, _ = small_problem()
    rng = np.random.default_rng(9)
    w, u = rng.standard_normal((8, 3)), rng.standard_normal((len(edges), 3))
    left = (networked.differences(edges, w) * u).sum()
    assert left == pytest.approx((w * networked.divergence(8, edges, u)).sum())


@pytest.mark.thorough
@pytest.mark.parametrize("penalty", networked.PENALTIES)
def test_gap_bounds_the_suboptimality(penalty):
    nodes, edges, weights, _ = small_problem()
    problem = (nodes, edges, weights, 0.2, penalty)
    w, u = networked.primal_dual(*problem, 1.0, 60, matrix=SINGULAR)
    assert w.shape == (60, 8, 3)
    assert u.shape == (60, len(edges), 3)
    last_w, last_u = networked.primal_dual(
        *problem, 1.0, 2500, matrix=SINGULAR, record=False, start=(w[-1], u[-1])
    )
    best = networked.objective(*problem, last_w, SINGULAR)
    ball = 2.0 * np.linalg.norm(last_w, axis=1).max()
    for index in (0, 4, 19, 59):
        gap = networked.ball_gap(*problem, w[index], u[index], ball, SINGULAR)
        suboptimality = networked.objective(*problem, w[index], SINGULAR) - best
        assert gap >= suboptimality - 1e-12
        assert networked.plain_gap(*problem, w[index], u[index], SINGULAR) == math.inf
    # Slow where M is singular: in its null space nothing couples the nodes.
    assert abs(networked.ball_gap(*problem, last_w, last_u, ball, SINGULAR)) < 1e-5


def test_plain_gap_vanishes_where_it_is_finite():
    nodes, edges, weights, _ = small_problem(m=6)
    for node in nodes:
        node.accessible = True
    problem = (nodes, edges, weights, 0.2, "nlasso")
    w, u = networked.primal_dual(*problem, 1.0, 300, record=False)
    gap = networked.plain_gap(*problem, w, u)
    assert abs(gap) < 1e-9
    assert networked.ball_gap(*problem, w, u, 3.0) == pytest.approx(gap, abs=1e-12)
    assert networked.ball_gap(*problem, w, 2.0 * u + 1.0, 3.0) == math.inf


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


def test_other_losses_reach_their_optimum():
    nodes, edges, weights, _ = small_problem(m=6)
    for node in nodes:
        node.y = np.where(node.y > 0.0, 1.0, -1.0)
    problem = (nodes, edges, weights, 0.1, "mocha")

    def newton(node, v, tau, w):
        return networked.prox_logistic(node, v, tau)

    w, _ = networked.primal_dual(*problem, 1.0, 500, prox=newton, record=False)
    best = networked.objective(*problem, w, loss=networked.logistic_loss)
    rng = np.random.default_rng(10)
    for _ in range(50):
        other = w + 1e-2 * rng.standard_normal(w.shape)
        assert networked.objective(*problem, other, loss=networked.logistic_loss) > best

    # The inner steps start at the last model, so that few of them are enough.
    def inner(node, v, tau, w):
        return networked.prox_lasso(node, v, tau, 0.3, 10, w)

    def exact(node, v, tau, w):
        return networked.prox_lasso_exact(node, v, tau, 0.3)

    few = networked.primal_dual(*problem, 1.0, 300, prox=inner, record=False)
    more = networked.primal_dual(*problem, 1.0, 2, prox=exact, start=few)
    np.testing.assert_allclose(more[0], np.stack([few[0]] * 2), atol=1e-10)
    assert np.any(few[0] == 0.0)


def test_residuals():
    nodes, edges, weights, _ = small_problem(m=6)
    problem = (nodes, edges, weights, 0.2, "mocha")
    w, u = networked.primal_dual(*problem, 2.0, 400, 0.45)
    steps = {"ratio": 2.0, "margin": 0.45}
    for index in (3, 40):
        pairs = (w[index - 1], u[index - 1], w[index], u[index])
        r_p, r_d = networked.residuals(edges, weights, *pairs, **steps)
        flow = networked.divergence(8, edges, u[index])
        jump = networked.differences(edges, w[index])
        for i, node in enumerate(nodes):
            subgradient = networked.squared_gradient(node, w[index, i]) + flow[i]
            np.testing.assert_allclose(r_p[i], subgradient, atol=1e-12)
        for e, weight in enumerate(weights):
            subgradient = u[index, e] / (0.2 * weight) - jump[e]
            np.testing.assert_allclose(r_d[e], subgradient, atol=1e-12)
        assert not networked.has_stopped(edges, weights, *pairs, **steps)
    assert networked.has_stopped(edges, weights, w[-2], u[-2], w[-1], u[-1], **steps)


def test_isolated_nodes_and_edges_of_weight_zero():
    nodes, edges, weights, _ = small_problem()
    extra = [small_node(11, 2), small_node(12, 2, accessible=False)]
    longer = np.concatenate([edges, [[0, 8], [0, 0]]])
    padded = np.concatenate([weights, [0.0, 0.0]])
    plain = networked.primal_dual(nodes, edges, weights, 0.2, "l1", 1.0, 20)
    more = networked.primal_dual(nodes + extra, longer, padded, 0.2, "l1", 1.0, 20)
    np.testing.assert_array_equal(more[0][:, :8], plain[0])
    np.testing.assert_array_equal(more[1][:, :-2], plain[1])
    np.testing.assert_array_equal(more[1][:, -2:], 0.0)
    least = np.linalg.pinv(extra[0].x) @ extra[0].y
    np.testing.assert_allclose(more[0][:, 8], np.tile(least, (20, 1)), atol=1e-12)
    np.testing.assert_array_equal(more[0][:, 9], 0.0)


def test_masks():
    nodes, edges, weights, _ = small_problem()
    problem = (nodes, edges, weights, 0.2, "nlasso", 1.0, 30)
    everyone = np.ones((30, 8), bool)
    np.testing.assert_array_equal(
        networked.primal_dual(*problem)[0], networked.primal_dual(*problem, masks=everyone)[0]
    )
    masks = np.random.default_rng(13).uniform(size=(30, 8)) < 0.6
    w, u = networked.primal_dual(*problem, masks=masks)
    for index in range(1, 30):
        still = ~masks[index]
        np.testing.assert_array_equal(w[index][still], w[index - 1][still])
        for e, (head, tail) in enumerate(edges):
            if still[head] or still[tail]:
                np.testing.assert_array_equal(u[index, e], u[index - 1, e])
    # A round in which only one side of the graph acts is a round on that side.
    one = np.zeros((1, 8), bool)
    one[0, :4] = True
    after = networked.primal_dual(
        nodes, edges, weights, 0.2, "nlasso", 1.0, 1, masks=one, start=(w[-1], u[-1])
    )
    full = networked.primal_dual(nodes, edges, weights, 0.2, "nlasso", 1.0, 1, start=(w[-1], u[-1]))
    inner = [e for e, (head, tail) in enumerate(edges) if head < 4 and tail < 4]
    np.testing.assert_array_equal(after[0][0, :4], full[0][0, :4])
    np.testing.assert_array_equal(after[1][0, inner], full[1][0, inner])


# --- comparison methods -------------------------------------------------------------------------


def test_least_squares_are_pooled_and_of_minimum_norm():
    nodes, _, _, labels = small_problem(m=2)
    for i, model in enumerate(networked.local_models(nodes)):
        expected = np.linalg.pinv(nodes[i].x) @ nodes[i].y if nodes[i].accessible else np.zeros(3)
        np.testing.assert_allclose(model, expected, atol=1e-12)
    oracle = networked.cluster_oracle(nodes, labels)
    for label in (0, 1):
        members = [node for node, other in zip(nodes, labels, strict=True) if other == label]
        total = sum(networked.squared_gradient(node, oracle[4 * label]) for node in members)
        np.testing.assert_allclose(total, 0.0, atol=1e-12)
        np.testing.assert_array_equal(oracle[4 * label : 4 * label + 4], [oracle[4 * label]] * 4)
    # The weights of the losses count.
    nodes[0].scale = 50.0
    pooled = networked.pooled_model(nodes)
    total = sum(networked.squared_gradient(node, pooled) for node in nodes)
    np.testing.assert_allclose(total, 0.0, atol=1e-11)


def test_fedavg_finds_the_pooled_model():
    nodes, _, _, _ = small_problem(m=6)
    pooled = networked.pooled_model(nodes)
    trajectory = networked.fedavg(nodes, 0.1, 400)
    np.testing.assert_allclose(trajectory[-1], pooled, atol=1e-9)
    first = np.mean([2.0 * networked.cross_moment(n) for n in nodes if n.accessible], axis=0)
    np.testing.assert_allclose(trajectory[0], 0.1 * first, atol=1e-14)
    biased = networked.fedavg(nodes, 0.1, 400, local_steps=5)[-1]
    assert 1e-3 < np.linalg.norm(biased - pooled) < 1.0
    taus = np.linspace(0.01, 0.02, 8)
    averaged = networked.fedavg_prox(nodes, taus, 2000)[-1]
    total = sum(
        (networked.prox_squared(node, averaged, tau) - averaged) * node.accessible
        for node, tau in zip(nodes, taus, strict=True)
    )
    np.testing.assert_allclose(total, 0.0, atol=1e-12)


def test_ifca():
    nodes, _, _, labels = small_problem(m=6)
    thetas = np.array([[0.5, 0.1, 0.2], [-0.5, 0.0, -0.3], [9.0, 9.0, 9.0]])
    out = networked.ifca(nodes, thetas, 0.4, 300)
    expected = np.where([node.accessible for node in nodes], labels, -1)
    np.testing.assert_array_equal(out["assignments"], np.tile(expected, (301, 1)))
    np.testing.assert_array_equal(out["clusters"], 2)
    np.testing.assert_array_equal(out["thetas"][:, 2], np.tile(thetas[2], (300, 1)))
    oracle = networked.cluster_oracle(nodes, labels)
    np.testing.assert_allclose(out["thetas"][-1, :2], oracle[[0, 4]], atol=1e-9)
    total = sum(networked.squared_gradient(node, thetas[0]) for node in nodes[:4])
    np.testing.assert_allclose(out["thetas"][0, 0], thetas[0] - 0.4 / 8 * total, atol=1e-14)


# --- critical strengths and certificates --------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize(("penalty", "dual_norm"), [("nlasso", "l2"), ("l1", "linf")])
def test_critical_lambda_of_a_star(penalty, dual_norm):
    rng = np.random.default_rng(14)
    edges, weights = networked.star(6)
    weights = rng.uniform(0.5, 2.0, 5)
    nodes = networked.draw_nodes(rng, rng.standard_normal((6, 2)), 5, 0.0)
    critical = networked.critical_lambda_star(edges, weights, nodes, dual_norm)
    assert networked.critical_lambda_tree(edges, weights, nodes, dual_norm) == pytest.approx(
        critical, rel=1e-9
    )
    spread = {}
    for factor in (0.98, 1.02):
        w, _ = networked.primal_dual(
            nodes, edges, weights, factor * critical, penalty, 1.0, 1500, record=False
        )
        spread[factor] = np.linalg.norm(w - w.mean(0), axis=1).max()
    assert spread[1.02] < 1e-9
    assert spread[0.98] > 1e-3


def test_critical_lambda_of_a_tree():
    rng = np.random.default_rng(15)
    edges = [(0, 1), (1, 2), (1, 3), (3, 4)]
    weights = rng.uniform(0.5, 2.0, 4)
    nodes = networked.draw_nodes(rng, rng.standard_normal((5, 2)), 5, 0.0)
    critical = networked.critical_lambda_tree(edges, weights, nodes)
    for factor, low, high in ((0.98, 1e-4, 10.0), (1.02, 0.0, 1e-9)):
        w, _ = networked.primal_dual(
            nodes, edges, weights, factor * critical, "nlasso", 1.0, 1500, record=False
        )
        assert low <= np.linalg.norm(w - w.mean(0), axis=1).max() <= high


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


def test_certificate_is_kept():
    rng = np.random.default_rng(16)
    edges, weights, labels = networked.draw_sbm(rng, (5, 5), 1.0, 0.04)
    truths = np.where(labels[:, None] == 0, 2.0, -2.0) * np.ones(2)
    nodes = networked.draw_nodes(rng, truths, 20, 0.1)
    lam = 0.3
    clusters = networked.certificate(nodes, edges, weights, labels, lam)
    assert all(cluster.well_connected and cluster.boundary > 0.0 for cluster in clusters)
    w, _ = networked.primal_dual(nodes, edges, weights, lam, "nlasso", 1.0, 800, record=False)
    oracle = networked.cluster_oracle(nodes, labels)
    for cluster in clusters:
        members = labels == cluster.label
        assert np.ptp(w[members], axis=0).max() < 1e-10
        deviation = np.linalg.norm(w[members] - oracle[members], axis=1).max()
        assert 0.3 * cluster.bound < deviation <= cluster.bound + 1e-10


# --- drawing and metrics ------------------------------------------------------------------------


def test_drawing():
    rng = np.random.default_rng(17)
    edges, weights, labels = networked.draw_sbm(rng, (30, 20), 0.5, 0.1)
    assert len(weights) == len(edges)
    assert np.all(edges[:, 0] < edges[:, 1])
    assert len({tuple(edge) for edge in edges.tolist()}) == len(edges)
    same = labels[edges[:, 0]] == labels[edges[:, 1]]
    assert abs(same.sum() - 0.5 * (435 + 190)) < 5.0 * math.sqrt(625 * 0.25)
    assert abs((~same).sum() - 0.1 * 600) < 5.0 * math.sqrt(600 * 0.09)
    assert networked.draw_accessible(rng, 50, 0.2).sum() == 10

    edges, weights, labels = networked.chain((3, 3), 0.1)
    np.testing.assert_array_equal(edges[:, 1] - edges[:, 0], 1)
    np.testing.assert_array_equal(weights, [1.0, 1.0, 0.1, 1.0, 1.0])
    edges, weights = networked.star(4)
    np.testing.assert_array_equal(edges, [[0, 1], [0, 2], [0, 3]])
    np.testing.assert_array_equal(networked.degrees(4, edges, weights), [3, 1, 1, 1])


def test_metrics():
    rng = np.random.default_rng(18)
    truths = rng.standard_normal((6, 2))
    nodes = networked.draw_nodes(rng, truths, 5, 0.0, networked.draw_accessible(rng, 6, 0.5))
    assert sum(node.accessible for node in nodes) == 3
    assert networked.model_error(truths, truths) == 0.0
    assert networked.label_error(truths, nodes) == pytest.approx(0.0, abs=1e-28)
    assert networked.model_error(truths + np.array([3.0, 4.0]), truths) == pytest.approx(25.0)
    expected = np.mean([np.mean(node.y**2) for node in nodes])
    assert networked.label_error(np.zeros((6, 2)), nodes) == pytest.approx(expected)
