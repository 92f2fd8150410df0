"""Misuse of problems: data that are none, of another kind, or beyond the range of their dtype."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from fedjax_admm import graphs, losses, problems, ratings, trees
from tests.faults.row import Misuse

KEY = jax.random.key(0)
GRAPH = graphs.chain(3)
RNG = np.random.default_rng(0)
FEATURES = [RNG.standard_normal((4, 2)) for _ in range(3)]
TARGETS = [RNG.standard_normal(4) for _ in range(3)]
ANCHORS = [[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [9.0, 9.0]]
WHERE = "must span space"


def networked(graph=GRAPH, features=FEATURES, targets=TARGETS, **given):
    return problems.networked_regression(graph, features, targets, **given)


def consensus(graph=GRAPH, features=FEATURES, targets=TARGETS, **given):
    return problems.consensus_regression(graph, features, targets, losses.squared(), **given)


def trained(**given):
    usual = {"features": np.stack(FEATURES), "targets": np.stack(TARGETS), "start": np.zeros(2)}
    return problems.networked_training(GRAPH, sample_loss=squared, **(usual | given))


def squared(w, x, y):
    return (jnp.vdot(x, w) - y) ** 2


def of_one(value):
    return value


def localized(anchors=ANCHORS, distances=(5.0, 6.0, 7.0, 8.0), **given):
    return problems.localization(anchors, distances, **given)


def cube(**given):
    return problems.draw_localization(KEY, problems.no_noise(), **given)


def phase(x=((1.0, 2.0), (3.0, 1.0)), y=(1.0, 2.0), **given):
    return problems.phase_retrieval(x, y, **given)


def robust(features=FEATURES, targets=TARGETS, **given):
    return problems.robust_regression(features, targets, **given)


def of_two(params, sample):
    return jnp.sum((params - sample) ** 2)


def own(**given):
    data = [np.ones((3, 2)), np.ones((2, 2))]
    return problems.federated(**({"loss": of_two, "data": data, "start": jnp.zeros(2)} | given))


def other_size(params, sample):
    return jnp.vdot(params, jnp.ones(5))


def of_pair(params, sample):
    return jnp.vdot(params, sample[0]) - sample[1]


def traced(build):
    return jax.jit(lambda x: build(data=[x, jnp.asarray(SHORT)]).sizes)(jnp.ones((3, 2)))


def times(parts, factor):
    return [factor * part for part in parts]


def completed(values=(1.0, 2.0, 4.0), **given):
    client = (np.array([0, 0, 1]), np.array([0, 1, 1]), np.array(values))
    return problems.matrix_completion_of_clients(
        **({"clients": [client, client], "num_items": 2} | given)
    )


MASKED = np.ma.masked_array(np.ones((4, 2)), np.eye(4, 2, dtype=bool))
COMPLEX = np.ones((4, 2), complex)
SHORT = np.ones((2, 2), np.float16)
LONG = jnp.ones((2, 3, 2), np.float32)
HALF = jnp.zeros(2, jnp.bfloat16)
PAIR = (np.ones((3, 2)), np.ones(3))

ROWS = [
    # where sensors stand
    Misuse("sensors-at-one-place", lambda: localized(np.ones((4, 2))), WHERE),
    Misuse("sensors-on-a-line", lambda: localized([[0, 0], [1, 1], [2, 2], [3, 3]]), "mirror"),
    Misuse(
        "sensors-on-a-line-start-too",
        lambda: localized([[0, 0], [1, 1], [2, 2], [3, 3]], start=[4.0, 4.0]),
        "mirror",
    ),
    Misuse("sensors-on-a-line-of-space", lambda: localized(np.arange(12).reshape(4, 3)), "circle"),
    Misuse("sensor-alone", lambda: localized([[0.0, 0.0]], [1.0]), WHERE),
    Misuse("sensors-complex", lambda: localized(COMPLEX), "array of numbers"),
    Misuse("sensors-masked", lambda: localized(MASKED), "has masked entries"),
    Misuse("sensors-none", lambda: localized(None), "array of numbers"),
    Misuse("sensors-text", lambda: localized("here"), "array of numbers"),
    Misuse("sensors-ragged", lambda: localized([[0.0], [1.0, 2.0]]), "array of numbers"),
    Misuse("sensors-dates", lambda: localized(np.zeros((4, 2), "M8[D]")), "array of numbers"),
    Misuse("sensors-durations", lambda: localized(np.ones((4, 2), "m8[D]")), "array of numbers"),
    Misuse("sensors-objects", lambda: localized(np.full((4, 2), None)), "array of numbers"),
    Misuse("sensors-frame-of-texts", lambda: localized(pd.DataFrame({"a": ["x"]})), "numbers"),
    Misuse("sensors-far", lambda: localized(np.array(ANCHORS) * 1e20), "larger unit"),
    Misuse("sensors-beyond-float32", lambda: localized(np.array(ANCHORS) * 1e200), "float32"),
    Misuse("sensors-vanish", lambda: localized(np.array(ANCHORS) * 1e-200), "counts as 0"),
    Misuse("sensors-nan", lambda: localized(np.full((4, 2), np.nan)), "must be finite"),
    Misuse("sensors-empty", lambda: localized([]), "shape"),
    Misuse("ranges-none", lambda: localized(distances=None), "array of numbers"),
    Misuse("ranges-negative", lambda: localized(distances=[-1.0, 1, 1, 1]), "greater than 0"),
    Misuse("ranges-vanish", lambda: localized(distances=[1e-60, 1, 1, 1]), "greater than 0"),
    Misuse("start-complex", lambda: localized(start=[1j, 0]), "array of numbers"),
    Misuse("target-wrong-length", lambda: localized(target=[1.0]), "shape"),
    # drawn ones
    Misuse("cube-vanishes", lambda: cube(half_width=1e-308), "counts as 0 in float32"),
    Misuse("cube-bool", lambda: cube(half_width=True), "must be a number"),
    Misuse("cube-beyond", lambda: cube(half_width=1e300), "largest number of float32"),
    Misuse("cube-clients-huge", lambda: cube(clients=2**40), "at most 2147483647"),
    Misuse("cube-dim-float", lambda: cube(dim=2.0), "whole number"),
    Misuse("cube-noise", lambda: problems.draw_localization(KEY, 1.0), "noise model"),
    Misuse("cube-seed", lambda: problems.draw_localization(0, problems.no_noise()), "typed key"),
    Misuse("noise-vanishes", lambda: problems.cauchy_noise(1e-60), "counts as 0"),
    Misuse("noise-negative", lambda: problems.gaussian_noise(-1.0), "at least 0"),
    Misuse("noise-probability", lambda: problems.outlier_noise(2.0), "at most 1"),
    # networks
    Misuse("graph-none", lambda: networked(graph=None), "must be a graph"),
    Misuse("graph-matrix", lambda: networked(graph=np.ones((3, 3))), "must be a graph"),
    Misuse("features-none", lambda: networked(features=None), "must be a list"),
    Misuse("features-number", lambda: networked(features=5.0), "must be a list"),
    Misuse("features-mapping", lambda: networked(features={0: 1}), "must be a list"),
    Misuse("features-text", lambda: networked(features="abc"), "must be a list"),
    Misuse("features-set", lambda: networked(features={1, 2, 3}), "must be a list"),
    Misuse("features-few", lambda: networked(features=FEATURES[:2]), "one array per node"),
    Misuse("features-complex", lambda: networked(features=[COMPLEX] * 3), "array of numbers"),
    Misuse("features-masked", lambda: networked(features=[MASKED] * 3), "has masked entries"),
    Misuse("features-huge", lambda: networked(features=times(FEATURES, 1e19)), "1e\\+15"),
    Misuse("features-overflow", lambda: networked(features=times(FEATURES, 1e200)), "float32"),
    Misuse("features-vanish", lambda: networked(features=times(FEATURES, 1e-20)), "must reach"),
    Misuse("targets-huge", lambda: networked(targets=times(TARGETS, 1e25)), "1e\\+15"),
    Misuse("scale-array", lambda: networked(scale=np.ones(2)), "must be one of 'mean' and 'sum'"),
    Misuse("ridge-nan", lambda: networked(ridge=np.nan), "must be finite"),
    Misuse("accessible-text", lambda: networked(accessible="yes"), "array of numbers"),
    Misuse("accessible-numbers", lambda: networked(accessible=[1, 0, 1]), "True or False"),
    Misuse("accessible-huge", lambda: networked(accessible=[2**40] * 3), "up to 2147483647"),
    Misuse("inner-steps-text", lambda: networked(inner_steps="5"), "whole number"),
    Misuse("access-of-none", lambda: problems.with_access(None, [True]), "Networked problem"),
    Misuse("truth-seed", lambda: problems.draw_networked_regression(0, GRAPH, TARGETS), "key"),
    Misuse(
        "noise-of-many",
        lambda: problems.draw_networked_regression(KEY, GRAPH, np.ones((3, 2)), noise=[0.1, 0.2]),
        "must be one number",
    ),
    Misuse(
        "trained-loss-of-one",
        lambda: problems.networked_training(
            GRAPH, np.ones((3, 4, 2)), np.ones((3, 4)), of_one, np.zeros(2)
        ),
        r"sample_loss\(w, x, y\)",
    ),
    Misuse("trained-start-complex", lambda: trained(start=np.ones(2) * 1j), "array of numbers"),
    Misuse("trained-warm-text", lambda: trained(warm="False"), "must be True or False"),
    Misuse("trained-anchored-number", lambda: trained(anchored=1), "must be True or False"),
    Misuse("trained-optimizer", lambda: trained(optimizer=0.1), "must be a function optimizer"),
    Misuse("trained-features-texts", lambda: trained(features=[["a"]]), "array of numbers"),
    Misuse("consensus-graph", lambda: consensus(graph="chain"), "must be a graph"),
    Misuse("consensus-features", lambda: consensus(features=None), "must be a list"),
    Misuse("consensus-weight-bool", lambda: consensus(l1=True), "must be a number"),
    Misuse("consensus-loss-of", lambda: problems.with_loss(None, losses.squared()), "Consensus"),
    Misuse("consensus-correlation", lambda: problems.pooled_correlation(GRAPH), "Consensus"),
    Misuse("quantile-one", lambda: losses.quantile(1.0), "level"),
    Misuse("quantile-bool", lambda: losses.quantile(True), "must be a number"),
    # phase retrieval, robust regression
    Misuse("phase-huge", lambda: phase(y=[1e38, 1e38]), "y must not exceed 1e\\+15"),
    Misuse("phase-vectors-huge", lambda: phase(x=[[1e10, 0], [0, 1]]), "1e\\+15"),
    Misuse("phase-vectors-vanish", lambda: phase(x=[[1e-19, 0], [0, 1e-19]]), "must reach"),
    Misuse("phase-complex", lambda: phase(y=[1j, 1.0]), "array of numbers"),
    Misuse("phase-tree", lambda: phase(tree=2), "must be a tree"),
    Misuse("phase-tree-of-others", lambda: phase(tree=trees.star(5)), "one leaf per client"),
    Misuse("phase-signed-text", lambda: problems.draw_phase_retrieval(KEY, signed="no"), "True or"),
    Misuse(
        "phase-clusters-times-clients",
        lambda: problems.draw_phase_retrieval(KEY, clusters=10**6, clients_per_cluster=10**6),
        "clusters times clients_per_cluster must be at most 2147483647",
    ),
    Misuse("phase-seed", lambda: problems.draw_phase_retrieval(5), "typed key"),
    Misuse("robust-tree", lambda: robust(tree="star"), "must be a tree"),
    Misuse("robust-generator", lambda: robust(features=(part for part in FEATURES)), "a list"),
    Misuse("robust-targets-none", lambda: robust(targets=None), "must be a list"),
    Misuse("robust-features-huge", lambda: robust(features=times(FEATURES, 1e19)), "1e\\+15"),
    Misuse("robust-weights-number", lambda: robust(weights=1.0), "must be a list"),
    Misuse(
        "robust-servers-nested",
        lambda: problems.clusters_of_clients([[0], [1, 2]], 3, 1),
        "cluster of each edge server",
    ),
    Misuse(
        "robust-servers-huge",
        lambda: problems.clusters_of_clients([0] * 1000, 2**30, 1),
        "at most 2147483647",
    ),
    # one's own loss
    Misuse("own-loss-of-one", lambda: own(loss=of_one), r"must be a function loss\(params, sample"),
    Misuse("own-loss-number", lambda: own(loss=3), "must be a function loss"),
    Misuse("own-score-of-one", lambda: own(score=of_one), "must be a function score"),
    Misuse("own-start-text", lambda: own(start="zero"), "array of numbers"),
    Misuse("own-start-whole", lambda: own(start=jnp.zeros(2, jnp.int32)), "floating numbers"),
    Misuse("own-start-huge", lambda: own(start=2**40), "up to 2147483647"),
    Misuse("own-data-texts", lambda: own(data=[np.array(["a"])]), "array of numbers"),
    Misuse("own-data-masked", lambda: own(data=[MASKED]), "has masked entries"),
    Misuse("own-shared-number", lambda: own(shared=1.5), "must be a list of names"),
    Misuse("own-weights-infinite", lambda: own(weights=[np.inf, 1.0]), "must be finite"),
    Misuse("own-topology", lambda: own(topology="star"), "must be a tree"),
    Misuse("own-batch-bool", lambda: own(batch_size=True), "must be a whole number"),
    Misuse("own-loss-overflows", lambda: own(data=[np.full((3, 2), 1e38)]), "finite at the start"),
    Misuse("own-loss-raises", lambda: own(loss=other_size), r"loss raises .* shape \(2,\)"),
    Misuse("own-start-longer", lambda: own(start=jnp.zeros(3)), r"shape \(3,\) and one sample"),
    Misuse("own-score-raises", lambda: own(score=other_size), "score raises TypeError in line"),
    Misuse("own-prox-raises", lambda: own(prox=lambda w, t: other_size(w, t)), "prox raises"),
    Misuse("own-data-raise", lambda: own(data=lambda i: {}["a"], sizes=[2]), "KeyError"),
    Misuse("own-data-mixed", lambda: own(data=[np.ones((3, 2)), SHORT]), r"float64\[2\].*float16"),
    Misuse("own-data-mixed-traced", lambda: traced(own), r"float32\[2\].*float16\[2\]"),
    Misuse("own-start-narrow", lambda: own(start=HALF), r"data\[0\] holds float32 .* bfloat16 par"),
    Misuse("own-start-narrow-stacked", lambda: own(data=LONG, start=HALF), "begin with parameters"),
    Misuse("own-start-float16", lambda: own(data=LONG, start=np.zeros(2, np.float16)), "or cast"),
    Misuse(
        "own-held-out-wider",
        lambda: own(data=[LONG[0].astype(HALF.dtype)], start=HALF, score=of_two, held_out=LONG[0]),
        "held_out holds float32",
    ),
    Misuse(
        "own-held-out-lacks",
        lambda: own(loss=of_pair, data=[PAIR] * 2, score=of_pair, held_out=PAIR[:1]),
        r"score raises .* held-out sample of shape \(\(2,\),\)",
    ),
    Misuse("own-held-out-number", lambda: own(score=of_two, held_out=1.0), "axis of samples"),
    Misuse("own-held-out-empty", lambda: own(score=of_two, held_out=np.ones((0, 2))), "at least"),
    Misuse("inner-warm", lambda: problems.inner_lbfgs(warm="no"), "must be True or False"),
    # ratings
    Misuse("ratings-table", lambda: problems.matrix_completion(None, KEY), "table of ratings"),
    Misuse("ratings-seed", lambda: problems.matrix_completion(None, 0), "typed key"),
    Misuse("ratings-huge", lambda: completed((1e19, 2e19, 4e19)), "must not exceed 1e\\+15"),
    Misuse("ratings-overflow", lambda: completed((1e38, 2e38, 4e38 * 10)), "float32"),
    Misuse("ratings-equal", lambda: completed((1.0, 1.0, 1.0)), "must not all be equal"),
    Misuse("ratings-standardize", lambda: completed(standardize="no"), "must be True or False"),
    Misuse("ratings-clients-number", lambda: completed(clients=3), "must be a list"),
    Misuse("ratings-client-number", lambda: completed(clients=[3]), "must be a list"),
    Misuse("ratings-members-ragged", lambda: completed(members=[[1], [1, 2]]), "array of numbers"),
    Misuse("factors-rank-bool", lambda: ratings.uniform_start(rank=True), "whole number"),
    Misuse("factors-vanish", lambda: ratings.uniform_start(1e-60), "counts as 0"),
    # graphs
    Misuse("weights-text", lambda: graphs.chain(3, "5"), "must be numbers"),
    Misuse("weights-date", lambda: graphs.chain(3, np.datetime64("2020-01-01")), "must be numbers"),
    Misuse("weights-complex", lambda: graphs.chain(3, 1j), "must be numbers"),
    Misuse("weights-bool", lambda: graphs.chain(3, True), "must be numbers"),
    Misuse("chain-huge", lambda: graphs.chain(2**40), "at most 2147483647"),
    Misuse("connected-number", lambda: graphs.is_connected(3), "must be a graph"),
    Misuse("check-connected-text", lambda: graphs.check_connected("chain"), "must be a graph"),
    Misuse("mixing-none", lambda: graphs.metropolis_weights(None), "must be a graph"),
    Misuse("padded-none", lambda: graphs.pad(None, 3), "must be a graph"),
    Misuse("stack-of-numbers", lambda: graphs.stack([1, 2]), "must be a graph"),
    Misuse("stack-of-one", lambda: graphs.stack(GRAPH), "must be a list of graphs"),
    Misuse("from-networkx-matrix", lambda: graphs.from_networkx(np.eye(3)), "graph of networkx"),
    Misuse("to-scipy-none", lambda: graphs.to_scipy(None), "must be a graph"),
]
