"""Measures for any solver: against formulas written out, and as residuals of `run_until`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import measures, penalties, solvers
from tests.solvers.quadratics import draw, minimizer, quadratics


@pytest.fixture(scope="module")
def finished():
    """Return FedADMM with l1 after some rounds, its problem and its state."""
    with jax.enable_x64(True):
        problem = quadratics((1.0, -2.0, 0.5, 0.0, 3.0))
        solver = solvers.fed_admm(
            0.5, local=solvers.local_prox(), regularizer=penalties.l1(jnp.asarray(0.05))
        )
        run = fa.run(solver, problem, jax.random.key(0), rounds=7)
        return solver, problem, run.state.solver


def soft(v, step):
    return np.sign(v) * np.maximum(np.abs(v) - step, 0)


def test_against_formulas(finished):
    with jax.enable_x64(True):
        check_formulas(*finished)


def check_formulas(solver, problem, state):
    hessians, linear = draw()
    w, own = np.asarray(state.server), np.asarray(state.clients.models)
    losses = [w @ a @ w / 2 - b @ w for a, b in zip(hessians, linear, strict=True)]
    slopes = np.array([a @ w - b for a, b in zip(hessians, linear, strict=True)])
    own_slopes = np.array([a @ x - b for a, b, x in zip(hessians, linear, own, strict=True)])
    expected = {
        measures.objective: np.mean(losses) + 0.05 * np.abs(w).sum(),
        measures.stationarity: np.linalg.norm(w - soft(w - slopes.mean(0), 0.05)),
        measures.dual_residual: np.linalg.norm(w - soft(w - own_slopes.mean(0), 0.05)),
        measures.disagreement: np.sqrt(((own - own.mean(0)) ** 2).sum() / 10),
        measures.primal_residual: np.sqrt(((own - w) ** 2).sum() / 10),
    }
    for measure, value in expected.items():
        (seen,) = measure(solver, problem, state).values()
        np.testing.assert_allclose(seen, value, rtol=1e-10, err_msg=measure.__name__)


def test_a_measure_stops_a_run():
    with jax.enable_x64(True):
        run = fa.run_until(
            solvers.fed_admm(0.5, local=solvers.local_prox()),
            quadratics(),
            jax.random.key(0),
            residual=measures.stationarity,
            tolerance=1e-8,
            max_rounds=1000,
        )
        assert 0 < run.status.converged < 1000
        assert run.trace["residual"] <= 1e-8
        np.testing.assert_allclose(run.estimate, minimizer(), atol=1e-6)


def two_numbers(solver, problem, state):
    return {"a": jnp.zeros(()), "b": jnp.zeros(())}


def test_a_measure_of_two_numbers_stops_nothing():
    with pytest.raises(fa.InputError, match=r"^residual must return one number, but it returns "):
        fa.run_until(
            solvers.fed_admm(0.5),
            quadratics(),
            jax.random.key(0),
            residual=two_numbers,
            tolerance=1e-8,
            max_rounds=10,
        )
