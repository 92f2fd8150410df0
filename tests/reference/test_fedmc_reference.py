"""Checks of the reference of federated matrix completion itself, by independent means."""

import numpy as np
import pytest

from tests.reference import fedmc

# Nothing in the library can change the reference.
pytestmark = pytest.mark.thorough

PENALTIES = {"l2": fedmc.L2, "l1": fedmc.L1}
SIZES = (3, 4, 2)
ITEMS = 7


def small_problem(seed=0, rank=2):
    """Three clients; the last item has no rating, nor has the last user of the first client."""
    rng = np.random.default_rng(seed)
    clients = []
    for i, size in enumerate(SIZES):
        seen = rng.random((size, ITEMS)) < 0.6
        seen[:, -1] = False
        seen[0, 0] = True
        if i == 0:
            seen[-1] = False
        rows, cols = np.nonzero(seen)
        order = rng.permutation(len(rows))
        clients.append((rows[order], cols[order], rng.standard_normal(len(rows))))
    users = [rng.uniform(-1.0, 1.0, (size, rank)) for size in SIZES]
    return clients, users, rng.uniform(-1.0, 1.0, (ITEMS, rank))


def flat(clients):
    """All ratings, the users numbered over all clients."""
    starts = np.cumsum([0, *SIZES[:-1]])
    rows = np.concatenate([c[0] + start for c, start in zip(clients, starts, strict=True)])
    return rows, np.concatenate([c[1] for c in clients]), np.concatenate([c[2] for c in clients])


def check_gradient(function, gradient, x):
    """Every partial derivative of ``function`` at ``x``, by central differences."""
    numerical = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[index] = 1e-6
        numerical[index] = (function(x + step) - function(x - step)) / 2e-6
    np.testing.assert_allclose(gradient, numerical, rtol=0, atol=1e-7)


@pytest.mark.parametrize("kind", ["l2", "l1"])
def test_golden_case(kind):
    case = fedmc.golden_case()
    user_penalty = PENALTIES[kind](case["user_weight"])
    item_penalty = PENALTIES[kind](case["item_weight"])
    states = fedmc.fedmc_admm(
        case["clients"],
        case["users"],
        case["V"],
        case["selections"],
        case["beta"],
        case["inner_steps"],
        user_penalty,
        item_penalty,
        case["bound"],
    )
    assert len(states) == 3
    state, expected = states[-1], case["expected"][kind]
    np.testing.assert_allclose(state["V"], expected["V"], rtol=0, atol=1e-9)
    for U, wanted in zip(state["U"], expected["U"], strict=True):
        np.testing.assert_allclose(U, wanted, rtol=0, atol=1e-9)
    value = fedmc.objective(case["clients"], state["U"], state["V"], user_penalty, item_penalty)
    assert value == pytest.approx(expected["objective"], rel=0, abs=1e-9)
    value = fedmc.lagrangian(state, case["clients"], case["beta"], user_penalty, item_penalty)
    assert value == pytest.approx(expected["lagrangian"], rel=0, abs=1e-9)


@pytest.mark.parametrize("penalty", [fedmc.L2(0.7), fedmc.L1(0.7), fedmc.NonNegative()])
@pytest.mark.parametrize("step", [0.3, 2.0])
def test_prox_by_grid(penalty, step):
    grid = np.linspace(-3.0, 3.0, 6001)
    for v in (-2.5, -0.4, 0.0, 0.1, 1.9):
        values = [penalty.value(np.array([x])) + (x - v) ** 2 / (2.0 * step) for x in grid]
        assert penalty.prox(np.array([v]), step)[0] == pytest.approx(
            grid[np.argmin(values)], abs=1.01e-3
        )


@pytest.mark.parametrize("seed", [0, 1])
def test_gradients_by_differences(seed):
    clients, users, V = small_problem(seed)
    for client, U in zip(clients, users, strict=True):
        of_users, of_items = (f(U, V, client) for f in (fedmc.gradient_users, fedmc.gradient_items))
        check_gradient(lambda x, c=client: fedmc.loss(x, V, c), of_users, U)
        check_gradient(lambda x, c=client, u=U: fedmc.loss(u, x, c), of_items, V)
        assert np.all(of_items[-1] == 0)


@pytest.mark.parametrize("kind", fedmc.BOUNDS)
def test_bounds_hold(kind):
    """No constant is below the largest eigenvalue of its row's matrix."""
    clients, _, V = small_problem(4)
    rows, cols, _ = clients[1]
    constants = np.broadcast_to(fedmc.lipschitz(kind, V, rows, cols, SIZES[1]), (SIZES[1], 1))
    for t in range(SIZES[1]):
        matrix = sum((np.outer(V[j], V[j]) for j in cols[rows == t]), np.zeros((2, 2)))
        assert constants[t, 0] >= np.linalg.norm(matrix, 2) - 1e-12


def test_fedmavg_round_by_hand():
    """One user, one item, rank one, one step each; the second client is idle."""
    one = np.array([0])
    clients = [(one, one, np.array([3.0])), (one, one, np.array([1.0]))]
    users, V = [np.array([[2.0]]), np.array([[1.0]])], np.array([[0.5]])
    lam, gam, c = 0.1, 0.2, 0.5 * 0.25
    u = 2.0 - ((2.0 * 0.5 - 3.0) * 0.5 + lam * 2.0) / c
    other = 1.0 - ((0.5 - 1.0) * 0.5 + lam) / c
    for setting, omega in (("paper", 2.0), ("fair", 1.0)):
        w = 0.5 - ((u * 0.5 - 3.0) * u / omega + gam * 0.5) / (5.0 * u**2)
        for all_users in (True, False):
            state = fedmc.fedmavg(clients, users, V, [[0]], 1, 1, lam, gam, setting, all_users)[-1]
            assert state["U"][0][0, 0] == pytest.approx(u)
            assert state["U"][1][0, 0] == pytest.approx(other if all_users else 1.0)
            assert state["V"][0, 0] == pytest.approx(w)


def test_damped_biases_minimise():
    """The limit minimises the sum of squares plus the damping times the squared biases."""
    clients, _, _ = small_problem(14)
    rows, cols, values = flat(clients)
    m = sum(SIZES)
    b, c = fedmc.damped_biases(rows, cols, values, m, ITEMS, 2.0, 200)
    design = np.zeros((len(values), m + ITEMS))
    design[np.arange(len(values)), rows] = 1.0
    design[np.arange(len(values)), m + cols] = 1.0
    exact = np.linalg.solve(design.T @ design + 2.0 * np.eye(m + ITEMS), design.T @ values)
    np.testing.assert_allclose(np.concatenate([b, c]), exact, rtol=0, atol=1e-9)
    b, c = fedmc.damped_biases(rows, cols, values, m, ITEMS, 2.0, 1)
    assert b[3] == pytest.approx(values[rows == 3].sum() / (2.0 + (rows == 3).sum()))
    assert b[2] == 0
    assert c[-1] == 0


def test_als_solves_each_block():
    clients, users, V = small_problem(15)
    rows, cols, values = flat(clients)
    m, weight = sum(SIZES), 0.05
    start = np.concatenate(users)
    U, W = fedmc.als(rows, cols, values, m, ITEMS, start, V, weight, 3)
    assert np.all(U[2] == 0)
    assert np.all(W[-1] == 0)
    counts = np.bincount(cols, minlength=ITEMS)[:, None]
    gradient = fedmc.gradient_items(U, W, (rows, cols, values)) + weight * counts * W
    np.testing.assert_allclose(gradient, 0.0, atol=1e-10)
    U, _ = fedmc.als(rows, cols, values, m, ITEMS, start, V, weight, 1)
    counts = np.bincount(rows, minlength=m)[:, None]
    gradient = fedmc.gradient_users(U, V, (rows, cols, values)) + weight * counts * U
    np.testing.assert_allclose(gradient, 0.0, atol=1e-10)
