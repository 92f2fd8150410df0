"""Anderson acceleration: trajectories, refusals, restarts, numbers to expect."""

from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import fedjax_admm as fa
from fedjax_admm import InputError, messages, participation, schedules
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.solvers import (
    anderson,
    decentralized_admm,
    extra,
    fed_admm,
    fed_subgradient,
    local_prox,
)
from tests.bits import same_bits
from tests.reference import graph_peers as reference
from tests.solvers import quadratics
from tests.solvers.graph.nodes import nodes

ROUNDS = 60
EVERYBODY = np.ones((200, reference.NODES), bool)
# Somebody is absent in some rounds only.
MASKS = EVERYBODY.copy()
MASKS[21::23, 2:5] = MASKS[40] = False
BOTH = np.ones((200, 2), bool)
H, B = reference.curvatures_and_centres()


class MapState(NamedTuple):
    """A point in two parts, and how often it was mapped."""

    x: jax.Array  # shape=(clients, dim)
    shared: jax.Array  # shape=(dim,)
    count: jax.Array  # shape=(), int32


@pytree_dataclass
class Map:
    """A solver whose round is a map of six numbers: linear, and a kick where it is far away."""

    matrix: jax.Array  # shape=(6, 6)
    offset: jax.Array  # shape=(6,)
    kick: jax.Array  # shape=()

    requires: ClassVar[tuple[type, ...]] = ()

    def participants(self, problem: Any) -> tuple[int, ...]:
        return (2,)

    def init(self, problem: Any, key: jax.Array) -> MapState:
        zero = jnp.zeros_like(self.offset)
        return MapState(zero[:4].reshape(2, 2), zero[4:], jnp.zeros((), jnp.int32))

    def step(self, problem: Any, state: MapState, info: Any) -> MapState:
        x = self.estimate(state)
        x = self.matrix @ x + self.offset + self.kick * jnp.sin(x)
        return MapState(x[:4].reshape(2, 2), x[4:], state.count + 1)

    def estimate(self, state: MapState) -> jax.Array:
        return jnp.concatenate([state.x.ravel(), state.shared])

    def messages(self, problem: Any, active: jax.Array) -> jax.Array:
        return jnp.sum(active, dtype=jnp.int32)


def linear():
    rng = np.random.default_rng(2)
    matrix = rng.standard_normal((6, 6))
    matrix *= 0.95 / np.abs(np.linalg.eigvals(matrix)).max()
    return matrix, rng.standard_normal(6)


MATRIX, OFFSET = linear()


def mapped(kick):
    return Map(*map(jnp.asarray, (MATRIX, OFFSET, np.float64(kick))))


def of_estimate(solver, problem, state):
    return {"x": solver.estimate(state)}


def of_anderson(solver, problem, state):
    history = state.history
    return {"x": solver.estimate(state), "size": history.size, "rows": history.rows}


@partial(jax.jit, static_argnames=("rounds", "measure"))
def follow(solver, problem, masks, rounds=ROUNDS, measure=of_estimate):
    return fa.run(
        solver,
        problem,
        jax.random.key(0),
        rounds=rounds,
        participation=participation.replay(masks),
        measure=measure,
    )


def extra_map(masks, k, v):
    """One round of EXTRA with step 1/2, on models and corrections as one vector."""
    x, p = v.reshape(2, 8, 3)
    mixed = reference.metropolis(reference.EDGES, 8, masks[k]) @ x
    new = np.stack([mixed - 0.5 * H * (x - B) - p, p + (x - mixed) / 2])
    return np.where(masks[k][:, None], new, v.reshape(2, 8, 3)).ravel()


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_trajectories_and_numbers_to_expect_on_extra():
    solver = anderson(extra(0.5), memory=10)
    trace = follow(solver, nodes(), EVERYBODY, measure=of_anderson).trace
    step = partial(extra_map, EVERYBODY)
    wanted, norms, refused = reference.anderson(step, np.zeros(48), 10, ROUNDS, 1e-10)
    assert not refused
    np.testing.assert_allclose(trace["x"], models_of(wanted), rtol=1e-9, atol=1e-9)
    # Where little is left of the residuals, rounding decides about the differences.
    np.testing.assert_allclose(trace["size"][:20], norms[:20], rtol=1e-6)
    np.testing.assert_array_equal(trace["rows"], np.minimum(np.arange(ROUNDS), 10))
    optimum = reference.minimizer(H, B)
    seen = [reference.distance(np.asarray(trace["x"][k - 1]), optimum) for k in (10, 20)]
    np.testing.assert_allclose(seen, (1.23e-2, 2.20e-5), rtol=5e-3)
    assert reference.distance(np.asarray(trace["x"][49]), optimum) < 1e-11


def models_of(vectors):
    return vectors.reshape(-1, 2, 8, 3)[:, 0]


@pytest.mark.usefixtures("x64")
def test_a_round_without_everybody_is_plain_and_forgets():
    solver = anderson(extra(0.5), memory=10)
    trace = follow(solver, nodes(), MASKS, measure=of_anderson).trace
    plain = set(np.flatnonzero(~MASKS[:ROUNDS].all(1)))
    step = partial(extra_map, MASKS)
    wanted = reference.anderson(step, np.zeros(48), 10, ROUNDS, 1e-10, plain=plain)[0]
    assert plain
    np.testing.assert_allclose(trace["x"], models_of(wanted), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(np.asarray(trace["rows"])[sorted(plain)], 0)


@pytest.mark.usefixtures("x64")
def test_what_grows_is_refused_and_forgotten():
    solver = anderson(mapped(0.3), memory=3, safeguard=1.2)
    run = follow(solver, nodes(), BOTH, measure=of_anderson)
    trace = run.trace

    def step(k, x):
        return MATRIX @ x + OFFSET + 0.3 * np.sin(x)

    wanted, _, refused = reference.anderson(step, np.zeros(6), 3, ROUNDS, 1e-10, 1.2)
    assert refused == [6]
    np.testing.assert_allclose(trace["x"], wanted, rtol=1e-9, atol=1e-9)
    # What the map made of the last point that was taken.
    np.testing.assert_allclose(trace["x"][6], step(0, np.asarray(trace["x"][4])), rtol=1e-12)
    np.testing.assert_array_equal(trace["rows"][:10], [0, 1, 2, 3, 3, 3, 0, 0, 1, 2])
    # Whole numbers are not extrapolated.
    assert int(run.state.solver.inner.count) == ROUNDS


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_a_point_that_is_no_number_is_refused():
    solver, info = (
        anderson(mapped(0.0), memory=6),
        fa.RoundInfo(0, jax.random.key(0), jnp.ones(2, bool)),
    )
    states = [solver.init(None, jax.random.key(0))]
    for _ in range(3):
        states.append(solver.step(None, states[-1], info))
    spoilt = states[-1]._replace(inner=jax.tree.map(spoil, states[-1].inner))
    saved = solver.step(None, spoilt, info)
    np.testing.assert_array_equal(solver.estimate(saved), states[-1].history.plain)
    after = [saved]
    for _ in range(12):
        after.append(solver.step(None, after[-1], info))
    limit = np.linalg.solve(np.eye(6) - MATRIX, OFFSET)
    np.testing.assert_allclose(solver.estimate(after[-1]), limit, rtol=1e-6)


def spoil(leaf):
    return leaf * jnp.nan if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_linear_maps_are_solved_in_one_round_more_than_their_dimension():
    limit = np.linalg.solve(np.eye(6) - MATRIX, OFFSET)
    expected = (2.35, 2.71, 1.52, 1.23, 0.623, 0.134, 0.0994)
    for eta, last in ((0.0, 1e-13), (1e-10, 1e-6)):
        solver = anderson(mapped(0.0), memory=6, regularization=eta)
        trace = follow(solver, nodes(), BOTH, 8, of_anderson).trace
        np.testing.assert_allclose(trace["size"][:7], expected, rtol=1e-2)
        residual = MATRIX @ trace["x"][6] + OFFSET - trace["x"][6]
        assert np.linalg.norm(residual) < last
        np.testing.assert_allclose(trace["x"][6], limit, rtol=last, atol=last)
    plain = follow(mapped(0.0), nodes(), BOTH, 8).trace["x"]
    np.testing.assert_allclose(np.linalg.norm(plain[7] - plain[6]), 1.28, rtol=1e-2)


def test_without_memory_it_is_the_solver_inside_bit_for_bit():
    alone = follow(extra(0.5), nodes(), MASKS)
    wrapped = follow(anderson(extra(0.5), memory=0), nodes(), MASKS)
    same_bits(wrapped.trace["x"], alone.trace["x"])
    same_bits(wrapped.state.solver.inner, alone.state.solver)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_admm_is_accelerated_too():
    for inner in (decentralized_admm(), decentralized_admm(relaxation=1.6)):
        optimum = reference.minimizer(H, B, 0.1)
        plain, fast = (
            reference.distance(
                np.asarray(follow(solver, nodes(lasso=0.1), EVERYBODY, 40).estimate), optimum
            )
            for solver in (inner, anderson(inner, memory=10))
        )
        assert fast < 1e-3 * plain


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_a_star_is_accelerated_too():
    problem, plain = quadratics.quadratics(), fed_admm(local=local_prox())
    errors = [
        np.linalg.norm(np.asarray(run.estimate) - quadratics.minimizer())
        for run in (
            fa.run(solver, problem, jax.random.key(0), rounds=20)
            for solver in (plain, anderson(plain), anderson(plain, memory=10))
        )
    ]
    assert errors[0] > 1e-3
    assert max(errors[1:]) < 1e-6


@pytest.mark.usefixtures("x64")
def test_an_exchange_that_is_one_map_of_its_state_is_extrapolated_with_it():
    problem, key = quadratics.quadratics(), jax.random.key(0)
    inside = fed_admm(
        local=local_prox(),
        exchange=messages.exchange(
            messages.differences(messages.top_k(2), step=0.5),
            aggregator=messages.coordinate_median(),
            attack=messages.sign_flip(0.1),
        ),
    )
    first = fa.run(inside, problem, key, rounds=0).state.solver
    x0, unravel = ravel_pytree(floats(first))
    everybody = jnp.ones(problem.num_clients, bool)

    @jax.jit
    def step(k, x):
        info = fa.RoundInfo(jnp.int32(0), key, everybody)
        given = iter(unravel(x))
        state = jax.tree.map(lambda leaf: next(given) if is_float(leaf) else leaf, first)
        return ravel_pytree(floats(inside.step(problem, state, info)))[0]

    trace = fa.run(anderson(inside), problem, key, rounds=8, measure=flat_state).trace
    wanted = reference.anderson(step, np.asarray(x0), 5, 8, 1e-10)[0]
    np.testing.assert_allclose(trace["x"], wanted, rtol=1e-7, atol=1e-9)


def is_float(leaf):
    return jnp.issubdtype(leaf.dtype, jnp.floating)


def floats(state):
    return [leaf for leaf in jax.tree.leaves(state) if is_float(leaf)]


def flat_state(solver, problem, state):
    return {"x": ravel_pytree(floats(state.inner))[0]}


@pytest.mark.parametrize(
    ("solver", "sentence"),
    [
        (fed_admm(exchange=messages.exchange(messages.qsgd(4))), "that draw nothing.*its exchange"),
        (fed_admm(exchange=messages.exchange(delay=messages.lossy(0.1))), "that draw nothing"),
        (fed_admm(exchange=messages.exchange(delay=messages.fixed_delay(1))), "that are all alike"),
        (fed_subgradient(schedules.sqrt_decay(0.1)), "that are all alike.*constant"),
    ],
)
def test_rounds_that_are_no_map_of_the_state_are_refused(solver, sentence):
    with pytest.raises(InputError, match=f"^solver must have rounds {sentence}"):
        fa.run(anderson(solver), quadratics.quadratics(), jax.random.key(0), rounds=1)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_derivatives_are_those_of_the_rounds_and_stay_so_at_the_limit():
    def loss(step, rounds):
        run = fa.run(anderson(extra(step)), nodes(), jax.random.key(0), rounds=rounds)
        return jnp.sum(run.estimate**2)

    for rounds, tolerance in ((10, 1e-7), (200, 1e-8)):
        wanted = (loss(0.5 + 1e-6, rounds) - loss(0.5 - 1e-6, rounds)) / 2e-6
        found = jax.grad(loss)(0.5, rounds)
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.thorough
def test_single_precision_stays_accurate():
    for scale in (1.0, 1e3, 1e-3):
        run = follow(anderson(extra()), nodes(scale=scale), EVERYBODY, 150)
        assert reference.distance(np.asarray(run.estimate), reference.minimizer(H, B)) < 1e-5


def test_mistakes_are_told():
    with pytest.raises(InputError, match="solver must be a solver such as extra"):
        anderson(extra)
    with pytest.raises(InputError, match="memory must be at least 0"):
        anderson(extra(), memory=-1)
    with pytest.raises(InputError, match="safeguard must be at least 1"):
        anderson(extra(), safeguard=0.5)
    with pytest.raises(InputError, match="regularization must be at least 0"):
        anderson(extra(), regularization=-1.0)


def test_what_the_solver_inside_lacks_is_told():
    problem, solver = nodes(), anderson(decentralized_admm())
    assert solver.traffic(problem) == fa.Traffic(up=3, down=3)
    assert int(solver.messages(problem, jnp.ones(8, bool))) == 22
    with pytest.raises(InputError, match=r"needs a problem with prox_memory and prox \(Prox\)"):
        fa.run(solver, WithoutProx(problem.graph, problem.start), jax.random.key(0), rounds=1)


class WithoutProx(NamedTuple):
    graph: Any
    start: jax.Array
    num_clients: int = 8
