"""What rows of the table do not tell of projections by thresholds and by order."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.isotonic import isotonic_regression

import fedjax_admm.kernels as kernels
from fedjax_admm.kernels.vectors._isotonic import pooled
from tests.kernels.table.vectors import FALLING, LONGER, UNEVEN
from tests.reference import prox_vectors as twins

LIGHT = np.array([0.3, 0.0, 2.0, 1.0, 0.7])


def box_section(v):
    return kernels.project_box_section(v, -0.5, np.array([0.5, 2, 1, 1, np.inf]), LIGHT, 0.4)


# Maps of a vector of any size (of five entries, where they have weights).
MAPS = {
    "simplex": kernels.project_simplex,
    "weighted simplex": lambda v: kernels.project_weighted_simplex(v, LIGHT, 2.0),
    "sparse simplex": lambda v: kernels.project_sparse_simplex(v, 2),
    "l1 ball": kernels.project_l1_ball,
    "l1 sphere": kernels.project_l1_sphere,
    "weighted l1 ball": lambda v: kernels.project_weighted_l1_ball(v, LIGHT, 0.7),
    "max": lambda v: kernels.prox_max(v, 0.8),
    "l-infinity": lambda v: kernels.prox_linf(v, 0.8),
    "sum of the largest": lambda v: kernels.prox_sum_largest(v, 0.3, 1.0, 3),
    "box section": box_section,
    "top k": lambda v: kernels.project_top_k(v, 2),
    "isotonic": lambda v: kernels.project_isotonic(v, LIGHT + 0.1),
    "permutahedron": lambda v: kernels.project_permutahedron(v, LIGHT),
    "slope": lambda v: kernels.prox_slope(v, 0.3, np.array([2.0, 1.5, 1.0, 0.2, 0.0])),
    "k-support": lambda v: kernels.prox_k_support(v, 0.3, 1.0, 2),
    "envelope of top k": lambda v: kernels.prox_top_k_envelope(v, 0.3, 2),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", MAPS)
def test_derivatives_by_the_point_are_those_of_differences(name, x64):
    """Forward and reverse, where the map is smooth; and finite where entries tie."""
    rng = np.random.default_rng(3)
    width, there = 1e-6, jax.jit(MAPS[name])
    jacobians = jax.jit(lambda v: [way(there)(v) for way in (jax.jacfwd, jax.jacrev)])
    for size in (0.3, 1.0, 4.0):
        v, direction = size * rng.standard_normal((2, 5))
        by_hand = (there(v + width * direction) - there(v - width * direction)) / (2 * width)
        forward, reverse = jacobians(v)
        np.testing.assert_allclose(forward @ direction, by_hand, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(reverse, forward, rtol=1e-9, atol=1e-11)
    for v in (*LONGER, np.ones(5), np.array([0.0, -0.0, 0.4, -0.4, 0.4])):
        assert np.all(np.isfinite(jacobians(v)))


@pytest.mark.thorough
@pytest.mark.parametrize("mass", [1.0, 1e3])
def test_a_million_of_entries_far_from_zero_sum_to_the_mass(mass):
    """In float32: near each other, spread, and all but one at the threshold."""
    size = 1_000_000
    spread = np.random.default_rng(0).standard_normal(size)
    ties = np.full(size, -0.9999 * mass)
    ties[7] = 0.0
    project = jax.jit(kernels.project_simplex)
    for v in (1e5 + spread, 1e5 + 1e-6 * spread, ties, -np.geomspace(1e-9, 1e9, size)):
        v = v.astype(np.float32)
        found = np.asarray(project(v, mass), np.float64)
        assert abs(found.sum() / mass - 1) < 1e-6
        expected = twins.project_simplex(v.astype(np.float64), mass)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * mass)


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_are_right_far_from_zero(dtype):
    rng = np.random.default_rng(1)
    eps = np.finfo(dtype).eps
    with jax.enable_x64(np.dtype(dtype) == np.float64):
        v = (1e4 + rng.standard_normal((3, 1001))).astype(dtype)
        weights = rng.uniform(0.1, 2, (3, 1001)).astype(dtype)
        heavy = kernels.project_weighted_simplex(v, weights, 2.0)
        cut = kernels.project_box_section(v, -1.0, 3.0, weights, -7.0)
        lost = np.asarray(v - kernels.prox_sum_largest(v, 0.5, 1.0, 40), np.float64)
    for x, total in ((heavy, 2.0), (cut, -7.0)):
        sums = np.sum(weights.astype(np.float64) * np.asarray(x, np.float64), -1)
        size = np.sum(np.abs(weights * np.asarray(x, np.float64)), -1)
        assert np.all(np.abs(sums - total) < 32 * eps * (size + abs(total)))
    np.testing.assert_allclose(lost.sum(-1), 20, rtol=0, atol=1001 * 1e4 * eps)


@pytest.mark.thorough
@pytest.mark.parametrize("size", [1, 2, 127, 128, 129, 160, 1000])
def test_vectors_of_any_length_are_put_in_order(size, x64):
    """Against pools in a Python list and against scikit-learn's."""
    rng = np.random.default_rng(size)
    place = np.arange(size)
    project = jax.jit(kernels.project_isotonic)
    v = np.stack(
        [
            rng.standard_normal(size),
            rng.standard_normal(size) + 0.02 * place,
            -place,
            np.where(place == size - 1, -1e3, place),
            np.where(place == 0, 1e3, place),
            np.sin(place / 9),
            np.round(rng.standard_normal(size)),
        ]
    )
    weights = rng.uniform(0.1, 3, v.shape)
    found = project(v)
    np.testing.assert_allclose(found, twins.project_isotonic(v, np.array(1.0)), atol=1e-11)
    np.testing.assert_allclose(found, [isotonic_regression(row) for row in v], atol=1e-11)
    found = project(v, weights)
    np.testing.assert_allclose(found, twins.project_isotonic(v, weights), atol=1e-11)
    assert np.all(np.diff(found) >= 0)
    once = project(found, weights)
    np.testing.assert_array_equal(once, found)
    slope = jax.jit(kernels.prox_slope)
    falling = np.linspace(2, 0.1, size)
    expected = twins.prox_slope(v, 0.4, np.broadcast_to(falling, v.shape))
    np.testing.assert_allclose(slope(v, 0.4, falling), expected, atol=1e-11)


@pytest.mark.thorough
def test_rows_are_pooled_alone_behind_and_beside_each_other(x64):
    rng = np.random.default_rng(5)
    v, weights = rng.standard_normal((2, 3, 40)), rng.uniform(0.1, 3, (2, 3, 40))
    v[0, 1, 7] = np.nan
    each = zip(v.reshape(6, 40), weights.reshape(6, 40), strict=True)
    expected = np.stack([kernels.project_isotonic(*row) for row in each]).reshape(v.shape)
    np.testing.assert_array_equal(np.isnan(expected).sum(-1), [[0, 40, 0], [0, 0, 0]])
    twice = jax.jit(jax.vmap(jax.vmap(kernels.project_isotonic)))
    np.testing.assert_array_equal(twice(v, weights), expected)
    rows = (v.reshape(6, 40), weights.reshape(6, 40), jnp.arange(40) == 0)
    beside = jax.jit(jax.vmap(pooled.fun, (0, 0, None)))
    np.testing.assert_allclose(beside(*rows).reshape(v.shape), expected, rtol=1e-14)


@pytest.mark.thorough
@pytest.mark.parametrize("weighted", [False, True])
def test_a_million_of_entries_far_from_zero_are_pooled_to_their_means(weighted):
    """In float32: one block, grown from either side, and many."""
    size, rng = 1_000_000, np.random.default_rng(6)
    weights = rng.uniform(0.5, 2, size).astype(np.float32) if weighted else 1.0
    place = np.linspace(0, 1, size)
    project = jax.jit(kernels.project_isotonic)
    for v in (
        -1e5 + 1e3 * place**2 * (place < 1),
        1e5 - 1e3 * place,
        -10 * place,
        1e5 + place + rng.standard_normal(size),
        np.where(place < 1, place, -1e6),
    ):
        v = v.astype(np.float32)
        expected = isotonic_regression(
            v.astype(np.float64), sample_weight=np.broadcast_to(weights, size).astype(np.float64)
        )
        # The sum of the weights is rounded a million of times.
        room = 1e-4 if weighted else 1e-6
        np.testing.assert_allclose(project(v, weights), expected, rtol=2e-7, atol=room)


@pytest.mark.thorough
def test_other_axes_and_batches(x64):
    v = np.random.default_rng(2).standard_normal((4, 5, 3))
    for project, parameters in (
        (kernels.project_simplex, ()),
        (kernels.project_weighted_simplex, (LIGHT,)),
        (partial(kernels.prox_sum_largest, k=2), (0.3, 1.0)),
        (kernels.prox_slope, (0.3, LIGHT[::-1].cumsum()[::-1])),
        (kernels.project_box_section, (-0.5, 0.5, LIGHT, 0.2)),
        (partial(kernels.project_top_k, k=2), ()),
        (kernels.project_isotonic, (LIGHT + 1,)),
    ):
        found = jax.jit(partial(project, axis=1))(v, *parameters)
        moved = jax.jit(project)(np.moveaxis(v, 1, -1), *parameters)
        np.testing.assert_allclose(found, np.moveaxis(moved, -1, 1), rtol=1e-12, atol=1e-13)
        mapped = jax.jit(jax.vmap(lambda row, f=project, p=parameters: f(row, *p, axis=0)))(v)
        np.testing.assert_allclose(found, mapped, rtol=1e-12, atol=1e-13)
    radius = np.array([0.1, 1.0, 9.0, np.inf]).reshape(4, 1, 1)
    found = kernels.project_l1_ball(v, radius, axis=1)
    norms = np.abs(v).sum(1, keepdims=True)
    assert np.allclose(np.abs(found).sum(1, keepdims=True), np.minimum(norms, radius))
    np.testing.assert_array_equal(found[3], v[3])


@pytest.mark.thorough
def test_sets_without_points_give_no_number():
    v = jnp.array([0.2, -0.1, 0.4])
    empty = [
        kernels.project_simplex(v, jnp.asarray(-1.0)),
        kernels.project_weighted_simplex(v, jnp.zeros(3)),
        kernels.project_box_section(v, 0.0, 1.0, jnp.ones(3), 3.1),
        kernels.project_box_section(v, 0.0, 1.0, jnp.ones(3), -0.1),
    ]
    assert np.all(np.isnan(empty))
    full = kernels.project_box_section(v, 0.0, 0.1, jnp.ones(3), 0.3)
    np.testing.assert_allclose(full, 0.1, rtol=1e-6)


def test_counts_out_of_range_are_refused():
    v = jnp.zeros(3)
    with pytest.raises(ValueError, match="from 1 to 3"):
        kernels.prox_sum_largest(v, 1.0, 1.0, 4)
    with pytest.raises(ValueError, match="at least 0"):
        kernels.project_top_k(v, -1)
    with pytest.raises(ValueError, match="k is 0"):
        kernels.project_sparse_simplex(v, 0)
    with pytest.raises(ValueError, match="two axes"):
        kernels.project_top_k_groups(v[None], 1, axis=-1, groups=1)
    np.testing.assert_array_equal(kernels.project_top_k(v + 1, 5), v + 1)
    np.testing.assert_array_equal(kernels.project_top_k(v + 1, 0), v)


@pytest.mark.thorough
def test_the_largest_are_taken_from_ties_in_order_and_from_both_signs():
    v = jnp.array([1.0, -2.0, 0.0, 2.0, -0.0, -2.0, 1.0])
    np.testing.assert_array_equal(kernels.project_top_k(v, 2), [0, -2, 0, 2, 0, 0, 0])
    np.testing.assert_array_equal(kernels.project_top_k(v, 4), [1, -2, 0, 2, 0, -2, 0])
    assert float(kernels.sum_largest_value(v, 1.0, 4)) == 4.0
    assert float(kernels.slope_value(jnp.array([1.0, -3.0, 2.0]), jnp.asarray(FALLING))) == (
        pytest.approx(float(FALLING @ np.array([3.0, 2.0, 1.0])))
    )
    assert float(kernels.linf_value(jnp.asarray(-UNEVEN))) == 2.0
