"""Schedules: formulas, dtypes, leaves, and optax's own."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedjax_admm import InputError, from_optax, run, schedule, schedules
from fedjax_admm.penalties import l1
from fedjax_admm.privacy import exact_release
from fedjax_admm.problems import localization
from fedjax_admm.solvers import (
    centralized_subgradient,
    fed_subgradient,
    fsmdm,
    private_subgradient,
    tree_link,
)

COUNTS = np.array([[1, 2, 3], [10, 100, 1000]], np.int32)
FORMULAS = {
    "constant": (lambda: schedules.constant(0.3), lambda k: np.full(k.shape, 0.3)),
    "sqrt_growth": (lambda: schedules.sqrt_growth(0.3), lambda k: 0.3 * np.sqrt(k)),
    "sqrt_decay": (lambda: schedules.sqrt_decay(0.3), lambda k: 0.3 / np.sqrt(k)),
    "power_decay": (lambda: schedules.power_decay(0.3, 0.7), lambda k: 0.3 * k**-0.7),
    "geometric": (
        lambda: schedules.geometric(0.3, 0.999),
        lambda k: 0.3 * 0.999 ** (k - 1.0),
    ),
    "schedule": (lambda: schedule(logarithmic, scale=0.3), lambda k: 0.3 * np.log1p(k)),
    "from_optax": (
        lambda: from_optax(optax.polynomial_schedule(1.0, 0.1, 2, 50)),
        lambda k: np.where(k < 50, 0.9 * (1 - np.minimum(k, 50) / 50) ** 2 + 0.1, 0.1),
    ),
}


OPTAX = {
    "constant": lambda: optax.constant_schedule(0.1),
    "onecycle": lambda: optax.cosine_onecycle_schedule(100, 1.0),
    "linear_onecycle": lambda: optax.linear_onecycle_schedule(100, 1.0),
    "interpolate": lambda: optax.piecewise_interpolate_schedule("linear", 1.0, {10: 0.5}),
    "piecewise": lambda: optax.piecewise_constant_schedule(1.0, {10: 0.5, 20: 0.1}),
    "warmup": lambda: optax.warmup_cosine_decay_schedule(0.0, 1.0, 10, 100),
    "exponential": lambda: optax.exponential_decay(1.0, 10, 0.9),
    "staircase": lambda: optax.exponential_decay(1.0, 10, 0.9, 5, staircase=True),
    "joined": lambda: optax.join_schedules(
        [optax.constant_schedule(1.0), optax.linear_schedule(1.0, 0.0, 30)], [20]
    ),
}


def logarithmic(k, scale):
    return scale * jnp.log1p(k)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_count_may_be_a_python_number_or_a_list_of_numpy(name):
    build, formula = FORMULAS[name]
    for count in (5, np.int64(5), COUNTS):
        expected = formula(np.asarray(count, float))
        np.testing.assert_allclose(build()(count), expected, rtol=1e-4)


@pytest.mark.kin(2)
@pytest.mark.parametrize("name", OPTAX)
def test_every_kind_of_optax_schedule_works_on_vectors_of_counts(name):
    original = OPTAX[name]()
    counts = jnp.array([1, 5, 9, 10, 11, 50], jnp.int32)
    with jax.numpy_dtype_promotion("standard"):
        expected = [float(original(int(count))) for count in counts]
    np.testing.assert_allclose(from_optax(original)(counts), expected, rtol=1e-5)


def test_values_of_parameters_do_not_retrace():
    traces = []

    @jax.jit
    def evaluate(s, k):
        traces.append(1)
        return s(k)

    for scale in (1.0, np.float32(2.0), 3, jnp.float32(4.0)):
        evaluate(schedule(logarithmic, scale=scale), jnp.int32(3))
    assert len(traces) == 1


def without_numbers(k):
    return 170.0 / jnp.sqrt(k)


@pytest.mark.kin(1)
@pytest.mark.parametrize(
    "mu_h",
    [
        from_optax(optax.linear_schedule(170.0, 17.0, 50)),
        schedule(without_numbers),
        optax.linear_schedule(170.0, 17.0, 50),
        without_numbers,
        170.0,
    ],
    ids=["from_optax", "schedule", "optax", "function", "number"],
)
def test_a_schedule_has_the_dtype_of_the_problem(mu_h):
    """Single precision in a session of double precision, for which a run casts its solver."""
    problem = localization([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]], [5.0, 8.0, 7.0])
    alone = run(fsmdm(mu_h=mu_h), problem, jax.random.key(0), rounds=20).estimate
    with jax.enable_x64(True):
        result = run(fsmdm(mu_h=mu_h), problem, jax.random.key(0), rounds=20)
    assert result.estimate.dtype == jnp.float32
    np.testing.assert_allclose(result.estimate, alone, rtol=1e-4)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_numbers_that_a_function_closes_over_are_vmapped_and_differentiated():
    """A batch of optax schedules, and a derivative through a whole run of a solver with one."""
    peaks = jnp.array([1.0, 3.0])
    values = jax.vmap(lambda peak: from_optax(optax.linear_schedule(peak, 0.0, 10))(COUNTS))(peaks)
    assert values.shape == (2, *COUNTS.shape)
    np.testing.assert_allclose(values[1], 3 * values[0], rtol=1e-12)
    np.testing.assert_allclose(values[0, 0], [0.9, 0.8, 0.7], rtol=1e-12)

    problem = localization([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]], [5.0, 8.0, 7.0])

    def end(start):
        solver = fsmdm(mu_h=optax.linear_schedule(start, 17.0, 50))
        return jnp.sum(run(solver, problem, jax.random.key(0), rounds=20).estimate ** 2)

    gradient, step = jax.grad(end)(jnp.array(170.0)), 1e-3
    numerical = (end(jnp.array(170.0 + step)) - end(jnp.array(170.0 - step))) / (2 * step)
    assert abs(numerical) > 1e-5
    np.testing.assert_allclose(gradient, numerical, rtol=1e-5)
    grid = jax.vmap(end)(jnp.array([100.0, 170.0]))
    np.testing.assert_allclose(grid[1], end(jnp.array(170.0)), rtol=1e-10)


class TestWhereAScheduleIsWanted:
    """A schedule, an optax schedule, a function of the count, or a number."""

    def test_a_schedule_stays_as_it_is(self):
        for build, _ in FORMULAS.values():
            one = build()
            assert schedules.as_schedule("mu", one) is one

    @pytest.mark.parametrize(
        "value",
        [lambda k: 2.0, lambda k: k**0 * 2, optax.constant_schedule(2.0), 2, np.float32(2)],
    )
    def test_anything_else_becomes_one(self, value):
        one = schedules.as_schedule("mu", value)
        np.testing.assert_array_equal(one(COUNTS), np.full(COUNTS.shape, 2.0))
        assert len(jax.tree.leaves(one)) == 1

    def test_a_builder_says_what_a_number_means(self):
        one = schedules.as_schedule("sigma", 3.0, schedules.sqrt_growth)
        assert isinstance(one, schedules.SqrtGrowth)
        link = tree_link(1.0, lambda k: 3.0 / k, l1(1.0))
        np.testing.assert_allclose(link.sigma(COUNTS), np.sqrt(COUNTS), rtol=1e-6)
        np.testing.assert_allclose(link.mu(COUNTS), 3.0 / COUNTS, rtol=1e-6)
        private = private_subgradient(exact_release(), step_size=0.5)
        np.testing.assert_allclose(private.step_size(COUNTS), 0.5 / np.sqrt(COUNTS), rtol=1e-6)

    @pytest.mark.parametrize(
        "build",
        [
            lambda value: fsmdm(sigma_xi=value).sigma_xi,
            lambda value: fed_subgradient(value).step_size,
            lambda value: centralized_subgradient(value).step_length.schedule,
        ],
    )
    def test_a_number_is_a_constant(self, build):
        np.testing.assert_allclose(build(0.5)(COUNTS), np.full(COUNTS.shape, 0.5))
        np.testing.assert_allclose(build(lambda k: 0.5 / k)(COUNTS), 0.5 / COUNTS, rtol=1e-6)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: schedules.sqrt_decay(0), "scale must be greater than 0, but it is 0."),
        (
            lambda: schedules.sqrt_decay([1, 2]),
            "scale must be one number, but it has shape (2,); use jax.vmap over several.",
        ),
        (
            lambda: schedule(3),
            "function must be callable as function(k, ...), but it is 3; take "
            "schedules.constant for a number.",
        ),
    ],
)
def test_mistakes_get_a_sentence(build, sentence):
    with pytest.raises(InputError) as caught:
        build()
    assert str(caught.value) == sentence
