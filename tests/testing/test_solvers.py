"""Solvers that break one rule each, and good ones."""

from dataclasses import field
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import fedjax_admm as fa
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.testing import check_solver
from fedjax_admm.testing._solvers import SOLVER_CHECKS
from fedjax_admm.traffic import Traffic
from tests.bits import TOLERANCE
from tests.testing.own import Averaging, averaging, changed, squares


def models(state):
    return state.models


@pytest.mark.thorough
def test_a_good_one_passes():
    check_solver(averaging(), squares(), clients=models, bits=TOLERANCE)


@pytest.mark.thorough
def test_what_belongs_to_clients_is_found_by_leaving_one_out():
    """With as many numbers in a model as clients, the server's model looks like theirs."""
    problem = squares()
    wide = type(problem)(
        jnp.pad(problem.x, ((0, 0), (0, 0), (0, 1)), constant_values=1),
        problem.y,
        jnp.full(4, 0.1),
        problem.numbers,
    )
    check_solver(averaging(), wide, only=("absent", "nobody"))


def step_of(change):
    """Return a step whose result is changed by `change(self, problem, state, info, new)`."""

    def step(self, problem, state, info):
        return change(self, problem, state, info, Averaging.step(self, problem, state, info))

    return step


@pytree_dataclass
class StaticRate(Averaging):
    rate: float = field(metadata={"static": True})


def branching(self, problem, state, info, new):
    return new if float(jnp.sum(new.server)) > 0 else state


def key_twice(self, problem, state, info):
    here = jnp.broadcast_to(state.server, state.models.shape)
    noise = jax.random.normal(info.key, here.shape) + jax.random.uniform(info.key, here.shape)
    return here - self.rate * problem.gradients(here) + self.noise * noise


def unsafe_root(self, state, models, active):
    # 0 / 0 in the branch that is not taken, once it is differentiated.
    apart = jnp.sum((state.server - state.server * self.rate / self.rate) ** 2)
    room = jnp.where(apart > 0, jnp.sqrt(apart), 0)
    return Averaging.average(self, state, models, active) + 0 * room


BROKEN = {
    "ignores the mask": (
        {"kept": lambda self, active, new, old: new},
        "absent",
        r"An absent client must keep everything, but client \[0\] of MineAveraging was absent and "
        r"its \.models changed\. .*where_active",
    ),
    "uses a key twice": (
        {"found": key_twice},
        "keys",
        "A run of MineAveraging .* raised KeyReuseError: .* Split keys with jax.random.split",
    ),
    "has no derivative": (
        {"average": unsafe_root},
        "gradients",
        r"The derivative of a run of MineAveraging by \.rate must be finite, but it is nan\. Both "
        "branches of a jnp.where",
    ),
    "sends fractions": (
        {"traffic": lambda self, problem: Traffic(up=1.5, down=3)},
        "traffic",
        r"traffic\(problem\)\.up must be a whole Python number .* but it is 1.5",
    ),
    "branches on data": (
        {"step": step_of(branching)},
        "structure",
        r"step under jax.jit raised \w+: .* Take jnp.where in place",
    ),
    "moves in silence": (
        {"average": lambda self, state, models, active: jnp.mean(models, 0)},
        "nobody",
        r"The estimates of MineAveraging before and after a round without anybody differ:",
    ),
    "has a dtype of its own": (
        {
            "init": lambda self, p, key: jax.tree.map(
                lambda leaf: leaf.astype(jnp.float16), Averaging.init(self, p, key)
            ),
            "step": step_of(
                lambda self, p, state, info, new: jax.tree.map(
                    lambda leaf: leaf.astype(jnp.float16), new
                )
            ),
            "found": lambda self, p, state, info: state.models + self.rate.astype(jnp.float16),
        },
        "dtype",
        r"must follow the problem's data, which are float32, but \.server of the state of "
        r"MineAveraging is float16",
    ),
    "mixes a batch": (
        {"estimate": lambda self, state: jax.lax.pmean(state.server, "batch")},
        "vmap",
        "A batch of runs of MineAveraging under jax.jit and jax.vmap raised",
    ),
}


@pytest.mark.kin(3)
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_one_is_caught(name):
    members, check, message = BROKEN[name]
    solver = averaging(changed(Averaging, **members))
    with pytest.raises(AssertionError, match=f"(?s){message}") as caught:
        check_solver(solver, squares(), only=check)
    assert str(caught.value).endswith((".", "?"))


def test_static_numbers_are_caught():
    solver = StaticRate(0.3, jnp.asarray(0.1))
    message = r"StaticRate.rate is a static number \(0.3\): another value compiles again"
    with pytest.raises(AssertionError, match=message):
        check_solver(solver, squares(), only="traces")


@pytest.mark.thorough
def test_one_that_counts_outside_of_its_state_does_not_resume():
    traces = []

    def step(self, problem, state, info, new):
        traces.append(new)
        first = jnp.where(info.index % 4 == 0, len(traces), 0)
        return new._replace(server=new.server + first)

    solver = averaging(changed(Averaging, step=step_of(step)))
    with pytest.raises(AssertionError, match=r"in two parts and at once differ: .* in the state"):
        check_solver(solver, squares(), bits=TOLERANCE, only="resumes")


@pytest.mark.thorough
def test_clients_that_should_move_but_do_not_are_told():
    def kept(self, active, new, old):
        return jnp.where((active & (jnp.arange(4) != 3))[:, None], new, old)

    solver = averaging(changed(Averaging, kept=kept))
    check_solver(solver, squares(), only="absent")
    with pytest.raises(AssertionError, match=r"must move, but client \[3\] of MineAveraging"):
        check_solver(solver, squares(), clients=models, only="absent")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"solver": Averaging}, "solver must be a solver, but it is the class Averaging"),
        ({"solver": 3}, "solver must have the methods"),
        ({"solver": averaging(changed(Averaging, requires=()))}, "and capabilities in requires"),
        ({"problem": 3}, "needs a problem with"),
        ({"rounds": 7}, "rounds must be even, but it is 7"),
        ({"rounds": 0}, "rounds must be at least 2"),
        ({"clients": 3}, "clients must be a function of the state"),
        ({"bits": -1.0}, "bits must be at least 0"),
        ({"only": ("keys", "speed")}, "only must be one of 'traffic', 'structure'"),
    ],
)
def test_wrong_arguments_are_input_errors(change: dict[str, Any], message):
    given: dict[str, Any] = {"solver": averaging(), "problem": squares()} | change
    with pytest.raises(fa.InputError, match=message):
        check_solver(given.pop("solver"), given.pop("problem"), **given)


def test_one_client_is_not_enough():
    alone = squares().take(jnp.zeros(1, jnp.int32))
    with pytest.raises(fa.InputError, match="must have at least 2 clients"):
        check_solver(averaging(), alone)


def test_every_rule_has_a_broken_example():
    assert {check for _, check, _ in BROKEN.values()} | {"traces", "resumes"} == set(SOLVER_CHECKS)
    assert all(f"`{name}`" in (check_solver.__doc__ or "") for name in SOLVER_CHECKS)
