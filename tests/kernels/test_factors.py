"""Factor models of sparse tables: residuals, and the quadratics of the rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st

import fedjax_admm.kernels as kernels
from tests.reference import kernels as reference

ROWS, COLUMNS, ENTRIES = 6, 5, 24
EMPTY = 4  # a row without entries
RANKS = pytest.mark.parametrize("rank", [1, 3, 13])


def table(rng, rank, draw=None):
    """Factors and entries by increasing row; entries may repeat."""
    draw = rng.standard_normal if draw is None else draw
    rows = np.sort(rng.choice(np.delete(np.arange(ROWS), EMPTY), ENTRIES)).astype(np.int32)
    columns = rng.integers(0, COLUMNS, ENTRIES).astype(np.int32)
    return draw((ROWS, rank)), draw((COLUMNS, rank)), rows, columns, draw(ENTRIES)


def whole_table(rng, rank):
    """Draw whole numbers, of which sums are exact in any order."""

    def draw(shape):
        return rng.integers(-9, 10, shape).astype(np.float32)

    return table(rng, rank, draw)


def truth(u, v, rows, columns, values):
    quadratic = reference.factor_gram(v, rows, columns, values, ROWS)
    return (
        reference.factor_residual(u, v, rows, columns, values),
        quadratic,
        reference.gram_gradient(quadratic.T, np.transpose(u)),
        reference.gram_norm(quadratic.T),
    )


@jax.jit
def everything(u, v, rows, columns, values):
    quadratic = kernels.factor_gram(v, rows, columns, values, ROWS)
    return (
        kernels.factor_residual(u, v, rows, columns, values),
        quadratic,
        kernels.gram_gradient(quadratic.T, u.T),
        kernels.gram_norm(quadratic.T),
    )


@RANKS
@given(seed=st.integers(0, 2**32 - 1))
def test_kernels_equal_their_twins(rank, seed):
    drawn = whole_table(np.random.default_rng(seed), rank)
    found, wanted = everything(*drawn), truth(*drawn)
    for one, other in zip(found[:3], wanted[:3], strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(found[3], wanted[3], rtol=1e-6)


def test_kernels_are_accurate_in_both_precisions(dtype):
    drawn = table(np.random.default_rng(1), 3)
    arrays = [jnp.asarray(part, part.dtype if part.dtype == np.int32 else dtype) for part in drawn]
    tolerance = 64 * float(jnp.finfo(dtype).eps)
    for one, other in zip(everything(*arrays), truth(*drawn), strict=True):
        assert one.dtype == dtype
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=8 * tolerance)


def test_rows_out_of_range_are_left_out_and_columns_are_clipped():
    """Padding has such numbers."""
    u, v, rows, columns, values = whole_table(np.random.default_rng(4), 3)
    padded = np.concatenate([rows, np.int32([ROWS, ROWS, ROWS + 9])])
    beyond = np.concatenate([columns, np.int32([COLUMNS, 0, 1])])
    longer = np.concatenate([values, np.float32([5, 6, 7])])
    found = kernels.factor_gram(v, padded, beyond, longer, ROWS)
    np.testing.assert_array_equal(
        found, reference.factor_gram(v, rows, columns, values, num_rows=ROWS)
    )
    wild = columns.copy()
    wild[[0, 3]] = [-7, COLUMNS + 100]
    drawn = u, v, rows, wild, values
    found = everything(*drawn)
    np.testing.assert_array_equal(found[1], truth(*drawn)[1])
    nearest = np.clip(wild, 0, COLUMNS - 1)
    np.testing.assert_array_equal(found[1], everything(u, v, rows, nearest, values)[1])


def test_residuals_out_of_range_read_the_nearest_row():
    drawn = whole_table(np.random.default_rng(5), 3)
    _, _, rows, columns, _ = drawn
    rows[[0, -1]], columns[[1, -2]] = [-3, ROWS + 4], [COLUMNS, -1]
    np.testing.assert_array_equal(everything(*drawn)[0], truth(*drawn)[0])


@pytest.mark.kin(1)
@pytest.mark.parametrize("cut", [0, 7])
def test_parts_add_up_to_the_whole(cut):
    _, v, rows, columns, values = whole_table(np.random.default_rng(6), 3)
    sums = start = jnp.arange(ROWS * 9, dtype=jnp.float32).reshape(ROWS, 9)
    for part in (slice(0, cut), slice(cut, ENTRIES)):
        sums = kernels.factor_gram(v, rows[part], columns[part], values[part], ROWS, sums)
    wanted = reference.factor_gram(v, rows, columns, values, ROWS, np.asarray(start))
    np.testing.assert_array_equal(sums, wanted)


@jax.jit
def of_quadratics(quadratic, u):
    return kernels.gram_gradient(quadratic, u), kernels.gram_norm(quadratic)


@pytest.mark.parametrize("places", [(), (2, 3)])
def test_quadratics_of_any_shape(places):
    rng = np.random.default_rng(7)
    quadratic, u = rng.standard_normal((9, *places)), rng.standard_normal((3, *places))
    gradient, norm = of_quadratics(quadratic, u)
    wanted = reference.gram_gradient(quadratic, u)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(norm, reference.gram_norm(quadratic), rtol=1e-6)


def loss(u, v, rows, columns, values):
    return jnp.sum(kernels.factor_residual(u, v, rows, columns, values) ** 2) / 2


@jax.jit
def slopes(u, v, rows, columns, values):
    """Derivatives of the loss, in both forms, and of the curvature bound."""
    order = jnp.argsort(columns)
    of_rows = kernels.factor_gram(v, rows, columns, values, ROWS)
    of_columns = kernels.factor_gram(u, columns[order], rows[order], values[order], COLUMNS)

    def bound(v):
        return jnp.sum(kernels.gram_norm(kernels.factor_gram(v, rows, columns, values, ROWS).T))

    return (
        jax.grad(loss, (0, 1))(u, v, rows, columns, values),
        (kernels.gram_gradient(of_rows.T, u.T).T, kernels.gram_gradient(of_columns.T, v.T).T),
        jax.grad(bound)(v),
    )


@pytest.mark.usefixtures("x64")
def test_derivative_of_the_loss_is_the_gradient():
    plain, gram, of_bound = slopes(*table(np.random.default_rng(9), 3))
    for one, other in zip(plain, gram, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
    # One row has no entries: its norm is 0.
    assert np.all(np.isfinite(of_bound))
    assert np.any(np.asarray(of_bound) != 0)


@pytest.mark.usefixtures("x64")
def test_derivatives_are_finite_at_zero_factors():
    u, v, *entries = table(np.random.default_rng(9), 3)
    plain, gram, of_bound = slopes(np.zeros_like(u), np.zeros_like(v), *entries)
    for leaf in (*plain, *gram, of_bound):
        np.testing.assert_array_equal(leaf, np.zeros(leaf.shape))
