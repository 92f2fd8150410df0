"""Decentralised ADMM: trajectories, masks, numbers to expect, isolated nodes, its own weight."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import InputError, participation
from fedjax_admm.solvers import decentralized_admm, local_gradient
from fedjax_admm.solvers._declared import filled
from tests.reference import graph_peers as reference
from tests.solvers.graph.nodes import first_models, models, nodes

ROUNDS = 60
EVERYBODY = np.ones((400, reference.NODES), bool)
MASKS = np.random.default_rng(1).random((400, reference.NODES)) < 0.5
H, B = reference.curvatures_and_centres()


@partial(jax.jit, static_argnames="rounds")
def follow(solver, problem, masks, rounds):
    return fa.run(
        solver,
        problem,
        jax.random.key(0),
        rounds=rounds,
        participation=participation.replay(masks),
        measure=models,
    )


def trajectory(solver, problem, masks=EVERYBODY, rounds=ROUNDS):
    """Return the models after every round, shape (rounds, nodes, dim)."""
    return np.asarray(follow(solver, problem, masks, rounds).trace["x"])


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("x64")
def test_trajectories_with_everybody_are_those_of_nodes_with_multipliers():
    start = first_models()
    found = trajectory(decentralized_admm(0.2), nodes(lasso=0.1, start=start))
    wanted, multipliers = reference.admm_nodes(H, B, start, 0.2, EVERYBODY[:ROUNDS], 0.1)
    close(found, wanted)
    np.testing.assert_allclose(multipliers.sum(1), 0, atol=1e-13)
    assert reference.distance(found[-1], reference.minimizer(H, B, 0.1)) < 1e-9


@pytest.mark.usefixtures("x64")
def test_trajectories_with_masks_and_relaxation():
    start = first_models()
    for relaxation, masks in [(1.0, MASKS), (1.8, EVERYBODY), (0.6, MASKS)]:
        found = trajectory(
            decentralized_admm(0.3, relaxation=relaxation), nodes(start=start), masks
        )
        close(found, reference.admm_edges(H, B, start, 0.3, masks[:ROUNDS], relaxation))


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_masks_do_not_move_the_limit():
    found = trajectory(decentralized_admm(0.2), nodes(), MASKS, 200)
    optimum = reference.minimizer(H, B)
    np.testing.assert_allclose(reference.distance(found[99], optimum), 3.026e-8, rtol=5e-3)
    assert reference.distance(found[-1], optimum) < 1e-14
    # The multipliers of nodes, updated by those present alone, agree on another point.
    biased, multipliers = reference.admm_nodes(H, B, np.zeros_like(H), 0.2, MASKS)
    assert np.abs(biased[-1] - biased[-1].mean(0)).max() < 1e-6
    assert np.abs(multipliers[-1].sum(0)).max() > 0.1
    assert reference.distance(biased[-1], optimum) > 0.01


@pytest.mark.thorough
def test_its_own_weight_suits_problems_of_any_scale():
    for scale in (1.0, 1e3, 1e-3):
        found = follow(decentralized_admm(), nodes(scale=scale), EVERYBODY, ROUNDS).estimate
        assert reference.distance(np.asarray(found), reference.minimizer(H, B)) < 1e-5


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_its_own_weight_is_the_curvature_over_the_mean_degree():
    problem, solver = nodes(), decentralized_admm()
    state = solver.init(problem, jax.random.key(0))
    np.testing.assert_allclose(state.curvature, 1.05 * H.max(), rtol=0.05)
    weight = filled(solver, state.curvature).weight(problem.graph)
    np.testing.assert_allclose(weight, state.curvature * 8 / 22)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_nodes_without_neighbours_find_their_own_minimiser():
    edges = [edge for edge in reference.EDGES if 3 not in edge]
    problem, start = nodes(start=first_models(), edges=edges), first_models()
    for masks in (EVERYBODY, MASKS):
        found = trajectory(decentralized_admm(0.3), problem, masks, 300)
        wanted = reference.admm_edges(H, B, start, 0.3, masks[:300], edges=edges)
        close(found, wanted)
        np.testing.assert_allclose(found[-1, 3], B[3], atol=1e-6)
    alone = decentralized_admm(0.3)
    apart = fa.run(alone, nodes(edges=[]), jax.random.key(0), rounds=200).estimate
    np.testing.assert_allclose(apart, B, atol=1e-9)
    own = fa.run(decentralized_admm(), nodes(edges=[]), jax.random.key(0), rounds=200).estimate
    np.testing.assert_allclose(own, B, atol=1e-9)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_gradient_steps_in_place_of_the_prox():
    solver = decentralized_admm(local=local_gradient(steps=10))
    found = trajectory(solver, nodes(), rounds=150)
    assert reference.distance(found[-1], reference.minimizer(H, B)) < 1e-8


def test_messages_go_to_every_neighbour():
    solver, problem = decentralized_admm(), nodes()
    assert solver.traffic(problem) == fa.Traffic(up=3, down=3)
    assert int(solver.messages(problem, jnp.ones(8, bool))) == 22
    assert int(solver.messages(problem, jnp.arange(8) == 0)) == 3


def test_mistakes_are_told():
    with pytest.raises(InputError, match="rho must be greater than 0"):
        decentralized_admm(0.0)
    with pytest.raises(InputError, match="relaxation must be at most 2"):
        decentralized_admm(relaxation=2.5)
    with pytest.raises(InputError, match="local must be local_gradient"):
        decentralized_admm(local=3)
