"""Nonconvex maps of one number: ties, limits, scales, and the global minimiser in every regime."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st

import fedjax_admm.kernels as kernels
from tests.reference import prox_nonconvex as reference

# Whose weight, which multiplies the step, is 1 here.
WEIGHTED = ("prox_log_sum", "prox_geman", "prox_exponential_type", "prox_capped_l1")


def kernel_of(name):
    kernel = getattr(kernels, name)
    if name not in WEIGHTED:
        return kernel
    return lambda v, step, *parameters: kernel(v, step, 1.0, *parameters)


# Name, parameters, and how step and parameters scale with the point.
MAPS = [
    ("prox_l0", (), 2, ()),
    ("prox_l_half", (), 1.5, ()),
    ("prox_l_two_thirds", (), 4 / 3, ()),
    ("prox_log_sum", (0.6,), 2, (1,)),
    ("prox_geman", (0.6,), 2, (1,)),
    ("prox_exponential_type", (1.2,), None, ()),
    ("prox_capped_l1", (0.6,), 1, (1,)),
    ("prox_capped_quadratic", (0.5, 2.0), 0, (0, 2)),
]
EVERY = pytest.mark.parametrize(
    ("name", "parameters", "power", "powers"), MAPS, ids=[m[0] for m in MAPS]
)


@pytest.mark.parametrize(
    ("name", "point", "step", "parameters", "result"),
    [
        ("prox_l0", 2.0, 2.0, (), 0.0),
        ("prox_l_half", 1.5, 1.0, (), 0.0),
        ("prox_l_two_thirds", 2.0, 1.5, (), 0.0),
        ("prox_capped_l1", 2.5, 1.0, (2.0,), 1.5),
        ("prox_capped_l1", 4.0, 4.0, (2.0,), 0.0),
        ("prox_capped_l1", 4.0, 16.0, (0.5,), 0.0),
        ("prox_capped_quadratic", 4.0, 3.0, (1.0, 2.0), 1.0),
    ],
)
def test_of_two_minimisers_the_smaller_is_returned(name, point, step, parameters, result, dtype):
    above = np.nextafter(dtype.type(point), dtype.type(9))
    points = np.array([point, -point, above], dtype)
    found = jax.jit(kernel_of(name))(points, dtype.type(step), *parameters)
    np.testing.assert_array_equal(found[:2], [result, -result])
    assert found[2] > result


def test_a_stationary_point_is_not_yet_a_minimiser():
    """Just above the v at which the log-sum and the Geman maps have one, 0 is cheaper."""
    v = 2 * np.sqrt(4.0) - 0.1 + 0.05
    assert jax.jit(kernels.prox_log_sum)(v, 4.0, 1.0, 0.1) == 0
    v = (27 / 4 * 4.0 * 0.1) ** (1 / 3) - 0.1 + 0.05
    assert jax.jit(kernels.prox_geman)(v, 4.0, 1.0, 0.1) == 0


@EVERY
def test_what_is_no_number_stays_and_no_step_changes_nothing(name, parameters, power, powers):
    points = jnp.array([jnp.nan, jnp.inf, -jnp.inf, 0.0, -3.0, -1e-20, 0.0, 1e-3, 7.0])
    steps = jnp.where(jnp.arange(9) < 4, 0.5, 0.0)
    found = jax.jit(kernel_of(name))(points, steps, *parameters)
    np.testing.assert_array_equal(found, points)


@pytest.mark.thorough
@EVERY
@given(seed=st.integers(0, 2**31))
def test_no_threshold_is_misplaced(name, parameters, power, powers, seed, dtype):
    """Random steps and parameters over seven decades, half of them near the limit of regimes."""
    rng = np.random.default_rng(seed)
    parameters = [10 ** rng.uniform(-3, 2) for _ in parameters]
    step = 10 ** rng.uniform(-3, 2)
    if rng.uniform() < 0.5:
        near = 1 + rng.choice([-1e-3, -1e-7, 0, 1e-7, 1e-3])
        if name in ("prox_log_sum", "prox_geman"):
            step = near * parameters[0] ** 2 / (1 if name == "prox_log_sum" else 2)
        elif name == "prox_exponential_type":
            step = -near * np.expm1(-parameters[0]) / parameters[0] ** 2
        elif name == "prox_capped_l1":
            step = near * 2 * parameters[0]
    points = 10 ** rng.uniform(-2, 2, 20)
    step, points = dtype.type(step), points.astype(dtype)
    parameters = [dtype.type(part) for part in parameters]
    found = jax.jit(kernel_of(name))(points, step, *parameters)
    # Between the minimisers of points within a rounding or two: beside a jump both are allowed.
    wide = [np.float64(part) for part in (step, *parameters)]
    slack = 8 * np.finfo(dtype).eps
    below, above = (
        getattr(reference, name)(np.float64(points) * (1 + side * slack), *wide) for side in (-1, 1)
    )
    assert np.all(found >= below - slack * points)
    assert np.all(found <= above + slack * points)


@pytest.mark.thorough
def test_second_derivatives_are_those_of_the_minimiser(x64):
    for name, parameters, _, _ in MAPS[1:6]:
        kernel = kernel_of(name)
        for v, place in product((2.9, -3.7), range(2)):

            def slope(number, place=place, v=v, kernel=kernel, parameters=parameters):
                arguments = [v, 0.8, *parameters]
                arguments[place] = number
                return jax.grad(kernel, place)(*arguments)

            here = (v, 0.8)[place]
            ahead, behind = slope(here + 1e-5), slope(here - 1e-5)
            np.testing.assert_allclose(
                jax.grad(slope)(here), (ahead - behind) / 2e-5, rtol=1e-6, atol=1e-8
            )
