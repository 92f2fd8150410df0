"""Regression on a network: data, gradients and optimum against plain NumPy and cvxpy."""

import math
from dataclasses import replace
from functools import partial
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st

from fedjax_admm import InputError, graphs, losses
from fedjax_admm.measures import total_loss
from fedjax_admm.problems import (
    _consensus as consensus,
    consensus_regression,
    draw_consensus_regression,
    pooled_correlation,
    with_loss,
)
from tests.reference import zcdp as reference

CLIENTS, DIM = 5, 3
SIZES = np.array([3, 1, 6, 2, 5])
EDGES = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)]
HUBER = 0.8
LOSSES = {
    "squared": losses.squared,
    "absolute": losses.absolute,
    "huber": lambda: losses.huber(HUBER),
    "logistic": losses.logistic,
}
SLOPES = {**{name: name for name in LOSSES}, "huber": reference.huber(HUBER)}
TASKS = {  # loss, l1, l2
    "ridge": ("squared", 0.0, 1.0),
    "elastic net": ("squared", 0.3, 1.0),
    "least absolute deviation": ("absolute", 0.0, 0.0),
    "huber": ("huber", 0.05, 0.0),
    "logistic": ("logistic", 0.0, 0.2),
}

# The optimum takes seconds to compile for every loss; most tests here do not look at it.
WITHOUT_OPTIMUM = mock.patch.object(
    consensus, "pooled_optimum", lambda x, *rest: jnp.full(x.shape[-1], jnp.nan, x.dtype)
)


def network(edges=EDGES):
    return graphs.from_edges(CLIENTS, edges)


def draw(loss="squared", seed=0):
    """Ragged data; one sample has no features, and one is met exactly by the models of `models`."""
    rng = np.random.default_rng(seed)
    x = [rng.standard_normal((m, DIM)) for m in SIZES]
    y = [part @ np.array([1.0, -2.0, 0.5]) + rng.standard_normal(len(part)) for part in x]
    x[2][4] = 0
    if loss == "logistic":
        return x, [np.where(part < 0, -1.0, 1.0) for part in y]
    x[4][1], y[4][1] = [1.0, 0.0, 0.0], 0.0
    return x, y


def models(seed=1):
    """Some entries are 0, where |w| has no derivative."""
    w = np.random.default_rng(seed).standard_normal((CLIENTS, DIM))
    w[0, 1] = w[3] = w[4, 0] = 0
    return w


def padded(parts):
    """Return ragged data as the reference takes them: one array, NaN for padding."""
    out = np.full((CLIENTS, SIZES.max(), *parts[0].shape[1:]), np.nan)
    for k, part in enumerate(parts):
        out[k, : len(part)] = part
    return out


def build(loss="squared", dtype=np.float64, *, l1=0.0, l2=0.0, data=None):
    x, y = draw(loss) if data is None else data
    x, y = ([np.asarray(part, dtype) for part in parts] for parts in (x, y))
    with WITHOUT_OPTIMUM:
        return consensus_regression(network(), x, y, LOSSES[loss](), l1=l1, l2=l2)


@jax.jit
def gradients(problem, w, clip=None):
    """Return the gradients, clipped if there is a norm."""
    return problem.gradients(w) if clip is None else problem.clipped_gradients(w, clip)


values = jax.jit(lambda problem, w: problem.values(w))
curvatures = jax.jit(lambda problem, w, clip: problem.curvatures(w, clip))


def close(found, expected, dtype, scale=1.0):
    tolerance = 1e-12 if dtype == np.float64 else 2e-5
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=scale * tolerance)


# --- what a problem offers ------------------------------------------------------------------------


@pytest.mark.kin(1)
def test_ragged_clients_are_padded(dtype):
    x, y = draw()
    problem = build(dtype=dtype, l1=0.25, l2=0.5)
    features, targets, shares = map(np.asarray, (problem.features, problem.targets, problem.shares))
    assert (problem.num_clients, problem.dim) == (CLIENTS, DIM)
    assert problem.features.shape == (CLIENTS, SIZES.max(), DIM)
    assert problem.targets.shape == (CLIENTS, SIZES.max())
    assert problem.sizes.dtype == jnp.int32
    np.testing.assert_array_equal(problem.sizes, SIZES)
    for k, m in enumerate(SIZES):
        close(features[k, :m], x[k], dtype)
        close(targets[k, :m], y[k], dtype)
        close(shares[k, :m], np.full(m, 1 / m), dtype)
        assert not features[k, m:].any()
        assert not targets[k, m:].any()
        assert not shares[k, m:].any()
    assert problem.truth is None
    assert (float(problem.l1), float(problem.l2)) == (0.25, 0.5)
    floats = [leaf for leaf in jax.tree.leaves(problem) if leaf.dtype != jnp.int32]
    assert {leaf.dtype for leaf in floats} == {dtype}
    assert not any(leaf.weak_type for leaf in floats)


@pytest.mark.parametrize("clip", [None, 0.7, 100.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_gradients(loss, clip, dtype):
    l1, l2 = 0.3, 0.7
    x, y = draw(loss)
    w = models()
    problem = build(loss, dtype, l1=l1, l2=l2)
    limit = None if clip is None else jnp.asarray(clip, dtype)
    found = gradients(problem, jnp.asarray(w, dtype), limit)
    assert (found.shape, found.dtype) == ((CLIENTS, DIM), dtype)
    expected = [
        reference.subgradient(SLOPES[loss], x[k], y[k], w[k], clip, l1, l2, CLIENTS)
        for k in range(CLIENTS)
    ]
    close(found, expected, dtype)
    if clip == 0.7:  # it binds
        assert np.abs(np.asarray(found) - gradients(problem, jnp.asarray(w, dtype))).max() > 0.05
    if clip == 100.0:  # it does not
        close(found, gradients(problem, jnp.asarray(w, dtype)), dtype)


@pytest.mark.parametrize("loss", LOSSES)
def test_values_and_their_sum(loss, dtype):
    l1, l2 = 0.3, 0.7
    x, y = draw(loss)
    w = models()
    problem = build(loss, dtype, l1=l1, l2=l2)
    expected = [
        reference.client_value(SLOPES[loss], x[k], y[k], w[k], l1, l2, CLIENTS)
        for k in range(CLIENTS)
    ]
    found = values(problem, jnp.asarray(w, dtype))
    assert (found.shape, found.dtype) == ((CLIENTS,), dtype)
    close(found, expected, dtype)
    total = total_loss(problem, jnp.asarray(w[1], dtype))
    assert total.shape == ()
    close(total, reference.objective(SLOPES[loss], x, y, None, w[1], l1, l2), dtype)


@pytest.mark.parametrize("clip", [None, 0.7])
@pytest.mark.parametrize("loss", LOSSES)
def test_curvatures(loss, clip, x64):
    """By differences of the reference's slopes, where these are smooth.

    With clipping the derivative is along features divided by the largest.
    """
    x, y = draw(loss)
    w = models()
    problem = build(loss, l1=0.3, l2=0.7)
    found = np.asarray(curvatures(problem, w, clip))
    assert found.shape == (CLIENTS, SIZES.max())
    assert np.isfinite(found).all()  # of the sample without features, too
    _, slope = reference.of_loss(SLOPES[loss])
    seen = set()
    for k, m in enumerate(SIZES):
        for j in range(m):
            norm = np.linalg.norm(x[k][j])
            limit = math.inf if clip is None else clip / norm if norm else 0.0
            p = x[k][j] @ w[k]

            def cut(at, k=k, j=j, limit=limit):
                return np.clip(slope(at, y[k][j]), -limit, limit)

            if norm == 0 or (loss == "absolute" and abs(p - y[k][j]) < 1e-6):
                continue
            expected = (cut(p + 1e-6) - cut(p - 1e-6)) / 2e-6
            if clip is not None:
                expected *= np.abs(x[k][j]).max() ** 2
            assert found[k, j] == pytest.approx(expected, abs=1e-6)
            seen.add(round(expected, 6) > 0)
    if loss == "absolute":
        assert seen == {False}
    else:
        assert seen == ({True} if clip is None and loss != "huber" else {True, False})


powers = st.integers(-12, 12).map(lambda exponent: 10.0**exponent)
numbers = st.lists(st.floats(-1, 1), min_size=DIM, max_size=DIM)


@pytest.mark.thorough
@given(st.sampled_from(sorted(LOSSES)), numbers, numbers, powers, powers, powers, powers)
def test_no_clipped_gradient_is_longer_than_the_norm(
    dtype, loss, direction, model, size, reach, target, clip
):
    """One sample per client, so that a client's gradient is that of its sample."""
    signs = np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    x = [np.array([direction]) * size * s for s in signs]
    y = [np.array([s if loss == "logistic" else s * target]) for s in signs]
    problem = build(loss, dtype, data=(x, y))
    w = jnp.asarray(np.outer([1.0, -2.0, 0.5, 3.0, 0.0], model) * reach, dtype)
    found = np.asarray(gradients(problem, w, jnp.asarray(clip, dtype)), np.float64)
    assert np.isfinite(found).all()
    lengths = np.linalg.norm(found, axis=1)
    assert (lengths <= clip * (1 + 8 * float(jnp.finfo(dtype).eps))).all()
    # It points where the gradient points, and is not shorter than it has to be.
    for k in range(CLIENTS):
        if np.abs(x[k]).max() < 1e-14:
            continue
        seen, aim = np.asarray(problem.features[k, 0], float), np.asarray(w[k], float)
        slope = reference.of_loss(SLOPES[loss])[1](seen @ aim, float(problem.targets[k, 0]))
        if abs(slope) * np.linalg.norm(seen) > 2 * clip and abs(seen @ aim) < 1e3 * target:
            np.testing.assert_allclose(lengths[k], clip, rtol=1e-5)


# --- optimum --------------------------------------------------------------------------------------


def centralised(loss, x, y, l1, l2):
    """The common minimiser, by cvxpy."""
    return reference.centralised(
        loss, padded(x), padded(y), SIZES, l1=l1, l2=l2, threshold=HUBER, tolerance=1e-13
    )


@pytest.mark.kin(1)
@pytest.mark.parametrize("task", TASKS)
def test_the_optimum_is_that_of_cvxpy(task, x64):
    """Clients weigh alike, whatever their number of samples."""
    loss, l1, l2 = TASKS[task]
    x, y = draw(loss)
    problem = consensus_regression(network(), x, y, LOSSES[loss](), l1=l1, l2=l2)
    expected = centralised(loss, x, y, l1, l2)
    assert problem.optimum.shape == (DIM,)
    np.testing.assert_allclose(problem.optimum, expected, rtol=0, atol=1e-8)
    best = float(total_loss(problem, problem.optimum))
    assert best <= reference.objective(SLOPES[loss], x, y, None, expected, l1, l2) + 1e-12
    for change in 1e-3 * np.vstack([np.eye(DIM), -np.eye(DIM)]):
        assert float(total_loss(problem, problem.optimum + jnp.asarray(change))) > best


def test_another_loss_shares_the_data_and_has_another_optimum(x64):
    x, y = draw()
    truth = np.random.default_rng(2).standard_normal((CLIENTS, DIM))
    ridge = consensus_regression(network(), x, y, losses.squared(), l2=1.0, truth=truth)
    elastic = with_loss(ridge, losses.squared(), l1=0.3, l2=1.0)
    lad = with_loss(ridge, losses.absolute())
    for other in (elastic, lad):
        for name in ("features", "targets", "sizes", "truth"):
            np.testing.assert_array_equal(getattr(other, name), getattr(ridge, name))
        np.testing.assert_array_equal(other.graph.heads, ridge.graph.heads)
    assert isinstance(lad.loss, losses.Absolute)
    assert (float(elastic.l1), float(elastic.l2)) == (0.3, 1.0)
    assert (float(lad.l1), float(lad.l2)) == (0.0, 0.0)
    optima = [np.asarray(each.optimum) for each in (ridge, elastic, lad)]
    for k, (loss, l1, l2) in enumerate([TASKS[n] for n in ("ridge", "elastic net")]):
        expected = centralised(loss, x, y, l1, l2)
        np.testing.assert_allclose(optima[k], expected, atol=1e-8)
    assert np.abs(optima[0] - optima[1]).max() > 1e-3
    assert np.abs(optima[0] - optima[2]).max() > 1e-3


def test_pooled_correlation(dtype):
    x, y = draw()
    expected = np.abs(sum(a.T @ b for a, b in zip(x, y, strict=True))).max()
    found = pooled_correlation(build(dtype=dtype))
    assert (found.shape, found.dtype) == ((), dtype)
    close(found, expected, dtype)
    assert 0.001 * expected == pytest.approx(
        reference.elastic_l1(padded(x), padded(y), SIZES), rel=1e-12
    )


# --- drawn problems -------------------------------------------------------------------------------


@partial(jax.jit, static_argnames=("loss", "clients", "samples", "dim"))
def drawn_with(key, noise, shift, *, loss, clients, samples, dim):
    with WITHOUT_OPTIMUM:
        return draw_consensus_regression(
            key,
            graphs.star(clients),
            LOSSES[loss](),
            samples=samples,
            dim=dim,
            noise=noise,
            shift=shift,
        )


def drawn(seed=0, loss="squared", noise=0.1, shift=0.0):
    numbers_ = (jnp.asarray(noise, float), jnp.asarray(shift, float))
    sizes = {"clients": 400, "samples": 50, "dim": 4}
    return drawn_with(jax.random.key(seed), *numbers_, loss=loss, **sizes)


def test_drawn_moments():
    problem = drawn()
    assert problem.features.shape == (400, 50, 4)
    np.testing.assert_array_equal(problem.sizes, np.full(400, 50))
    x = np.asarray(problem.features, float).reshape(-1, 4)
    np.testing.assert_allclose(x.mean(0), 0, atol=0.03)
    np.testing.assert_allclose(np.cov(x.T), np.eye(4), atol=0.04)
    truth = np.asarray(problem.truth, float)
    np.testing.assert_array_equal(truth, np.broadcast_to(truth[0], truth.shape))
    noise = np.asarray(problem.targets, float) - np.einsum("kmp,kp->km", problem.features, truth)
    assert noise.mean() == pytest.approx(0, abs=0.01)
    assert noise.var() == pytest.approx(0.1, rel=0.05)
    assert abs(np.corrcoef(noise.ravel(), x[:, 0])[0, 1]) < 0.03


def test_shifts_move_the_true_models_and_nothing_else():
    same, one, two = (drawn(shift=shift) for shift in (0.0, 1.0, 2.0))
    for other in (one, two):
        np.testing.assert_array_equal(other.features, same.features)
    first, second = (
        np.asarray(other.truth, float) - np.asarray(same.truth, float) for other in (one, two)
    )
    np.testing.assert_allclose(second, 2 * first, rtol=1e-4, atol=1e-5)
    assert first.std() == pytest.approx(1, rel=0.1)
    assert np.abs(np.corrcoef(first.T)[np.triu_indices(4, 1)]).max() < 0.2
    noises = [
        np.asarray(each.targets, float)
        - np.einsum("kmp,kp->km", np.asarray(each.features, float), np.asarray(each.truth, float))
        for each in (same, two)
    ]
    np.testing.assert_allclose(*noises, atol=1e-4)


def test_noise_is_a_variance():
    exact, little, much = (drawn(noise=noise) for noise in (0.0, 0.04, 4.0))
    np.testing.assert_array_equal(much.features, exact.features)
    np.testing.assert_array_equal(much.truth, exact.truth)
    first, second = (np.asarray(each.targets - exact.targets, float) for each in (little, much))
    np.testing.assert_allclose(second, 10 * first, atol=2e-5)
    assert second.var() == pytest.approx(4, rel=0.05)
    expected = np.einsum("kmp,kp->km", exact.features, exact.truth)
    np.testing.assert_allclose(exact.targets, expected, atol=1e-5)


def test_labels_are_the_signs_of_numbers():
    numbers_, labels = drawn(), drawn(loss="logistic")
    np.testing.assert_array_equal(labels.features, numbers_.features)
    assert labels.targets.dtype == np.float32
    expected = np.where(np.asarray(numbers_.targets) < 0, -1, 1)
    np.testing.assert_array_equal(labels.targets, expected)
    assert 0.3 < (expected > 0).mean() < 0.7


def ridge_with(weights):
    graph = replace(network(), weights=weights)
    return draw_consensus_regression(
        jax.random.key(1), graph, losses.squared(), samples=6, dim=DIM, l2=1.0
    )


def test_the_optimum_of_a_draw(x64):
    problem = ridge_with(jnp.ones(5))
    x, y = np.asarray(problem.features), np.asarray(problem.targets)
    expected = reference.centralised("squared", x, y, l2=1.0)
    np.testing.assert_allclose(problem.optimum, expected, atol=1e-8)


def test_a_graph_that_could_not_be_drawn_gives_no_numbers(x64):
    problem = ridge_with(jnp.full(5, jnp.nan))
    assert np.isnan(problem.optimum).all()
    assert np.isnan(problem.targets).all()
    assert np.isfinite(problem.features).all()


# --- mistakes -------------------------------------------------------------------------------------


def changed(place, value, parts):
    parts = list(parts)
    parts[place] = value
    return parts


X, Y = draw()
_, LABELS = draw("logistic")
PARTS = {"graph": network, "features": X, "targets": Y, "loss": losses.squared}


@pytest.mark.parametrize(
    ("given_", "sentence"),
    [
        (
            {"graph": lambda: network([(0, 1), (2, 3), (3, 4)])},
            "graph must be connected, but it has 2 components: node 2 cannot be reached",
        ),
        (
            {"features": changed(1, np.zeros((0, DIM)), X), "targets": changed(1, [], Y)},
            r"features\[1\] must hold at least one sample .* is \(0, 3\); leave that client",
        ),
        (
            {"features": changed(3, np.ones((2, 4)), X)},
            r"features\[3\] must have shape \(any, 3\), but it has \(2, 4\)",
        ),
        (
            {"features": changed(3, [[1, 2, 3], [1, math.nan, 3]], X)},
            r"features\[3\] must be finite, but entry \(1, 1\) is nan",
        ),
        (
            {"loss": losses.logistic, "targets": changed(4, [1, -1, 0, 1, 1], LABELS)},
            r"targets must hold -1 and 1, but entry \(4, 2\) is 0; classes 0 and 1",
        ),
        ({"loss": lambda: losses.Squared}, r"loss must be one of fedjax_admm.losses, such as"),
    ],
)
def test_mistakes_get_a_sentence(given_, sentence):
    parts = {**PARTS, **given_}
    graph, loss = parts.pop("graph")(), parts.pop("loss")()
    features, targets = parts.pop("features"), parts.pop("targets")
    with WITHOUT_OPTIMUM, pytest.raises(InputError, match=sentence):
        consensus_regression(graph, features, targets, loss, **parts)


@pytest.mark.parametrize(
    ("first", "second", "options", "sentence"),
    [
        (
            "squared",
            "logistic",
            {},
            "loss must suit the targets, which those of Logistic do not; build the",
        ),
        (
            "logistic",
            "huber",
            {},
            "loss must suit the targets, which those of Huber do not; build the problem",
        ),
    ],
)
def test_a_loss_must_suit_the_targets(first, second, options, sentence):
    problem = build(first)
    loss = None if second is None else LOSSES[second]()
    with WITHOUT_OPTIMUM, pytest.raises(InputError, match=sentence):
        with_loss(problem, loss, **options)


@pytest.mark.thorough
def test_where_there_is_no_minimiser_the_optimum_is_nan():
    """Classes that a line tells apart: without l2, longer models are always better."""
    x = np.linspace(-1, 1, 12).reshape(3, 4, 1).astype(np.float32)
    y = np.sign(x[..., 0])
    problem = consensus_regression(graphs.star(3), list(x), list(y), losses.logistic())
    assert np.isnan(problem.optimum).all()
    bounded = with_loss(problem, losses.logistic(), l2=0.1)
    assert np.isfinite(bounded.optimum).all()
