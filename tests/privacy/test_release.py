"""Releases: the noise that was planned, no more and no less, and what their builders refuse."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fedjax_admm import InputError
from fedjax_admm.privacy import (
    ExactRelease,
    approximate_plan,
    exact_release,
    gaussian_release,
    zcdp_plan,
)
from fedjax_admm.privacy._noise import standard_normal
from tests.reference import zcdp as reference

DELTA, ROUNDS, TAU = 1e-5, 6, 0.8
CLIENTS, DIM = 4, 3
SIZES = np.array([3, 50, 7, 1], np.int32)
GAINS = np.array([0.5, 0.01, 2.0, 0.3])
CLIP = 2.5


def plan_of(epsilon=1.0, rounds=ROUNDS):
    return zcdp_plan(epsilon, DELTA, rounds, TAU)


def arguments(n, dtype, dim=DIM):
    """Messages, gains, sizes and counts of releases, as a solver gives them."""
    messages = np.linspace(-1, 1, CLIENTS * dim).reshape(CLIENTS, dim)
    counts = jnp.asarray(np.broadcast_to(n, (CLIENTS,)), jnp.int32)
    return jnp.asarray(messages, dtype), jnp.asarray(GAINS, dtype), jnp.asarray(SIZES), counts


# --- builders -------------------------------------------------------------------------------------


def test_an_exact_release_changes_nothing(dtype):
    release = exact_release()
    assert isinstance(release, ExactRelease)
    assert (release.clip, release.rounds) == (None, None)
    messages, *others = arguments(1, dtype)
    np.testing.assert_array_equal(release(jax.random.key(0), messages, *others), messages)
    clipped = exact_release(CLIP)
    assert float(clipped.clip) == CLIP
    assert clipped.rounds is None
    np.testing.assert_array_equal(clipped(jax.random.key(0), messages, *others), messages)


@pytest.mark.parametrize(
    ("arguments_", "options", "sentence"),
    [
        ((1.0, CLIP), {}, "plan must be a Plan such as zcdp_plan makes, but it is 1.0"),
        ((None,), {}, "clip must be a positive number; or clip=None with nominal_norm=c"),
        ((CLIP,), {"nominal_norm": 1.0}, "clip must be a positive number; or clip=None with"),
        ((0.0,), {}, "clip must be greater than 0, but it is 0"),
        ((math.inf,), {}, "clip must be finite, but it is inf"),
    ],
)
def test_mistakes_get_a_sentence(arguments_, options, sentence):
    if len(arguments_) == 1:
        arguments_ = (plan_of(), *arguments_)
    with pytest.raises(InputError, match=sentence):
        gaussian_release(*arguments_, **options)


# --- the size of the noise ------------------------------------------------------------------------


def test_the_sensitivity_is_that_of_the_three_methods(dtype):
    """2 c gain / M_k, with the gain of each method."""
    degrees, rho, eta, l2 = np.array([1, 3, 2, 4]), 0.7, 0.3, 1.0
    release = gaussian_release(plan_of(), CLIP)

    def found(gains):
        sensitivity = release.sensitivity(jnp.asarray(gains, dtype), jnp.asarray(SIZES))
        assert (sensitivity.shape, sensitivity.dtype) == ((CLIENTS,), dtype)
        return sensitivity

    def expected(function, *numbers):
        return [function(CLIP, SIZES[k], *(n[k] for n in numbers)) for k in range(CLIENTS)]

    penalty = 2 * rho * degrees
    pairs = [
        (
            1 / (penalty + 1 / eta),
            lambda c, m, d: reference.sensitivity_nfl(c, m, d, rho, eta),
        ),
        (
            np.full(CLIENTS, eta),
            lambda c, m, d: reference.sensitivity_grad(c, m, eta),
        ),
        (
            1 / (penalty + 2 * l2 / CLIENTS),
            lambda c, m, d: reference.sensitivity_p_admm(c, m, d, rho, l2, CLIENTS),
        ),
    ]
    for gains, function in pairs:
        np.testing.assert_allclose(found(gains), expected(function, degrees), rtol=1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 7.3])
@pytest.mark.parametrize("make", [zcdp_plan, approximate_plan])
def test_multipliers_are_rounded_up_only(make, epsilon, dtype):
    plan = make(epsilon, DELTA, 333, 0.985)
    rounded = np.asarray(gaussian_release(plan, CLIP).multipliers)
    assert rounded.dtype == dtype
    wide = rounded.astype(np.float64)
    assert (wide >= plan.multipliers).all()
    if dtype == np.float64:
        np.testing.assert_array_equal(wide, plan.multipliers)
        return
    below = np.nextafter(rounded, np.float32(0)).astype(np.float64)
    assert (below < plan.multipliers).all()  # the nearest number that is not smaller
    nearest = plan.multipliers.astype(np.float32).astype(np.float64)
    assert (nearest < plan.multipliers).any()  # which rounding to nearest would not have been


def test_multipliers_that_float32_cannot_hold_are_refused():
    """Their noise would be infinite."""
    plan = zcdp_plan(1.0, DELTA, 200, 0.3)
    assert plan.multipliers[0] > 1e50
    with pytest.raises(InputError, match="tau"):
        gaussian_release(plan, CLIP)
    with jax.enable_x64(True):
        assert gaussian_release(plan, CLIP).multipliers[0] == plan.multipliers[0]


def test_noise_is_multiplier_times_sensitivity_times_standard_normal(dtype):
    """Every client by its own count of releases."""
    plan = plan_of()
    n = np.array([1, 6, 3, 2])
    messages, gains, sizes, counts = arguments(n, dtype)
    release = gaussian_release(plan, CLIP)
    noise = release(jax.random.key(5), messages, gains, sizes, counts) - messages
    normal = np.asarray(standard_normal(jax.random.key(5), messages.shape, dtype), np.float64)
    budgets = plan.budgets[n - 1]
    scale = reference.noise_scale(2 * CLIP * GAINS / SIZES, budgets)
    # Rounding is covered by a little more, and the grid moves a message by a part of the noise.
    error = np.abs(noise - scale[:, None] * normal) / scale[:, None]
    assert error.max() < (4e-4 if dtype == np.float32 else 1e-7)


@pytest.mark.parametrize("n", [(1, 1, 1, 1), (6, 2, 1, 4)])
def test_the_noise_is_normal_and_as_large_as_planned(n, dtype):
    """Chi-square bounds: with a fixed seed the test either holds or does not."""
    plan, draws = plan_of(), 20000
    messages, gains, sizes, counts = arguments(n, dtype, draws)
    sent = gaussian_release(plan, CLIP)(jax.random.key(11), messages, gains, sizes, counts)
    assert (sent.shape, sent.dtype) == (messages.shape, dtype)
    scale = plan.multipliers[np.asarray(n) - 1] * 2 * CLIP * GAINS / SIZES
    normal = (np.asarray(sent, float) - np.asarray(messages, float)) / scale[:, None]
    low, high = stats.chi2.ppf([1e-5, 1 - 1e-5], normal.shape[1]) / normal.shape[1]
    assert high - low < 0.1  # three per cent of the standard deviation would be seen
    assert ((low < (normal**2).mean(1)) & ((normal**2).mean(1) < high)).all()
    assert (np.abs(normal.mean(1)) < 4.5 / math.sqrt(normal.shape[1])).all()
    for client in normal:
        assert stats.kstest(client, "norm").pvalue > 1e-4
    # Clients do not share their noise.
    correlations = np.corrcoef(normal)[np.triu_indices(CLIENTS, 1)]
    assert (np.abs(correlations) < 4.5 / math.sqrt(normal.shape[1])).all()


# --- the ends -------------------------------------------------------------------------------------


def test_no_noise_for_zero_multipliers(dtype):
    release = gaussian_release(plan_of(math.inf), CLIP)
    np.testing.assert_array_equal(release.multipliers, np.zeros(ROUNDS))
    messages, *others = arguments([1, 3, 5, ROUNDS], dtype)
    np.testing.assert_array_equal(release(jax.random.key(0), messages, *others), messages)


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_after_the_last_planned_release_there_is_no_number(epsilon, dtype):
    """Only for the clients that have released too often."""
    release = gaussian_release(plan_of(epsilon), CLIP)
    sent = np.asarray(
        jax.jit(release)(jax.random.key(0), *arguments([1, ROUNDS, ROUNDS + 1, 9999], dtype))
    )
    assert np.isfinite(sent[:2]).all()
    assert np.isnan(sent[2:]).all()


def test_before_the_first_release_there_is_no_number(dtype):
    """A count of 0 must not get the noise of the last release, which is the smallest."""
    release = gaussian_release(plan_of(), CLIP)
    sent = np.asarray(release(jax.random.key(0), *arguments([0, -1, 1, 2], dtype)))
    assert np.isnan(sent[:2]).all()
    assert np.isfinite(sent[2:]).all()
