"""Solvers that break one rule each, and good ones."""

from dataclasses import field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest

import fedjax_admm as fa
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.solvers import RoundMessage, StarSolver
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
    check_solver(averaging(), wide, only="absent")


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
        r"Client 0 of MineAveraging was absent and changed: .*\.models.*\. .*where_active",
    ),
    "uses a key twice": (
        {"found": key_twice},
        "keys",
        "'keys' of MineAveraging raised KeyReuseError: .* Split keys with jax.random.split",
    ),
    "has no derivative": (
        {"average": unsafe_root},
        "gradients",
        r"The derivative of a run of MineAveraging must be finite, but \.rate is nan\. Neither "
        "branch of a jnp.where",
    ),
    "sends fractions": (
        {"traffic": lambda self, problem: Traffic(up=1.5, down=3)},
        "traffic",
        r"traffic\(problem\)\.up must be a whole Python number, 0 or more, but it is 1.5",
    ),
    "branches on data": (
        {"step": step_of(branching)},
        "structure",
        r"check 'structure' of MineAveraging raised \w+: .* Take jnp.where in place",
    ),
    "moves in silence": (
        {"average": lambda self, state, models, active: jnp.mean(models, 0)},
        "absent",
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
        r"follow the problem's data, which are float64, but of MineAveraging \['estimate'\] is "
        "float16",
    ),
    "mixes a batch": (
        {"estimate": lambda self, state: jax.lax.pmean(state.server, "batch")},
        "traces",
        "The check 'traces' of MineAveraging raised",
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


class Ball(NamedTuple):
    model: jax.Array
    speed: jax.Array


@pytree_dataclass
class HeavyBall(StarSolver):
    """Momentum at the server, whose speed no client needs."""

    rate: jax.Array
    replies: bool = field(default=False, metadata={"static": True})

    def start_server(self, model, num_clients):
        return Ball(model, jnp.zeros_like(model))

    def start_clients(self, problem, models, key):
        return jnp.zeros_like(models), RoundMessage()

    def client(self, problem, clients, received, key):
        model = clients if self.replies else received.model
        return problem.gradients(model), RoundMessage((problem.gradients(model),))

    def reply(self, clients, answer):
        return answer.model

    def server(self, server, received, info):
        speed = 0.5 * server.speed - self.rate * received.means[0]
        return Ball(server.model + speed, speed)

    def model(self, server):
        return server.model


@pytest.mark.parametrize("replies", [False, True])
def test_what_goes_down_and_is_never_read_is_told(replies):
    solver = HeavyBall(jnp.asarray(0.1), replies)
    message = (
        r"Clients of HeavyBall never read 3 of the 6 numbers that go down, those of "
        r"broadcast\(server\)\.speed\. Let `broadcast` return what"
    )
    with pytest.raises(AssertionError, match=message):
        check_solver(solver, squares(), only="traffic")
    brief = changed(HeavyBall, broadcast=lambda self, server: server._replace(speed=()))
    check_solver(brief(jnp.asarray(0.1), replies), squares(), only="traffic")


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
    with pytest.raises(AssertionError, match="Client 3 of MineAveraging did not move"):
        check_solver(solver, squares(), clients=models, only="absent")


def test_a_check_that_there_is_not_is_an_input_error():
    with pytest.raises(fa.InputError, match="only must be one of 'traffic', 'structure'"):
        check_solver(averaging(), squares(), only="speed")


def test_an_unfit_problem_is_named():
    with pytest.raises(fa.InputError, match="needs a problem with"):
        check_solver(averaging(), 3)


def test_every_rule_has_a_broken_example():
    assert {check for _, check, _ in BROKEN.values()} | {"resumes"} == set(SOLVER_CHECKS)
    assert all(f"`{name}`" in (check_solver.__doc__ or "") for name in SOLVER_CHECKS)
