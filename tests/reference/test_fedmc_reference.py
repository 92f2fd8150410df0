"""Checks of the reference of federated matrix completion itself, by independent means."""

import math

import numpy as np
import pytest

from tests.reference import fedmc

# Nothing in the library can change the reference.
pytestmark = pytest.mark.thorough

PENALTIES = {"l2": fedmc.L2, "l1": fedmc.L1}
SIZES = (3, 4, 2)
ITEMS = 7
SELECTIONS = [[0, 2], [1], [2, 1], [0, 1, 2]]


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


# --- golden case --------------------------------------------------------------------------------


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


# --- regularisers -------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [fedmc.L2(0.7), fedmc.L1(0.7), fedmc.NonNegative()])
@pytest.mark.parametrize("step", [0.3, 2.0])
def test_prox_by_grid(penalty, step):
    grid = np.linspace(-3.0, 3.0, 6001)
    for v in (-2.5, -0.4, 0.0, 0.1, 1.9):
        values = [penalty.value(np.array([x])) + (x - v) ** 2 / (2.0 * step) for x in grid]
        assert penalty.prox(np.array([v]), step)[0] == pytest.approx(
            grid[np.argmin(values)], abs=1.01e-3
        )


@pytest.mark.parametrize("penalty", [fedmc.L2(0.7), fedmc.L1(0.7), fedmc.NonNegative()])
def test_smallest_subgradient_is_slope(penalty):
    """The steepest descent of ``g x + value`` at ``x``, by one-sided differences."""
    step = 1e-7
    for x in (0.0, 0.8, -0.8):
        if math.isinf(penalty.value(np.array([x]))):
            continue
        for g in (-1.5, -0.2, 0.0, 0.3, 1.1):

            def rise(d, x=x, g=g):
                return g * d + penalty.value(np.array([x + d])) - penalty.value(np.array([x]))

            descent = max(0.0, -rise(step) / step, -rise(-step) / step)
            smallest = penalty.smallest_subgradient(np.array([x]), np.array([g]))[0]
            assert abs(smallest) == pytest.approx(descent, abs=1e-6)


# --- local loss ---------------------------------------------------------------------------------


def test_residuals_one_by_one():
    clients, users, V = small_problem()
    client, U = clients[1], users[1]
    for e, t, j, value in zip(fedmc.residuals(U, V, client), *client, strict=True):
        assert e == pytest.approx(sum(U[t, k] * V[j, k] for k in range(2)) - value)


@pytest.mark.parametrize("seed", [0, 1])
def test_gradients_by_differences(seed):
    clients, users, V = small_problem(seed)
    for client, U in zip(clients, users, strict=True):
        of_users, of_items = (f(U, V, client) for f in (fedmc.gradient_users, fedmc.gradient_items))
        check_gradient(lambda x, c=client: fedmc.loss(x, V, c), of_users, U)
        check_gradient(lambda x, c=client, u=U: fedmc.loss(u, x, c), of_items, V)
        assert np.all(of_items[-1] == 0)


def test_objective_gradients_by_differences():
    clients, users, V = small_problem(3)
    penalties = fedmc.L2(0.3), fedmc.L2(0.4)
    total, step = 0.0, 1e-6
    blocks = [*users, V]
    for block in blocks:
        for index in np.ndindex(block.shape):
            start = block[index]
            values = []
            for x in (start + step, start - step):
                block[index] = x
                values.append(fedmc.objective(clients, users, V, *penalties))
            block[index] = start
            total += ((values[0] - values[1]) / (2 * step)) ** 2
    value = fedmc.stationarity_squared(clients, users, V, *penalties)
    assert value == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize("kind", fedmc.BOUNDS)
def test_bounds_hold(kind):
    """No constant is below the largest eigenvalue of its row's matrix."""
    clients, _, V = small_problem(4)
    rows, cols, _ = clients[1]
    constants = np.broadcast_to(fedmc.lipschitz(kind, V, rows, cols, SIZES[1]), (SIZES[1], 1))
    for t in range(SIZES[1]):
        matrix = sum((np.outer(V[j], V[j]) for j in cols[rows == t]), np.zeros((2, 2)))
        assert constants[t, 0] >= np.linalg.norm(matrix, 2) - 1e-12


def test_bounds_are_ordered_and_guarded():
    clients, _, V = small_problem(4)
    rows, cols, _ = clients[0]
    fro, spec = (fedmc.lipschitz(kind, V, rows, cols, 3) for kind in ("fro", "spec"))
    per_row = fedmc.lipschitz("row", V, rows, cols, 3, epsilon=1e-3)
    assert spec <= fro <= math.sqrt(2) * spec
    assert np.all(per_row <= fro)
    assert per_row[2, 0] == 1e-3
    for kind in ("fro", "spec"):
        assert fedmc.lipschitz(kind, 0.0 * V, rows, cols, 3, epsilon=1e-3) == 1e-3


# --- facts about FedMC-ADMM ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["l2", "l1"])
@pytest.mark.parametrize("bound", fedmc.BOUNDS)
@pytest.mark.parametrize("steps", [1, 4])
def test_dual_is_linearised_gradient(kind, bound, steps):
    """Fact (a), for every client of every round."""
    clients, users, V = small_problem(5)
    p, beta, penalty = len(clients), 1.5, PENALTIES[kind](0.1)
    states = fedmc.fedmc_admm(
        clients, users, V, SELECTIONS, beta, steps, penalty, penalty, bound, zero_dual=True
    )
    for before, after, selection in zip(states, states[1:], SELECTIONS, strict=False):
        for i in selection:
            client, U = clients[i], after["U"][i]
            iterates = fedmc.item_iterates(
                before["W"][i], U, before["V"], before["Y"][i], client, steps, beta, p, bound
            )
            last, previous = iterates[-1], iterates[-2]
            assert np.array_equal(last, after["W"][i])
            constant = fedmc.lipschitz(bound, U, client[1], client[0], ITEMS)
            gradient = fedmc.gradient_items(U, previous, client)
            expected = -(gradient + constant * (last - previous)) / p
            np.testing.assert_allclose(after["Y"][i], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["none", "l2", "l1"])
@pytest.mark.parametrize("zero_dual", [False, True])
def test_scaling_law(kind, zero_dual):
    """Fact (b): the products stay the same, with the penalties scaled too."""
    clients, users, V = small_problem(6)
    c, lam, gam = 3.0, 0.05, 0.2
    if kind == "none":
        penalties = scaled = fedmc.L2(0.0), fedmc.L2(0.0)
    elif kind == "l2":
        penalties = fedmc.L2(lam), fedmc.L2(gam)
        scaled = fedmc.L2(lam / c**2), fedmc.L2(gam * c**2)
    else:
        penalties = fedmc.L1(lam), fedmc.L1(gam)
        scaled = fedmc.L1(lam / c), fedmc.L1(gam * c)

    def solve(scale, penalties):
        return fedmc.fedmc_admm(
            clients,
            [scale * u for u in users],
            V / scale,
            SELECTIONS * 5,
            2.0 * scale**2,
            3,
            *penalties,
            zero_dual=zero_dual,
        )

    for one, other in zip(solve(1.0, penalties), solve(c, scaled), strict=True):
        np.testing.assert_allclose(other["V"], one["V"] / c, rtol=0, atol=1e-9)
        np.testing.assert_allclose(other["W"], one["W"] / c, rtol=0, atol=1e-9)
        np.testing.assert_allclose(other["Y"], one["Y"] * c, rtol=0, atol=1e-9)
        for a, b in zip(one["U"], other["U"], strict=True):
            np.testing.assert_allclose(b @ other["V"].T, a @ one["V"].T, rtol=0, atol=1e-9)


def test_initial_and_idle_values():
    clients, users, V = small_problem(7)
    penalty = fedmc.L2(0.1)
    states = fedmc.fedmc_admm(clients, users, V, SELECTIONS, 2.0, 3, penalty, penalty)
    for i in range(3):
        expected = -fedmc.gradient_items(users[i], V, clients[i]) / 3
        assert np.array_equal(states[0]["Y"][i], expected)
        assert np.array_equal(states[0]["W"][i], V)
    for key in ("U", "W", "Y"):
        assert np.array_equal(states[1][key][1], states[0][key][1])
        assert not np.array_equal(states[1][key][2], states[0][key][2])
    assert not np.array_equal(states[1]["V"], states[0]["V"])


def test_order_of_ratings_and_selection():
    """Fact (d); the clients of a round do not see each other."""
    clients, users, V = small_problem(8)
    rng, penalty = np.random.default_rng(0), fedmc.L1(0.01)
    orders = [rng.permutation(len(c[0])) for c in clients]
    shuffled = [tuple(x[o] for x in c) for c, o in zip(clients, orders, strict=True)]
    reverse = [s[::-1] for s in SELECTIONS]
    one = fedmc.fedmc_admm(clients, users, V, SELECTIONS, 2.0, 3, penalty, penalty)[-1]
    other = fedmc.fedmc_admm(shuffled, users, V, reverse, 2.0, 3, penalty, penalty)[-1]
    np.testing.assert_allclose(other["V"], one["V"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["l2", "l1"])
@pytest.mark.parametrize("bound", fedmc.BOUNDS)
def test_converges(kind, bound):
    """All clients in all rounds: the limit is stationary, for ``F`` and for the Lagrangian."""
    clients, users, V = small_problem(9)
    penalties = PENALTIES[kind](0.1), PENALTIES[kind](0.1)
    rounds = [[0, 1, 2]] * 300
    states = fedmc.fedmc_admm(clients, users, V, rounds, 5.0, 3, *penalties, bound)
    state = states[-1]
    first = fedmc.stationarity_squared(clients, users, V, *penalties)
    # W = V and Y = -grad / p at the start, so the two agree there.
    assert fedmc.lagrangian_stationarity_squared(
        states[0], clients, 5.0, *penalties
    ) == pytest.approx(first)
    last = fedmc.stationarity_squared(clients, state["U"], state["V"], *penalties)
    assert last < 1e-3 * first
    assert np.abs(state["W"] - state["V"]).max() < 1e-2


def test_user_without_ratings_and_zero_items():
    clients, users, V = small_problem(10)
    U = fedmc.user_steps(users[0], V, clients[0], 1, fedmc.L2(0.1), "row")
    np.testing.assert_allclose(U[2], 0.0, atol=1e-10)
    for penalty in (fedmc.L2(0.1), fedmc.L1(0.1)):
        U = fedmc.user_steps(users[0], 0.0 * V, clients[0], 1, penalty)
        np.testing.assert_allclose(U, 0.0, atol=1e-10)
    assert np.array_equal(
        fedmc.user_steps(users[0], 0.0 * V, clients[0], 3, fedmc.L2(0.0)), users[0]
    )


# --- FedMAvg, figures and baselines -------------------------------------------------------------


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


def test_fedmavg_with_nothing_to_average():
    clients, users, V = small_problem(11)
    states = fedmc.fedmavg(clients, users, V, [[1]] * 30, 10, 10, 0.01, 0.0, "fair", False)
    before, after = (fedmc.loss(s["U"][1], s["V"], clients[1]) for s in (states[0], states[-1]))
    assert after < 0.1 * before
    assert np.array_equal(states[-1]["U"][0], users[0])
    assert np.array_equal(states[-1]["V"][-1], V[-1])


def test_rmse_and_fresh_users():
    clients, users, V = small_problem(12)
    squares = sum(2.0 * fedmc.loss(U, V, c) for U, c in zip(users, clients, strict=True))
    count = sum(len(c[0]) for c in clients)
    assert fedmc.rmse(clients, users, V) == pytest.approx(math.sqrt(squares / count))
    fresh = fedmc.fresh_users(clients, users, V, 3000, fedmc.L2(0.1))
    for client, U in zip(clients, fresh, strict=True):
        gradient = fedmc.gradient_users(U, V, client) + 0.1 * U
        np.testing.assert_allclose(gradient, 0.0, atol=1e-9)


def test_means():
    clients, _, _ = small_problem(13)
    rows, cols, values = flat(clients)
    m = sum(SIZES)
    by_user = fedmc.user_means(rows, cols, values, m, ITEMS)
    by_item = fedmc.item_means(rows, cols, values, m, ITEMS)
    assert by_user[2] == pytest.approx(values.mean())
    assert by_item[-1] == pytest.approx(values.mean())
    assert by_user[3] == pytest.approx(np.average(values, weights=rows == 3))
    assert by_item[0] == pytest.approx(np.average(values, weights=cols == 0))


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
