"""What the rows of the table do not tell of the oldest elementwise kernels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm.kernels import (
    mcp_value,
    prox_smoothed_abs,
    scad_value,
    smoothed_abs,
    soft_threshold,
)
from tests.reference import kernels as reference

GRID = np.unique([*np.linspace(-9, 9, 61), 0.0, 1.0, -1.0, 3.0, -3.0, np.nextafter(3.0, 9.0)])


@pytest.mark.parametrize(
    ("value", "twin"), [(mcp_value, reference.mcp), (scad_value, reference.scad)]
)
def test_folded_concave_values_equal_their_twins(value, twin, x64):
    np.testing.assert_allclose(value(jnp.asarray(GRID), 1.0, 3.0), twin(GRID, 1.0, 3.0), rtol=1e-12)


@pytest.mark.thorough
def test_smoothed_abs_lies_above_by_half_mu_at_most(dtype):
    points = jnp.asarray(np.linspace(-3, 3, 61), dtype)
    for mu in (1e-30, 1e-3, 0.5, 2.0):
        excess = smoothed_abs(points, mu) - jnp.abs(points)
        assert jnp.min(excess) >= -1e-6
        assert jnp.max(excess) <= 0.5 * mu * (1 + 1e-6)
        slope = jax.vmap(jax.grad(smoothed_abs), (0, None))(points, mu)
        np.testing.assert_allclose(slope, np.clip(points / mu, -1, 1), atol=1e-6)


def test_smoothed_abs_map_tends_to_the_soft_threshold(x64):
    points = jnp.asarray(np.linspace(-3, 3, 61))
    np.testing.assert_allclose(
        prox_smoothed_abs(points, 0.7, 1.0, 1e-13), soft_threshold(points, 0.7), atol=1e-12
    )
