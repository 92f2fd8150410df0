"""The derivatives of every proximal map and projection, row by row of the table."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.kernels.table import FIRSTS, WITH_VALUE
from tests.kernels.table.row import cast

pytestmark = pytest.mark.thorough


# Points at zero of both signs and beside kinks on both sides; the same number for every row.
SPECIAL = 10


def special_points(row):
    """Zero of both signs, and every kink on both sides."""
    entries = np.array([0.0, -0.0, *row.kinks, *(-kink for kink in row.kinks), 2.0, -2.0])
    shape = row.points.shape[1:]
    return np.stack([np.full(shape, entry) for entry in np.resize(entries, SPECIAL)])


@partial(jax.jit, static_argnums=(0, 1))
def slopes(prox, by_row, points, arguments, shift, tangent, weights):
    """Return the images where numbers are shifted, their slopes, and those of a weighted sum.

    The last shift is that of all entries of the points, the others are those of the step and of the
    parameters; those that count stay. The map of rows is mapped over them.
    """
    numbers, shape = jax.tree.flatten(arguments)

    def moved(shift):
        there = [
            number + by if jnp.issubdtype(number.dtype, jnp.floating) else number
            for number, by in zip(numbers, shift[:-1], strict=True)
        ]
        mapped = partial(with_numbers, prox, jax.tree.unflatten(shape, there))
        return (jax.vmap(mapped) if by_row else mapped)(points + shift[-1])

    found, along = jax.linearize(moved, shift)
    back = jax.linear_transpose(along, shift)
    return found, along(tangent), back(weights)[0]


def with_numbers(prox, arguments, points):
    return prox(points, *arguments)


@pytest.mark.parametrize("row", FIRSTS.values(), ids=str)
def test_derivatives_lie_between_the_one_sided_ones(row, x64):
    """By the step, parameters and points, at usual ones, at zero and at every kink of both signs.

    Forward and in reverse, under `jax.vmap` too; at the first step and at the step zero.
    """
    special = special_points(row)
    # Not of matrices, nor where each row has parameters of its own.
    by_row = row.value is not None and all(np.ndim(n) < 2 for n in jax.tree.leaves(row.parameters))
    usual = row.points + 0.0137 * np.cos(np.arange(row.points.size)).reshape(row.points.shape)
    weights = np.random.default_rng(1).uniform(
        0.5, 1.5, (len(special) + len(usual), *special.shape[1:])
    )
    if not by_row:  # of matrices the special points are compared alone
        weights[len(special) :] = 0
    parameters = cast(row.parameters, np.float64)
    # At the step zero kinks of parameters meet those of the point: points stand beside them.
    for step, beside in ((row.steps[0], 0.0), (0.0, 1e-6)):
        points = np.concatenate([special * (1 + beside), usual])
        arguments = (jnp.asarray(step), *parameters)
        numbers = jax.tree.leaves(arguments)
        places = [
            place
            for place, number in enumerate(numbers)
            if jnp.issubdtype(number.dtype, jnp.floating) and not (row.projection and place == 0)
        ]
        at = partial(slopes, row.prox, by_row, points, arguments, weights=weights)
        # Points are moved away from kinks, where a kernel need not have a derivative.
        away = np.arange(len(points)) >= len(special)
        cases = [(place, slice(None) if step and by_row else ~away) for place in places]
        if by_row and step:
            cases.append((len(numbers), away))
        for place, compared in cases:
            tangent = np.zeros(len(numbers) + 1)
            tangent[place] = 1.0
            compare_with_one_sided(at, tangent, step == place == 0, points, weights, compared)


def compare_with_one_sided(at, tangent, from_above, points, weights, compared):
    width = 1e-7
    here, slope, reverse = (np.asarray(part) for part in at(0 * tangent, tangent))
    above, below = (np.asarray(at(way * width * tangent, tangent)[0]) for way in (1, -1))
    ahead, behind = (above - here) / width, (here - below) / width
    if from_above:  # a negative step has no meaning, except where the point is at the kink too
        behind = np.where(points == 0, behind, ahead)
    assert np.all(np.isfinite(slope))
    jump = np.maximum(np.abs(ahead), np.abs(behind)) > 1e3  # or the root of what was moved
    low, high = np.minimum(ahead, behind), np.maximum(ahead, behind)
    slack = 1e-5 * (1 + np.abs(slope))
    outside = (~jump & ((slope < low - slack) | (slope > high + slack)))[compared]
    assert not np.any(outside), tuple(part[compared][outside] for part in (slope, low, high))
    total = np.sum(weights * slope)
    np.testing.assert_allclose(reverse @ tangent, total, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("row", WITH_VALUE, ids=str)
def test_derivatives_are_finite_in_single_precision(row):
    """In reverse, at zero and at every kink of both signs."""
    points, parameters = special_points(row).astype(np.float32), cast(row.parameters, np.float32)
    for step in (row.steps[0], 1.0):
        found = reverse_slopes(row.prox, points, np.float32(step), parameters)
        for slope in jax.tree.leaves(found):
            assert slope.dtype == jax.dtypes.float0 or np.all(np.isfinite(slope))


@partial(jax.jit, static_argnums=0)
def reverse_slopes(prox, points, step, parameters):
    def total(points, step, parameters):
        return jnp.sum(prox(points, step, *parameters))

    return jax.grad(total, (0, 1, 2), allow_int=True)(points, step, parameters)
