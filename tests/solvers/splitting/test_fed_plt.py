"""Fed-PLT: trajectories, FedSplit and FedDR as its kin, fixed points, the limit of the rate."""

import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import penalties
from fedjax_admm.solvers import fed_dr, fed_plt, local_gradient, local_prox
from tests.reference import star_splitting as reference
from tests.solvers.quadratics import Quadratics, draw
from tests.solvers.splitting.paths import (
    L1,
    ORIGIN,
    ROUNDS,
    START,
    everybody,
    finish,
    path,
    some,
)

pytestmark = pytest.mark.usefixtures("x64")

LOCAL = {"prox": (local_prox(), reference.exact)}
LOCAL["gradient"] = local_gradient(0.5), reference.gradient_steps(0.5, 5)


def sent(solver, present, start=START):
    """Return what the server sends in every round after the first, as the reference records it."""
    return path(solver, present, start)[:-1]


@pytest.mark.parametrize(
    ("local", "regularized"),
    [
        ("gradient", True),
        pytest.param("prox", False, marks=pytest.mark.thorough),
        pytest.param("prox", True, marks=pytest.mark.thorough),
    ],
)
def test_trajectory_is_the_reference(local, regularized):
    mine, theirs = LOCAL[local]
    solver = fed_plt(0.8, local=mine, regularizer=penalties.l1(L1) if regularized else None)
    prox = reference.soft(L1) if regularized else reference.nothing
    truth = reference.fed_plt(*draw(), START, some(), 0.8, theirs, prox)
    np.testing.assert_allclose(sent(solver, some()), truth[1:], rtol=0, atol=1e-12)


@pytest.mark.thorough
def test_is_fed_split_where_everybody_solves_exactly():
    truth = reference.fed_split(*draw(), START, ROUNDS, 1.5)
    found = sent(fed_plt(1.5, local=local_prox()), everybody())
    np.testing.assert_allclose(found, truth[1:], rtol=0, atol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize(("start", "weight"), [(START, 0.0), (ORIGIN, L1)])
def test_is_fed_dr_with_relaxation_two_after_a_first_round_of_all(start, weight):
    common = {"local": local_prox(), "regularizer": penalties.l1(weight)}
    first = np.concatenate([everybody(1), some()])
    found = path(fed_plt(0.8, **common), first, start)[1:]
    truth = path(fed_dr(0.8, relaxation=2.0, **common), some(), start)
    np.testing.assert_allclose(found, truth, rtol=0, atol=1e-12)


@pytest.mark.thorough
def test_one_gradient_step_is_stable_below_two_thirds():
    """Where all curvatures and the length are 1, 2 / (L + 2 / s) = 2 / 3, and not 2 / (L + 1 / s).

    On the differences between clients a round is a matrix whose largest modulus is 0.97 at a rate
    of 0.66 and 1.04 at 0.675.
    """
    linear = draw()[1]
    problem = Quadratics(jnp.tile(jnp.eye(5), (10, 1, 1)), jnp.asarray(linear), jnp.zeros(5))
    ends = []
    for rate in (0.66, 0.675):
        solver = fed_plt(1.0, local=local_gradient(rate, steps=1))
        clients = finish(solver, everybody(600), problem=problem).state.solver.clients
        ends.append(np.max(np.abs(np.asarray(clients.x) - np.mean(linear, 0))))
    assert ends[0] < 1e-6
    assert ends[1] > 1e6
