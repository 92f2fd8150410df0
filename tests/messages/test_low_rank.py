"""Low-rank messages: an orthogonal projection, and what holds of its error."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import InputError, messages
from tests.reference import compressors as reference


def coded(rank, said):
    """What arrives of matrices one after the other, and the first right factor."""
    channel, key = messages.low_rank(rank), jax.random.key(0)
    said = jnp.asarray(said)
    start = channel.init(said[0])

    def step(state, matrix):
        return channel.encode(matrix, state, key)[::-1]

    return np.asarray(jax.jit(lambda: jax.lax.scan(step, start, said)[1])()), np.asarray(start)


def spectrum(values, shape, seed=0):
    """A matrix with singular values."""
    rng = np.random.default_rng(seed)
    m, n = shape
    left = np.linalg.qr(rng.standard_normal((m, len(values))))[0]
    right = np.linalg.qr(rng.standard_normal((n, len(values))))[0]
    return left * np.asarray(values) @ right.T


def test_what_arrives_equals_the_reference(x64):
    said = np.random.default_rng(1).standard_normal((6, 7, 5))
    arrives, right = coded(2, said)
    for matrix, mine in zip(said, arrives, strict=True):
        theirs, right = reference.low_rank(matrix, right)
        np.testing.assert_allclose(mine, theirs, atol=1e-11)


@pytest.mark.thorough
def test_the_same_matrix_is_known_better_and_better_up_to_the_best_of_its_rank(x64):
    values = np.array([4.0, 3.0, 1.0, 0.8, 0.5])
    matrix = spectrum(values, (8, 5))
    arrives, _ = coded(2, np.broadcast_to(matrix, (30, 8, 5)))
    errors = np.sum((arrives - matrix) ** 2, axis=(1, 2))
    assert np.all(np.diff(errors) <= 1e-12)
    assert errors[-1] == pytest.approx(np.sum(values[2:] ** 2), rel=1e-9)


@pytest.mark.thorough
def test_the_best_of_a_rank_has_the_constant_where_singular_values_are_equal(x64):
    matrix = spectrum(np.ones(5), (8, 5))
    arrives, _ = coded(2, matrix[None])
    assert np.sum((arrives - matrix) ** 2) / np.sum(matrix**2) == pytest.approx(1 - 2 / 5)


@pytest.mark.thorough
def test_with_a_normal_factor_the_mean_loss_has_a_constant(x64):
    channel = messages.low_rank(2)
    rights = jax.random.normal(jax.random.key(1), (4000, 6, 2))
    for values in ([1.0, 1, 1, 1], [5.0, 1, 0.1, 0.01], [1.0, 0, 0, 0]):
        matrix = spectrum(values, (4, 6))
        arrives = jax.vmap(channel.encode, (None, 0, None))(jnp.asarray(matrix), rights, None)[0]
        losses = np.sum((np.asarray(arrives) - matrix) ** 2, axis=(1, 2)) / np.sum(matrix**2)
        assert np.all(losses <= 1 + 1e-12)
        assert np.mean(losses) <= 1 - 2 / 6


@pytest.mark.thorough
def test_a_matrix_that_the_factor_does_not_see_is_lost_but_comes_again_with_feedback(x64):
    channel, key = messages.low_rank(1), jax.random.key(0)
    unseen = jnp.zeros((3, 3)).at[2, 0].set(1.0)
    blind = jnp.asarray([[0.0], [0.0], [1.0]])
    np.testing.assert_array_equal(channel.encode(unseen, blind, key)[0], np.zeros((3, 3)))
    around = messages.error_feedback(channel)
    matrix = jnp.asarray(spectrum([3.0, 2.0, 1.0], (3, 3)))

    def step(state, _):
        return around.encode(matrix, state, key)[::-1]

    arrives = jax.jit(lambda: jax.lax.scan(step, around.init(matrix), length=60)[1])()
    assert np.max(np.abs(np.mean(arrives, axis=0) - matrix)) < 0.2
    alone, _ = coded(1, np.broadcast_to(matrix, (60, 3, 3)))
    assert np.max(np.abs(np.mean(alone, axis=0) - matrix)) > 0.5


@pytest.mark.thorough
def test_a_rank_that_reaches_the_rows_loses_nothing(dtype):
    for shape in ((2, 5), (1, 1), (3, 3)):
        matrix = np.random.default_rng(0).standard_normal(shape).astype(dtype)
        arrives, _ = coded(9, matrix[None])
        assert arrives.dtype == dtype
        np.testing.assert_allclose(arrives[0], matrix, atol=1e-5)
        assert messages.low_rank(9).contraction(shape) == 1
    assert messages.low_rank(2).contraction((3, 5)) == 0
    assert messages.low_rank(2).omega((3, 5)) is None


@pytest.mark.thorough
def test_zeros_huge_and_tiny_matrices_have_finite_numbers_and_derivatives(dtype):
    channel = messages.low_rank(2)
    matrix = np.random.default_rng(0).standard_normal((5, 4)).astype(dtype)
    state = channel.init(jnp.asarray(matrix))
    for scale in (0, 1e-30, 1, 1e30):
        scaled = jnp.asarray(matrix * dtype.type(scale))

        def total(scaled, state=state):
            arrives, then = channel.encode(scaled, state, None)
            return jnp.sum(channel.encode(scaled, then, None)[0] + arrives)

        assert np.all(np.isfinite(jax.grad(total)(scaled)))
        arrives, then = channel.encode(scaled, state, None)
        assert np.max(np.abs(then)) < 10
        if scale:
            lost = np.sum((np.asarray(arrives / scale) - matrix) ** 2)
            assert 0 < lost < np.sum(matrix**2)
        else:
            np.testing.assert_array_equal(arrives, scaled)
            np.testing.assert_array_equal(then, state)


def test_it_is_for_matrices():
    with pytest.raises(InputError, match=r"low_rank compresses matrices, but .* shape \(3,\)"):
        messages.low_rank(2).init(jnp.zeros(3))
