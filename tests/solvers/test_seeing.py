"""Schedules that see: a loop by hand, sums over drawn clients, learning, deployment, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import fedjax_admm as fa
from fedjax_admm import InputError, deploy, participation, schedule, solvers
from fedjax_admm.solvers._seeing import watching
from fedjax_admm.solvers.star._fsmdm import FSMDMClients
from tests.solvers.quadratics import CLIENTS, draw, masks, quadratics

START = np.array([1.0, -2.0, 0.5, 0.0, 3.0])
TUNED = solvers.FSMDM_PRESETS["tuned"]


def watchful(k, state, primal, dual, loss, waited, scale):
    state = 0.5 * state + 0.5 * primal
    return scale * (1 + state + dual) / (waited + 3 * state + 3 * dual + loss**2 + k / 9), state


def blind_decay(k, primal, waited, scale):
    return scale / jnp.sqrt(k)


def blind_growth(k, dual, scale):
    return scale * jnp.sqrt(k)


def tighter(k, state, primal, scale, keep):
    state = keep * state + (1 - keep) * primal
    return jnp.maximum(scale * state, 0.1), state


def loss_alone(k, loss):
    return 0.1 + loss / k


def watching_rate():
    sees = ("primal", "dual", "loss", "waited")
    return schedule(watchful, sees=sees, state=2.0, scale=0.3)


def by_hand(present, rho=0.7, steps=3, rate=0.2):
    """FedADMM of clients with gradient steps, the rate of which follows from what they see."""
    hessians, linear = draw()
    z, w = START.copy(), np.tile(START, (CLIENTS, 1))
    y, read, state = np.zeros_like(w), w.copy(), np.full(CLIENTS, 2.0)
    last, path = np.zeros(CLIENTS), []
    for index, active in enumerate(present):
        for i in np.flatnonzero(active):
            hessian, slope = hessians[i], linear[i]
            primal, dual = np.linalg.norm(w[i] - z), np.linalg.norm(z - read[i])
            loss = w[i] @ hessian @ w[i] / 2 - slope @ w[i]
            waited = index + 1 - last[i]
            state[i] = 0.5 * state[i] + 0.5 * primal
            below = waited + 3 * state[i] + 3 * dual + loss**2 + (index + 1) / 9
            factor = 0.3 * (1 + state[i] + dual) / below
            x = z.copy()
            for _ in range(steps):
                x -= factor * rate * (hessian @ x - slope + y[i] + rho * (x - z))
            w[i], y[i] = x, y[i] + rho * (x - z)
            read[i], last[i] = z, index + 1
        if active.any():
            z = (rho * w + y).sum(0) / (rho * CLIENTS)
        path.append(z)
    return np.array(path)


@pytest.mark.usefixtures("x64")
def test_clients_see_what_a_loop_by_hand_sees():
    local = solvers.local_optimizer(optax.sgd(0.2), steps=3, rate=watching_rate())
    present = masks(50)
    run = fa.run(
        solvers.fed_admm(0.7, local=local),
        quadratics(START),
        jax.random.key(0),
        rounds=50,
        participation=participation.replay(present),
        measure=lambda solver, problem, state: {"model": solver.estimate(state)},
    )
    np.testing.assert_allclose(run.trace["model"], by_hand(present), rtol=1e-9, atol=1e-9)


def problem():
    return fa.problems.draw_localization(jax.random.key(0), fa.problems.cauchy_noise(1.0))


def localised(solver, rounds=60, process=None):
    process = participation.bernoulli(0.4) if process is None else process
    return fa.run(solver, problem(), jax.random.key(1), rounds=rounds, participation=process)


@pytest.mark.usefixtures("x64")
def test_a_schedule_that_ignores_what_it_sees_is_a_schedule_of_the_count():
    blind = solvers.fsmdm(
        "tuned",
        local_updates=2,
        mu_h=schedule(blind_decay, sees=("primal", "waited"), scale=TUNED["beta"]),
        sigma_xi=schedule(blind_growth, sees="dual", scale=TUNED["d"]),
    )
    plain = localised(solvers.fsmdm("tuned", local_updates=2))
    found = localised(blind)
    np.testing.assert_allclose(found.estimate, plain.estimate, rtol=1e-12)
    np.testing.assert_allclose(found.state.solver.clients.x, plain.state.solver.clients.x)
    assert type(plain.state.solver.clients) is FSMDMClients


@pytest.mark.usefixtures("x64")
def test_the_server_keeps_the_sums_of_what_drawn_clients_saw():
    sigma = schedule(tighter, sees="primal", state=1.0, scale=0.1, keep=0.5)
    solver = solvers.fsmdm("tuned", sigma_xi=sigma)
    state = localised(solver, process=participation.without_replacement(4)).state.solver
    upload = watching(solver).upload(state.clients)
    assert np.ptp(upload.weights) > 0.01
    np.testing.assert_allclose(state.exchange.weight, np.sum(upload.weights), rtol=1e-9)
    np.testing.assert_allclose(
        state.exchange.sums[0], np.sum(upload.weights[:, None] * upload.values[0], 0), rtol=1e-9
    )


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_its_numbers_are_mapped_and_learnt():
    def error(scale):
        mu = schedule(tighter, sees="primal", state=50.0, scale=scale, keep=0.5)
        found = localised(solvers.fsmdm("tuned", mu_h=mu), 30).estimate
        return jnp.linalg.norm(found - problem().target)

    scales = jnp.array([0.1, 0.5])
    mapped, slopes = jax.vmap(jax.value_and_grad(error))(scales)
    np.testing.assert_allclose(mapped[1], error(0.5), rtol=1e-9)
    step = 1e-5
    slope = (error(0.5 + step) - error(0.5 - step)) / (2 * step)
    np.testing.assert_allclose(slopes[1], slope, rtol=1e-5)


@pytest.mark.thorough
def test_a_deployment_sees_what_the_simulation_sees():
    rng = np.random.default_rng(0)
    rows = [(rng.normal(size=(6, 3)), rng.normal(size=6)) for _ in range(4)]
    samples = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), rows)

    def loss(model, sample):
        features, target = sample
        return 0.5 * (features @ model - target) ** 2

    many = fa.problems.federated(loss, samples, jnp.zeros(3))
    local = solvers.local_optimizer(optax.sgd(0.2), steps=2, rate=watching_rate())
    solver, key = solvers.fed_admm(0.7, local=local), jax.random.key(3)
    present = rng.random((12, 4)) < 0.6
    server, clients = deploy.in_process(solver, many, key, rounds=12, present=present)
    run = fa.run(solver, many, key, rounds=12, participation=participation.replay(present))
    np.testing.assert_allclose(server.estimate, run.estimate, atol=1e-5)
    seen = [float(client.clients.kept.seen["loss"][0]) for client in clients]
    np.testing.assert_allclose(seen, run.state.solver.clients.kept.seen["loss"], rtol=1e-4)


def test_where_nobody_looks_it_is_refused_in_one_sentence():
    rate = schedule(loss_alone, sees="loss")
    local = solvers.local_optimizer(optax.sgd(0.2), rate=rate)
    primal = schedule(tighter, sees="primal", state=1.0, scale=0.1, keep=0.5)
    cases = {
        "a schedule of the count is needed here": solvers.fed_subgradient(rate),
        "read the server's model after": solvers.fed_pd(1.0, local=local),
        "have no models of their own": solvers.fed_avg(
            local=solvers.local_optimizer(optax.sgd(0.2), rate=primal)
        ),
    }
    for words, solver in cases.items():
        with pytest.raises(InputError, match=words):
            fa.run(solver, quadratics(START), jax.random.key(0), rounds=2)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sees": "future"}, "sees"),
        ({"sees": "primal", "scale": 1.0, "keep": 0.5}, "state"),
        ({"sees": "primal", "scale": 1.0, "keep": 0.5, "state": (1.0, 2.0)}, "function"),
    ],
)
def test_a_function_that_does_not_fit_is_refused(given, words):
    with pytest.raises(InputError, match=words):
        schedule(tighter, **given)
