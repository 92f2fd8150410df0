"""What every proximal map and projection promises, row by row of the table.

The default run compares each with its NumPy twin; what a kernel promises besides is in the thorough
run: here, in `test_table_slopes` and in `test_table_range`.
"""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm.kernels as kernels
from fedjax_admm.testing import check_prox
from tests.kernels.table import FIRSTS, ROWS, WITH_VALUE
from tests.kernels.table.row import cast

# The default run takes the first row of every kernel.
FIRST = pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=[] if row is FIRSTS[row.name] else [pytest.mark.thorough])
        for row in ROWS
    ],
    ids=str,
)
# Twins find the minimisers of convex functions; those of others are searched for.
SEARCHED = [row for row in ROWS if row.value is not None and not row.convex]
# Public names that are a prox or a projection and stand in tables or tests of their own.
ELSEWHERE = {
    "prox_negative_moreau_norm",
    "prox_phase_residual",
    "prox_phase_residual_box",
    "prox_phase_residual_clipped",
    "prox_range_excess",
    "prox_ranges",
}


def test_every_proximal_map_and_projection_has_its_row():
    maps = {name for name in kernels.__all__ if name.startswith(("prox_", "project_"))}
    assert maps == {row.name for row in ROWS} | ELSEWHERE


@FIRST
def test_equals_its_twin(row, x64):
    for step in row.steps:
        expected = row.expected(row.points, step)
        found = row.image(row.points, step)
        np.testing.assert_allclose(found, expected, rtol=row.tolerance, atol=row.tolerance)


# Weights that do more than multiply the function have rows of their own.
SCALED_BY_WEIGHT = [
    row
    for row in FIRSTS.values()
    if "weight" in inspect.signature(getattr(kernels, row.name)).parameters
    and row.name != "prox_capped_quadratic"
]


@pytest.mark.parametrize("row", SCALED_BY_WEIGHT, ids=str)
def test_a_weight_multiplies_the_step_and_the_value(row, x64):
    name, (step, *_), first = row.name, row.steps, row.parameters[:1] or (1.0,)
    position = list(inspect.signature(getattr(kernels, name)).parameters).index("weight")
    assert position == 2, "the weight follows the step"
    found = row.image(row.points, step, (2.5 * first[0], *row.parameters[1:]))
    np.testing.assert_allclose(found, row.image(row.points, 2.5 * step), rtol=1e-9, atol=1e-9)
    value = getattr(kernels, f"{name.removeprefix('prox_')}_value", kernels.smoothed_abs)
    if value is not kernels.smoothed_abs:  # a building block without a weight
        once = value(jnp.asarray(row.points), *(row.parameters or (1.0,)), **told_to_values(row))
        more = value(
            jnp.asarray(row.points), 2.5 * first[0], *row.parameters[1:], **told_to_values(row)
        )
        np.testing.assert_allclose(more, 2.5 * np.asarray(once), rtol=1e-9)


def told_to_values(row):
    return {name: part for name, part in row.static.items() if name != "iterations"}


@pytest.mark.thorough
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
            found = np.asarray(row.image(row.points, step, parameters))
            assert np.all(np.isnan(found).reshape(len(found), -1).any(1)), (place, found)
    points = row.points.copy()
    points[:, 0] = np.nan
    found = np.asarray(row.image(points, row.steps[0]))
    assert np.all(np.isnan(found).reshape(len(found), -1)[:, 0]), found


# What a kernel does in others' programs does not hang on its numbers: one row of each.
ONE_EACH = pytest.mark.parametrize("row", FIRSTS.values(), ids=str)


@ONE_EACH
def test_complex_points_are_refused(row):
    points = jax.ShapeDtypeStruct(row.points.shape, jnp.complex64)
    step = jax.ShapeDtypeStruct((), jnp.float32)
    with pytest.raises(TypeError, match="real"):
        jax.eval_shape(row.prox, points, step, *cast(row.parameters, np.float32))


@pytest.mark.parametrize("row", [r for r in FIRSTS.values() if not r.projection], ids=str)
def test_a_negative_step_is_refused(row):
    """It expanded: the absolute value at the step -1 moved 2 to 3."""
    with pytest.raises(ValueError, match=r"^step must be at least 0, but it is -0\.5\.$"):
        row.prox(row.points, -0.5, *row.parameters)


@pytest.mark.parametrize("reverse", [False, pytest.param(True, marks=pytest.mark.thorough)])
@ONE_EACH
def test_it_runs_inside_shard_map_with_its_defaults(row, reverse):
    """Points are sharded, the step and parameters are not: loops begin with what varies over axes.

    What JAX refuses, it refuses while it traces: nothing has to be compiled.
    """
    step, *parameters = cast((row.steps[0], *row.parameters), np.float32)

    def image(v):
        return row.prox(v, step, *parameters)

    def mapped(v):
        found, pull = jax.vjp(image, v) if reverse else (image(v), None)
        return found if pull is None else pull(found)[0]

    mesh = jax.make_mesh((1,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    over = jax.sharding.PartitionSpec("rows")
    sharded = jax.shard_map(mapped, mesh=mesh, in_specs=over, out_specs=over)
    points = jax.ShapeDtypeStruct(row.points.shape, jnp.float32)
    assert jax.eval_shape(sharded, points).shape == points.shape


@pytest.mark.thorough
@ONE_EACH
def test_the_result_has_the_dtype_of_the_point(row):
    """Whatever the dtype of a step and of parameters, and where these are Python's numbers."""
    points = jax.ShapeDtypeStruct(row.points.shape, jnp.bfloat16)
    step = jax.ShapeDtypeStruct((), jnp.float32)
    found = jax.eval_shape(row.prox, points, step, *cast(row.parameters, np.float32))
    assert (found.dtype, found.shape) == (points.dtype, points.shape)
    points = jax.ShapeDtypeStruct(row.points.shape, jnp.float16)
    found = jax.eval_shape(lambda v: row.prox(v, row.steps[0], *row.parameters), points)
    assert (found.dtype, found.shape) == (points.dtype, points.shape)


# Of separable functions, whose value has the shape of its point.
MONOTONE = [
    row
    for row in WITH_VALUE
    if not row.convex and np.shape(row.penalty(row.points[0], *row.parameters))
]


@pytest.mark.thorough
@pytest.mark.parametrize("row", MONOTONE, ids=str)
def test_entries_do_not_fall_while_those_of_the_point_rise(row, x64):
    """Those of convex functions are tried below, in more than one dimension."""
    reach = 1.5 * np.abs(row.points).max() + 1
    line = np.linspace(-reach, reach, 20 * row.points.size).reshape(-1, *row.points.shape)
    for step in row.steps:
        found = np.concatenate([np.ravel(row.image(points, step)) for points in line])
        assert np.all(np.diff(found) >= -1e-9)


def random_points(row):
    rng = np.random.default_rng(0)
    return [size * rng.standard_normal((2, *row.points.shape)) for size in (1e-3, 1e-2, 1, 1, 30)]


@pytest.mark.thorough
@pytest.mark.parametrize("row", [r for r in ROWS if r.projection and r.idempotent], ids=str)
def test_a_projection_of_a_projection_is_itself(row, x64):
    for points, _ in random_points(row):
        once = row.image(points, 1.0)
        np.testing.assert_allclose(row.image(once, 1.0), once, rtol=1e-9, atol=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("row", [row for row in ROWS if row.convex], ids=str)
def test_convex_maps_are_firmly_nonexpansive(row, x64):
    for a, b in random_points(row):
        one, other = (np.asarray(row.image(points, row.steps[0])) for points in (a, b))
        axes = tuple(range(1, a.ndim))
        left = np.sum((one - other) ** 2, axes)
        right = np.sum((one - other) * (a - b), axes)
        assert np.all(left <= right + row.tolerance * (1 + left))
