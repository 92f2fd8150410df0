"""ProxSkip on quadratic clients: trajectories with the run's coins, limits, messages, the trap."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import penalties
from fedjax_admm.solvers import fed_avg, prox_skip
from tests.reference import star_averaging as reference
from tests.solvers.quadratics import CLIENTS, draw, minimizer, quadratics
from tests.solvers.star.quadratic_runs import (
    PRESENT,
    ROUNDS,
    SPARSE,
    START,
    WEIGHT,
    distances,
    follow,
    is_the_reference,
    near,
    scaled,
)

thorough = pytest.mark.thorough
KEY = 0  # that of `follow`


def coin(key, probability):
    """The coin of a round, from its key."""
    return jax.random.bernoulli(jax.random.split(key)[0], probability)


def coins_of_a_run(rounds, probability):
    def draw_coin(index):
        turn_key = jax.random.split(jax.random.fold_in(jax.random.key(KEY), index))[1]
        return coin(turn_key, probability)

    return np.asarray(jax.vmap(draw_coin)(jnp.arange(rounds, dtype=jnp.int32)))


def lasso(weight):
    return penalties.l1(weight) if weight else None


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("weight", "present"),
    [
        (WEIGHT, "some"),
        pytest.param(WEIGHT, "everybody", marks=thorough),
        pytest.param(0.0, "some", marks=thorough),
        pytest.param(0.0, "everybody", marks=thorough),
    ],
)
def test_trajectory_is_the_reference(weight, present):
    solver = prox_skip(0.9, probability=0.4, regularizer=lasso(weight))
    run = follow(solver, present=present)
    coins, masks = coins_of_a_run(ROUNDS, 0.4), PRESENT[present][:ROUNDS]
    assert 10 < coins.sum() < 40
    wanted = reference.prox_skip(*draw(), START, coins, 0.9, 0.4, masks, weight)
    client = run.trace["client"]
    found = {"server": run.trace["server"], "model": client.model, "control": client.control}
    is_the_reference(found, wanted)
    # Who works in silence is not counted.
    np.testing.assert_array_equal(run.trace["messages"], np.where(coins, masks.sum(1), 0))


def with_coins(solver, problem, coins):
    """Return the models of all clients and of the server after rounds with given coins."""
    keys = jax.random.split(jax.random.key(5), 64)
    shown = np.asarray(jax.vmap(lambda key: coin(key, solver.probability))(keys))
    tails, heads = jax.random.split(jax.random.key(5), 64)[
        np.array([shown.argmin(), shown.argmax()])
    ]
    everybody = jnp.ones(CLIENTS, bool)

    def advance(state, tossed):
        key = jax.lax.select(tossed, jax.random.clone(heads), jax.random.clone(tails))
        new = solver.step(problem, state, fa.RoundInfo(jnp.int32(0), key, everybody))
        return new, (new.clients.model, new.server)

    with jax.debug_key_reuse(False):  # the two keys stand for all rounds: nothing else is drawn
        state = solver.init(problem, jax.random.key(0))
        return jax.jit(lambda state: jax.lax.scan(advance, state, jnp.asarray(coins)))(state)


@thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("weight", "always", "some"),
    [(0.0, (1.2e-7, 0), (1.0e-3, 4.0e-10)), (WEIGHT, (8.1e-10, 0), (1.8e-3, 7.1e-9))],
)
def test_distances_that_others_found(weight, always, some):
    goal = minimizer() if weight == 0 else reference.lasso(*draw(), WEIGHT)
    if weight:
        np.testing.assert_allclose(goal, SPARSE, rtol=0, atol=1e-10)
    solver = prox_skip(1.0, probability=1.0, regularizer=lasso(weight))
    servers = follow(solver, quadratics(), 200, "everybody").trace["server"]
    near(distances(servers, goal), always)
    coins = np.random.default_rng(13).random(1000) < 0.3
    assert coins.sum() == 300
    solver = prox_skip(1.0, regularizer=lasso(weight))
    state, (models, servers) = with_coins(solver, quadratics(), coins)
    near(distances(np.mean(models, 1), goal), some)
    np.testing.assert_allclose(state.server, goal, rtol=0, atol=6e-15)
    slopes = np.einsum("cij,j->ci", draw()[0], goal) - draw()[1]
    np.testing.assert_allclose(state.clients.control, slopes, rtol=0, atol=1e-13)


@thorough
@pytest.mark.usefixtures("x64")
def test_always_talking_is_the_proximal_gradient_method():
    mine = prox_skip(0.8, probability=1.0, regularizer=penalties.l1(WEIGHT))
    other = fed_avg(0.8, regularizer=penalties.l1(WEIGHT))
    found = follow(mine, present="everybody").trace["server"]
    wanted = follow(other, present="everybody").trace["server"]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13)


@thorough
@pytest.mark.usefixtures("x64")
def test_controls_must_be_sent_where_there_is_a_regulariser():
    A, b = draw()
    coins = np.random.default_rng(13).random(1000) < 0.3
    goal = reference.lasso(A, b, WEIGHT)
    sent = reference.prox_skip(A, b, START, coins, 1.0, 0.3, weight=WEIGHT)
    kept = reference.prox_skip(A, b, START, coins, 1.0, 0.3, weight=WEIGHT, send_controls=False)
    np.testing.assert_allclose(sent["server"][-1], goal, rtol=0, atol=1e-13)
    assert np.linalg.norm(kept["server"][-1] - goal) > 0.1


@thorough
@pytest.mark.usefixtures("x64")
def test_absent_clients_have_a_price():
    """There is no theory for masks: it does not blow up here, and does not converge."""
    found = follow(prox_skip(), rounds=1000).trace["server"]
    errors = np.linalg.norm(np.asarray(found)[500:] - minimizer(), axis=1)
    assert np.median(errors) > 1e-2
    assert np.all(np.isfinite(found))


@thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("factor", [1e3, 1.0, 1e-3])
def test_the_builder_without_arguments_converges_at_every_scale(factor):
    found = follow(prox_skip(), scaled(factor), 1000, "everybody", None).estimate
    np.testing.assert_allclose(found, minimizer(), rtol=0, atol=1e-10)


def test_mistakes_get_a_sentence():
    with pytest.raises(fa.InputError, match=r"probability must be at most 1, but it is 1\.5"):
        prox_skip(probability=1.5)
    with pytest.raises(fa.InputError, match="probability must be greater than 0, but it is 0"):
        prox_skip(probability=0)
    with pytest.raises(fa.InputError, match="step must be greater than 0, but it is -1"):
        prox_skip(-1)
