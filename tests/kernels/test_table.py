"""What every proximal map and projection promises, row by row of the table.

The default run compares each with its NumPy twin and looks for a better point; what a kernel
promises besides (dtypes, derivatives at kinks, the ends of the range) is in the thorough run.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st

import fedjax_admm.kernels as kernels
from fedjax_admm.testing import PROX_CHECKS, check_prox
from tests.kernels.table import ROWS

EVERY = pytest.mark.parametrize("row", ROWS, ids=str)


def first_rows(rows, among=lambda row: True):
    """Return all rows as parameters; the default run takes the first of every map, if `among`."""
    firsts = {row.name: row for row in reversed(rows)}
    return [
        pytest.param(row, marks=[] if row is firsts[row.name] and among(row) else [THOROUGH])
        for row in rows
    ]


THOROUGH = pytest.mark.thorough
FIRST = pytest.mark.parametrize("row", first_rows(ROWS), ids=str)
# Twins find the minimisers of convex functions; those of others are searched for in every run.
SEARCHED = first_rows([row for row in ROWS if row.value is not None], lambda row: not row.convex)
# Public names that are a prox or a projection and stand in tables or tests of their own.
ELSEWHERE = {
    "prox_negative_moreau_norm",
    "prox_phase_residual",
    "prox_phase_residual_box",
    "prox_phase_residual_clipped",
    "prox_range_excess",
}


@partial(jax.jit, static_argnums=0)
def mapped(prox, points, step, parameters):
    return prox(points, step, *parameters)


def arrays(parameters, dtype):
    """Return numbers as arrays of a dtype; what counts (integers) keeps its own."""
    return tuple(
        jax.tree.map(
            lambda part: (
                jnp.asarray(part, dtype)
                if jnp.issubdtype(jnp.result_type(part), jnp.floating)
                else jnp.asarray(part)
            ),
            parameters,
        )
    )


def image(row, points, step, parameters=None, dtype=np.float64):
    parameters = row.parameters if parameters is None else parameters
    return mapped(
        row.prox, jnp.asarray(points, dtype), jnp.asarray(step, dtype), arrays(parameters, dtype)
    )


def test_every_proximal_map_and_projection_has_its_row():
    maps = {name for name in kernels.__all__ if name.startswith(("prox_", "project_"))}
    assert maps == {row.name for row in ROWS} | ELSEWHERE


@FIRST
def test_equals_its_twin(row, x64):
    for step in row.steps:
        expected = row.expected(row.points, step)
        found = image(row, row.points, step)
        np.testing.assert_allclose(found, expected, rtol=row.tolerance, atol=row.tolerance)


@pytest.mark.parametrize("row", SEARCHED, ids=str)
def test_no_point_is_better(row):
    check_prox(
        row.prox,
        row.penalty,
        *row.parameters,
        points=row.points,
        steps=row.steps,
        kinks=row.kinks,
        only="minimises",
    )


@FIRST
def test_nan_is_never_lost(row, x64):
    """Whichever number is NaN, the step and parameters too: none returns points that look right."""
    numbers, shape = jax.tree.flatten((row.steps[0], *row.parameters))
    for place, number in enumerate(numbers):
        if isinstance(number, float) and not (row.projection and place == 0):
            step, *parameters = jax.tree.unflatten(
                shape, [*numbers[:place], np.nan, *numbers[place + 1 :]]
            )
            found = np.asarray(image(row, row.points, step, parameters))
            assert np.all(np.isnan(found).reshape(len(found), -1).any(1)), (place, found)
    points = row.points.copy()
    points[:, 0] = np.nan
    found = np.asarray(image(row, points, row.steps[0]))
    assert np.all(np.isnan(found).reshape(len(found), -1)[:, 0]), found


@FIRST
def test_the_result_has_the_dtype_of_the_point(row):
    """Whatever the dtype of a step and of parameters; complex points are refused."""
    shape = row.points.shape
    points = jax.ShapeDtypeStruct(shape, jnp.bfloat16)
    step = jax.ShapeDtypeStruct((), jnp.float32)
    found = jax.eval_shape(row.prox, points, step, *arrays(row.parameters, np.float32))
    assert (found.dtype, found.shape) == (jnp.bfloat16, shape)
    points = jax.ShapeDtypeStruct(shape, jnp.complex64)
    with pytest.raises(TypeError, match="real"):
        jax.eval_shape(row.prox, points, step, *arrays(row.parameters, np.float32))


# How a kernel behaves in others' programs does not hang on its numbers: one row of each.
ONE_EACH = {row.name: row for row in reversed(ROWS) if row.value is not None}


@pytest.mark.thorough
@pytest.mark.parametrize("row", ONE_EACH.values(), ids=str)
def test_is_fit_for_others_code(row):
    """Dtypes, jit, vmap, derivatives, kinks, range, monotony: the checks that users have too."""
    check_prox(
        row.prox,
        row.penalty,
        *row.parameters,
        points=row.points,
        steps=row.steps,
        kinks=row.kinks,
        convex=row.convex,
        only=[name for name in PROX_CHECKS if name != "minimises"],
    )


def special_points(row):
    """Zero of both signs, and every kink on both sides."""
    entries = np.array([0.0, -0.0, *row.kinks, *(-kink for kink in row.kinks), 2.0, -2.0])
    shape = row.points.shape[1:]
    return np.stack([np.full(shape, entry) for entry in entries])


@pytest.mark.thorough
@EVERY
def test_derivatives_by_numbers_lie_between_the_one_sided_ones(row, x64):
    """At zero and at every kink of both signs, at the first step and at the step zero."""
    kinks = jnp.asarray(special_points(row))
    # At the step zero kinks of parameters meet those of the point: points stand beside them.
    for step, points in ((row.steps[0], kinks), (0.0, kinks * (1 + 1e-6))):
        arguments = (jnp.asarray(step), *arrays(row.parameters, np.float64))
        numbers, shape = jax.tree.flatten(arguments)
        for place in range(1 if row.projection else 0, len(numbers)):
            if jnp.issubdtype(jnp.result_type(numbers[place]), jnp.floating):
                by_one = partial(moved, row, points, numbers, shape, place)
                compare_with_one_sided(by_one, numbers[place], step == place == 0, points)


def moved(row, points, numbers, shape, place, number):
    """Return the map with one of its numbers replaced."""
    arguments = jax.tree.unflatten(shape, [*numbers[:place], number, *numbers[place + 1 :]])
    return row.prox(points, *arguments)


def compare_with_one_sided(by_one, here, from_above, points):
    width, there = 1e-7, jax.jit(by_one)
    ahead = np.asarray((there(here + width) - there(here)) / width)
    behind = np.asarray((there(here) - there(here - width)) / width)
    if from_above:  # a negative step has no meaning, except where the point is at the kink too
        behind = np.where(points == 0, behind, ahead)
    slope = jax.jit(lambda number, t: jax.jvp(by_one, (number,), (t,))[1])
    slope = np.asarray(slope(here, jnp.ones_like(here)))
    assert np.all(np.isfinite(slope))
    jump = np.maximum(np.abs(ahead), np.abs(behind)) > 1e3  # or the root of what was moved
    low, high = np.minimum(ahead, behind), np.maximum(ahead, behind)
    slack = 1e-5 * (1 + np.abs(slope))
    outside = ~jump & ((slope < low - slack) | (slope > high + slack))
    assert not np.any(outside), (slope[outside], low[outside], high[outside])


@pytest.mark.thorough
@pytest.mark.parametrize("row", [row for row in ROWS if row.scaled], ids=str)
@pytest.mark.parametrize(
    ("dtype", "scale"),
    [
        (np.float32, 1e-30),
        (np.float32, 1.0),
        (np.float32, 1e30),
        (np.float16, 1e-3),
        (np.float16, 5e3),
    ],
    ids=str,
)
def test_the_range_of_the_dtype_is_the_range_of_the_kernel(row, dtype, scale):
    """A point as large as its dtype has it, with step and parameters that fit, against the twin."""
    factor, parameters = row.scaled(scale)
    step = row.steps[0] * factor
    if not float(np.finfo(dtype).tiny) < step < float(np.finfo(dtype).max):
        pytest.skip(f"the step {step:g} is no number of {np.dtype(dtype)}")
    points = (row.points * scale).astype(dtype)
    found = np.asarray(image(row, points, step, parameters, dtype), np.float64)
    cast = jax.tree.map(
        lambda part: np.asarray(part, dtype) if np.asarray(part).dtype.kind == "f" else part,
        parameters,
    )
    expected = row.expected(points, np.asarray(step, dtype), cast)
    tolerance = 64 * float(np.finfo(dtype).eps) * max(float(np.max(np.abs(row.points))), 1) * scale
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


@pytest.mark.thorough
@pytest.mark.parametrize("row", [r for r in ROWS if r.projection and r.idempotent], ids=str)
@given(seed=st.integers(0, 2**31), size=st.sampled_from([1e-3, 1.0, 30.0]))
def test_a_projection_of_a_projection_is_itself(row, seed, size):
    points = size * np.random.default_rng(seed).standard_normal(row.points.shape)
    with jax.enable_x64(True):
        once = image(row, points, 1.0)
        twice = image(row, once, 1.0)
    np.testing.assert_allclose(twice, once, rtol=1e-9, atol=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("row", [row for row in ROWS if row.convex], ids=str)
@given(seed=st.integers(0, 2**31), size=st.sampled_from([1e-2, 1.0, 30.0]))
def test_convex_maps_are_firmly_nonexpansive(row, seed, size):
    a, b = size * np.random.default_rng(seed).standard_normal((2, *row.points.shape))
    with jax.enable_x64(True):
        one, other = (np.asarray(image(row, points, row.steps[0])) for points in (a, b))
    axes = tuple(range(1, a.ndim))
    left = np.sum((one - other) ** 2, axes)
    right = np.sum((one - other) * (a - b), axes)
    assert np.all(left <= right + row.tolerance * (1 + left))
