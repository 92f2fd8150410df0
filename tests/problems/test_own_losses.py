"""Sample losses of a user's own through regression that agrees, and its solvers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import losses, privacy, solvers
from fedjax_admm.graphs import from_edges
from fedjax_admm.problems import consensus_regression, draw_consensus_regression
from tests.losses.own import Insensitive, PseudoHuber, SquaredHinge, changed

SIZES = (4, 6, 3, 5)
GRAPH = from_edges(4, [(0, 1), (1, 2), (2, 3), (0, 3)])


def problem(loss, l2=0.4):
    rng = np.random.default_rng(2)
    x = [rng.standard_normal((m, 3)) for m in SIZES]
    y = [part @ np.array([1.0, -2.0, 0.5]) + rng.standard_normal(len(part)) for part in x]
    y = [np.where(part < 0, -1.0, 1.0) for part in y] if loss.labels else y
    return consensus_regression(GRAPH, x, y, loss, l2=l2)


def reaches(solver, task, rounds):
    found = fa.run(solver, task, jax.random.key(0), rounds=rounds).estimate
    return float(jnp.max(jnp.abs(found - task.optimum[None])))


@pytest.mark.thorough
def test_a_smooth_loss_is_solved_by_all_three(x64):
    task = problem(PseudoHuber(0.7))
    total = jax.grad(lambda w: jnp.sum(task.values(jnp.broadcast_to(w, (4, 3)))))
    np.testing.assert_allclose(total(task.optimum), 0, atol=1e-10)
    exact = privacy.exact_release()
    assert reaches(solvers.p_admm(exact, rho=0.5, newton_steps=5), task, 400) < 1e-8
    first_order = solvers.private_networked_admm(
        exact, rho=0.5, step_size=fa.schedules.constant(0.3)
    )
    assert reaches(first_order, task, 400) < 1e-8
    assert reaches(solvers.private_subgradient(exact, step_size=0.5), task, 2000) < 0.05


@pytest.mark.thorough
@pytest.mark.parametrize("level", [0.8, 0.2])
def test_quantile_regression_agrees_on_the_pooled_quantiles(level, x64):
    task = problem(losses.quantile(level), l2=0.0)
    exact = privacy.exact_release()
    solver = solvers.private_networked_admm(exact, rho=0.5, step_size=0.5)
    assert reaches(solver, task, 2000) < 0.05
    with pytest.raises(fa.InputError, match="must be smooth for P-ADMM, but it is Quantile"):
        fa.run(solvers.p_admm(exact), task, jax.random.key(0), rounds=1)


@pytest.mark.thorough
@pytest.mark.parametrize("loss", [SquaredHinge(), losses.huber(), losses.logistic()])
def test_other_smooth_losses_are_solved_by_p_admm(loss, x64):
    assert reaches(solvers.p_admm(privacy.exact_release(), rho=0.5), problem(loss), 400) < 1e-6


@pytest.mark.thorough
def test_an_optimum_that_nobody_can_compute_is_nan():
    task = problem(Insensitive())
    assert np.all(np.isnan(task.optimum))
    solver = solvers.private_networked_admm(privacy.exact_release(), rho=0.5, step_size=0.3)
    found = fa.run(solver, task, jax.random.key(0), rounds=50).estimate
    before = float(jnp.sum(task.values(task.start)))
    assert float(jnp.sum(task.values(found))) < 0.8 * before


def test_a_loss_that_is_not_what_it_says_is_refused():
    wrong = changed(PseudoHuber, slope=lambda self, p, y: y - p)
    with pytest.raises(
        fa.InputError, match="loss must have a slope that is the derivative of its value, but"
    ):
        problem(wrong)
    with pytest.raises(fa.InputError, match="loss must have a slope"):
        draw_consensus_regression(jax.random.key(0), GRAPH, wrong)
    with pytest.raises(fa.InputError, match="must hold -1 and 1"):
        consensus_regression(GRAPH, [np.ones((1, 2))] * 4, [[0.5]] * 4, SquaredHinge())
