"""GTV minimisation: trajectories of models and flows, step ratio, messages, mistakes."""

import math
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from optax import adam

import fedjax_admm as fa
from fedjax_admm import participation, penalties
from fedjax_admm.graphs import Graph
from fedjax_admm.problems import (
    networked_logistic,
    networked_regression,
    networked_training,
    with_access,
)
from fedjax_admm.solvers import gtv_primal_dual, gtv_step_ratio
from tests.reference import networked as reference

ROUNDS = 80
RAGGED = [1, 4, 2, 7, 3, 5, 1, 6, 2, 2, 9]
REGULAR = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 0.8]])
SINGULAR = np.array([[2.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])

# What both sides call a penalty: the package's builder, the reference's name and its matrix.
PENALTIES = {
    "nlasso": (penalties.network_lasso, "nlasso", None),
    "l1": (penalties.entrywise_l1, "l1", None),
    "mocha": (penalties.mocha, "mocha", None),
    "squared": (penalties.squared_difference, "squared", None),
    "quadratic, regular": (partial(penalties.quadratic_difference, REGULAR), "quadratic", REGULAR),
    "quadratic, singular": (
        partial(penalties.quadratic_difference, SINGULAR),
        "quadratic",
        SINGULAR,
    ),
}


class Network(NamedTuple):
    """Nodes and edges as the reference takes them."""

    nodes: list[reference.Node]
    edges: np.ndarray
    weights: np.ndarray
    labels: np.ndarray


def draw(seed=0, *, m=5, dim=3, sizes=(6, 5), hidden=(1, 7), isolated=(3,), unit=False):
    """Draw two clusters; `m` is a number or one per node, `hidden` nodes are inaccessible.

    `isolated` nodes have no neighbours.
    """
    rng = np.random.default_rng(seed)
    edges, weights, labels = reference.draw_sbm(rng, sizes, 0.7, 0.2)
    if not unit:
        weights = weights * rng.uniform(0.3, 2.0, len(weights))
    kept = ~np.isin(edges, isolated).any(1)
    centres = rng.standard_normal((len(sizes), dim))
    truths = centres[labels] + 0.2 * rng.standard_normal((len(labels), dim))
    counts = np.broadcast_to(m, len(labels))
    nodes = [
        reference.draw_nodes(rng, truths[i : i + 1], int(counts[i]), 0.1)[0]
        for i in range(len(labels))
    ]
    for i in hidden:
        nodes[i].accessible = False
    network = Network(nodes, edges[kept], weights[kept], labels)
    alone = reference.degrees(len(nodes), network.edges, network.weights) == 0
    assert set(np.flatnonzero(alone)) == set(isolated)
    return network


def graph_of(network):
    heads, tails = np.asarray(network.edges, np.int32).T
    return Graph(
        jnp.asarray(heads), jnp.asarray(tails), jnp.asarray(network.weights), len(network.nodes)
    )


def data_of(network):
    return (
        graph_of(network),
        [node.x for node in network.nodes],
        [node.y for node in network.nodes],
    )


def access_of(network):
    return np.array([node.accessible for node in network.nodes])


def regression(network, **options):
    return networked_regression(*data_of(network), accessible=access_of(network), **options)


def summed(network):
    """Let every node's loss be the sum over its samples."""
    for node in network.nodes:
        node.scale = float(len(node.y))
    return network


def models_and_flows(solver, problem, state):
    return {"w": state.nodes.w, "u": state.u}


def follow(solver, problem, rounds=ROUNDS, masks=None):
    # Everybody is a mask too: both kinds of run share a program.
    everybody = np.ones((rounds, problem.num_clients), bool)
    process = participation.replay(everybody if masks is None else masks)
    return fa.run(
        solver,
        problem,
        jax.random.key(0),
        rounds=rounds,
        participation=process,
        measure=models_and_flows,
    ).trace


def compare(
    network,
    problem,
    penalty="nlasso",
    *,
    lam=0.1,
    ratio=1.0,
    margin=0.5,
    masks=None,
    rounds=ROUNDS,
    atol=1e-9,
    **theirs,
):
    """Run both sides, compare every model and every flow of every round, return the reference's."""
    build, name, matrix = PENALTIES[penalty]
    solver = gtv_primal_dual(problem, lam, build(), ratio=ratio, margin=margin)
    trace = follow(solver, problem, rounds, masks)
    w, u = reference.primal_dual(
        network.nodes,
        network.edges,
        network.weights,
        lam,
        name,
        ratio,
        rounds,
        margin,
        masks=masks,
        matrix=matrix,
        **theirs,
    )
    np.testing.assert_allclose(trace["w"], w, rtol=0, atol=atol)
    np.testing.assert_allclose(trace["u"], u, rtol=0, atol=atol)
    # The comparison is worth something: the run goes somewhere, and not in one step.
    assert np.abs(np.diff(w[3:], axis=0)).max() > 1e-3
    assert np.abs(u[-1]).max() > 1e-2
    return w, u


# --- trajectories against the reference ---------------------------------------------------------


@pytest.mark.kin(1)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("penalty", "asynchronous"),
    [*((penalty, False) for penalty in PENALTIES), ("nlasso", True)],
)
def test_every_penalty_with_the_squared_loss(penalty, asynchronous):
    network = draw()
    masks = random_masks(len(network.nodes)) if asynchronous else None
    _, u = compare(network, regression(network), penalty, lam=0.15, masks=masks)
    radius = 0.15 * network.weights
    size = {
        "nlasso": np.linalg.norm(u[-1], axis=-1),
        "l1": np.abs(u[-1]).max(-1),
    }.get(penalty)
    if size is not None:  # some edges are at the bound, and some inside
        bound = size >= radius * (1 - 1e-9)
        assert bound.any()
        assert not bound.all()


def random_masks(nodes, rounds=ROUNDS, seed=5):
    """Return masks with a round, and a stretch of rounds, of nobody."""
    masks = np.random.default_rng(seed).random((rounds, nodes)) < 0.6
    masks[0] = masks[10] = False
    masks[20:24] = False
    return masks


def ridge_local(ridge, node):
    matrix = reference.second_moment(node) + ridge * np.eye(node.dim)
    return np.linalg.solve(matrix, reference.cross_moment(node))


def both(network, prox, **options):
    """Return a network, its problem and how the reference solves a node."""
    return network, regression(network, **options), {"prox": prox}


def ridge_per_node():
    network = draw()
    ridges = np.linspace(0.0, 1.0, len(network.nodes))
    place = {id(node): i for i, node in enumerate(network.nodes)}

    def prox(node, v, tau, w):
        return reference.prox_squared(node, v, tau, ridges[place[id(node)]])

    network, problem, theirs = both(network, prox, ridge=ridges)
    return network, problem, theirs | {"local": partial(ridge_local, ridges[3])}


def ragged_sums():
    return both(summed(draw(m=RAGGED)), None, scale="sum")


def lasso():
    def prox(node, v, tau, w):
        return reference.prox_lasso(node, v, tau, 0.05, 7, w)

    def local(node):
        return reference.prox_lasso_exact(node, np.zeros(3), math.inf, 0.05)

    network, problem, theirs = both(draw(), prox, l1=0.05, inner_steps=7)
    return network, problem, theirs | {"local": local}


def labelled(network):
    for node in network.nodes:
        node.y = np.where(node.y < 0, -1.0, 1.0)
    return network


def logistic():
    network = labelled(draw())
    problem = networked_logistic(*data_of(network), accessible=access_of(network))
    return (
        network,
        problem,
        {
            "prox": lambda node, v, tau, w: reference.prox_logistic(node, v, tau),
            # Alone, a node has a small ridge: data that can be separated have no minimiser.
            "local": lambda node: reference.prox_logistic(node, np.zeros(3), 1e4),
        },
    )


LOSSES = {
    "ridge per node": ridge_per_node,
    "ragged sums": ragged_sums,
    "lasso": lasso,
    "logistic": logistic,
}


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_with_network_lasso(loss):
    network, problem, theirs = LOSSES[loss]()
    compare(network, problem, lam=0.1, ratio=1.7, **theirs)


# --- training by an optimiser of optax ----------------------------------------------------------

RATE, STEPS, SOLO = 0.02, 3, 40


def squared_error(w, x, y):
    return (jnp.vdot(x, w) - y) ** 2


def first_models(network):
    return np.random.default_rng(9).standard_normal((len(network.nodes), network.nodes[0].dim))


def training(network, **options):
    graph, x, y = data_of(network)
    options = {"steps": STEPS, "solo_steps": SOLO, "rate": RATE} | options
    return networked_training(
        graph,
        np.stack(x),
        np.stack(y),
        squared_error,
        first_models(network),
        accessible=access_of(network),
        **options,
    )


def first_iterates(network):
    return first_models(network), np.zeros((len(network.edges), network.nodes[0].dim))


@pytest.mark.kin(1)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("warm", "asynchronous"), [(True, True), (False, False)])
def test_gradient_steps_from_either_start(warm, asynchronous):
    network = draw()
    first = first_models(network)
    place = {id(node): i for i, node in enumerate(network.nodes)}

    def prox(node, v, tau, w):
        return reference.prox_gradient_steps(node, v, tau, STEPS, RATE, w if warm else v)

    def local(node):
        start = first[place[id(node)]]
        return reference.prox_gradient_steps(node, start, math.inf, SOLO, RATE, start)

    compare(
        network,
        training(network, warm=warm),
        masks=random_masks(len(network.nodes)) if asynchronous else None,
        ratio=0.8,
        prox=prox,
        local=local,
        start=first_iterates(network),
    )


@pytest.mark.usefixtures("x64")
def test_training_without_an_anchor():
    network = draw()

    def prox(node, v, tau, w):
        return reference.prox_gradient_steps(node, v, math.inf, STEPS, RATE, v)

    compare(
        network,
        training(network, warm=False, anchored=False, solo_steps=STEPS),
        prox=prox,
        local=lambda node: prox(node, first_models(network)[3], 1.0, None),
        start=first_iterates(network),
    )


class Adam:
    """Adam of one node as its authors state it; it remembers its moments between rounds."""

    def __init__(self, dim):
        self.first, self.second, self.count = np.zeros(dim), np.zeros(dim), 0

    def __call__(self, slope):
        self.count += 1
        self.first = 0.9 * self.first + 0.1 * slope
        self.second = 0.999 * self.second + 0.001 * slope**2
        first = self.first / (1 - 0.9**self.count)
        second = self.second / (1 - 0.999**self.count)
        return -RATE * first / (np.sqrt(second) + 1e-8)


@pytest.mark.usefixtures("x64")
def test_an_optimizer_remembers_from_round_to_round():
    """A node that is absent keeps the moments too."""
    network = draw()
    adams = {id(node): Adam(node.dim) for node in network.nodes}

    def descend(node, v, tau, z, steps):
        for _ in range(steps):
            slope = reference.squared_gradient(node, z) + (z - v) / tau
            z = z + adams[id(node)](slope)
        return z

    def prox(node, v, tau, w):
        return descend(node, v, tau, w, STEPS) if node.accessible else v.copy()

    def local(node):
        start = first_models(network)[3]
        return descend(node, start, math.inf, start, SOLO)

    compare(
        network,
        training(network, optimizer=adam),
        masks=random_masks(len(network.nodes)),
        prox=prox,
        local=local,
        start=first_iterates(network),
    )


# --- steps, weights, access, graphs -------------------------------------------------------------


@pytest.mark.kin(1)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("ratio", "margin", "penalty"), [(0.2, 0.45, "nlasso"), (5.0, 0.5, "mocha")]
)
def test_ratio_and_margin_of_the_steps(ratio, margin, penalty):
    network = draw()
    compare(network, regression(network), penalty, ratio=ratio, margin=margin)


@pytest.mark.usefixtures("x64")
def test_nodes_without_neighbours_stay_at_their_own_minimiser():
    isolated = (2, 7, 9)  # 7 is not accessible
    network = draw(m=2, isolated=isolated)
    w, _ = compare(network, regression(network), masks=random_masks(len(network.nodes)))
    own = reference.local_models(network.nodes)[list(isolated)]
    np.testing.assert_allclose(w[:, isolated], np.broadcast_to(own, (ROUNDS, 3, 3)))
    assert np.all(own[1] == 0)
    assert np.all(own[[0, 2]] != 0)


@pytest.mark.usefixtures("x64")
def test_a_graph_without_edges_that_are_there():
    network = draw(m=2)
    none = network._replace(weights=np.zeros_like(network.weights))
    problem = regression(none)
    result = fa.run(gtv_primal_dual(problem, 0.1, ratio=1.0), problem, jax.random.key(0), rounds=5)
    np.testing.assert_allclose(
        result.estimate, reference.local_models(network.nodes), rtol=0, atol=1e-12
    )
    assert np.all(result.state.solver.u == 0)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_node_weights_of_sums_with_the_step_of_one_node_per_cluster():
    """Weights m degree_i / degree_c of the means: sums, and the step of node c for its cluster."""
    network = draw(hidden=())
    degrees = reference.degrees(len(network.nodes), network.edges, network.weights)
    degrees = np.maximum(degrees, 1)
    factors = 5 * degrees / degrees[network.labels]
    accessible = np.arange(len(network.nodes)) % 4 != 3
    problem = with_access(
        regression(network), jnp.asarray(accessible), node_weights=jnp.asarray(factors)
    )
    for i, node in enumerate(network.nodes):
        node.accessible, node.scale = bool(accessible[i]), factors[i]
    compare(network, problem, margin=0.45)

    # Without weights it is the problem built with that access; values and gradients agree.
    plain = with_access(regression(draw(hidden=())), jnp.asarray(accessible))
    direct = regression(draw(hidden=(3, 7)))
    for one, other in zip(
        jax.tree.leaves((plain.local, plain.accessible)),
        jax.tree.leaves((direct.local, direct.accessible)),
        strict=True,
    ):
        np.testing.assert_allclose(one[accessible], other[accessible], rtol=0, atol=1e-12)
    models = jnp.asarray(first_models(network))
    theirs = [
        reference.squared_loss(node, w) for node, w in zip(network.nodes, models, strict=True)
    ]
    slopes = [
        reference.squared_gradient(node, w) for node, w in zip(network.nodes, models, strict=True)
    ]
    np.testing.assert_allclose(problem.values(models), theirs, rtol=1e-12)
    np.testing.assert_allclose(problem.gradients(models), slopes, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_absent_nodes_keep_their_models_and_their_edges_their_flows():
    network = draw()
    problem = regression(network)
    masks = random_masks(len(network.nodes))
    trace = follow(gtv_primal_dual(problem, 0.1, ratio=1.0), problem, masks=masks)
    w, u = np.asarray(trace["w"]), np.asarray(trace["u"])
    for index in range(1, ROUNDS):
        np.testing.assert_array_equal(w[index][~masks[index]], w[index - 1][~masks[index]])
        working = masks[index][network.edges].all(1)
        np.testing.assert_array_equal(u[index][~working], u[index - 1][~working])
    np.testing.assert_array_equal(w[20:24], np.broadcast_to(w[19], (4, *w[19].shape)))


# --- limits -------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("shape", "penalty"), [("star", "nlasso"), ("chain", "l1")])
def test_one_model_for_all_exactly_above_the_critical_coupling(shape, penalty):
    rng = np.random.default_rng(2)
    nodes = reference.draw_nodes(rng, rng.standard_normal((6, 2)), 5, 0.1)
    if shape == "star":
        edges, weights = reference.star(6)
        critical = reference.critical_lambda_star
    else:
        edges, weights, _ = reference.chain((3, 3), 0.4)
        critical = reference.critical_lambda_tree
    smallest = critical(edges, weights, nodes, {"nlasso": "l2", "l1": "linf"}[penalty])
    network = Network(nodes, edges, weights, np.zeros(6, int))
    problem = regression(network)
    common = reference.pooled_model(nodes)
    spread = {}
    for factor in (0.95, 1.05):
        solver = gtv_primal_dual(problem, factor * smallest, PENALTIES[penalty][0](), ratio=1.0)
        estimate = fa.run(solver, problem, jax.random.key(0), rounds=4000).estimate
        spread[factor] = np.abs(np.asarray(estimate) - common).max()
    assert spread[1.05] < 1e-8
    assert spread[0.95] > 1e-3


# --- the choice of the ratio --------------------------------------------------------------------


def length_by_hand(network, ranks):
    """Return the median length of the accessible nodes' own models, blind directions included."""
    own = reference.local_models(network.nodes)
    dim = own.shape[1]
    return np.median(
        [
            np.linalg.norm(w) * math.sqrt(dim / rank)
            for w, rank, node in zip(own, ranks, network.nodes, strict=True)
            if node.accessible
        ]
    )


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("m", "dim"), [(5, 3), (2, 3), (2, 8)])
def test_ratio_by_its_formula(m, dim):
    network = draw(m=m, dim=dim)
    problem = regression(network)
    length = length_by_hand(network, [min(m, dim)] * len(network.nodes))
    for lam, rounds in ((0.01, 100), (0.001, 1000), (0.3, 40)):
        wanted = max(1.0, 20 * length / (lam * rounds))
        assert wanted > 1
        assert float(gtv_step_ratio(problem, lam, rounds)) == pytest.approx(wanted, rel=1e-12)
    assert float(gtv_step_ratio(problem, 10.0, 1000)) == 1
    chosen = gtv_primal_dual(problem, 0.01, rounds=100).ratio
    assert float(chosen) == pytest.approx(20 * length / (0.01 * 100), rel=1e-12)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_ratio_counts_directions_that_data_see():
    """Ragged nodes, and one whose samples are all the same: ranks differ."""
    network = draw(m=RAGGED)
    node = network.nodes[3]
    node.x, node.y = np.tile(node.x[:1], (7, 1)), np.full(7, 1.5)
    ranks = [np.linalg.matrix_rank(node.x) for node in network.nodes]
    assert ranks[3] == 1
    length = length_by_hand(network, ranks)
    found = gtv_step_ratio(regression(network), 0.01, 100)
    assert float(found) == pytest.approx(20 * length, rel=1e-9)


@pytest.mark.thorough
def test_ratio_without_any_data_is_one():
    problem = regression(draw())
    nobody = with_access(problem, jnp.zeros(problem.num_clients, bool))
    assert float(gtv_step_ratio(nobody, 1e-4, 10)) == 1


# --- messages -----------------------------------------------------------------------------------


def test_messages_along_edges_counted_by_hand():
    network = draw(seed=1, dim=4)
    weights = network.weights.copy()
    weights[[2, 11]] = 0
    network = network._replace(weights=weights)
    problem = regression(network)
    solver = gtv_primal_dual(problem, 0.1, ratio=1.0)
    masks = random_masks(len(network.nodes), rounds=30)
    run = partial(fa.run, solver, problem, jax.random.key(0), rounds=30)
    trace = run(participation=participation.replay(masks)).trace
    wanted = []
    for mask in masks:
        count = 0
        for (head, tail), weight in zip(network.edges, weights, strict=True):
            count += bool(weight > 0 and mask[head] and mask[tail])
        wanted.append(count)
    assert wanted[0] == wanted[20] == 0
    assert len(set(wanted)) > 5
    np.testing.assert_array_equal(trace["messages"], wanted)

    # Inaccessible nodes pass messages on: they count.
    everybody = run(every=10)
    np.testing.assert_array_equal(everybody.trace["messages"], 3 * [10 * (len(weights) - 2)])

    assert solver.traffic(problem) == fa.Traffic(4, 4)
    sent = fa.traffic.totals(solver.traffic(problem), trace["messages"])
    np.testing.assert_array_equal(sent.up, 4 * np.cumsum(wanted))
    np.testing.assert_array_equal(sent.down, 4 * np.cumsum(wanted))
    np.testing.assert_array_equal(solver.participants(problem), [len(network.nodes)])


# --- mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"lam": 0.0}, "lam must be greater than 0, but it is 0."),
        ({"lam": [0.1, 0.2]}, "lam must be one number, but it has shape (2,); use jax.vmap"),
        ({"ratio": 0}, "ratio must be greater than 0, but it is 0."),
        ({"ratio": [1.0]}, "ratio must be one number, but it has shape (1,)"),
        ({"margin": 0.6}, "margin must be at most 0.5, but it is 0.6."),
        ({"margin": 0.0}, "margin must be greater than 0, but it is 0."),
        ({"rounds": 0, "ratio": None}, "rounds must be at least 1, but it is 0."),
        (
            {"penalty": penalties.l1(1.0)},
            "penalty must be a penalty of edges, such as network_lasso(), but it is ",
        ),
        (
            {"penalty": penalties.mocha},
            "penalty must be a penalty of edges, such as network_lasso(), but it is ",
        ),
    ],
)
def test_mistakes_get_a_sentence(arguments, sentence):
    problem = regression(draw())
    with pytest.raises(fa.InputError) as caught:
        gtv_primal_dual(problem, **({"lam": 0.1, "ratio": 1.0} | arguments))
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("lam", [0.0, -1.0])
def test_ratio_needs_a_positive_coupling(lam):
    with pytest.raises(fa.InputError, match=r"lam must be greater than 0, but it is"):
        gtv_step_ratio(regression(draw()), lam, 100)


def test_a_problem_without_a_graph_is_told():
    solver = gtv_primal_dual(None, 0.1, ratio=1.0)
    offered = ("num_clients", "start", "prox", "prox_memory", "minimizers")
    problem = SimpleNamespace(**dict.fromkeys(offered, 1.0))
    sentence = (
        r"^GTVPrimalDual needs a problem with graph \(OnGraph\), which SimpleNamespace lacks; "
        r"problems\.federated, networked_logistic, networked_regression and networked_training "
        r"have it\.$"
    )
    with pytest.raises(fa.InputError, match=sentence):
        fa.run(solver, problem, jax.random.key(0), rounds=1)
