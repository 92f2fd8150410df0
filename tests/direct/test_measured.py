"""The central reference of ranges with offsets, clocks and paths, against other minimisers."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import fedjax_admm as fa

pytestmark = pytest.mark.usefixtures("x64")

CASES = {
    "gaps, sigmas and several ranges": {},
    "blocked paths": {"offset_scale": 3.0, "offset_bounds": (0.0, np.inf)},
    "clock": {"clock": True},
    "path": {"path": True, "offset_scale": 1.0},
}


def drawn(seed, **options):
    random = np.random.default_rng(seed)
    times = 3 if options.get("path") else 1
    anchors = random.uniform(-25, 25, (6, 2))
    target = random.uniform(-10, 10, (1, 2)) + np.arange(times)[:, None] * [2.0, 1.0]
    offset = random.uniform(0, 2, 6)
    exact = np.linalg.norm(target[None] - anchors[:, None], axis=-1) + offset[:, None]
    distances = exact[..., None] + 0.3 * random.standard_normal((6, times, 2))
    distances[random.random(distances.shape) < 0.2] = np.nan
    distances = distances if options.get("path") else distances[:, 0]
    sigma = random.uniform(0.5, 1.5, 6)
    return fa.problems.localization(anchors, distances, sigma=sigma, **options)


def loss(problem, model):
    """Return the sum of the losses, by a loop and the weighted median of every offset."""
    rows = np.asarray(model).reshape(-1, problem.columns)
    total = 0.0
    for anchor in range(problem.num_clients):
        length = np.linalg.norm(rows[:, :2] - np.asarray(problem.anchors[anchor]), axis=1)
        length += rows[:, 2] if problem.columns > 2 else 0
        gaps = (length[:, None] - np.asarray(problem.ranges[anchor])).ravel()
        weights = np.asarray(problem.weights[anchor]).ravel()
        if problem.offsets is None:
            total += np.sum(weights * np.abs(gaps))
            continue
        prior = {
            name: float(getattr(problem.offsets, name)[anchor])
            for name in ("centre", "precision", "lower", "upper")
        }
        # Convex in the offset: the best of its knots and of the stationary points between them.
        knots = np.sort(-gaps[weights > 0])
        middles = np.concatenate([[-1e3], (knots[1:] + knots[:-1]) / 2, [1e3]])
        slopes = [np.sum(weights * np.sign(gaps + b)) for b in middles]
        still = [prior["centre"] - slope / prior["precision"] for slope in slopes]
        tried = np.clip([*knots, *still], prior["lower"], prior["upper"])
        costs = np.abs(gaps + tried[:, None]) @ weights
        total += np.min(costs + prior["precision"] * (tried - prior["centre"]) ** 2 / 2)
    return total


@pytest.mark.thorough
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case, marks=[pytest.mark.thorough] if case in ("path", "clock", "blocked paths") else []
        )
        for case in CASES
    ],
)
def test_no_other_minimiser_finds_less(case):
    problem = drawn(3, **CASES[case])
    found = np.asarray(jax.jit(fa.direct.locate_centrally)(problem))
    cost = partial(loss, jax.tree.map(np.asarray, problem))
    value = cost(found)
    tiled = jnp.tile(found, (problem.num_clients, 1))
    np.testing.assert_allclose(value, jnp.sum(problem.values(tiled)), rtol=1e-9)
    best = value
    for start in (found, np.asarray(problem.start)):
        for _ in range(2):  # a simplex may collapse at a kink
            options = {"xatol": 1e-8, "fatol": 1e-10, "maxiter": 400}
            outcome = minimize(cost, start, method="Nelder-Mead", options=options)
            start = outcome.x
        best = min(best, outcome.fun)
    assert value < best + 1e-3 * (1 + best)
    if len(found) == 2:
        axis = np.linspace(-33, 33, 23)
        grid = min(cost(np.array([x, y])) for x in axis for y in axis)
        assert value <= grid


def test_both_references_agree_on_plain_ranges():
    """Without options both references minimise the same sum."""
    random = np.random.default_rng(1)
    anchors = random.uniform(-25, 25, (8, 2))
    distances = np.linalg.norm(anchors - [4.0, -7.0], axis=1) + 0.4 * random.standard_normal(8)
    plain = fa.problems.localization(anchors, distances)
    same = fa.problems.localization(anchors, distances, sigma=1.0)
    np.testing.assert_allclose(
        fa.direct.locate_centrally(same), fa.direct.locate_centrally(plain), atol=1e-4
    )
