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
