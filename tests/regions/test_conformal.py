"""Conformal radii: counts, the quantile, and coverage in finite samples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import regions


def test_the_radius_is_an_order_statistic_rounded_up():
    generator = np.random.default_rng(0)
    scores = generator.uniform(0, 9, (3, 11)).astype(np.float32)
    scores[1, 6:] = np.nan
    edges = np.linspace(0.5, 12, 24).astype(np.float32)
    counts = jax.jit(regions.conformal_counts)(scores, edges)
    assert counts.dtype == jnp.int32
    np.testing.assert_array_equal(np.sum(counts, 1), [11, 6, 11])
    every = np.sort(scores[~np.isnan(scores)])
    for level in (0.3, 0.5, 0.9):
        place = int(np.ceil(level * (len(every) + 3)))
        expected = edges[np.searchsorted(edges, every[place - 1])]
        assert regions.conformal_radius(counts, edges, level) == expected
    assert regions.conformal_radius(counts, edges, 0.99) == np.inf  # more than 28 scores
    assert regions.conformal_radius(counts, edges, 28 / 31) < np.inf


def test_scores_on_an_edge_and_above_all():
    counts = regions.conformal_counts(np.array([1.0, 2.0, 9.0]), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(counts, [1, 1, 1])


@pytest.mark.thorough
@pytest.mark.parametrize(
    "level", [0.9, *(pytest.param(level, marks=pytest.mark.thorough) for level in (0.5, 0.95))]
)
def test_coverage_of_unlike_clients(level):
    """A new score of client k with probability (n_k + 1) / (N + K): within 2 points."""
    sizes, scales = jnp.array([10, 40, 70]), jnp.array([3.0, 1.0, 0.5])
    total = int(jnp.sum(sizes)) + 3
    edges = jnp.linspace(0.02, 30, 1500)

    def trial(key):
        keys = jax.random.split(key, 3)
        scores = scales[:, None] * jnp.abs(jax.random.normal(keys[0], (3, 70)))
        scores = jnp.where(jnp.arange(70)[None] < sizes[:, None], scores, jnp.nan)
        radius = regions.conformal_radius(regions.conformal_counts(scores, edges), edges, level)
        client = jax.random.choice(keys[1], 3, p=(sizes + 1) / total)
        return scales[client] * jnp.abs(jax.random.normal(keys[2])) <= radius

    covered = jax.jit(jax.vmap(trial))(jax.random.split(jax.random.key(0), 4000))
    assert level - 0.02 < np.mean(covered) < level + 3 / total + 0.02


def test_counts_belong_to_their_edges():
    with pytest.raises(
        fa.InputError, match=r"counts must have shape \(any, 4\), but it has \(2, 3\)\."
    ):
        regions.conformal_radius(np.zeros((2, 3), np.int32), np.array([1.0, 2.0, 3.0]))
    with pytest.raises(fa.InputError, match=r"edges must increase, but it is \[1\.0, 1\.0\]\."):
        regions.conformal_counts(np.zeros(3), np.array([1.0, 1.0]))
