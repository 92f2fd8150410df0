"""Problems that break one rule each, and good ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import InputError
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.testing import check_problem
from fedjax_admm.testing._problems import PROBLEM_CHECKS
from tests.testing.own import Squares, changed, squares


def stretched(method, factor):
    return lambda self, *args: factor * getattr(Squares, method)(self, *args)


def only_first(self, points, key=None):
    if key is None:
        return Squares.gradients(self, points)
    return self.x[:, 0] * self.errors(points)[:, :1]


def wrong_step(self, points, step, memory):
    return Squares.prox(self, points, 1 / step, memory)


def growing(self, points, step, memory):
    return Squares.prox(self, points, step, ())[0], (*memory, points)


def clip_the_mean(self, points, clip, key=None):
    slope = Squares.gradients(self, points)
    return slope * (1 + clip)


BROKEN = {
    "a gradient of the wrong sign": (
        {"gradients": stretched("gradients", -1)},
        "gradients",
        "gradients must be the derivative of values, but for client 0 at .* along .* it gives .*, "
        "and the values have .* to .* Is its sign wrong",
    ),
    "a minibatch of the first sample": (
        {"gradients": only_first},
        "minibatches",
        "must be right in the mean, but entry .* of client .* over 256 draws",
    ),
    "a prox of the wrong step": (
        {"prox": wrong_step},
        "prox",
        r"prox must minimise f\(x\) \+ .* but at v = .* and step = 0.01 it returns",
    ),
    "a memory that grows": (
        {"prox": growing},
        "prox",
        "The memory of MineSquares.prox must keep its structure, shapes and dtypes",
    ),
    "a dtype of its own": (
        {"gradients": lambda self, p, key=None: Squares.gradients(self, p).astype(jnp.float32)},
        "dtype",
        "gradients of float64 data must return float64",
    ),
    "clients that are mixed": (
        {"values": lambda self, p: Squares.values(self, p) + jnp.mean(p)},
        "apart",
        r"values of other clients .* differ: \(0,\) is .* belongs to client l alone",
    ),
    "a clipped gradient that is not": (
        {"clipped_gradients": clip_the_mean},
        "clipped",
        "must clip the gradient of every sample to 0.001|to 0.1|to 10",
    ),
    "some clients in another order": (
        {"take": lambda self, clients: Squares.take(self, jnp.sort(clients))},
        "apart",
        r"take\(clients\)\.values and the rows of values differ",
    ),
    "a branch on points": (
        {"values": lambda self, p: Squares.values(self, p) if p[0, 0] > -99 else p[:, 0]},
        "dtype",
        "The check 'dtype' of MineSquares raised .* Take jnp.where",
    ),
}


@pytest.mark.kin(3)
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_one_is_caught(name):
    members, check, message = BROKEN[name]
    problem = squares(changed(Squares, **members))
    with pytest.raises(AssertionError, match=f"(?s){message}"):
        check_problem(problem, only=check)


@pytest.mark.thorough
def test_a_good_one_passes():
    check_problem(squares())


@pytest.mark.thorough
def test_kinks_take_every_subgradient():
    def values(self, points):
        return jnp.sum(jnp.abs(points), -1)

    for slope, fits in ((0.0, True), (1.0, True), (1.1, False)):

        def gradients(self, points, key=None, slope=slope):
            return jnp.sign(points) + slope * (points == 0).astype(points.dtype)

        problem = squares(changed(Squares, values=values, gradients=gradients))
        points = np.zeros((4, 3))
        if fits:
            check_problem(problem, points=points, only="gradients")
        else:
            with pytest.raises(AssertionError, match="the values have -"):
                check_problem(problem, points=points, only="gradients")


@pytest.mark.thorough
def test_ours_pass():
    from tests.solvers import conformance

    for build in (conformance.localization, conformance.two_levels, conformance.agreeing):
        check_problem(build())
    check_problem(conformance.network())
    check_problem(conformance.trained_network())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"problem": Squares}, "problem must be an object with the number of its clients"),
        ({"problem": 3}, "problem must be an object with the number of its clients"),
        ({"only": "speed"}, "only must be one of 'dtype'"),
    ],
)
def test_wrong_arguments_are_input_errors(change, message):
    given = {"problem": squares()} | change
    with pytest.raises(InputError, match=message):
        check_problem(given.pop("problem"), **given)


@pytree_dataclass
class Nothing:
    start: jax.Array

    num_clients = 4


def test_one_without_capabilities_is_caught():
    with pytest.raises(AssertionError, match="can do nothing that a solver asks for"):
        check_problem(Nothing(jnp.zeros(3)), only="dtype")


def test_every_rule_has_a_broken_example():
    assert {check for _, check, _ in BROKEN.values()} == set(PROBLEM_CHECKS)
    assert all(f"`{name}`" in (check_problem.__doc__ or "") for name in PROBLEM_CHECKS)
