"""Connected graphs with a given number of edges: their law, their order, what is refused."""

import itertools

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from scipy import stats

from fedjax_admm import InputError
from fedjax_admm.graphs import connected_graph


def keys(number, seed=0):
    return jax.random.split(jax.random.key(seed), number)


def drawn(number, n, num_edges, seed=0):
    """Return heads and tails of many graphs (number, edges) after checking each of them."""
    graphs = jax.vmap(lambda key: connected_graph(key, n, num_edges))(keys(number, seed))
    heads, tails, weights = (np.asarray(leaf) for leaf in jax.tree.leaves(graphs))
    assert heads.shape == tails.shape == weights.shape == (number, num_edges)
    assert heads.dtype == tails.dtype == np.int32
    assert graphs.num_nodes == n
    np.testing.assert_array_equal(weights, 1)
    assert np.all(heads < tails)
    assert np.all((heads >= 0) & (tails < n))
    # Sorted by head, then tail, and no edge twice.
    assert np.all(np.diff(heads * n + tails, axis=1) > 0)
    for ends in zip(heads, tails, strict=True):
        graph = nx.empty_graph(n)
        graph.add_edges_from(zip(*ends, strict=True))
        assert nx.is_connected(graph)
    return heads, tails


@pytest.mark.kin(1)
@pytest.mark.parametrize(
    ("n", "num_edges"),
    [(50, 75), (8, 7), (6, 15), (2, 1)],
    ids=["as simulated", "tree", "complete", "pair"],
)
def test_connected_with_so_many_edges_in_order(n, num_edges):
    heads, tails = drawn(20, n, num_edges)
    if n > 6:
        assert len({(*h, *t) for h, t in zip(heads, tails, strict=True)}) == 20


def connected_edge_sets(n, num_edges):
    """Return all sets of so many edges that connect the nodes."""
    pairs = list(itertools.combinations(range(n), 2))
    found = []
    for chosen in itertools.combinations(pairs, num_edges):
        graph = nx.empty_graph(n)
        graph.add_edges_from(chosen)
        if nx.is_connected(graph):
            found.append(chosen)
    return found


@pytest.mark.thorough
@pytest.mark.parametrize(("n", "num_edges", "graphs"), [(4, 3, 16), (4, 4, 15), (5, 4, 125)])
def test_every_connected_graph_is_drawn_as_often(n, num_edges, graphs):
    """By Cayley's formula there are n^(n - 2) trees."""
    likely = connected_edge_sets(n, num_edges)
    assert len(likely) == graphs
    heads, tails = drawn(40 * graphs, n, num_edges, seed=n)
    rows = [tuple(zip(h.tolist(), t.tolist(), strict=True)) for h, t in zip(heads, tails)]  # noqa: B905
    counts = np.array([rows.count(row) for row in likely])
    assert counts.sum() == len(rows)
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.usefixtures("x64")
def test_one_node_and_precision():
    alone = connected_graph(jax.random.key(0), 1, 0)
    assert alone.num_nodes == 1
    assert alone.num_edges == 0
    pair = connected_graph(jax.random.key(0), 2, 1)
    assert pair.weights.dtype == jnp.float64
    np.testing.assert_array_equal([pair.heads[0], pair.tails[0]], [0, 1])


@pytest.mark.thorough
def test_no_connected_graph_is_found():
    """One set of edges in four millions is a tree."""
    with pytest.raises(InputError) as caught:
        connected_graph(jax.random.key(0), 50, 49)
    assert str(caught.value) == (
        "num_edges must be larger: none of 10000 draws joined all 50 nodes; take "
        "about n log(n) / 2 = 98."
    )
    inside = jax.jit(lambda key: connected_graph(key, 50, 49))(jax.random.key(0))
    assert np.all(np.isnan(inside.weights))


@pytest.mark.parametrize(
    ("n", "num_edges", "sentence"),
    [
        (5, 3, "num_edges must be at least 4, but it is 3."),
        (5, 11, "num_edges must be at most 10, but it is 11."),
    ],
)
def test_mistakes_get_a_sentence(n, num_edges, sentence):
    with pytest.raises(InputError) as caught:
        connected_graph(jax.random.key(0), n, num_edges)
    assert str(caught.value) == sentence
