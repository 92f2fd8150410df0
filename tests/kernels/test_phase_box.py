"""The phase retrieval residual on a box: the exact map and the clipped one."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm.kernels as kernels
from tests.reference import kernels as reference

X = np.array([1.0, -2.0, 0.5])

exact = jax.jit(kernels.prox_phase_residual_box)
clipped = jax.jit(kernels.prox_phase_residual_clipped)
free = jax.jit(kernels.prox_phase_residual)
reverse = jax.jit(jax.jacrev(kernels.prox_phase_residual_box, tuple(range(5))))
forward = jax.jit(jax.jacfwd(kernels.prox_phase_residual_box, tuple(range(5))))


def draw_rows(dim, count=80):
    """Rows with zeros in x, both signs of y, both sides of convexity, v inside and outside."""
    rng = np.random.default_rng(7)
    v = rng.normal(size=(count, dim)) * rng.choice([0.1, 1.0, 4.0], (count, 1))
    x = rng.normal(size=(count, dim)) * (rng.uniform(size=(count, dim)) < 0.8)
    step = rng.choice([0.01, 0.1, 0.5, 3.0], count)
    y = rng.normal(size=count) * rng.choice([0.3, 3.0, 30.0], count)
    return v, step, x, y, rng.choice([0.3, 1.0, 1.5, 5.0], count)


def objective(w, v, step, x, y, radius):
    """The objective of a point of the box."""
    assert np.all(np.abs(w) <= radius)
    return reference.phase_objective(np.asarray(w, np.float64), v, step, x, y)


# --- against the twins and brute force ---


@pytest.mark.parametrize("reach", [0.3, 1.0 - 1e-9, 1.0, 1.0 + 1e-9, 2.5, 40.0])
@pytest.mark.parametrize("y", [-2.0, 0.0, 1e-12, 0.5, 4.0, 12.25, 60.0])
def test_box_map_is_global_on_both_sides_of_convexity(reach, y, x64):
    """``reach = 2 step ||x||**2`` as in the free map; ``x^T w`` reaches 3.5, the root of 12.25."""
    special = [[0, 0, 0], [1, 1, 1], [1, -1, 1], [0.5, 1, 0], [-1, 0.2, 0.3], [2, 1, 0], [0, -9, 3]]
    points = np.concatenate([np.random.default_rng(7).uniform(-2, 2, (12, 3)), special])
    step = reach / (2 * X @ X)
    got = exact(points, step, X[None], y, 1.0)
    for w, v in zip(np.asarray(got), points, strict=True):
        expected = reference.prox_phase_residual_box(v, step, X, y, 1.0)
        least = objective(expected, v, step, X, y, 1.0)
        assert objective(w, v, step, X, y, 1.0) == pytest.approx(least, rel=1e-12, abs=1e-12)


@pytest.mark.kin(1)
@pytest.mark.parametrize("dim", [1, 4])
def test_random_rows_equal_the_twins(dim, dtype):
    rows = [jnp.asarray(a, dtype) for a in draw_rows(dim)]
    precise = dtype == "float64"
    slack = 1e-12 if precise else 1e-5
    twins = (reference.prox_phase_residual_box, reference.prox_phase_residual_clipped)
    for kernel, twin in zip((exact, clipped), twins, strict=True):
        batch = kernel(*rows)
        assert batch.dtype == dtype
        for w, *row in zip(np.asarray(batch), *map(np.asarray, rows), strict=True):
            row = [a.astype(np.float64) for a in row]
            expected = twin(*row)
            least = objective(expected, *row)
            assert objective(w, *row) == pytest.approx(least, rel=slack, abs=slack)
            if precise:
                np.testing.assert_allclose(w, expected, atol=1e-9)


@pytest.mark.kin(1)
@pytest.mark.parametrize("dim", [1, 4, 25])
def test_nothing_on_the_curve_of_clipped_points_is_better(dim, x64):
    rows = draw_rows(dim)
    for w, *row in zip(np.asarray(exact(*rows)), *rows, strict=True):
        v, step, x, y, radius = row

        def along(nu, row=row):
            v, step, x, y, radius = row
            points = np.clip(v + nu[:, None] * x, -radius, radius)
            return reference.phase_objective(points, v, step, x, y)

        moving = x != 0
        breaks = np.concatenate([(end - v[moving]) / x[moving] for end in (-radius, radius)])
        far = 1 + np.max(np.abs(breaks), initial=0.0)
        near = (
            np.linspace(-2, 2, 801)
            * step
            * max(np.sqrt(abs(y)), abs(x @ np.clip(v, -radius, radius)))
        )
        _, least = reference.global_minimum(along, -far, far, 801, seeds=[*breaks, *near])
        # Equal, not only no worse: the grid is dense enough to find the minimum itself.
        assert objective(w, *row) == pytest.approx(least, rel=1e-9, abs=1e-9)


# --- conventions ---


def test_conventions_of_the_box_map(dtype):
    zero, x = jnp.zeros(3, dtype), jnp.asarray([1.0, 2.0, -2.0], dtype)
    # Both signs minimise: the one of positive x^T w is taken, inside the box and in its corner.
    np.testing.assert_allclose(exact(zero, 1.0, x, 4.0, 5.0), 2 * x / 9, rtol=1e-6)
    np.testing.assert_array_equal(exact(zero, 1.0, x, 99.0, 0.5), 0.5 * jnp.sign(x))
    # In the convex regime 0 is a fixed point; on the intensity, or without one, nothing moves.
    np.testing.assert_array_equal(exact(zero, 1e-3, x, 4.0, 5.0), zero)
    np.testing.assert_allclose(exact(x, 0.5, x, 81.0, 2.0), x, rtol=1e-6)
    np.testing.assert_array_equal(exact(x, 1.0, zero, 4.0, 1.5), jnp.clip(x, -1.5, 1.5))
    np.testing.assert_array_equal(exact(x, 0.0, x, 4.0, 1.5), jnp.clip(x, -1.5, 1.5))
    np.testing.assert_array_equal(exact(x, 1.0, x, 4.0, 0.0), zero)


def test_of_tied_minimisers_that_of_greatest_product_is_returned(x64):
    """``g`` is even in ``x``: with ``-x`` the other end of a tie comes back."""
    rng = np.random.default_rng(7)
    v, x = rng.integers(-1, 2, (80, 3)).astype(float), rng.integers(-2, 3, (80, 3)).astype(float)
    row = (rng.choice([0.5, 1.0], 80), x, rng.integers(-1, 10, 80).astype(float), np.ones(80))
    first, second = (np.asarray(exact(v, row[0], side * x, *row[2:])) for side in (1, -1))
    for a, b, *one in zip(first, second, v, *row, strict=True):
        assert objective(a, *one) == pytest.approx(objective(b, *one), rel=1e-12, abs=1e-12)
    lead = np.sum(x * (first - second), axis=-1)
    assert np.min(lead) > -1e-12
    assert np.sum(lead > 0.1) > 5


@pytest.mark.kin(1)
@pytest.mark.parametrize("kernel", [exact, clipped], ids=["box", "clipped"])
def test_numbers_keep_the_dtype_and_rows_are_independent(kernel, dtype):
    v, x = (jnp.asarray(a, dtype) for a in np.random.default_rng(7).normal(size=(2, 6, 3)))
    batch = kernel(v.reshape(2, 3, 3), 1.0, x[:3][None], 2.0, 0.5)
    assert batch.dtype == dtype
    ones = jnp.ones(6, dtype)
    mapped = jax.vmap(kernel)(v, ones, jnp.concatenate([x[:3], x[:3]]), 2 * ones, ones / 2)
    np.testing.assert_allclose(batch.reshape(6, 3), mapped, rtol=1e-5, atol=1e-6)
    single = kernel(v[4], 1.0, x[1], 2.0, 0.5)
    assert single.dtype == dtype
    np.testing.assert_allclose(single, mapped[4], rtol=1e-5, atol=1e-6)


# --- derivatives ---


@pytest.mark.parametrize(("y", "sign"), [(-1.0, 1), (0.0, 1), (4.0, -1)])
@pytest.mark.parametrize("x", [[1.0, -2.0, 0.5], [1.0, 0.0, 0.0]])
def test_derivative_at_zero_is_that_of_a_quadratic(y, sign, x, dtype):
    """At 0 both signs of the residual have a stationary point: the right one is followed."""
    row = (np.zeros(3), 0.05, np.array(x), y, 1.0)
    by_point = reverse(*(jnp.asarray(a, dtype) for a in row))[0]
    expected = np.eye(3) - sign * 0.1 * np.outer(x, x) / (1 + sign * 0.1 * np.dot(x, x))
    np.testing.assert_allclose(by_point, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.thorough
@pytest.mark.kin(1)
@pytest.mark.parametrize("radius", [0.0, 1.0, np.inf])
def test_jacobians_are_finite_at_every_kink(radius, dtype):
    """Ties, coinciding breakpoints, ``v`` on the box, ``x^T v = 0``, ``x = 0``, ``y <= 0``."""
    points = ([0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, -1.0, 0.5], [3.0, 1.0, -2.0])
    measurements = ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [1.0, 0.0, -2.0], [1.0, 1e-25, 1e-10])
    for step in (0.0, 0.1, 1 / 6, 2.0):
        for y in (-1.0, 0.0, 1.0, 4.0, 9.0, 50.0):
            for v, x in product(points, measurements):
                row = [np.asarray(a, dtype) for a in (v, step, x, y, radius)]
                for left, right in zip(reverse(*row), forward(*row), strict=True):
                    assert np.all(np.isfinite(left)), row
                    np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)


def test_jacobians_equal_finite_differences(x64):
    """The random rows have minimisers of every kind: stationary, at a kink, in a corner."""
    rows = draw_rows(3)
    single = [reverse(*row) for row in zip(*rows, strict=True)]
    jacobians = [np.stack(parts) for parts in zip(*single, strict=True)]
    for position, argument in enumerate(rows):
        for index in np.ndindex(argument.shape[1:]):
            shift = np.zeros(argument.shape[1:])
            shift[index] = 1e-6
            lower, upper = list(rows), list(rows)
            lower[position], upper[position] = argument - shift, argument + shift
            numerical = (exact(*upper) - exact(*lower)) / 2e-6
            got = jacobians[position][(..., *index)]
            np.testing.assert_allclose(got, numerical, rtol=1e-5, atol=1e-5)
