"""Measures: errors of signals and of personal models, and how well clusters are found."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import measures, participation, penalties, schedules, trees
from tests.reference import hfsad as reference

ROUNDS, PASSES = 4, 3


# --- errors of signals ---


def test_the_error_of_a_signal_is_blind_to_its_sign(dtype):
    truth = np.array([3.0, 0.0, -4.0], dtype)
    problem = SimpleNamespace(truth=jnp.asarray(truth))
    rng = np.random.default_rng(0)
    for model in (truth, -truth, 0 * truth, 2 * truth, rng.normal(size=3).astype(dtype)):
        found = measures.signal_error(problem, jnp.asarray(model))["error"]
        mirrored = measures.signal_error(problem, jnp.asarray(-model))["error"]
        assert found.dtype == dtype
        assert found.shape == ()
        np.testing.assert_array_equal(found, mirrored)
        np.testing.assert_allclose(found, reference.relative_error(model, truth), rtol=1e-6)
    assert float(measures.signal_error(problem, jnp.asarray(-truth))["error"]) == 0
    assert float(measures.signal_error(problem, jnp.zeros(3, dtype))["error"]) == 1
    assert np.isnan(measures.signal_error(problem, jnp.full(3, jnp.nan, dtype))["error"])


def phase_problem():
    """Six clients at two edge servers, with a known signal, in whatever dtype the session has."""
    rng = np.random.default_rng(3)
    x, truth = rng.normal(size=(6, 4)), rng.normal(size=4)
    tree = trees.from_counts([4, 2])
    return fa.problems.phase_retrieval(
        x, (x @ truth) ** 2 + 0.1, tree, start=np.ones(4), truth=truth
    )


@pytest.mark.thorough
def test_a_tree_is_measured_at_its_root_and_its_clients(dtype):
    """Clients are absent at random: passes is the mean of how often each was there."""
    problem = phase_problem()
    masks = np.random.default_rng(5).uniform(size=(ROUNDS, PASSES, 8)) < 0.6
    solver = fa.solvers.hfsad(problem, passes=PASSES)
    result = fa.run(
        solver,
        problem,
        jax.random.key(0),
        rounds=ROUNDS,
        participation=participation.replay(masks),
        measure=measures.tree_signal_error,
    )
    done = np.cumsum(np.sum(masks[:, :, :6], 1), 0)
    assert len(set(done[-1])) > 1
    np.testing.assert_allclose(result.trace["passes"], np.mean(done, 1), rtol=1e-6)
    state = result.state.solver
    np.testing.assert_array_equal(state.clients.updates, done[-1])
    disagreement = np.max(np.abs(np.asarray(state.clients.w) - np.asarray(state.root)))
    assert disagreement > 0
    assert float(result.trace["disagreement"][-1]) == pytest.approx(float(disagreement), rel=1e-6)
    error = reference.relative_error(np.asarray(result.estimate), np.asarray(problem.truth))
    assert float(result.trace["error"][-1]) == pytest.approx(float(error), rel=1e-5)
    for name in ("error", "passes", "disagreement"):
        assert result.trace[name].shape == (ROUNDS,)
        assert result.trace[name].dtype == dtype


def test_a_central_solver_is_measured_at_its_model(dtype):
    problem = phase_problem()
    solver = fa.solvers.centralized_subgradient(schedules.geometric(1.0, 0.9))
    result = fa.run(
        solver, problem, jax.random.key(0), rounds=5, measure=measures.central_signal_error
    )
    np.testing.assert_array_equal(result.trace["passes"], [1, 2, 3, 4, 5])
    error = reference.relative_error(np.asarray(result.estimate), np.asarray(problem.truth))
    assert float(result.trace["error"][-1]) == pytest.approx(float(error), rel=1e-5)
    assert result.trace["passes"].dtype == result.trace["error"].dtype == dtype


# --- personal models ---


def regression_problem():
    """Nine clients of three edge servers and two models, far apart, with little noise."""
    rng = np.random.default_rng(4)
    truth = np.array([[1.0, -1.0], [5.0, 4.0]])[[0, 0, 1, 0, 0, 1, 1, 1, 0]]
    features = rng.normal(size=(9, 8, 2))
    targets = np.einsum("nij,nj->ni", features, truth) + 0.01 * rng.laplace(size=(9, 8))
    return fa.problems.robust_regression(
        features, targets, trees.from_counts([3, 3, 3]), truth=truth
    )


def test_personal_models_of_a_run(dtype):
    """Links cut: every client fits its own samples, and the two clusters come out."""
    problem = regression_problem()
    link = fa.solvers.tree_link(1.0, 1.0, penalties.zero())
    solver = fa.solvers.hierarchical_admm(link, [link], client_update="linearized", personal=True)
    result = fa.run(
        solver, problem, jax.random.key(0), rounds=100, every=50, measure=measures.personal_error
    )
    models, truth = np.asarray(result.estimate), np.asarray(problem.truth)
    error = np.sum((models - truth) ** 2) / np.sum(truth**2)
    assert error < 0.05
    assert float(result.trace["error"][-1]) == pytest.approx(float(error), rel=1e-4)
    assert float(result.trace["agreement"][-1]) == 1
    assert result.trace["error"].dtype == result.trace["agreement"].dtype == dtype


def personal(models):
    """Return a state of clients with these models of one entry."""
    clients = SimpleNamespace(w=jnp.array(models)[:, None])
    return SimpleNamespace(root=jnp.zeros(1), servers=(), clients=clients)


@pytest.mark.parametrize(
    ("models", "agreement"),
    [
        ([0.0, 0.5, 9.0, 9.5], 1.0),
        ([0.0, 0.9, 1.8, 9.0], 0.0),  # merged in a chain: the first three together
        ([0.0, 0.0, 0.0, 0.0], 0.0),
        ([0.0, 5.0, 10.0, 15.0], 0.0),
        ([0.0, 9.0, 0.1, 9.1], -0.5),
        ([0.0, 1.0, 9.0, 9.999], 4 / 7),  # a distance of 1 is too far
    ],
)
def test_clients_closer_than_a_distance_are_merged(models, agreement):
    truth = jnp.array([[1.0], [1.0], [2.0], [2.0]])
    found = measures.personal_error(None, SimpleNamespace(truth=truth), personal(models))
    assert float(found["agreement"]) == pytest.approx(agreement, abs=1e-6)
    error = np.sum((np.array(models) - np.array([1, 1, 2, 2])) ** 2) / 10
    assert float(found["error"]) == pytest.approx(error, rel=1e-5)


def test_models_that_are_not_finite_have_no_clusters():
    truth = jnp.array([[1.0], [1.0], [2.0], [2.0]])
    for models in ([jnp.nan] * 4, [1.0, 1.0, jnp.nan, 2.0]):
        found = measures.personal_error(None, SimpleNamespace(truth=truth), personal(models))
        assert np.isnan(found["error"])
        assert np.isnan(found["agreement"])


def test_a_position_that_is_not_finite_has_no_error():
    problem = SimpleNamespace(target=jnp.zeros(2))
    found = measures.position_error(problem, jnp.full(2, jnp.nan))
    assert np.isnan(found["error"])
    assert np.isnan(found["failure"])
