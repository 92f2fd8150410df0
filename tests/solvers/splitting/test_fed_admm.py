"""FedADMM: trajectories, limits, the traps of its server's step, and its kin as special cases."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import participation, penalties
from fedjax_admm.solvers import fed_admm, local_gradient, local_prox
from tests.reference import fed_admm as reference, star_splitting
from tests.solvers.quadratics import CLIENTS, DIM, Quadratics, draw, masks, minimizer, quadratics

START = np.array([1.0, -2.0, 0.5, 0.0, 3.0])
OWN = np.linspace(0.4, 1.6, CLIENTS)  # a penalty parameter per client
ROUNDS = 60
L1 = 0.125  # the same number in both precisions


def soft(v, step):
    return np.sign(v) * np.maximum(np.abs(v) - L1 * step, 0)


def whole_state(solver, problem, state):
    return {"z": solver.estimate(state), "w": state.clients.models, "y": state.clients.duals}


def slopes(solver, problem, state):
    here = jnp.broadcast_to(solver.estimate(state), state.clients.duals.shape)
    return {
        "z": solver.estimate(state),
        "drift": jnp.mean(jnp.linalg.norm(state.clients.duals + problem.gradients(here), axis=-1)),
    }


def trace(solver, process=None, problem=None, rounds=ROUNDS, measure=whole_state):
    problem = quadratics() if problem is None else problem
    process = participation.everyone() if process is None else process
    found = fa.run(
        solver, problem, jax.random.key(0), rounds=rounds, participation=process, measure=measure
    )
    return {name: np.asarray(value) for name, value in found.trace.items()}


SETTINGS = {
    "gradient, two dual updates, relaxed, l1": (
        {"rho": OWN, "dual_updates": 2, "relaxation": 1.4},
        (0.3, 3),
        penalties.l1(L1),
        soft,
    ),
    "exact": ({"rho": 1.0}, None, None, None),
    "exact, own rho, l1": ({"rho": OWN}, None, penalties.l1(L1), soft),
    "exact, relaxed": ({"rho": 0.7, "relaxation": 1.8}, None, None, None),
}


@pytest.mark.usefixtures("x64")
@pytest.mark.kin(1)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("present", ["some", "all"])
def test_trajectory_of_every_variable_is_the_reference(setting, present):
    numbers, descent, regularizer, prox = SETTINGS[setting]
    mask = masks(ROUNDS) if present == "some" else np.ones((ROUNDS, CLIENTS), bool)
    steps = {} if descent is None else {"rate": descent[0], "steps": descent[1]}
    truth = reference.fed_admm(
        *draw(), rounds=ROUNDS, start=START, masks=mask, prox=prox, **steps, **numbers
    )
    solver = fed_admm(
        local=local_prox() if descent is None else local_gradient(descent[0], steps=descent[1]),
        regularizer=regularizer,
        **numbers,
    )
    found = trace(solver, participation.replay(mask), quadratics(START))
    for name, theirs in zip("zwy", truth, strict=True):
        np.testing.assert_allclose(found[name], theirs, atol=1e-9, err_msg=name)


def test_the_papers_server_step_is_biased_as_said():
    """|S| = 3 and eta = 0.5: grad f(z) = rho (1 - 3 / (0.5 N)) (z - z^0)."""
    hessians, linear = draw()
    rho, eta, drawn = 0.1, 0.5, 3
    mask = np.random.default_rng(0).permuted(np.tile(np.arange(CLIENTS) < drawn, (3000, 1)), axis=1)
    found = reference.fed_admm(
        hessians, linear, rounds=3000, rho=rho, start=START, masks=mask, server_step=eta
    )[0][-1]
    slope = hessians.mean(0) @ found - linear.mean(0)
    pull = rho * (1 - drawn / (eta * CLIENTS)) * (found - START)
    np.testing.assert_allclose(slope, pull, atol=1e-12)
    assert np.linalg.norm(found - minimizer()) > 0.1


@pytest.mark.usefixtures("x64")
def test_zhou_and_li_are_a_round_behind():
    truth = reference.zhou_li(
        *draw(), rounds=ROUNDS, sigma=0.8, r=1.2, steps=3, inner=5, masks=masks()
    )
    solver = fed_admm(0.8, local=local_gradient(0.5, steps=3), dual_updates=5)
    found = trace(solver, participation.replay(masks(ROUNDS)))["z"]
    np.testing.assert_allclose(found[:-1], truth[1:], atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_one_gradient_step_is_the_optimistic_gradient():
    hessians, linear = draw()
    rho = 1.6
    solver = fed_admm(rho, local=local_gradient(1 / rho, steps=1))
    z = trace(solver, problem=quadratics(START))["z"]
    slope = z @ hessians.mean(0) - linear.mean(0)
    ahead = z[1:-1] - 2 / rho * slope[1:-1] + slope[:-2] / rho
    np.testing.assert_allclose(z[2:], ahead, atol=1e-13)


@pytest.mark.usefixtures("x64")
@pytest.mark.thorough
@pytest.mark.parametrize("alpha", [1.0, 1.7])
@pytest.mark.parametrize("regularizer", ["none", "l1"])
def test_relaxation_and_regulariser_are_those_of_feddr(alpha, regularizer):
    """Once everybody has been heard, with step 1 / rho."""
    mask = masks(ROUNDS)
    mask[0] = True
    prox = {"none": star_splitting.nothing, "l1": star_splitting.soft(L1)}[regularizer]
    truth = star_splitting.fed_dr(*draw(), START, mask[1:], 1 / 0.6, alpha, prox=prox)
    solver = fed_admm(
        0.6,
        local=local_prox(),
        relaxation=alpha,
        regularizer=None if regularizer == "none" else penalties.l1(L1),
    )
    found = trace(solver, participation.replay(mask), quadratics(START))["z"]
    np.testing.assert_allclose(found[1:], truth, atol=1e-12)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_fixed_point_with_weights_and_a_regulariser():
    """Weights p_i belong into the losses; the duals are minus the slopes; z is stationary."""
    hessians, linear = draw()
    shares = np.arange(1.0, CLIENTS + 1)
    shares = CLIENTS * shares / shares.sum()
    problem = Quadratics(
        jnp.asarray(hessians * shares[:, None, None]),
        jnp.asarray(linear * shares[:, None]),
        jnp.asarray(START),
    )
    solver = fed_admm(OWN, local=local_prox(), regularizer=penalties.l1(L1))
    found = trace(solver, participation.bernoulli(0.4), problem, rounds=1500)
    z, y = found["z"][-1], found["y"][-1]
    slope = np.asarray(problem.gradients(jnp.broadcast_to(z, (CLIENTS, DIM))))
    np.testing.assert_allclose(-y, slope, atol=1e-11)
    mean = shares @ (hessians @ z - linear) / CLIENTS
    np.testing.assert_allclose(soft(z - mean, 1.0), z, atol=1e-11)
    assert np.any(z == 0)
    assert np.linalg.norm(z - minimizer()) > 0.1


def test_absent_clients_cost_nothing():
    looked_at = []

    class Watched(Quadratics):
        def gradients(self, points, key=None):
            looked_at.append(points.shape[0])
            return super().gradients(points, key)

        def take(self, clients):
            return Watched(self.hessians[clients], self.linear[clients], self.start)

    problem = quadratics()
    problem = Watched(problem.hessians, problem.linear, problem.start)
    solver = fed_admm(1.0, local=local_gradient(0.5))
    state = solver.init(problem, jax.random.key(0))
    looked_at.clear()
    drawn = jnp.array([1, 4], jnp.int32)
    info = fa.RoundInfo(
        jnp.int32(0), jax.random.key(0), jnp.zeros(CLIENTS, bool).at[drawn].set(True), drawn
    )
    jax.eval_shape(lambda state: solver.step(problem, state, info), state)
    assert set(looked_at) == {2}


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_without_arguments_it_converges_at_every_scale():
    solver, process = fed_admm(), participation.bernoulli(0.5)
    for scale in (1e-3, 1.0, 1e3):
        base = quadratics(START)
        problem = replace(base, hessians=base.hessians * scale, linear=base.linear * scale)
        z = trace(solver, process, problem, rounds=500)["z"]
        assert np.linalg.norm(z[-1] - minimizer()) < 1e-8, scale


@pytest.mark.usefixtures("x64")
@pytest.mark.thorough
def test_duals_drift_under_partial_participation_and_come_home():
    """Duals of absent clients are of old models: the fewer take part, the longer they lag."""
    solver = fed_admm(1.0, local=local_prox())
    drifts = []
    for probability in (1.0, 0.3, 0.1):
        process = participation.bernoulli(probability)
        drifts.append(trace(solver, process, rounds=2000, measure=slopes)["drift"])
    after = [drift[49] for drift in drifts]
    assert after[0] < 1e-5 < 1e-3 < after[1] < after[2]
    assert all(drift[-1] < 1e-8 for drift in drifts)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"rho": 0.0}, r"rho must be greater than 0"),
        ({"relaxation": 2.5}, r"relaxation must be at most 2"),
        ({"dual_updates": 0}, r"dual_updates must be at least 1"),
        ({"regularizer": penalties.l1}, r"regularizer must be a penalty such as"),
        ({"local": 3}, r"local must be"),
    ],
)
def test_mistakes_are_told(arguments, told):
    with pytest.raises(fa.InputError, match=told):
        fed_admm(**arguments)


def test_unfit_rho_is_told_before_tracing():
    with pytest.raises(fa.InputError, match=r"rho must have shape \(\) or \(10,\)"):
        trace(fed_admm(np.ones(3)))

    class Exact:
        num_clients, start = 2, jnp.zeros(3)
        prox = prox_memory = Quadratics.prox

    with pytest.raises(fa.InputError, match=r"rho is to be found from gradients, which Exact"):
        fed_admm(local=local_prox()).check(Exact(), 1)
