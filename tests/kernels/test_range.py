"""Norms over the whole range of every dtype: long and short vectors, losses clipped to a norm."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm.kernels as kernels


def close(found, expected, dtype):
    eps = float(jnp.finfo(dtype).eps)
    wide = np.asarray(jnp.asarray(found).astype(jnp.float32 if dtype != jnp.float64 else dtype))
    np.testing.assert_allclose(wide, expected, rtol=8 * eps, atol=0)


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


@pytest.mark.parametrize(
    ("name", "numbers", "expected"),
    [
        ("prox_smoothed_abs", (7.3, 1e5, 1.0, 0.3), 7.3 * 0.3 / (0.3 + 1e5)),
        ("prox_smoothed_abs", (7.3, 1e8, 1.0, 0.3), 7.3 * 0.3 / (0.3 + 1e8)),
        ("prox_smoothed_abs", (1e38, 3e38, 1.0, 3e38), 0.5e38),
        ("prox_smoothed_mcp", (-1e-20, 1e-37, 1.0, 3.0, 0.5), -1e-20),
        ("prox_mcp", (1e20, 3e38, 0.5, 3.0), 1e20),
        ("prox_scad", (1e20, 3e38, 0.5, 3.0), 1e20),
        ("prox_scad", (1e30, 1.0, 1e10, 1e30), 1e30 - 1e10),
        ("prox_poisson", (1.0, 2.5e38, 0.5), 0.5),
        ("prox_l_two_thirds", (3e-34, 1.7e-38), 0.0),
    ],
)
def test_no_digits_and_no_products_of_parameters_are_lost(name, numbers, expected):
    """In single precision: each was 0, NaN, or wrong by more than 0.1 %."""
    found = getattr(kernels, name)(*(jnp.float32(number) for number in numbers))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e30])
@pytest.mark.parametrize("dim", [3, 5])
def test_constants_in_a_compiled_function_are_numbers_as_others(size, dim):
    """XLA multiplies constants with each other first, squares of the scale among them."""
    v = np.full(dim, size, np.float32)
    norm = jax.jit(lambda: kernels.safe_norm(jnp.asarray(v)))()
    np.testing.assert_allclose(norm, np.float32(size) * dim**0.5, rtol=1e-6)
    ball = jax.jit(lambda: kernels.project_l2_ball(jnp.asarray(v), 1.0))()
    np.testing.assert_allclose(ball, min(size, dim**-0.5), rtol=1e-6)


@pytest.mark.parametrize("size", [0.0, 1e-30, 1.0, 1e30])
def test_norms_of_many_entries_are_tried_without_a_scale(size):
    """What the plain sum of squares cannot tell is scaled: 0 and the ends of the range."""
    v = np.zeros((2, 1 << 15), np.float32)
    v[:, :2] = [[3 * size, -4 * size], [6.0, 8.0]]

    @jax.jit
    def told(v):
        found, pull = jax.vjp(kernels.safe_norm, v)
        return found, kernels.project_l2_ball(v, 1.0), pull(jnp.ones_like(found))[0]

    norms, balls, slopes = told(v)
    np.testing.assert_allclose(norms, [np.float32(5) * np.float32(size), 10], rtol=1e-6)
    lengths = [min(5 * size, 1), 1] * np.ones(2)
    directions = np.array([[0.6, -0.8], [0.6, 0.8]]) * [[float(size > 0)], [1]]
    np.testing.assert_allclose(balls[:, :2], lengths[:, None] * directions, rtol=1e-6)
    np.testing.assert_allclose(slopes[:, :2], directions, rtol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("size", [1e-25, 1e25])
def test_measurements_of_phases_are_of_any_length(size):
    """The curvature along x is infinite or zero there: all of w along x goes, or nothing does."""
    v, x = jnp.asarray([[1.0, 2.0]], jnp.float32), jnp.asarray([[3.0, -4.0]], jnp.float32)
    found = kernels.prox_phase_residual(v, 1.0, x * size, 0.0)
    along = jnp.sum(x * v, -1, keepdims=True) / 25 * x
    np.testing.assert_allclose(found, v - along if size > 1 else v, rtol=1e-6)
    # An amplitude of 10 / size along x / size, where nothing but the data counts.
    exact = kernels.prox_phase_residual(v, 1e30, x * 1e10, 1e22)
    np.testing.assert_allclose(jnp.abs(jnp.sum(x * exact, -1)), 10.0, rtol=1e-5)
