"""Clients with false labels: what is flipped, what stays, and which problems have labels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import InputError, graphs, losses, problems
from fedjax_admm.problems import flip_labels

BAD = np.array([False, True, False, True])
SIZES = (3, 5, 2, 4)
BUCKETS = (2, 40, 2, 3)  # sizes of clients that are kept apart


def data(seed=0, labels=None, sizes=SIZES):
    """Return features and labels, a list of clients each; `labels` are what is drawn from."""
    rng = np.random.default_rng(seed)
    features = [rng.standard_normal((size, 2)).astype(np.float32) for size in sizes]
    if labels is None:
        return features, [rng.standard_normal(size).astype(np.float32) for size in sizes]
    drawn = [rng.choice(labels, size) for size in sizes]
    drawn[0][:2] = labels[0], labels[-1]
    return features, drawn


def same(found, wanted):
    jax.tree.map(np.testing.assert_allclose, jax.tree.leaves(found), jax.tree.leaves(wanted))


def mean_loss(params, sample):
    features, label = sample
    return (features @ params - label.astype(features.dtype)) ** 2


def test_targets_of_robust_regression_are_turned_around():
    features, targets = data()
    honest = problems.robust_regression(features, targets)
    lied, bad = flip_labels(honest, who=BAD)
    np.testing.assert_array_equal(bad, BAD)
    np.testing.assert_array_equal(lied.targets[BAD], -honest.targets[BAD])
    np.testing.assert_array_equal(lied.targets[~BAD], honest.targets[~BAD])
    same((lied.features, lied.weights, lied.start), (honest.features, honest.weights, honest.start))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["squared", "logistic", "lasso", "trained"])
def test_networked_problems_are_those_of_false_data(kind):
    real = kind in ("squared", "lasso")
    features, targets = data(
        labels=None if real else np.array([-1.0, 1.0], np.float32),
        sizes=(4, 4, 4, 4) if kind == "trained" else SIZES,
    )
    false = [-t if lies else t for t, lies in zip(targets, BAD, strict=True)]
    graph = graphs.from_edges(4, [(0, 1), (1, 2), (2, 3)])
    build = {
        "squared": lambda y: problems.networked_regression(graph, features, y, ridge=0.1),
        "lasso": lambda y: problems.networked_regression(graph, features, y, l1=0.1),
        "logistic": lambda y: problems.networked_logistic(graph, features, y),
        "trained": lambda y: problems.networked_training(
            graph,
            np.stack(features),
            np.stack(y),
            lambda w, x, t: (x @ w - t) ** 2,
            jnp.zeros((4, 2)),
        ),
    }[kind]
    lied, _ = flip_labels(build(targets), who=BAD)
    wanted = build(false)
    points = jnp.asarray(np.random.default_rng(1).standard_normal((4, 2)), jnp.float32)
    same(lied.gradients(points), wanted.gradients(points))
    step = jnp.ones(4)
    proxes = [p.prox(points, step, p.prox_memory(points))[0] for p in (lied, wanted)]
    np.testing.assert_allclose(*proxes, rtol=1e-5, atol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("loss", [losses.squared(), losses.logistic()])
def test_consensus_regression_keeps_the_honest_optimum(loss):
    features, targets = data(labels=(-1.0, 1.0))
    graph = graphs.from_edges(4, [(0, 1), (1, 2), (2, 3)])
    honest = problems.consensus_regression(graph, features, targets, loss, l2=0.1)
    lied, _ = flip_labels(honest, who=BAD)
    np.testing.assert_array_equal(
        lied.targets, np.where(BAD[:, None], -1, 1) * np.asarray(honest.targets)
    )
    np.testing.assert_array_equal(lied.optimum, honest.optimum)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("labels", "top", "sizes"),
    [
        (np.array([-1, 1], np.int32), 0, SIZES),
        (np.array([0, 1], np.int32), 1, SIZES),
        (np.arange(4, dtype=np.uint8), 3, BUCKETS),
        (np.array([0.0, 1.0], np.float32), 1, BUCKETS),
        (np.array([-1.0, 1.0], np.float32), 0, SIZES),
        (np.array([-0.3, 2.5], np.float32), 0, BUCKETS),
    ],
)
def test_samples_of_federated_problems_by_their_kind(labels, top, sizes):
    features, targets = data(labels=labels, sizes=sizes)
    clients = list(zip(features, targets, strict=True))
    honest = problems.federated(mean_loss, clients, jnp.zeros(2))
    lied, _ = flip_labels(honest, who=BAD)
    false = [
        (x, (top - y).astype(y.dtype) if lies else y)
        for (x, y), lies in zip(clients, BAD, strict=True)
    ]
    wanted = problems.federated(mean_loss, false, jnp.zeros(2))
    same(lied.data, wanted.data)
    assert jax.tree.structure(lied) == jax.tree.structure(honest)
    points = jnp.ones((4, 2))
    same(lied.values(points), wanted.values(points))


@pytest.mark.thorough
def test_labels_are_found_by_name_and_classes_are_given_where_they_are_traced():
    x = np.random.default_rng(0).standard_normal((4, 3, 2)).astype(np.float32)
    y = np.random.default_rng(1).integers(0, 3, (4, 3)).astype(np.int32)

    def loss(params, sample):
        return jnp.sum(sample["x"] * params) * sample["y"].astype(jnp.float32)

    honest = problems.federated(loss, {"x": x, "w": x, "y": y}, jnp.zeros(2))
    lied, _ = flip_labels(honest, who=BAD, classes=5)
    np.testing.assert_array_equal(lied.data.samples["y"][BAD], 4 - y[BAD])
    named, _ = flip_labels(honest, who=BAD, label="w")
    np.testing.assert_array_equal(named.data.samples["w"][BAD], -x[BAD])
    np.testing.assert_array_equal(named.data.samples["y"], y)
    traced = jax.jit(lambda p: flip_labels(p, who=BAD, classes=5)[0].data.samples["y"])(honest)
    np.testing.assert_array_equal(traced, lied.data.samples["y"])
    with pytest.raises(InputError, match="classes must be given where labels are whole"):
        jax.jit(lambda p: flip_labels(p, who=BAD)[0].data.samples["y"])(honest)
    with pytest.raises(
        InputError,
        match="label must say which part of a sample is its label, one of",
    ):
        flip_labels(honest, who=BAD, label="z")


@pytest.mark.thorough
def test_shares_are_drawn_in_every_trial():
    honest = problems.robust_regression(*data())

    def trial(share, key):
        lied, bad = flip_labels(honest, share, key)
        return lied.targets, bad

    keys = jax.random.split(jax.random.key(0), 3)
    targets, bad = jax.jit(jax.vmap(trial))(jnp.array([0.0, 0.25, 0.5]), keys)
    np.testing.assert_array_equal(bad.sum(1), [0, 1, 2])
    signs = jnp.where(bad, -1, 1)[..., None].astype(jnp.float32)
    np.testing.assert_array_equal(targets, signs * honest.targets[None])


@pytest.mark.thorough
def test_problems_without_labels_are_refused():
    ranges = problems.localization(np.eye(4)[:, :2], np.ones(4))
    with pytest.raises(
        InputError, match="problem must be a problem with labels, one of ConsensusRegression,"
    ):
        flip_labels(ranges, who=BAD)
    honest = problems.robust_regression(*data())
    with pytest.raises(InputError, match="key must be a typed key"):
        flip_labels(honest, 0.2)
    with pytest.raises(InputError, match="label is for federated problems"):
        flip_labels(honest, who=BAD, label="y")
    with pytest.raises(InputError, match=r"who must have shape \(4,\)"):
        flip_labels(honest, who=BAD[:3])
    made = problems.federated(
        mean_loss,
        lambda number: (jnp.ones((3, 2)), jnp.ones(3)),
        jnp.zeros(2),
        sizes=[3, 3],
    )
    with pytest.raises(InputError, match="must hold its samples; let the function"):
        flip_labels(made, who=BAD[:2])
