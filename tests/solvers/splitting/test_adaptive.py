"""An adaptive penalty parameter: the textbook's choices, invariance to scale, and partial rounds.

The problem of most tests: eight clients with separable quadratics, whose curvatures lie between 0.2
and 1. FedADMM's server comes after the duals, the textbook's before them: without a regulariser the
mean of the clients' models is the textbook's server.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import participation, penalties
from fedjax_admm.solvers import balanced_penalty, fed_admm, local_prox
from tests.reference import fed_admm as reference
from tests.solvers.quadratics import CLIENTS, Quadratics, masks, minimizer, quadratics

ROUNDS = 50


def separable():
    """Return curvatures and centres, (8, 3)."""
    rng = np.random.default_rng(0)
    return rng.uniform(0.2, 1, (8, 3)), rng.standard_normal((8, 3))


def star(curvatures, centres, scale=1.0):
    hessians = scale * curvatures[:, :, None] * np.eye(3)
    return Quadratics(
        jnp.asarray(hessians), jnp.asarray(scale * curvatures * centres), jnp.zeros(3)
    )


def whole_state(solver, problem, state):
    w = state.clients.models
    rho = getattr(state.server.penalty, "rho", state.clients.rho)
    return {"z": solver.estimate(state), "w": w, "y": state.clients.duals, "rho": rho}


def trace(solver, problem, rounds=ROUNDS, process=None):
    found = fa.run(
        solver,
        problem,
        jax.random.key(0),
        rounds=rounds,
        participation=participation.everyone() if process is None else process,
        measure=whole_state,
    )
    return {name: np.asarray(value) for name, value in found.trace.items()}


def exact(rho, **options):
    return fed_admm(rho, local=local_prox(), **options)


TEXTBOOK = {  # relative distance to the minimiser after 5, 10, 20 and 40 rounds
    "balanced": (balanced_penalty(10.0), {"s": 10.0}, [0.7294, 0.2082, 4.668e-3, 2.339e-6]),
    "constant": (0.5, {"s": 0.5}, [2.218e-2, 2.113e-3, 1.538e-5, 1.702e-9]),
    "a=1.5": (0.5, {"s": 0.5, "relaxation": 1.5}, [4.981e-3, 4.589e-5, 1.718e-8, 4e-15]),
    "a=1.8": (0.5, {"s": 0.5, "relaxation": 1.8}, [6.701e-4, 2.514e-6, 8.49e-11, 0]),
}


@pytest.mark.usefixtures("x64")
@pytest.mark.kin(1)
@pytest.mark.parametrize("name", TEXTBOOK)
def test_models_and_choices_are_the_textbooks(name):
    rho, settings, distances = TEXTBOOK[name]
    adapt = name == "balanced"
    truth, chosen = reference.consensus(*separable(), rounds=ROUNDS, adapt=adapt, **settings)
    a = settings.get("relaxation", 1.0)
    found = trace(exact(rho, relaxation=a), star(*separable()))
    servers = (2 - a) * found["w"].mean(1) + (a - 1) * found["z"]
    np.testing.assert_allclose(servers, truth, atol=1e-9)
    # At the end the differences are small ones of large numbers.
    np.testing.assert_allclose(found["rho"][:40, 0], chosen[:40], rtol=1e-3)
    h, b = separable()
    optimum = (h * b).sum(0) / h.sum(0)
    error = np.linalg.norm(servers - optimum, axis=1) / np.linalg.norm(optimum)
    np.testing.assert_allclose(error[[4, 9, 19, 39]], distances, rtol=2e-3, atol=1e-15)
    if name == "balanced":
        assert found["rho"][-1, 0] == 1.25


@pytest.mark.usefixtures("x64")
def test_decisions_do_not_hang_on_the_scale():
    """Losses, regulariser and the first rho times 1000: the same models, rho and duals scaled."""
    runs = [
        trace(
            exact(balanced_penalty(10.0 * kappa), regularizer=penalties.l1(0.1 * kappa)),
            star(*separable(), kappa),
            16,
        )
        for kappa in (1.0, 1000.0)
    ]
    assert len(np.unique(runs[0]["rho"][:, 0])) > 2
    for name, factor in (("z", 1), ("w", 1), ("rho", 1000), ("y", 1000)):
        np.testing.assert_allclose(runs[1][name], factor * runs[0][name], rtol=1e-6, atol=1e-9)


@pytest.mark.usefixtures("x64")
@pytest.mark.thorough
@pytest.mark.parametrize("first", [None, 50.0, 0.01])
def test_federated_star_converges_from_any_start(first):
    process = participation.replay(masks())
    rounds = 1000
    found = trace(exact(balanced_penalty(first)), quadratics(), rounds, process)
    assert np.linalg.norm(found["z"][-1] - minimizer()) < 1e-9
    rho = found["rho"]
    assert np.all((rho[-1] > 0.01) & (rho[-1] < 20))


@pytest.mark.usefixtures("x64")
@pytest.mark.thorough
def test_with_a_regulariser_the_limit_is_stationary():
    problem = quadratics()
    solver = fed_admm(balanced_penalty(), regularizer=penalties.l1(0.125))
    z = trace(solver, problem, 1000, participation.bernoulli(0.5))["z"][-1]
    slope = np.asarray(problem.gradients(jnp.broadcast_to(z, (CLIENTS, z.size)))).mean(0)
    shifted = z - slope
    proximal = np.sign(shifted) * np.maximum(np.abs(shifted) - 0.125, 0)
    np.testing.assert_allclose(z, proximal, atol=1e-9)


@pytest.mark.usefixtures("x64")
def test_rho_changes_at_its_turns_until_the_last_round_of_adaptation():
    mask = masks(40)
    mask[3] = False
    solver = exact(balanced_penalty(50.0, ratio=1.0, until=6))
    rho = trace(solver, quadratics(), 40, participation.replay(mask))["rho"]
    changed = np.any(rho != np.concatenate([np.full((1, CLIENTS), 50.0), rho[:-1]]), 1)
    # A round in which nobody takes part does not count.
    turns = mask.any(1) & np.isin(np.cumsum(mask.any(1)), [2, 4, 6])
    np.testing.assert_array_equal(changed, turns)


@pytest.mark.usefixtures("x64")
@pytest.mark.thorough
def test_rounding_chooses_nothing():
    """Long after convergence rho stands still, inside the range of the curvatures."""
    rho = trace(exact(balanced_penalty(10.0)), star(*separable()), 400)["rho"]
    np.testing.assert_array_equal(rho[250:], np.broadcast_to(rho[250], rho[250:].shape))
    assert np.all((rho[-1] > 0.15) & (rho[-1] < 2.5))


@pytest.mark.parametrize(
    ("build", "arguments", "told"),
    [
        (balanced_penalty, {"initial": 0.0}, "initial must be greater than 0"),
        (balanced_penalty, {"ratio": 0.5}, "ratio must be at least 1"),
        (balanced_penalty, {"factor": 1.0}, "factor must be greater than 1"),
        (balanced_penalty, {"period": 0}, "period must be at least 1"),
        (balanced_penalty, {"until": -1}, "until must be at least 0"),
    ],
)
def test_mistakes_are_told(build, arguments, told):
    with pytest.raises(fa.InputError, match=told):
        build(**arguments)
