"""FedDyn: trajectories, FedPD as its kin, fixed points, and weights that are lost in averages."""

import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import penalties
from fedjax_admm.solvers import fed_dyn, fed_pd, local_gradient, local_prox
from tests.reference import star_splitting as reference
from tests.solvers.quadratics import Quadratics, draw, minimizer
from tests.solvers.splitting.paths import (
    L1,
    L1_MINIMIZER,
    ORIGIN,
    START,
    errors,
    everybody,
    finish,
    path,
    some,
    told,
)

pytestmark = pytest.mark.usefixtures("x64")

LOCAL = {"prox": (local_prox(), reference.exact)}
LOCAL["gradient"] = local_gradient(0.5), reference.gradient_steps(0.5, 5)


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
    solver = fed_dyn(0.8, local=mine, regularizer=penalties.l1(L1) if regularized else None)
    prox = reference.soft(L1) if regularized else reference.nothing
    truth = reference.fed_dyn(*draw(), START, some(), 0.8, theirs, prox)
    np.testing.assert_allclose(path(solver, some()), truth, rtol=0, atol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("weight", [0.0, L1])
def test_is_fed_pd_where_everybody_takes_part(weight):
    common = {"local": local_prox(), "regularizer": penalties.l1(weight)}
    found = path(fed_dyn(2.5, **common), everybody())
    truth = path(fed_pd(0.4, **common), everybody())
    np.testing.assert_allclose(found, truth, rtol=0, atol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("solver", "full", "masked"),
    [
        (fed_dyn(1.0, local=local_prox()), (9.3e-7, 0), (2.2e-4, 0)),
        (fed_dyn(1.0, local=local_gradient(0.5)), (9.1e-7, 0), (2.2e-4, 0)),
    ],
)
def test_numbers_of_the_table(solver, full, masked):
    told(errors(solver, everybody(200), minimizer()), full)
    told(errors(solver, some(200), minimizer()), masked)


@pytest.mark.thorough
def test_the_regularizer_at_the_server_is_exact():
    solver = fed_dyn(0.7, local=local_gradient(0.5), regularizer=penalties.l1(L1))
    state = finish(solver, some(1000)).state.solver
    np.testing.assert_allclose(state.server, L1_MINIMIZER, atol=2e-10)
    # The server's slope is minus a subgradient of the penalty, and the mean of the clients'.
    slope = np.mean(state.clients.slope, 0)
    kink = np.asarray(state.server) == 0
    assert list(kink) == [True, False, True, False, False]
    np.testing.assert_allclose(slope[~kink], -L1 * np.sign(state.server[~kink]), atol=1e-12)
    assert np.all(np.abs(slope[kink]) < L1)


@pytest.mark.thorough
def test_weights_belong_in_the_losses():
    hessians, linear = draw()
    weights = np.arange(1, 11) / 55
    weighted = np.linalg.solve(np.tensordot(weights, hessians, 1), weights @ linear)
    assert np.linalg.norm(weighted - minimizer()) > 0.1
    # In the averages alone: the minimiser of the plain mean, without a word.
    wrong = reference.fed_dyn(hessians, linear, ORIGIN, everybody(600), 1.0, weights=weights)
    np.testing.assert_allclose(wrong[-1], minimizer(), atol=1e-12)
    share = 10 * weights
    problem = Quadratics(
        jnp.asarray(share[:, None, None] * hessians),
        jnp.asarray(share[:, None] * linear),
        jnp.zeros(5),
    )
    right = path(fed_dyn(1.0, local=local_prox()), some(600), problem=problem)
    np.testing.assert_allclose(right[-1], weighted, atol=1e-12)
