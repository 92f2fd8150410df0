"""What is recorded of clients that agree, against plain NumPy, and what it means."""

import math
from typing import NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import graphs, losses
from fedjax_admm._run._rounds import run
from fedjax_admm.measures import (
    consensus_error,
    consensus_gap,
    consensus_releases,
)
from fedjax_admm.participation import bernoulli
from fedjax_admm.privacy import gaussian_release, ledger, zcdp_plan
from fedjax_admm.problems import _consensus as consensus, consensus_regression
from fedjax_admm.schedules import power_decay
from fedjax_admm.solvers import private_networked_admm
from tests.reference import zcdp as reference

CLIENTS, DIM, SIZES = 4, 3, (5, 2, 6, 3)
ROUNDS = 8


class State(NamedTuple):
    """Models, with and without noise, how often each client has sent, and what it spent."""

    w: jax.Array
    v: jax.Array
    releases: jax.Array | None = None
    spent: jax.Array | None = None
    nominal: jax.Array | None = None
    tails: jax.Array | None = None


class Solver:
    """As much of a solver as measures look at."""

    def estimate(self, state):
        return state.v

    def unprotected(self, state):
        return state.w


def draw(seed=0):
    rng = np.random.default_rng(seed)
    x = [rng.standard_normal((m, DIM)) for m in SIZES]
    return x, [part @ np.array([1.0, -2.0, 0.5]) + rng.standard_normal(len(part)) for part in x]


def minimiser(l2):
    """Of ridge regression, every client weighing alike."""
    gram, right = l2 * np.eye(DIM), np.zeros(DIM)
    for x, y in zip(*draw(), strict=True):
        gram += x.T @ x / len(y)
        right += x.T @ y / len(y)
    return np.linalg.solve(gram, right)


def problem_of(dtype, l2=1.0):
    """Ridge regression with its optimum from the normal equations."""
    x, y = ([np.asarray(part, dtype) for part in parts] for parts in draw())
    optimum = jnp.asarray(minimiser(l2), dtype)
    with mock.patch.object(consensus, "pooled_optimum", return_value=optimum):
        graph = graphs.star(CLIENTS)
        return consensus_regression(graph, x, y, losses.squared(), l2=l2)


def state_of(dtype, seed=1):
    w, v = np.random.default_rng(seed).standard_normal((2, CLIENTS, DIM))
    return State(
        jnp.asarray(w, dtype),
        jnp.asarray(v, dtype),
        jnp.int32([3, 0, 5, 5]),
        jnp.asarray([0.1, 0.0, 0.2, 0.2], dtype),
        jnp.zeros(CLIENTS, bool),
        jnp.full(CLIENTS, 1e-20, dtype),
    )


@pytest.mark.thorough
def test_errors_are_those_of_the_reference(dtype):
    state = state_of(dtype)
    measured = consensus_error(Solver(), problem_of(dtype), state)
    assert set(measured) == {"unprotected_error", "released_error"}
    for name, models in (("unprotected_error", state.w), ("released_error", state.v)):
        assert (measured[name].shape, measured[name].dtype) == ((), dtype)
        expected = reference.error(np.asarray(models, float), minimiser(1.0))
        assert float(measured[name]) == pytest.approx(expected, rel=1e-5)
    assert float(measured["unprotected_error"]) != pytest.approx(
        float(measured["released_error"]), rel=1e-2
    )


def test_the_optimum_has_no_error(dtype):
    problem = problem_of(dtype)
    models = jnp.broadcast_to(problem.optimum, (CLIENTS, DIM))
    measured = consensus_gap(Solver(), problem, State(models, models))
    assert float(measured["unprotected_error"]) == float(measured["released_error"]) == 0
    assert float(measured["gap"]) == pytest.approx(0, abs=1e-5)


def test_the_gap_is_that_of_the_mean_model(dtype):
    state, (x, y) = state_of(dtype), draw()
    problem = problem_of(dtype)
    measured = consensus_gap(Solver(), problem, state)
    assert set(measured) == {"unprotected_error", "released_error", "gap"}
    mean = np.asarray(state.w, float).mean(0)
    values = [
        sum(
            reference.client_value("squared", x[k], y[k], model, 0.0, 1.0, CLIENTS)
            for k in range(CLIENTS)
        )
        for model in (mean, minimiser(1.0))
    ]
    assert (measured["gap"].shape, measured["gap"].dtype) == ((), dtype)
    assert float(measured["gap"]) == pytest.approx(values[0] - values[1], rel=1e-4)
    # Clients that disagree around the optimum have an error but no gap.
    spread = jnp.asarray([[1.0], [-1.0], [2.0], [-2.0]], dtype)
    models = problem.optimum[None] + spread
    measured = consensus_gap(Solver(), problem, State(models, models))
    assert float(measured["gap"]) == pytest.approx(0, abs=1e-4)
    assert float(measured["unprotected_error"]) == pytest.approx(
        10 * DIM / (minimiser(1.0) ** 2).sum(), rel=1e-4
    )


def test_the_ledger_has_the_releases_of_every_client(dtype):
    state = state_of(dtype)
    measured = consensus_releases(Solver(), problem_of(dtype), state)
    budget = {"releases", "spent", "nominal", "tails"}
    assert set(measured) == {"unprotected_error", "released_error", *budget}
    for name in budget:
        np.testing.assert_array_equal(measured[name], getattr(state, name))
    np.testing.assert_array_equal(measured["releases"], [3, 0, 5, 5])
    assert measured["releases"].dtype == jnp.int32
    for name, value in consensus_error(Solver(), problem_of(dtype), state).items():
        assert float(measured[name]) == float(value)


def test_an_optimum_of_zero_gives_no_number(dtype):
    """There is no error relative to nothing."""
    x = [np.ones((m, DIM), dtype) for m in SIZES]
    y = [np.zeros(m, dtype) for m in SIZES]
    zero = jnp.zeros(DIM, dtype)
    with mock.patch.object(consensus, "pooled_optimum", return_value=zero):
        problem = consensus_regression(graphs.star(CLIENTS), x, y, losses.squared(), l2=1.0)
    models = jnp.zeros((CLIENTS, DIM), dtype)
    measured = consensus_error(Solver(), problem, State(models, models + 1))
    assert math.isnan(float(measured["unprotected_error"]))
    assert math.isinf(float(measured["released_error"]))


def test_measures_of_a_run(x64):
    """Releases count who took part, and the accountant takes them as they are."""
    plan = zcdp_plan(4.0, 1e-5, ROUNDS, 0.9)
    solver = private_networked_admm(
        gaussian_release(plan, 2.0), rho=1.0, step_size=power_decay(0.5, 0.5)
    )
    problem = problem_of(np.float64)
    result = run(
        solver,
        problem,
        jax.random.key(3),
        rounds=ROUNDS,
        participation=bernoulli(0.6),
        measure=consensus_releases,
    )
    releases = np.asarray(result.trace["releases"])
    assert releases.shape == (ROUNDS, CLIENTS)
    steps = np.diff(releases, axis=0, prepend=np.zeros((1, CLIENTS), int))
    assert set(steps.ravel()) == {0, 1}
    np.testing.assert_array_equal(releases[-1], result.state.solver.releases)
    spent = ledger(result.trace, plan.delta)
    assert spent.epsilon.shape == (ROUNDS, CLIENTS)
    assert (np.diff(spent.epsilon, axis=0) >= 0).all()
    # Nobody has taken part in all rounds, so nobody has spent everything.
    assert (spent.epsilon[-1] < plan.epsilon).all()
    budgets = [plan.budgets[:n].sum() for n in releases[-1]]
    np.testing.assert_allclose(spent.budget[-1], budgets, rtol=1e-12)
    own = np.asarray(solver.unprotected(result.state.solver))
    last = reference.error(own, minimiser(1.0))
    assert float(result.trace["unprotected_error"][-1]) == pytest.approx(last, rel=1e-9)
    sent = reference.error(np.asarray(result.estimate), minimiser(1.0))
    assert float(result.trace["released_error"][-1]) == pytest.approx(sent, rel=1e-9)
