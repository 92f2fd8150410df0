"""Random graphs: how often edges and graphs are drawn, the room for them, and what is refused."""

import itertools
import math

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

from fedjax_admm import InputError
from fedjax_admm.graphs import block_labels, erdos_renyi, stochastic_block_model


def adjacency(graph):
    """Return the matrices of one or more graphs; check the order of their edges."""
    heads, tails, weights = (np.atleast_2d(leaf) for leaf in jax.tree.leaves(graph))
    n = graph.num_nodes
    places = heads.astype(np.int64) * n + tails
    there = weights == 1
    assert np.all(there | (weights == 0))
    assert np.all(heads[there] < tails[there])
    assert np.all(places[~there] == n * n - 1)
    # Strictly increasing among edges, constant among the absent ones at the end.
    assert np.all(np.diff(places, axis=1)[there[:, 1:]] > 0)
    assert np.all(np.diff(there.astype(int), axis=1) <= 0)
    matrices = np.zeros((len(heads), n, n), bool)
    rows = np.broadcast_to(np.arange(len(heads))[:, None], heads.shape)
    matrices[rows[there], heads[there], tails[there]] = True
    return matrices


def keys(number, seed=0):
    return jax.random.split(jax.random.key(seed), number)


def assert_frequencies(found, wanted, draws):
    """Five standard deviations for each of some hundred frequencies."""
    deviation = np.sqrt(wanted * (1 - wanted) / draws)
    assert np.all(np.abs(found - wanted) <= 5 * deviation + 1e-12)


# --- stochastic block model ---


def test_every_pair_is_joined_as_often_as_its_blocks_say():
    draws, sizes = 2000, (5, 7, 3)
    drawn = jax.vmap(lambda key: stochastic_block_model(key, sizes, 0.6, 0.15))(keys(draws))
    matrices = adjacency(drawn)
    labels = np.repeat([0, 1, 2], sizes)
    np.testing.assert_array_equal(block_labels(sizes), labels)
    assert block_labels(sizes).dtype == jnp.int32
    wanted = np.triu(np.where(labels[:, None] == labels, 0.6, 0.15), 1)
    assert_frequencies(matrices.mean(0), wanted, draws)
    # Pairs are independent: the number of edges varies as a sum of independent draws does.
    number = matrices.sum((1, 2))
    variance = np.sum(wanted * (1 - wanted))
    assert number.var() == pytest.approx(variance, rel=5 * math.sqrt(2 / draws))
    flat = matrices[:, *np.triu_indices(15, 1)]
    correlation = np.corrcoef(flat.T) - np.eye(flat.shape[1])
    assert np.abs(correlation).max() < 6 / math.sqrt(draws)


@pytest.mark.parametrize(("p_in", "p_out"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_certain_edges(p_in, p_out):
    graph = stochastic_block_model(jax.random.key(0), [2, 3], p_in, p_out)
    wanted = {
        (i, j)
        for i, j in itertools.combinations(range(5), 2)
        if (p_in if (i < 2) == (j < 2) else p_out)
    }
    found = set(zip(*(part.tolist() for part in np.nonzero(adjacency(graph)[0])), strict=True))
    assert found == wanted


@pytest.mark.usefixtures("x64")
def test_the_same_key_draws_the_same_graph():
    def draw(key):
        return stochastic_block_model(key, (6, 6), 0.5, 0.1)

    alone = [draw(key) for key in keys(3)]
    assert alone[0].weights.dtype == jnp.float64
    assert alone[0].heads.dtype == alone[0].tails.dtype == jnp.int32
    mapped = jax.jit(jax.vmap(draw))(keys(3))
    for i, graph in enumerate(alone):
        one = jax.tree.map(lambda leaf, i=i: leaf[i], mapped)
        jax.tree.map(np.testing.assert_array_equal, one, graph)
    assert not np.array_equal(alone[0].tails, alone[1].tails)


def test_probabilities_may_be_traced():
    @jax.jit
    @jax.vmap
    def draw(key, p_in):
        return stochastic_block_model(key, (4, 4), p_in, 0.0)

    drawn = draw(keys(3), jnp.array([0.0, 0.5, 1.0]))
    assert drawn.num_edges == 28  # all pairs
    number = adjacency(drawn).sum((1, 2))
    assert number[0] == 0
    assert 0 < number[1] < 12
    assert number[2] == 12
    short = jax.jit(lambda p: stochastic_block_model(jax.random.key(0), (4, 4), p, p, max_edges=20))
    assert short(0.1).num_edges == 20
    assert np.all(np.isnan(short(1.0).weights))
    assert np.all(short(1.0).present)


@pytest.mark.thorough
def test_the_room_is_the_expected_number_and_eight_deviations():
    graph = stochastic_block_model(jax.random.key(0), (100, 100), 0.5, 0.01)
    mean = 0.5 * 2 * 4950 + 0.01 * 10_000
    deviation = math.sqrt(0.25 * 2 * 4950 + 0.0099 * 10_000)
    assert graph.num_edges == math.ceil(mean + 8 * deviation + 22)
    assert abs(int(graph.present.sum()) - mean) < 5 * deviation
    # Small graphs get room for all pairs.
    for sizes, pairs in (((4, 4), 28), ([1], 0)):
        small = jax.eval_shape(
            lambda key, sizes=sizes: stochastic_block_model(key, sizes, 0.1, 0.1), keys(1)[0]
        )
        assert small.num_edges == pairs
    # Rare edges never find too little of it.
    rare = jax.vmap(lambda key: stochastic_block_model(key, (40, 40), 1e-3, 1e-4))(keys(300))
    assert rare.num_edges < 60
    assert np.all(np.isfinite(rare.weights))


def test_too_many_edges():
    with pytest.raises(InputError) as caught:
        stochastic_block_model(jax.random.key(0), (3, 3), 1.0, 1.0, max_edges=14)
    assert str(caught.value) == "max_edges must be at least 15, the number of edges, but it is 14."
    with pytest.raises(InputError, match="max_edges must be at least 10, the number of edges"):
        erdos_renyi(jax.random.key(0), 5, 1.0, max_edges=4)
    inside = jax.jit(lambda key: erdos_renyi(key, 5, 1.0, max_edges=4))
    assert np.all(np.isnan(inside(jax.random.key(0)).weights))


# --- Erdos-Renyi graphs ---


@jax.jit
def four_nodes(keys, p):
    return jax.vmap(lambda key: erdos_renyi(key, 4, p))(keys)


@pytest.mark.thorough
@pytest.mark.parametrize("p", [0.2, 0.6])
def test_connected_graphs_are_drawn_as_often_as_if_others_were_thrown_away(p):
    draws, pairs = 3000, list(itertools.combinations(range(4), 2))
    likely = {}
    for chosen in itertools.product([False, True], repeat=6):
        graph = nx.empty_graph(4)
        graph.add_edges_from(pair for pair, there in zip(pairs, chosen, strict=True) if there)
        if nx.is_connected(graph):
            likely[chosen] = p ** sum(chosen) * (1 - p) ** (6 - sum(chosen))
    assert len(likely) == 38
    drawn = four_nodes(keys(draws), p)
    flat = adjacency(drawn)[:, *zip(*pairs, strict=True)]
    found, times = np.unique(flat, axis=0, return_counts=True)
    counts = {tuple(row.tolist()): number for row, number in zip(found, times, strict=True)}
    assert set(counts) <= set(likely)
    wanted = np.array([*likely.values()]) / sum(likely.values())
    assert_frequencies(np.array([counts.get(row, 0) for row in likely]) / draws, wanted, draws)


@pytest.mark.thorough
def test_sparse_graphs_are_connected_too_on_every_device():
    """Where one draw in some twenty is connected."""
    mesh = jax.make_mesh((2,), ("trials",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("trials")
    draw = jax.vmap(lambda key: erdos_renyi(key, 20, 0.12))
    sharded = jax.shard_map(draw, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    drawn = jax.jit(sharded)(keys(40))
    assert drawn.heads.sharding.num_devices == 2
    matrices = adjacency(drawn)
    assert all(nx.is_connected(nx.from_numpy_array(m | m.T)) for m in matrices)
    number = matrices.sum((1, 2))
    assert number.min() >= 19
    assert 0.12 * 190 - 3 < number.mean() < 0.12 * 190 + 6


@pytest.mark.usefixtures("x64")
def test_few_nodes():
    assert erdos_renyi(jax.random.key(0), 1, 0.0).num_edges == 0
    pair = erdos_renyi(jax.random.key(0), 2, 0.05)
    np.testing.assert_array_equal(pair.weights, [1])
    assert pair.weights.dtype == jnp.float64
    np.testing.assert_array_equal([pair.heads[0], pair.tails[0]], [0, 1])


@pytest.mark.thorough
def test_no_connected_graph():
    with pytest.raises(InputError) as caught:
        erdos_renyi(jax.random.key(0), 30, 0.01)
    assert str(caught.value) == (
        "p must be larger: none of 1000 draws was connected; "
        "for 30 nodes take p above log(n)/n = 0.113."
    )
    both = jax.jit(jax.vmap(lambda key, p: erdos_renyi(key, 8, p)))(keys(2), jnp.array([0, 0.9]))
    np.testing.assert_array_equal(np.isnan(both.weights).all(1), [True, False])
    assert np.all(np.isfinite(both.weights[1]))


# --- mistakes ---


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (
            lambda key: stochastic_block_model(key, [2, 0], 0.5, 0.5),
            "sizes[1] must be at least 1, but it is 0.",
        ),
        (
            lambda key: stochastic_block_model(key, [2], 1.5, 0.5),
            "p_in must be at most 1, but it is 1.5.",
        ),
    ],
)
def test_mistakes_get_a_sentence(build, sentence):
    with pytest.raises(InputError) as caught:
        build(jax.random.key(0))
    assert str(caught.value) == sentence
