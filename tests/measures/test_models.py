"""Measures for any solver: against formulas written out, and as residuals of `run_until`."""

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import measures, penalties, solvers
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.solvers.wrappers._wrapper import SolverWrapper
from tests.solvers.quadratics import Quadratics, draw, minimizer, quadratics


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
    w, own = np.asarray(state.server.model), np.asarray(state.clients.models)
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


@pytree_dataclass
class Absolute(Quadratics):
    """`f_i(x) = sum_j |x_j - b_ij|`, whose mean is kinked at its minimiser, the median."""

    def values(self, points):
        return jnp.sum(jnp.abs(points - self.linear), -1)

    def gradients(self, points, key=None):
        return jnp.sign(points - self.linear)

    def prox(self, points, step, memory):
        moved = points - self.linear
        return self.linear + jnp.sign(moved) * jnp.maximum(jnp.abs(moved) - step[:, None], 0), ()

    def take(self, clients):
        return Absolute(self.hessians[clients], self.linear[clients], self.start)


EXACT = {"local": solvers.local_prox()}
SPLITTING = {
    "FedADMM": lambda: solvers.fed_admm(2.0, **EXACT),
    "FedDR": lambda: solvers.fed_dr(0.5, **EXACT),
    "FedPD": lambda: solvers.fed_pd(0.5, **EXACT),
    "Fed-PLT": lambda: solvers.fed_plt(0.5, **EXACT),
}


@pytest.mark.kin(1)
@pytest.mark.parametrize("name", [name for name in SPLITTING if name != "Fed-PLT"])
def test_duals_tell_the_optimum_of_kinked_losses(name):
    with jax.enable_x64(True):
        linear = np.random.default_rng(3).normal(size=(5, 2))
        problem = Absolute(jnp.zeros((5, 1)), jnp.asarray(linear), jnp.zeros(2))
        run = fa.run_until(
            SPLITTING[name](),
            problem,
            jax.random.key(0),
            residual=measures.agreement_residual,
            tolerance=1e-9,
            max_rounds=2000,
        )
        assert run.status.converged > 0
        np.testing.assert_allclose(run.estimate, np.median(linear, 0), atol=1e-8)
        found = measures.stationarity(SPLITTING[name](), problem, run.state.solver)
        # The sign of a distance of 1e-17 is one: a gradient at the optimum is no zero.
        assert found["stationarity"] == 0 or found["stationarity"] > 0.1


def test_slopes_are_gradients_of_smooth_losses():
    with jax.enable_x64(True):
        problem, key = quadratics(), jax.random.key(0)
        for name, build in SPLITTING.items():
            solver = build()
            state = solver.init(problem, key)
            info = fa.RoundInfo(jnp.int32(1), key, jnp.ones(10, bool))
            state = solver.step(problem, state, info)
            slopes, told = (
                problem.gradients(solver.client_models(state)),
                solver.client_slopes(state),
            )
            np.testing.assert_allclose(told, slopes, rtol=1e-9, atol=1e-10, err_msg=name)


@pytree_dataclass
class Around(SolverWrapper):
    """A wrapper that adds nothing."""

    solver: Any

    def estimate(self, state):
        return self.solver.estimate(state.inner)


def test_the_regulariser_is_seen_through_wrappers_and_beside_sums(finished):
    with jax.enable_x64(True):
        solver, problem, state = finished
        around, inside = Around(solver), SimpleNamespace(inner=state)
        for measure in (measures.objective, measures.stationarity, measures.dual_residual):
            (seen,) = measure(around, problem, inside).values()
            (plain,) = measure(solver, problem, state).values()
            assert seen == plain, measure.__name__
        summed = solvers.fsmdm(regularizer=penalties.l1(jnp.asarray(0.05 * 10)))
        tree = solvers.consensus_admm(
            solvers.tree_link(1.0, 1.0, penalties.l1(9.0)), penalties.l1(jnp.asarray(0.05 * 10))
        )
        for other, own in (
            (summed, SimpleNamespace(server=state.server.model)),
            (tree, SimpleNamespace(root=state.server.model)),
        ):
            for measure in (measures.objective, measures.stationarity):
                (seen,) = measure(other, problem, own).values()
                (plain,) = measure(solver, problem, state).values()
                np.testing.assert_allclose(seen, plain, rtol=1e-12, err_msg=measure.__name__)


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
