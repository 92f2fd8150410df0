"""What people try first: one clear sentence before anything is compiled, or it simply works."""

from collections.abc import Callable
from dataclasses import field
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import participation, schedules
from fedjax_admm._checks import finite_array, number
from fedjax_admm._pytrees import pytree_dataclass

PROBLEM = fa.problems.localization(
    anchors=[[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]], distances=[5.0, 8.0, 7.0, 9.0]
)
KEY = jax.random.key(0)
SOLVER = fa.solvers.fsmdm()


class Total(NamedTuple):
    model: jax.Array  # shape=(dim,)
    rounds: jax.Array  # shape=(), int32


@pytree_dataclass
class Counting:
    """A user's own solver; `change` spoils what its step returns."""

    change: Callable = field(metadata={"static": True})

    requires: ClassVar[tuple[type, ...]] = ()

    def participants(self, problem):
        return (problem.num_clients,)

    def init(self, problem, key):
        return Total(problem.start, jnp.zeros((), jnp.int32))

    def step(self, problem, state, info):
        return self.change(Total(state.model + 1, state.rounds + 1))

    def estimate(self, state):
        return state.model

    def messages(self, problem, active):
        return jnp.sum(active, dtype=jnp.int32)


class Unregistered:
    """A user's own problem, with all that the solver needs, but no pytree."""

    num_clients, start = 4, jnp.zeros(2)


@pytree_dataclass
class Forgetful:
    """A user's own process, whose state changes its dtype."""

    def init(self, key, shape):
        return jnp.zeros(shape, jnp.int32)

    def draw(self, state, index, key, shape):
        return state.astype(jnp.float32), participation.Presence(jnp.ones(shape, bool))

    def check(self, shape, rounds):
        pass


def run(solver=SOLVER, problem=PROBLEM, key=KEY, rounds=2, **options):
    return fa.run(solver, problem, key, rounds=rounds, **options)


def run_until(residual, **options):
    options = {"max_rounds": 4, "tolerance": 1.0} | options
    return fa.run_until(SOLVER, PROBLEM, KEY, residual=residual, **options)


def returning(value):
    def measure(solver, problem, state):
        return value

    return measure


MISTAKES = {
    "a number for a process": (
        lambda: run(participation=0.5),
        "participation must be a participation process such as bernoulli(0.5), but it is 0.5.",
    ),
    "a builder of a process": (
        lambda: run(participation=participation.everyone),
        "participation must be a participation process such as bernoulli(0.5), but it is <function",
    ),
    "a class of a process": (
        lambda: run(participation=participation.Everyone),
        "participation must be a participation process such as bernoulli(0.5), but it is <class",
    ),
    "a builder of a solver": (
        lambda: run(fa.solvers.fsmdm),
        "solver must be a solver, but it is the function fsmdm; pass what it returns when it is "
        "called.",
    ),
    "a class of a solver": (
        lambda: run(type(fa.solvers.fsmdm())),
        "solver must be a solver, but it is the class FSMDM; pass what it returns when it is "
        "called.",
    ),
    "solver and problem swapped": (
        lambda: run(PROBLEM, SOLVER),
        "solver and problem are swapped: call run(solver, problem, key).",
    ),
    "no solver": (
        lambda: run(3),
        "solver must have the methods participants, init, step, estimate and messages, but int has "
        "no participants, init, step, estimate and messages.",
    ),
    "an unregistered problem": (
        lambda: run(Counting(lambda state: state), Unregistered()),
        "problem must be a pytree of arrays, but it is of the class Unregistered, which is none; "
        "register the class, as jax.tree_util.register_dataclass does.",
    ),
    "a run for its state": (
        lambda: run(start=run()),
        "start must be the state of a Run, but it is the Run itself; pass its .state.",
    ),
    "the solver's state for that of a run": (
        lambda: run(start=run().state.solver),
        "start must be the state of a Run, but it is StarState(server=",
    ),
    "many states": (
        lambda: run(start=jax.vmap(lambda key: run(key=key).state)(jax.random.split(KEY, 3))),
        "start must be the state of one run, but it is a stack of shape (3,); use jax.vmap over "
        "states.",
    ),
    "a state of another solver": (
        lambda: run(start=run(fa.solvers.fed_subgradient()).state),
        "start must be the state of a run of this solver on this problem, but Error in tree",
    ),
    "a measure that is no function": (
        lambda: run(measure="error"),
        "measure must be a function measure(solver, problem, state), but it is 'error'.",
    ),
    "a measure without a name": (
        lambda: run(measure=returning(jnp.ones(()))),
        "measure must return a dict of arrays, but it returns an array; give the value a name, as "
        '{"error": value}.',
    ),
    "a measure called round": (
        lambda: run(measure=returning({"error": jnp.ones(()), "round": jnp.ones(())})),
        "measure must leave the names 'round' and 'messages' to the run, but it returns 'round'; "
        "call it otherwise.",
    ),
    "a measure called messages": (
        lambda: run(measure=returning({"messages": jnp.ones(())})),
        "measure must leave the names 'round' and 'messages' to the run, but it returns "
        "'messages'; call it otherwise.",
    ),
    "a residual with a name": (
        lambda: run_until(returning(jnp.ones(2))),
        "residual must return one floating number, but it returns an array of dtype float32 and "
        "shape (2,).",
    ),
    "many tolerances": (
        lambda: run_until(returning(jnp.ones(())), tolerance=[1.0, 2.0]),
        "tolerance must be one number, but it has shape (2,); use jax.vmap over several.",
    ),
    "a step that changes a dtype": (
        lambda: run(Counting(lambda state: state._replace(rounds=state.rounds / 2))),
        "Counting.step must return a state with the structure, shapes and dtypes of the one that "
        "it is given, but they differ in leaves 'rounds': types: int32 != float32.",
    ),
    "a step that changes a shape": (
        lambda: run(Counting(lambda state: state._replace(model=state.model[:1]))),
        "Counting.step must return a state with the structure, shapes and dtypes of the one that "
        "it is given, but they differ in leaves 'model': shapes: (2,) != (1,).",
    ),
    "a step that changes the structure": (
        lambda: run(Counting(tuple)),
        "Counting.step must return a state with the structure, shapes and dtypes of the one that "
        "it is given, but Error in tree structs",
    ),
    "a draw that changes a dtype": (
        lambda: run(participation=Forgetful()),
        "Forgetful.draw must return a state with the structure, shapes and dtypes of the one that "
        "it is given, but they differ: types: int32 != float32.",
    ),
    "a rest of rounds, above": (
        lambda: run(rounds=11, every=3),
        "rounds must be a multiple of every (3), but it is 11; the nearest one is 12.",
    ),
    "a rest of rounds, below": (
        lambda: run(rounds=10, every=3),
        "rounds must be a multiple of every (3), but it is 10; the nearest one is 9.",
    ),
    "too few rounds": (
        lambda: run(rounds=2, every=5),
        "rounds must be a multiple of every (5), but it is 2; the nearest one is 5.",
    ),
    "a rest of at most so many rounds": (
        lambda: run_until(returning(jnp.ones(())), max_rounds=11, every=4),
        "max_rounds must be a multiple of every (4), but it is 11; the nearest one is 12.",
    ),
    "a text for a number": (
        lambda: fa.solvers.fsmdm(omega="5"),
        "omega must be a number, but it is '5'.",
    ),
    "many numbers for one": (
        lambda: fa.solvers.fsmdm(omega=jnp.array([1, 2])),
        "omega must be one number, but it has shape (2,); use jax.vmap over several.",
    ),
    "many delays": (
        lambda: participation.round_robin(np.array([2, 3])),
        "delay must be one number, but it has shape (2,); use jax.vmap over several.",
    ),
    "a number for a noise": (
        lambda: fa.problems.draw_localization(KEY, 1.0),
        "noise must be a noise model such as cauchy_noise(1.0), but it is 1.0.",
    ),
    "a builder of a noise": (
        lambda: fa.problems.draw_localization(KEY, fa.problems.cauchy_noise),
        "noise must be a noise model such as cauchy_noise(1.0), but it is <function cauchy_noise",
    ),
    "a shape with one axis": (
        lambda: fa.problems.localization(np.ones((4, 2)), np.ones(3)),
        "distances must have shape (4,), but it has (3,).",
    ),
    "a text for an array": (
        lambda: finite_array("means", "many", (None,)),
        "means must be an array of numbers of shape (any,), but it is 'many'.",
    ),
    "lists of several lengths": (
        lambda: number("c", [[1.0], [2.0, 3.0]]),
        "c must be a number, but it is [[1.0], [2.0, 3.0]].",
    ),
    "a complex number": (
        lambda: number("c", 1j),
        "c must be a number, but it is 1j.",
    ),
    "a schedule that is not called": (
        lambda: fa.solvers.fsmdm(mu_h=schedules.sqrt_decay),
        "mu_h must be a schedule, or a function that gives a number for a count, but <function "
        "sqrt_decay",
    ),
    "a schedule with a wrong product": (
        lambda: fa.solvers.fsmdm(sigma_psi=schedules.sqrt_growth(0.001)),
        "mu_phi * sigma_psi must exceed 1 (the paper asks for sqrt(3/2)), but at update 1 it is "
        "0.173205; enlarge one of them.",
    ),
    "a product that gets wrong": (
        lambda: run(fa.solvers.fsmdm(sigma_psi=0.01, local_updates=2), rounds=3),
        "mu_phi * sigma_psi must exceed 1 (the paper asks for sqrt(3/2)), but at update 3 it is 1",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_one_sentence(name):
    mistake, sentence = MISTAKES[name]
    with pytest.raises(fa.InputError) as caught:
        mistake()
    told = str(caught.value)
    assert told.startswith(sentence)
    assert told.endswith((".", "?"))
    assert "\n" not in told


def test_the_mistake_carries_its_argument():
    with pytest.raises(fa.InputError) as caught:
        run(rounds=11, every=3)
    mistake = caught.value
    assert (mistake.argument, mistake.value) == ("rounds", 11)
    assert mistake.remedy == "the nearest one is 12"
    assert str(mistake.renamed({"rounds": "--rounds", "every": "--every"})) == (
        "--rounds must be a multiple of --every (3), but it is 11; the nearest one is 12."
    )


def test_known_number_of_any_kind_for_a_radius():
    """An array is a number too, and equal radii are one function, which compiles once."""
    radii = (3, 3.0, np.float64(3), jnp.float32(3), jnp.int32(3))
    assert len({fa.certificates.gap_within(radius) for radius in radii}) == 1


def test_a_problem_may_hold_integers_alone():
    counting = Counting(lambda state: state)

    @pytree_dataclass
    class Integers:
        start: jax.Array
        num_clients: int = field(default=3, metadata={"static": True})

    problem = Integers(jnp.zeros(2, jnp.int32))
    result = fa.run(counting, problem, KEY, rounds=4)
    np.testing.assert_array_equal(result.estimate, [4, 4])
