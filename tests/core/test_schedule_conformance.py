"""Every schedule is elementwise, keeps the dtype of its numbers, and can be mapped and learnt."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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


def scaled(schedule, factor):
    return jax.tree.map(lambda leaf: leaf * factor, schedule)


def test_one_trace_and_one_batch_serve_all_numbers(case):
    one = case.build()
    other = scaled(one, 0.9)
    traces = []

    @jax.jit
    def traced(schedule, counts):
        traces.append(schedule)
        return schedule(counts)

    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), one, other)
    batch = jax.vmap(lambda schedule: schedule(jnp.asarray(COUNTS)), axis_size=2)(stacked)
    for schedule, mapped in zip((one, other), batch, strict=True):
        expected = np.asarray([schedule(jnp.int32(count)) for count in COUNTS.ravel()])
        for values in (traced(schedule, jnp.asarray(COUNTS)), mapped):
            np.testing.assert_allclose(np.ravel(values), expected, rtol=1e-4)
    assert len(traces) == 1


def test_its_derivative_is_that_of_its_formula(case, x64):
    def total(factor):
        return jnp.sum(scaled(case.build(), factor)(jnp.asarray(COUNTS)))

    quotient = (total(1 + 1e-6) - total(1 - 1e-6)) / 2e-6
    np.testing.assert_allclose(jax.grad(total)(1.0), quotient, rtol=1e-6, atol=1e-6)


def test_it_is_its_formula(case, dtype):
    found = case.build()(jnp.asarray(COUNTS))
    tolerance = 1e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(found, case.formula(COUNTS.astype(float)), rtol=tolerance)


def test_numbers_of_another_dtype_give_values_of_that_one(case, x64):
    """A run casts the leaves to the dtype of its problem, whatever the session's is."""
    narrow = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), case.build())
    found = narrow(jnp.asarray(COUNTS))
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, case.formula(COUNTS.astype(float)), rtol=1e-5)


def test_its_numbers_matter(case):
    one = case.build()
    other = jax.tree.map(lambda leaf: 0.9 * leaf, one)
    apart = np.abs(np.asarray(one(jnp.asarray(COUNTS)) - other(jnp.asarray(COUNTS))))
    assert np.all(apart > 1e-3) == case.learns


def test_it_has_a_derivative_by_its_numbers(case, x64):
    slopes = jax.grad(lambda schedule: jnp.sum(schedule(jnp.asarray(COUNTS))))(case.build())
    assert any(np.any(leaf != 0) for leaf in jax.tree.leaves(slopes)) == case.learns
