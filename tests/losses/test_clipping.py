"""Means of clipped gradients: no sample of the whole range moves them further than promised.

Differences are taken in exact arithmetic, of the numbers that come out.
"""

from dataclasses import replace
from fractions import Fraction
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fedjax_admm import graphs, losses
from fedjax_admm.losses import clipped_mean, rounding_excess
from fedjax_admm.problems import consensus_regression, federated
from tests.solvers.private.cases import WITHOUT_OPTIMUM

pytestmark = pytest.mark.thorough

SAMPLES, DIM = 4, 3
LOSSES = {
    "squared": losses.squared,
    "absolute": losses.absolute,
    "huber": lambda: losses.huber(0.8),
    "quantile": lambda: losses.quantile(0.3),
    "logistic": losses.logistic,
}


def numbers(dtype, **options):
    return st.floats(width=np.finfo(dtype).bits, **options)


def rows(dtype, count, **options):
    return st.lists(numbers(dtype, **options), min_size=count, max_size=count).map(
        lambda row: np.array(row, dtype)
    )


def far_apart(first, second, clip, samples):
    """Return whether two means are further apart than `2 c / M (1 + e)`, exactly."""
    dtype = first.dtype
    excess = Fraction(float(rounding_excess(jnp.asarray(samples), dtype)))
    bound = 2 * Fraction(float(clip)) / samples * (1 + excess)
    gaps = [Fraction(float(a)) - Fraction(float(b)) for a, b in zip(first, second, strict=True)]
    return sum(gap * gap for gap in gaps) > bound * bound


@cache
def problem_of(loss, dtype):
    with jax.enable_x64(dtype == "float64"), WITHOUT_OPTIMUM:
        x, y = np.ones((2, SAMPLES, DIM), dtype), np.ones((2, SAMPLES), dtype)
        return consensus_regression(graphs.chain(2), list(x), list(y), LOSSES[loss]())


@jax.jit
def gradients(problem, x, y, w, clip):
    return replace(problem, features=x, targets=y).clipped_gradients(w, clip)


@pytest.mark.parametrize(
    ("loss", "dtype"),
    [*((loss, "float32") for loss in LOSSES), ("squared", "float64"), ("logistic", "float64")],
)
def test_no_replacement_moves_the_clipped_mean_further_than_promised(loss, dtype):
    """Data, models and samples are any numbers there are: subnormal, infinite, none."""

    @settings(max_examples=80, deadline=None)
    @given(
        rows(dtype, SAMPLES * (DIM + 1)),
        rows(dtype, 2 * DIM),
        rows(dtype, DIM + 1),
        numbers(dtype, min_value=2.0**-30, max_value=2.0**30),
    )
    def check(data, models, sample, clip):
        with jax.enable_x64(dtype == "float64"):
            data = data.reshape(SAMPLES, DIM + 1)
            x, y = np.stack([data[:, :DIM]] * 2), np.stack([data[:, DIM]] * 2)
            other_x, other_y = x.copy(), y.copy()
            other_x[0, 0], other_y[0, 0] = sample[:DIM], sample[DIM]
            w, clip = jnp.asarray(models.reshape(2, DIM)), jnp.asarray(clip, dtype)
            problem = problem_of(loss, dtype)
            first, second = (
                np.asarray(gradients(problem, jnp.asarray(a), jnp.asarray(b), w, clip))
                for a, b in ((x, y), (other_x, other_y))
            )
            public = np.isfinite(models.reshape(2, DIM)).all(1)
            # The regulariser's part of a model that is no number is none, whatever the data.
            np.testing.assert_array_equal(np.isnan(first), np.isnan(second))
            np.testing.assert_array_equal(first[1], second[1])
            if public[0]:
                assert np.isfinite(first[0]).all()
                assert not far_apart(first[0], second[0], clip, SAMPLES)

    check()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("samples", [1, 64, 65, 1000])
def test_sums_of_many_samples_keep_the_promise(samples, dtype):
    """Where all gradients are as long as the norm, rounding is the largest."""
    rng = np.random.default_rng(samples)
    with jax.enable_x64(dtype == "float64"):
        mean = jax.jit(clipped_mean)
        for _ in range(20):
            vectors = rng.standard_normal((samples, 5)) + rng.integers(0, 2) * 10
            slopes = 10.0 ** rng.uniform(-3, 30, samples)
            other = vectors.copy()
            other[0] = rng.choice([-1, 1e20, np.nan]) * vectors[0]
            clip = jnp.asarray(rng.uniform(0.1, 3), dtype)
            first, second = (
                np.asarray(
                    mean(
                        jnp.asarray(part, dtype),
                        jnp.asarray(slopes, dtype),
                        clip,
                        jnp.asarray(samples),
                    )
                )
                for part in (vectors, other)
            )
            assert not far_apart(first, second, clip, samples)
            lengths = np.linalg.norm(vectors, axis=1)
            exact = (vectors * np.minimum(slopes, float(clip) / lengths)[:, None]).mean(0)
            # Cut a little short of the norm: 13 eps.
            error = np.linalg.norm(first - exact) / float(clip)
            assert error < float(rounding_excess(jnp.asarray(samples), dtype)) + 2e-5


def loss_of_ones_own(w, sample):
    """Return a loss whose gradients overflow, divide by zero, and have roots of negatives."""
    x, y = sample
    p = jnp.dot(w, x)
    return jnp.exp(p) + jnp.sqrt(y) / (p - y) + jnp.log(p) * y


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_loss_of_ones_own_keeps_the_promise_whatever_its_gradients_are(dtype):
    with jax.enable_x64(dtype == "float64"):
        limits, rng = np.finfo(dtype), np.random.default_rng(0)
        values = np.array([0, 1, -1, limits.tiny / 4, limits.max, -limits.max, 50, -1e4], dtype)
        w = jnp.asarray(rng.standard_normal((2, DIM)), dtype)

        @jax.jit
        def mean(problem, x, y):
            other = (features.at[0, 0].set(x), targets.at[0, 0].set(y))
            data = replace(problem.data, samples=other)
            return replace(problem, data=data).clipped_gradients(w, jnp.asarray(0.7, dtype))

        features = jnp.asarray(rng.choice(values, (2, SAMPLES, DIM)))
        targets = jnp.asarray(rng.choice(values, (2, SAMPLES)))
        harmless = [(jnp.ones((SAMPLES, DIM), dtype), jnp.ones(SAMPLES, dtype))] * 2
        start = jnp.ones(DIM, dtype)
        problem = federated(loss_of_ones_own, harmless, start, topology=graphs.chain(2))
        special = np.array([*values, np.nan, np.inf], dtype)
        found = [
            np.asarray(
                mean(
                    problem, jnp.asarray(rng.choice(special, DIM)), jnp.asarray(rng.choice(special))
                )
            )
            for _ in range(60)
        ]
        assert np.isfinite(found).all()
        for one in found:
            np.testing.assert_array_equal(one[1], found[0][1])
            assert not far_apart(one[0], found[0][0], 0.7, SAMPLES)
