"""Grid search: the smallest score wins, all runs see the same draws, failures lose."""

from typing import ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import InputError, grid_search
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm._run._rounds import run
from fedjax_admm.participation import bernoulli
from fedjax_admm.traffic import Traffic


class Point(NamedTuple):
    start: jax.Array
    target: jax.Array  # shape=(clients,)


class Aimed(Protocol):
    target: jax.Array


@pytree_dataclass
class Descent:
    """Steps towards the target of whoever takes part, from a random start; diverges above 2."""

    rate: jax.Array
    pull: jax.Array

    requires: ClassVar[tuple[type, ...]] = (Aimed,)

    def participants(self, problem):
        return problem.target.shape

    def init(self, problem, key):
        return problem.start + jax.random.uniform(key, (), problem.start.dtype)

    def step(self, problem, state, info):
        share = info.active.astype(state.dtype) / problem.target.shape[0]
        gap = jnp.sum(share * (state - problem.target))
        return state - self.rate * gap - self.pull * state

    def estimate(self, state):
        return state[None]

    def traffic(self, problem):
        return Traffic(1, 1)

    def messages(self, problem, active):
        return jnp.sum(active, dtype=jnp.int32)


PROBLEM = Point(jnp.float32(5), jnp.float32([1, 2, 3, 6]))
ROUNDS, HALF = 40, bernoulli(0.5)


def distance(solver, problem, state):
    gap = state - jnp.mean(problem.target)
    return {"square": gap**2, "negative": -(gap**2)}


def with_rate(rate):
    return Descent(rate, jnp.float32(0))


def search(values, solver=with_rate, **options):
    arguments = {"rounds": ROUNDS, "measure": distance, "metric": "square"} | options
    return grid_search(solver, values, PROBLEM, jax.random.key(0), **arguments)


def test_the_smallest_score_wins():
    rates = jnp.float32([1e-3, 0.5, 1e-2, 0.0])
    found = search(rates)
    assert isinstance(found.best, Descent)
    assert (int(found.place), float(found.best.rate)) == (1, 0.5)
    assert found.place.dtype == jnp.int32
    assert found.scores.shape == (4,)
    assert float(search(rates, metric="negative").place) == 3


def test_scores_are_those_of_runs():
    """With the same draws of the start and of who takes part."""
    rates = jnp.float32([0.1, 0.5, 0.2])
    found = search(rates, participation=HALF)
    for rate, score in zip(rates, found.scores, strict=True):
        result = run(
            with_rate(rate),
            PROBLEM,
            jax.random.key(0),
            rounds=ROUNDS,
            participation=HALF,
            measure=distance,
            every=ROUNDS,
        )
        assert float(score) == pytest.approx(float(result.trace["square"][-1]), rel=1e-5)
    same = search(jnp.float32([0.3, 0.3, 0.3]), participation=HALF).scores
    assert float(same[0]) == float(same[1]) == float(same[2])


@pytest.mark.thorough
def test_values_may_run_side_by_side():
    """Two by two, and one is left over."""
    rates = jnp.float32([0.1, 0.5, 0.2])
    one, many = search(rates, participation=HALF), search(rates, participation=HALF, width=2)
    np.testing.assert_allclose(many.scores, one.scores, rtol=1e-4)
    assert int(many.place) == int(one.place)


def test_runs_that_fail_lose():
    rates = jnp.float32([1e30, jnp.nan, 1e-3])
    found = search(rates)
    np.testing.assert_array_equal(found.scores[:2], jnp.inf)
    assert int(found.place) == 2


def test_grids_of_several_numbers():
    grid = {"rate": jnp.float32([0.1, 0.5, 0.5]), "pull": jnp.float32([0.5, 0.5, 0.0])}
    found = search(grid, lambda value: Descent(value["rate"], value["pull"]))
    assert int(found.place) == 2
    assert float(found.best.pull) == 0


def test_inside_jit():
    rates = jnp.float32([1e-3, 0.5])
    inside = jax.jit(search)(rates)
    assert float(inside.best.rate) == 0.5
    np.testing.assert_allclose(inside.scores, search(rates).scores, rtol=1e-5)


def test_a_metric_that_is_not_measured_is_refused():
    with pytest.raises(
        InputError,
        match="metric must be one of 'messages', 'negative', 'round' and 'square', but it",
    ):
        search(jnp.float32([0.1, 0.2]), metric="cube")
