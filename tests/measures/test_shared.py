"""What measures share: links' transitive closure, and the comparison of partitions."""

from math import comb

import jax
import numpy as np
import pytest
from hypothesis import given, strategies as st

from fedjax_admm.measures._shared import adjusted_rand_index, transitive_closure

# --- connected components ---

connected = jax.jit(transitive_closure)


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


def test_many_clients_are_connected(dtype):
    """Counts of ways overflow nothing: a complete graph of hundreds of nodes, and a star."""
    assert np.all(connected(np.ones((300, 300), bool)))
    star = links(300, [(0, n) for n in range(1, 299)])
    np.testing.assert_array_equal(connected(star), relation([0] * 299 + [1]))


# --- the adjusted Rand index ---

index = jax.jit(adjusted_rand_index)


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
