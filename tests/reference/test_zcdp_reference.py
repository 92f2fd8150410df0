"""Checks of the reference of private networked federated learning, by independent means."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import linprog, minimize

from tests.reference import zcdp

# Nothing in the library can change the reference.
pytestmark = pytest.mark.thorough

NAMES = sorted(zcdp.LOSSES)
CLIENTS, SAMPLES, DIM = 6, 5, 3
EDGES = np.array([(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5)])
COUNTS = np.array([5, 3, 4, 1, 5, 2])
DELTA = 1e-5


def data(loss="squared", seed=0):
    """Ragged clients; the padding is not a number, so that its use is seen."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((CLIENTS, SAMPLES, DIM))
    y = x @ np.array([1.0, -2.0, 0.5]) + 0.5 * rng.standard_normal((CLIENTS, SAMPLES))
    if loss == "logistic":
        y = np.sign(y)
    for k in range(CLIENTS):
        x[k, COUNTS[k] :] = y[k, COUNTS[k] :] = np.nan
    return x, y


def noisy(rounds, seed=1, clients=CLIENTS, dim=DIM):
    """Standard deviations that differ by round and client, and normals."""
    rng = np.random.default_rng(seed)
    return rng.uniform(0.01, 0.5, (rounds, clients)), rng.standard_normal((rounds, clients, dim))


def silent(rounds, clients=CLIENTS, dim=DIM):
    return np.zeros((rounds, clients)), np.zeros((rounds, clients, dim))


def steps(first, power, rounds):
    return first / np.arange(1, rounds + 1) ** power


def hessians(x, counts, l2, clients):
    out = []
    for k in range(clients):
        rows = x[k, : counts[k]]
        out.append(2.0 / counts[k] * rows.T @ rows + 2.0 * l2 / clients * np.eye(x.shape[-1]))
    return np.array(out)


def largest_step(curved, rho):
    """The step at which the stability matrix, 4 / eta less another one, is singular."""
    rest = -zcdp.stability_matrix(EDGES, CLIENTS, curved, rho, np.inf)
    largest = np.linalg.eigvalsh(rest)[-1]
    assert largest > 0.0
    return 4.0 / largest


def ridge_optimum(x, y, counts, l2):
    """The minimiser of the sum of the f_k, in closed form."""
    matrix, right = l2 * np.eye(x.shape[-1]), np.zeros(x.shape[-1])
    for k in range(len(x)):
        x_k, y_k = x[k, : counts[k]], y[k, : counts[k]]
        matrix += x_k.T @ x_k / counts[k]
        right += x_k.T @ y_k / counts[k]
    return np.linalg.solve(matrix, right)


# --- losses and clipping ------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*NAMES, "huber 0.3"])
def test_slopes(name):
    pair = zcdp.huber(0.3) if name == "huber 0.3" else zcdp.LOSSES[name]
    value, slope = pair
    for p in (-3.0, -0.45, 0.2, 0.9, 40.0):
        for y in (-1.0, 1.0):
            numerical = (value(p + 1e-6, y) - value(p - 1e-6, y)) / 2e-6
            assert slope(p, y) == pytest.approx(numerical, rel=1e-7, abs=2e-8)


def test_values_of_the_losses():
    assert zcdp.squared_value(3.0, 1.0) == 4.0
    assert zcdp.absolute_value(-3.0, 1.0) == 4.0
    assert zcdp.absolute_slope(1.0, 1.0) == 0.0
    assert zcdp.huber_value(3.0, 1.0, 0.5) == 0.5 * (2.0 - 0.25)
    assert zcdp.huber_value(1.25, 1.0, 0.5) == 0.5 * 0.25**2
    assert zcdp.logistic_value(2.0, -1.0) == pytest.approx(math.log(1.0 + math.exp(2.0)))


@pytest.mark.parametrize("name", NAMES)
def test_objective_and_its_gradient(name):
    x, y = data(name)
    w, direction = np.array([0.3, -1.0, 0.7]), np.array([1.0, 0.5, -0.2])
    inside = [(x[k, j], y[k, j]) for k in range(CLIENTS) for j in range(COUNTS[k])]
    shares = [1.0 / COUNTS[k] for k in range(CLIENTS) for _ in range(COUNTS[k])]
    value = zcdp.LOSSES[name][0]
    expected = sum(s * value(a @ w, b) for s, (a, b) in zip(shares, inside, strict=True))
    expected += 0.4 * np.abs(w).sum() + 0.3 * (w @ w)
    assert zcdp.objective(name, x, y, COUNTS, w, 0.4, 0.3) == pytest.approx(expected, rel=1e-14)

    def along(t):
        return zcdp.objective(name, x, y, COUNTS, w + t * direction, 0.4, 0.3)

    total = 0.0
    for k in range(CLIENTS):
        own = zcdp.own(x, y, COUNTS, k)
        total += zcdp.subgradient(name, *own, w, None, 0.4, 0.3, CLIENTS) @ direction
    assert total == pytest.approx((along(1e-6) - along(-1e-6)) / 2e-6, rel=1e-8)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("clip", [0.05, 0.5, 2.0, 100.0])
def test_a_clipped_gradient_is_that_of_the_clipped_value(name, clip):
    rng = np.random.default_rng(3)
    cut = 0
    for _ in range(20):
        x, w, direction = rng.standard_normal((3, DIM))
        y = rng.choice([-1.0, 1.0]) if name == "logistic" else rng.standard_normal()
        plain = zcdp.sample_gradient(name, x, y, w)
        clipped = zcdp.sample_gradient(name, x, y, w, clip)
        norm = np.linalg.norm(plain)
        assert np.linalg.norm(clipped) == pytest.approx(min(norm, clip), rel=1e-14)
        np.testing.assert_allclose(clipped * norm, plain * min(norm, clip), rtol=1e-13)
        cut += norm > clip

        def along(t, x=x, y=y, w=w, direction=direction):
            return zcdp.clipped_value(name, x, y, w + t * direction, clip)

        slope = (along(1e-6) - along(-1e-6)) / 2e-6
        assert clipped @ direction == pytest.approx(slope, abs=1e-8)
        if norm <= clip:
            assert along(0.0) == pytest.approx(zcdp.LOSSES[name][0](x @ w, y), rel=1e-14)
    assert cut > 0 or clip > 1.0
    assert cut < 20 or clip < 1.0


def test_what_clipping_does_to_the_absolute_and_the_squared_loss():
    x, w = np.array([3.0, 4.0, 0.0]), np.array([1.0, 1.0, 1.0])
    weighted = min(1.0, 2.0 / 5.0) * np.sign(7.0 - 1.0) * x
    np.testing.assert_allclose(zcdp.sample_gradient("absolute", x, 1.0, w, 2.0), weighted)
    # The threshold of the squared loss is 2 / (2 * 5), and the Huber loss is half as large.
    for residual in (-3.0, -0.1, 0.15, 0.25, 6.0):
        slope = 2.0 * zcdp.huber_slope(residual, 0.0, 0.2)
        found = zcdp.sample_gradient("squared", x, 7.0 - residual, w, 2.0)
        np.testing.assert_allclose(found, slope * x, rtol=1e-14)


@pytest.mark.parametrize("name", ["absolute", "squared"])
def test_a_sample_without_gradient_survives_the_clip(name):
    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(zcdp.sample_gradient(name, x, 6.0, np.ones(3), 0.1), np.zeros(3))
    nothing = np.zeros(3)
    np.testing.assert_array_equal(zcdp.sample_gradient(name, nothing, 6.0, x, 0.1), nothing)


def test_the_regulariser_is_not_clipped():
    x, y = np.array([[1e-9, 0.0, 0.0]]), np.array([0.0])
    w = np.array([3.0, 0.0, -2.0])
    found = zcdp.subgradient("squared", x, y, w, 1e-3, 5.0, 7.0, 4)
    expected = (5.0 * np.array([1.0, 0.0, -1.0]) + 14.0 * w) / 4.0
    np.testing.assert_allclose(found, expected, atol=1e-15)


# --- graphs and data ----------------------------------------------------------------------------


def test_metropolis_weights():
    found = zcdp.metropolis(EDGES, CLIENTS)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(found.sum(0), 1.0, rtol=0, atol=1e-15)
    assert found.min() >= 0.0
    degree = zcdp.degrees(EDGES, CLIENTS)
    np.testing.assert_array_equal(degree, [3, 2, 3, 2, 2, 2])
    assert found[0, 1] == 1.0 / 4.0
    assert found[3, 4] == 1.0 / 3.0
    assert found[1, 4] == 0.0
    np.testing.assert_array_equal(np.diag(zcdp.laplacian(EDGES, CLIENTS)), degree)


def test_a_drawn_problem():
    drawn = zcdp.draw(np.random.default_rng(0))
    edges = drawn["edges"]
    assert edges.shape == (75, 2)
    assert len({tuple(edge) for edge in edges.tolist()}) == 75
    assert np.all(edges[:, 0] < edges[:, 1])
    assert zcdp.connected(edges, 50)
    assert not zcdp.connected(edges[(edges != 7).all(1)], 50)
    assert zcdp.degrees(edges, 50).mean() == 3.0
    assert drawn["x"].shape == (50, 50, 8)
    residual = drawn["y"] - drawn["x"] @ drawn["truth"]
    assert residual.var() == pytest.approx(0.1, rel=0.1)
    assert drawn["x"].var() == pytest.approx(1.0, rel=0.05)


def test_graphs_are_uniform_over_the_connected_ones():
    rng, seen = np.random.default_rng(0), {}
    for _ in range(3200):
        key = tuple(map(tuple, zcdp.draw_graph(rng, 4, 3).tolist()))
        seen[key] = seen.get(key, 0) + 1
    assert len(seen) == 16  # 4^2 trees
    deviation = sum((count - 200) ** 2 / 200 for count in seen.values())
    assert deviation < 37.7  # chi-squared, 15 degrees of freedom, 0.999


def test_the_error_is_a_sum_over_clients():
    optimum = np.array([3.0, 4.0, 0.0])
    assert zcdp.error(np.zeros((50, 3)), optimum) == 50.0
    w = np.broadcast_to(optimum, (2, 7, 3)).copy()
    w[1, 2] += [0.0, 5.0, 0.0]
    np.testing.assert_allclose(zcdp.error(w, optimum), [0.0, 1.0], atol=1e-15)


# --- zCDP-NFL -----------------------------------------------------------------------------------


@pytest.mark.parametrize("clip", [None, 0.7])
@pytest.mark.parametrize("name", NAMES)
def test_the_loop_is_the_matrix_form(name, clip):
    rounds = 40
    x, y = data(name)
    sigma, noise = noisy(rounds)
    eta = steps(0.4, 0.5, rounds)
    arguments = (name, x, y, COUNTS, EDGES, eta, 0.6, sigma, noise, clip, 0.2, 0.3)
    loop, matrix = zcdp.zcdp_nfl(*arguments), zcdp.matrix_form(*arguments)
    for one, other in zip(loop, matrix, strict=True):
        assert one.shape == (rounds, CLIENTS, DIM)
        assert np.abs(one).max() < 30.0
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-13)
    last = zcdp.matrix_form(*arguments, keep=False)
    np.testing.assert_array_equal(last[2], matrix[2][-1])
    np.testing.assert_allclose(
        loop[1] - loop[0], sigma[..., None] * noise, rtol=0, atol=1e-14 * np.abs(loop[1]).max()
    )


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_the_duals_sum_to_zero(scale):
    rounds = 60
    x, y = data("absolute")
    sigma, noise = noisy(rounds)
    run = zcdp.zcdp_nfl(
        "absolute", x, y, COUNTS, EDGES, steps(1.0, 0.5, rounds), 1.5, scale * sigma, noise, 0.5
    )
    _, v, gamma = run
    size = np.abs(gamma).max()
    assert size > 1.0 - 0.9 * (scale == 0.0)
    assert np.abs(gamma.sum(1)).max() <= 1e-14 * rounds * max(size, 1.0)
    integral = 1.5 * np.einsum("kl,tlp->tkp", zcdp.laplacian(EDGES, CLIENTS), v.cumsum(0))
    np.testing.assert_allclose(gamma, integral, rtol=0, atol=1e-13 * rounds)


def test_the_primal_step_is_a_minimiser_and_a_gradient_step_on_average():
    rounds, rho = 12, 0.7
    x, y = data("absolute")
    sigma, noise = noisy(rounds)
    eta = steps(0.8, 1.0, rounds)
    w, v, gamma = zcdp.zcdp_nfl(
        "absolute", x, y, COUNTS, EDGES, eta, rho, sigma, noise, 0.9, 0.2, 0.1
    )
    neighbours = zcdp.neighbour_lists(EDGES, CLIENTS)
    for t in (5, 11):
        moved = np.zeros(DIM)
        pushed = np.zeros(DIM)
        for k in range(CLIENTS):
            before, old = v[t - 1], v[t - 1, k]
            own = zcdp.own(x, y, COUNTS, k)
            g = zcdp.subgradient("absolute", *own, old, 0.9, 0.2, 0.1, CLIENTS)

            def model(z, k=k, t=t, before=before, old=old, g=g):
                value = g @ (z - old) + ((z - old) ** 2).sum() / (2.0 * eta[t])
                value += z @ gamma[t - 1, k]
                for other in neighbours[k]:
                    value += rho * ((z - 0.5 * (old + before[other])) ** 2).sum()
                return value

            found = minimize(model, np.zeros(DIM), method="BFGS", options={"gtol": 1e-9}).x
            np.testing.assert_allclose(w[t, k], found, rtol=0, atol=1e-6)
            # A quadratic function: differences give its gradient without truncation.
            for axis in np.eye(DIM):
                slope = (model(w[t, k] + axis) - model(w[t, k] - axis)) / 2.0
                assert slope == pytest.approx(0.0, abs=1e-13)
            degree = len(neighbours[k])
            inverse = 1.0 / eta[t] + 2.0 * rho * degree
            equal = old / eta[t] - gamma[t - 1, k] - g
            for other in neighbours[k]:
                equal = equal + rho * (old + before[other])
            np.testing.assert_allclose(w[t, k], equal / inverse, rtol=0, atol=1e-14)
            moved += inverse * (w[t, k] - old)
            pushed += g
        np.testing.assert_allclose(moved, -pushed, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("share", "rho"), [(0.5, 0.1), (0.9, 0.3), (0.2, 1.0)])
def test_ridge_ends_at_the_optimum_with_the_gradients_as_duals(share, rho):
    rounds = 3000
    x, y = data()
    eta = share * largest_step(hessians(x, COUNTS, 0.5, CLIENTS), rho)
    w, _, gamma = zcdp.matrix_form(
        "squared",
        x,
        y,
        COUNTS,
        EDGES,
        np.full(rounds, eta),
        rho,
        *silent(rounds),
        None,
        0.0,
        0.5,
        keep=False,
    )
    optimum = ridge_optimum(x, y, COUNTS, 0.5)
    np.testing.assert_allclose(w, np.broadcast_to(optimum, w.shape), rtol=0, atol=1e-11)
    for k in range(CLIENTS):
        own = zcdp.own(x, y, COUNTS, k)
        slope = zcdp.subgradient("squared", *own, optimum, None, 0.0, 0.5, CLIENTS)
        np.testing.assert_allclose(gamma[k], -slope, rtol=0, atol=1e-10)


def recursion(x, counts, rho, eta, l2):
    """The linear map of (w, gamma) without noise, labels being zero."""
    graph = np.kron(zcdp.laplacian(EDGES, CLIENTS), np.eye(DIM))
    step = 1.0 / (1.0 / eta + 2.0 * rho * zcdp.degrees(EDGES, CLIENTS))
    step = np.kron(np.diag(step), np.eye(DIM))
    curved = np.zeros_like(graph)
    for k, block in enumerate(hessians(x, counts, l2, CLIENTS)):
        curved[k * DIM : (k + 1) * DIM, k * DIM : (k + 1) * DIM] = block
    eye = np.eye(CLIENTS * DIM)
    primal = np.hstack([eye - step @ (curved + rho * graph), -step])
    return np.vstack([primal, rho * graph @ primal + np.hstack([0.0 * eye, eye])])


@pytest.mark.kin(1)
@pytest.mark.parametrize("rho", [0.02, 0.2, 0.6])
def test_the_limit_of_stability_is_tight(rho):
    x, y = data()
    curved = hessians(x, COUNTS, 0.5, CLIENTS)
    limit = largest_step(curved, rho)
    # The matrix (w, gamma) also has the eigenvalue 1, DIM times, for duals with another sum.
    below = np.sort(np.abs(np.linalg.eigvals(recursion(x, COUNTS, rho, 0.999 * limit, 0.5))))
    np.testing.assert_allclose(below[-DIM:], 1.0, rtol=0, atol=1e-7)
    assert below[-DIM - 1] < 1.0 - 1e-6
    at = np.linalg.eigvals(recursion(x, COUNTS, rho, limit, 0.5))
    assert np.abs(at + 1.0).min() < 1e-9
    for factor in (1.001, 1.5, 3.0):
        above = np.linalg.eigvals(recursion(x, COUNTS, rho, factor * limit, 0.5))
        assert np.abs(above).max() > 1.0 + 1e-5

    optimum = ridge_optimum(x, y, COUNTS, 0.5)

    def errors(factor, rounds):
        run = zcdp.zcdp_nfl(
            "squared",
            x,
            y,
            COUNTS,
            EDGES,
            np.full(rounds, factor * limit),
            rho,
            *silent(rounds),
            None,
            0.0,
            0.5,
        )
        return zcdp.error(run[0], optimum)

    calm, wild = errors(0.98, 1200), errors(1.02, 1200)
    assert calm[-1] < 1e-3 * calm[:100].max()
    assert calm[-1] < 0.1 * calm[600]
    assert wild[-1] > 1e6 * wild[300]


def test_the_condition_per_client_is_sufficient():
    x, _ = data()
    curved = hessians(x, COUNTS, 0.5, CLIENTS)
    degree = zcdp.degrees(EDGES, CLIENTS)
    top = np.array([np.linalg.eigvalsh(block)[-1] for block in curved])
    for rho in (0.01, 0.3, 1.0):
        eta = 0.9999 / (0.5 * top - 0.5 * rho * degree).max()
        smallest = np.linalg.eigvalsh(zcdp.stability_matrix(EDGES, CLIENTS, curved, rho, eta))[0]
        assert smallest > 0.0


# --- who takes part -----------------------------------------------------------------------------


def masks_of(rounds, seed=4, share=0.6):
    return np.random.default_rng(seed).uniform(size=(rounds, CLIENTS)) < share


def test_everyone_is_no_mask():
    x, y = data()
    sigma, noise = noisy(9)
    everyone = np.ones((9, CLIENTS), bool)
    nfl = ("squared", x, y, COUNTS, EDGES, steps(0.3, 1.0, 9), 0.4, sigma, noise, 1.0, 0.1, 0.2)
    grad = ("squared", x, y, COUNTS, EDGES, steps(0.3, 1.0, 9), sigma, noise, 1.0, 0.1, 0.2)
    admm = (x, y, COUNTS, EDGES, 0.4, sigma, noise, 1.0, 0.5)
    for method, arguments in ((zcdp.zcdp_nfl, nfl), (zcdp.zcdp_grad, grad), (zcdp.p_admm, admm)):
        for one, other in zip(method(*arguments), method(*arguments, masks=everyone), strict=True):
            np.testing.assert_array_equal(one, other)


def test_an_absent_client_keeps_everything():
    rounds = 30
    x, y = data()
    sigma, noise = noisy(rounds)
    masks = masks_of(rounds)
    masks[7] = False
    noise = np.where(masks[..., None], noise, np.nan)  # not looked at
    eta = steps(0.3, 0.5, rounds)
    nfl = zcdp.zcdp_nfl("squared", x, y, COUNTS, EDGES, eta, 0.4, sigma, noise, 1.0, masks=masks)
    grad = zcdp.zcdp_grad("squared", x, y, COUNTS, EDGES, eta, sigma, noise, 1.0, masks=masks)
    admm = zcdp.p_admm(x, y, COUNTS, EDGES, 0.4, sigma, noise, 1.0, masks=masks)
    for run in (nfl, grad, admm):
        for part in run:
            assert np.all(np.isfinite(part))
            moved = np.any(part[1:] != part[:-1], axis=-1)
            assert not np.any(moved & ~masks[1:])
        assert np.all(np.any(run[1][1:] != run[1][:-1], axis=-1) == masks[1:])
    for gamma in (nfl[2], admm[2]):
        assert np.abs(gamma.sum(1)).max() <= 1e-13 * rounds * np.abs(gamma).max()


def test_the_schedules_go_by_a_clients_own_releases():
    rounds = 20
    x, y = data()
    sigma, noise = noisy(rounds)
    masks = masks_of(rounds)
    asked = []

    def own_sigma(client, count):
        asked.append((client, count))
        return sigma[count - 1, client]

    eta = steps(0.3, 1.0, rounds)
    arguments = ("squared", x, y, COUNTS, EDGES, eta, 0.4)
    table = zcdp.zcdp_nfl(*arguments, sigma, noise, masks=masks)
    function = zcdp.zcdp_nfl(*arguments, own_sigma, noise, masks=masks)
    for one, other in zip(table, function, strict=True):
        np.testing.assert_array_equal(one, other)
    for k in range(CLIENTS):
        counts = [count for client, count in asked if client == k]
        assert counts == list(range(1, masks[:, k].sum() + 1))
    # The noise that was added has the scale of the client's count, and the normals of the round.
    releases = masks.cumsum(0)
    w, v, _ = table
    for t, k in np.argwhere(masks):
        added = sigma[releases[t, k] - 1, k] * noise[t, k]
        np.testing.assert_allclose(v[t, k] - w[t, k], added, rtol=0, atol=1e-13)


def test_three_clients_on_a_path_by_hand():
    """One sample x = 1 each, loss (w - y)^2, and clients {0, 1}, {1, 2}, {0, 2}, {0, 1}."""
    x, y = np.ones((3, 1, 1)), np.array([[1.0], [2.0], [4.0]])
    masks = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]], bool)
    eta, rho = np.array([0.5, 0.25, 0.125, 0.1]), 1.0
    path = np.array([(0, 1), (1, 2)])
    _, v, gamma = zcdp.zcdp_nfl(
        "squared", x, y, None, path, eta, rho, *silent(4, 3, 1), masks=masks
    )
    # Round 1: a_0 = 1/4, a_1 = 1/6. Edge (0, 1) is on.
    a, b = 2.0 / 4.0, 4.0 / 6.0
    duals = [a - b, b - a, 0.0]
    np.testing.assert_allclose(v[0, :, 0], [a, b, 0.0], atol=1e-15)
    np.testing.assert_allclose(gamma[0, :, 0], duals, atol=1e-15)
    # Round 2: client 1 for the second time, a_1 = 1/8; client 2 for the first, a_2 = 1/4.
    b2 = b - (2.0 * (b - 2.0) + duals[1] + (b - a) + (b - 0.0)) / 8.0
    c = 0.0 - (2.0 * (0.0 - 4.0) + duals[2] + (0.0 - b)) / 4.0
    duals = [duals[0], duals[1] + b2 - c, duals[2] + c - b2]
    np.testing.assert_allclose(v[1, :, 0], [a, b2, c], atol=1e-15)
    np.testing.assert_allclose(gamma[1, :, 0], duals, atol=1e-15)
    # Round 3: clients 0 and 2, no edge between them; both for the second time, a = 1/6.
    a2 = a - (2.0 * (a - 1.0) + duals[0] + (a - b2)) / 6.0
    c2 = c - (2.0 * (c - 4.0) + duals[2] + (c - b2)) / 6.0
    np.testing.assert_allclose(v[2, :, 0], [a2, b2, c2], atol=1e-15)
    np.testing.assert_allclose(gamma[2, :, 0], duals, atol=1e-15)
    # Round 4: clients 0 and 1 for the third time, a_0 = 1/10, a_1 = 1/12.
    a3 = a2 - (2.0 * (a2 - 1.0) + duals[0] + (a2 - b2)) / 10.0
    b3 = b2 - (2.0 * (b2 - 2.0) + duals[1] + (b2 - a2) + (b2 - c2)) / 12.0
    duals = [duals[0] + a3 - b3, duals[1] + b3 - a3, duals[2]]
    np.testing.assert_allclose(v[3, :, 0], [a3, b3, c2], atol=1e-15)
    np.testing.assert_allclose(gamma[3, :, 0], duals, atol=1e-15)


def test_ridge_ends_at_the_optimum_whoever_takes_part():
    rounds = 2500
    x, y = data()
    optimum = ridge_optimum(x, y, COUNTS, 0.5)
    masks = masks_of(rounds)
    still = silent(rounds)
    run = zcdp.zcdp_nfl(
        "squared",
        x,
        y,
        COUNTS,
        EDGES,
        np.full(rounds, 0.2),
        0.5,
        *still,
        l2=0.5,
        masks=masks,
    )
    assert zcdp.error(run[0][-1], optimum) < 1e-14
    assert 0.5 < masks.mean() < 0.7


# --- the comparison methods ---------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_subgradient_method_by_matrices(name):
    rounds = 25
    x, y = data(name)
    sigma, noise = noisy(rounds)
    eta = steps(0.4, 0.5, rounds)
    w, v = zcdp.zcdp_grad(name, x, y, COUNTS, EDGES, eta, sigma, noise, 0.8, 0.2, 0.3)
    mixing = zcdp.metropolis(EDGES, CLIENTS)
    now = np.zeros((CLIENTS, DIM))
    for t in range(rounds):
        g = zcdp.stacked_subgradient(name, x, y, COUNTS, now, 0.8, 0.2, 0.3)
        moved = mixing @ now - eta[t] * g
        # The weights keep the mean, so that the mean of the clients makes a gradient step.
        mean = now.mean(0) - eta[t] * g.mean(0)
        np.testing.assert_allclose(w[t].mean(0), mean, rtol=0, atol=1e-13)
        now = moved + sigma[t][:, None] * noise[t]
        np.testing.assert_allclose(w[t], moved, rtol=0, atol=1e-13)
        np.testing.assert_allclose(v[t], now, rtol=0, atol=1e-13)


def test_the_subgradient_method_with_masks_by_hand():
    x, y = np.ones((3, 1, 1)), np.array([[1.0], [2.0], [4.0]])
    masks = np.array([[1, 1, 0], [0, 1, 1]], bool)
    path = np.array([(0, 1), (1, 2)])
    eta = np.array([0.1, 0.05])
    w, _ = zcdp.zcdp_grad("squared", x, y, None, path, eta, *silent(2, 3, 1), masks=masks)
    # All weights of edges are 1/3.
    np.testing.assert_allclose(w[0, :, 0], [0.2, 0.4, 0.0], atol=1e-15)
    second = (0.2 + 0.4 + 0.0) / 3.0 - 0.05 * 2.0 * (0.4 - 2.0)
    third = 2.0 / 3.0 * 0.0 + 0.4 / 3.0 - 0.1 * 2.0 * (0.0 - 4.0)
    np.testing.assert_allclose(w[1, :, 0], [0.2, second, third], atol=1e-15)


@pytest.mark.parametrize("clip", [None, 0.3, 2.0, 1e6])
def test_a_step_of_p_admm_is_a_minimiser(clip):
    rounds, rho, l2 = 6, 0.4, 0.8
    x, y = data()
    sigma, noise = noisy(rounds)
    w, v, gamma = zcdp.p_admm(x, y, COUNTS, EDGES, rho, sigma, noise, clip, l2)
    neighbours = zcdp.neighbour_lists(EDGES, CLIENTS)
    for t in (1, 5):
        before = v[t - 1]
        for k in range(CLIENTS):
            x_k, y_k = zcdp.own(x, y, COUNTS, k)

            def whole(z, k=k, t=t, before=before, x_k=x_k, y_k=y_k):
                value = l2 * (z @ z) / CLIENTS + z @ gamma[t - 1, k]
                for a, b in zip(x_k, y_k, strict=True):
                    if clip is None:
                        value += (a @ z - b) ** 2 / len(y_k)
                    else:
                        value += zcdp.clipped_value("squared", a, b, z, clip) / len(y_k)
                for other in neighbours[k]:
                    value += rho * ((z - 0.5 * (before[k] + before[other])) ** 2).sum()
                return value

            slope = zcdp.subgradient("squared", x_k, y_k, w[t, k], clip, 0.0, l2, CLIENTS)
            slope = slope + gamma[t - 1, k]
            for other in neighbours[k]:
                slope = slope + 2.0 * rho * (w[t, k] - 0.5 * (before[k] + before[other]))
            np.testing.assert_allclose(slope, 0.0, rtol=0, atol=1e-11)
            found = minimize(whole, np.zeros(DIM), method="BFGS", options={"gtol": 1e-8}).x
            np.testing.assert_allclose(w[t, k], found, rtol=0, atol=1e-5)
            assert whole(w[t, k]) <= whole(found) + 1e-14
    assert np.abs(gamma.sum(1)).max() <= 1e-13


def test_a_large_clip_changes_nothing_in_p_admm():
    x, y = data()
    arguments = (x, y, COUNTS, EDGES, 0.4, *noisy(8))
    plain, clipped = zcdp.p_admm(*arguments), zcdp.p_admm(*arguments, clip=1e6)
    for one, other in zip(plain, clipped, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-11)
    assert np.abs(zcdp.p_admm(*arguments, clip=0.3)[0] - plain[0]).max() > 0.1


def test_p_admm_ends_at_the_optimum():
    x, y = data()
    w, _, gamma = zcdp.p_admm(x, y, COUNTS, EDGES, 0.3, *silent(300), l2=0.5)
    optimum = ridge_optimum(x, y, COUNTS, 0.5)
    assert zcdp.error(w[-1], optimum) < 1e-20
    own = zcdp.own(x, y, COUNTS, 2)
    slope = zcdp.subgradient("squared", *own, optimum, None, 0.0, 0.5, CLIENTS)
    np.testing.assert_allclose(gamma[-1, 2], -slope, rtol=0, atol=1e-9)


# --- sensitivity --------------------------------------------------------------------------------


def first_models(x, y, clip, rho=0.7, eta=0.4, l2=0.5):
    """The un-noised models of round 1 by the three methods, and the bounds of client 2."""
    still = silent(1)
    nfl = zcdp.zcdp_nfl("squared", x, y, COUNTS, EDGES, np.array([eta]), rho, *still, clip, 0.0, l2)
    grad = zcdp.zcdp_grad("squared", x, y, COUNTS, EDGES, np.array([eta]), *still, clip, 0.0, l2)
    admm = zcdp.p_admm(x, y, COUNTS, EDGES, rho, *still, clip, l2)
    degree, samples = zcdp.degrees(EDGES, CLIENTS)[2], COUNTS[2]
    bounds = (
        zcdp.sensitivity_nfl(clip, samples, degree, rho, eta),
        zcdp.sensitivity_grad(clip, samples, eta),
        zcdp.sensitivity_p_admm(clip, samples, degree, rho, l2, CLIENTS),
    )
    return [run[0][0] for run in (nfl, grad, admm)], bounds


def test_a_replaced_sample_with_opposite_gradients_moves_a_model_by_the_sensitivity():
    clip = 0.3
    x, y = data()
    y = 1e4 * y  # all gradients are clipped, at the minimisers of P-ADMM too
    other = y.copy()
    other[2, 1] = -other[2, 1]
    models, bounds = first_models(x, y, clip)
    moved, _ = first_models(x, other, clip)
    for one, two, bound in zip(models, moved, bounds, strict=True):
        distance = np.linalg.norm(one - two, axis=-1)
        assert distance[2] == pytest.approx(bound, rel=1e-11)
        np.testing.assert_array_equal(np.delete(distance, 2), 0.0)
    nfl, grad, admm = bounds
    assert nfl == pytest.approx(0.6 / (4.0 * (2.0 * 0.7 * 3.0 + 1.0 / 0.4)), rel=1e-14)
    assert grad == pytest.approx(0.6 * 0.4 / 4.0, rel=1e-14)
    assert admm == pytest.approx(0.6 / (4.0 * (2.0 * 0.7 * 3.0 + 2.0 * 0.5 / 6.0)), rel=1e-14)


def test_no_replaced_sample_moves_a_model_further():
    clip = 1.5
    x, y = data()
    models, bounds = first_models(x, y, clip)
    rng = np.random.default_rng(5)
    most = np.zeros(3)
    for _ in range(60):
        other_x, other_y = x.copy(), y.copy()
        scale = 10.0 ** rng.uniform(-1.0, 2.0)
        other_x[2, 0] = scale * rng.standard_normal(DIM)
        other_y[2, 0] = scale * rng.standard_normal()
        moved, _ = first_models(other_x, other_y, clip)
        for i in range(3):
            distance = np.linalg.norm(moved[i] - models[i], axis=-1)
            np.testing.assert_array_equal(np.delete(distance, 2), 0.0)
            most[i] = max(most[i], distance[2] / bounds[i])
    assert np.all(most <= 1.0 + 1e-12)
    assert np.all(most > 0.5)


# --- accounting ---------------------------------------------------------------------------------


def test_budgets():
    for total, rounds, tau in ((0.3, 200, 0.985), (2.0, 7, 1.0), (1.0, 1, 0.9), (1.0, 5000, 0.8)):
        found = zcdp.budgets(total, rounds, tau)
        assert found.shape == (rounds,)
        assert found.sum() == pytest.approx(total, rel=1e-13)
        if rounds == 5000:
            assert np.all(np.isfinite(found))
            continue
        np.testing.assert_allclose(found[1:], found[:-1] / tau, rtol=1e-12)
        factor = rounds
        if tau < 1.0:
            factor = (1.0 - tau**rounds) / (tau ** (rounds - 1) - tau**rounds)
        assert found[0] * factor == pytest.approx(total, rel=1e-12)
        assert zcdp.classical_epsilon(found.sum(), DELTA) == pytest.approx(
            zcdp.classical_epsilon(total, DELTA), rel=1e-13
        )


def test_the_noise_decays_by_tau_and_with_the_step():
    rounds, tau, rho, degree = 50, 0.97, 0.4, 3
    phi = zcdp.budgets(0.3, rounds, tau)
    powers = tau ** np.arange(rounds)
    for eta in (np.full(rounds, 0.3), steps(0.3, 0.5, rounds)):
        sensitivity = zcdp.sensitivity_nfl(1.5, 40, degree, rho, eta)
        sigma = zcdp.noise_scale(sensitivity, phi)
        np.testing.assert_allclose(sensitivity**2 / (2.0 * sigma**2), phi, rtol=1e-13)
        a = 1.0 / (1.0 / eta + 2.0 * rho * degree)
        expected = sigma[0] ** 2 * powers * (a / a[0]) ** 2
        np.testing.assert_allclose(sigma**2, expected, rtol=1e-11)


def test_no_noise_without_privacy():
    total = zcdp.classical_budget(math.inf, DELTA)
    sigma = zcdp.noise_scale(zcdp.sensitivity_nfl(1.0, 5, 2, 0.5, 0.3), zcdp.budgets(total, 4, 0.9))
    np.testing.assert_array_equal(sigma, np.zeros(4))


# classical epsilon, phi, Renyi epsilon, exact epsilon, phi of the exact epsilon
TABLE = [
    (0.5, 0.00531, 0.388, 0.352, 0.0101),
    (1.0, 0.02082, 0.812, 0.742, 0.0359),
    (2.0, 0.08005, 1.694, 1.556, 0.1258),
    (4.0, 0.29765, 3.519, 3.250, 0.4278),
    (8.0, 1.04914, 7.281, 6.764, 1.3878),
    (16.0, 3.43067, 14.988, 14.012, 4.2209),
]


@pytest.mark.parametrize(("eps", "phi", "renyi", "exact", "allowed"), TABLE)
def test_conversions(eps, phi, renyi, exact, allowed):
    found = zcdp.classical_budget(eps, DELTA)
    log = math.log(1.0 / DELTA)
    assert found == pytest.approx((math.sqrt(log + eps) - math.sqrt(log)) ** 2, rel=1e-12)
    assert found == pytest.approx(phi, abs=5.1e-6)
    assert zcdp.classical_epsilon(found, DELTA) == pytest.approx(eps, rel=1e-13)
    assert zcdp.exact_epsilon(found, DELTA) == pytest.approx(exact, abs=6e-4)
    assert zcdp.exact_budget(eps, DELTA) == pytest.approx(allowed, abs=6e-5)
    assert zcdp.exact_epsilon(zcdp.exact_budget(eps, DELTA), DELTA) == pytest.approx(eps, rel=1e-9)
    # The table has the orders of a grid, which can only make it larger.
    assert 0.0 <= renyi + 5.1e-4 - zcdp.renyi_epsilon(found, DELTA) < 6e-3
    assert zcdp.exact_epsilon(found, DELTA) < zcdp.renyi_epsilon(found, DELTA) < eps


@pytest.mark.parametrize(("mu", "eps"), [(0.1, 0.05), (0.5, 1.0), (1.4, 3.0), (2.6, 14.0)])
def test_exact_delta_is_an_integral(mu, eps):
    def normal(t, mean):
        return math.exp(-0.5 * (t - mean) ** 2) / math.sqrt(2.0 * math.pi)

    start = eps / mu + mu / 2.0
    value, _ = quad(
        lambda t: normal(t, mu) - math.exp(eps) * normal(t, 0.0), start, start + 12.0, epsabs=0.0
    )
    assert zcdp.exact_delta(mu, eps) == pytest.approx(value, rel=1e-9)


def test_exact_delta_with_many_digits():
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(50):
        for mu, eps in ((0.1, 0.0), (0.1, 0.45), (1.0, 5.0), (4.0, 30.0), (0.03, 0.2)):
            m, e = mpmath.mpf(mu), mpmath.mpf(eps)
            value = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
            assert zcdp.exact_delta(mu, eps) == pytest.approx(float(value), rel=1e-12)


def test_no_budget_needs_no_epsilon():
    assert zcdp.exact_epsilon(1e-12, DELTA) == 0.0


@pytest.mark.parametrize("eps", [0.5, 1.0, 2.0, 4.0, 8.0, 16.0])
def test_the_variance_of_the_conventional_accounting(eps):
    rounds, tau = 200, 0.985
    phi = zcdp.budgets(zcdp.classical_budget(eps, DELTA), rounds, tau)
    ratios = {}
    for rule in ("advanced", "basic"):
        z = zcdp.conventional_multipliers(eps, DELTA, rounds, tau, rule)
        ratio = z**2 * 2.0 * phi
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-10)
        ratios[rule] = ratio[0]
    assert ratios["advanced"] == pytest.approx(37.0, abs=0.6)
    assert 150.0 < ratios["basic"] < 245.0
    e = zcdp.conventional_epsilons(eps, DELTA, rounds, tau)
    spread = math.sqrt(2.0 * math.log(2.0 / DELTA) * (e**2).sum())
    growth = ((np.exp(e) - 1.0) / (np.exp(e) + 1.0) * e).sum()
    assert spread + growth == pytest.approx(eps, rel=1e-12)
    assert zcdp.conventional_epsilons(eps, DELTA, rounds, tau, "basic").sum() == pytest.approx(eps)


def test_the_classical_mechanism_needs_small_epsilons():
    with pytest.raises(ValueError, match="at most one"):
        zcdp.conventional_multipliers(16.0, DELTA, 2, 0.985)


# --- the optimum --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "l1", "l2", "zeros"),
    [
        ("squared", 0.0, 1.0, 0),
        ("squared", 9.0, 1.0, 1),
        ("huber", 0.0, 0.3, 0),
        ("logistic", 0.4, 0.5, 1),
    ],
)
def test_the_optimum_of_a_smooth_loss(name, l1, l2, zeros):
    x, y = data(name)
    w = zcdp.centralised(name, x, y, COUNTS, l1, l2)
    slope = 2.0 * l2 * w
    for k in range(CLIENTS):
        slope = slope + zcdp.subgradient(name, *zcdp.own(x, y, COUNTS, k), w)
    zero = np.abs(w) < 1e-7
    assert zero.sum() == zeros
    np.testing.assert_allclose(slope[~zero], -l1 * np.sign(w[~zero]), rtol=0, atol=2e-8)
    assert np.all(np.abs(slope[zero]) <= l1)
    if name == "squared" and l1 == 0.0:
        np.testing.assert_allclose(w, ridge_optimum(x, y, COUNTS, l2), rtol=0, atol=1e-10)


def test_the_optimum_of_least_absolute_deviations():
    x, y = data("absolute")
    w = zcdp.centralised("absolute", x, y, COUNTS)
    rows, labels, shares = [], [], []
    for k in range(CLIENTS):
        for j in range(COUNTS[k]):
            rows.append(x[k, j])
            labels.append(y[k, j])
            shares.append(1.0 / COUNTS[k])
    rows, labels, eye = np.array(rows), np.array(labels), np.eye(len(rows))
    found = linprog(
        np.concatenate([np.zeros(DIM), shares]),
        A_ub=np.block([[rows, -eye], [-rows, -eye]]),
        b_ub=np.concatenate([labels, -labels]),
        bounds=[(None, None)] * DIM + [(0.0, None)] * len(rows),
    )
    np.testing.assert_allclose(w, found.x[:DIM], rtol=0, atol=1e-8)
    value = zcdp.objective("absolute", x, y, COUNTS, w)
    assert value == pytest.approx(found.fun, rel=1e-9)


def test_the_threshold_of_the_huber_loss():
    x, y = data("huber")
    w = zcdp.centralised("huber", x, y, COUNTS, threshold=0.2)
    slope = 0.0
    for k in range(CLIENTS):
        slope = slope + zcdp.subgradient(zcdp.huber(0.2), *zcdp.own(x, y, COUNTS, k), w)
    np.testing.assert_allclose(slope, 0.0, rtol=0, atol=1e-7)


def test_the_weight_of_the_lasso_is_pooled():
    x, y = data()
    inside = np.arange(SAMPLES)[None] < COUNTS[:, None]
    expected = 0.001 * np.abs(x[inside].T @ y[inside]).max()
    assert zcdp.elastic_l1(x, y, COUNTS) == pytest.approx(expected, rel=1e-13)


# --- convergence at full size -------------------------------------------------------------------


def gaps(loss, drawn, optimum, first, power, l1=0.0, l2=0.0, at=(200, 800, 3200)):
    """``F(mean of the clients) - F*`` and the error after some rounds, without noise."""
    clients, _, dim = drawn["x"].shape
    x, y, edges = drawn["x"], drawn["y"], drawn["edges"]
    rounds = max(at)
    w, _, _ = zcdp.matrix_form(
        loss,
        x,
        y,
        None,
        edges,
        steps(first, power, rounds),
        0.5,
        *silent(rounds, clients, dim),
        None,
        l1,
        l2,
    )
    least = zcdp.objective(loss, x, y, None, optimum, l1, l2)
    found = [zcdp.objective(loss, x, y, None, w[n - 1].mean(0), l1, l2) - least for n in at]
    return np.array(found), zcdp.error(w[[n - 1 for n in at]], optimum)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ridge_without_noise(seed):
    drawn = zcdp.draw(np.random.default_rng(seed))
    optimum = ridge_optimum(drawn["x"], drawn["y"], drawn["counts"], 1.0)
    _, errors = gaps("squared", drawn, optimum, 0.3, 0.0, l2=1.0, at=(1, 200, 400, 1000))
    assert errors[0] > 10.0
    assert errors[1] < 1e-5
    assert errors[2] < 1e-4 * errors[1]
    assert errors[3] < 1e-12
    curved = hessians(drawn["x"], drawn["counts"], 1.0, 50)
    assert 2.5 < np.mean([np.linalg.eigvalsh(block)[-1] for block in curved]) < 5.0


@pytest.mark.thorough
def test_absolute_deviations_without_noise():
    drawn = zcdp.draw(np.random.default_rng(0))
    optimum = zcdp.centralised("absolute", drawn["x"], drawn["y"])
    fast, fast_errors = gaps("absolute", drawn, optimum, 3.0, 1.0)
    slow, _ = gaps("absolute", drawn, optimum, 1.0, 0.5)
    floor, floor_errors = gaps("absolute", drawn, optimum, 0.3, 0.0)
    assert np.all(fast > 0.0)
    assert fast[0] < 1e-3
    assert np.all(fast[1:] < fast[:-1] / 2.0)
    assert np.all(fast_errors[1:] < fast_errors[:-1] / 2.0)
    assert np.all(slow > 2.0 * fast)
    assert floor[2] > 0.3 * floor[0] > 1e-4
    assert floor_errors[2] > 0.3 * floor_errors[0] > 1e-4


@pytest.mark.thorough
def test_the_elastic_net_is_slow_only_where_a_weight_is_zero():
    """Where no weight of the optimum is zero, all is smooth in the end, and the rate linear."""
    smooth = kinked = 0
    for seed in (0, 1, 4, 5):
        drawn = zcdp.draw(np.random.default_rng(seed))
        l1 = zcdp.elastic_l1(drawn["x"], drawn["y"])
        optimum = zcdp.centralised("squared", drawn["x"], drawn["y"], None, l1, 1.0)
        found, errors = gaps("squared", drawn, optimum, 3.0, 1.0, l1, 1.0)
        floor, _ = gaps("squared", drawn, optimum, 0.3, 0.0, l1, 1.0)
        if np.abs(optimum).min() > 1e-6:
            smooth += 1
            assert errors[2] < 1e-12
            assert abs(floor[2]) < 1e-10
        else:
            kinked += 1
            assert 1e-4 < found[0] < 1e-2
            assert np.all(found[1:] < found[:-1] / 2.0)
            assert np.all(errors[1:] < errors[:-1] / 8.0)
            assert floor[2] > 0.5 * floor[0] > 1e-3
    assert smooth == kinked == 2
