"""Profile regions: modes, and offsets that are minimised out."""

import jax
import numpy as np
import pytest
from scipy.optimize import minimize

import fedjax_admm as fa
from fedjax_admm import regions
from tests.regions.drawn import REFINE, prior_of, terms_of

pytestmark = pytest.mark.usefixtures("x64")
LINE = np.array([[-10.0, 0.0], [0.0, 0.0], [10.0, 0.0], [5.0, 0.0], [-5.0, 0.0]])
AXES = (np.linspace(-8, 8, 33), np.linspace(-12, 12, 49))
PROFILE = jax.jit(regions.profile)


def ranged(anchors, target, seed=0, **options):
    generator = np.random.default_rng(seed)
    distances = np.linalg.norm(anchors - target, axis=1) + generator.normal(0, 0.4, len(anchors))
    return fa.problems.localization(anchors, distances, **options)


def test_a_mirror_image_is_a_second_mode():
    target = np.array([2.0, 6.0])
    problem = ranged(LINE, target, start=target)
    fit = REFINE(problem, target)
    region = PROFILE(problem, fit, AXES)
    assert region.modes() == 2
    mirror = fit.position * np.array([1.0, -1.0])
    assert region.contains(fit.position)
    assert region.contains(mirror)
    np.testing.assert_array_equal(region.contains(np.array([[2.0, 0.0], [2.0, 99.0]])), False)
    beside = np.vstack([LINE, [[0.0, 9.0], [1.0, -9.0]]])
    problem = ranged(beside, target)
    region = PROFILE(problem, REFINE(problem, target), AXES)
    assert region.modes() == 1
    assert np.all((region.labels >= 0) == region.inside)


@pytest.mark.thorough
def test_offsets_are_minimised_out():
    anchors = np.array([[-9.0, 1.0], [8.0, 7.0], [2.0, -9.0], [7.0, -6.0]])
    problem = ranged(anchors, np.array([1.0, 1.0]), offset_scale=0.5, offset_bounds=(0.0, 2.0))
    fit = REFINE(problem, problem.start)
    axes = (np.array([0.0, 3.0]), np.array([-1.0, 2.0]))
    region = PROFILE(problem, fit, axes)
    centre, precision = prior_of(problem)

    def least(place):
        def objective(offsets):
            total = np.sum(precision * (offsets - centre) ** 2) / 2
            for anchor, _, distance, weight in terms_of(problem):
                radius = np.linalg.norm(place - anchors[anchor])
                z = weight * (radius + offsets[anchor] - distance)
                total += np.sqrt(1 + z**2) - 1
            return total

        return minimize(objective, np.full(4, 0.5), bounds=[(0, 2)] * 4, tol=1e-14).fun

    costs = np.array([[least(np.array([x, y])) for y in axes[1]] for x in axes[0]])
    differences, excess = costs - costs[0, 0], np.asarray(region.excess)
    excess = excess - excess[0, 0]
    np.testing.assert_allclose(
        excess / excess[1, 1], differences / differences[1, 1], rtol=0, atol=1e-5
    )


def test_a_path_is_refused():
    anchors = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    problem = fa.problems.localization(anchors, np.full((3, 2), 5.0), path=True)
    fit = REFINE(problem, problem.start)
    with pytest.raises(fa.InputError, match="a path of 2"):
        regions.profile(problem, fit, AXES)
    one = fa.problems.localization(anchors, np.full(3, 5.0), sigma=1.0)
    with pytest.raises(fa.InputError, match="2 dimensions"):
        regions.profile(one, REFINE(one, one.start), AXES[:1])
