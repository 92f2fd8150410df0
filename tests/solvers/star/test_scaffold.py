"""SCAFFOLD on quadratic clients: trajectories, the mean of controls, limits."""

import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import penalties
from fedjax_admm.solvers import fed_avg, scaffold
from tests.reference import star_averaging as reference
from tests.solvers.quadratics import draw, minimizer, quadratics
from tests.solvers.star.quadratic_runs import (
    PRESENT,
    ROUNDS,
    START,
    WEIGHT,
    follow,
    is_the_reference,
    scaled,
)

thorough = pytest.mark.thorough


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("steps", "weight", "present"),
    [
        (5, WEIGHT, "some"),
        pytest.param(5, 0.0, "some", marks=thorough),
        pytest.param(5, 0.0, "everybody", marks=thorough),
        pytest.param(1, WEIGHT, "everybody", marks=thorough),
        pytest.param(1, 0.0, "some", marks=thorough),
    ],
)
def test_trajectory_is_the_reference(steps, weight, present):
    options = {"local_steps": steps, "server_step": 0.9}
    solver = scaffold(0.2, regularizer=penalties.l1(weight) if weight else None, **options)
    trace = follow(solver, present=present).trace
    masks = PRESENT[present][:ROUNDS]
    wanted = reference.scaffold(*draw(), START, masks, 0.2, steps, 0.9, weight)
    is_the_reference(trace, wanted)
    # Whoever took part: what the server knows is the mean of what all clients know.
    mean = np.mean(trace["controls"], 1)
    np.testing.assert_allclose(trace["control"], mean, rtol=0, atol=1e-14)


@thorough
@pytest.mark.usefixtures("x64")
def test_ends_at_the_minimiser_with_the_gradients_there():
    A, b = draw()
    state = follow(scaffold(0.2), rounds=400).state.solver
    np.testing.assert_allclose(state.server.model, minimizer(), rtol=0, atol=6e-15)
    slopes = A @ minimizer() - b
    np.testing.assert_allclose(state.clients.control, slopes, rtol=0, atol=1e-14)
    np.testing.assert_allclose(state.server.control, 0, rtol=0, atol=1e-14)


@thorough
@pytest.mark.usefixtures("x64")
def test_one_step_of_everybody_is_gradient_descent():
    one = scaffold(0.4, local_steps=1, server_step=1.5)
    found = follow(one, present="everybody").trace["model"]
    wanted = follow(fed_avg(0.4 * 1.5), present="everybody").trace["server"]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-14)


@thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("present", PRESENT)
def test_a_regulariser_is_exact_with_one_step(present):
    solver = scaffold(0.5, local_steps=1, regularizer=penalties.l1(WEIGHT))
    found = follow(solver, rounds=800, present=present).estimate
    np.testing.assert_allclose(found, reference.lasso(*draw(), WEIGHT), rtol=0, atol=1e-13)


@thorough
@pytest.mark.usefixtures("x64")
def test_a_regulariser_is_biased_in_the_order_of_the_rate_with_several_steps():
    wanted = reference.lasso(*draw(), WEIGHT)
    biases = []
    for rate in (0.1, 0.05, 0.025):
        solver = scaffold(rate, regularizer=penalties.l1(WEIGHT))
        found = follow(solver, rounds=1000, present="everybody", measure=None).estimate
        biases.append(np.linalg.norm(found - wanted))
    assert biases[0] > 1e-3
    np.testing.assert_allclose(np.divide(biases[:-1], biases[1:]), 2, rtol=0.25)


@thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("factor", [1e3, 1e-3])
def test_the_builder_without_arguments_converges_at_every_scale(factor):
    found = follow(scaffold(), scaled(factor), 400, measure=None).estimate
    np.testing.assert_allclose(found, minimizer(), rtol=0, atol=1e-12)


def test_numbers_sent_and_mistakes():
    assert scaffold().traffic(quadratics()) == fa.Traffic(up=10, down=10)
    with pytest.raises(fa.InputError, match="rate must be greater than 0, but it is 0"):
        scaffold(0.0)
    with pytest.raises(fa.InputError, match="local_steps must be at least 1, but it is 0"):
        scaffold(local_steps=0)
    with pytest.raises(fa.InputError, match="regularizer must be a penalty such as"):
        scaffold(regularizer="l1")
