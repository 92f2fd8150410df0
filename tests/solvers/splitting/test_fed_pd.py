"""FedPD: trajectories with coins, FedDR as its kin, the floor of rounds without an average."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import penalties
from fedjax_admm.solvers import fed_dr, fed_pd, local_gradient, local_prox
from tests.reference import star_splitting as reference
from tests.solvers.quadratics import draw, minimizer, quadratics
from tests.solvers.splitting.paths import (
    KEY,
    L1,
    L1_MINIMIZER,
    ORIGIN,
    ROUNDS,
    START,
    everybody,
    finish,
    path,
    slopes,
    some,
)

pytestmark = pytest.mark.usefixtures("x64")

LOCAL = {"prox": (local_prox(), reference.exact)}
LOCAL["gradient"] = local_gradient(0.5), reference.gradient_steps(0.5, 5)


def coins_of_a_run(averaging, rounds=ROUNDS):
    """Return the coins that the run of `finish` tosses: the first key of each round's."""

    def coin(index):
        info = jax.random.split(jax.random.fold_in(jax.random.key(KEY), index))[1]
        return jax.random.bernoulli(jax.random.split(info)[0], averaging)

    return np.asarray(jax.vmap(coin)(jnp.arange(rounds)))


def tossed(solver, coins):
    """Return the distance of the mean copy after each round of everybody, with given coins."""
    problem = quadratics(ORIGIN)

    @jax.jit
    def go(solver, coins):
        def advance(state, coin):
            # A coin of probability 0 or 1 falls as it must.
            certain = dataclasses.replace(solver, averaging=coin)
            info = fa.RoundInfo(jnp.int32(0), jax.random.key(0), jnp.ones(10, bool))
            state = certain.step(problem, state, info)
            return state, jnp.mean(state.clients.copy, 0)

        return jax.lax.scan(advance, solver.init(problem, jax.random.key(0)), coins)[1]

    found = go(solver, jnp.asarray(coins, float))
    return np.linalg.norm(np.asarray(found) - minimizer(), axis=1)


@pytest.mark.parametrize(
    ("local", "averaging", "regularized"),
    [
        ("gradient", 0.4, True),
        pytest.param("prox", 0.4, False, marks=pytest.mark.thorough),
        pytest.param("prox", 1.0, True, marks=pytest.mark.thorough),
    ],
)
def test_trajectory_is_the_reference(local, averaging, regularized):
    mine, theirs = LOCAL[local]
    solver = fed_pd(
        0.8,
        averaging=averaging,
        local=mine,
        regularizer=penalties.l1(L1) if regularized else None,
    )
    coins = coins_of_a_run(averaging)
    assert averaging == 1 or 10 < np.sum(coins) < 40
    prox = reference.soft(L1) if regularized else reference.nothing
    truth = reference.fed_pd(*draw(), START, some(), coins, 0.8, theirs, prox)
    found = finish(solver, some())
    np.testing.assert_allclose(found.trace["server"], truth, rtol=0, atol=1e-12)
    # Messages travel in rounds with an average, and only then.
    np.testing.assert_array_equal(found.trace["messages"], np.where(coins, some().sum(1), 0))


@pytest.mark.thorough
@pytest.mark.parametrize("weight", [0.0, L1])
def test_is_fed_dr_where_it_always_averages(weight):
    common = {"local": local_prox(), "regularizer": penalties.l1(weight)}
    found = path(fed_pd(0.8, **common), everybody())[1:]
    truth = path(fed_dr(0.8, **common), everybody())[:-1]
    np.testing.assert_allclose(found, truth, rtol=0, atol=1e-12)


@pytest.mark.thorough
def test_the_regularizer_is_exact_where_it_always_averages():
    found = path(fed_pd(0.7, regularizer=penalties.l1(L1)), everybody(1000))
    np.testing.assert_allclose(found[-1], L1_MINIMIZER, atol=2e-10)


@pytest.mark.thorough
def test_rounds_without_an_average_have_no_fixed_point():
    """With averages in 3 of 10 rounds the error ends at a floor, that falls with the step."""
    coins = np.random.default_rng(13).random(1000) < 0.3
    always = tossed(fed_pd(1.0, local=local_prox()), np.ones(1000))
    np.testing.assert_allclose(always[49], 9.3e-7, rtol=0.06)
    assert max(always[199], always[999]) < 1e-14
    floors = {1.0: 0.41, 0.1: 0.076, 0.03: 0.025}
    for step, floor in floors.items():
        found = tossed(fed_pd(step, local=local_prox()), coins)
        np.testing.assert_allclose(np.median(found[500:]), floor, rtol=0.03)
        if step == 1:
            np.testing.assert_allclose(found[[49, 199, 999]], [0.57, 0.68, 0.30], rtol=0.01)


@pytest.mark.thorough
def test_one_round_without_an_average_leaves_the_minimizer():
    limit = minimizer()
    solver = fed_pd(0.7, local=local_prox())
    problem = quadratics(limit)
    state = finish(solver, everybody(1000), problem=problem).state.solver
    silent = dataclasses.replace(solver, averaging=jnp.zeros(()))
    info = fa.RoundInfo(jnp.int32(0), jax.random.key(0), jnp.ones(10, bool))
    left = silent.step(problem, state, info).clients.copy
    np.testing.assert_allclose(left, limit - 0.7 * slopes(limit), atol=1e-12)
