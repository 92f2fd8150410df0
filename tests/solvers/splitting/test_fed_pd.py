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
def test_one_round_without_an_average_leaves_the_minimizer():
    limit = minimizer()
    solver = fed_pd(0.7, local=local_prox())
    problem = quadratics(limit)
    state = finish(solver, everybody(1000), problem=problem).state.solver
    silent = dataclasses.replace(solver, averaging=jnp.zeros(()))
    info = fa.RoundInfo(jnp.int32(0), jax.random.key(0), jnp.ones(10, bool))
    left = silent.step(problem, state, info).clients.copy
    np.testing.assert_allclose(left, limit - 0.7 * slopes(limit), atol=1e-12)
