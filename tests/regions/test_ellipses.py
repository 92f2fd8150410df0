"""Elliptical regions: quantiles, axes, coverage and pictures."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

import fedjax_admm as fa
from fedjax_admm import regions


@pytest.mark.kin(3)
@pytest.mark.parametrize("level", [0.05, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.usefixtures("x64")
def test_thresholds_are_quantiles(level, dim):
    known = regions.ellipse(np.zeros(dim), np.eye(dim), level)
    np.testing.assert_allclose(known.threshold, stats.chi2.ppf(level, dim), rtol=1e-9)
    few = regions.ellipse(np.zeros(dim), np.eye(dim), level, degrees=3.5)
    np.testing.assert_allclose(few.threshold, dim * stats.f.ppf(level, dim, 3.5), rtol=1e-7)


def test_axes_end_on_the_boundary():
    matrix = np.array([[[4.0, 1.0], [1.0, 2.0]], [[1.0, 0.0], [0.0, 9.0]]], np.float32)
    centre = np.array([[1.0, -1.0], [3.0, 0.0]], np.float32)
    region = regions.ellipse(centre, matrix, 0.9)
    lengths, directions = region.axes()
    assert np.all(lengths[:, 0] > lengths[:, 1])
    for axis in range(2):
        end = centre + lengths[:, axis, None] * directions[..., axis]
        np.testing.assert_allclose(region.scores(end) ** 2, region.threshold, rtol=1e-4)
        assert np.all(region.contains(centre + 0.99 * (end - centre)))
        assert not np.any(region.contains(centre + 1.01 * (end - centre)))
    area = np.sqrt(np.linalg.det(matrix)) * np.asarray(region.threshold)
    np.testing.assert_allclose(region.radius() ** 2, area, rtol=1e-4)


def test_coverage_is_the_share_of_times_inside():
    problem = fa.problems.localization(
        np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]]),
        np.full((3, 2), 5.0),
        path=True,
        target=np.array([[0.0, 0.5], [7.0, 0.0]]),
    )
    region = regions.ellipse(np.zeros((2, 2)), np.stack([np.eye(2)] * 2), 0.5)
    found = jax.jit(fa.measures.region_coverage)(problem, region)
    np.testing.assert_allclose(found["covered"], 0.5)
    np.testing.assert_allclose(found["radius"], np.sqrt(2 * np.log(2)), rtol=1e-5)


def test_pictures_are_the_shadows_of_ellipsoids():
    matrix = np.diag([4.0, 1.0, 25.0])
    region = regions.ellipse(np.array([5.0, 6.0, 7.0]), matrix, 0.9)
    axes = region.plot(axes=Figure().add_subplot(), edgecolors="red")
    (drawn,) = axes.collections
    half = 2 * np.sqrt(float(region.threshold))
    np.testing.assert_allclose(drawn.get_widths(), 2 * half, rtol=1e-5)
    np.testing.assert_allclose(drawn.get_heights(), half, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(drawn.get_angles()) % 180, 0, atol=1e-4)
    assert axes.get_xlim()[0] < 5 - half
    assert axes.get_xlim()[1] > 5 + half


def test_a_level_is_a_probability():
    with pytest.raises(fa.InputError, match="level"):
        regions.ellipse(jnp.zeros(2), jnp.eye(2), 90)
