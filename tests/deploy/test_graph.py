"""Deployed graphs against the simulation: the same states, whoever takes part."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chex import assert_trees_all_close

import fedjax_admm as fa
from fedjax_admm import deploy, graphs, messages, participation, problems, solvers
from fedjax_admm.deploy._messages import Kind, Message, write

NODES, DIM, ROUNDS, KEY = 5, 3, 20, jax.random.key(3)
# Degrees are 1, 3, 2, 3 and 1; the last edge of the list is not there.
GRAPH = graphs.from_edges(
    NODES, [(0, 1), (1, 2), (1, 3), (2, 3), (3, 4)], [1.0, 2.0, 0.5, 1.0, 1.5], max_edges=6
)
FEEDBACK = messages.exchange(messages.error_feedback(messages.qsgd(4)))
ROBUST = messages.exchange(
    messages.differences(messages.top_k(2)), aggregator=messages.coordinate_median()
)
SOLVERS = {
    "extra": solvers.extra(),
    "extra_coded": solvers.extra(mixing=0.5, exchange=FEEDBACK),
    "extra_robust": solvers.extra(exchange=ROBUST),
    "pg_extra": solvers.pg_extra(regularizer=fa.penalties.l1(0.1)),
    "gtv": solvers.gtv_primal_dual(None, 0.1, ratio=1.0),
    "gtv_coded": solvers.gtv_primal_dual(None, 0.1, ratio=1.0, exchange=FEEDBACK),
    "letters": solvers.decentralized_admm(),
    "letters_coded": solvers.decentralized_admm(exchange=FEEDBACK),
    "letters_robust": solvers.decentralized_admm(exchange=ROBUST),
}
KIN = dict.fromkeys(
    ("extra", "extra_coded", "extra_robust", "pg_extra", "gtv", "letters", "letters_robust"),
    pytest.mark.thorough,
)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(NODES, 6, DIM)).astype(np.float32)
    y = rng.normal(size=(NODES, 6)).astype(np.float32)
    return problems.networked_regression(GRAPH, list(x), list(y))


def present_of(rounds):
    """Everybody is there in the first two rounds, and in six of ten later; one is long away."""
    present = np.random.default_rng(1).random((rounds, NODES)) < 0.6
    present[:2] = True
    present[3:9, 2] = False
    return present


def simulated(solver, problem, heard):
    return fa.run(
        solver, problem, KEY, rounds=len(heard), participation=participation.replay(heard)
    )


def check_same(result, nodes, tolerance=1e-6):
    """Compare estimates, and what every node keeps, with those of a simulation."""
    state = result.state.solver
    kept = jax.tree.map(lambda *rows: jnp.concatenate(rows), *(n.clients for n in nodes))
    assert_trees_all_close(kept, state.nodes, atol=tolerance, rtol=tolerance)
    estimates = np.stack([node.estimate for node in nodes])
    np.testing.assert_allclose(estimates, result.estimate, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("name", [pytest.param(x, marks=KIN.get(x, ())) for x in SOLVERS])
def test_deployed_as_simulated(name, problem):
    present, solver = present_of(ROUNDS), SOLVERS[name]
    relay, nodes = deploy.in_process(solver, problem, KEY, rounds=ROUNDS, present=present)
    np.testing.assert_array_equal(relay.record.heard, present)
    check_same(simulated(solver, problem, present), nodes)


def test_the_bytes_along_edges_are_those_that_traffic_counts(problem):
    solver = SOLVERS["extra_coded"]
    relay, _ = deploy.in_process(solver, problem, KEY, rounds=3)
    length = -(-solver.traffic(problem).up_bits // 8)
    sent = solver.messages(problem, jnp.ones(NODES, bool))
    assert relay.bytes_down == 3 * int(sent) * length
    # One message leaves a node for all its neighbours.
    assert relay.bytes_up == 3 * NODES * length


def joined(solver, problem, rounds=0):
    relay, nodes = deploy.in_process(solver, problem, KEY, rounds=rounds)
    study = deploy.Study.of(solver, problem, KEY)
    return relay, nodes, study


@pytest.mark.kin(1)
@pytest.mark.parametrize("name", ["extra_coded", "letters_coded"])
def test_killed_late_and_resumed(name, problem, tmp_path):
    """A node dies with its work unsent, another is late, the relay starts anew from its file."""
    solver = SOLVERS[name]
    relay, nodes, study = joined(solver, problem)
    for index in range(8):
        sent = [node.work(relay.broadcast(node.number)) for node in nodes]
        for node, data in zip(list(nodes), sent, strict=True):
            late = index == 2 and node.number == 1
            dies = index in (3, 4) and node.number == 0
            if not (late or dies):
                relay.receive(data, node.number)
            if dies:
                node.save(tmp_path / "node")
                nodes[0] = study.client(0)
                nodes[0].resume(tmp_path / "node")
        relay.close_round()
        if index == 2:
            with pytest.raises(deploy.MessageError, match="of round 2, but round 3 is open"):
                relay.receive(sent[1], 1)
        if index == 5:
            relay.save(tmp_path / "relay")
            relay = study.server()
            relay.resume(tmp_path / "relay")
    for node in nodes:
        node.finish(relay.broadcast(node.number))
    assert relay.record.heard.sum() == 8 * NODES - 3
    check_same(simulated(solver, problem, relay.record.heard), nodes)


def test_an_old_state_is_refused(problem, tmp_path):
    relay, nodes, study = joined(SOLVERS["extra"], problem, rounds=1)
    nodes[0].save(tmp_path / "old")
    old = relay.broadcast(0)
    for _ in range(2):
        for node in nodes:
            relay.receive(node.work(relay.broadcast(node.number)))
        relay.close_round()
    former = study.client(0)
    former.resume(tmp_path / "old")
    with pytest.raises(deploy.MessageError, match="which its state does not know"):
        former.work(relay.broadcast(0))
    with pytest.raises(deploy.MessageError, match="is over"):
        nodes[0].finish(old)


def test_replayed_messages_change_nothing(problem):
    """Neither the first message, nor that of an open round where the last one is due."""
    relay, nodes, study = joined(SOLVERS["extra"], problem, rounds=1)
    first = study.server()
    for node in nodes:
        first.receive(study.client(node.number).hello())
    replayed, expected = (
        first.start()[1],
        deploy.in_process(SOLVERS["extra"], problem, KEY, rounds=3),
    )
    for _ in range(2):
        sent = {node.number: relay.broadcast(node.number) for node in nodes}
        for number, data in sent.items():
            relay.receive(nodes[number].work(data))
        with pytest.raises(deploy.MessageError, match="the rounds have begun"):
            nodes[1].begin(replayed)
        with pytest.raises(deploy.MessageError, match="is over"):
            nodes[1].finish(sent[1])
        relay.close_round()
    for node, other in zip(nodes, expected.clients, strict=True):
        node.finish(relay.broadcast(node.number))
        np.testing.assert_array_equal(node.estimate, other.estimate)


def test_malformed_messages_change_nothing(problem):
    """The relay looks at headers, lengths and numbers."""
    relay, nodes, _ = joined(SOLVERS["extra"], problem, rounds=1)
    fresh = [node.work(relay.broadcast(node.number)) for node in nodes]

    def forged(number, body, index=1):
        return write(Message(Kind.UP, number, index, 0, body), relay._digest)

    good = bytes(4 * DIM)
    for data, words in [
        (forged(1, b""), "0 bytes, but 12 are due"),
        (forged(NODES, good), "is none of the 5"),
        (forged(1, good, index=0), "but round 1 is open"),
        (forged(1, good[4:] + np.array(np.nan, ">f4").tobytes()), "not finite"),
        (forged(1, good[4:] + np.array(np.inf, ">f4").tobytes()), "not finite"),
    ]:
        with pytest.raises(deploy.MessageError, match=words):
            relay.receive(data)
    with pytest.raises(deploy.MessageError, match="client 2 has sent a message as client 1"):
        relay.receive(fresh[1], 2)
    assert relay.heard == ()
    for node in nodes:
        relay.receive(fresh[node.number], node.number)
    relay.close_round()
    nodes[1].work(relay.broadcast(1))


def test_what_cannot_be_deployed_says_why(problem):
    one = deploy.Study.of(solvers.extra(), problem, KEY).problem(0)
    with pytest.raises(fa.InputError, match="the problem of one client, but it has 5"):
        deploy.Node(solvers.extra(), problem, 0, GRAPH, KEY)
    with pytest.raises(fa.InputError, match="a solver on a graph"):
        deploy.Node(solvers.fsmdm(), one, 0, GRAPH, KEY)
    attacked = messages.exchange(attack=messages.sign_flip(0.2))
    with pytest.raises(fa.InputError, match="neither an attack nor a delay"):
        deploy.Relay(solvers.extra(exchange=attacked), jnp.zeros(DIM), GRAPH, KEY)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["extra_coded", "letters"])
def test_two_hundred_rounds_in_double_precision(name, problem):
    with jax.enable_x64(True):
        wide = jax.tree.map(
            lambda x: jnp.asarray(x, jnp.float64) if jnp.issubdtype(x.dtype, jnp.floating) else x,
            problem,
        )
        present = present_of(200)
        relay, nodes = deploy.in_process(SOLVERS[name], wide, KEY, rounds=200, present=present)
        check_same(simulated(SOLVERS[name], wide, relay.record.heard), nodes, 1e-12)


def squared(params, sample):
    return (sample["x"] @ params - sample["y"]) ** 2


def test_a_node_takes_the_problem_of_one_client_without_a_graph():
    rng = np.random.default_rng(0)
    rows = {"x": rng.normal(size=(NODES, 6, DIM)), "y": rng.normal(size=(NODES, 6))}
    rows = jax.tree.map(np.float32, rows)
    own = problems.federated(squared, rows, jnp.zeros(DIM), topology=GRAPH)
    parts = [own.take(jnp.array([i])) for i in range(NODES)]
    nodes = [deploy.Node(solvers.extra(), part, i, GRAPH, KEY) for i, part in enumerate(parts)]
    assert all(node.hello() for node in nodes)
    with pytest.raises(fa.InputError, match="must be the problem of one client, but it has 5"):
        deploy.Node(solvers.extra(), own, 0, GRAPH, KEY)
