"""Smoothing ADMM over trees: trajectories, invariants, published method, messages, mistakes."""

import math
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import fedjax_admm as fa
from fedjax_admm import losses, participation, penalties, trees
from fedjax_admm._pytrees import pytree_dataclass
from tests.bits import same_bits
from tests.reference import hfsad as reference
from tests.solvers.conformance import trained_star

DIM = 3


# --- trajectories against the reference, every variable of every node ---------------------------


class Hierarchy(NamedTuple):
    """A tree as both the reference and `trees.from_parents` take it."""

    parents: list[int]
    clients: list[int]


HIERARCHIES = {
    "star": Hierarchy([-1, 0, 0, 0, 0, 0], [1, 2, 3, 4, 5]),
    "depth 2": Hierarchy([-1, 0, 0, 0] + [1] * 3 + [2] * 5 + [3] * 2, list(range(4, 14))),
    # Two regions, with edge servers of 2 and 1, and of 3 clients.
    "depth 3": Hierarchy([-1, 0, 0, 1, 1, 2, 3, 3, 4, 5, 5, 5], [6, 7, 8, 9, 10, 11]),
    # Clients at the levels 1, 2 and 3; the numbers follow neither the levels nor the data, and
    # the servers of level 2, in the order of their numbers, are not in the order of their parents.
    "mixed": Hierarchy([5, 3, 3, -1, 1, 3, 1, 0, 0, 6, 5, 6], [9, 2, 11, 7, 4, 10, 8]),
}

# What both sides call a link: the package's penalty, the reference's prox and its slope.
LINKS = {
    "l1": (penalties.l1, reference.l1_link_prox, reference.l1_link_slope),
    "mcp": (penalties.mcp, reference.mcp_link_prox, reference.mcp_link_slope),
    "scad": (penalties.scad, reference.scad_link_prox, reference.scad_link_slope),
}


def shorten(v, step, weight):
    return v * max(0.0, 1 - step * weight / np.linalg.norm(v))


# What both sides call a regulariser: the package's penalty, a NumPy prox and a NumPy value.
REGULARIZERS = {
    "zero": (penalties.zero, lambda v, step: v, lambda w: 0.0),
    "l1": (
        penalties.l1,
        lambda v, step, weight: np.sign(v) * np.maximum(np.abs(v) - step * weight, 0),
        lambda w, weight: weight * np.abs(w).sum(),
    ),
    "squared l2": (
        penalties.squared_l2,
        lambda v, step, weight: v / (1 + step * weight),
        lambda w, weight: weight * (w @ w) / 2,
    ),
    "group l2": (
        penalties.group_l2,
        shorten,
        lambda w, weight: weight * np.linalg.norm(w),
    ),
    "scad": (
        penalties.scad,
        reference.scad_prox,
        lambda w, lam, gamma, weight=1.0: (
            weight * math.fsum(reference.scad(t, lam, gamma) for t in w.tolist())
        ),
    ),
}


class LinkOf(NamedTuple):
    """One level's link."""

    c: float
    alpha: float
    kind: str
    numbers: dict[str, float]


class Scene(NamedTuple):
    """One setting in which package and reference run side by side."""

    hierarchy: str
    problem: str  # "phase", "linearized phase" or "regression"
    links: tuple[LinkOf, ...]  # the clients', then one per level of servers from 1
    regularizers: tuple[tuple[str, dict[str, Any]], ...]  # one per level, the root first
    passes: int
    rounds: int = 60


def l1(c, alpha, weight):
    return LinkOf(c, alpha, "l1", {"weight": weight})


SCAD = ("scad", {"lam": 0.1, "gamma": 2.4})
ZERO: tuple[str, dict[str, Any]] = ("zero", {})

SCENES = {
    "star, 1 pass": Scene("star", "phase", (l1(3.0, 4.0, 5.0),), (SCAD,), 1),
    "star, 3 passes": Scene("star", "phase", (l1(3.0, 4.0, 5.0),), (ZERO,), 3),
    "depth 2, 1 pass": Scene(
        "depth 2",
        "phase",
        (l1(4.0, 3.0, 6.0), l1(9.0, 7.0, 20.0)),
        # One weight per edge server.
        (SCAD, ("scad", {"lam": 0.1, "gamma": 2.4, "weight": [2.5, 4.5, 1.5]})),
        1,
    ),
    "depth 2, 3 passes": Scene(
        "depth 2",
        "linearized phase",
        (l1(25.0, 4.0, 12.0), l1(60.0, 20.0, 60.0)),
        (("l1", {"weight": 0.3}), SCAD),
        3,
    ),
    "depth 3, 3 passes": Scene(
        "depth 3",
        "phase",
        (l1(4.0, 3.0, 6.0), l1(8.0, 5.0, 12.0), l1(6.0, 4.0, 9.0)),
        (("squared l2", {"weight": 0.4}), SCAD, ("l1", {"weight": 0.2})),
        3,
    ),
    "mixed, 3 passes": Scene(
        "mixed",
        "phase",
        (l1(4.0, 3.0, 6.0), l1(8.0, 5.0, 12.0), l1(6.0, 4.0, 9.0)),
        (SCAD, ("l1", {"weight": 0.2}), ("l1", {"weight": [0.1, 0.7]})),
        3,
    ),
    "regression, MCP": Scene(
        "star",
        "regression",
        (LinkOf(3.0, 1.5, "mcp", {"lam": 1.0, "gamma": 2.5, "weight": 1.2}),),
        (("group l2", {"weight": 0.8}),),
        3,
    ),
    "regression, one link of each kind": Scene(
        "mixed",
        "regression",
        (
            LinkOf(3.0, 1.5, "mcp", {"lam": 0.8, "gamma": 2.5, "weight": 0.9}),
            l1(4.0, 2.0, 2.0),
            LinkOf(3.5, 1.2, "scad", {"lam": 0.7, "gamma": 3.1, "weight": 1.3}),
        ),
        (ZERO, ("group l2", {"weight": 0.3}), ("squared l2", {"weight": 0.2})),
        1,
    ),
}

# In the run that everybody makes: both kinds of problems, all links, clients at several levels.
QUICK = ("depth 2, 3 passes", "mixed, 3 passes", "regression, one link of each kind")
EVERY_SCENE = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.thorough] * (name not in QUICK)) for name in SCENES],
)


def place_servers(tree, hierarchy):
    """Return the reference's node of each of the package's servers, as their clients tell it."""
    starts = np.cumsum([0, *tree.level_sizes]).tolist()
    node: dict[int, int] = {}
    for client, server in zip(hierarchy.clients, tree.client_parents.tolist(), strict=True):
        assert node.setdefault(server, hierarchy.parents[client]) == hierarchy.parents[client]
    for level in range(tree.depth - 1, 0, -1):
        for place, above in enumerate(tree.server_parents[level - 1].tolist()):
            parent = hierarchy.parents[node[starts[level] + place]]
            assert node.setdefault(starts[level - 1] + above, parent) == parent
    return [node[server] for server in range(tree.num_servers)]


def draw_data(scene, clients):
    rng = np.random.default_rng(7)
    start = rng.standard_normal(DIM)
    if scene.problem == "regression":
        sizes = [2 + n % 4 for n in range(clients)]
        models = rng.standard_normal((clients, DIM)) + 2.0 * rng.standard_normal((1, DIM))
        x = [rng.standard_normal((size, DIM)) for size in sizes]
        y = [a @ w + rng.laplace(size=len(a)) / 2 for a, w in zip(x, models, strict=True)]
        return x, y, [rng.uniform(0.2, 2.0, size) for size in sizes], start
    x = rng.standard_normal((clients, DIM))
    y = (x @ rng.standard_normal(DIM)) ** 2 + rng.exponential(size=clients) / 5
    return x, y, None, start


BOX = 1.0  # tight, so that it binds


class Trajectory(NamedTuple):
    """One run on both sides; arrays have the rounds first and servers in the package's order."""

    tree: trees.Tree
    masks: np.ndarray  # (rounds, passes, nodes), columns as the package has them
    root: np.ndarray
    clients: Any  # Nodes
    servers: list[Any]  # Nodes, one per level
    theirs: dict[str, np.ndarray]


@cache
def side_by_side(name):
    """Run a scene on both sides in float64, with random masks."""
    scene = SCENES[name]
    hierarchy = HIERARCHIES[scene.hierarchy]
    with jax.enable_x64(True):
        tree = trees.from_parents(hierarchy.parents, hierarchy.clients)
        nodes = place_servers(tree, hierarchy)
        order = reference.server_order(hierarchy.parents, hierarchy.clients)
        assert sorted(nodes[1:]) == sorted(order)
        servers = [order.index(node) for node in nodes[1:]]
        columns = [*range(tree.num_clients), *(tree.num_clients + place for place in servers)]

        shape = (scene.rounds, scene.passes, tree.num_links)
        masks = np.random.default_rng(3).random(shape) < 0.5
        data = draw_data(scene, tree.num_clients)
        trace = run_package(scene, tree, data, masks[..., columns])
    theirs = run_reference(scene, hierarchy, tree, nodes, data, masks)
    for key, value in theirs.items():
        if key.startswith("server_"):
            theirs[key] = value[:, servers]
    state = jax.tree.map(np.asarray, trace["state"])
    return Trajectory(
        tree, masks[..., columns], state.root, state.clients, list(state.servers), theirs
    )


def package_numbers(numbers):
    """Turn weights of single servers, a list, into a column."""
    return {
        key: np.array(value)[:, None] if isinstance(value, list) else value
        for key, value in numbers.items()
    }


class Shown(NamedTuple):
    """What nodes hold, and their copies z and q."""

    w: jax.Array
    centre: jax.Array
    message: jax.Array
    gamma: jax.Array
    updates: jax.Array
    memory: Any
    z: jax.Array
    q: jax.Array


def whole_state(solver, problem, state):
    links = (solver.clients, *solver.servers)
    clients, *servers = (
        Shown(*nodes, *link.copies(nodes))
        for link, nodes in zip(links, (state.clients, *state.servers), strict=True)
    )
    return {"state": state._replace(clients=clients, servers=tuple(servers))}


def run_package(scene, tree, data, masks):
    x, y, weights, start = data
    if scene.problem == "regression":
        problem = fa.problems.robust_regression(x, y, tree, weights=weights, start=start)
    else:
        problem = fa.problems.phase_retrieval(x, y, tree, start=start, radius=BOX)
    links = [
        fa.solvers.tree_link(one.c, one.alpha, LINKS[one.kind][0](**one.numbers))
        for one in scene.links
    ]
    regularizers = [
        REGULARIZERS[kind][0](**package_numbers(numbers)) for kind, numbers in scene.regularizers
    ]
    solver = fa.solvers.hierarchical_admm(
        links[0],
        links[1:],
        regularizers,
        passes=scene.passes,
        client_update="prox" if scene.problem == "phase" else "linearized",
    )
    return fa.run(
        solver,
        problem,
        jax.random.key(0),
        rounds=scene.rounds,
        participation=participation.replay(masks),
        measure=whole_state,
    ).trace


def run_reference(scene, hierarchy, tree, nodes, data, masks):
    x, y, weights, start = data

    def client_update(n, z, dual, sigma, mu):
        if scene.problem == "phase":
            return reference.phase_prox(z - dual / sigma, 1 / sigma, x[n], float(y[n]), BOX)
        if scene.problem == "linearized phase":
            return reference.phase_step(z, dual, sigma, mu, x[n], float(y[n]), BOX)
        return reference.regression_step(z, dual, sigma, mu, x[n], y[n], weights[n])

    total = len(hierarchy.parents)
    link_of: list[Any] = [None] * total
    prox_of: list[Any] = [None] * total
    for client in hierarchy.clients:
        link_of[client] = scene.links[0]
    number = 0
    for level, size in enumerate(tree.level_sizes):
        kind, numbers = scene.regularizers[level]
        for place in range(size):
            node = nodes[number]
            own = {k: v[place] if isinstance(v, list) else v for k, v in numbers.items()}
            prox_of[node] = partial(REGULARIZERS[kind][1], **own)
            link_of[node] = scene.links[level] if level else None
            number += 1

    def per_node(read):
        return [None if one is None else read(one) for one in link_of]

    return reference.hierarchical_admm(
        hierarchy.parents,
        hierarchy.clients,
        start,
        client_update=client_update,
        link_prox=per_node(lambda one: partial(LINKS[one.kind][1], **one.numbers)),
        regulariser_prox=prox_of,
        c=per_node(lambda one: one.c),
        alpha=per_node(lambda one: one.alpha),
        rounds=scene.rounds,
        passes=scene.passes,
        masks=masks,
    )


@EVERY_SCENE
def test_trajectory_of_every_variable_is_the_reference(name):
    found = side_by_side(name)
    theirs = found.theirs
    pairs = [("root", found.root, theirs["root"])]
    kinds = {"client": found.clients}
    if found.servers:
        kinds["server"] = jax.tree.map(lambda *parts: np.concatenate(parts, 1), *found.servers)
    for kind, nodes in kinds.items():
        np.testing.assert_array_equal(nodes.updates, theirs[f"{kind}_k"])
        pairs += [(f"{kind} {key}", getattr(nodes, key), theirs[f"{kind}_{key}"]) for key in "wzq"]
        # The package keeps one dual of the two.
        pairs += [(f"{kind} Gamma", nodes.gamma, theirs[f"{kind}_gamma"])]
        pairs += [(f"{kind} Lambda", -nodes.gamma, theirs[f"{kind}_lambda"])]
    for label, mine, other in pairs:
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-9, err_msg=label)
    # The comparison is worth something: the run goes somewhere, and not through one point.
    assert np.abs(np.diff(found.root, axis=0)).max() > 1e-3
    assert np.abs(found.clients.w - found.root[:, None]).max() > 1e-2


def test_the_box_binds_in_some_of_these_runs():
    found = side_by_side("mixed, 3 passes")
    assert np.mean(np.abs(found.clients.w) == BOX) > 0.05


def test_order_of_columns_is_clients_then_servers_level_by_level():
    """Where numbers follow no order, package and reference list the servers differently."""
    hierarchy = HIERARCHIES["mixed"]
    tree = trees.from_parents(hierarchy.parents, hierarchy.clients)
    assert tree.level_sizes == (1, 2, 2)
    nodes = place_servers(tree, hierarchy)
    order = reference.server_order(hierarchy.parents, hierarchy.clients)
    assert nodes == [3, 1, 5, 6, 0]
    assert order == [1, 5, 0, 6]
    one = fa.solvers.tree_link(1.0, 1.0, penalties.l1(1.0))
    solver = fa.solvers.hierarchical_admm(one, [one, one], passes=4)
    problem = fa.problems.phase_retrieval(np.ones((7, 2)), np.ones(7), tree, start=np.ones(2))
    assert solver.participants(problem) == (4, 11)


def turn_of(active):
    return fa.RoundInfo(jnp.int32(0), jax.random.key(0), jnp.asarray(active))


# --- invariants at every round ------------------------------------------------------------------


@EVERY_SCENE
def test_duals_are_gradients_of_the_smoothed_links(name):
    scene, found = SCENES[name], side_by_side(name)
    levels = zip(scene.links, [found.clients, *found.servers], strict=True)
    for one, nodes in levels:
        slope = LINKS[one.kind][2]
        last = np.maximum(nodes.updates, 1)
        difference = nodes.q - nodes.z
        for index in np.ndindex(last.shape):
            mu = one.alpha / math.sqrt(last[index])
            wanted = slope(difference[index], mu, **one.numbers)
            np.testing.assert_allclose(nodes.gamma[index], wanted, rtol=0, atol=1e-9)
        steepest = one.numbers["weight"] * one.numbers.get("lam", 1.0)
        assert np.abs(nodes.gamma).max() <= steepest * (1 + 1e-12)


def root_children(scene, found, index):
    """Return Gamma, q and the next sigma of the root's children after a round."""
    at_root = found.tree.client_parents == 0
    parts = [(scene.links[0], found.clients, np.asarray(at_root))]
    if found.servers:
        parts.append((scene.links[1], found.servers[0], slice(None)))
    return tuple(
        np.concatenate(pieces)
        for pieces in zip(
            *(
                (
                    nodes.gamma[index][which],
                    nodes.q[index][which],
                    one.c * np.sqrt(nodes.updates[index][which] + 1),
                )
                for one, nodes, which in parts
            ),
            strict=True,
        )
    )


@EVERY_SCENE
def test_root_minimises_the_augmented_lagrangian(name):
    scene, found = SCENES[name], side_by_side(name)
    kind, numbers = scene.regularizers[0]
    rng = np.random.default_rng(0)
    for index in range(scene.rounds):
        gamma, q, sigma = root_children(scene, found, index)
        root = found.root[index]
        if kind == "zero":
            gradient = np.sum(gamma + sigma[:, None] * (root - q), 0)
            np.testing.assert_allclose(gradient, 0, atol=1e-9)
        if index % 6:
            continue

        def lagrangian(w, gamma=gamma, q=q, sigma=sigma):
            distance = np.sum((w - q) ** 2, -1)
            return REGULARIZERS[kind][2](w, **numbers) + np.sum(
                np.sum(gamma * (w - q), -1) + sigma * distance / 2
            )

        # No better point near by, far off, at zero, or with some entries zero.
        steps = rng.standard_normal((200, DIM)) * 10 ** rng.uniform(-4, 1, (200, 1))
        others = np.concatenate([root + steps, root * rng.integers(0, 2, (8, DIM)), 0 * steps[:1]])
        least = lagrangian(root)
        assert all(lagrangian(other) >= least - 1e-9 * (1 + abs(least)) for other in others)


@EVERY_SCENE
def test_absent_nodes_keep_everything_and_counts_are_exact(name):
    found = side_by_side(name)
    everything = [found.clients, *found.servers]
    masks = np.split(found.masks, np.cumsum([part.updates.shape[1] for part in everything])[:-1], 2)
    for nodes, mask in zip(everything, masks, strict=True):
        np.testing.assert_array_equal(nodes.updates, np.cumsum(mask.sum(1), 0))
        idle = ~mask.any(1)[1:]
        assert idle.any()
        for leaf in jax.tree.leaves(nodes):
            np.testing.assert_array_equal(leaf[1:][idle], leaf[:-1][idle])
        assert np.all(np.any(nodes.gamma[1:] != nodes.gamma[:-1], -1)[~idle].mean() > 0.9)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_a_common_stationary_point_does_not_move():
    rng = np.random.default_rng(4)
    truth = np.array([2.0, 0.0, -3.0])  # SCAD is flat at 2 and 3, and stationary at 0
    x = rng.integers(-4, 5, (10, DIM)).astype(float)
    problem = fa.problems.phase_retrieval(
        x, (x @ truth) ** 2, trees.from_counts([3, 5, 2]), start=truth
    )

    @jax.jit
    def run(problem):
        process = participation.bernoulli(0.6)
        solver, key = fa.solvers.hfsad(problem, passes=3), jax.random.key(0)
        return fa.run(
            solver, problem, key, rounds=40, every=40, participation=process, measure=whole_state
        )

    state = jax.tree.map(lambda leaf: leaf[-1], run(problem).trace["state"])
    for nodes in (state.clients, *state.servers):
        for copies in (nodes.w, nodes.z, nodes.q):
            np.testing.assert_allclose(copies - truth[None], 0, atol=1e-11)
        np.testing.assert_allclose(nodes.gamma, 0, atol=1e-9)
        assert np.all(nodes.updates > 0)
    np.testing.assert_allclose(state.root, truth, rtol=0, atol=1e-12)


# --- small problems with a known answer ---------------------------------------------------------


@pytree_dataclass
class Quadratics:
    """Clients with ||w - target||^2 / 2."""

    targets: jax.Array  # shape=(clients, dim)
    tree: trees.Tree
    start: jax.Array

    @property
    def num_clients(self):
        return self.targets.shape[0]

    def prox_memory(self, start):
        return ()

    def prox(self, points, step, memory):
        return (points + step[:, None] * self.targets) / (1 + step[:, None]), memory


@pytest.mark.kin(1)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("counts", "tolerance"),
    [(None, 1e-14), ([4, 4], 1e-14), ([[2, 2], [2, 2]], 1e-11)],
    ids=["depth 1", "depth 2", "depth 3"],
)
def test_root_tends_to_the_mean_of_quadratic_clients(counts, tolerance):
    """The distances of the reference after 3000 rounds are 8e-17, 2e-16 and 9e-13."""
    targets = jnp.asarray(np.random.default_rng(0).standard_normal((8, DIM)))
    tree = trees.star(8) if counts is None else trees.from_counts(counts)
    problem = Quadratics(targets, tree, jnp.zeros(DIM))
    one = fa.solvers.tree_link(1.0, 5 * math.sqrt(20), penalties.l1(5.0))
    solver = fa.solvers.hierarchical_admm(one, [one] * (tree.depth - 1))
    root = fa.run(solver, problem, jax.random.key(0), rounds=3000).estimate
    np.testing.assert_allclose(root, jnp.mean(targets, 0), rtol=0, atol=tolerance)


@pytest.mark.kin(1)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("kind", "client", "root"), [("l1", 5.0, 0.1855), ("mcp", 6.0, 0.0)])
def test_personal_models_of_seven_like_clients_and_an_odd_one(kind, client, root):
    """L1 pulls the odd client and shifts the cloud; MCP leaves both where they belong."""
    targets = jnp.zeros((8, DIM)).at[7].set(6.0)
    problem = Quadratics(targets, trees.star(8), jnp.zeros(DIM))
    penalty = penalties.l1(1.0) if kind == "l1" else penalties.mcp(1.0, 2.5)
    solver = fa.solvers.consensus_admm(
        fa.solvers.tree_link(2.0, 2 * math.sqrt(20), penalty), personal=True
    )
    result = fa.run(solver, problem, jax.random.key(0), rounds=1000)
    assert result.estimate.shape == (8, DIM)
    np.testing.assert_array_equal(result.estimate, result.state.solver.clients.w)
    np.testing.assert_allclose(result.estimate[7], client, atol=1e-6)
    np.testing.assert_allclose(result.state.solver.root, root, atol=5.1e-5)


# --- the published method -----------------------------------------------------------------------


# Under jit the many small steps of the constants compile together, which is faster.
published = jax.jit(fa.solvers.hfsad, static_argnames=("passes", "client_update"))


@pytest.mark.kin(1)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("client_update", ["prox", "linearized"])
def test_start_constants_and_every_variable_are_the_published_ones(client_update):
    """Under masks: what `hfsad` makes of a problem is what is printed."""
    x, y, truth = reference.phase_trial(0, 0)
    start = reference.spectral_start(x, y)
    tree = trees.from_counts([50] * 5)
    problem = fa.problems.phase_retrieval(x, y, tree, truth=truth)
    sign = np.sign(problem.start @ start)
    np.testing.assert_allclose(sign * problem.start, start, atol=1e-12)

    solver = published(problem, passes=2, client_update=client_update)
    wanted = reference.published_constants(x)
    (servers,) = solver.servers
    root, edge = solver.regularizers
    found = {
        "omega": solver.clients.penalty.weight,
        "omega_0": servers.penalty.weight,
        "c": solver.clients.sigma.scale,
        "alpha": solver.clients.mu.scale,
        "d": servers.sigma.scale,
        "beta": servers.mu.scale,
        "eta": edge.weight,
    }
    for name, value in found.items():
        np.testing.assert_allclose(value, wanted[name], rtol=1e-12, err_msg=name)
    np.testing.assert_array_equal(root.weight, [[1.0]])
    assert {float(part.lam) for part in solver.regularizers} == {reference.SCAD_LAMBDA}
    assert {float(part.gamma) for part in solver.regularizers} == {reference.SCAD_GAMMA}

    masks = np.random.default_rng(2).random((3, 2, 255)) < 0.6
    truth = reference.hfsad(
        x, y, np.asarray(problem.start), 2, 3, masks=masks, client=client_update
    )
    state = fa.run(
        solver,
        problem,
        jax.random.key(0),
        rounds=3,
        participation=participation.replay(masks),
        measure=whole_state,
    ).trace["state"]
    np.testing.assert_allclose(state.root, truth["root"], rtol=0, atol=1e-9)
    for kind, nodes in (("client", state.clients), ("server", state.servers[0])):
        np.testing.assert_array_equal(nodes.updates, truth[f"{kind}_k"])
        for key in ("w", "z", "q", "gamma"):
            np.testing.assert_allclose(
                getattr(nodes, key), truth[f"{kind}_{key}"], rtol=0, atol=1e-9
            )
        np.testing.assert_allclose(-nodes.gamma, truth[f"{kind}_lambda"], rtol=0, atol=1e-9)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_constants_of_a_deeper_tree_follow_the_same_rule():
    """Depth 3 with 2 regions, 2 and 3 edge servers, 4 4 | 4 4 2 clients; bounds by hand."""
    tree = trees.from_counts([[4, 4], [4, 4, 2]])
    clients, regions, edges = fa.solvers.consensus_links(tree, 3.0, [0.5, 0.25])
    root20 = math.sqrt(20)
    edge_bound = 4 * 3.0 + 0.25
    region_bound = 3 * edge_bound + 0.5
    for one, bound, spread in (
        (clients, 3.0, 1.0),
        (edges, edge_bound, 18 / 5 / 2),
        (regions, region_bound, 18 / 2 / 2),
    ):
        assert float(one.penalty.weight) == pytest.approx(bound, rel=1e-14)
        assert float(one.sigma.scale) == pytest.approx(bound / spread, rel=1e-14)
        assert float(one.mu.scale) == pytest.approx(spread * root20, rel=1e-14)


def grown(numbers):
    """Build a tree in which a number stands for so many clients and a list for a server."""
    following = iter(range(10**6))

    def nest(part):
        return [
            child
            for one in part
            for child in (
                [nest(one)] if isinstance(one, list) else [next(following) for _ in range(one)]
            )
        ]

    return trees.from_nested(nest(numbers))


@pytest.mark.kin(1)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("tree", "weights"),
    [
        ([[50], [50], [50], [50], [50]], [[1.0], [49.8] * 5]),
        ([[3], [5], [2]], [[1.0], [3 - 1 / 3, 5 - 1 / 3, 2 - 1 / 3]]),
        ([6], [[6.0]]),
        # Four edge servers hold the clients; regions hold none.
        ([[[4], [4]], [[1], [2]]], [[1.0], [0.0, 0.0], [3.75, 3.75, 0.75, 1.75]]),
        # The root has a client of its own, and so has one region beside its edge server.
        ([[2, [2]], [[1]], 1], [[2.0], [2 - 1 / 3, 0], [2 - 1 / 3, 1 - 1 / 3]]),
    ],
    ids=["equal clusters", "uneven clusters", "star", "depth 3", "mixed"],
)
def test_weights_of_scad_add_up_to_one_per_client(tree, weights):
    tree = grown(tree)
    regularizers = fa.solvers.scad_regularizers(tree, 0.2, 3.0)
    assert len(regularizers) == tree.depth
    for part, wanted in zip(regularizers, weights, strict=True):
        np.testing.assert_allclose(part.weight, np.array(wanted)[:, None], rtol=1e-14)
        assert (float(part.lam), float(part.gamma)) == (pytest.approx(0.2), 3.0)
    total = sum(float(jnp.sum(part.weight)) for part in regularizers)
    assert total == pytest.approx(tree.num_clients, rel=1e-14)


# --- rounds, passes and trees -------------------------------------------------------------------


def small_problem(tree, seed=0, **options):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((tree.num_clients, DIM))
    y = (x @ np.array([1.0, -2.0, 0.5])) ** 2 + 0.1
    return fa.problems.phase_retrieval(x, y, tree, start=rng.standard_normal(DIM), **options)


@pytest.mark.bits
def test_a_star_is_flat_consensus_bit_for_bit():
    problem = small_problem(trees.star(5))
    one, regularizer = fa.solvers.tree_link(4.0, 3.0, penalties.l1(6.0)), penalties.scad(0.1, 2.4)
    flat = fa.solvers.consensus_admm(one, regularizer, passes=2)
    general = fa.solvers.hierarchical_admm(one, [], [regularizer], passes=2)
    states = [
        fa.run(
            solver,
            problem,
            jax.random.key(1),
            rounds=20,
            participation=participation.bernoulli(0.5),
        ).state
        for solver in (flat, general)
    ]
    same_bits(*states)
    assert jax.tree.structure(flat) == jax.tree.structure(general)
    assert jax.tree.structure(fa.solvers.consensus_admm(one)) == jax.tree.structure(
        fa.solvers.hierarchical_admm(one)
    )


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_two_passes_are_two_rounds_but_for_the_root_between_them():
    x, y, _, start = draw_data(SCENES["depth 2, 1 pass"], 10)
    problem = fa.problems.phase_retrieval(x, y, trees.from_counts([3, 5, 2]), start=start)
    one, upper = (
        fa.solvers.tree_link(4.0, 3.0, penalties.l1(6.0)),
        fa.solvers.tree_link(9.0, 7.0, penalties.l1(20.0)),
    )
    single = fa.solvers.hierarchical_admm(one, [upper])
    double = fa.solvers.hierarchical_admm(one, [upper], passes=2)
    masks = np.random.default_rng(8).random((2, 13)) < 0.7

    @jax.jit
    def step(solver, state, active):
        return solver.step(problem, state, turn_of(active))

    state = single.init(problem, jax.random.key(0))
    once = step(single, state, masks[:1])
    twice = step(double, state, masks)
    held = step(single, once._replace(root=state.root), masks[1:])
    chex.assert_trees_all_close(held, twice, rtol=0, atol=1e-14)
    free = step(single, once, masks[1:])
    assert np.abs(free.servers[0].message - twice.servers[0].message).max() > 1e-3


MESSAGES = {
    # Per pass the clients, then the servers level by level; (below the root, at the root).
    "star": ([3], ["101", "100"], (0, 2)),
    "star, nobody": ([3], ["000", "000"], (0, 0)),
    # Clients 0, 1 | 2 and two servers: 0, 2, 0 below, the first server at the root.
    "depth 2": ([[2], [1]], ["101 10", "100 10"], (3, 1)),
    "depth 2, all": ([[2], [1]], ["111 11", "111 11", "111 11"], (9, 2)),
    # Clients 0, 1 | 2 | 3; two regions, then three edge servers.
    "depth 3": ([[[2]], [[1], [1]]], ["1001 01 100", "1000 11 101"], (6, 2)),
    # Clients 0 | 1 at an edge server below a region, 2 at the region, 3 at the root.
    "mixed": ([[[2], 1], 1], ["0111 1 0", "1011 0 1", "0001 1 0"], (5, 2)),
}


@pytest.mark.kin(1)
@pytest.mark.parametrize("name", MESSAGES)
def test_messages_counted_by_hand(name):
    numbers, masks, counts = MESSAGES[name]
    tree = grown(numbers)
    problem = small_problem(tree)
    active = np.array([[mark == "1" for mark in mask.replace(" ", "")] for mask in masks])
    one = fa.solvers.tree_link(1.0, 1.0, penalties.l1(1.0))
    solver = fa.solvers.hierarchical_admm(one, [one] * (tree.depth - 1), passes=len(masks))
    found = solver.messages(problem, jnp.asarray(active))
    assert found.shape == ()
    assert found.dtype == jnp.int32
    assert int(found) == sum(counts)
    assert solver.traffic(problem) == fa.Traffic(DIM + 1, DIM)


def test_a_run_records_its_messages_and_the_ledger_their_numbers():
    tree = grown([[2], [1]])
    masks = np.array([[[1, 0, 1, 1, 0], [1, 0, 0, 1, 0]], [[1] * 5] * 2], bool)
    one = fa.solvers.tree_link(1.0, 1.0, penalties.l1(1.0))
    problem, solver = small_problem(tree), fa.solvers.hierarchical_admm(one, [one], passes=2)
    process = participation.replay(masks)
    trace = fa.run(solver, problem, jax.random.key(0), rounds=2, participation=process).trace
    np.testing.assert_array_equal(trace["messages"], [4, 8])
    sent = fa.traffic.totals(solver.traffic(problem), trace["messages"])
    np.testing.assert_array_equal(sent.up, [16, 48])
    np.testing.assert_array_equal(sent.down, [12, 36])


# --- mistakes -----------------------------------------------------------------------------------


def a_link(**options):
    return fa.solvers.tree_link(**{"sigma": 1.0, "mu": 1.0, "penalty": penalties.l1(1.0)} | options)


def run_once(solver, problem):
    return fa.run(solver, problem, jax.random.key(0), rounds=1)


def a_regression():
    return fa.problems.robust_regression([np.ones((2, DIM))], [np.ones(2)])


MISTAKES = {
    "star for depth 2": (
        lambda: run_once(
            fa.solvers.consensus_admm(a_link()), small_problem(trees.from_counts([2, 1]))
        ),
        "the tree's depth is 2, but the solver is built for 1; give it one link per "
        "level below the root (1) and one regulariser per level (2).",
    ),
    "regularisers": (
        lambda: fa.solvers.hierarchical_admm(a_link(), [a_link()], [penalties.zero()]),
        "regularizers must hold one per level of servers, the root included (2 with 1 server "
        "links), but it holds 1.",
    ),
    "client update": (
        lambda: fa.solvers.hierarchical_admm(a_link(), client_update="exact"),
        "client_update must be one of 'prox' and 'linearized', but it is 'exact'.",
    ),
    "passes": (
        lambda: fa.solvers.consensus_admm(a_link(), passes=0),
        "passes must be at least 1, but it is 0.",
    ),
    "no smoothed prox": (
        lambda: a_link(penalty=penalties.add(penalties.l1(1.0), penalties.box(0.0, 1.0))),
        "penalty must have a smoothed prox, as penalties.l1, mcp and scad do, but it is "
        "Sum(inner=L1(",
    ),
    "penalty": (
        lambda: a_link(penalty=3.0),
        "penalty must have a smoothed prox, as penalties.l1, mcp and scad do, but it is 3.0.",
    ),
    "omega": (
        lambda: fa.solvers.hfsad(small_problem(trees.star(2)), omega=0),
        "omega must be greater than 0, but it is 0.",
    ),
    "lambda": (
        lambda: fa.solvers.hfsad(small_problem(trees.star(2)), lam=-1.0),
        "lam must be greater than 0, but it is -1.",
    ),
    "gamma": (
        lambda: fa.solvers.scad_regularizers(trees.star(2), gamma=1.5),
        "gamma must be greater than 2, but it is 1.5.",
    ),
    "slopes": (
        lambda: fa.solvers.consensus_links(trees.from_counts([2, 1]), 1.0, [-1.0]),
        "slopes must be at least 0, but it is -1.",
    ),
    "no prox": (
        lambda: run_once(fa.solvers.consensus_admm(a_link()), a_regression()),
        "HierarchicalADMM needs a problem with prox_memory and prox (Prox), which "
        "RobustRegression lacks; problems.federated and phase_retrieval have them.",
    ),
    "no smoothed gradients": (
        lambda: run_once(
            fa.solvers.consensus_admm(a_link(), client_update="linearized"),
            Quadratics(jnp.ones((2, DIM)), trees.star(2), jnp.zeros(DIM)),
        ),
        "HierarchicalADMM needs a problem with smoothed_gradients (SmoothedGradients), and project "
        "(Projection), which Quadratics lacks; problems.federated, phase_retrieval and "
        "robust_regression have them.",
    ),
    "mask": (
        lambda: fa.run(
            fa.solvers.consensus_admm(a_link(), passes=2),
            small_problem(trees.star(3)),
            jax.random.key(0),
            rounds=1,
            participation=participation.replay(np.ones((1, 3), bool)),
        ),
        "masks must have shape (any, 2, 3), but it has (1, 3).",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_get_a_sentence(name):
    mistake, sentence = MISTAKES[name]
    with pytest.raises(fa.InputError) as caught:
        mistake()
    if sentence.endswith("."):
        assert str(caught.value) == sentence
    else:
        assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("name", ["sigma", "mu"])
@pytest.mark.parametrize("value", [0, -1.5, np.nan])
def test_numbers_of_a_link_must_be_positive(name, value):
    with pytest.raises(fa.InputError, match=r"must be (greater than 0|finite), but it is"):
        a_link(**{name: value})


@pytest.mark.thorough
def test_group_norm_and_zero_can_be_links():
    """Cut off, a client minimises its loss alone; with the norm of the difference all agree."""
    targets = jnp.asarray(np.random.default_rng(1).standard_normal((3, DIM)), jnp.float32)
    problem = Quadratics(targets, trees.star(3), jnp.zeros(DIM))
    alone, together = (
        run_once_more(fa.solvers.consensus_admm(fa.solvers.tree_link(1.0, 20.0, penalty)), problem)
        for penalty in (penalties.zero(), penalties.group_l2(5.0))
    )
    np.testing.assert_allclose(alone.clients.w, targets, atol=1e-2)
    mean = jnp.mean(targets, 0)
    np.testing.assert_allclose(together.root, mean, atol=1e-3)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_an_inexact_prox_remembers_and_ends_where_the_exact_one_does():
    """Gradient steps go on from the models that the prox returned last; the absent keep theirs."""
    trained = trained_star()
    data = trained.local.features, trained.local.targets, trained.local.weights
    descent = replace(trained.local, rate=jnp.asarray(0.05), optimizer=optax.sgd, steps=20)
    inexact = replace(trained, local=descent)
    exact = replace(trained, local=losses.least_squares(*data))
    solver = fa.solvers.consensus_admm(fa.solvers.tree_link(1.0, 20.0, penalties.l1(5.0)))
    process = participation.bernoulli(0.5)

    def finish(problem):
        return fa.run(solver, problem, jax.random.key(0), rounds=400, participation=process)

    found, wanted = finish(inexact), finish(exact)
    assert wanted.state.solver.clients.memory == ()
    clients = found.state.solver.clients
    np.testing.assert_array_equal(clients.memory.models, clients.w)
    np.testing.assert_allclose(found.estimate, wanted.estimate, atol=1e-3)


def run_once_more(solver, problem):
    return fa.run(solver, problem, jax.random.key(0), rounds=500).state.solver
