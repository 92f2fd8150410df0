"""Robust regression: padding, weights and gradients, and clients drawn in clusters."""

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import trees
from fedjax_admm.problems import clusters_of_clients
from tests.reference import hfsad as reference

LENGTHS = (3, 1, 7, 4)
DIM = 3


def ragged(seed=0):
    """Samples, targets and weights (some of them zero) of clients with different numbers."""
    rng = np.random.default_rng(seed)
    features = [rng.normal(size=(n, DIM)) for n in LENGTHS]
    targets = [rng.normal(size=n) for n in LENGTHS]
    weights = [rng.integers(0, 3, n) + (np.arange(n) == 0) * 0.5 for n in LENGTHS]
    return features, targets, weights


def problem_of(data, **options):
    features, targets, weights = data
    return fa.problems.robust_regression(features, targets, weights=weights, **options)


def points_of(seed=1):
    return np.random.default_rng(seed).normal(size=(len(LENGTHS), DIM))


# --- what is built ---


def test_defaults(dtype):
    problem = fa.problems.robust_regression([[[1, 2], [3, 4]], [[5, 6]]], [[1, 2], [3]])
    assert problem.num_clients == 2
    assert problem.dim == 2
    assert problem.tree.level_sizes == (1,)
    assert problem.truth is None
    np.testing.assert_array_equal(problem.features, [[[1, 3], [2, 4]], [[5, 0], [6, 0]]])
    np.testing.assert_array_equal(problem.targets, [[1, 2], [3, 0]])
    np.testing.assert_array_equal(problem.weights, [[1, 1], [1, 0]])
    np.testing.assert_array_equal(problem.start, [0, 0])
    np.testing.assert_array_equal(problem.project(problem.features), problem.features)
    leaves = (problem.features, problem.targets, problem.weights, problem.start)
    assert {leaf.dtype for leaf in leaves} == {dtype}


def test_results_keep_the_dtype(x64):
    """Float32 features in a session with float64: strict promotion refuses any mixture."""
    features = [np.ones((2, 3), np.float32), np.ones((4, 3), np.float32)]
    targets, weights = [np.ones(2), np.ones(4)], [[1, 0], [True, True, True, False]]
    options = {"start": [0, 1, 2], "truth": np.ones((2, 3))}
    problem = fa.problems.robust_regression(features, targets, weights=weights, **options)
    found = jax.eval_shape(
        lambda problem: {
            "start": problem.start,
            "truth": problem.truth,
            "values": problem.values(problem.truth),
            "gradients": problem.gradients(problem.truth),
            "smoothed_gradients": problem.smoothed_gradients(problem.truth, problem.targets[:, 0]),
            "curvature": problem.curvature(),
        },
        problem,
    )
    assert {part.dtype for part in found.values()} == {jnp.dtype("float32")}
    assert found["values"].shape == found["curvature"].shape == (2,)
    assert found["gradients"].shape == found["smoothed_gradients"].shape == (2, 3)


def build(features=None, targets=None, *args, **options):
    features = [np.ones((2, 3)), np.ones((4, 3))] if features is None else features
    targets = [np.ones(2), np.ones(4)] if targets is None else targets
    return fa.problems.robust_regression(features, targets, *args, **options)


def draw(samples=5, **options):
    return fa.problems.draw_robust_regression(jax.random.key(0), samples, **options)


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    [
        (
            lambda: build(None, None, trees.star(3)),
            "tree must have one leaf per client of the data (2), but it has 3.",
        ),
        (
            lambda: build([np.ones((2, 3)), np.ones((0, 3))], [np.ones(2), np.ones(0)]),
            "features[1] must hold at least one sample and one column, but its shape is (0, 3); "
            "leave that client out.",
        ),
        (
            lambda: build(weights=[[0, 0], np.ones(4)]),
            "weights must hold a positive weight of every client, but client 0 has "
            "none; leave that client out.",
        ),
        (
            lambda: build(weights=[np.ones(2), [1, 0, -1, 2]]),
            "weights must be at least 0, but it is [[ 1., 1., 0., 0.], [ 1., 0., -1., 2.]].",
        ),
        (lambda: draw(5, most_samples=4), "samples must be at most 4, but it is 5."),
    ],
)
def test_mistakes_get_a_sentence(mistake, sentence):
    with pytest.raises(fa.InputError) as caught:
        mistake()
    assert str(caught.value) == sentence


# --- what a problem offers ---


def test_padding_and_weights_against_the_reference(x64):
    data = ragged()
    problem, points = problem_of(data), points_of()
    assert problem.features.shape == (4, DIM, 7)
    values = [reference.regression_loss(w, *one) for w, *one in zip(points, *data, strict=True)]
    np.testing.assert_allclose(problem.values(points), values, rtol=1e-12)
    for mu in (np.full(4, 1e-9), np.array([0.1, 1.0, 10.0, 1e-3]), np.full(4, 100.0)):
        gradients = [
            reference.regression_gradient(w, *one)
            for w, *one in zip(points, *data, mu, strict=True)
        ]
        found = problem.smoothed_gradients(points, mu)
        np.testing.assert_allclose(found, gradients, rtol=1e-12, atol=1e-15)
    model = points[0]
    total = sum(reference.regression_loss(model, *one) for one in zip(*data, strict=True))
    found = fa.measures.total_loss(problem, jnp.asarray(model))
    assert float(found) == pytest.approx(total, rel=1e-12)


def test_gradients_against_finite_differences(x64):
    data, points = ragged(), points_of()
    problem = problem_of(data)
    mu = np.array([0.1, 1.0, 10.0, 0.5])

    def smoothed(points):
        values = []
        for w, a, t, c, m in zip(points, *data, mu, strict=True):
            moduli = [reference.smoothed_abs(float(r), m) for r in t - a @ w]
            values.append(c @ np.array(moduli) / c.sum())
        return np.array(values)

    def by_differences(function):
        size, found = 1e-6, np.empty((4, DIM))
        for axis in range(DIM):
            step = size * np.eye(DIM)[axis]
            ends = [np.asarray(function(points + side * step)) for side in (1, -1)]
            found[:, axis] = (ends[0] - ends[1]) / (2 * size)
        return found

    smooth = problem.smoothed_gradients(points, mu)
    np.testing.assert_allclose(smooth, by_differences(smoothed), rtol=1e-6, atol=1e-8)
    sharp = problem.gradients(points)
    np.testing.assert_allclose(sharp, by_differences(problem.values), rtol=1e-6, atol=1e-8)
    copies = jnp.broadcast_to(jnp.asarray(points[0]), (4, DIM))
    slopes = jax.grad(lambda points: jnp.sum(problem.values(points)))(copies)
    np.testing.assert_allclose(problem.gradients(copies), slopes, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        problem.smoothed_gradients(points, np.full(4, 1e-12)), sharp, rtol=1e-12, atol=1e-14
    )


def test_the_gradient_is_zero_at_the_kinks():
    problem = fa.problems.robust_regression([[[2.0, 1.0]], [[1.0, 1.0]]], [[4.0], [3.0]])
    exact = jnp.array([[1.0, 2.0], [3.0, 0.0]])
    np.testing.assert_array_equal(problem.values(exact), [0, 0])
    np.testing.assert_array_equal(problem.gradients(exact), np.zeros((2, 2)))
    found = problem.smoothed_gradients(exact, jnp.ones(2))
    np.testing.assert_array_equal(found, np.zeros((2, 2)))


def test_curvature_is_the_least_bound_of_the_change_of_gradients(x64):
    data = ragged()
    problem = problem_of(data)
    curvature = np.asarray(problem.curvature())
    rows = zip(data[0], data[2], strict=True)
    moments = [(a.T * c) @ a / c.sum() for a, c in rows]
    np.testing.assert_allclose(curvature, [np.linalg.eigvalsh(m)[-1] for m in moments], rtol=1e-12)

    rng = np.random.default_rng(3)
    gradients = jax.jit(problem.smoothed_gradients)
    for mu in (0.1, 1.0, 10.0):
        for scale in (0.01, 1.0):
            first = rng.normal(size=(4, DIM))
            second = first + scale * rng.normal(size=(4, DIM))
            change = gradients(first, np.full(4, mu)) - gradients(second, np.full(4, mu))
            ratio = np.linalg.norm(change, axis=1) / np.linalg.norm(first - second, axis=1)
            assert np.all(ratio <= curvature / mu * (1 + 1e-12))
    # With much smoothing every residual is in the parabola, and the bound is reached.
    top = np.stack([np.linalg.eigh(moment)[1][:, -1] for moment in moments])
    change = gradients(first + top, np.full(4, 1e3)) - gradients(first, np.full(4, 1e3))
    np.testing.assert_allclose(np.linalg.norm(change, axis=1), curvature / 1e3, rtol=1e-10)


# --- what is drawn ---

# samples, difference, noise, outliers
BASE = (80.0, 2.0, 0.5, 0.1)
CHANGES = {
    "base": BASE,
    "few samples": (5.0, *BASE[1:]),
    "one sample": (1.0, *BASE[1:]),
    "no difference": (80.0, 0.0, 0.5, 0.1),
    "large difference": (80.0, 7.0, 0.5, 0.1),
    "no noise": (80.0, 2.0, 0.0, 0.1),
    "no outlier": (80.0, 2.0, 0.5, 0.0),
    "more outliers": (80.0, 2.0, 0.5, 0.4),
    "outliers only": (80.0, 2.0, 0.5, 1.0),
}
CLUSTERS = np.repeat([0, 1, 0, 1, 0, 1, 1, 2, 2, 0], [8, 2] * 5)
"""Of servers 0, 0, 0, 1 and 2, with eight clients of their own and two strangers each."""


@pytest.fixture(scope="module")
def drawn():
    """Problems with one key that differ in one number: all numbers but sizes can be mapped."""

    def one(key, samples, difference, noise, outliers):
        return fa.problems.draw_robust_regression(
            key, samples, difference=difference, noise=noise, outliers=outliers
        )

    with jax.enable_x64(True):
        numbers = [jnp.array(column) for column in zip(*CHANGES.values(), strict=True)]
        batched = jax.jit(jax.vmap(one, (None, 0, 0, 0, 0)))
        problems = jax.tree.map(np.asarray, batched(jax.random.key(4), *numbers))
    names = ("features", "targets", "weights", "truth", "start")
    return {
        change: SimpleNamespace(**{name: getattr(problems, name)[i] for name in names})
        for i, change in enumerate(CHANGES)
    }


def test_shapes_dtypes_and_tree(dtype):
    problem = jax.eval_shape(
        partial(fa.problems.draw_robust_regression, samples=20), jax.random.key(0)
    )
    assert problem.features.shape == (50, 10, 80)
    assert problem.targets.shape == problem.weights.shape == (50, 80)
    assert problem.truth.shape == (50, 10)
    assert problem.start.shape == (10,)
    leaves = (problem.features, problem.targets, problem.weights, problem.truth, problem.start)
    assert {leaf.dtype for leaf in leaves} == {dtype}
    assert problem.tree.level_sizes == (1, 5)
    assert problem.tree.num_clients == 50


def test_more_samples_only_add_to_those_that_were_there(drawn):
    for change, samples in (("base", 80), ("few samples", 5), ("one sample", 1)):
        present = np.broadcast_to(np.arange(80) < samples, (50, 80))
        np.testing.assert_array_equal(drawn[change].weights, present)
        for name in ("features", "targets", "truth"):
            np.testing.assert_array_equal(
                getattr(drawn[change], name), getattr(drawn["base"], name)
            )


def test_clusters_and_strangers_are_where_they_should_be(drawn):
    assert clusters_of_clients((0, 0, 0, 1, 2), 10, 2).tolist() == CLUSTERS.tolist()
    truth = drawn["base"].truth
    same = np.all(truth[:, None] == truth[None], -1)
    np.testing.assert_array_equal(same, CLUSTERS[:, None] == CLUSTERS[None])
    common = drawn["no difference"].truth
    np.testing.assert_array_equal(common, np.broadcast_to(common[:1], (50, 10)))


def test_a_cluster_differs_in_a_fixed_number_of_entries(drawn):
    common = drawn["no difference"].truth
    for change, difference in (("base", 2), ("large difference", 7)):
        moved = drawn[change].truth - common
        np.testing.assert_array_equal(np.sum(moved != 0, 1), 3)
        sizes = np.abs(moved[moved != 0])
        np.testing.assert_allclose(sizes, difference, rtol=1e-12)
    assert np.min(moved) < 0 < np.max(moved)
    entries = [tuple(np.flatnonzero(moved[cluster == CLUSTERS][0])) for cluster in range(3)]
    assert len(set(entries)) == 3  # each has its own


@pytest.mark.parametrize(
    ("servers", "per_server", "strangers", "wanted"),
    [
        ((0,), 3, 2, [0, 0, 0]),  # there is no other cluster
        ((0, 1), 2, 0, [0, 0, 1, 1]),
        ((0, 1), 2, 2, [1, 1, 0, 0]),
        ((2, 0), 2, 1, [2, 0, 0, 1]),  # cluster 1 has strangers only
        (np.array([1, 1]), np.int64(1), 0, [1, 1]),
    ],
)
def test_who_is_of_which_cluster(servers, per_server, strangers, wanted):
    assert clusters_of_clients(servers, per_server, strangers).tolist() == wanted


def test_other_sizes():
    options = {"servers": (2, 0), "clients_per_server": 2, "strangers": 1, "most_samples": 4}
    options |= {"dim": 3, "distinct": 3, "difference": 1, "noise": 0}
    problem = jax.jit(partial(fa.problems.draw_robust_regression, samples=3, **options))(
        jax.random.key(1)
    )
    assert problem.features.shape == (4, 3, 4)
    assert problem.tree.level_sizes == (1, 2)
    np.testing.assert_array_equal(problem.tree.client_parents, [1, 1, 2, 2])
    np.testing.assert_array_equal(problem.weights, [[1, 1, 1, 0]] * 4)
    truth = np.asarray(problem.truth)
    np.testing.assert_array_equal(truth[1], truth[2])
    apart = np.abs(truth[:, None] - truth[None])
    whole = np.round(apart / 2) * 2  # all entries moved, by 1 up or down
    np.testing.assert_allclose(apart, whole, atol=1e-5)
    np.testing.assert_allclose(problem.values(problem.truth), np.zeros(4), atol=1e-5)


def test_features_are_standard_normal(drawn):
    features = drawn["base"].features
    assert np.mean(features) == pytest.approx(0, abs=4 / np.sqrt(features.size))
    assert np.mean(features**2) == pytest.approx(1, abs=4 * np.sqrt(2 / features.size))


def errors_of(problem):
    return problem.targets - np.einsum("nji,nj->ni", problem.features, problem.truth)


def test_noise_is_laplace_with_its_scale(drawn):
    np.testing.assert_allclose(errors_of(drawn["no noise"]), 0, atol=1e-13)
    error = errors_of(drawn["no outlier"])
    count = error.size
    assert np.mean(error) == pytest.approx(0, abs=4 * 0.5 * np.sqrt(2 / count))
    assert np.mean(np.abs(error)) == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(count))
    for level in (0.1, 0.5, 2.0):
        beyond = np.exp(-level / 0.5)
        wide = 4 * np.sqrt(beyond * (1 - beyond) / count)
        assert np.mean(np.abs(error) > level) == pytest.approx(beyond, abs=wide)


def test_outliers_have_ten_times_the_noise_and_their_share(drawn):
    usual = errors_of(drawn["no outlier"])
    clear = np.abs(usual) > 1e-6
    before = np.zeros((50, 80), bool)
    for change, share in (("base", 0.1), ("more outliers", 0.4), ("outliers only", 1.0)):
        ratio = errors_of(drawn[change])[clear] / usual[clear]
        outlying = np.zeros((50, 80), bool)
        outlying[clear] = ratio > 5
        np.testing.assert_allclose(ratio, np.where(ratio > 5, 10, 1), rtol=1e-6)
        wide = 4 * np.sqrt(share * (1 - share) / np.sum(clear))
        assert np.mean(ratio > 5) == pytest.approx(share, abs=wide)
        assert np.all(outlying[before])  # a larger share only adds outliers
        before = outlying
