"""Optimisers of clients and of the server: each solver equals a loop that is written by hand."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import fedjax_admm as fa
from fedjax_admm import penalties
from fedjax_admm.problems import inner_steps, networked_training
from fedjax_admm.solvers import (
    fed_admm,
    fed_avg,
    fed_dyn,
    fed_prox,
    local_gradient,
    local_optimizer,
    local_prox,
    scaffold,
    server_adagrad,
    server_adam,
    server_momentum,
    server_yogi,
)
from tests.reference import star_optimizers as reference
from tests.solvers.quadratics import CLIENTS, draw, masks, quadratics

ROUNDS = 50
START = np.array([1.0, -2.0, 0.5, 0.0, 3.0])
CLIPPED_ADAM = optax.chain(optax.clip_by_global_norm(0.8), optax.adam(0.05))
thorough = pytest.mark.thorough


def falling(k):
    return 1 / (1 + 0.05 * k)


def estimate(solver, problem, state):
    return {"model": solver.estimate(state)}


def follow(solver, rounds=ROUNDS):
    return fa.run(
        solver,
        quadratics(START),
        jax.random.key(0),
        rounds=rounds,
        participation=fa.participation.replay(masks(rounds)),
        measure=estimate,
    ).trace["model"]


BY_LOOP = {
    "fed_avg": (fed_avg, lambda local: reference.averaging(local, START, masks(ROUNDS))),
    "fed_prox": (
        lambda local: fed_prox(0.7, local=local),
        lambda local: reference.averaging(local, START, masks(ROUNDS), 0.7),
    ),
    "scaffold": (scaffold, lambda local: reference.scaffold(local, START, masks(ROUNDS), CLIENTS)),
    "fed_dyn": (
        lambda local: fed_dyn(0.7, local=local),
        lambda local: reference.fed_dyn(local, START, masks(ROUNDS), CLIENTS, 0.7),
    ),
    "fed_admm": (
        lambda local: fed_admm(0.7, local=local),
        lambda local: reference.fed_admm(local, START, masks(ROUNDS), CLIENTS, 0.7),
    ),
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("name", "keep"),
    [
        *((name, True) for name in BY_LOOP),
        *(pytest.param(name, False, marks=thorough) for name in BY_LOOP),
    ],
)
def test_local_steps_of_an_optimiser_are_the_loop(name, keep):
    """Adam after clipping, with a rate that falls by the round, some clients absent."""
    build, loop = BY_LOOP[name]
    local = local_optimizer(CLIPPED_ADAM, steps=3, rate=falling, keep=keep)
    solver = build(local=local)
    wanted = loop(reference.Locals(*draw(), 3, keep, falling))
    np.testing.assert_allclose(follow(solver), wanted, rtol=0, atol=1e-9)
    assert np.abs(np.diff(wanted, axis=0)).max() > 1e-2


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    "build", [fed_avg, pytest.param(scaffold, marks=thorough), lambda local: fed_dyn(local=local)]
)
def test_plain_steps_of_an_optimiser_are_gradient_steps(build):
    mine = follow(build(local=local_optimizer(optax.sgd(0.2), steps=4)))
    np.testing.assert_allclose(
        mine, follow(build(local=local_gradient(0.2, steps=4))), rtol=0, atol=1e-12
    )


SERVERS = {
    "momentum": (lambda: server_momentum(0.5, decay=0.8), (0.5, 0.8, 0.0, 0.0)),
    "adagrad": (lambda: server_adagrad(0.3, tau=0.01), (0.3, 0.0, 0.0, 0.01)),
    "adam": (lambda: server_adam(0.2, b1=0.8, b2=0.95, tau=0.01), (0.2, 0.8, 0.95, 0.01)),
    "yogi": (lambda: server_yogi(0.2, b1=0.8, b2=0.95, tau=0.01), (0.2, 0.8, 0.95, 0.01)),
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("kind", SERVERS)
def test_server_optimisers_are_the_loop(kind):
    optimizer, numbers = SERVERS[kind]
    solver = fed_avg(0.3, local_steps=3, server_optimizer=optimizer())
    wanted = reference.server_steps(*draw(), START, masks(ROUNDS), 0.3, 3, kind, *numbers)
    np.testing.assert_allclose(follow(solver), wanted, rtol=0, atol=1e-9)


@pytest.mark.usefixtures("x64")
def test_an_optax_optimiser_serves_at_the_server():
    ours = fed_avg(0.3, local_steps=3, server_optimizer=server_momentum(0.5, decay=0.8))
    theirs = fed_avg(0.3, local_steps=3, server_optimizer=optax.sgd(0.5, momentum=0.8))
    np.testing.assert_allclose(follow(theirs), follow(ours), rtol=0, atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_the_numbers_of_a_server_optimiser_are_learnt_and_stacked():
    def end(rate):
        solver = fed_prox(0.5, server_optimizer=server_adam(rate, tau=0.1))
        return jnp.sum(follow(solver, 10)[-1] ** 2)

    slope = jax.grad(end)(0.2)
    quotient = (end(0.2 + 1e-6) - end(0.2 - 1e-6)) / 2e-6
    np.testing.assert_allclose(slope, quotient, rtol=1e-6)
    each = [end(rate) for rate in (0.1, 0.3)]
    np.testing.assert_allclose(jax.vmap(end)(jnp.array([0.1, 0.3])), each, rtol=1e-12)


def through_local_steps(adam, number):
    solver = fed_avg(local=local_optimizer(adam(0.05), steps=3, rate=number))
    return fa.run(solver, flat(), jax.random.key(0), rounds=3).estimate


def through_a_prox(problem, number):
    points = jnp.broadcast_to(problem.start, (CLIENTS, 3))
    return problem.prox(points, jnp.full(CLIENTS, number), problem.prox_memory(points))[0]


def through_training(adam, number):
    graph = fa.graphs.from_edges(CLIENTS, [(i, i + 1) for i in range(CLIENTS - 1)])
    options = {"optimizer": adam, "rate": 0.05, "steps": 3}
    problem = networked_training(graph, *flat_samples(), flat_loss, jnp.zeros(3), **options)
    return through_a_prox(problem, number)


def through_inner_steps(adam, number):
    return through_a_prox(flat(optimizer=inner_steps(adam(0.05), steps=3)), number)


THROUGH_ADAM = {
    "local_optimizer": (local_optimizer, through_local_steps),
    "inner_steps": (inner_steps, through_inner_steps),
    "networked_training": (networked_training, through_training),
}


def flat_loss(w, x, y):
    return (x @ w - y) ** 2 / 2


def flat_samples():
    """Return samples whose last feature is always zero, and with it the slope of its weight."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(CLIENTS, 4, 3)) * [1, 1, 0]
    return jnp.asarray(features, float), jnp.asarray(rng.normal(size=(CLIENTS, 4)), float)


def flat(**options):
    return fa.problems.federated(
        lambda w, sample: flat_loss(w, *sample), flat_samples(), jnp.zeros(3), **options
    )


@pytest.mark.kin(1)
@pytest.mark.parametrize("name", THROUGH_ADAM)
def test_a_derivative_through_adam_is_finite_where_slopes_are_zero(name, dtype):
    """With the `eps_root` that the builder's docstring gives; optax's default gives NaN."""
    builder, run = THROUGH_ADAM[name]
    assert "eps_root=1e-16" in builder.__doc__
    for adam, finite in ((partial(optax.adam, eps_root=1e-16), True), (optax.adam, False)):
        total = jax.grad(lambda number, adam=adam: jnp.sum(run(adam, number)))
        slope = total(jnp.asarray(0.5, dtype))
        assert bool(jnp.isfinite(slope)) == finite
        assert slope != 0


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: fed_avg(0.1, local=local_gradient(0.1)), "rate is given, and so is local"),
        (
            lambda: scaffold(local_steps=3, local=local_gradient(0.1)),
            "local_steps is given, and so is local",
        ),
        (lambda: fed_avg(local=local_prox()), r"local must be local_optimizer\(...\) or local_gr"),
        (lambda: local_optimizer(0.1), "optimizer must be an optax optimiser, but it is 0.1"),
        (
            lambda: scaffold(local=local_optimizer(CLIPPED_ADAM), regularizer=penalties.l1(0.1)),
            "regularizer needs the length of the clients' steps",
        ),
        (
            lambda: fed_avg(server_optimizer=server_adam(), regularizer=penalties.l1(0.1)),
            "regularizer does not go with a server_optimizer",
        ),
        (lambda: fed_avg(server_optimizer=3), "server_optimizer must be an optax optimiser"),
    ],
)
def test_mistakes_get_a_sentence(build, sentence):
    with pytest.raises(fa.InputError, match=sentence):
        build()
