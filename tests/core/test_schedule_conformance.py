"""Every schedule is elementwise, keeps the dtype of its numbers, and can be mapped and learnt."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedjax_admm import schedules
from tests.builders import builders

COUNTS = np.array([[1, 2, 3], [4, 100, 7]], np.int32)


def logarithmic(k, scale):
    return scale * jnp.log1p(k)


@dataclass(frozen=True)
class Case:
    """A schedule, and its formula."""

    build: Callable[[], Any]
    formula: Callable[[np.ndarray], np.ndarray]
    learns: bool = True  # whether its numbers are leaves


SCHEDULES = {
    "constant": Case(lambda: schedules.constant(0.7), lambda k: 0.7 + 0 * k),
    "sqrt_growth": Case(lambda: schedules.sqrt_growth(0.3), lambda k: 0.3 * np.sqrt(k)),
    "sqrt_decay": Case(lambda: schedules.sqrt_decay(2.0), lambda k: 2 / np.sqrt(k)),
    "power_decay": Case(lambda: schedules.power_decay(2.0, 0.7), lambda k: 2 * k**-0.7),
    "geometric": Case(lambda: schedules.geometric(1.5, 0.98), lambda k: 1.5 * 0.98 ** (k - 1)),
    "schedule": Case(
        lambda: schedules.schedule(logarithmic, scale=0.4), lambda k: 0.4 * np.log1p(k)
    ),
    "from_optax": Case(
        lambda: schedules.from_optax(optax.linear_schedule(1.0, 0.5, 50)),
        lambda k: 1 - 0.5 * np.minimum(k, 50) / 50,
        learns=False,
    ),
}


def test_every_schedule_is_in_the_table():
    assert set(builders(schedules, "__call__")) == set(SCHEDULES)


@pytest.fixture(params=SCHEDULES)
def case(request):
    return SCHEDULES[request.param]


@jax.jit
def values(schedule, counts):
    return schedule(counts)


def test_it_is_elementwise_and_keeps_the_dtype_of_its_numbers(case, dtype):
    schedule = case.build()
    found = schedule(jnp.asarray(COUNTS))
    assert found.shape == COUNTS.shape
    assert {leaf.dtype for leaf in jax.tree.leaves((schedule, found))} == {dtype}
    tolerance = 1e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(found, case.formula(COUNTS.astype(float)), rtol=tolerance)
    for place in np.ndindex(COUNTS.shape):
        alone = schedule(jnp.int32(COUNTS[place]))
        assert alone.shape == ()
        np.testing.assert_allclose(alone, found[place], rtol=tolerance)


def test_numbers_of_another_dtype_give_values_of_that_one(case, x64):
    """A run casts the leaves to the dtype of its problem, whatever the session's is."""
    narrow = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), case.build())
    found = narrow(jnp.asarray(COUNTS))
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, case.formula(COUNTS.astype(float)), rtol=1e-5)


def test_it_compiles_once_and_gives_the_same_under_jit(case):
    chex.clear_trace_counter()

    @jax.jit
    @chex.assert_max_traces(n=1)
    def go(schedule, counts):
        return schedule(counts)

    built = case.build()
    for factor in (1.0, 1.5):
        schedule = jax.tree.map(lambda leaf, f=factor: leaf * f, built)
        found = go(schedule, jnp.asarray(COUNTS))
        np.testing.assert_allclose(found, schedule(jnp.asarray(COUNTS)), rtol=1e-6)


def test_its_numbers_can_be_stacked_and_mapped(case):
    one = case.build()
    other = jax.tree.map(lambda leaf: 0.9 * leaf, one)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), one, other)
    counts = jnp.asarray(COUNTS)
    both = jax.jit(jax.vmap(lambda schedule: schedule(counts)))(stacked)
    np.testing.assert_allclose(both[0], values(one, counts), rtol=1e-6)
    if case.learns:
        np.testing.assert_allclose(both[1], values(other, counts), rtol=1e-6)
        assert np.all(np.abs(both[1] - both[0]) > 1e-3)


def test_its_derivative_by_its_numbers_is_right(case, x64):
    schedule, counts = case.build(), jnp.asarray(COUNTS)

    def total(schedule):
        return jnp.sum(schedule(counts))

    slopes = jax.grad(total)(schedule)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(slopes))
    if case.learns:
        directions = jax.tree.map(jnp.ones_like, schedule)
        ends = [
            total(jax.tree.map(lambda a, d, s=step: a + s * d, schedule, directions))
            for step in (1e-6, -1e-6)
        ]
        slope = sum(jnp.sum(leaf) for leaf in jax.tree.leaves(slopes))
        assert float(slope) == pytest.approx(float(ends[0] - ends[1]) / 2e-6, rel=1e-6)
        assert float(slope) != 0
