"""Certificates: against all subsets, against the solver, and what is said and refused."""

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import InputError, graphs
from fedjax_admm.certificates import _clusters as certificates, critical_lambda, explain_clusters
from fedjax_admm.penalties import (
    entrywise_l1,
    mocha,
    network_lasso,
    squared_difference,
)
from fedjax_admm.problems import networked_regression, with_access
from fedjax_admm.solvers import gtv_primal_dual

PENALTIES = [network_lasso(), entrywise_l1()]
DUAL_NORMS = {"NetworkLasso": 2, "EntrywiseL1": np.inf}
both_penalties = pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: type(p).__name__)


def dual_norm(penalty, rows):
    return np.linalg.norm(rows, DUAL_NORMS[type(penalty).__name__], -1)


def regression(rng, graph, truth, samples=5, noise=0.0, accessible=None, ridge=0.0):
    nodes, dim = truth.shape
    x = rng.standard_normal((nodes, samples, dim))
    y = np.einsum("nmd,nd->nm", x, truth) + noise * rng.standard_normal((nodes, samples))
    return networked_regression(graph, list(x), list(y), accessible=accessible, ridge=ridge)


def simple(graph, targets, accessible=None):
    """Build `L_i(w) = ||w - target_i||^2`, so that beta_i = 2."""
    targets = np.asarray(targets, float)
    dim = targets.shape[1]
    x = [np.sqrt(dim) * np.eye(dim)] * len(targets)
    return networked_regression(graph, x, list(np.sqrt(dim) * targets), accessible=accessible)


def random_edges(rng, nodes, share):
    """Draw edges, at least one."""
    pairs = np.array(list(combinations(range(nodes), 2)))
    chosen = rng.random(len(pairs)) < share
    chosen[rng.integers(len(pairs))] = True
    return pairs[chosen]


def two_blocks(seed, size, inside, outside):
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1], size)
    share = np.where(labels[:, None] == labels, inside, outside)
    edges = np.argwhere(np.triu(rng.random(share.shape) < share, 1))
    truth = np.where(labels[:, None] == 0, [2.0, 2.0], [-2.0, 2.0])
    return rng, graphs.from_edges(2 * size, edges), labels, truth


def solve(problems, lams, penalty, rounds):
    """Solve networks of the same size, each for its own lam, in one program."""

    def one(problem, lam):
        solver = gtv_primal_dual(problem, lam, penalty, ratio=1.0)
        return fa.run(solver, problem, jax.random.key(0), rounds=rounds).estimate

    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *problems)
    return np.asarray(jax.jit(jax.vmap(one))(stacked, np.asarray(lams)))


def spread(models):
    return np.ptp(models, axis=0).max()


def distance(models, model):
    return np.linalg.norm(models - model, axis=1).max()


# --- the condition, from its definition ---


def weights_between(graph):
    matrix = np.zeros((graph.num_nodes,) * 2)
    heads, tails = np.asarray(graph.heads), np.asarray(graph.tails)
    matrix[heads, tails] = graph.weights
    return matrix + matrix.T


def demands(problem, labels, cluster, lam, penalty):
    """Return the nodes of a cluster and their demands, with plain loops."""
    weights = weights_between(problem.graph)
    nodes = [i for i, label in enumerate(labels) if label == cluster]
    local = problem.local
    gram, right = [], []
    for i in nodes:
        x, y, c = (np.asarray(a[i]) for a in (local.features, local.targets, local.weights))
        gram.append(x.T @ np.diag(c) @ x + float(local.ridge[i]) * np.eye(x.shape[1]))
        right.append(x.T @ (c * y))
    alpha = 2 * np.linalg.eigvalsh(sum(gram))[0]
    model = np.linalg.solve(sum(gram), sum(right))
    outgoing = [weights[i, [label != cluster for label in labels]].sum() for i in nodes]
    kappa = 1 if isinstance(penalty, type(network_lasso())) else np.sqrt(problem.dim)
    demand = []
    for q, r, o in zip(gram, right, outgoing, strict=True):
        beta = 2 * np.linalg.eigvalsh(q)[-1]
        delta = dual_norm(penalty, 2 * (q @ model - r))
        demand.append(o + kappa * beta * sum(outgoing) / alpha + delta / lam)
    bound = kappa * lam * sum(outgoing) / alpha
    return nodes, np.array(demand), model, bound


def smallest_slack(inside, demand):
    """Return the largest over roots of the smallest over sets of `cut - demand`."""
    size = len(demand)
    best = -np.inf
    for root in range(size):
        others = [i for i in range(size) if i != root]
        worst = np.inf
        for count in range(1, size):
            for chosen in combinations(others, count):
                rest = [i for i in range(size) if i not in chosen]
                cut = inside[np.ix_(chosen, rest)].sum()
                worst = min(worst, cut - demand[list(chosen)].sum())
        best = max(best, worst)
    return best


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("penalty", "first_roots"), [(network_lasso(), 3), (entrywise_l1(), 1)], ids=["l2", "l1"]
)
def test_flows_decide_as_all_subsets_do(x64, monkeypatch, penalty, first_roots):
    monkeypatch.setattr(certificates, "FIRST_ROOTS", first_roots)
    rng = np.random.default_rng(first_roots)
    seen = []
    for _ in range(30):
        nodes, size = 9, int(rng.integers(2, 8))
        edges = random_edges(rng, nodes, rng.choice([0.4, 0.7, 1.0]))
        leaving = (edges[:, 0] < size) & (edges[:, 1] >= size)
        weights = rng.uniform(0.2, 1.5, len(edges)) * np.where(leaving, rng.choice([0.05, 0.3]), 1)
        graph = graphs.from_edges(nodes, edges, weights, max_edges=36)
        truth = np.tile(rng.standard_normal(2), (nodes, 1))
        access = np.arange(nodes) % 3 > 0 if rng.random() < 0.5 else None
        problem = regression(rng, graph, truth, noise=0.1, accessible=access, samples=4)
        labels = ["in" if i < size else "out" for i in range(nodes)]
        lam = float(10 ** rng.uniform(-1.5, 1))

        found = explain_clusters(graph, problem, labels, lam, penalty).clusters[0]
        members, demand, model, bound = demands(problem, labels, "in", lam, penalty)
        np.testing.assert_array_equal(found.nodes, members)
        np.testing.assert_allclose(found.demand, demand, rtol=1e-9)
        np.testing.assert_allclose(found.model, model, rtol=1e-9)
        np.testing.assert_allclose(found.bound, bound, rtol=1e-9)
        inside = weights_between(graph)[:size, :size]
        slack = smallest_slack(inside, demand)
        assert abs(slack) > 1e-6 * demand.sum() or found.parts > 1
        assert found.well_connected == (slack > 0)
        assert found.conclusive
        assert (found.routable == 1) == found.well_connected
        seen.append((found.well_connected, found.parts == 1))
    # All three outcomes were there.
    assert min(seen.count(kind) for kind in [(True, True), (False, True), (False, False)]) >= 2


def test_equality_is_no_promise(x64):
    # Node 1 passes the boundary's weight 1 on to node 0, or node 0 sends its own share of it.
    for weight, promised in [(1.0, False), (1 + 1e-8, True), (1 - 1e-8, False)]:
        graph = graphs.from_edges(3, [(0, 1), (1, 2)], [weight, 1.0])
        problem = simple(graph, [[0.0], [0.0], [9.0]], accessible=[True, False, True])
        cluster = explain_clusters(graph, problem, [0, 0, 1], 0.5).clusters[0]
        np.testing.assert_allclose(cluster.demand, [1, 1], rtol=1e-12)
        assert cluster.well_connected is promised
        assert cluster.conclusive
        assert cluster.routable == pytest.approx(1)


def test_a_boundary_larger_than_all_weight_inside_can_be_fine(x64):
    # All of it is at the root, which has all data too: nothing has to be routed.
    graph = graphs.from_edges(5, [(0, 1), (0, 2), (0, 3), (0, 4)], [1.0, 1.0, 1.0, 100.0])
    problem = simple(graph, np.ones((5, 1)), accessible=[True, False, False, False, True])
    cluster = explain_clusters(graph, problem, [0, 0, 0, 0, 1], 1.0).clusters[0]
    assert (cluster.boundary, cluster.root, cluster.well_connected) == (100, 0, True)


# --- against the solver ---


@pytest.mark.thorough
@both_penalties
def test_trees_agree_from_the_critical_strength_on(x64, penalty):
    rng = np.random.default_rng(7)
    nodes, problems, lams = 8, [], []
    for case in range(8):
        parents = [0 if case < 2 else int(rng.integers(0, i)) for i in range(1, nodes)]
        order = rng.permutation(nodes)
        edges = [(order[i + 1], order[parent]) for i, parent in enumerate(parents)]
        weights = rng.uniform(0.5, 2, nodes - 1)
        graph = graphs.from_edges(nodes, edges, weights)
        accessible = None if case % 2 else rng.permutation(nodes) < 6
        problem = regression(
            rng, graph, rng.standard_normal((nodes, 2)), noise=0.1, accessible=accessible
        )
        critical = critical_lambda(graph, problem, penalty)
        assert critical == pytest.approx(plain_critical(problem, penalty), rel=1e-9)
        report = explain_clusters(graph, problem, [0] * nodes, critical, penalty)
        assert report.critical_lam == critical
        problems += [problem, problem]
        lams += [0.98 * critical, 1.02 * critical]
    models = solve(problems, lams, penalty, 4000)
    spreads = np.array([spread(w) for w in models]).reshape(-1, 2)
    assert spreads[:, 0].min() > 1e-4
    assert spreads[:, 1].max() < 1e-11


def plain_critical(problem, penalty):
    """Cut the tree at every edge and look at one side."""
    weights = weights_between(problem.graph)
    nodes = problem.num_clients
    everywhere = demands(problem, [0] * nodes, 0, 1.0, penalty)[2]
    gradients = np.asarray(problem.gradients(jnp.tile(everywhere, (nodes, 1))))
    critical = 0.0
    for head, tail in np.argwhere(np.triu(weights)):
        side, grown = {head}, True
        while grown:
            wider = {j for i in side for j in np.flatnonzero(weights[i]) if {i, j} != {head, tail}}
            grown = not wider <= side
            side |= wider
        total = gradients[sorted(side)].sum(0)
        critical = max(critical, dual_norm(penalty, total) / weights[head, tail])
    return critical


def test_the_critical_strength_of_a_star_is_a_maximum_over_leaves(x64):
    graph = graphs.star(4, [1.0, 2.0, 4.0])
    problem = simple(graph, [[0.0, 0.0], [3.0, 4.0], [-3.0, -4.0], [0.0, 0.0]])
    assert critical_lambda(graph, problem) == pytest.approx(10)  # 2 ||(3, 4)|| / 1
    assert critical_lambda(graph, problem, entrywise_l1()) == pytest.approx(8)


@pytest.mark.thorough
def test_the_critical_strength_of_data_that_do_not_determine_a_model(x64):
    rng = np.random.default_rng(1)
    graph = graphs.chain(3)
    x = [rng.standard_normal((1, 5)) for _ in range(3)]
    problem = networked_regression(graph, x, [np.ones(1)] * 3)
    assert critical_lambda(graph, problem) < 1e-12  # one model fits all three samples
    # The same sample with three targets: all minimisers have the same gradients.
    problem = networked_regression(graph, [x[0]] * 3, [np.full(1, y) for y in (0.0, 1.0, 5.0)])
    critical = critical_lambda(graph, problem)
    assert critical == pytest.approx(6 * np.linalg.norm(x[0]))  # 2 (5 - 2) ||x||
    below, above = solve([problem] * 2, [0.98 * critical, 1.02 * critical], None, 4000)
    assert spread(below) > 1e-3
    assert spread(above) < 1e-11


@pytest.mark.thorough
@both_penalties
def test_small_blocks_are_promised_and_keep_it(x64, penalty):
    rng, graph, labels, truth = two_blocks(1, 10, 0.9, 0.02)
    problem = regression(rng, graph, truth, samples=20)
    some = with_access(problem, np.arange(20) % 5 != 3)
    lams = [0.1, 0.3, 1.0]
    models = solve([problem] * 3 + [some] * 3, lams * 2, penalty, 3000)
    for case, share, found in ((problem, 20, models[:3]), (some, 16, models[3:])):
        for lam, w in zip(lams, found, strict=True):
            report = explain_clusters(graph, case, labels, lam, penalty)
            assert report.promised == (True, True)
            assert sum(int(cluster.accessible.sum()) for cluster in report.clusters) == share
            assert report.critical_lam is None
            for cluster in report.clusters:
                assert cluster.boundary == 2
                assert spread(w[cluster.nodes]) < 1e-12
                assert distance(w[cluster.nodes], cluster.model) <= cluster.bound
                assert distance(w[cluster.nodes], cluster.model) > 0.5 * cluster.bound


@pytest.mark.thorough
def test_large_blocks_are_recovered_without_a_promise(x64):
    rng, graph, labels, truth = two_blocks(0, 100, 0.5, 0.01)
    problem = regression(rng, graph, truth)
    report = explain_clusters(graph, problem, labels, 0.1)
    (w,) = solve([problem], [0.1], None, 2000)
    for cluster in report.clusters:
        assert not cluster.well_connected
        assert cluster.conclusive
        assert 0.2 < cluster.routable < 0.35
        assert spread(w[cluster.nodes]) < 1e-12
        # Without a promise, the bound still holds for models that are equal.
        assert 0 < distance(w[cluster.nodes], cluster.model) <= cluster.bound


@pytest.mark.thorough
@both_penalties
def test_a_promise_needs_nothing_of_other_clusters(x64, penalty):
    """Others may be without data, disconnected, or simply wrong."""
    rng = np.random.default_rng(3)
    problems, lams, reports = [], [], []
    while len(problems) < 24:
        edges = random_edges(rng, 9, 0.7)
        inside = (edges < 4).all(1)
        weights = np.where(inside, 1.0, rng.choice([0.02, 0.1, 0.2])) * rng.uniform(
            0.5, 1.5, len(edges)
        )
        graph = graphs.from_edges(9, edges, weights, max_edges=36)
        labels = [0] * 4 + list(rng.integers(1, 3, 5))
        truth = np.where(np.arange(9)[:, None] < 4, 1.0, 3 * rng.standard_normal((9, 2)))
        accessible = np.append(rng.permutation(4) < 3, rng.random(5) < 0.6)
        problem = regression(rng, graph, truth, noise=0.1, accessible=accessible)
        lam = float(10 ** rng.uniform(-0.5, 0.5))
        report = explain_clusters(graph, problem, labels, lam, penalty)
        if report.promised[0] and not all(report.promised):
            problems.append(problem)
            lams.append(lam)
            reports.append(report)
    models = solve(problems, lams, penalty, 4000)
    apart = 0
    for report, w in zip(reports, models, strict=True):
        for cluster in report.clusters:
            if cluster.well_connected:
                assert spread(w[cluster.nodes]) < 1e-6
                assert distance(w[cluster.nodes], cluster.model) <= cluster.bound + 1e-6
            else:
                apart += spread(w[cluster.nodes]) > 1e-3
    assert apart > 5


@pytest.mark.kin(1)
@both_penalties
def test_the_bound_is_attained(x64, penalty):
    # A node beside a distant one, all of whose entries pull.
    dim, lam = 4, 0.3
    graph = graphs.from_edges(2, [(0, 1)], [0.5])
    problem = simple(graph, [np.zeros(dim), np.full(dim, 100.0)])
    report = explain_clusters(graph, problem, [0, 1], lam, penalty)
    assert report.promised == (True, True)
    kappa = 1 if isinstance(penalty, type(network_lasso())) else 2
    (w,) = solve([problem], [lam], penalty, 2000)
    for cluster, model in zip(report.clusters, w, strict=True):
        assert cluster.bound == pytest.approx(kappa * lam * 0.5 / 2)
        moved = np.linalg.norm(model - cluster.model)
        assert moved == pytest.approx(cluster.bound, rel=1e-9)


@pytest.mark.thorough
def test_without_kappa_a_promise_would_be_broken(x64):
    # Node 1 sees one direction v, in which one entry is large: the pull of equal forces on all
    # entries leaves (1 + sqrt(dim)) / 2 times as much on that entry as on the forces.
    dim, seen = 9, 0.5
    angle = np.arctan(np.sqrt(dim - 1)) / 2
    v = np.append(np.cos(angle), np.full(dim - 1, np.sin(angle) / np.sqrt(dim - 1)))
    two = seen * np.outer(v, v)
    roots = [np.linalg.cholesky(np.eye(dim) - two).T, np.sqrt(seen) * np.outer(v, v), np.eye(dim)]
    x = [np.sqrt(dim) * root for root in roots]
    y = [np.zeros(dim), np.zeros(dim), np.sqrt(dim) * np.full(dim, 100.0)]
    lam = 0.3
    problems = []
    for weight in (0.7, 1.1):
        graph = graphs.from_edges(3, [(0, 1), (0, 2)], [weight, 1.0])
        problem = networked_regression(graph, x, y)
        cluster = explain_clusters(graph, problem, [0, 0, 1], lam, entrywise_l1()).clusters[0]
        np.testing.assert_allclose(cluster.demand, [1 + 3 * 1, 3 * seen], rtol=1e-9)
        assert not cluster.well_connected
        assert cluster.demand[1] / 3 < weight  # the condition without kappa
        problems.append(problem)
    below, above = solve(problems, [lam, lam], entrywise_l1(), 3000)
    assert spread(below[:2]) > 1e-2
    assert spread(above[:2]) < 1e-9  # the true threshold is seen (1 + sqrt(dim)) / 2 = 1


# --- what it does not depend on ---


# --- what it says ---


def test_the_report(x64):
    # Cluster 0: a triangle; 1: a pair without an edge; 2: a pair without data; 3: one node.
    edges = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 5), (4, 5), (5, 6), (6, 7)]
    weights = [3.0, 3.0, 3.0, 0.1, 0.1, 0.1, 1.0, 0.1]
    graph = graphs.from_edges(8, edges, weights)
    accessible = np.array([1, 1, 0, 1, 1, 0, 0, 1], bool)
    problem = simple(graph, np.arange(16).reshape(8, 2) // 6, accessible)
    report = explain_clusters(graph, problem, [0, 0, 0, 1, 1, 2, 2, 3], 1.0)
    assert report.promised == (True, False, False, True)
    assert str(report).split("\n") == [
        "cluster 0 (3 nodes, 2 with data): promised: its models are equal, within 0.025 of the "
        "cluster's own model",
        "cluster 1 (2 nodes, 2 with data): no promise: it falls into 2 parts that only other "
        "clusters join",
        "cluster 2 (2 nodes, 0 with data): no promise: its accessible data are too few to "
        "determine the cluster's own model of 2 parameters",
        "cluster 3 (1 node, 1 with data): promised: its model is within 0.05 of the cluster's own "
        "model",
    ]
    lost = report.clusters[2]
    assert (lost.alpha, lost.bound, lost.root, lost.routable) == (0, np.inf, None, 0)
    assert lost.conclusive
    assert np.all(np.isinf(lost.demand))
    assert report.clusters[1].parts == 2


def test_the_report_on_trees(x64):
    graph = graphs.chain(3)
    problem = simple(graph, [[0.0], [0.0], [3.0]])  # the common model is 1; gradients 2, 2, -4
    no = "the condition is sufficient, not necessary"
    last = "the graph is a tree: all models are equal if and only if lam is at least 4; at"
    assert str(explain_clusters(graph, problem, [0, 0, 0], 2.0)) == (
        "cluster 0 (3 nodes, 3 with data): no promise: only 66 % of the demand can be routed to "
        f"node 1; {no}\n{last} 2 they are not"
    )
    assert str(explain_clusters(graph, problem, [0, 0, 0], 5.0)) == (
        "cluster 0 (3 nodes, 3 with data): promised: its models are equal to the cluster's own "
        f"model\n{last} 5 they are"
    )
    alone = graphs.from_edges(2, [])
    report = explain_clusters(alone, simple(alone, [[0.0], [1.0]]), ["a", "b"], 1.0)
    assert str(report).split("\n") == [
        f"cluster {name} (1 node, 1 with data): promised: its model is equal to the cluster's own "
        "model"
        for name in "ab"
    ]


def test_large_clusters_are_left_undecided(x64):
    # Two cliques with a weak edge between: no root will do, which only all roots could show.
    size = 101
    pairs = np.array(list(combinations(range(size), 2)))
    edges = [*pairs, *(pairs + size), (0, size)]
    graph = graphs.from_edges(2 * size, edges, [1.0] * (2 * len(pairs)) + [0.01])
    targets = 0.1 * np.random.default_rng(0).standard_normal((2 * size, 1))
    problem = simple(graph, targets)
    (cluster,) = explain_clusters(graph, problem, [0] * 2 * size, 1.0).clusters
    assert not cluster.well_connected
    assert not cluster.conclusive
    assert f"to node {cluster.root} (not all of its nodes were tried); the" in str(cluster)


@pytest.mark.parametrize("value", [0.0049, 0.10001, 1.0, 9.96, 123.4, 3e-17, 7e5])
def test_bounds_are_rounded_up(value):
    written = float(certificates.rounded_up(value))
    assert value <= written <= 1.1 * value


# --- what is refused ---


CHAIN = graphs.chain(3)


def refused(**changes):
    arguments = {"graph": CHAIN, "labels": [0, 0, 1], "lam": 1.0}
    problem = changes.pop("problem", None) or simple(CHAIN, np.zeros((3, 2)))
    return explain_clusters(problem=problem, **(arguments | changes))


def lasso():
    return networked_regression(CHAIN, [np.ones((2, 2))] * 3, [np.ones(2)] * 3, l1=0.1)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: refused(penalty=mocha()), r"penalty must be a norm, network_lasso\(\) or"),
        (
            lambda: critical_lambda(CHAIN, simple(CHAIN, np.zeros((3, 2))), squared_difference()),
            r"penalty must be a norm, network_lasso\(\) or",
        ),
        (lambda: refused(problem=lasso()), "problem must have a squared loss, but it has"),
        (lambda: critical_lambda(CHAIN, lasso()), "problem must have a squared loss, but it has"),
        (lambda: refused(lam=0.0), "lam must be greater than 0"),
        (lambda: refused(labels=[0, 1]), r"labels must hold one cluster per node \(3\)"),
        (
            lambda: refused(graph=graphs.chain(4)),
            "graph must have one node per node of the problem",
        ),
    ],
)
def test_refusals(call, sentence, x64):
    with pytest.raises(InputError, match=sentence):
        call()


def test_refusals_of_graphs_that_are_not_trees(x64):
    problem = simple(graphs.chain(4), np.zeros((4, 1)))
    with pytest.raises(InputError, match=r"must be a tree.*is not connected: it has 2 parts"):
        critical_lambda(graphs.from_edges(4, [(0, 1), (1, 2), (0, 2)]), problem)
    ring = graphs.from_edges(4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    with pytest.raises(InputError, match=r"must be a tree to have a known critical lam.*a cycle"):
        critical_lambda(ring, problem)
    for graph in (ring, graphs.from_edges(4, [(0, 1), (2, 3)])):
        assert explain_clusters(graph, problem, [0] * 4, 1.0).critical_lam is None


def test_refusals_inside_transformations(x64):
    graph = graphs.chain(3)
    problem = simple(graph, np.zeros((3, 2)))
    with pytest.raises(InputError, match="problem must be known, but it is traced; call this"):
        jax.jit(lambda p: critical_lambda(p.graph, p))(problem)
    with pytest.raises(InputError, match="lam must be known, but it is traced; call this"):
        jax.vmap(lambda lam: explain_clusters(graph, problem, [0, 0, 0], lam).lam)(jnp.ones(2))
