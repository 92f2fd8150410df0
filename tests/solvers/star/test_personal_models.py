"""Ditto, pFedMe and APFL on quadratic clients: trajectories, limits, messages, mistakes."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import fedjax_admm as fa
from fedjax_admm import measures, messages
from fedjax_admm.solvers import (
    apfl,
    ditto,
    fed_admm,
    fed_avg,
    local_gradient,
    local_optimizer,
    local_prox,
    p_fed_me,
    scaffold,
)
from tests.reference import star_personal as reference
from tests.reference.star_averaging import fed_prox_limit
from tests.solvers.quadratics import draw, minimizer, quadratics
from tests.solvers.star.quadratic_runs import PRESENT, ROUNDS, START, follow, is_the_reference

GRADIENT = {"rate": 0.4, "steps": 3}
thorough = pytest.mark.thorough


def models(solver, problem, state):
    """Measure the shared model, and each client's own."""
    shown = {"shared": solver.judged(problem, state)[1], "own": solver.estimate(state)}
    weights = getattr(getattr(state, "clients", None), "weights", None)
    return shown if weights is None else shown | {"weights": weights}


METHODS = {
    "Ditto": (
        lambda: ditto(fed_avg(0.2, local_steps=5), 0.5, local=local_gradient(**GRADIENT)),
        lambda *data: reference.ditto(*data, 0.2, 5, 0.5, **GRADIENT),
    ),
    "Ditto, exact": (
        lambda: ditto(fed_avg(0.2, local_steps=5), 0.5, local=local_prox()),
        lambda *data: reference.ditto(*data, 0.2, 5, 0.5),
    ),
    "pFedMe": (
        lambda: p_fed_me(
            0.7, 0.6, server_step=1.3, local_steps=4, local=local_gradient(**GRADIENT)
        ),
        lambda *data: reference.p_fed_me(*data, 0.7, 0.6, 1.3, 4, **GRADIENT),
    ),
    "pFedMe, exact": (
        lambda: p_fed_me(0.7, 0.6, local_steps=2, local=local_prox()),
        lambda *data: reference.p_fed_me(*data, 0.7, 0.6, 1.0, 2),
    ),
    "APFL": (
        lambda: apfl(0.2, mixing=0.3, local_steps=4),
        lambda *data: reference.apfl(*data, 0.2, 0.3, True, 4),
    ),
    "APFL, fixed weights": (
        lambda: apfl(0.2, mixing=0.3, adaptive=False, local_steps=4),
        lambda *data: reference.apfl(*data, 0.2, 0.3, False, 4),
    ),
}
EXTRA = ("Ditto, exact", "pFedMe, exact", "APFL, fixed weights")


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("name", "present"),
    [
        pytest.param(name, present, marks=[thorough] * (name in EXTRA or present != "some"))
        for name in METHODS
        for present in PRESENT
    ],
)
def test_trajectory_is_the_reference(name, present):
    build, by_loop = METHODS[name]
    trace = follow(build(), present=present, measure=models).trace
    wanted = by_loop(*draw(), START, PRESENT[present][:ROUNDS])
    fixed = wanted.pop("weights") if name == "APFL, fixed weights" else None
    is_the_reference(trace, wanted)
    if fixed is not None:
        np.testing.assert_array_equal(trace["weights"], fixed)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_weights_stay_between_both_models():
    """With long steps they reach either end, in the loop as well."""
    solver = apfl(0.9, mixing=0.5, local_steps=3)
    weights = follow(solver, measure=models).trace["weights"]
    wanted = reference.apfl(*draw(), START, PRESENT["some"][:ROUNDS], 0.9, 0.5, True, 3)
    np.testing.assert_allclose(weights, wanted["weights"], rtol=0, atol=1e-9)
    assert weights.min() >= 0
    assert weights.max() == 1


@thorough
@pytest.mark.usefixtures("x64")
def test_ditto_ends_at_the_proximal_points_of_the_shared_limit():
    """Around a solver without bias, whoever takes part, and however few steps a client takes."""
    A, b = draw()
    run = follow(ditto(scaffold(0.2), 0.5), rounds=800, measure=None)
    wanted = [
        np.linalg.solve(a + 0.5 * np.eye(5), c + 0.5 * minimizer())
        for a, c in zip(A, b, strict=True)
    ]
    np.testing.assert_allclose(run.estimate, wanted, rtol=0, atol=1e-9)


@thorough
@pytest.mark.usefixtures("x64")
def test_p_fed_me_minimises_the_mean_of_the_envelopes():
    """`F_i` has the Hessian `A_i (A_i + lambda)^-1 lambda`, so that the limit is FedProx's."""
    A, b = draw()
    penalty, unit = 0.7, np.eye(5)
    solver = p_fed_me(penalty, local_steps=1, local=local_gradient(steps=2))
    run = follow(solver, rounds=1000, present="everybody", measure=models)
    shared = fed_prox_limit(A, b, penalty)
    np.testing.assert_allclose(run.trace["shared"][-1], shared, rtol=0, atol=1e-9)
    own = [
        np.linalg.solve(a + penalty * unit, c + penalty * shared) for a, c in zip(A, b, strict=True)
    ]
    np.testing.assert_allclose(run.estimate, own, rtol=0, atol=1e-9)


@thorough
@pytest.mark.usefixtures("x64")
def test_apfl_of_one_step_ends_at_each_clients_own_minimiser():
    A, b = draw()
    solver = apfl(1.0, mixing=0.9, adaptive=False, local_steps=1)
    run = follow(solver, rounds=1000, present="everybody", measure=None)
    own = [np.linalg.solve(a, c) for a, c in zip(A, b, strict=True)]
    np.testing.assert_allclose(run.estimate, own, rtol=0, atol=1e-6)


@pytest.mark.usefixtures("x64")
def test_the_ends_of_the_mixture_are_fed_avg_and_learning_alone():
    shared = follow(fed_avg(0.2, local_steps=3)).estimate
    run = follow(apfl(0.2, mixing=0.0, adaptive=False, local_steps=3))
    np.testing.assert_allclose(run.estimate, np.tile(shared, (10, 1)), rtol=0, atol=1e-12)
    alone = follow(apfl(0.2, mixing=1.0, adaptive=False, local_steps=3)).estimate
    without = follow(
        ditto(fed_avg(0.2), 0.0, local=local_gradient(0.2, steps=3)), measure=None
    ).estimate
    np.testing.assert_allclose(alone, without, rtol=0, atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_the_shared_model_of_ditto_is_that_of_the_solver_inside():
    inside = fed_avg(local=local_optimizer(optax.adam(0.1), steps=2, keep=True))
    around = ditto(inside, 0.5, local=local_optimizer(optax.adam(0.1), steps=2, keep=True))
    run = follow(around, measure=models)
    np.testing.assert_array_equal(run.trace["shared"], follow(inside).trace["server"])
    assert around.traffic(quadratics()) == inside.traffic(quadratics())


def seen(solver, problem, state):
    """Measure both kinds of models, and what measures say of them."""
    return {
        **models(solver, problem, state),
        **measures.objective(solver, problem, state),
        **measures.primal_residual(solver, problem, state),
        **measures.dual_residual(solver, problem, state),
    }


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    "build",
    [
        lambda: ditto(fed_avg(0.2), 0.5),
        pytest.param(lambda: p_fed_me(0.5), marks=thorough),
        pytest.param(lambda: apfl(0.2), marks=thorough),
    ],
)
def test_measures_see_both_kinds_of_models(build):
    """The shared model has the objective; the clients' own are compared with it."""
    A, b = draw()
    trace = follow(build(), measure=seen).trace
    last = {name: np.asarray(values)[-1] for name, values in trace.items()}
    shared, own = last["shared"], last["own"]
    losses = [shared @ a @ shared / 2 - c @ shared for a, c in zip(A, b, strict=True)]
    slopes = np.mean([a @ v - c for a, c, v in zip(A, b, own, strict=True)], axis=0)
    spread = np.sqrt(((own - shared) ** 2).sum() / 10)
    np.testing.assert_allclose(last["objective"], np.mean(losses), rtol=1e-9)
    np.testing.assert_allclose(last["primal"], spread, rtol=1e-9)
    np.testing.assert_allclose(last["dual"], np.linalg.norm(slopes), rtol=1e-9)


class Absolute(NamedTuple):
    """A problem without a proximal map."""

    start: jax.Array
    num_clients: int = 2

    def gradients(self, points, key=None):
        return jnp.sign(points)


def test_numbers_sent_and_mistakes():
    for solver in (apfl(), p_fed_me(), ditto(fed_avg())):
        assert solver.traffic(quadratics()) == fa.Traffic(up=5, down=5)
    with pytest.raises(fa.InputError, match=r"mixing must be at most 1, but it is 1\.5"):
        apfl(mixing=1.5)
    with pytest.raises(fa.InputError, match="penalty must be greater than 0, but it is 0"):
        ditto(fed_avg(), 0.0, local=local_prox())
    with pytest.raises(fa.InputError, match="local_steps must be at least 1, but it is 0"):
        p_fed_me(local_steps=0)
    with pytest.raises(fa.InputError, match="must let models reach the clients as they are"):
        ditto(fed_avg(exchange=messages.exchange(down=messages.cast("bfloat16"))))
    with pytest.raises(fa.InputError, match="must be a solver such as"):
        ditto(fed_avg)
    solver, problem = ditto(fed_admm(local=local_prox())), Absolute(jnp.ones(1))
    with pytest.raises(fa.InputError, match="needs a problem with prox_memory and prox"):
        fa.run(solver, problem, jax.random.key(0), rounds=1)
