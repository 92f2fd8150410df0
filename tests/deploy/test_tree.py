"""Deployed trees against the simulation: the same states, whoever takes part, at any depth."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import deploy, messages, participation, solvers, trees
from fedjax_admm.deploy._tree import places

KEY, PASSES = jax.random.key(3), 2
TREES = {
    # Client 3 is a child of the root.
    "two": trees.from_nested([[0, 1], [2, 4], 3]),
    # Client 4 is a child of a middle node that has a server below it, too.
    "three": trees.from_nested([[[0, 1], 4], [[2, 3]]]),
}
EXCHANGES = {
    "plain": None,
    "coded": messages.exchange(messages.error_feedback(messages.qsgd(4)), messages.qsgd(8)),
    "robust": messages.exchange(
        messages.differences(messages.top_k(2)), aggregator=messages.coordinate_median()
    ),
}


@pytest.fixture
def double():
    with jax.enable_x64(True):
        yield


def problem_on(tree):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5, 3))
    y = (x @ np.ones(3)) ** 2 + rng.normal(size=5)
    return fa.problems.phase_retrieval(jnp.asarray(x), jnp.asarray(y), tree, start=jnp.full(3, 0.5))


def present_on(tree, rounds):
    """Each node is there in seven works of ten; the last middle node is away for two rounds."""
    present = np.random.default_rng(1).random((rounds, PASSES, tree.num_links)) < 0.7
    present[2:4, :, -1] = False
    return present


def simulated(solver, problem, heard):
    """Run the simulation in which the same nodes take part."""
    return fa.run(
        solver, problem, KEY, rounds=len(heard), participation=participation.replay(heard)
    )


def check_same(result, server, nodes, tolerance=1e-12):
    """Compare the root's model, and what every node keeps, with those of a simulation.

    Errors are relative to the largest number of their kind.
    """
    state = result.state.solver
    stacked = jax.tree.map(lambda *rows: np.concatenate(rows), *(node.clients for node in nodes))
    kept = jax.tree.map(lambda *levels: np.concatenate(levels), state.clients, *state.servers)
    pairs = [(server.estimate, result.estimate), *zip(stacked, kept, strict=True)]
    for deployed, expected in pairs:
        scale = np.max(np.abs(expected), initial=0)
        np.testing.assert_allclose(deployed, expected, atol=tolerance * scale, rtol=0)


def way(tree, i):
    """Return a node and all servers above it, without the root."""
    parents = [place.parent for place in places(tree)]
    found = [i]
    while parents[found[-1]] >= 0:
        found.append(parents[found[-1]])
    return found


def attached(tree, present):
    """Return who is heard: all of the way to the root are there, the last for a whole round."""
    heard = present.copy()
    for i in range(tree.num_links):
        *inner, last = way(tree, i)
        heard[..., i] = present[..., inner].all(-1) & present[:, :1, last]
    return heard


def check_deployed(shape, exchange, rounds, present):
    tree = TREES[shape]
    problem = problem_on(tree)
    solver = solvers.hfsad(problem, passes=PASSES, exchange=EXCHANGES[exchange])
    server, nodes = deploy.in_process(solver, problem, KEY, rounds=rounds, present=present)
    np.testing.assert_array_equal(server.record.heard, attached(tree, present))
    return simulated(solver, problem, server.record.heard), server, nodes


@pytest.mark.thorough  # by default `test_killed_late_and_resumed` stands for it
@pytest.mark.parametrize(("shape", "exchange"), [("two", "plain"), ("three", "coded")])
def test_deployed_as_simulated(shape, exchange, double):
    check_same(*check_deployed(shape, exchange, 12, present_on(TREES[shape], 12)))


@pytest.mark.thorough
@pytest.mark.parametrize(("shape", "exchange"), [("two", "coded"), ("three", "robust")])
def test_long_deployments(shape, exchange, double):
    check_same(*check_deployed(shape, exchange, 200, present_on(TREES[shape], 200)))


@pytest.mark.thorough
def test_single_precision():
    result, server, _ = check_deployed("three", "coded", 200, present_on(TREES["three"], 200))
    scale = np.max(np.abs(result.estimate))
    np.testing.assert_allclose(server.estimate, result.estimate, atol=2e-6 * scale)


def test_killed_late_and_resumed(tmp_path, double):
    """Works are lost, late or half done at every level, and nodes go on from their files."""
    tree, rounds = TREES["three"], 12
    problem = problem_on(tree)
    solver = solvers.hfsad(problem, passes=PASSES, exchange=EXCHANGES["coded"])
    study = deploy.Study.of(solver, problem, KEY)
    sites = []
    plain = deploy.called(sites)
    dies = {(2, 6), (4, 5), (9, 0), (12, 7), (12, 3)}  # (pass, node): worked, and was not heard
    cut = (8, 5)  # the machine stops before its state is written; its children have worked

    def ask(name, messages, seconds):
        for i, data in messages.items():
            index = int.from_bytes(data[12:16]) if name == "work" else -1
            file, before = sites[i].file, b""
            if (index, i) == cut:
                before = file.read_bytes()
            answers = list(plain(name, {i: data}, seconds))
            if (index, i) == cut:
                file.write_bytes(before)
            if (index, i) in dies | {cut}:
                sites[i] = deploy.Site(study, i, tmp_path, below)
            else:
                yield from answers

    below = deploy.Children(ask, quorum=0)
    sites += [deploy.Site(study, i, tmp_path, below) for i in range(tree.num_links)]
    first = deploy.Rounds(study=study, rounds=7, folder=tmp_path, quorum=0)
    first.run(lambda name, *rest: iter(()) if name == "finish" else ask(name, *rest))
    job = deploy.Rounds(study=study, rounds=rounds, folder=tmp_path, quorum=0, resume=True)
    server = job.run(ask)
    heard = deploy.Record.load(tmp_path / "record.json").heard
    expected = np.ones((rounds * PASSES, tree.num_links), bool)
    for index, i in dies | {cut}:
        under = [j for j in range(tree.num_links) if i in way(tree, j)]
        passes = PASSES if way(tree, i) == [i] else 1
        expected[index : index + passes, under] = False
    np.testing.assert_array_equal(heard, expected.reshape(heard.shape))
    check_same(simulated(solver, problem, heard), server, [site._client for site in sites])


@pytest.mark.thorough
def test_messages_that_do_not_fit_are_refused(double):
    tree = TREES["two"]
    problem = problem_on(tree)
    solver = solvers.hfsad(problem, passes=PASSES)
    server, nodes = deploy.in_process(solver, problem, KEY, rounds=1)
    with pytest.raises(deploy.MessageError, match="is for client 5, but this is client 3"):
        nodes[3].work(server.broadcast(5))
    with pytest.raises(deploy.MessageError, match="client 0 is none of the 3 of this server"):
        server.receive(nodes[0].work(nodes[5].server.broadcast(0)), 0)
    upload = nodes[3].work(server.broadcast(3))
    with pytest.raises(deploy.MessageError, match="client 5 has sent a message as client 3"):
        server.receive(upload, 5)
    server.receive(upload, 3)
    with pytest.raises(deploy.MessageError, match="has been heard in this round already"):
        server.receive(upload, 3)
    server.close_round()
    with pytest.raises(deploy.MessageError, match="is of round 2, but round 4 is open"):
        server.receive(upload, 3)
    elsewhere = trees.from_nested([[0, 3], [2, 4], 1])
    other = deploy.TreeClient(solver, problem.take(jnp.array([0])), 0, elsewhere, KEY)
    with pytest.raises(deploy.MessageError, match="another solver"):
        other.work(nodes[5].server.broadcast(0))


class Replayed(deploy.Site):
    """A site that gets all messages of its parent again, each time that it has worked."""

    def answer(self, name, data):
        reply, node = super().answer(name, data), self._client
        if name == "work":
            states = {i: node._states[i] for i in (node._base, max(node._states))}
            self.got += [(name, data), ("finish", data)]
            for way, old in self.got:
                try:
                    getattr(node, way)(old)
                except deploy.MessageError as refusal:
                    self.refusals.append(str(refusal))
                for label, state in states.items():
                    jax.tree.map(np.testing.assert_array_equal, node._states[label], state)
        elif name == "begin":
            self.got, self.refusals = [(name, data)], []
        return reply


@pytest.mark.kin(1)
@pytest.mark.parametrize("passes", [1, 3])
def test_replayed_messages_leave_the_states_as_they_were(passes, double, tmp_path):
    tree, rounds = TREES["three"], 2
    problem, sites = problem_on(tree), []
    solver = solvers.hfsad(problem, passes=passes, exchange=EXCHANGES["coded"])
    study, ask = deploy.Study.of(solver, problem, KEY), deploy.called(sites)
    below = deploy.Children(ask, quorum=0)
    sites += [Replayed(study, i, tmp_path, below) for i in range(tree.num_links)]
    server = deploy.Rounds(study=study, rounds=rounds, folder=tmp_path, quorum=0).run(ask)
    plain = deploy.in_process(solver, problem, KEY, rounds=rounds)
    np.testing.assert_array_equal(server.estimate, plain.server.estimate)
    for site, node in zip(sites, plain.clients, strict=True):
        jax.tree.map(np.testing.assert_array_equal, site._client.clients, node.clients)
        for words in ("the rounds have begun", "is over"):
            assert any(words in each for each in site.refusals)


def test_a_record_of_passes_is_read_as_written(tmp_path):
    heard = np.random.default_rng(0).random((4, PASSES, 7)) < 0.5
    deploy.Record(heard, "digest").save(tmp_path / "record.json")
    np.testing.assert_array_equal(deploy.Record.load(tmp_path / "record.json").heard, heard)


def test_what_is_no_deployment_on_a_tree_says_why():
    problem = problem_on(TREES["two"])
    solver = solvers.hfsad(problem)
    with pytest.raises(fa.InputError, match="the tree's depth is 3, but the solver is built for 2"):
        deploy.TreeServer(solver, problem.start, TREES["three"], KEY)
    with pytest.raises(fa.InputError, match="topology must be a tree"):
        deploy.Study(
            solver=solver, model=problem.start, num_clients=5, key=KEY, problem=problem.take
        )
