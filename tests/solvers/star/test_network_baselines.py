"""FedAvg, IFCA and pooled models: trajectories, choices, minimum norms, messages, mistakes."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import participation, penalties
from fedjax_admm.direct import cluster_models, cluster_oracle, local_models, pooled_model
from fedjax_admm.graphs import Graph
from fedjax_admm.problems import (
    networked_logistic,
    networked_regression,
    networked_training,
    with_access,
)
from fedjax_admm.solvers import fed_avg, fed_avg_prox, ifca
from tests.reference import networked as reference
from tests.solvers.quadratics import quadratics

ROUNDS = 60
NODES = 8
LABELS = np.arange(NODES) % 2
# A star with a chain: degrees from 1 to 7.
EDGES = np.array([(0, leaf) for leaf in range(1, NODES)] + [(1, 2), (2, 3), (5, 6)])


def graph():
    heads, tails = EDGES.astype(np.int32).T
    return Graph(jnp.asarray(heads), jnp.asarray(tails), jnp.ones(len(EDGES)), NODES)


def draw(seed=0, *, m=5, dim=3, hidden=(1, 4), spread=0.3, noise=0.1):
    """Draw nodes of two clusters whose true models differ a little inside each."""
    rng = np.random.default_rng(seed)
    truths = rng.standard_normal((2, dim))[LABELS] + spread * rng.standard_normal((NODES, dim))
    return reference.draw_nodes(rng, truths, m, noise, ~np.isin(np.arange(NODES), hidden))


def access_of(nodes):
    return np.array([node.accessible for node in nodes])


def regression(nodes, **options):
    return networked_regression(
        graph(),
        [node.x for node in nodes],
        [node.y for node in nodes],
        accessible=access_of(nodes),
        **options,
    )


def random_masks(rounds=ROUNDS, seed=3):
    """Return masks with rounds of nobody, and one of inaccessible nodes alone."""
    masks = np.random.default_rng(seed).random((rounds, NODES)) < 0.4
    masks[0] = masks[7] = masks[20:23] = False
    masks[30] = np.isin(np.arange(NODES), (1, 4))
    return masks


def present(nodes, mask):
    """Hide the nodes that are absent."""
    return [
        replace(node, accessible=node.accessible and bool(here))
        for node, here in zip(nodes, mask, strict=True)
    ]


def follow(solver, problem, masks=None, measure=None, rounds=ROUNDS):
    masks = np.ones((rounds, NODES), bool) if masks is None else masks
    return fa.run(
        solver,
        problem,
        jax.random.key(0),
        rounds=rounds,
        participation=participation.replay(masks),
        measure=measure,
    )


def whole_state(solver, problem, state):
    return {"server": getattr(state.server, "model", state.server), "clients": state.clients}


# --- federated averaging ------------------------------------------------------------------------


def round_by_round(nodes, masks, average):
    """Return the models after every round in which `average(nodes, model)` is the next one."""
    model, models = np.zeros(nodes[0].dim), []
    for mask in masks:
        heard = present(nodes, mask)
        if any(node.accessible for node in heard):
            model = average(heard, model)
        models.append(model)
    return np.array(models)


def check_averaging(solver, problem, wanted, masks=None):
    run = follow(solver, problem, masks, whole_state)
    np.testing.assert_allclose(run.trace["server"], wanted, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(run.estimate, run.trace["server"][-1])
    assert np.abs(np.diff(wanted[1:], axis=0)).max() > 1e-2


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("local_steps", "hidden", "scale"), [(1, (), "sum"), (4, (1, 4), "mean")])
def test_federated_averaging_with_gradients(local_steps, hidden, scale):
    nodes, rate = draw(hidden=hidden), 0.03
    if scale == "sum":
        rate = 0.01
        for node in nodes:
            node.scale = 5.0
    wanted = reference.fedavg(nodes, rate, ROUNDS, local_steps)
    solver = fed_avg(rate, local_steps=local_steps)
    check_averaging(solver, regression(nodes, scale=scale), wanted)


@pytest.mark.usefixtures("x64")
def test_absent_nodes_do_not_count_in_the_mean_of_gradients():
    nodes, masks, local_steps = draw(), random_masks(), 4
    wanted = round_by_round(
        nodes,
        masks,
        lambda heard, model: reference.fedavg(heard, 0.03, 1, local_steps, start=model)[0],
    )
    solver = fed_avg(0.03, local_steps=local_steps)
    check_averaging(solver, regression(nodes), wanted, masks)
    # A round without any accessible node keeps the model.
    for index in (7, 20, 22, 30):
        np.testing.assert_array_equal(wanted[index], wanted[index - 1])


def taus(ratio):
    return ratio / np.bincount(EDGES.ravel(), minlength=NODES)


@pytest.mark.kin(1)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("ratio", "m"), [(1.0, 5), (0.3, 2)])
def test_federated_averaging_with_proxes(ratio, m):
    nodes = draw(m=m)
    wanted = reference.fedavg_prox(nodes, taus(ratio), ROUNDS)
    check_averaging(fed_avg_prox(ratio), regression(nodes), wanted)


@pytest.mark.usefixtures("x64")
def test_absent_nodes_do_not_count_in_the_mean_of_proxes():
    nodes, masks = draw(), random_masks()
    wanted = round_by_round(
        nodes,
        masks,
        lambda heard, model: reference.fedavg_prox(heard, taus(0.5), 1, start=model)[0],
    )
    check_averaging(fed_avg_prox(0.5), regression(nodes), wanted, masks)


@pytest.mark.usefixtures("x64")
def test_averaging_starts_at_the_mean_of_the_starts():
    nodes = draw()
    start = np.random.default_rng(4).standard_normal((NODES, 3))
    problem = networked_training(
        graph(),
        np.stack([node.x for node in nodes]),
        np.stack([node.y for node in nodes]),
        squared_error,
        start,
        accessible=access_of(nodes),
    )
    wanted = reference.fedavg(nodes, 0.03, ROUNDS, 2, start=start.mean(0))
    check_averaging(fed_avg(0.03, local_steps=2), problem, wanted)


def squared_error(w, x, y):
    return (jnp.vdot(x, w) - y) ** 2


@pytest.mark.usefixtures("x64")
def test_averaging_single_steps_ends_at_the_pooled_model():
    nodes = draw()
    run = follow(fed_avg(0.1), regression(nodes), rounds=2000)
    np.testing.assert_allclose(run.estimate, reference.pooled_model(nodes), rtol=0, atol=1e-10)


# --- iterative federated clustering -------------------------------------------------------------


def clusters_in_use(solver, problem, state):
    return {**whole_state(solver, problem, state), "nonempty": solver.nonempty(problem, state)}


def first_models(nodes, count=3):
    """Return models near those of single nodes, so that every one finds somebody."""
    own = reference.local_models([replace(node, accessible=True) for node in nodes])
    return own[[0, 3, 6, 7][:count]]


def check_clustering(nodes, start, rate, masks=None):
    run = follow(ifca(start, rate), regression(nodes), masks, clusters_in_use)
    if masks is None:
        wanted = reference.ifca(nodes, start, rate, ROUNDS)
        models, choices, used = wanted["thetas"], wanted["assignments"][1:], wanted["clusters"][1:]
    else:
        model, models, choices = start, [], []
        for mask in masks:
            model = reference.ifca(present(nodes, mask), model, rate, 1)["thetas"][0]
            models.append(model)
            choices.append(reference.ifca_assignment(nodes, model))
        models, choices = np.array(models), np.array(choices)
        used = [len(set(row.tolist()) - {-1}) for row in choices]
    heard = access_of(nodes)
    np.testing.assert_allclose(run.trace["server"], models, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(run.trace["clients"][:, heard], choices[:, heard])
    assert np.all(choices[:, ~heard] == -1)
    assert np.all(run.trace["clients"][:, ~heard] == 0)  # they read the first model
    np.testing.assert_array_equal(run.trace["nonempty"], used)
    chosen = models[-1][np.where(heard, choices[-1], 0)]
    np.testing.assert_allclose(run.estimate, chosen, rtol=0, atol=1e-9)
    assert np.abs(np.diff(models[1:], axis=0)).max() > 1e-3
    return choices, used


@pytest.mark.kin(1)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("hidden", "asynchronous"), [((1, 4), True), ((), False)])
def test_clustering_is_the_reference(hidden, asynchronous):
    nodes = draw(hidden=hidden, spread=0.6)
    masks = random_masks() if asynchronous else None
    choices, _ = check_clustering(nodes, first_models(nodes), 0.4, masks)
    assert len({tuple(row) for row in choices.tolist()}) > 1  # some node changes its mind


@pytest.mark.usefixtures("x64")
def test_clustering_of_random_starts():
    """Large steps and poor starts: models lose all their nodes, and others gain some."""
    used = set()
    for seed in range(4):
        start = np.random.default_rng(seed).standard_normal((3, 3))
        _, counts = check_clustering(draw(spread=0.6), start, 0.4)
        used |= set(np.asarray(counts).tolist())
    assert len(used) > 1


@pytest.mark.usefixtures("x64")
def test_gradients_are_divided_by_the_number_of_all_nodes():
    nodes = draw()
    start = np.zeros((1, 3))
    run = follow(ifca(start, 0.4), regression(nodes), rounds=1)
    slopes = sum(reference.squared_gradient(node, start[0]) for node in nodes)
    np.testing.assert_allclose(run.estimate[0], -0.4 / NODES * slopes, rtol=1e-12)
    assert np.sum(access_of(nodes)) != NODES


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_clustering_finds_what_the_oracle_knows_from_a_good_start():
    nodes = draw(spread=0.0, m=8)
    problem = regression(nodes)
    oracle = reference.cluster_oracle(nodes, LABELS)
    start = oracle[[0, 1]] + 0.2 * np.random.default_rng(1).standard_normal((2, 3))
    solver = ifca(start, 0.5)
    run = follow(solver, problem, rounds=1000)
    heard = access_of(nodes)
    np.testing.assert_allclose(run.estimate[heard], oracle[heard], rtol=0, atol=1e-9)
    np.testing.assert_array_equal(run.state.solver.clients[heard], LABELS[heard])
    mine = pool(problem, LABELS).oracle
    np.testing.assert_allclose(run.estimate[heard], mine[heard], rtol=0, atol=1e-9)
    assert int(solver.nonempty(problem, run.state.solver)) == 2


@pytest.mark.usefixtures("x64")
def test_a_model_that_nobody_uses_is_told():
    nodes = draw()
    problem = regression(nodes)
    start = np.array([[90.0, 90.0, 90.0], [0.0, 0.0, 0.0], [-80.0, 90.0, -90.0]])
    solver = ifca(start, 0.3)
    run = follow(solver, problem, rounds=20)
    assert int(solver.nonempty(problem, run.state.solver)) == 1
    # The inaccessible nodes read the first model, which does not count as its use.
    np.testing.assert_array_equal(run.state.solver.clients, np.where(access_of(nodes), 1, 0))
    np.testing.assert_array_equal(run.state.solver.server[::2], start[::2])


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_clustering_with_a_regulariser_is_stationary_whoever_says_what_is_accessible():
    """A problem of one's own, without `accessible`: all are heard."""
    problem, rate = quadratics(), 0.5
    start = np.stack([np.ones(5), -np.ones(5)])
    solver = ifca(start, rate, regularizer=penalties.l1(0.05))
    run = fa.run(solver, problem, jax.random.key(0), rounds=2000)
    state = run.state.solver
    assert int(solver.nonempty(problem, state)) == 2
    slopes = problem.gradients(run.estimate)
    for j in range(2):
        slope = jnp.sum(jnp.where((state.clients == j)[:, None], slopes, 0), 0) / 10
        off = penalties.l1(0.05).optimality(state.server[j], slope)
        np.testing.assert_allclose(off, 0, atol=1e-10)
    assert np.any(np.asarray(state.server) == 0)
    # Where few take part, the regulariser counts no more than the losses do, and nobody is no step.
    nobody = fa.RoundInfo(jnp.int32(0), jax.random.key(1), jnp.zeros(10, bool))
    np.testing.assert_array_equal(solver.step(problem, state, nobody).server, state.server)
    one = fa.RoundInfo(jnp.int32(0), jax.random.key(2), jnp.arange(10) == 3)
    moved = solver.step(problem, state, one).server
    j = int(state.clients[3])
    wanted = penalties.l1(0.05).prox(state.server[j] - rate / 10 * slopes[3], rate / 10)
    np.testing.assert_allclose(moved[j], wanted, rtol=0, atol=1e-14)


# --- pooled models ------------------------------------------------------------------------------

TOLERANCE = {"float32": 1e-3, "float64": 1e-8}
# Samples per node, features and scale; singular for a node, a cluster, everybody.
SHAPES = {
    "regular": (5, 3, "sum"),
    "singular nodes": (2, 5, "sum"),
    "singular clusters": (2, 12, "mean"),
    "singular together": (2, 20, "sum"),
    "one sample": (1, 5, "mean"),
}


class Pooled(NamedTuple):
    """All that can be learned from pooled data."""

    local: jax.Array
    oracle: jax.Array
    clusters: jax.Array
    common: jax.Array


@partial(jax.jit, static_argnames="clusters")
def pool(problem, labels, clusters=2):
    return Pooled(
        local_models(problem),
        cluster_oracle(problem, labels, clusters=clusters),
        cluster_models(problem, labels, clusters=clusters),
        pooled_model(problem),
    )


def pool_by_hand(nodes):
    oracle = reference.cluster_oracle(nodes, LABELS)
    common = np.broadcast_to(reference.pooled_model(nodes), oracle.shape)
    return Pooled(reference.local_models(nodes), oracle, oracle[:2], common)


def check_close(found, wanted, dtype):
    for name, mine, theirs in zip(Pooled._fields, found, wanted, strict=True):
        assert mine.dtype == dtype
        atol = TOLERANCE[dtype.name] * np.abs(theirs).max()
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=atol, err_msg=name)


@pytest.mark.kin(1)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("shape", SHAPES)
def test_pooled_models_are_the_least_squares_of_minimum_norm(shape):
    m, dim, scale = SHAPES[shape]
    nodes = draw(m=m, dim=dim)
    if scale == "sum":
        nodes = [replace(node, scale=float(m)) for node in nodes]
    problem = regression(nodes, scale=scale)
    check_close(pool(problem, LABELS), pool_by_hand(nodes), np.dtype(np.float64))


@pytest.mark.thorough
def test_samples_that_repeat_leave_directions_unseen(dtype):
    """Singular although there are more samples than features."""
    nodes = draw(m=6, dim=3, noise=0.0)
    for node in nodes:
        node.x[:, 2] = 0.5 * node.x[:, 0] - node.x[:, 1]
    check_close(pool(regression(nodes), LABELS), pool_by_hand(nodes), dtype)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_ridge_of_pooled_models():
    nodes, ridge = draw(m=2, dim=12), np.linspace(0.1, 0.8, NODES)
    pooled = pool(regression(nodes, ridge=ridge), LABELS)
    for found, label in zip(pooled.clusters, (0, 1), strict=True):
        members = [i for i in np.flatnonzero(label == LABELS) if nodes[i].accessible]
        moment = sum(reference.second_moment(nodes[i]) for i in members)
        moment = moment + ridge[members].sum() * np.eye(12)
        right = sum(reference.cross_moment(nodes[i]) for i in members)
        np.testing.assert_allclose(found, np.linalg.solve(moment, right), rtol=0, atol=1e-10)
    for i, node in enumerate(nodes):
        moment = reference.second_moment(node) + ridge[i] * np.eye(12)
        wanted = np.linalg.solve(moment, reference.cross_moment(node))
        np.testing.assert_allclose(
            pooled.local[i], wanted if node.accessible else 0, rtol=0, atol=1e-10
        )


@pytest.mark.thorough
def test_clusters_without_data_get_zero(dtype):
    nodes = draw(hidden=(0, 2, 4, 6))  # all of cluster 0
    problem = regression(nodes)
    found = jax.tree.map(np.asarray, pool(problem, LABELS, clusters=4))
    assert np.all(found.oracle[LABELS == 0] == 0)
    assert np.all(found.oracle[LABELS == 1] != 0)
    assert np.all(found.clusters[[0, 2, 3]] == 0)
    assert np.all(found.clusters[1] != 0)
    assert np.all(found.local[LABELS == 0] == 0)
    nobody = pool(with_access(problem, jnp.zeros(NODES, bool)), LABELS, clusters=4)
    assert all(np.all(part == 0) for part in nobody)


# --- messages -----------------------------------------------------------------------------------


@pytest.mark.kin(1)
@pytest.mark.parametrize(
    ("build", "traffic"),
    [
        (lambda: fed_avg(0.03), (3, 3)),
        (lambda: fed_avg_prox(), (4, 3)),  # and the length of its step
        (lambda: ifca(np.eye(3)[:2], 0.1), (4, 6)),
    ],
    ids=["gradient", "prox", "ifca"],
)
def test_messages_are_of_nodes_present_and_accessible(build, traffic):
    nodes, masks = draw(), random_masks()
    problem, solver = regression(nodes), build()
    wanted = (masks & access_of(nodes)).sum(1)
    assert wanted[7] == wanted[30] == 0
    assert masks[30].any()
    trace = follow(solver, problem, masks).trace
    np.testing.assert_array_equal(trace["messages"], wanted)
    assert solver.traffic(problem) == fa.Traffic(*traffic)
    sent = fa.traffic.totals(solver.traffic(problem), trace["messages"])
    np.testing.assert_array_equal(sent.up, traffic[0] * np.cumsum(wanted))
    np.testing.assert_array_equal(sent.down, traffic[1] * np.cumsum(wanted))
    assert solver.participants(problem) == (NODES,)


# --- mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: fed_avg(0), "rate must be greater than 0, but it is 0."),
        (lambda: fed_avg([0.1, 0.2]), "rate must be one number, but it has shape (2,)"),
        (
            lambda: fed_avg(0.1, local_steps=0),
            "local_steps must be at least 1, but it is 0.",
        ),
        (
            lambda: fed_avg(0.1, local_steps=1.5),
            "local_steps must be a whole number, but it is 1.5.",
        ),
        (lambda: fed_avg_prox(-1), "ratio must be greater than 0, but it is -1."),
        (lambda: ifca(np.zeros(3)), "start must have shape (any, any), but it has (3,)."),
        (
            lambda: ifca([[np.nan, 1.0]]),
            "start must be finite, but entry (0, 0) is nan; remove or repair",
        ),
        (lambda: ifca(np.eye(2), 0.0), "rate must be greater than 0, but it is 0."),
    ],
)
def test_mistakes_of_builders_get_a_sentence(build, sentence):
    with pytest.raises(fa.InputError) as caught:
        build()
    assert str(caught.value).startswith(sentence)


def labelled_problem():
    nodes = draw()
    y = [np.where(node.y < 0, -1.0, 1.0) for node in nodes]
    return networked_logistic(graph(), [node.x for node in nodes], y)


@pytest.mark.parametrize(
    ("build", "labels", "clusters", "sentence"),
    [
        (
            labelled_problem,
            LABELS,
            2,
            "problem must have a squared loss, but it has LogisticLoss; train one model on the",
        ),
        (
            lambda: regression(draw(), l1=0.1),
            LABELS,
            2,
            "problem must have a squared loss, but it has LassoLoss; train one model on the",
        ),
        (
            lambda: regression(draw()),
            LABELS[:5],
            2,
            "labels must have shape (8,), but it has (5,).",
        ),
        (lambda: regression(draw()), LABELS, 0, "clusters must be at least 1, but it is 0."),
        (lambda: regression(draw()), LABELS, 2.0, "clusters must be a whole number, but it is 2."),
    ],
)
def test_mistakes_of_the_oracle_get_a_sentence(build, labels, clusters, sentence):
    with pytest.raises(fa.InputError) as caught:
        cluster_oracle(build(), labels, clusters=clusters)
    assert str(caught.value).startswith(sentence)


def test_pooling_needs_a_squared_loss():
    with pytest.raises(fa.InputError, match=r"must have a squared loss, but it has LogisticLoss"):
        pooled_model(labelled_problem())
    with pytest.raises(fa.InputError, match=r"must have a squared loss, but it has LogisticLoss"):
        with_access(labelled_problem(), jnp.ones(NODES, bool))


@pytest.mark.parametrize(
    ("solver", "offered", "missing"),
    [
        (fed_avg(0.1), ("prox", "prox_memory"), r"gradients \(Gradients\)"),
        (fed_avg_prox(), ("graph", "gradients"), r"prox_memory and prox \(Prox\)"),
        (
            fed_avg_prox(),
            ("gradients", "prox", "prox_memory"),
            r"graph \(OnGraph\)",
        ),
        (ifca(np.eye(2), 0.1), ("gradients",), r"values \(Values\)"),
    ],
)
def test_problems_that_lack_something_are_told(solver, offered, missing):
    problem = SimpleNamespace(
        **dict.fromkeys(("num_clients", "start", "accessible", *offered), 1.0)
    )
    with pytest.raises(fa.InputError, match=f"needs a problem with {missing}, which"):
        fa.run(solver, problem, jax.random.key(0), rounds=1)
