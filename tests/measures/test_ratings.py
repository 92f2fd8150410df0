"""Errors, objective, Lagrangian and stationarity against the NumPy reference; exact sums."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import penalties
from fedjax_admm.measures import (
    augmented_lagrangian,
    completion_residual,
    factor_error,
    fresh_rating_error,
)
from fedjax_admm.measures._ratings import squared_error
from fedjax_admm.problems import matrix_completion_of_clients
from fedjax_admm.ratings import Factors
from fedjax_admm.ratings.blocks import BLOCK, ClientRatings
from fedjax_admm.solvers import fed_mc_admm, fed_mc_theory_beta
from fedjax_admm.solvers._factors import FactorsState
from fedjax_admm.solvers.factors._fed_mc import FedMCClients
from tests.reference import fedmc

SIZES, ITEMS, RANK, BETA = (4, 2, 3), 7, 2, 0.6
USER_WEIGHT, ITEM_WEIGHT, STEPS = 0.3, 0.2, 3
KINDS = {"l2": (penalties.squared_l2, fedmc.L2), "l1": (penalties.l1, fedmc.L1)}


def lists(rng, share):
    """Clients' ratings; the last item has none, nor has the last user of the first client."""
    clients = []
    for i, size in enumerate(SIZES):
        seen = rng.random((size, ITEMS)) < share
        seen[:, -1] = False
        seen[0, 0] = True
        if i == 0:
            seen[-1] = False
        rows, cols = np.nonzero(seen)
        clients.append((rows, cols, rng.integers(0, 6, len(rows)).astype(float)))
    return clients


def without(clients, others):
    """Leave out the pairs of a user and an item that others hold."""
    kept = []
    for (rows, cols, raw), (other_rows, other_cols, _) in zip(clients, others, strict=True):
        new = ~np.isin(rows * ITEMS + cols, other_rows * ITEMS + other_cols)
        kept.append((rows[new], cols[new], raw[new]))
    return kept


LEARNT = lists(np.random.default_rng(0), 0.6)
HELD_OUT = without(lists(np.random.default_rng(1), 0.4), LEARNT)
ALL = np.concatenate([client[2] for client in LEARNT])


def standard(clients):
    return [(rows, cols, (raw - ALL.mean()) / ALL.std()) for rows, cols, raw in clients]


def problem_of(held_out=HELD_OUT):
    return matrix_completion_of_clients(LEARNT, num_items=ITEMS, members=SIZES, held_out=held_out)


def state_of(seed=0):
    """A state of the reference; some entries are 0, at the kink of the absolute value."""
    rng = np.random.default_rng(seed)

    def draw(*shape):
        drawn = rng.standard_normal(shape)
        return np.where(rng.random(shape) < 0.3, 0.0, drawn)

    U = [draw(size, RANK) for size in SIZES]
    W, Y = (rng.standard_normal((len(SIZES), ITEMS, RANK)) for _ in range(2))
    return {"U": U, "W": W, "Y": Y, "V": draw(ITEMS, RANK)}


def padded(U):
    """Users' factors of all clients; zero where there is no user."""
    out = np.zeros((len(SIZES), max(SIZES), RANK))
    for i, rows in enumerate(U):
        out[i, : len(rows)] = rows
    return out


def as_state(state, dtype):
    U, W, Y, V = (jnp.asarray(part, dtype) for part in (padded(state["U"]), *map(state.get, "WYV")))
    return FactorsState(V, FedMCClients(U, W, Y), jnp.ones((), dtype), ())


def solver_of(kind):
    build = KINDS[kind][0]
    return fed_mc_admm(
        rank=RANK,
        beta=BETA,
        user_penalty=build(USER_WEIGHT),
        item_penalty=build(ITEM_WEIGHT),
        inner_steps=STEPS,
    )


@jax.jit
def everything(solver, problem, state):
    return {
        **fresh_rating_error(solver, problem, state),
        "lagrangian": augmented_lagrangian(solver, problem, state),
        "residual": completion_residual(solver, problem, state),
        "theory_beta": fed_mc_theory_beta(solver, problem, state, 2),
    }


def truth(kind, state):
    build = KINDS[kind][1]
    weights = build(USER_WEIGHT), build(ITEM_WEIGHT)
    learnt, judged = standard(LEARNT), standard(HELD_OUT)
    U, V = state["U"], state["V"]
    error = fedmc.rmse(judged, U, V)
    fresh = fedmc.fresh_users(learnt, U, V, STEPS, weights[0])
    curvature = [np.linalg.norm(u.T @ u) for u in U]
    return {
        "error": error,
        "raw_error": error * ALL.std(),
        "training_error": fedmc.rmse(learnt, U, V),
        "objective": fedmc.objective(learnt, U, V, *weights),
        "nonzero_users": np.mean([np.mean(u != 0) for u in U]),
        "nonzero_items": np.mean(V != 0),
        "fresh_error": fedmc.rmse(judged, fresh, V),
        "lagrangian": fedmc.lagrangian(state, learnt, BETA, *weights),
        "residual": fedmc.lagrangian_stationarity_squared(state, learnt, BETA, *weights) ** 0.5,
        # 8 (8 + N) L^2 / (p_min p l) with p_min = 2 / p.
        "theory_beta": 8 * (8 + STEPS) * max(curvature) ** 2 / (2 * min(curvature)),
    }


def compare(found, wanted, dtype, tolerance):
    assert set(found) == set(wanted)
    for name, value in found.items():
        assert value.shape == ()
        assert value.dtype == dtype
        assert float(value) == pytest.approx(wanted[name], rel=tolerance), name


@pytest.mark.usefixtures("x64")
def test_measures_equal_the_reference():
    problem = problem_of()
    for seed in (0, 1):
        state = state_of(seed)
        found = everything(solver_of("l1"), problem, as_state(state, jnp.float64))
        compare(found, truth("l1", state), jnp.float64, 1e-12)


@pytest.mark.thorough
def test_measures_in_single_precision():
    state = state_of()
    found = everything(solver_of("l2"), problem_of(), as_state(state, jnp.float32))
    compare(found, truth("l2", state), jnp.float32, 1e-5)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_the_residual_is_zero_at_a_stationary_point():
    """With zero factors, Y = -gradient = 0 and W = V: no direction pulls, not even at a kink."""
    zero = {
        "U": [np.zeros((size, RANK)) for size in SIZES],
        "W": np.zeros((len(SIZES), ITEMS, RANK)),
        "Y": np.zeros((len(SIZES), ITEMS, RANK)),
        "V": np.zeros((ITEMS, RANK)),
    }
    found = everything(solver_of("l1"), problem_of(), as_state(zero, jnp.float64))
    assert float(found["residual"]) == 0
    assert float(found["training_error"]) == pytest.approx(1, rel=1e-12)
    assert float(found["nonzero_users"]) == float(found["nonzero_items"]) == 0
    assert float(found["lagrangian"]) == pytest.approx(float(found["objective"]), rel=1e-12)


@pytest.mark.thorough
def test_nothing_held_out_is_not_a_number():
    """Without a warning, which would be an error here."""
    nothing = [([], [], [])] * 3
    factors = as_state(state_of(), jnp.float32).factors
    found = jax.jit(factor_error)(problem_of(nothing), factors)
    assert np.isnan(found["error"])
    assert np.isnan(found["raw_error"])
    wanted = fedmc.rmse(standard(LEARNT), state_of()["U"], state_of()["V"])
    assert float(found["training_error"]) == pytest.approx(wanted, rel=1e-5)


def test_sums_over_many_ratings_are_exact_in_single_precision():
    rng = np.random.default_rng(2)
    number, users, items = 2**20, 500, 300
    u, v = (rng.standard_normal((size, 3)).astype(np.float32) for size in (users, items))
    rows, columns = rng.integers(0, users, number), rng.integers(0, items, number)
    values = rng.standard_normal(number).astype(np.float32)
    shape = (number // BLOCK, BLOCK)
    listed = ClientRatings(
        jnp.asarray(rows.reshape(shape), jnp.int32),
        jnp.asarray(columns.reshape(shape), jnp.int32),
        jnp.asarray(values.reshape(shape)),
        jnp.zeros(1, jnp.int32),
        jnp.full(1, number, jnp.int32),
        users,
        items,
        shape[0],
    )
    found = jax.jit(squared_error)(listed, Factors(jnp.asarray(u)[None], jnp.asarray(v)))
    exact = np.sum(((u[rows].astype(float) * v[columns]).sum(-1) - values) ** 2)
    assert float(found) == pytest.approx(exact, rel=2e-7)


@pytest.mark.thorough
def test_factors_shared_or_each_client_s_own():
    rng = np.random.default_rng(3)
    users, own = rng.standard_normal((3, 4, 2)), rng.standard_normal((3, 5, 2))
    client, user, item = np.array([0, 2, 1]), np.array([3, 0, 2]), np.array([4, 1, 0])
    numbers = [jnp.asarray(part, jnp.int32) for part in (client, user, item)]
    values = jnp.asarray([1.0, 2.0, 3.0])
    for items, seen in ((own, own[client, item]), (own[0], own[0][item])):
        factors = Factors(jnp.asarray(users), jnp.asarray(items))
        found = factors.residuals(*numbers, values)
        wanted = (users[client, user] * seen).sum(-1) - np.asarray(values)
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
