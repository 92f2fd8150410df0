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


@given(seed=st.integers(0, 2**32 - 1))
def test_gradients_of_both_forms_agree(seed):
    """G u - b of every row is the sum of residual times column factor over its entries."""
    u, v, rows, columns, values = whole_table(np.random.default_rng(seed), 3)
    residual, _, gradient, _ = everything(u, v, rows, columns, values)
    plain = np.zeros((ROWS, 3))
    np.add.at(plain, rows, np.asarray(residual)[:, None] * v[columns])
    np.testing.assert_array_equal(gradient.T, plain)


@given(seed=st.integers(0, 2**32 - 1))
def test_entries_of_a_row_may_come_in_any_order(seed):
    rng = np.random.default_rng(seed)
    u, v, rows, columns, values = whole_table(rng, 3)
    order = np.lexsort([rng.random(ENTRIES), rows])
    found = everything(u, v, rows[order], columns[order], values[order])
    wanted = everything(u, v, rows, columns, values)
    np.testing.assert_array_equal(found[0], np.asarray(wanted[0])[order])
    for one, other in zip(found[1:], wanted[1:], strict=True):
        np.testing.assert_array_equal(one, other)


@given(seed=st.integers(0, 2**32 - 1), power=st.integers(-8, 8))
def test_scaling(seed, power):
    """Factors c v and u / c predict the same; G scales with c^2, b and the gradient with c."""
    u, v, rows, columns, values = whole_table(np.random.default_rng(seed), 3)
    c = np.float32(2.0**power)
    plain = everything(u, v, rows, columns, values)
    scaled = everything(u / c, c * v, rows, columns, values)
    powers = np.repeat(np.float32([2, 1]), [6, 3])
    np.testing.assert_array_equal(scaled[0], plain[0])
    np.testing.assert_array_equal(scaled[1], c**powers * np.asarray(plain[1]))
    np.testing.assert_array_equal(scaled[2], c * plain[2])
    np.testing.assert_array_equal(scaled[3], c**2 * plain[3])


@RANKS
def test_components_are_the_upper_triangle_then_the_right_side(rank):
    _, *drawn = whole_table(np.random.default_rng(2), rank)
    v, rows, columns, values = drawn
    found = np.asarray(everything(np.zeros((ROWS, rank), np.float32), *drawn)[1])
    assert found.shape == (ROWS, rank * (rank + 1) // 2 + rank)
    seen, wanted = v[columns[rows == 0]], values[rows == 0]
    first, second = np.triu_indices(rank)
    np.testing.assert_array_equal(found[0, :-rank], (seen.T @ seen)[first, second])
    np.testing.assert_array_equal(found[0, -rank:], seen.T @ wanted)


def test_rows_without_entries_are_zero():
    _, quadratic, gradient, norm = everything(*table(np.random.default_rng(3), 3))
    np.testing.assert_array_equal(quadratic[EMPTY], 0)
    np.testing.assert_array_equal(gradient[:, EMPTY], 0)
    assert norm[EMPTY] == 0


def test_no_entries():
    none, empty = jnp.zeros(0, jnp.int32), jnp.zeros(0)
    v = jnp.ones((COLUMNS, 2))
    found = kernels.factor_gram(v, none, none, empty, ROWS)
    np.testing.assert_array_equal(found, np.zeros((ROWS, 5)))
    assert kernels.factor_residual(v, v, none, none, empty).shape == (0,)


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


@RANKS
def test_the_norm_bounds_the_curvature(rank):
    drawn = table(np.random.default_rng(8), rank)
    _, v, rows, columns, _ = drawn
    norms = everything(*drawn)[3]
    for row in range(ROWS):
        seen = v[columns[rows == row]]
        spectral = np.linalg.norm(seen.T @ seen, 2)
        assert spectral <= norms[row] * (1 + 1e-5)
        assert norms[row] <= np.sqrt(rank) * spectral * (1 + 1e-5)


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


@pytest.mark.thorough
def test_a_batch_of_tables():
    """Under jit and vmap over factors and entries at once, as one after another."""
    rng = np.random.default_rng(11)
    drawn = [table(rng, 3) for _ in range(4)]
    batch = [jnp.asarray(np.stack(parts)) for parts in zip(*drawn, strict=True)]
    found = jax.jit(jax.vmap(everything))(*batch)
    for i, one in enumerate(zip(*found, strict=True)):
        wanted = everything(*(part[i] for part in batch))
        for part, alone in zip(one, wanted, strict=True):
            np.testing.assert_allclose(part, alone, rtol=1e-5, atol=1e-5)
