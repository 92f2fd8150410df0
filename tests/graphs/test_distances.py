"""Nodes that are alike: nearest neighbours, thresholds, and distances of Gaussians."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, strategies as st
from scipy.spatial.distance import cdist

from fedjax_admm import InputError
from fedjax_admm.graphs import (
    gaussian_wasserstein,
    gaussian_wasserstein_from_moments,
    nearest_neighbours,
    nearest_neighbours_of_points,
    threshold,
)


def edges_of(graph):
    """Return {(head, tail): weight}; the absent edges stand at the end."""
    heads, tails, weights = (np.asarray(leaf).tolist() for leaf in jax.tree.leaves(graph))
    number = int(np.count_nonzero(weights))
    assert set(zip(heads[number:], tails[number:], strict=True)) <= {(graph.num_nodes - 1,) * 2}
    found = dict(zip(zip(heads, tails, strict=True), weights, strict=True))
    return {pair: weight for pair, weight in found.items() if weight != 0}


def symmetric(entries, n):
    matrix = np.zeros((n, n), np.float32)
    matrix[np.triu_indices(n, 1)] = entries
    return matrix + matrix.T


def random_distances(n, seed=0):
    return symmetric(np.random.default_rng(seed).uniform(0.1, 3, n * (n - 1) // 2), n)


# --- nearest neighbours ---


def chosen_by_loops(distances, k):
    edges = set()
    for i, row in enumerate(distances):
        others = sorted((row[j], j) for j in range(len(row)) if j != i)
        edges |= {tuple(sorted((i, j))) for _, j in others[:k]}
    return edges


@pytest.mark.thorough
@pytest.mark.parametrize("k", [1, 2, 5])
@given(st.lists(st.integers(0, 3), min_size=15, max_size=15))
def test_neighbours_are_those_of_loops(k, entries):
    """Few different distances, so that ties abound: the smaller node is chosen."""
    distances = symmetric(entries, 6)
    wanted = {pair: np.exp(-distances[pair]) for pair in chosen_by_loops(distances, k)}
    graph = nearest_neighbours(distances, k)
    assert graph.num_edges == len(wanted)
    found = edges_of(graph)
    assert list(found) == sorted(wanted)
    np.testing.assert_allclose([found[p] for p in wanted], [*wanted.values()], rtol=1e-6)


@pytest.mark.thorough
def test_traced_distances_give_the_same_neighbours():
    several = np.stack([random_distances(8, seed) for seed in range(5)])
    mapped = jax.jit(jax.vmap(lambda distances: nearest_neighbours(distances, 3)))(several)
    assert mapped.num_edges == 24  # n k, fewer than all 28 pairs
    for i, distances in enumerate(several):
        graph = jax.tree.map(lambda leaf, i=i: leaf[i], mapped)
        alone = nearest_neighbours(distances, 3)
        found, wanted = edges_of(graph), edges_of(alone)
        assert list(found) == list(wanted)
        np.testing.assert_allclose([*found.values()], [*wanted.values()], rtol=1e-6)
    all_pairs = jax.eval_shape(lambda distances: nearest_neighbours(distances, 6), several[0])
    assert all_pairs.num_edges == 28
    assert nearest_neighbours(several[0], 3, max_edges=24).num_edges == 24


def test_weights_of_neighbours():
    distances = random_distances(5)
    pairs = chosen_by_loops(distances, 2)
    inverse = nearest_neighbours(distances, 2, weight=lambda d: 1 / d)
    for pair, weight in edges_of(inverse).items():
        assert weight == pytest.approx(1 / distances[pair])
    assert set(edges_of(nearest_neighbours(distances, 2, weight=lambda d: 1.0))) == pairs
    # A weight of 0 is no edge; one that is merely too small for the dtype is.
    near = nearest_neighbours(distances, 2, weight=lambda d: jnp.maximum(1.5 - d, 0))
    assert set(edges_of(near)) == {pair for pair in pairs if distances[pair] < 1.5}
    far = nearest_neighbours(1000 * distances, 2)
    assert set(edges_of(far)) == pairs
    assert set(edges_of(far).values()) == {float(np.finfo(np.float32).tiny)}


@pytest.mark.thorough
def test_the_diagonal_is_not_read():
    distances = random_distances(5)
    wanted = edges_of(nearest_neighbours(distances, 2))
    assert edges_of(nearest_neighbours(distances + 100 * np.eye(5), 2)) == wanted
    whole = np.array([[7, 1, 2], [1, 0, 3], [2, 3, 0]])
    assert set(edges_of(nearest_neighbours(whole, 1))) == {(0, 1), (0, 2)}


@pytest.mark.thorough
@pytest.mark.parametrize("dim", [1, 3])
def test_neighbours_of_points_are_those_of_their_distances(dim, dtype):
    points = np.random.default_rng(dim).standard_normal((9, dim))
    wanted = edges_of(nearest_neighbours(cdist(points, points).astype(dtype), 2))
    graph = nearest_neighbours_of_points(points.astype(dtype), 2)
    assert graph.weights.dtype == dtype
    found = edges_of(graph)
    assert list(found) == list(wanted)
    tolerance = 32 * float(jnp.finfo(dtype).eps)
    np.testing.assert_allclose([*found.values()], [*wanted.values()], rtol=tolerance)


@pytest.mark.thorough
def test_points_may_be_traced_and_coincide():
    points = np.array([[0.0, 0], [0, 0], [1, 1], [5, 5]], np.float32)
    drawn = jax.jit(lambda points: nearest_neighbours_of_points(points, 1))(points)
    assert edges_of(drawn) == edges_of(nearest_neighbours_of_points(points, 1))
    assert edges_of(drawn)[0, 1] == 1
    whole = nearest_neighbours_of_points([[0], [2], [3]], 1, weight=lambda d: d, max_edges=7)
    assert edges_of(whole) == {(0, 1): 2.0, (1, 2): 1.0}

    def energy(points):
        return jnp.sum(nearest_neighbours_of_points(points, 1).weights)

    gradient = jax.jit(jax.grad(energy))(jnp.asarray(points))
    assert np.all(np.isfinite(gradient))
    np.testing.assert_allclose(gradient.sum(0), 0, atol=1e-7)
    assert np.any(gradient != 0)


# --- thresholds ---


@given(st.lists(st.integers(1, 5), min_size=15, max_size=15), st.integers(1, 5))
def test_thresholds_are_those_of_loops(entries, limit):
    distances = symmetric(entries, 6)
    wanted = {
        (i, j): 1 / np.float32(distances[i, j])
        for i, j in itertools.combinations(range(6), 2)
        if distances[i, j] <= limit
    }
    graph = threshold(distances, limit)
    assert graph.num_edges == len(wanted)
    assert edges_of(graph) == wanted
    traced = _traced_threshold(distances, limit)
    assert traced.num_edges == 15
    assert edges_of(traced) == wanted


@jax.jit
def _traced_threshold(distances, limit):
    return threshold(distances, limit)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_a_sweep_over_limits():
    distances = random_distances(6).astype(np.float64)
    limits = jnp.array([0.2, 1.0, 2.0, 9.0])
    swept = jax.jit(jax.vmap(lambda limit: threshold(distances, limit)))(limits)
    assert swept.weights.dtype == jnp.float64
    for i, limit in enumerate(limits):
        assert edges_of(jax.tree.map(lambda leaf, i=i: leaf[i], swept)) == edges_of(
            threshold(distances, float(limit))
        )
    short = jax.jit(lambda limit: threshold(distances, limit, max_edges=14))
    assert np.all(np.isnan(short(9.0).weights))
    assert short(1.0).num_edges == 14


def test_distance_zero_inside_jit_gets_a_large_finite_weight(dtype):
    distances = jnp.asarray(symmetric([0, 1e-30, 1], 3), dtype)
    graph = jax.jit(threshold)(distances, 2.0)
    assert np.all(np.isfinite(graph.weights))
    assert np.all(np.isfinite(graph.weighted_degrees**2))
    assert float(graph.weights[0]) >= float(graph.weights[1]) > 1e12
    gradient = jax.jit(jax.grad(lambda d: jnp.sum(threshold(d, 2.0).weights)))(distances)
    assert np.all(np.isfinite(gradient))
    assert float(gradient[1, 2]) == -1


def test_a_wrong_distance_inside_jit_is_not_a_number():
    distances = random_distances(4)
    for wrong in (np.nan, np.inf):
        distances[0, 3] = distances[3, 0] = wrong
        for graph in (
            _traced_threshold(distances, 9.0),
            jax.jit(lambda distances: nearest_neighbours(distances, 1))(distances),
        ):
            assert np.all(np.isnan(graph.weights[np.asarray(graph.present)]))
            assert np.any(graph.present)


# --- distances of Gaussians ---


def by_scipy(means, covariances):
    """Return the matrix of squared distances, pair by pair, by the definition."""
    n = len(means)
    out = np.zeros((n, n))
    for i, j in itertools.product(range(n), repeat=2):
        root = scipy.linalg.sqrtm(covariances[i])
        common = scipy.linalg.sqrtm(root @ covariances[j] @ root)
        trace = np.trace(covariances[i] + covariances[j] - 2 * np.real(common))
        out[i, j] = np.sum((means[i] - means[j]) ** 2) + trace
    return out


def by_scipy_of_samples(samples):
    means = [np.mean(x, 0) for x in samples]
    return by_scipy(means, [np.atleast_2d(np.cov(x.T)) for x in samples])


def draw_samples(nodes, number, dim, seed=0):
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((nodes, dim, dim)) + 2 * np.eye(dim)
    return rng.standard_normal((nodes, number, dim)) @ factors + rng.standard_normal(
        (nodes, 1, dim)
    )


def assert_is_a_matrix_of_distances(found, dtype):
    found = np.asarray(found)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(np.diagonal(found), 0)
    assert np.all(found >= 0)


wasserstein = jax.jit(gaussian_wasserstein)


@pytest.mark.parametrize("dim", [1, 4])
def test_distances_are_those_of_scipy(dim, dtype):
    samples = draw_samples(6, 20, dim)
    wanted = by_scipy_of_samples(samples)
    tolerance = 2e-4 if dtype == np.float32 else 1e-11
    found = wasserstein(jnp.asarray(samples, dtype))
    assert_is_a_matrix_of_distances(found, dtype)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:Matrix is singular")  # scipy of a covariance of rank 1
def test_rows_after_the_counts_are_ignored():
    samples = draw_samples(5, 12, 3)
    counts = np.array([12, 5, 7, 2, 12])
    wanted = by_scipy_of_samples([x[:count] for x, count in zip(samples, counts, strict=True)])
    for i, count in enumerate(counts):
        samples[i, count:] = np.nan if i % 2 else 1e6
    for number in (counts, counts.tolist()):
        found = gaussian_wasserstein(samples, number)
        assert_is_a_matrix_of_distances(found, jnp.float32)
        # Node 3 has a covariance of rank 1.
        np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3)
    traced = wasserstein(jnp.asarray(samples), jnp.asarray(counts))
    np.testing.assert_allclose(traced, wanted, rtol=2e-3, atol=2e-3)


@pytest.mark.usefixtures("x64")
def test_closed_forms():
    rng = np.random.default_rng(1)
    # Commuting covariances: the distance of the roots of the eigenvalues.
    basis = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    spectra, means = rng.uniform(0.1, 3, (7, 4)), rng.standard_normal((7, 4))
    covariances = np.einsum("ab,nb,cb->nac", basis, spectra, basis)
    covariances = (covariances + covariances.swapaxes(1, 2)) / 2
    wanted = cdist(means, means) ** 2 + cdist(np.sqrt(spectra), np.sqrt(spectra)) ** 2
    found = gaussian_wasserstein_from_moments(means, covariances)
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    # Points without any spread: the distance of the means.
    found = gaussian_wasserstein_from_moments(means, np.zeros((7, 4, 4)))
    np.testing.assert_allclose(found, cdist(means, means) ** 2, atol=1e-12)
    # A line and a line across it share nothing.
    lines = np.stack([(i + 1.0) * np.diag(np.arange(4) == i % 4) for i in range(7)])
    found = gaussian_wasserstein_from_moments(np.zeros((7, 4)), lines)
    assert float(found[0, 1]) == pytest.approx(1 + 2)
    assert float(found[1, 5]) == pytest.approx((np.sqrt(2) - np.sqrt(6)) ** 2)


@pytest.mark.thorough
def test_batches_on_every_device_come_to_an_end():
    mesh = jax.make_mesh((2,), ("trials",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("trials")
    samples = np.stack([draw_samples(6, 8, 3, seed) for seed in range(8)]).astype(np.float32)
    sharded = jax.jit(
        jax.shard_map(
            lambda part: jax.lax.map(gaussian_wasserstein, part, batch_size=2),
            mesh=mesh,
            in_specs=spec,
            out_specs=spec,
            check_vma=False,
        )
    )
    for _ in range(20):
        found = jax.block_until_ready(sharded(samples))
    assert found.sharding.num_devices == 2
    for one, matrix in zip(samples, found, strict=True):
        np.testing.assert_allclose(matrix, by_scipy_of_samples(one), rtol=1e-3, atol=1e-3)


# --- mistakes ---

SQUARE = [[0, 1, 2], [1, 0, 3], [2, 3, 0]]


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (
            lambda: nearest_neighbours([[0, 1], [2, 0]], 1),
            "distances must be symmetric, but entry (0, 1) is 1.",
        ),
        (
            lambda: threshold([[0, -1], [-1, 0]], 1),
            "distances must not be negative, but entry (0, 1) is -1.",
        ),
        (lambda: nearest_neighbours(SQUARE, 3), "k must be at most 2, but it is 3."),
        (
            lambda: nearest_neighbours(SQUARE, 1, weight=lambda d: 1 - d),
            "weight(distances) must not be negative, but entry (0, 2) is -1.",
        ),
        (
            lambda: nearest_neighbours([[0, 0], [0, 0]], 1, weight=lambda d: 1 / d),
            "weight(distances) must be finite, but entry (0, 1) is inf; remove or repair that "
            "entry.",
        ),
        (
            lambda: threshold([[0, 1, 2], [1, 0, 0], [2, 0, 0]], 1),
            "distances must be positive between different nodes, but entry (1, 2) is "
            "0; make nodes at distance 0 one.",
        ),
        (lambda: threshold(SQUARE, 0), "limit must be greater than 0, but it is 0."),
        (
            lambda: gaussian_wasserstein(np.zeros((3, 4))),
            "samples must have shape (any, any, any), but it has (3, 4).",
        ),
        (
            lambda: gaussian_wasserstein(np.zeros((3, 1, 2))),
            "counts must be from 2 to 1, but entry 0 is 1.",
        ),
        (
            lambda: gaussian_wasserstein(np.zeros((3, 4, 2)), [4, 1, 4]),
            "counts must be from 2 to 4, but entry 1 is 1.",
        ),
        (
            lambda: gaussian_wasserstein(np.zeros((2, 4, 2)), [4.0, 4.0]),
            "counts must be whole numbers, but it is [4.0, 4.0].",
        ),
        (
            lambda: gaussian_wasserstein_from_moments(
                np.zeros((2, 2)), [np.eye(2), [[1, 0.5], [0, 1]]]
            ),
            "covariances must be symmetric, but entry 1 is [[1. , 0.5], [0. , 1. ]]; "
            "give (S + S.T) / 2.",
        ),
    ],
)
def test_mistakes_get_a_sentence(build, sentence):
    with pytest.raises(InputError) as caught:
        build()
    assert str(caught.value) == sentence
