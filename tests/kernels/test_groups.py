"""Maps of groups: axes, ragged segments, derivatives at 0 and near it, ties."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm.kernels as kernels
from tests.reference import prox_groups as reference

CUBE = np.random.default_rng(3).standard_normal((2, 3, 4))
SEGMENTS = np.array([2, 0, 2, 5, 0, -1, 0])
LINES = np.random.default_rng(5).standard_normal((3, 7))
MAPS = [
    (kernels.prox_group_l2, (), 0.0),
    (kernels.prox_sparse_group, (0.2, 0.9), 0.0),
    (kernels.prox_group_mcp, (1.0, 3.0), 0.0),
    (kernels.prox_group_scad, (1.0, 3.5), 0.0),
    (kernels.prox_group_l0, (), 0.0),
    (kernels.prox_group_l_half, (), 0.0),
    (kernels.prox_cube_l2, (), 1.0),
    (kernels.prox_smoothed_group_mcp, (1.0, 3.0, 0.5), 1 / (1 + 0.4 / 0.5 - 0.4 / 6)),
    (kernels.prox_smoothed_group_scad, (1.0, 3.5, 0.5), 1 / (1 + 0.4 / 0.5)),
    (kernels.prox_l1_minus_l2, (1.0, 0.5), 0.0),
]
EVERY = pytest.mark.parametrize(
    ("kernel", "parameters", "limit"), MAPS, ids=[m[0].__name__ for m in MAPS]
)


@pytest.mark.parametrize(
    "axis",
    [
        (0, 2),
        *(pytest.param(a, marks=pytest.mark.thorough) for a in (0, 1, -1, (1, -1), (0, 1, 2))),
    ],
    ids=str,
)
def test_groups_lie_along_any_axis_or_several(axis, x64):
    kernel = jax.jit(kernels.prox_group_mcp, static_argnames="axis")
    found = kernel(CUBE, 0.7, 1.0, 3.0, axis=axis)
    expected = reference.prox_group_mcp(CUBE, 0.7, 1.0, 3.0, axis=axis)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    value = jax.jit(kernels.group_l2_value, static_argnames="axis")(CUBE, axis=axis)
    np.testing.assert_allclose(value, np.sqrt(np.sum(CUBE**2, axis)), rtol=1e-12)


@pytest.mark.thorough
def test_each_group_may_have_its_own_step_and_parameters(x64):
    rows = CUBE[0]
    steps, lam = np.array([[0.1], [3.5], [0.7]]), np.array([[1.0], [0.5], [0.0]])
    found = kernels.prox_group_mcp(rows, steps, lam, 3.0)
    for row, step, slope, result in zip(rows, steps, lam, found, strict=True):
        np.testing.assert_allclose(result, reference.prox_group_mcp(row, step[0], slope[0], 3.0))


@pytest.mark.thorough
@EVERY
def test_jacobians_at_zero_are_finite_and_those_of_the_limit(kernel, parameters, limit):
    both = jax.jit(
        lambda v: [way(kernel, (0, 1))(v, 0.4, *parameters) for way in (jax.jacfwd, jax.jacrev)]
    )
    for zero in (0.0, -0.0):
        for by_point, by_step in both(np.full(3, zero, np.float32)):
            np.testing.assert_allclose(by_point, limit * np.eye(3), rtol=1e-5)
            assert not np.any(by_step)


@pytest.mark.thorough
@EVERY
def test_derivatives_are_finite_at_tiny_and_at_huge_norms(kernel, parameters, limit):
    jacobians = jax.jit(jax.jacrev(kernel, tuple(range(2 + len(parameters)))))
    for size in (1e-37, 1e-30, 1e-20, 1e20, 1e30, 1e37):
        v = np.array([3.0, -4.0, 0.0], np.float32) * np.float32(size)
        for found in jacobians(v, 0.4, *parameters):
            assert np.all(np.isfinite(found)), (size, found)


def test_groups_beyond_the_flat_part_come_back_bit_for_bit(dtype):
    v = (9 * LINES).astype(dtype) + np.sign(LINES).astype(dtype)
    assert np.array_equal(jax.jit(kernels.prox_group_scad)(v, 0.4, 1.0, 3.5), v)


def test_segments_are_groups_in_any_order(x64):
    weights = np.arange(6.0) / 5
    kernel = jax.jit(kernels.prox_segments_l2, static_argnames=("count", "axis"))
    found = kernel(LINES, 0.9, weights, SEGMENTS, count=6)
    expected = reference.prox_segments_l2(LINES, 0.9, weights, SEGMENTS, count=6)
    np.testing.assert_allclose(found, expected, atol=1e-14)
    assert np.array_equal(found[:, 5], LINES[:, 5])  # without a segment
    # Ids that are too large belong to none, like negative ones.
    fewer = kernel(LINES, 0.9, weights, np.where(SEGMENTS == 5, 6, SEGMENTS), count=6)
    assert np.array_equal(fewer[:, 3], LINES[:, 3])
    np.testing.assert_array_equal(fewer[:, :3], found[:, :3])


@pytest.mark.thorough
def test_segments_lie_along_any_axis(x64):
    weights = np.arange(6.0) / 5
    found = kernels.prox_segments_l2(LINES, 0.9, weights, SEGMENTS, count=6)
    upright = kernels.prox_segments_l2(LINES.T, 0.9, weights, SEGMENTS, count=6, axis=0)
    np.testing.assert_array_equal(upright.T, found)
    value = kernels.segments_l2_value(LINES, weights, SEGMENTS, count=6)
    other = kernels.segments_l2_value(LINES.T, weights, SEGMENTS, count=6, axis=0)
    np.testing.assert_allclose(value, other, rtol=1e-14)


@pytest.mark.thorough
def test_entries_may_have_their_own_weight_of_l1(x64):
    l1 = np.linspace(0, 1, 7)
    ragged = kernels.prox_sparse_segments(LINES, 0.9, l1[None], 0.7, SEGMENTS, count=6)
    expected = reference.prox_sparse_segments(LINES, 0.9, l1[None], 0.7, SEGMENTS, count=6)
    np.testing.assert_allclose(ragged, expected, atol=1e-14)
    one = kernels.prox_sparse_segments(LINES, 0.9, l1[None], 0.7, np.zeros(7, int), count=1)
    np.testing.assert_allclose(
        one, kernels.prox_sparse_group(LINES, 0.9, l1[None], 0.7), atol=1e-14
    )


def test_the_difference_of_norms_keeps_the_first_of_the_largest_entries():
    v = jnp.array([0.5, -0.5, 0.2])
    points, steps = jnp.stack([v, -v, 0 * v]), jnp.array([[1.0], [0.5], [1.0]])
    found = jax.jit(kernels.prox_l1_minus_l2)(points, steps, 1.0, jnp.array([[1.0], [1.0], [3.0]]))
    np.testing.assert_array_equal(found, [[0.5, 0, 0], [-0.5, 0, 0], [2.0, 0, 0]])
