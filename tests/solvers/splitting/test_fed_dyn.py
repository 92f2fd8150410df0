"""FedDyn: trajectories, FedPD as its kin, fixed points."""

import numpy as np
import pytest

from fedjax_admm import penalties
from fedjax_admm.solvers import fed_dyn, fed_pd, local_gradient, local_prox
from tests.reference import star_splitting as reference
from tests.solvers.quadratics import draw
from tests.solvers.splitting.paths import (
    L1,
    L1_MINIMIZER,
    START,
    everybody,
    finish,
    path,
    some,
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
def test_the_regularizer_at_the_server_is_exact():
    solver = fed_dyn(0.7, local=local_gradient(0.5), regularizer=penalties.l1(L1))
    state = finish(solver, some(1000)).state.solver
    np.testing.assert_allclose(state.server.model, L1_MINIMIZER, atol=2e-10)
    # The server's slope is minus a subgradient of the penalty, and the mean of the clients'.
    slope = np.mean(state.clients.slope, 0)
    kink = np.asarray(state.server.model) == 0
    assert list(kink) == [True, False, True, False, False]
    np.testing.assert_allclose(slope[~kink], -L1 * np.sign(state.server.model[~kink]), atol=1e-12)
    assert np.all(np.abs(slope[kink]) < L1)
