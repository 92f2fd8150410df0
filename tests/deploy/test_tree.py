"""Deployed trees against the simulation: the same states, whoever takes part, at any depth."""

import jax
import numpy as np
import pytest
from chex import assert_trees_all_close

import fedjax_admm as fa
from fedjax_admm import deploy, messages, participation, solvers, trees

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


def problem_on(tree):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5, 3)).astype(np.float32)
    y = (x @ np.ones(3)) ** 2 + rng.normal(size=5)
    return fa.problems.phase_retrieval(x, y.astype(np.float32), tree)


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


def check_same(result, server, nodes, tolerance=2e-6):
    """Compare the root's model, and what every node keeps, with those of a simulation."""
    state = result.state.solver
    kept = [jax.tree.map(lambda x, i=i: x[i][None], state.clients) for i in range(5)]
    for level in state.servers:
        kept += [
            jax.tree.map(lambda x, i=i: x[i][None], level) for i in range(level.updates.shape[0])
        ]
    assert_trees_all_close(server.estimate, result.estimate, atol=tolerance, rtol=tolerance)
    states = [node.state for node in nodes]
    assert_trees_all_close(states, kept, atol=tolerance, rtol=tolerance)


def attached(tree, present):
    """Return who is heard: those who are present, and whose servers are, too."""
    heard = present.copy()
    at_root = [i for i, place in enumerate(deploy._tree.places(tree)) if place.parent < 0]
    heard[:, :, at_root] = present[:, :1, at_root]
    places = deploy._tree.places(tree)
    for i in reversed(range(tree.num_links)):
        above = places[i].parent
        while above >= 0:
            heard[..., i] &= present[:, :1, above] if above in at_root else present[..., above]
            above = places[above].parent
    return heard


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("shape", TREES)
def test_deployed_as_simulated(shape, exchange):
    tree, rounds = TREES[shape], 12
    problem = problem_on(tree)
    solver = solvers.hfsad(problem, passes=PASSES, exchange=EXCHANGES[exchange])
    present = present_on(tree, rounds)
    server, nodes = deploy.in_process(solver, problem, KEY, rounds=rounds, present=present)
    np.testing.assert_array_equal(server.record.heard, attached(tree, present))
    check_same(simulated(solver, problem, server.record.heard), server, nodes)
