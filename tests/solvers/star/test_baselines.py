"""The baselines: federated subgradient descent and the centralised reference."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import participation, schedules
from fedjax_admm.measures import total_loss
from fedjax_admm.solvers import subgradient_steps
from tests.reference import fsmdm as reference
from tests.solvers.quadratics import quadratics

STEPS = {
    "dsrl_16_sqrt": ("16 k^-0.5", reference.sqrt_step(16.0)),
    "dsrl_100_inverse": ("100 k^-1", reference.inverse_step(100.0)),
    "dsrl_1_sqrt": ("1 k^-0.5", reference.sqrt_step(1.0)),
}


def server(solver, problem, state):
    return {"w": state.server}


@pytest.mark.kin(2)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_subgradient_trajectory_is_the_reference(name, asynchronous):
    family, step = STEPS[name]
    anchors, distances, _ = reference.outlier_trial(2025, 2, 0.2)
    masks, process = None, participation.everyone()
    if asynchronous:
        masks = np.random.default_rng(1).random((80, 21)) < 0.5
        process = participation.replay(masks)
    truth = reference.dsrl(anchors, distances, rounds=80, step=step, masks=masks)
    problem = fa.problems.localization(anchors, distances, start=np.zeros(3))
    trace = fa.run(
        fa.solvers.fed_subgradient(subgradient_steps()[family]),
        problem,
        jax.random.key(0),
        rounds=80,
        participation=process,
        measure=server,
    ).trace
    np.testing.assert_allclose(trace["w"], truth, atol=1e-9)


def test_default_step_and_mistake():
    default = fa.solvers.fed_subgradient().step_size
    assert float(default(jnp.int32(4))) == pytest.approx(8.0)
    with pytest.raises(fa.InputError, match="step_size must be a schedule, a function"):
        fa.solvers.fed_subgradient("3")


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_subgradient_steps_with_a_regulariser_on_a_problem_of_ones_own():
    """Constant steps of everybody are the proximal gradient method where losses are smooth."""
    l1 = fa.penalties.l1(0.05)
    solver = fa.solvers.fed_subgradient(schedules.constant(0.8), regularizer=l1)
    other = fa.solvers.fed_avg(0.8, regularizer=l1)
    problem, key = quadratics(), jax.random.key(0)
    trace = fa.run(solver, problem, key, rounds=60, measure=server).trace
    wanted = fa.run(other, problem, key, rounds=60).estimate
    np.testing.assert_allclose(trace["w"][-1], wanted, rtol=0, atol=1e-14)
    assert np.abs(trace["w"][0]).max() > 0.1


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_a_regulariser_counts_as_much_as_the_losses_of_those_who_take_part():
    l1, problem = fa.penalties.l1(0.05), quadratics(np.ones(5))
    solver = fa.solvers.fed_subgradient(schedules.constant(0.8), regularizer=l1)
    state = solver.init(problem, jax.random.key(0))
    slopes = problem.gradients(jnp.ones((10, 5)))
    for present in (0, 3):
        active = jnp.arange(10) < present
        new = solver.step(
            problem, state, fa.RoundInfo(jnp.int32(0), jax.random.key(present), active)
        )
        walked = jnp.ones(5) - 0.08 * jnp.sum(slopes[:present], 0)
        np.testing.assert_allclose(new.server, l1.prox(walked, 0.08 * present), rtol=0, atol=1e-15)


class TestCentralised:
    @pytest.mark.usefixtures("x64")
    @pytest.mark.parametrize(
        ("draw", "level"), [(reference.outlier_trial, 0.3), (reference.cauchy_trial, 1.0)]
    )
    def test_is_the_reference(self, draw, level):
        anchors, distances, _ = reference.stack_trials(draw, 2025, 12, level)
        truth = reference.centralised_batch(anchors, distances)
        found = jax.jit(jax.vmap(lambda a, d: fa.direct.locate_centrally(build(a, d))))(
            jnp.asarray(anchors), jnp.asarray(distances)
        )
        np.testing.assert_allclose(found, truth, atol=1e-7)

    @pytest.mark.thorough
    @pytest.mark.parametrize("dim", [1, 2, 3])
    def test_exact_ranges_are_solved_exactly(self, dim, dtype):
        problem = fa.problems.draw_localization(
            jax.random.key(dim), fa.problems.outlier_noise(0.1), clients=25, dim=dim
        )
        found = jax.jit(fa.direct.locate_centrally)(problem)
        assert found.dtype == dtype
        tolerance = {"float32": 1e-4, "float64": 1e-7}[dtype.name]
        np.testing.assert_allclose(found, problem.target, atol=tolerance)

    @pytest.mark.thorough
    def test_costs_no_more_than_the_truth_or_a_fine_grid(self):
        problem = fa.problems.draw_localization(
            jax.random.key(9), fa.problems.cauchy_noise(2.0), clients=9, dim=2
        )
        found = float(total_loss(problem, fa.direct.locate_centrally(problem)))
        assert found <= float(total_loss(problem, problem.target)) + 1e-3
        axis = np.linspace(-33, 33, 331, dtype=np.float32)
        points = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
        assert (
            found
            <= float(jnp.min(jax.vmap(partial(total_loss, problem))(jnp.asarray(points)))) + 1e-3
        )

    def test_mistakes_get_a_sentence(self):
        problem = fa.problems.draw_localization(jax.random.key(0), fa.problems.no_noise(), dim=2)
        with pytest.raises(fa.InputError, match="starts must be at most the 9 grid points"):
            fa.direct.locate_centrally(problem, points_per_axis=3, starts=10)


def build(anchors, distances):
    return fa.problems.Localization(anchors, distances, jnp.zeros(3))


@pytest.mark.thorough
def test_federated_methods_agree_with_the_centralised_one_without_noise():
    problem = fa.problems.draw_localization(jax.random.key(1), fa.problems.no_noise())
    for solver in (
        fa.solvers.fsmdm("tuned"),
        fa.solvers.fed_subgradient(schedules.power_decay(100.0, 1.0)),
    ):
        estimate = fa.run(solver, problem, jax.random.key(0), rounds=2000).estimate
        assert np.linalg.norm(estimate - fa.direct.locate_centrally(problem)) < 0.2
