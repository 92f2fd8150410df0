"""Compiled programs go: those of functions that are written anew are not kept for ever."""

import gc
import importlib.util
import weakref

import jax
import jax.numpy as jnp
import pytest

import fedjax_admm as fa
from fedjax_admm._host import _programs
from fedjax_admm._host._programs import KEPT
from tests.solvers import quadratics


def alive(functions):
    gc.collect()
    return [function() is not None for function in functions]


def test_the_programs_that_were_used_last_are_kept(monkeypatch):
    monkeypatch.setattr(_programs, "KEPT", 2)
    traced, seen = [], []

    @_programs.compiled
    def apply(number, *, function):
        traced.append(number)
        return function(number)

    def call(function, number):
        assert apply(number, function=function) == 2 * number
        return weakref.ref(function)

    same = lambda number: number + number  # noqa: E731
    for _ in range(4):
        call(same, jnp.ones(()))
        seen.append(call(lambda number: 2 * number, jnp.ones(())))
    assert len(traced) == 5  # that of `same` is used again and again
    assert alive(seen) == [False, False, False, True]
    call(same, jnp.ones((), jnp.int32))  # another type is another program
    assert len(traced) == 6


@pytest.mark.thorough
def test_runs_with_losses_that_are_written_anew_do_not_add_up():
    problem, solver, seen = quadratics.quadratics(), fa.solvers.fed_admm(), []
    for _ in range(KEPT + 3):
        measure = lambda solver, problem, state: {"x": solver.estimate(state)}  # noqa: E731
        fa.run(solver, problem, jax.random.key(0), rounds=2, measure=measure)
        seen.append(weakref.ref(measure))
    del measure
    assert alive(seen) == [False] * 3 + [True] * KEPT


def test_what_is_compiled_once_is_not_kept():
    def call(closed):
        def add(given):
            return {"sum": given["a"] + closed}

        assert _programs.compiled_once(add, {"a": jnp.ones(())})["sum"] == 1 + closed
        return weakref.ref(add)

    assert alive([call(jnp.float32(2)), call(jnp.float32(3))]) == [False, False]


def test_programs_inside_of_others_leave_the_options_to_these():
    @_programs.compiled
    def double(number):
        return 2 * number

    x = jnp.ones(3)
    assert float(double(x)[0]) == 2
    assert float(jax.jit(lambda y: double(x) + y)(x)[0]) == 3  # nothing that it gets is traced
    assert float(jax.vmap(double)(x)[0]) == 2
    assert float(jax.grad(lambda y: double(y).sum())(x)[0]) == 2
    assert float(jax.lax.map(double, x)[0]) == 2


def test_what_is_compiled_alone_is_itself_inside_of_programs_and_with_functions():
    calls = []

    @_programs.compiled_alone
    def apply(number, function=None):
        calls.append(number)
        return 2 * number if function is None else function(number)

    x = jnp.ones(3)
    assert float(apply(x)[0]) == float(apply(x + 1)[0]) / 2 == 2
    assert len(calls) == 1
    assert [e.primitive.name for e in jax.make_jaxpr(apply)(x).eqns] == ["mul"]
    for factor in (3, 4):
        assert float(apply(x, lambda number: factor * number)[0]) == factor  # noqa: B023
    assert len(calls) == 4


def test_options_that_the_compiler_does_not_know_are_left_out():
    known = {"xla_backend_optimization_level": 1}
    assert _programs.known_options(**known) == known
    assert _programs.known_options(**known, xla_cpu_no_such_option=1) == {}


def test_a_first_use_inside_of_another_program_is_as_any():
    """Modules load when they are first used, perhaps while something is traced."""
    specification = importlib.util.spec_from_file_location("first", _programs.__file__)
    first = importlib.util.module_from_spec(specification)
    double = None

    def apply(number):
        nonlocal double
        specification.loader.exec_module(first)
        double = first.compiled(lambda number: 2 * number)
        return double(number)

    assert float(jax.jit(apply)(jnp.ones(()))) == 2
    assert float(double(jnp.ones(()))) == 2
