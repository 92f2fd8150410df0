"""Compressors: their definitions, the constants that they state, and the ends of their range."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import InputError, messages
from fedjax_admm.messages.compression import _compressors as compressors
from tests.reference import compressors as reference

X = np.random.default_rng(0).standard_normal(64)
UNBIASED = [
    messages.qsgd(1),
    messages.qsgd(4),
    messages.qsgd(16),
    messages.natural(),
    messages.rand_k(8),
]
CONTRACTIVE = [
    messages.scaled_sign(),
    messages.top_k(8),
    messages.cast("float16"),
    messages.cast("bfloat16"),
]
ALL = UNBIASED + CONTRACTIVE


def name(compressor):
    settings = [str(value) for value in vars(compressor).values()]
    return "-".join([type(compressor).__name__, *settings])


def arrives(compressor, x, key=None):
    key = jax.random.key(3) if key is None else key
    return compressor.encode(jnp.asarray(x), compressor.init(jnp.asarray(x)), key)[0]


def drawn(compressor, x, draws):
    """What arrives of one message, many times."""
    keys = jax.random.split(jax.random.key(7), draws)
    return jax.jit(jax.vmap(lambda key: arrives(compressor, x, key)))(keys)


def twin(compressor, x, key):
    """What arrives according to the reference, with the same draws."""
    uniforms = np.asarray(jax.random.uniform(jax.random.clone(key), x.shape, x.dtype))
    match compressor:
        case compressors.QSGD():
            return reference.qsgd(x, compressor.levels, uniforms)
        case compressors.Natural():
            return reference.natural(x, uniforms)
        case compressors.RandK():
            code = compressor.code(jnp.asarray(x), jax.random.clone(key))
            return reference.rand_k(x, np.asarray(code.places))
        case compressors.ScaledSign():
            return reference.scaled_sign(x)
        case compressors.TopK():
            return reference.top_k(x, compressor.entries)
        case compressors.Cast():
            return reference.cast(x, jnp.dtype(compressor.dtype))


@pytest.mark.kin(1)
@pytest.mark.parametrize("compressor", ALL, ids=name)
def test_what_arrives_equals_the_reference_in_any_shape(compressor, x64):
    x = np.random.default_rng(1).standard_normal((4, 3, 5)) * 10.0 ** np.arange(-2, 3)
    x[0, 0] = 0
    key = jax.random.key(5)
    np.testing.assert_allclose(
        arrives(compressor, x, key), twin(compressor, x, key), rtol=1e-13, atol=0
    )


EXACT = {
    "QSGD-1": 5.52888,
    "QSGD-4": 0.67512,
    "QSGD-16": 0.04201,
    "Natural": 0.09075,
    "RandK-8": 7.0,
}


@pytest.mark.thorough
@pytest.mark.parametrize("compressor", UNBIASED, ids=name)
def test_unbiased_ones_are_unbiased_with_the_error_of_the_formula(compressor, x64):
    draws, square = 20_000, np.sum(X**2)
    many = np.asarray(drawn(compressor, X, draws))
    errors = np.sum((many - X) ** 2, axis=1) / square
    exact = EXACT[name(compressor)]
    assert abs(np.mean(errors) - exact) < max(5 * np.std(errors) / math.sqrt(draws), 1e-5)
    assert exact <= compressor.omega((64,)) * (1 + 1e-12)
    scores = (np.mean(many, axis=0) - X) / (np.std(many, axis=0) / math.sqrt(draws) + 1e-15)
    assert np.max(np.abs(scores)) < 5
    assert compressor.contraction((64,)) == 1 / (1 + compressor.omega((64,)))


def test_the_constant_of_qsgd_is_attained_and_bounds_every_message():
    assert [messages.qsgd(s).omega((64,)) for s in (1, 4, 16)] == [8.0, 1.0, 0.0625]
    for s in (1, 4, 16):
        for seed in range(20):
            rng = np.random.default_rng(seed)
            x = rng.standard_normal(64) * rng.exponential(size=64) ** (seed / 5)
            omega = messages.qsgd(s).omega((64,))
            assert reference.qsgd_error(x, s) <= omega * np.sum(x**2) * (1 + 1e-12)
    assert reference.qsgd_error(np.ones(64), 4) == 64  # omega = 1 times the square of the norm
    for s, expected in ((1, 5.52888), (4, 0.67512), (16, 0.04201)):
        relative = reference.qsgd_error(X, s) / np.sum(X**2)
        assert relative == pytest.approx(expected, abs=6e-6)


def test_the_constant_of_natural_compression_is_attained_at_four_thirds():
    assert messages.natural().omega((1,)) == 1 / 8
    worst = np.array([4 / 3])
    assert reference.natural_error(worst) / np.sum(worst**2) == pytest.approx(1 / 8, rel=1e-14)
    for m in np.linspace(1, 2, 101):
        assert reference.natural_error(np.array([m])) <= m**2 / 8 * (1 + 1e-14)
    assert reference.natural_error(X) / np.sum(X**2) == pytest.approx(0.09075, abs=6e-6)


def relative_error(compressor, x):
    return float(np.sum((np.asarray(arrives(compressor, x)) - x) ** 2) / np.sum(x**2))


def test_the_errors_of_contractive_ones_are_those_of_their_formulas(x64):
    assert relative_error(messages.top_k(8), X) == pytest.approx(0.550867, abs=1e-6)
    assert relative_error(messages.top_k(8), np.ones(64)) == 1 - messages.top_k(8).contraction(
        (64,)
    )
    for x, expected in ((X, 0.333965), (np.where(np.arange(64) < 16, 0, X), 0.481116)):
        error = relative_error(messages.scaled_sign(), x)
        assert error == pytest.approx(expected, abs=1e-6)
        formula = np.sum(np.abs(x)) ** 2 / (64 * np.sum(x**2))
        assert error == pytest.approx(1 - formula, rel=1e-12)
    one = np.eye(64)[3]
    assert relative_error(messages.scaled_sign(), one) == pytest.approx(1 - 1 / 64, rel=1e-14)
    assert messages.scaled_sign().contraction((64,)) == 1 / 64


@pytest.mark.thorough
@pytest.mark.parametrize(("dtype", "digits"), [("float16", 11), ("bfloat16", 8)])
def test_a_cast_has_half_a_unit_of_the_last_place(dtype, digits, x64):
    compressor, unit = messages.cast(dtype), 2.0**-digits
    x = np.exp(np.random.default_rng(0).uniform(-9, 11, 5000))
    errors = np.abs(np.asarray(arrives(compressor, x)) - x) / x
    assert unit / 2 < np.max(errors) <= unit
    assert compressor.contraction((5000,)) == 1 - unit**2
    assert compressor.omega((5000,)) is None


@pytest.mark.thorough
def test_ties_go_to_the_lowest_index_and_more_than_all_is_all():
    x = np.array([[1.0, -2.0], [2.0, 2.0]], np.float32)
    np.testing.assert_array_equal(arrives(messages.top_k(2), x), [[0, -2], [2, 0]])
    for compressor in (messages.top_k(9), messages.rand_k(9)):
        np.testing.assert_array_equal(arrives(compressor, x), x)
        assert compressor.contraction((2, 2)) == 1
        assert compressor.bits((2, 2)) == 128


@pytest.mark.thorough
@pytest.mark.parametrize("compressor", ALL, ids=name)
def test_zeros_and_empty_messages_arrive_as_such_with_finite_derivatives(compressor):
    for shape in ((), (0, 3)):
        x = jnp.zeros(shape)
        out, pull = jax.vjp(jax.jit(lambda x: arrives(compressor, x)), x)
        assert (out.shape, out.dtype) == (shape, x.dtype)
        np.testing.assert_array_equal(out, x)
        assert np.all(np.isfinite(pull(jnp.ones(shape))[0]))


@pytest.mark.thorough
@pytest.mark.parametrize("compressor", ALL, ids=name)
def test_at_both_ends_of_the_range_numbers_and_derivatives_are_finite(compressor):
    dtype = np.dtype(np.float32)  # the shorter range of the two
    kind, coded = np.finfo(dtype), jax.jit(lambda x: arrives(compressor, x))
    for scale in (kind.max / 64, kind.tiny, kind.tiny / 64):
        x = np.asarray(X / np.max(np.abs(X)), dtype) * dtype.type(scale)
        out, pull = jax.vjp(coded, jnp.asarray(x))
        assert np.all(np.isfinite(out))
        assert np.all(np.isfinite(pull(jnp.ones(64, dtype))[0]))
    full = np.full(4, kind.max, dtype)
    if not isinstance(compressor, compressors.RandK):
        assert np.all(np.isfinite(arrives(compressor, full)))


@pytest.mark.thorough
def test_qsgd_stays_unbiased_where_the_norm_leaves_the_range():
    largest = np.finfo(np.float32).max
    x = np.array([0.9, 0.5, -0.9, 0.7], np.float32) * largest
    many = np.asarray(drawn(messages.qsgd(2), x, 4000), np.float64) / largest
    np.testing.assert_allclose(np.mean(many, axis=0), x / largest, atol=5 * 0.25 / 4000**0.5)


@pytest.mark.thorough
def test_natural_compression_saturates_at_exponents_of_eight_bits(x64):
    x = np.array([2.0**127, 2.0**128, -1e300, 2.0**-126, 1e-300, 0.0, np.nan, -np.inf])
    out = arrives(messages.natural(), x)
    np.testing.assert_array_equal(
        out, [2.0**127, 2.0**127, -(2.0**127), 2.0**-126, 0, 0, np.nan, np.nan]
    )
    small = 2.0**-128
    many = np.asarray(drawn(messages.natural(), np.full(1000, small), 4))
    assert set(np.unique(many)) == {0.0, 2.0**-126}
    assert np.mean(many) == pytest.approx(small, rel=0.2)


@pytest.mark.thorough
@pytest.mark.parametrize("compressor", UNBIASED, ids=name)
def test_what_is_not_finite_is_not_made_finite(compressor):
    x = np.array([1.0, np.nan, 2.0], np.float32)
    if isinstance(compressor, compressors.RandK):
        compressor = messages.rand_k(3)
    assert not np.all(np.isfinite(arrives(compressor, x)))


@pytest.mark.thorough
def test_a_cast_knows_the_small_and_the_large_numbers_of_float16(dtype):
    x = np.array([7e4, -1e30, 65504, 6e-8, 1e-7, 3e-6, 2.9e-8, 6.1e-5], dtype)
    out = np.asarray(jax.jit(lambda x: arrives(messages.cast("float16"), x))(x))
    np.testing.assert_array_equal(out, reference.cast(x, np.float16))
    np.testing.assert_array_equal(out[:4], [65504, -65504, 65504, 2.0**-24])


@pytest.mark.thorough
def test_roundings_have_the_derivative_of_the_identity():
    x = jnp.asarray(X, jnp.float32)
    for compressor in (messages.qsgd(4), messages.natural(), messages.cast("bfloat16")):
        slope = jax.grad(lambda x, c=compressor: jnp.sum(jnp.arange(64.0) * arrives(c, x)))(x)
        np.testing.assert_array_equal(slope, np.arange(64))


@pytest.mark.thorough
def test_entries_and_signs_have_their_own_derivative():
    x = jnp.asarray([3.0, -1.0, 0.0, -4.0])
    jacobian = jax.jacobian(jax.jit(lambda x: arrives(messages.top_k(2), x)))(x)
    np.testing.assert_array_equal(jacobian, np.diag([1, 0, 0, 1]))
    jacobian = jax.jacobian(jax.jit(lambda x: arrives(messages.scaled_sign(), x)))(x)
    np.testing.assert_array_equal(jacobian, np.outer([1, -1, 1, -1], [1, -1, 1, -1]) / 4)
    sent = np.asarray(arrives(messages.rand_k(2), x + 10)) != 0
    jacobian = jax.jacobian(jax.jit(lambda x: arrives(messages.rand_k(2), x)))(x)
    np.testing.assert_array_equal(jacobian, np.diag(2.0 * sent))


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: messages.qsgd(0), "levels must be at least 1"),
        (lambda: messages.qsgd(2**25), "levels must be at most 16777216"),
        (lambda: messages.qsgd(2.5), "levels must be a whole number"),
        (lambda: messages.top_k(0), "k must be at least 1"),
        (lambda: messages.rand_k(-3), "k must be at least 1"),
        (lambda: messages.cast("int8"), "dtype must be one of 'float16' and 'bfloat16'"),
        (lambda: messages.low_rank(0), "rank must be at least 1"),
    ],
)
def test_builders_say_what_is_wrong(build, sentence):
    with pytest.raises(InputError, match=sentence):
        build()
