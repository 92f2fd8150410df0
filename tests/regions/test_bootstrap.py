"""Replicates against linear theory, with gaps, offsets and paths."""

import jax
import numpy as np
import pytest

import fedjax_admm as fa
from tests.regions.drawn import BOOTSTRAP, COVARIANCE, REFINE, drawn, prior_of, terms_of

pytestmark = pytest.mark.usefixtures("x64")
SQUARED = fa.losses.squared()
KEY = jax.random.key(0)


@pytest.mark.thorough
def test_replicates_of_residuals_have_the_covariance_of_the_fit():
    problem, target = drawn(clients=12, times=1, ranges=3)
    fit = REFINE(problem, target, SQUARED)
    found = BOOTSTRAP(problem, fit, KEY, SQUARED, replicates=1500, kind="residual", steps=5)
    known = COVARIANCE(problem, fit, SQUARED, kind="information").position
    spread = np.cov(np.asarray(found.positions).T)
    np.testing.assert_allclose(spread, known, rtol=0, atol=0.15 * np.trace(known))
    region = found.ellipse(0.9)
    np.testing.assert_allclose(np.mean(region.contains(found.positions)), 0.9, atol=0.002)
    low, high = found.intervals(0.9)
    places = np.asarray(found.positions)
    inside = (places >= np.asarray(low)) & (places <= np.asarray(high))
    np.testing.assert_allclose(np.mean(inside, 0), 0.9, atol=0.002)


@pytest.mark.thorough
def test_a_given_noise_and_the_prior_of_offsets_set_the_scale():
    """The replicates have `H^{-1} (J^T W^2 V J + P) H^{-1}`, V the variance of the noise."""
    problem, target = drawn(clients=12, times=1, ranges=3, offset_scale=0.05)
    fit = REFINE(problem, target, SQUARED)
    found = BOOTSTRAP(
        problem,
        fit,
        KEY,
        SQUARED,
        replicates=1500,
        noise=fa.problems.gaussian_noise(0.01),
        steps=5,
    )
    jacobian, weights = [], []
    for anchor, _, _, weight in terms_of(problem):
        gap = np.asarray(fit.position) - np.asarray(problem.anchors[anchor])
        jacobian.append([*gap / np.linalg.norm(gap), *np.eye(12)[anchor]])
        weights.append(weight)
    jacobian, weights = np.array(jacobian), np.array(weights)[:, None]
    prior = np.diag([0, 0, *prior_of(problem)[1]])
    inverse = np.linalg.inv(jacobian.T @ (weights**2 * jacobian) + prior)
    middle = 1e-4 * jacobian.T @ (weights**4 * jacobian) + prior
    expected = (inverse @ middle @ inverse)[:2, :2]
    spread = np.cov(np.asarray(found.positions).T)
    np.testing.assert_allclose(spread, expected, rtol=0, atol=0.15 * np.trace(expected))


def test_exact_ranges_of_a_path_have_no_spread():
    anchors = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0], [20.0, 20.0]])
    target = np.array([[3.0, 4.0], [5.0, 6.0], [8.0, 9.0]])
    exact = np.linalg.norm(target[None] - anchors[:, None], axis=-1)
    exact[2, 1] = np.nan
    problem = fa.problems.localization(anchors, exact, path=True)
    fit = REFINE(problem, target)
    found = BOOTSTRAP(problem, fit, KEY, replicates=5)
    assert found.positions.shape == (5, 3, 2)
    np.testing.assert_allclose(found.positions, np.stack([target] * 5), atol=1e-7)
    assert found.ellipse().centre.shape == (3, 2)
