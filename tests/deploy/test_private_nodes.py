"""Private solvers deployed: noise made at the node, its own ledger, the end of its budget."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import deploy, graphs, losses, messages, participation, privacy, problems, solvers
from fedjax_admm._pytrees import pytree_dataclass

NODES, DIM, KEY, SECRET = 4, 3, jax.random.key(3), jax.random.key(17)
ROUNDS, MOST = 10, 200
GRAPH = graphs.from_edges(NODES, [(0, 1), (1, 2), (1, 3), (2, 3)])
DELTA = 1e-5
RELEASE = privacy.gaussian_release(privacy.zcdp_plan(2.0, DELTA, MOST), 1.0)
CODED = messages.exchange(messages.differences(messages.qsgd(4)))
SOLVERS = {
    "zcdp_nfl": lambda release: solvers.private_networked_admm(release),
    "zcdp_nfl_coded": lambda release: solvers.private_networked_admm(release, exchange=CODED),
    "p_admm": lambda release: solvers.p_admm(release, newton_steps=8),
    "subgradient": lambda release: solvers.private_subgradient(release),
}
KIN = dict.fromkeys(("zcdp_nfl", "p_admm", "subgradient"), pytest.mark.thorough)


@pytree_dataclass
class NoiseOfNodes:
    """A release whose noise is drawn as nodes draw it: from a key of each, and its own count."""

    inner: privacy.GaussianRelease
    secrets: jax.Array  # shape=(nodes,), keys

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "inner"), name)

    def __call__(self, key, messages, gains, sizes, n):
        def one(secret, *row):
            message, gain, size, count = (x[None] for x in row)
            return self.inner(jax.random.fold_in(secret, count[0]), message, gain, size, count)[0]

        return jax.vmap(one)(self.secrets, messages, gains, sizes, n)


@pytest.fixture(scope="module")
def problem():
    return problems.draw_consensus_regression(
        jax.random.key(1), GRAPH, losses.squared(), samples=8, dim=DIM, l2=0.1
    )


def opened(solver, problem, secrets=None):
    """Return a relay and nodes that have joined, with given noise or the system's."""
    study = deploy.Study.of(solver, problem, KEY)
    relay = study.server()
    nodes = [
        deploy.Node(
            *(solver, study.problem(i), i, GRAPH, KEY),
            noise_key=None if secrets is None else secrets[i],
        )
        for i in range(NODES)
    ]
    for node in nodes:
        relay.receive(node.hello())
    for i, data in relay.start().items():
        relay.receive(nodes[i].begin(data))
    return relay, nodes


def run_rounds(relay, nodes, present):
    for row in present:
        for i in np.flatnonzero(row):
            relay.receive(nodes[i].work(relay.broadcast(int(i))), int(i))
        relay.close_round()
    for node in nodes:
        node.finish(relay.broadcast(node.number))


def check_same(name, problem, present, tolerance):
    secrets = jax.random.split(SECRET, NODES)
    relay, nodes = opened(SOLVERS[name](RELEASE), problem, secrets)
    run_rounds(relay, nodes, present)
    given = SOLVERS[name](NoiseOfNodes(RELEASE, secrets))
    result = fa.run(
        given, problem, KEY, rounds=len(present), participation=participation.replay(present)
    )
    estimates = np.stack([node.estimate for node in nodes])
    np.testing.assert_allclose(estimates, result.estimate, rtol=tolerance, atol=tolerance)
    account = privacy.ledger(result, DELTA)
    for i, node in enumerate(nodes):
        own = privacy.ledger(node.released, DELTA)
        assert own.epsilon[0] == account.epsilon[i]
        assert own.exact_epsilon[0] == account.exact_epsilon[i]
        assert int(node.released.releases[0]) == present[:, i].sum()


@pytest.mark.parametrize("name", [pytest.param(x, marks=KIN.get(x, ())) for x in SOLVERS])
def test_deployed_as_simulated_and_accounted_for(name, problem):
    present = np.random.default_rng(2).random((ROUNDS, NODES)) < 0.7
    check_same(name, problem, present, 2e-6)


@pytest.mark.thorough
def test_two_hundred_rounds_in_double_precision():
    with jax.enable_x64(True):
        wide = problems.draw_consensus_regression(
            jax.random.key(1), GRAPH, losses.squared(), samples=8, dim=DIM, l2=0.1
        )
        check_same(
            "zcdp_nfl_coded", wide, np.random.default_rng(2).random((MOST, NODES)) < 0.7, 1e-12
        )


def test_the_runs_key_tells_nothing_of_the_noise(problem):
    solver = SOLVERS["zcdp_nfl"](RELEASE)
    runs = [deploy.in_process(solver, problem, KEY, rounds=1) for _ in range(2)]
    first, second = (np.stack([node.estimate for node in run.clients]) for run in runs)
    assert np.all(first != second)
    # The models without noise are the same.
    for one, other in zip(runs[0].clients, runs[1].clients, strict=True):
        np.testing.assert_array_equal(one.clients.w, other.clients.w)


def test_a_node_ends_with_its_budget_and_counts_what_was_not_heard(problem, tmp_path):
    plan = privacy.zcdp_plan(2.0, DELTA, 3)
    solver = SOLVERS["zcdp_nfl"](privacy.gaussian_release(plan, 1.0))
    relay, nodes = opened(solver, problem)
    run_rounds(relay, nodes, np.ones((1, NODES), bool))
    # The same message gets the same bytes, before and after a restart, and is one release.
    asked = relay.broadcast(0)
    sent = nodes[0].work(asked)
    nodes[0].save(tmp_path / "node")
    again = deploy.Study.of(solver, problem, KEY).client(0)
    again.resume(tmp_path / "node")
    assert again.work(asked) == nodes[0].work(asked) == sent
    assert int(again.released.releases[0]) == 2
    # It is not heard: the work is taken back, but the release is not.
    for node in nodes[1:]:
        relay.receive(node.work(relay.broadcast(node.number)))
    relay.close_round()
    relay.receive(again.work(relay.broadcast(0)), 0)
    relay.close_round()
    spent = privacy.ledger(again.released, DELTA)
    assert int(again.released.releases[0]) == 3
    with pytest.raises(deploy.MessageError, match="in 3 releases, and its next"):
        again.work(relay.broadcast(0))
    assert privacy.ledger(again.released, DELTA).epsilon == spent.epsilon <= 2.0
    # The others have one release left.
    nodes[1].work(relay.broadcast(1))
    assert int(nodes[1].released.releases[0]) == 3


def test_a_new_deployment_goes_on_with_the_ledger(problem, tmp_path):
    """Whoever opens the deployment anew gets no new budget."""
    plan = privacy.zcdp_plan(2.0, DELTA, 3)
    solver = SOLVERS["zcdp_nfl"](privacy.gaussian_release(plan, 1.0))
    study = deploy.Study.of(solver, problem, KEY)
    heard = []
    for attempt in ("first", "second"):
        sites = [deploy.Site(study, i, tmp_path) for i in range(NODES)]
        job = deploy.Rounds(study=study, rounds=2, folder=tmp_path / attempt, quorum=0)
        relay = job.run(deploy.called(sites))
        heard.append(relay.record.heard.sum(1).tolist())
    assert heard == [[NODES, NODES], [NODES, 0]]


@pytest.mark.thorough
def test_nothing_is_refused_without_a_plan(problem):
    solver = SOLVERS["subgradient"](privacy.exact_release())
    _, nodes = deploy.in_process(solver, problem, KEY, rounds=2)
    assert jnp.isinf(nodes[0].released.spent[0])
