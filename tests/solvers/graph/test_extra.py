"""EXTRA and PG-EXTRA: the published recursions, masks, invariants, steps, numbers to expect."""

from functools import partial

import jax
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import InputError, participation, penalties
from fedjax_admm.solvers import extra, pg_extra
from tests.reference import graph_peers as reference
from tests.solvers.graph.nodes import first_models, nodes

ROUNDS = 60
EVERYBODY = np.ones((400, reference.NODES), bool)
MASKS = np.random.default_rng(1).random((400, reference.NODES)) < 0.5
H, B = reference.curvatures_and_centres()


def nodes_of(solver, problem, state):
    return state.nodes._asdict()


@partial(jax.jit, static_argnames="rounds")
def follow(solver, problem, masks, rounds):
    return fa.run(
        solver,
        problem,
        jax.random.key(0),
        rounds=rounds,
        participation=participation.replay(masks),
        measure=nodes_of,
    )


def trajectory(solver, problem, masks=EVERYBODY, rounds=ROUNDS):
    """Return the models and the corrections after every round, (rounds, nodes, dim) each."""
    trace = follow(solver, problem, masks, rounds).trace
    return np.asarray(trace["x"]), np.asarray(trace["p"])


def lasso(weight, step=0.5):
    return pg_extra(step, penalties.l1(weight))


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("x64")
def test_trajectories_are_the_published_ones():
    start = first_models()
    found = trajectory(extra(0.5), nodes(start=start))[0]
    close(found, reference.extra_published(H, B, start, 0.5, ROUNDS))
    found = trajectory(lasso(0.1), nodes(start=start))[0]
    close(found, reference.extra_published(H, B, start, 0.5, ROUNDS, 0.1))


@pytest.mark.usefixtures("x64")
def test_without_a_regulariser_they_are_one():
    same = trajectory(extra(0.5), nodes()), trajectory(pg_extra(0.5), nodes())
    np.testing.assert_array_equal(*same)


@pytest.mark.usefixtures("x64")
def test_trajectories_with_masks_and_corrections_that_add_up_to_zero():
    start = first_models()
    for solver, weight in ((extra(0.5), 0.0), (lasso(0.1), 0.1)):
        for masks in (EVERYBODY, MASKS):
            found = trajectory(solver, nodes(start=start), masks)
            wanted = reference.extra_present(H, B, start, 0.5, masks[:ROUNDS], weight)
            close(found, wanted)
            np.testing.assert_allclose(found[1].sum(1), 0, atol=1e-12)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_masks_do_not_move_the_limit_here():
    """No theorem says so. After 100 rounds ADMM is at 3e-8 with the same masks."""
    for solver, weight in ((extra(0.5), 0.0), (lasso(0.1), 0.1)):
        found = trajectory(solver, nodes(), MASKS, 400)[0]
        optimum = reference.minimizer(H, B, weight)
        errors = [reference.distance(found[k - 1], optimum) for k in (50, 100, 400)]
        assert errors[0] > 1e-3
        assert errors[1] > 1e-5
        assert errors[2] < 1e-13


def test_its_own_step_suits_problems_of_any_scale():
    for scale in (1.0, 1e3, 1e-3):
        found = follow(extra(), nodes(scale=scale), EVERYBODY, ROUNDS).estimate
        assert reference.distance(np.asarray(found), reference.minimizer(H, B)) < 1e-5


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_its_own_step_with_a_regulariser():
    for scale in (1.0, 1e3, 1e-3):
        solver = pg_extra(regularizer=penalties.l1(0.1 * scale))
        found = follow(solver, nodes(scale=scale), EVERYBODY, ROUNDS).estimate
        optimum = reference.minimizer(scale * H, B, 0.1 * scale)
        assert reference.distance(np.asarray(found), optimum) < 1e-6


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_long_steps_diverge_where_the_docstring_says():
    """Equal losses of curvature 1: the exact bound is (5 + 3 lambda_min(W)) / 4."""
    smallest = np.linalg.eigvalsh(reference.metropolis(reference.EDGES, reference.NODES))[0]
    np.testing.assert_allclose(smallest, -0.292522, atol=1e-6)
    problem, bound = nodes(start=first_models()), (5 + 3 * smallest) / 4
    problem = type(problem)(np.ones_like(H), problem.b, problem.lasso, problem.graph, problem.start)
    below, above = (
        trajectory(extra(factor * bound), problem, rounds=400)[0][-1] for factor in (0.98, 1.02)
    )
    assert np.abs(below - B.mean(0)).max() < 1e-2
    assert np.abs(above).max() > 10


def test_mistakes_are_told():
    with pytest.raises(InputError, match="step must be greater than 0"):
        extra(-1.0)
    with pytest.raises(InputError, match="step must be a number"):
        pg_extra("half")
    with pytest.raises(InputError, match="regularizer must be a penalty"):
        pg_extra(regularizer=0.1)
