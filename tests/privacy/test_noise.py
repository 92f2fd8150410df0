"""Normal noise: its quantiles, its tails, what a plan may ask of it, and its grid."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32
from scipy import special, stats

from fedjax_admm import InputError
from fedjax_admm.privacy import gaussian_release, tail_mass, zcdp_plan, zcdp_plan_of_budget
from fedjax_admm.privacy._noise import normal_of_words, on_grid, standard_normal, threefry

BITS = {"float32": 95, "float64": 127}
PRECISE = {"float32": 6e-7, "float64": 1e-15}
LARGEST = {"float32": 11.303410, "float64": 13.108626}


def words_of(numbers, dtype, sign=0):
    """Return the words whose sign and whole numbers are these, shape (words, count)."""
    count = (BITS[dtype] + 1) // 32
    parts = [[(n >> 32 * (count - 1 - i)) & (2**32 - 1) for n in numbers] for i in range(count)]
    words = np.array(parts, np.uint32)
    words[0] += np.uint32(sign << 31)
    return jnp.asarray(words)


def whole_numbers(dtype):
    """Return numbers below 2^B of all sizes, and as near to 2^B."""
    bits, rng = BITS[dtype], np.random.default_rng(0)
    small = [int(2**e * (1 + rng.random())) for e in np.linspace(0, bits - 1.01, 300)]
    ends = [0, 1, 2, int(0.15 * 2**31) << (bits - 31), (int(0.15 * 2**31) << (bits - 31)) - 1]
    return [n for n in small + ends for n in (n, 2**bits - 1 - n)]


@pytest.mark.thorough
def test_numbers_are_the_quantiles_of_the_bits_in_both_tails(dtype):
    name = np.dtype(dtype).name
    numbers = whole_numbers(name)
    found = np.asarray(normal_of_words(words_of(numbers, name), dtype), np.float64)
    bits = BITS[name]
    # Python divides whole numbers correctly; masses near 1/2 are counted from the middle.
    beyond = np.array([(2 * n + 1) / 2 ** (bits + 2) for n in numbers])
    near = np.array([(2 ** (bits + 1) - 2 * n - 1) / 2 ** (bits + 2) for n in numbers])
    exact = np.where(beyond < 0.25, stats.norm.isf(beyond), math.sqrt(2) * special.erfinv(2 * near))
    np.testing.assert_allclose(found, exact, rtol=PRECISE[name])
    assert found.max() == pytest.approx(LARGEST[name], rel=1e-6)
    assert found.min() > 0
    mirrored = normal_of_words(words_of(numbers, name, sign=1), dtype)
    np.testing.assert_array_equal(mirrored, -found)


@pytest.mark.parametrize("count", [1, 2, 7, 1200])
def test_words_are_those_of_jax(count):
    pair = jnp.asarray([123456789, 4000000000], jnp.uint32)
    numbers = jax.lax.iota(jnp.uint32, count)
    np.testing.assert_array_equal(threefry(pair, numbers), threefry_2x32(pair, numbers))


@pytest.mark.thorough
@pytest.mark.parametrize("given", [2**6, 2**20, 2**31])
def test_tails_are_normal_too(given, dtype):
    """Given a first word below so much, down to nothing: a tail that no session draws."""
    count = (BITS[np.dtype(dtype).name] + 1) // 32
    words = jax.random.bits(jax.random.key(1), (count, 20000), jnp.uint32)
    words = words.at[0].set(words[0] % np.uint32(given))
    found = np.asarray(normal_of_words(words, dtype), np.float64)
    masses = stats.norm.sf(found) / (given / 2**32)
    assert stats.kstest(masses, "uniform").pvalue > 1e-3


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_a_key_of_a_batch_decides_its_noise_alone(kind):
    """Bits of other generators follow under `jax.vmap` from the first key of a batch."""
    keys = jax.random.split(jax.random.key(3, impl=kind), 3)
    drawn = jax.vmap(lambda key: standard_normal(key, (4,), jnp.float32))(keys)
    for key, row in zip(keys, drawn, strict=True):
        np.testing.assert_array_equal(row, standard_normal(key, (4,), jnp.float32))


def test_more_numbers_than_are_counted_are_refused():
    with pytest.raises(InputError, match=r"shape must have fewer than 2\^30 numbers, but it is"):
        jax.eval_shape(
            lambda key: standard_normal(key, (2**15, 2**15), jnp.float32), jax.random.key(0)
        )


@pytest.mark.parametrize("coarse", ["float16", "bfloat16"])
def test_coarse_numbers_have_no_noise(coarse):
    with pytest.raises(InputError, match=f"dtype must be float32 or float64 .* but it is {coarse}"):
        standard_normal(jax.random.key(0), (3,), coarse)
    release = gaussian_release(zcdp_plan(1.0, 1e-5, 3), 1.0)
    with pytest.raises(InputError, match=f"problem must be float32 or .* but it is {coarse}"):
        release.check(jnp.zeros((2, 3), coarse))
    ones = (jnp.ones(2, coarse), jnp.ones(2, jnp.int32), jnp.ones(2, jnp.int32))
    with pytest.raises(InputError, match=f"messages must be float32 .* but it is {coarse}"):
        release(jax.random.key(0), jnp.zeros((2, 3), coarse), *ones)


# --- what a plan may ask --------------------------------------------------------------------------


def test_the_mass_of_the_tails_is_that_beyond_the_radius_less_a_shift():
    z = np.array([2.0, 0.5, 0.0])
    expected = 4 * stats.norm.sf([9.66 - 0.5, 9.66 - 2.0]).sum()
    assert tail_mass(z) == pytest.approx(expected, rel=1e-9)
    assert tail_mass(np.zeros(3)) == 0


def test_a_delta_that_the_tails_would_fill_is_refused():
    assert gaussian_release(zcdp_plan(8.0, 1e-12, 200), 1.0).entries > 1000
    with pytest.raises(
        InputError,
        match="plan must have a delta that noise can honour, which its tails exceed with",
    ):
        gaussian_release(zcdp_plan(1.0, 1e-20, 200), 1.0)
    with pytest.raises(InputError, match="plan must have a delta that noise can honour"):
        gaussian_release(zcdp_plan_of_budget(60.0, 1e-5, 1), 1.0)
    gaussian_release(zcdp_plan(math.inf, 1e-20, 200), 1.0)  # there is no noise


def test_messages_that_are_too_long_for_the_tails_are_refused():
    release = gaussian_release(zcdp_plan(1.0, 1e-15, 200), 1.0)
    number = release.entries
    release.check(jax.ShapeDtypeStruct((3, number), jnp.float32))
    with pytest.raises(
        InputError,
        match="plan must have a delta that noise can honour, which its tails exceed with",
    ):
        release.check(jax.ShapeDtypeStruct((3, 2 * number), jnp.float32))


def test_the_tails_that_count_are_those_of_the_multipliers_that_are_used():
    release, message = gaussian_release(zcdp_plan(8.0, 1e-5, 20), 1.0), jnp.zeros((3, 4))
    release.check(message)
    with pytest.raises(InputError, match="which its tails exceed with 4 numbers"):
        replace(release, multipliers=release.multipliers / 20).check(message)
    both = replace(release, multipliers=jnp.stack([release.multipliers, release.multipliers / 20]))
    with pytest.raises(InputError, match="which its tails exceed with 4 numbers"):
        both.check(message)


# --- the grid -------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_messages_are_multiples_of_a_power_of_two_of_the_deviation(dtype):
    rng, bits = np.random.default_rng(0), 11 if dtype == np.float32 else 25
    deviation = np.array([0.3, 5e-20, 7e15, 1.0], dtype)
    messages = (rng.standard_normal((500, 4)) * 20 * deviation).astype(dtype)
    found = np.asarray(on_grid(jnp.asarray(messages), jnp.asarray(deviation)[None]))
    width = 2.0 ** (np.floor(np.log2(deviation.astype(float))) - bits)
    steps = found.astype(float) / width
    np.testing.assert_array_equal(steps, np.round(steps))
    assert np.abs(found - messages.astype(float)).max(0) / width == pytest.approx(0.5, rel=0.05)


@pytest.mark.thorough
def test_the_grid_leaves_what_is_coarser_and_what_has_no_noise(dtype):
    limits = np.finfo(dtype)
    messages = jnp.asarray([limits.max, -limits.max / 3, 1e12, np.inf, np.nan], dtype)
    np.testing.assert_array_equal(on_grid(messages, jnp.full(1, 1e-9, dtype)), messages)
    odd = jnp.asarray([0.1, -1 / 3, 1e-30], dtype)
    np.testing.assert_array_equal(on_grid(odd, jnp.zeros(1, dtype)), odd)
    slope = jax.grad(lambda x: jnp.sum(on_grid(x, jnp.ones(1, dtype))))(odd)
    np.testing.assert_array_equal(slope, np.ones(3))
