"""Losses of one sample: their formulas, derivatives and bounds, and what a user may give."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm._checks import InputError
from fedjax_admm.losses import (
    Absolute,
    Huber,
    Squared,
    absolute,
    huber,
    logistic,
    quantile,
    squared,
)

THRESHOLD, LEVEL = 0.75, 0.25  # of few digits: kinks lie where they should in float32 too
BUILDERS = {
    "squared": squared,
    "absolute": absolute,
    "huber": lambda: huber(THRESHOLD),
    "logistic": logistic,
    "quantile": lambda: quantile(LEVEL),
}
FORMULAS = {
    "squared": lambda p, y: (p - y) ** 2,
    "absolute": lambda p, y: abs(p - y),
    "huber": lambda p, y: (
        (p - y) ** 2 / 2 if abs(p - y) <= THRESHOLD else THRESHOLD * (abs(p - y) - THRESHOLD / 2)
    ),
    "logistic": lambda p, y: np.log(1 + np.exp(-y * p)),
    "quantile": lambda p, y: LEVEL * (y - p) if p < y else (1 - LEVEL) * (p - y),
}
SLOPES = {
    "squared": lambda p, y: 2 * (p - y),
    "absolute": lambda p, y: np.sign(p - y),
    "huber": lambda p, y: min(max(p - y, -THRESHOLD), THRESHOLD),
    "logistic": lambda p, y: -y / (1 + np.exp(y * p)),
    "quantile": lambda p, y: {-1: -LEVEL, 0: 0.5 - LEVEL, 1: 1 - LEVEL}[np.sign(p - y)],
}
CURVATURES = {
    "squared": lambda p, y: 2,
    "absolute": lambda p, y: 0,
    "huber": lambda p, y: float(abs(p - y) <= THRESHOLD),
    "logistic": lambda p, y: np.exp(p) / (1 + np.exp(p)) ** 2,
    "quantile": lambda p, y: 0,
}


def samples(name, shape=(6, 7), seed=0):
    """Predictions and targets; some of them meet, and some meet the kinks of the Huber loss."""
    rng = np.random.default_rng(seed)
    y = rng.integers(-8, 9, shape) / 4
    p = y + rng.integers(-8, 9, shape) / 4
    return p, np.where(y > 0, 1.0, -1.0) if name == "logistic" else y


@pytest.mark.parametrize("name", BUILDERS)
def test_values_slopes_and_curvatures_are_those_of_the_formulas(name, dtype):
    loss = BUILDERS[name]()
    p, y = (jnp.asarray(part, dtype) for part in samples(name))
    tolerance = 8 * jnp.finfo(dtype).eps
    for method, formula in (
        (loss.value, FORMULAS[name]),
        (loss.slope, SLOPES[name]),
        (loss.curvature, CURVATURES[name]),
    ):
        found = jax.jit(method)(p, y)
        assert found.shape == p.shape
        assert found.dtype == dtype
        wanted = np.vectorize(formula, otypes=[float])(*samples(name))
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def test_the_samples_meet_the_kinks():
    p, y = samples("huber")
    assert np.any(p == y)
    assert np.any(p - y == THRESHOLD)
    assert np.any(y - p == THRESHOLD)


@pytest.mark.parametrize("name", BUILDERS)
def test_a_slope_is_the_derivative_and_a_curvature_that_of_the_slope(name, x64):
    loss = BUILDERS[name]()
    p, y = samples(name, seed=1)
    p = jnp.asarray(p + 0.1)  # away from the kinks
    slopes = jax.grad(lambda p: jnp.sum(loss.value(p, y)))(p)
    np.testing.assert_allclose(loss.slope(p, y), slopes, rtol=1e-12, atol=1e-14)
    curvatures = jax.grad(lambda p: jnp.sum(loss.slope(p, y)))(p)
    np.testing.assert_allclose(loss.curvature(p, y), curvatures, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", BUILDERS)
def test_the_largest_curvature_is_the_least_bound(name, x64):
    loss = BUILDERS[name]()
    p = jnp.linspace(-3, 3, 1201)
    y = jnp.ones(1201)
    bound = loss.largest_curvature()
    assert isinstance(bound, float)
    assert float(jnp.max(loss.curvature(p, y))) == pytest.approx(bound, abs=1e-12)
    # The slope never rises faster, and never falls: the loss is convex.
    rises = np.diff(loss.slope(p, y)) / np.diff(p)
    if bound > 0:
        assert rises.max() <= bound * (1 + 1e-9)
    assert rises.min() >= 0


def test_the_quantile_is_what_minimises_the_mean(x64):
    y = jnp.asarray(np.random.default_rng(5).standard_normal(101))
    p = jnp.sort(y)
    means = jnp.mean(quantile(LEVEL).value(p[:, None], y[None]), 1)
    assert int(jnp.argmin(means)) == 25  # of 101 in order
    half = quantile(0.5)
    np.testing.assert_allclose(2 * half.value(p, y), absolute().value(p, y), rtol=1e-14)
    np.testing.assert_allclose(2 * half.slope(p, y), absolute().slope(p, y), rtol=1e-14)


def test_logistic_far_out(dtype):
    """No overflow, and the small side keeps its digits."""
    p = jnp.array([-1000, -80, 80, 1000], dtype)
    y = jnp.ones(4, dtype)
    loss, far = logistic(), np.exp(-80)
    np.testing.assert_allclose(loss.value(p, y), [1000, 80, far, 0], rtol=1e-5)
    np.testing.assert_allclose(loss.slope(p, y), [-1, -1, -far, 0], rtol=1e-5)
    np.testing.assert_allclose(loss.value(-p, -y), [1000, 80, far, 0], rtol=1e-5)
    np.testing.assert_allclose(loss.slope(-p, -y), [1, 1, far, 0], rtol=1e-5)
    curvatures = np.asarray(loss.curvature(p, y))
    assert np.all((curvatures >= 0) & (curvatures < 1e-30))


def test_losses_are_pytrees_that_know_their_class():
    structures = [jax.tree.structure(build()) for build in BUILDERS.values()]
    assert all(a != b for i, a in enumerate(structures) for b in structures[:i])
    assert jax.tree.structure(Squared()) != jax.tree.structure(Absolute())
    (leaf,) = jax.tree.leaves(huber(0.5))
    assert leaf.shape == ()
    assert isinstance(jax.tree.map(lambda t: 2 * t, huber(0.5)), Huber)


@pytest.mark.parametrize(
    ("build", "value", "message"),
    [
        (quantile, 0, "level must be greater than 0, but it is 0"),
        (quantile, 1.0, "level must be less than 1, but it is 1"),
        (huber, np.nan, "threshold must be finite"),
        (huber, [1.0, 2.0], r"threshold must be one number, but it has shape \(2,\)"),
    ],
)
def test_numbers_out_of_range_are_refused(build, value, message):
    with pytest.raises(InputError, match=message):
        build(value)
