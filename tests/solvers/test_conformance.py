"""Every solver obeys the protocol: masks, dtypes, traces, transformations, resumption."""

from typing import ClassVar

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import participation
from tests.bits import same_bits
from tests.builders import builders
from tests.solvers.conformance import SOLVERS

ROUNDS = 8
KEY = 5


def marks(thorough: bool) -> list[pytest.MarkDecorator]:
    return [pytest.mark.thorough] if thorough else []


def test_every_solver_is_in_the_table():
    """Every function of `fa.solvers` that builds one, in the run that everybody makes."""
    listed = {case.builder.__name__ for case in SOLVERS.values() if not case.thorough}
    assert listed == set(builders(fa.solvers, "step", "estimate", "messages"))


GRADIENTS = [
    pytest.param(
        name,
        precision,
        marks=marks(case.thorough or precision == "float64"),
    )
    for name, case in SOLVERS.items()
    for precision in ("float32", "float64")
]


@pytest.fixture(
    params=[pytest.param(name, marks=marks(case.thorough)) for name, case in SOLVERS.items()]
)
def case(request):
    return SOLVERS[request.param]


def finish(solver, problem, rounds=ROUNDS, process=None, key=KEY, start=None):
    return fa.run(
        solver,
        problem,
        jax.random.key(key),
        rounds=rounds,
        participation=process,
        start=start,
    )


def on_and_off():
    """Return the process of most runs here: where all is the same, nothing compiles again."""
    return participation.markov_on_off(0.3, 0.3)


def turn(problem, solver, active, index=0):
    mask = jnp.broadcast_to(jnp.asarray(active), solver.participants(problem))
    # The key that a run gives to this round.
    key = jax.random.split(jax.random.fold_in(jax.random.key(KEY), index))[1]
    return fa.Turn(jnp.int32(index), key, mask)


@jax.jit
def step(solver, problem, state, turn):
    return solver.step(problem, state, turn)


@pytest.mark.thorough
class Protocol(chex.TestCase):
    """Checks that run with and without jit, by chex's variants."""

    cases: ClassVar = {name: case for name, case in SOLVERS.items() if not case.thorough}

    @chex.variants(with_jit=True, without_jit=True)
    def test_step_keeps_structure_shapes_and_dtypes(self):
        for name, case in self.cases.items():
            with self.subTest(name):
                problem, solver = case.problem(), case.solver()
                state = solver.init(problem, jax.random.key(0))
                step = self.variant(lambda s, p, x, t: s.step(p, x, t))
                new = step(solver, problem, state, turn(problem, solver, True))
                chex.assert_trees_all_equal_shapes_and_dtypes(state, new)
                chex.assert_tree_all_finite(new)

    @chex.variants(with_jit=True, without_jit=True)
    def test_estimate_is_a_model(self):
        for name, case in self.cases.items():
            with self.subTest(name):
                problem, solver = case.problem(), case.solver()
                state = solver.init(problem, jax.random.key(0))
                estimate = self.variant(lambda s, x: s.estimate(x))(solver, state)
                assert estimate.shape in case.shapes(problem)


@pytest.mark.thorough
class SlowProtocol(Protocol):
    """The same checks of the cases of the thorough run."""

    cases: ClassVar = {name: case for name, case in SOLVERS.items() if case.thorough}


def test_absent_clients_keep_everything(case):
    problem, solver = case.problem(), case.solver()
    state = finish(solver, problem, process=on_and_off()).state.solver
    active = np.zeros(solver.participants(problem), bool)
    # One in the first pass only, and one in the last pass only, where a round has passes.
    active[(*(0,) * (active.ndim - 1), 1)] = True
    active[(*(-1,) * (active.ndim - 1), -1)] = True
    new = step(solver, problem, state, turn(problem, solver, active, 3))
    old_clients, new_clients = case.clients(state), case.clients(new)
    present = active.reshape(-1, active.shape[-1]).any(0)
    for old, moved in zip(jax.tree.leaves(old_clients), jax.tree.leaves(new_clients), strict=True):
        np.testing.assert_array_equal(old[~present], moved[~present])
        assert all(
            np.any(before != after)
            for before, after in zip(old[present], moved[present], strict=True)
        )


def test_nobody_active_changes_no_client_and_moves_nothing(case):
    problem, solver = case.problem(), case.solver()
    state = finish(solver, problem, process=on_and_off()).state.solver
    new = step(solver, problem, state, turn(problem, solver, False, 3))
    chex.assert_trees_all_equal(case.clients(state), case.clients(new))
    np.testing.assert_allclose(solver.estimate(new), solver.estimate(state), rtol=1e-5)


def test_dtype_follows_the_problem(case, dtype):
    result = finish(case.solver(), case.problem(), process=on_and_off())
    floats = [
        leaf
        for leaf in jax.tree.leaves((result.state.solver, result.estimate))
        if jnp.issubdtype(leaf.dtype, jnp.floating)
    ]
    assert floats
    assert {leaf.dtype for leaf in floats} == {dtype}


def test_one_trace_for_all_values_of_all_hyper_parameters(case):
    problem = case.problem()
    chex.clear_trace_counter()

    @jax.jit
    @chex.assert_max_traces(n=1)
    def go(solver, process, key):
        return fa.run(solver, problem, key, rounds=2, participation=process).estimate

    for factor in (1.0, 1.1, 1.3):
        solver = jax.tree.map(lambda leaf, f=factor: leaf * f, case.solver())
        go(solver, participation.bernoulli(factor / 2), jax.random.key(0))


def test_same_numbers_under_jit_and_vmap(case):
    problem, solver = case.problem(), case.solver()
    process = on_and_off()
    keys = jax.random.split(jax.random.key(1), 3)

    def estimate(key):
        return fa.run(solver, problem, key, rounds=ROUNDS, participation=process).estimate

    batch = jax.jit(jax.vmap(estimate))(keys)
    alone = np.stack([estimate(key) for key in keys])
    np.testing.assert_allclose(batch, alone, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("case", "dtype"), GRADIENTS, indirect=True)
def test_finite_gradient_with_respect_to_every_leaf(case, dtype):
    problem = case.problem()

    def loss(solver):
        return jnp.sum(finish(solver, problem).estimate ** 2)

    gradient = jax.grad(loss)(case.solver())
    leaves = jax.tree.leaves(gradient)
    assert all(np.all(np.isfinite(leaf)) for leaf in leaves)
    assert any(np.any(leaf != 0) for leaf in leaves)


@pytest.mark.bits
def test_resumes_to_the_same_bits(case):
    problem, solver = case.problem(), case.solver()
    process = on_and_off()
    whole = finish(solver, problem, ROUNDS, process)
    none = finish(solver, problem, 0, process)
    half = finish(solver, problem, ROUNDS // 2, process, start=none.state)
    rest = finish(solver, problem, ROUNDS // 2, process, start=half.state)
    same_bits(rest.state, whole.state)


@pytest.mark.bits
def test_replayed_masks_give_the_same_bits(case):
    problem, solver = case.problem(), case.solver()
    masks = np.random.default_rng(0).random((ROUNDS, *solver.participants(problem))) < 0.5
    replayed = finish(solver, problem, process=participation.replay(masks))
    state = solver.init(problem, jax.random.key(0))
    for index, mask in enumerate(masks):
        state = step(solver, problem, state, turn(problem, solver, mask, index))
    np.testing.assert_allclose(replayed.estimate, solver.estimate(state), rtol=1e-4, atol=1e-4)


def test_no_key_is_used_twice(case):
    # conftest switches jax_debug_key_reuse on: a reused key raises, inside the scan too.
    assert jax.config.jax_debug_key_reuse
    finish(case.solver(), case.problem(), 2, participation.without_replacement(2))


def test_traffic_is_whole_numbers(case):
    traffic = case.solver().traffic(case.problem())
    assert all(type(size) is int and size >= 0 for size in traffic)
    assert traffic.up > 0
    assert traffic.down + traffic.broadcast > 0


def test_unfit_problem_is_told_before_tracing(case):
    with pytest.raises(
        fa.InputError, match=r"needs a problem with .*which object lacks; problems\."
    ):
        finish(case.solver(), object())
