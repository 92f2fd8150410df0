"""MCP and SCAD, plain and smoothed: the global minimiser for every step, limits, ties."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm.kernels as kernels
from tests.reference import kernels as reference

POINTS = np.linspace(0.0, 11.0, 45)
TRIALS = np.linspace(0.0, 11.5, 1151)
# Steps on both sides of gamma, gamma - 1 and gamma + 1 for every gamma below.
GAMMAS = (1.5, 2.5, 3.7)
STEPS = (0.0, 1e-3, 0.5 - 1e-7, 0.5, 0.5 + 1e-7, 1.5 - 1e-7, 1.5, 2.0, 2.5, 2.7, 3.5, 3.7, 4.7, 8.0)
LAMBDAS = (0.0, 0.5, 1.3)
SMOOTHINGS = (1e-6, 0.3, 1.3, 3.0, 9.0)


def excess(kernel, penalty, parameters, dtype):
    """Largest excess of the objective at the result over the minimum on a dense grid."""
    table = np.array(list(parameters)).T[:, :, None]
    step, *shape = np.asarray(table, dtype).astype(np.float64)
    arrays = [jnp.asarray(row, dtype) for row in table]
    points = np.asarray(POINTS, dtype)
    result = jax.jit(kernel)(jnp.asarray(points)[None, :], *arrays)
    assert result.dtype == dtype
    result, points = np.asarray(result, np.float64), points.astype(np.float64)

    # min over t of step P(t) + t**2 / 2 - t v, one matrix per parameter row.
    cost = step * penalty(TRIALS, *shape) + TRIALS**2 / 2
    least = np.min(cost[:, None, :] - points[None, :, None] * TRIALS, axis=-1)
    reached = step * penalty(result, *shape) + result**2 / 2 - result * points
    return np.max(reached - least)


def smoothed(penalty):
    return lambda t, lam, gamma, mu: penalty(reference.huber_above(t, mu), lam, gamma)


@pytest.mark.kin(2)
@pytest.mark.parametrize(
    ("kernel", "penalty", "grid"),
    [
        (kernels.prox_mcp, reference.mcp, (STEPS, LAMBDAS, GAMMAS)),
        (kernels.prox_scad, reference.scad, (STEPS, LAMBDAS, GAMMAS)),
        (
            kernels.prox_smoothed_mcp,
            smoothed(reference.mcp),
            (STEPS, LAMBDAS[1:], GAMMAS, SMOOTHINGS),
        ),
        (
            kernels.prox_smoothed_scad,
            smoothed(reference.scad),
            (STEPS, LAMBDAS[1:], GAMMAS, SMOOTHINGS),
        ),
    ],
    ids=["mcp", "scad", "smoothed mcp", "smoothed scad"],
)
def test_no_grid_point_is_better(kernel, penalty, grid, dtype):
    tolerance = 1e-10 if dtype == "float64" else 2e-4
    assert excess(kernel, penalty, product(*grid), dtype) <= tolerance


@pytest.mark.parametrize(
    ("name", "step", "gamma", "point", "result"),
    [
        ("prox_mcp", 4.0, 4.0, 4.0, 0.0),
        ("prox_mcp", 9.0, 4.0, 6.0, 0.0),
        ("prox_mcp", 9.0, 4.0, 6.0 + 1e-5, 6.0 + 1e-5),
        ("prox_scad", 3.0, 4.0, 4.0, 1.0),
        ("prox_scad", 4.0, 4.0, 4.5, 0.5),
        ("prox_scad", 4.0, 4.0, 4.5 + 1e-5, 4.5 + 1e-5),
        ("prox_scad", 5.0, 4.0, 5.0, 0.0),
        ("prox_scad", 20.0, 4.0, 10.0, 0.0),
    ],
)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_ties_go_to_the_shrunk_value(name, step, gamma, point, result, sign, dtype):
    got = getattr(kernels, name)(jnp.asarray(sign * point, dtype), step, 1.0, gamma)
    assert float(got) == pytest.approx(sign * result, abs=1e-6)


@pytest.mark.parametrize("name", ["prox_mcp", "prox_scad"])
def test_limits_of_the_plain_maps(name, x64):
    kernel, points = getattr(kernels, name), jnp.asarray(np.linspace(-6, 6, 49))
    np.testing.assert_array_equal(kernel(points, 0.0, 1.0, 3.0), points)
    np.testing.assert_allclose(
        kernel(points, 0.7, 1.0, 1e9), kernels.soft_threshold(points, 0.7), atol=1e-7
    )
    np.testing.assert_array_equal(
        kernels.prox_mcp(points, 0.7, 1.0, np.inf), kernels.soft_threshold(points, 0.7)
    )


def test_penalties_take_the_subgradient_zero_at_zero(dtype):
    zero = jnp.zeros((), dtype)
    assert jax.grad(kernels.mcp_value)(zero, 1.0, 3.0) == 0
    assert jax.grad(kernels.scad_value)(zero, 1.0, 3.0) == 0
