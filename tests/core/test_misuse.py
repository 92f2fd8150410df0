"""Mistakes of a user's own solvers, problems and processes end in one sentence before compiling."""

from collections.abc import Callable
from dataclasses import field
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import participation, schedules
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


MISTAKES = {
    "an unregistered problem": (
        lambda: run(Counting(lambda state: state), Unregistered()),
        "problem must be a pytree, but it is <tests.core.test_misuse.Unregistered object at",
    ),
    "many states": (
        lambda: run(start=jax.vmap(lambda key: run(key=key).state)(jax.random.split(KEY, 3))),
        "start must be the state of one run, but it is a stack of shape (3,); use jax.vmap over "
        "states.",
    ),
    "a step that changes a dtype": (
        lambda: run(Counting(lambda state: state._replace(rounds=state.rounds / 2))),
        "Counting.step must keep the structure, shapes and dtypes of a state, but they differ",
    ),
    "a step that changes the structure": (
        lambda: run(Counting(tuple)),
        "Counting.step must keep the structure, shapes and dtypes of a state, but Error in",
    ),
    "a draw that changes a dtype": (
        lambda: run(participation=Forgetful()),
        "Forgetful.draw must keep the structure, shapes and dtypes of a state, but they differ:",
    ),
    "too few rounds": (
        lambda: run(rounds=2, every=5),
        "rounds must be a multiple of every (5), but it is 2; the nearest one is 5.",
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
