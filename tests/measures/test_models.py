"""Measures: errors of signals and of personal models, and how well clusters are found."""

from itertools import pairwise
from math import comb
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st

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
    state = SimpleNamespace(clients=SimpleNamespace(w=jnp.array(models)[:, None]))
    found = measures.personal_error(None, SimpleNamespace(truth=truth), state)
    assert float(found["agreement"]) == pytest.approx(agreement, abs=1e-6)
    error = np.sum((np.array(models) - np.array([1, 1, 2, 2])) ** 2) / 10
    assert float(found["error"]) == pytest.approx(error, rel=1e-5)


def test_models_that_are_not_finite_have_no_clusters():
    truth = jnp.array([[1.0], [1.0], [2.0], [2.0]])
    for models in ([jnp.nan] * 4, [1.0, 1.0, jnp.nan, 2.0]):
        state = SimpleNamespace(clients=SimpleNamespace(w=jnp.array(models)[:, None]))
        found = measures.personal_error(None, SimpleNamespace(truth=truth), state)
        assert np.isnan(found["error"])
        assert np.isnan(found["agreement"])


def test_a_position_that_is_not_finite_has_no_error():
    problem = SimpleNamespace(target=jnp.zeros(2))
    found = measures.position_error(problem, jnp.full(2, jnp.nan))
    assert np.isnan(found["error"])
    assert np.isnan(found["failure"])


# --- connected components ---

connected = jax.jit(measures.connected)


def components(linked):
    """Return the number of every node's component, by union and find."""
    leader = list(range(len(linked)))

    def find(node):
        while leader[node] != node:
            node = leader[node]
        return node

    for first, second in np.argwhere(linked).tolist():
        leader[find(first)] = find(second)
    return np.array([find(node) for node in range(len(linked))])


def relation(labels):
    labels = np.asarray(labels)
    return labels[:, None] == labels[None]


def links(count, pairs):
    linked = np.eye(count, dtype=bool)
    for first, second in pairs:
        linked[first % count, second % count] = linked[second % count, first % count] = True
    return linked


@given(
    st.sampled_from([1, 2, 3, 5, 9, 17]),
    st.lists(st.tuples(st.integers(0, 16), st.integers(0, 16)), max_size=20),
)
def test_components_equal_union_and_find(count, pairs):
    linked = links(count, pairs)
    found = connected(linked)
    assert found.dtype == bool
    np.testing.assert_array_equal(found, relation(components(linked)))


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 9, 10, 33, 64, 65])
def test_a_path_is_connected_from_end_to_end(count):
    """The longest way there is, one link more or less than a power of two, nodes in any order."""
    order = np.random.default_rng(count).permutation(count)
    path = list(pairwise(order))
    assert np.all(measures.connected(jnp.array(links(count, path))))
    broken = links(count, path[: count // 2] + path[count // 2 + 1 :])
    found = measures.connected(jnp.array(broken))
    np.testing.assert_array_equal(found, relation(components(broken)))


def test_many_clients_are_connected(dtype):
    """Counts of ways overflow nothing: a complete graph of hundreds of nodes, and a star."""
    assert np.all(connected(np.ones((300, 300), bool)))
    star = links(300, [(0, n) for n in range(1, 299)])
    np.testing.assert_array_equal(connected(star), relation([0] * 299 + [1]))


# --- the adjusted Rand index ---

index = jax.jit(measures.adjusted_rand_index)


def from_contingency(first, second):
    """Return the index of two labellings from their table, in whole numbers and one division."""
    table = np.zeros((max(first) + 1, max(second) + 1), int)
    for row, column in zip(first, second, strict=True):
        table[row, column] += 1

    def pairs(numbers):
        return sum(comb(int(number), 2) for number in numbers)

    both, rows, columns = pairs(table.ravel()), pairs(table.sum(1)), pairs(table.sum(0))
    every = comb(len(first), 2)
    # Both sides times 2 * every: whole numbers.
    above = 2 * (both * every - rows * columns)
    below = (rows + columns) * every - 2 * rows * columns
    return above / below if below else 1.0


LABELS = st.lists(st.integers(0, 3), min_size=9, max_size=9)


@given(LABELS, LABELS)
def test_the_index_equals_that_of_the_table(first, second):
    found = index(relation(first), relation(second))
    assert found.shape == ()
    wanted = from_contingency(first, second)
    assert float(found) == pytest.approx(wanted, abs=1e-5)
    assert float(index(relation(second), relation(first))) == pytest.approx(wanted, abs=1e-5)
    assert float(index(relation(first), relation(first))) == 1


@pytest.mark.parametrize("count", [1, 2, 3, 6, 101])
def test_the_index_of_trivial_partitions(count, dtype):
    together, apart = [0] * count, list(range(count))
    other = [0, *([1] * (count - 1))]
    for first in (together, apart, other):
        for second in (together, apart, other):
            found = index(relation(first), relation(second))
            assert found.dtype == dtype
            assert float(found) == pytest.approx(from_contingency(first, second), abs=1e-6)
    assert float(index(relation(together), relation(together))) == 1
    assert float(index(relation(apart), relation(apart))) == 1
    assert float(index(relation(together), relation(apart))) == (1 if count == 1 else 0)


def test_the_index_of_many_clients_in_float32():
    """More pairs than float32 has whole numbers."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 4, 5000)
    second = np.where(rng.uniform(size=5000) < 0.7, first, rng.integers(0, 5, 5000))
    wanted = from_contingency(first, second)
    found = float(index(relation(first), relation(second)))
    assert found == pytest.approx(wanted, abs=1e-5)
    assert 0.3 < wanted < 0.7


def test_the_index_of_independent_partitions_is_zero_on_average(x64):
    first = np.repeat([0, 1, 2], [5, 4, 3])
    rng = np.random.default_rng(1)
    shuffled = np.stack([relation(rng.permutation(first)) for _ in range(2000)])
    batched = jax.jit(jax.vmap(measures.adjusted_rand_index, (None, 0)))
    found = np.asarray(batched(relation(first), shuffled))
    error = np.std(found) / np.sqrt(2000)
    assert np.mean(found) == pytest.approx(0, abs=4 * error)
    assert np.min(found) < -0.05


def test_the_index_equals_that_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(2)
    trivial = [([0] * 9, [0] * 9), (range(9), range(9)), ([0] * 9, range(9))]
    for first, second in [*rng.integers(0, 4, (30, 2, 9)), *trivial]:
        wanted = metrics.adjusted_rand_score(list(first), list(second))
        found = index(relation(list(first)), relation(list(second)))
        assert float(found) == pytest.approx(wanted, abs=1e-5)
