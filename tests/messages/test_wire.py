"""The wire: what is counted is what is written, and what is read is what was sent."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import InputError, messages


def closed(dim, rows=1):
    """The compressors, and the bits that the published formulas count."""
    index = int(np.ceil(np.log2(dim)))
    return [
        (messages.qsgd(1), 32 + dim * 2),
        (messages.identity(), 32 * dim),
        (messages.qsgd(4), 32 + dim * 4),
        (messages.qsgd(7), 32 + dim * 4),
        (messages.qsgd(8), 32 + dim * 5),
        (messages.qsgd(2**24), 32 + dim * 26),
        (messages.natural(), 9 * dim),
        (messages.scaled_sign(), 32 + dim),
        (messages.top_k(3), 3 * (32 + index)),
        (messages.top_k(dim), 32 * dim),
        (messages.rand_k(3), 32 * 3),
        (messages.rand_k(dim), 32 * dim),
        (messages.cast("float16"), 16 * dim),
        (messages.cast("bfloat16"), 16 * dim),
        (messages.error_feedback(messages.top_k(3)), 3 * (32 + index)),
        (messages.differences(messages.qsgd(4)), 32 + dim * 4),
    ]


def inner(channel):
    return inner(channel.channel) if hasattr(channel, "channel") else channel


def there_and_back(channel, message, key):
    """The bytes of a message; and what is read from them, compared with what was coded."""
    message = jnp.asarray(message)
    compressor = inner(channel)
    code = compressor.code(message, key)
    data = messages.to_bytes(channel, code, message.shape)
    back = messages.from_bytes(channel, data, message.shape, key)
    sent, read = jax.tree.leaves(code), jax.tree.leaves(back)
    assert jax.tree.structure(code) == jax.tree.structure(back)
    for one, other in zip(sent, read, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        assert np.asarray(one).tobytes() == other.tobytes()
    arrives = compressor.read(back, message.shape, message.dtype)
    np.testing.assert_array_equal(arrives, compressor.read(code, message.shape, message.dtype))
    return data


@pytest.mark.parametrize("shape", [(5,), (64,), (7, 9), (2, 2, 3), (129,)])
def test_the_bits_are_those_of_the_formulas(shape):
    dim = int(np.prod(shape))
    for channel, bits in closed(dim):
        assert channel.bits(shape) == bits
    assert messages.low_rank(2).bits((7, 9)) == 32 * 2 * (7 + 9)
    assert messages.low_rank(20).bits((7, 9)) == 32 * 7 * (7 + 9)


@pytest.mark.parametrize("case", closed(21), ids=lambda case: type(case[0]).__name__)
@pytest.mark.kin(1)
def test_bytes_are_as_many_as_were_counted_and_are_read_as_they_were_sent(case):
    channel, bits = case
    message = np.random.default_rng(0).standard_normal((3, 7)).astype(np.float32)
    data = there_and_back(channel, message, jax.random.key(1))
    assert isinstance(data, bytes)
    assert len(data) * 8 == bits + -bits % 8


@pytest.mark.thorough
@pytest.mark.parametrize("shape", [(5, 13), (0,)])
def test_any_shape_and_any_number_goes_there_and_back(shape):
    rng = np.random.default_rng(2)
    for channel, _ in closed(21):
        for scale in (0.0, 1e-42, 1e36, np.nan):
            message = (rng.standard_normal(shape) * scale).astype(np.float32)
            data = there_and_back(channel, message, jax.random.key(1))
            assert len(data) == -(-channel.bits(shape) // 8)


@pytest.mark.thorough
def test_low_rank_factors_go_there_and_back():
    channel = messages.low_rank(2)
    matrix = jnp.asarray(np.random.default_rng(0).standard_normal((5, 4)), jnp.float32)
    state = channel.init(matrix)
    data = there_and_back_of_factors(channel, matrix, state)
    assert len(data) * 8 == 32 * 2 * (5 + 4)


def there_and_back_of_factors(channel, matrix, state):
    data = messages.to_bytes(channel, channel.code(matrix, state), matrix.shape)
    back = messages.from_bytes(messages.error_feedback(channel), data, matrix.shape)
    arrives, _ = channel.encode(matrix, state, None)
    np.testing.assert_array_equal(channel.read(back, matrix.shape, matrix.dtype), arrives)
    return data


@pytest.mark.thorough
def test_what_arrives_in_a_run_is_what_the_bytes_say():
    message = jnp.asarray(np.random.default_rng(3).standard_normal((3, 7)), jnp.float32)
    for channel, _ in closed(21):
        compressor, key = inner(channel), jax.random.key(6)
        arrives, _ = compressor.encode(message, compressor.init(message), jax.random.clone(key))
        code = compressor.code(message, jax.random.clone(key))
        data = messages.to_bytes(compressor, code, message.shape)
        read = messages.from_bytes(compressor, data, message.shape, key)
        np.testing.assert_array_equal(compressor.read(read, message.shape, jnp.float32), arrives)


@pytest.mark.thorough
def test_in_double_precision_numbers_are_rounded_on_the_wire(x64):
    message = jnp.asarray(np.random.default_rng(3).standard_normal(21))
    for channel, bits in closed(21)[2:12:4] + closed(21)[12:13]:
        compressor, key = inner(channel), jax.random.key(6)
        code = compressor.code(message, key)
        data = messages.to_bytes(channel, code, (21,))
        assert len(data) * 8 == bits + -bits % 8
        read = compressor.read(messages.from_bytes(channel, data, (21,), key), (21,), jnp.float64)
        assert read.dtype == jnp.float64
        np.testing.assert_allclose(read, compressor.read(code, (21,), jnp.float64), rtol=1e-7)


def test_known_bytes():
    message = jnp.asarray([1.5, 0.0, -0.5], jnp.float32)
    exact = messages.natural().code(jnp.asarray([1.0, 0.0, -0.5]), jax.random.key(0))
    data = messages.to_bytes(messages.natural(), exact, (3,))
    # The signs 0 0 1, then the exponents 127, 0 and 126, and zeros up to the end of a byte.
    digits = "001" + "01111111" + "00000000" + "01111110"
    assert "".join(f"{byte:08b}" for byte in data) == digits.ljust(32, "0")
    whole = messages.to_bytes(messages.identity(), message, (3,))
    assert whole == np.asarray(message, ">f4").tobytes()


@pytest.mark.thorough
def test_what_cannot_be_read_is_refused():
    channel = messages.rand_k(2)
    code = channel.code(jnp.arange(4.0), jax.random.key(0))
    data = messages.to_bytes(channel, code, (4,))
    with pytest.raises(InputError, match="key must be that with which the message was coded"):
        messages.from_bytes(channel, data, (4,))
    with pytest.raises(InputError, match=r"data must have 8 bytes for a message of shape \(4,\)"):
        messages.from_bytes(channel, data + b"0", (4,), jax.random.key(0))
