"""FedDR: trajectories, its equality with composite FedADMM, fixed points, limits."""

import dataclasses

import numpy as np
import pytest

from fedjax_admm import penalties
from fedjax_admm.solvers import fed_admm, fed_dr, local_gradient, local_prox
from fedjax_admm.traffic import Traffic
from tests.reference import star_splitting as reference
from tests.solvers.quadratics import draw, minimizer, quadratics
from tests.solvers.splitting.paths import (
    L1,
    START,
    everybody,
    path,
    some,
)

pytestmark = pytest.mark.usefixtures("x64")

LOCAL = {"prox": (local_prox(), reference.exact)}
LOCAL["gradient"] = local_gradient(0.5), reference.gradient_steps(0.5, 5)


@pytest.mark.parametrize(
    ("local", "alpha", "regularized"),
    [
        ("gradient", 1.3, True),
        *(pytest.param(*case, marks=pytest.mark.thorough) for case in [
            ("prox", 1.0, False), ("prox", 1.9, True), ("gradient", 1.0, False)
        ]),
    ],
)  # fmt: skip
def test_trajectory_is_the_reference(local, alpha, regularized):
    mine, theirs = LOCAL[local]
    solver = fed_dr(
        0.8,
        relaxation=alpha,
        local=mine,
        regularizer=penalties.l1(L1) if regularized else None,
    )
    prox = reference.soft(L1) if regularized else reference.nothing
    truth = reference.fed_dr(*draw(), START, some(), 0.8, alpha, theirs, prox)
    np.testing.assert_allclose(path(solver, some()), truth, rtol=0, atol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("regularized", [False, True])
def test_is_composite_fed_admm_under_any_participation(regularized):
    regularizer = penalties.l1(L1) if regularized else None
    prox = reference.soft(L1) if regularized else reference.nothing
    truth = reference.composite_fed_admm(*draw(), START, some(), 2.0, prox)
    found = path(fed_dr(0.5, local=local_prox(), regularizer=regularizer), some())
    np.testing.assert_allclose(found, truth, rtol=0, atol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize(("alpha", "weight"), [(1.0, 0.0), (1.0, L1), (1.7, L1)])
def test_is_fed_admm_after_a_first_round_of_all(alpha, weight):
    common = {"relaxation": alpha, "local": local_prox(), "regularizer": penalties.l1(weight)}
    first = np.concatenate([everybody(1), some()])
    found = path(fed_admm(2.0, **common), first)[1:]
    truth = path(fed_dr(0.5, **common), some())
    np.testing.assert_allclose(found, truth, rtol=0, atol=1e-12)


@pytest.mark.thorough
def test_the_largest_relaxation():
    twice = fed_dr(1.0, relaxation=2.0, local=local_prox())
    assert np.linalg.norm(path(twice, everybody(400))[-1] - minimizer()) < 1e-10
    beyond = dataclasses.replace(twice, relaxation=np.float64(2.2))
    assert np.linalg.norm(path(beyond, everybody(400))[-1] - minimizer()) > 1e3


def test_traffic_counts_the_start():
    assert fed_dr(1.0).traffic(quadratics()) == Traffic(up=5, down=5, before=50)
