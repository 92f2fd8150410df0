"""Solvers on trees with an exchange: equations, who sends and reads, what servers make of it."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import InputError, messages, participation, penalties, schedules, solvers, trees
from fedjax_admm._pytrees import pytree_dataclass
from tests.messages.loud import Loud
from tests.reference import tree_exchanged as exchanged

NESTED = [[[0, 2], [1, 3]], [4, 5], 6, 7]  # clients at the levels 1, 2 and 3
# The same tree: the root, its servers 1 and 2, the servers 3 and 4 below 1, then the clients.
PARENTS, CLIENTS = [-1, 0, 0, 1, 1, 3, 4, 3, 4, 2, 2, 0, 0], list(range(5, 13))
ROUNDS = 12


@pytree_dataclass
class Points:
    """`f_i(x) = ||x - b_i||^2 / 2` on a tree."""

    b: jax.Array  # shape=(clients, dim)
    tree: trees.Tree

    @property
    def start(self):
        return jnp.zeros(self.b.shape[1], self.b.dtype)

    @property
    def num_clients(self):
        return self.b.shape[0]

    def prox_memory(self, start):
        return ()

    def prox(self, points, step, memory):
        return (points + step[:, None] * self.b) / (1 + step[:, None]), memory

    def project(self, points):
        return points

    def values(self, points):
        return jnp.sum((points - self.b) ** 2, -1) / 2

    def gradients(self, points, key=None):
        return points - self.b


def points(tree, seed=0):
    rng = np.random.default_rng(seed)
    return Points(jnp.asarray(rng.standard_normal((tree.num_clients, 3))), tree)


def link(weight=50.0):
    """Return a link of the clients' size that holds models together."""
    still = schedules.constant
    return solvers.tree_link(still(1.0), still(1e-6), penalties.l1(weight))


def hierarchy(tree, exchange=None, passes=1):
    below = [link(500.0)] * (tree.depth - 1)
    return solvers.hierarchical_admm(link(), below, passes=passes, exchange=exchange)


def tree_of(name):
    made = {
        "two": lambda: trees.from_counts([2, 3]),
        "three": lambda: trees.from_nested(NESTED),
    }
    return made[name]()


def test_what_is_sent_is_counted_in_bits_and_weights_have_32():
    problem = points(tree_of("two"))
    solver = hierarchy(problem.tree, messages.exchange(messages.qsgd(1), messages.natural()))
    bits = messages.qsgd(1).bits((3,)) + 32
    assert solver.traffic(problem) == (4, 3, 0, 0, bits, messages.natural().bits((3,)))
    assert hierarchy(problem.tree).traffic(problem) == (4, 3, 0, 0, None, None)
    flat = solvers.consensus_admm(link(), exchange=messages.exchange(Loud()))
    assert flat.traffic(problem).up_bits == 7 + 32
    solver = solvers.centralized_subgradient(1.0, exchange=messages.exchange(Loud()))
    assert solver.traffic(problem)[4:] == (7, 3 * 32)


def test_what_is_no_exchange_is_refused():
    for build in (
        lambda: hierarchy(trees.star(3), "qsgd"),
        lambda: solvers.consensus_admm(link(), exchange=3),
        lambda: solvers.centralized_subgradient(1.0, exchange=messages.qsgd(4)),
    ):
        with pytest.raises(InputError, match="exchange"):
            build()


@pytest.mark.usefixtures("x64")
def test_equations_hold_where_everything_happens_to_messages():
    tree, passes, step, share = tree_of("three"), 2, 0.9, 0.3
    rng = np.random.default_rng(5)
    masks = rng.random((20, passes, tree.num_links)) < 0.7
    bad = np.isin(np.arange(tree.num_links), [4, 9])  # a client, and a server of level 1
    exchange = messages.exchange(
        messages.differences(messages.top_k(1), step=step),
        messages.differences(messages.top_k(1), step=step),
        aggregator=messages.trimmed_mean(share, cap=100),
        attack=messages.sign_flip(who=bad),
        delay=messages.fixed_delay(1),
    )
    one = solvers.tree_link(2.0, 1.5, penalties.l1(3.0))
    solver = solvers.hierarchical_admm(one, [one, one], passes=passes, exchange=exchange)
    problem = Points(jnp.asarray(rng.standard_normal((tree.num_clients, 3))), tree)
    run = fa.run(
        solver,
        problem,
        jax.random.key(0),
        rounds=len(masks),
        participation=participation.replay(masks),
        measure=lambda solver, problem, state: {"root": state.root},
    )
    roots, clients = exchanged.hierarchical_admm(
        PARENTS,
        CLIENTS,
        np.asarray(problem.b),
        np.zeros(3),
        masks=masks,
        bad=bad,
        c=2.0,
        alpha=1.5,
        weight=3.0,
        step=step,
        share=share,
    )
    assert np.abs(roots[-1]).max() > 1e-2
    np.testing.assert_allclose(run.trace["root"], roots, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(solver.client_models(run.state.solver), clients, atol=1e-9)


# --- the harness, by parts of an exchange ---------------------------------------------------------


@pytest.mark.thorough
def test_clients_and_servers_of_one_parent_vote_together_at_every_level():
    tree = tree_of("three")
    rng = np.random.default_rng(3)
    exchange = messages.exchange(aggregator=messages.coordinate_median())
    solver = hierarchy(tree, exchange)
    state = solver.init(points(tree), jax.random.key(0))
    known = [rng.standard_normal(part.known.shape).astype(np.float32) for part in state.exchange.up]
    up = zip(state.exchange.up, known, strict=True)
    up = tuple(part._replace(known=jnp.asarray(values)) for part, values in up)
    state = state._replace(exchange=state.exchange._replace(up=up))
    # The children of every server, read off the nested lists: rows of what is known.
    children = [
        [[*known[1], *known[0][6:8]]],  # the root: two servers of level 1, clients 6 and 7
        [[*known[2]], [*known[0][4:6]]],
        [[known[0][0], known[0][2]], [known[0][1], known[0][3]]],
    ]
    for level, expected in enumerate(children):
        (total, weight), state = jax.jit(solver._receive, static_argnums=2)(tree, state, level)
        np.testing.assert_allclose(weight, [[len(rows)] for rows in expected])
        np.testing.assert_allclose(
            total / weight, [np.median(rows, 0) for rows in expected], rtol=1e-6
        )
    assert [last.shape[0] for last in state.exchange.last] == [1, 2, 2]


@pytest.mark.thorough
def test_both_ends_of_every_link_hold_the_same_whoever_takes_part():
    tree, passes = tree_of("three"), 2
    lossy = messages.exchange(messages.top_k(1), messages.differences(messages.qsgd(2)))
    solver = hierarchy(tree, lossy, passes)
    rng = np.random.default_rng(0)
    masks = rng.random((ROUNDS, passes, tree.num_links)) < 0.6
    masks[:, :, [3, 9]] = False  # a client, and a server of level 1: they never say a word
    masks[-1, 0, 7], masks[-1, 1, 7] = True, False  # a child of the root, which sends later
    problem = points(tree)
    run = fa.run(
        solver, problem, jax.random.key(0), rounds=ROUNDS, participation=participation.replay(masks)
    )
    state = run.state.solver
    levels = (state.clients, *state.servers)
    for level, (nodes, part) in enumerate(zip(levels, state.exchange.up, strict=True)):
        upload = solver.upload(level, nodes)
        np.testing.assert_allclose(part.known, upload.values, atol=1e-5)
        np.testing.assert_array_equal(part.weights, upload.weights)
    # Top-1 of uploads that are no multiples of a unit vector: something was lost.
    assert np.count_nonzero(state.exchange.up[0].known, 1).max() == 1
    first = solver.init(problem, jax.random.key(0))
    chex.assert_trees_all_equal(
        jax.tree.map(lambda leaf: leaf[3], (state.clients, state.exchange.down[0])),
        jax.tree.map(lambda leaf: leaf[3], (first.clients, first.exchange.down[0])),
    )
    assert not np.any(state.servers[0].updates[1])
    assert not np.any(state.exchange.up[1].known[1])


CAPTURED = np.eye(30, dtype=bool)[27]  # of 25 clients and 5 edge servers, the third server


@pytest.mark.thorough
def test_a_captured_edge_server_moves_the_mean_at_the_cloud_and_not_its_median():
    tree = trees.from_counts([5] * 5)
    problem = points(tree)
    # One truth: the honest agree, so that a robust cloud finds it exactly.
    problem = Points(jnp.broadcast_to(problem.b[:1], problem.b.shape), tree)
    attack = messages.constant_message(value=100.0, who=CAPTURED)
    found = {}
    for name, rule in {"mean": None, "median": messages.coordinate_median()}.items():
        solver = hierarchy(tree, messages.exchange(aggregator=rule, attack=attack))
        found[name] = fa.run(solver, problem, jax.random.key(0), rounds=60)
    truth = problem.b[0]
    bad = [np.asarray(part.byzantine) for part in found["mean"].state.solver.exchange.up]
    np.testing.assert_array_equal(np.concatenate(bad), CAPTURED)
    np.testing.assert_allclose(found["median"].estimate, truth, atol=1e-3)
    assert np.min(np.abs(found["mean"].estimate - truth)) > 1


@pytest.mark.thorough
def test_byzantine_nodes_by_share_are_clients_and_what_does_not_fit_the_tree_is_refused():
    tree = tree_of("two")
    problem = points(tree)
    solver = hierarchy(tree, messages.exchange(attack=messages.sign_flip(0.4)))
    clients, servers = solver.init(problem, jax.random.key(0)).exchange.up
    assert int(jnp.sum(clients.byzantine)) == 2
    assert not np.any(servers.byzantine)
    named = messages.sign_flip(who=[True] + [False] * 4)
    start = hierarchy(tree, messages.exchange(attack=named)).init(problem, jax.random.key(0))
    assert start.exchange.up[0].byzantine.tolist() == [True] + [False] * 4
    krum = hierarchy(tree, messages.exchange(aggregator=messages.krum(1)))
    with pytest.raises(InputError, match="group has 2"):
        fa.run(krum, problem, jax.random.key(0), rounds=1)
    hfsad = solvers.hfsad(problem, omega=1.0, exchange=messages.exchange(attack=named))
    assert (
        hfsad.init(problem, jax.random.key(0)).exchange.up[0].byzantine.tolist()
        == [True] + [False] * 4
    )
    wrong = hierarchy(tree, messages.exchange(attack=messages.sign_flip(who=[True, False])))
    with pytest.raises(InputError, match="5"):
        wrong.init(problem, jax.random.key(0))


@pytest.mark.thorough
def test_delays_count_passes_and_the_cloud_waits_for_what_is_on_its_way():
    tree, passes = tree_of("two"), 2
    problem = points(tree)
    late = messages.exchange(delay=messages.fixed_delay(3))
    solver = hierarchy(tree, late, passes)
    run = fa.run(
        solver,
        problem,
        jax.random.key(0),
        rounds=6,
        measure=lambda solver, problem, state: {
            "root": state.root,
            "client": state.exchange.up[0].known,
            "edge": state.servers[0].w,
        },
    )
    moved = {
        name: np.any(run.trace[name] != 0, (-2, -1) if name != "root" else -1)
        for name in ("root", "client", "edge")
    }
    # Clients send in passes 0, 1, ...; the first is heard in pass 3, the second of round 2.
    assert moved["client"].tolist() == [False] + [True] * 5
    assert moved["edge"].tolist() == [False] + [True] * 5
    # Edge servers send the cloud what they made of it in that pass 3; it is heard in pass 6, and
    # what was on its way before was zero.
    assert moved["root"].tolist() == [False] * 3 + [True] * 3


# --- all data in one place ------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_median_of_subgradients_bears_a_byzantine_client():
    tree = tree_of("two")
    problem = Points(jnp.broadcast_to(jnp.array([[1.0, -2.0, 0.5]]), (5, 3)), tree)
    lies = messages.sign_flip(0.2, scale=50.0)

    def end(rule):
        exchange = messages.exchange(aggregator=rule, attack=lies)
        solver = solvers.centralized_subgradient(schedules.geometric(0.5, 0.93), exchange=exchange)
        return fa.run(solver, problem, jax.random.key(0), rounds=120).estimate

    np.testing.assert_allclose(end(messages.coordinate_median()), problem.b[0], atol=1e-2)
    assert np.max(np.abs(end(None) - problem.b[0])) > 1
