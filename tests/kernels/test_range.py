"""Norms over the whole range of every dtype: long and short vectors, losses clipped to a norm."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm.kernels as kernels

DTYPES = (jnp.float16, jnp.bfloat16, jnp.float32, jnp.float64)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)


def ends(dtype):
    """Return the sizes of entries near both ends of the range, and 1."""
    info = jnp.finfo(dtype)
    return [float(info.tiny) * 2.0**8, 1.0, float(info.max) * 2.0**-4]


def close(found, expected, dtype):
    eps = float(jnp.finfo(dtype).eps)
    wide = np.asarray(jnp.asarray(found).astype(jnp.float32 if dtype != jnp.float64 else dtype))
    np.testing.assert_allclose(wide, expected, rtol=8 * eps, atol=0)


@every_dtype
def test_the_norm_ball_and_group_map_at_both_ends_of_the_range(dtype, x64):
    for size in ends(dtype):
        v = jnp.asarray([3 * size, -4 * size], dtype)
        close(kernels.safe_norm(v), 5 * size, dtype)
        close(
            kernels.project_l2_ball(v, jnp.asarray(size, dtype)), [0.6 * size, -0.8 * size], dtype
        )
        close(
            kernels.prox_group_l2(v, jnp.asarray(2.5 * size, dtype)), [1.5 * size, -2 * size], dtype
        )


def test_the_numbers_of_which_squares_overflow_or_vanish(x64):
    """Each was 0, infinite or unchanged when squares were taken of the points as they are."""
    long = jnp.asarray([1e25, 1e25], jnp.float32)
    close(kernels.project_l2_ball(long, 1.0), [0.5**0.5] * 2, jnp.float32)
    close(kernels.safe_norm(long), 2**0.5 * 1e25, jnp.float32)
    short = jnp.asarray([3e-25, 4e-25], jnp.float32)
    close(kernels.project_l2_ball(short, 1e-25), [6e-26, 8e-26], jnp.float32)
    half = jnp.asarray([300.0, 300.0], jnp.float16)
    close(kernels.project_l2_ball(half, 1.0), [0.5**0.5] * 2, jnp.float16)
    close(kernels.prox_group_l2(half, 212.132), [150.0] * 2, jnp.float16)
    close(kernels.safe_norm(half), 424.264, jnp.float16)


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e30])
@pytest.mark.parametrize("dim", [3, 5])
def test_constants_in_a_compiled_function_are_numbers_as_others(size, dim):
    """XLA multiplies constants with each other first, squares of the scale among them."""
    v = np.full(dim, size, np.float32)
    norm = jax.jit(lambda: kernels.safe_norm(jnp.asarray(v)))()
    np.testing.assert_allclose(norm, np.float32(size) * dim**0.5, rtol=1e-6)
    ball = jax.jit(lambda: kernels.project_l2_ball(jnp.asarray(v), 1.0))()
    np.testing.assert_allclose(ball, min(size, dim**-0.5), rtol=1e-6)


@every_dtype
def test_derivatives_are_finite_at_both_ends_of_the_range(dtype, x64):
    for size in ends(dtype):
        v = jnp.asarray([3 * size, -4 * size], dtype)
        radius = jnp.asarray(size, dtype)
        for project in (kernels.project_l2_ball, kernels.prox_group_l2):
            slope = jax.jacrev(project, (0, 1))(v, radius)
            assert all(bool(jnp.all(jnp.isfinite(part))) for part in slope)
        close(jax.grad(kernels.safe_norm)(v), [0.6, -0.8], dtype)
