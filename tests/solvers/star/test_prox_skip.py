"""ProxSkip on quadratic clients: trajectories with the run's coins, limits, messages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import penalties
from fedjax_admm.solvers import fed_avg, prox_skip
from tests.reference import star_averaging as reference
from tests.solvers.quadratics import draw, minimizer
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
@pytest.mark.parametrize("factor", [1e3, 1e-3])
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
