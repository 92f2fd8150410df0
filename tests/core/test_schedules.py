"""Schedules: formulas, dtypes, leaves, and optax's own."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedjax_admm import InputError, from_optax, schedule, schedules

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


def logarithmic(k, scale):
    return scale * jnp.log1p(k)


@pytest.mark.parametrize("name", FORMULAS)
def test_formula_elementwise_on_any_shape(name, dtype):
    build, formula = FORMULAS[name]
    values = jax.jit(lambda s, k: s(k))(build(), jnp.asarray(COUNTS))
    assert values.dtype == dtype
    tolerance = {"float32": 1e-4, "float64": 1e-12}[dtype.name]
    if name == "from_optax":
        tolerance = 1e-6  # optax computes in float32 whatever the session
    np.testing.assert_allclose(values, formula(COUNTS.astype(float)), rtol=tolerance)
    assert schedules_scalar(build()).shape == ()


def schedules_scalar(one):
    return one(jnp.int32(1))


@pytest.mark.parametrize("name", [name for name in FORMULAS if name != "from_optax"])
def test_numbers_are_leaves_that_stack_and_differentiate(name):
    build, _ = FORMULAS[name]
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, 2 * leaf]), build())
    values = jax.vmap(lambda s: s(jnp.int32(5)))(stacked)
    assert values.shape == (2,)
    gradient = jax.grad(lambda s: s(jnp.int32(5)))(build())
    assert all(np.isfinite(leaf) for leaf in jax.tree.leaves(gradient))
    assert any(leaf != 0 for leaf in jax.tree.leaves(gradient))


@pytest.mark.parametrize(
    "make",
    [
        lambda: optax.constant_schedule(0.1),
        lambda: optax.cosine_onecycle_schedule(100, 1.0),
        lambda: optax.piecewise_interpolate_schedule("linear", 1.0, {10: 0.5}),
        lambda: optax.warmup_cosine_decay_schedule(0.0, 1.0, 10, 100),
        lambda: optax.exponential_decay(1.0, 10, 0.9),
    ],
)
def test_every_kind_of_optax_schedule_works_on_vectors_of_counts(make):
    original = make()
    counts = jnp.array([1, 5, 50], jnp.int32)
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


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: schedules.sqrt_decay(0), "scale must be greater than 0, but it is 0."),
        (
            lambda: schedules.sqrt_growth([1, -2]),
            "scale must be greater than 0, but it is [ 1 -2].",
        ),
        (lambda: schedules.power_decay(1, -1), "power must be at least 0, but it is -1."),
        (lambda: schedules.geometric(1, np.inf), "ratio must be finite, but it is inf."),
        (lambda: schedule(3), "function must be callable as function(k, ...), but it is 3."),
        (lambda: from_optax(0.1), "optax_schedule must be callable, but it is 0.1."),
    ],
)
def test_mistakes_get_a_sentence(build, sentence):
    with pytest.raises(InputError) as caught:
        build()
    assert str(caught.value) == sentence
