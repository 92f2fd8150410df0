"""Feedback: what a message loses is sent later, or both ends correct what the receiver knows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import InputError, messages
from fedjax_admm.messages.compression import _compressors as compressors
from tests.reference import compressors as reference

X = np.random.default_rng(0).standard_normal(64)


def sent(channel, said, start=None, seed=4):
    """What arrives of messages one after the other, and the last state."""
    said = jnp.asarray(said)
    keys = jax.random.split(jax.random.key(seed), said.shape[0])
    first = jnp.zeros_like(said[0]) if start is None else jnp.asarray(start)

    def step(state, message):
        arrives, state = channel.encode(message[0], state, message[1])
        return state, arrives

    state, arrives = jax.jit(lambda: jax.lax.scan(step, channel.init(first), (said, keys)))()
    return np.asarray(arrives), state


def constant(channel, x, count, start=None, seed=4):
    """The relative error after each of some messages of the same content."""
    arrives, _ = sent(channel, np.broadcast_to(x, (count, *x.shape)), start, seed)
    axes = tuple(range(1, arrives.ndim))
    return np.sqrt(np.sum((arrives - x) ** 2, axis=axes) / np.sum(x**2))


def test_differences_of_the_largest_entries_end_after_as_many_messages_as_they_need(x64):
    errors = constant(messages.differences(messages.top_k(8)), X, 8)
    np.testing.assert_allclose(errors[[0, 3]], [0.742204, 0.284603], atol=1e-6)
    assert errors[7] == 0


def test_error_feedback_owes_what_has_not_arrived(x64):
    said = np.random.default_rng(2).standard_normal((12, 3, 4))
    arrives, state = sent(messages.error_feedback(messages.top_k(2)), said)
    np.testing.assert_allclose(np.sum(arrives, 0) + state.error, np.sum(said, 0), atol=1e-13)
    ours = reference.ErrorFeedback((3, 4))
    for message, mine in zip(said, arrives, strict=True):
        np.testing.assert_allclose(mine, ours.send(message, lambda x: reference.top_k(x, 2)))


INSIDE = [
    messages.scaled_sign(),
    messages.rand_k(3),
    messages.qsgd(2),
    messages.natural(),
    messages.cast("float16"),
    messages.low_rank(2),
    messages.identity(),
]


def name(channel):
    return type(channel).__name__


@pytest.mark.thorough
@pytest.mark.parametrize("channel", INSIDE, ids=name)
def test_around_any_channel_sums_are_kept_and_both_ends_agree(channel, x64):
    said = np.random.default_rng(3).standard_normal((30, 5, 4))
    around = messages.error_feedback(channel)
    arrives, state = sent(around, said)
    np.testing.assert_allclose(np.sum(arrives, 0) + state.error, np.sum(said, 0), atol=1e-11)
    assert np.max(np.abs(state.error)) < 30
    assert around.bits((5, 4)) == channel.bits((5, 4))
    assert not around.in_order
    around = messages.differences(channel)
    arrives, state = sent(around, said, start=np.ones((5, 4)))
    np.testing.assert_array_equal(arrives[-1], state.value)
    assert around.bits((5, 4)) == channel.bits((5, 4))
    assert around.in_order
    assert messages.error_feedback(around).in_order


def draws(channel, keys, shape):
    """What the reference needs of each message's key."""
    if isinstance(channel, compressors.RandK):
        coded = jax.vmap(channel.code, (None, 0))(jnp.zeros(shape), keys)
        return np.asarray(coded.places)
    return [np.asarray(jax.random.uniform(key, shape, jnp.float64)) for key in keys]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("channel", "compress", "step"),
    [
        (messages.qsgd(8), lambda x, u: reference.qsgd(x, 8, u), (1, 1 / (1 + 12 / 256))),
        (messages.rand_k(3), reference.rand_k, (1 / 4, 1 / 4)),
        (messages.natural(), reference.natural, (1, 8 / 9)),
    ],
    ids=["qsgd", "rand_k", "natural"],
)
def test_trajectories_of_random_ones_equal_the_reference(channel, compress, step, x64):
    said = np.random.default_rng(5).standard_normal((50, 4, 3))
    keys = jax.random.split(jax.random.key(4), 50)
    chances = draws(channel, keys, (4, 3))
    start = np.ones((4, 3))
    owing, knowing = reference.ErrorFeedback((4, 3), step[0]), reference.Differences(start, step[1])
    for around, other in ((messages.error_feedback, owing), (messages.differences, knowing)):
        arrives, _ = sent(around(channel), said, start)
        for mine, message, chance in zip(arrives, said, chances, strict=True):
            theirs = other.send(message, lambda x, chance=chance: compress(x, chance))
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "compressor", [messages.scaled_sign(), messages.top_k(5), messages.cast("bfloat16")], ids=name
)
def test_differences_of_contractive_ones_shrink_by_their_constant(compressor, x64):
    errors = constant(messages.differences(compressor), X, 20, start=X + 1)
    errors = np.concatenate([[np.linalg.norm(np.ones(64)) / np.linalg.norm(X)], errors])
    settled = errors[1:] < 1e-12
    shrinks = np.sqrt(1 - compressor.contraction((64,)))
    assert np.all(settled | (errors[1:] <= shrinks * errors[:-1] * (1 + 1e-9)))


@pytest.mark.thorough
def test_differences_of_unbiased_ones_need_their_step(x64):
    @jax.jit
    def many(channel, keys):
        """The squared relative errors of 20 senders after 100 messages."""
        said = jnp.broadcast_to(jnp.asarray(X), (20, 64))

        def step(state, keys):
            return jax.vmap(channel.encode)(said, state, keys)[1], None

        state = jax.lax.scan(step, jax.vmap(channel.init)(0 * said), keys)[0]
        return jnp.sum((state.value - said) ** 2, axis=1) / np.sum(X**2)

    for compressor in (messages.rand_k(8), messages.qsgd(1)):
        omega = compressor.omega((64,))
        assert omega >= 1
        keys = jax.random.split(jax.random.key(1), (100, 20))
        errors = many(messages.differences(compressor), keys)
        assert np.mean(errors) < (omega / (1 + omega)) ** 100 * 1.5
        told = messages.differences(compressor, 1 / (1 + omega))
        np.testing.assert_allclose(many(told, jax.random.clone(keys)), errors, rtol=1e-9)
        grown = many(messages.differences(compressor, 1.0), jax.random.clone(keys))
        assert not np.min(grown) < 1e6


@pytest.mark.thorough
def test_what_random_entries_owe_stays_bounded_only_with_a_step(x64):
    said = np.broadcast_to(X, (200, 64))
    _, state = sent(messages.error_feedback(messages.rand_k(8)), said)
    assert np.linalg.norm(state.error) < 40 * np.linalg.norm(X)
    _, state = sent(messages.error_feedback(messages.rand_k(8), step=1.0), said)
    assert not np.linalg.norm(state.error) < 1e6 * np.linalg.norm(X)


@pytest.mark.thorough
def test_a_step_is_a_leaf_and_its_derivative_is_finite(dtype):
    x = jnp.asarray(X[:6], dtype)
    for build in (messages.error_feedback, messages.differences):
        for inside in (messages.qsgd(2), messages.top_k(2)):

            def last(step, build=build, inside=inside):
                channel = build(inside, step)

                def send(state, key):
                    return channel.encode(x, state, key)[::-1]

                keys = jax.random.split(jax.random.key(1), 3)
                return jnp.sum(jax.lax.scan(send, channel.init(jnp.zeros_like(x)), keys)[1][-1])

            steps = jnp.asarray([0.25, 1.0], dtype)
            values, slopes = jax.jit(jax.vmap(jax.value_and_grad(last)))(steps)
            assert slopes.dtype == dtype
            assert np.all(np.isfinite(slopes))
            assert values[0] != values[1]


@pytest.mark.parametrize("build", [messages.error_feedback, messages.differences])
def test_builders_say_what_is_wrong(build):
    with pytest.raises(InputError, match="must be a compressor, but it is 8"):
        build(8)
    with pytest.raises(InputError, match="must be a compressor"):
        build(compressors.TopK)
    with pytest.raises(InputError, match="step must be at most 1"):
        build(messages.top_k(8), step=2.0)
