"""What measures share: links' transitive closure, and the comparison of partitions."""

from itertools import pairwise
from math import comb

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st

from fedjax_admm import measures

# --- connected components ---

connected = jax.jit(measures.transitive_closure)


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


@pytest.mark.kin(1)
@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 9, 10, 33, 64, 65])
def test_a_path_is_connected_from_end_to_end(count):
    """The longest way there is, one link more or less than a power of two, nodes in any order."""
    order = np.random.default_rng(count).permutation(count)
    path = list(pairwise(order))
    assert np.all(measures.transitive_closure(jnp.array(links(count, path))))
    broken = links(count, path[: count // 2] + path[count // 2 + 1 :])
    found = measures.transitive_closure(jnp.array(broken))
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


@pytest.mark.thorough
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
