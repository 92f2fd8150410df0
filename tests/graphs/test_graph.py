"""Graphs: every way to build the same one, padding, components, and what is refused."""

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fedjax_admm import InputError, graphs
from fedjax_admm.graphs import Graph, check_connected, components, is_connected

NODES = 7  # of all drawn graphs: one compilation serves them all
PAIRS = NODES * (NODES - 1) // 2


# --- a plain model: a dictionary from pairs of nodes to weights ---


def assert_is(graph, num_nodes, model, dtype=jnp.float32):
    """Compare a graph with a dictionary {(head, tail): weight}, and check the order of its list."""
    assert isinstance(graph, Graph)
    assert graph.num_nodes == num_nodes
    assert graph.heads.dtype == graph.tails.dtype == jnp.int32
    assert graph.weights.dtype == dtype
    assert not graph.weights.weak_type
    assert graph.heads.shape == graph.tails.shape == graph.weights.shape == (graph.num_edges,)
    heads, tails, weights = (np.asarray(leaf) for leaf in jax.tree.leaves(graph))
    found = dict(zip(zip(heads[weights != 0].tolist(), tails[weights != 0].tolist(), strict=True),
                     weights[weights != 0].tolist(), strict=True))  # fmt: skip
    assert list(found) == sorted(model)
    np.testing.assert_array_equal([found[p] for p in model], np.array([*model.values()], dtype))
    assert all(head < tail for head, tail in found)
    np.testing.assert_array_equal(np.flatnonzero(weights), np.arange(len(model)))
    np.testing.assert_array_equal(heads[len(model) :], num_nodes - 1)
    np.testing.assert_array_equal(tails[len(model) :], num_nodes - 1)
    assert np.all(np.diff(heads) >= 0)


def networkx_of(num_nodes, model):
    graph = nx.empty_graph(num_nodes)
    graph.add_weighted_edges_from((head, tail, weight) for (head, tail), weight in model.items())
    return graph


def matrix_of(num_nodes, model):
    matrix = np.zeros((num_nodes, num_nodes), np.float32)
    for (head, tail), weight in model.items():
        matrix[head, tail] = matrix[tail, head] = weight
    return matrix


WEIGHTS = st.floats(0.015625, 64, width=32)
MODELS = st.dictionaries(
    st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1))
    .filter(lambda pair: pair[0] != pair[1])
    .map(lambda pair: tuple(sorted(pair))),
    WEIGHTS,
    max_size=PAIRS,
)


@st.composite
def edge_lists(draw):
    """Draw a model, and its edges in any order and either way round."""
    model = draw(MODELS)
    pairs = draw(st.permutations(sorted(model)))
    turned = [pair[::-1] if draw(st.booleans()) else pair for pair in pairs]
    return model, turned, [model[pair] for pair in pairs]


# --- the constructors against the model and each other ---


@pytest.mark.thorough
@given(edge_lists(), st.integers(0, 5))
@settings(max_examples=100)
def test_edges_come_in_any_order_and_either_way_round(given_edges, spare):
    model, edges, weights = given_edges
    assert_is(graphs.from_edges(NODES, edges, weights), NODES, model)
    assert_is(graphs.from_edges(NODES, np.array(edges, int).reshape(-1, 2), weights), NODES, model)
    assert_is(graphs.from_edges(NODES, iter(edges)), NODES, dict.fromkeys(model, 1.0))
    assert_is(graphs.from_edges(NODES, edges, 0.5), NODES, dict.fromkeys(model, 0.5))
    padded = graphs.from_edges(NODES, edges, weights, max_edges=len(model) + spare)
    assert padded.num_edges == len(model) + spare
    assert_is(padded, NODES, model)


@jax.jit
def _from_traced_matrix(matrix):
    return graphs.from_matrix(matrix)


@given(MODELS)
def test_matrices_give_the_same_graph(model):
    matrix = matrix_of(NODES, model)
    assert_is(graphs.from_matrix(matrix), NODES, model)
    assert_is(graphs.from_matrix(matrix.tolist(), max_edges=PAIRS + 3), NODES, model)
    traced = _from_traced_matrix(matrix)
    assert traced.num_edges == PAIRS
    assert_is(traced, NODES, model)


def test_matrices_of_other_kinds():
    adjacency = [[0, 1, 0], [1, 0, 2], [0, 2, 0]]
    wanted = {(0, 1): 1.0, (1, 2): 2.0}
    for kind in (list, np.array, jnp.array, lambda rows: np.array(rows, np.float64)):
        assert_is(graphs.from_matrix(kind(adjacency)), 3, wanted)
    assert_is(graphs.from_matrix(np.array([[False, True], [True, False]])), 2, {(0, 1): 1.0})
    # Symmetric to rounding: the upper triangle counts.
    tilted = np.array([[0, 0.1], [np.nextafter(np.float32(0.1), np.float32(1)), 0]], np.float32)
    assert_is(graphs.from_matrix(tilted), 2, {(0, 1): np.float32(0.1)})
    assert_is(graphs.from_matrix(np.zeros((1, 1))), 1, {})
    # A known matrix keeps its length inside jit too.
    assert jax.jit(lambda: graphs.from_matrix(adjacency))().num_edges == 2
    assert jax.jit(lambda: graphs.from_matrix(jnp.array(adjacency).astype(float)))().num_edges == 3


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_chains_and_stars_are_those_of_networkx(n):
    for graph, wanted in (
        (graphs.chain(n), nx.path_graph(n)),
        (graphs.star(n), nx.star_graph(n - 1)),
    ):
        assert_is(graph, n, dict.fromkeys([tuple(sorted(edge)) for edge in wanted.edges], 1.0))


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 4), (3, 1), (2, 3), (4, 5)])
def test_grids_are_those_of_networkx(rows, columns):
    wanted = nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, columns), ordering="sorted")
    model = dict.fromkeys([tuple(sorted(edge)) for edge in wanted.edges], 1.0)
    assert_is(graphs.grid(rows, columns), rows * columns, model)


def test_weights_of_fixed_shapes_follow_the_documented_order():
    assert_is(graphs.chain(4, [1, 2, 3]), 4, {(0, 1): 1.0, (1, 2): 2.0, (2, 3): 3.0})
    assert_is(graphs.star(3, [5, 0.5]), 3, {(0, 1): 5.0, (0, 2): 0.5})
    assert_is(graphs.star(3, 2), 3, {(0, 1): 2.0, (0, 2): 2.0})
    # 0 1 2     node by node: to the right, then below.
    # 3 4 5
    ordered = {(0, 1): 1.0, (0, 3): 2.0, (1, 2): 3.0, (1, 4): 4.0, (2, 5): 5.0}
    ordered |= {(3, 4): 6.0, (4, 5): 7.0}
    assert_is(graphs.grid(2, 3, range(1, 8)), 6, ordered)


def test_the_dtype_of_weights(dtype):
    """Floating arrays keep theirs; whatever else is the session's."""
    for weights in (None, 2, 2.0, [2, 2], [2.0, 2.0], np.array([2, 2]), jnp.array([2, 2])):
        assert graphs.chain(3, weights).weights.dtype == dtype
    for kind in (np.float32, np.float64):
        kept = jax.dtypes.canonicalize_dtype(kind)
        assert graphs.chain(3, np.array([2, 2], kind)).weights.dtype == kept
        assert graphs.from_matrix(np.array([[0, 1], [1, 0]], kind)).weights.dtype == kept
    assert graphs.from_matrix([[0, 1], [1, 0]]).weights.dtype == dtype
    assert graphs.chain(3, jnp.array([2, 2], jnp.float32)).weights.dtype == jnp.float32
    assert graphs.chain(3).weighted_degrees.dtype == dtype


# --- what is known of nodes and edges ---


@jax.jit
def _everything(graph, w, u):
    return {
        "degrees": graph.degrees,
        "weighted": graph.weighted_degrees,
        "isolated": graph.isolated,
        "components": components(graph),
        "connected": is_connected(graph),
        "difference": graph.difference(w),
        "divergence": graph.divergence(u),
    }


@pytest.mark.thorough
@given(MODELS, st.integers(0, 2**32 - 1))
def test_everything_is_that_of_networkx_and_padding_changes_nothing(model, seed):
    rng = np.random.default_rng(seed)
    wanted = networkx_of(NODES, model)
    w = rng.integers(-9, 10, (NODES, 2)).astype(np.float32)
    u = np.zeros((PAIRS + 4, 2), np.float32)
    u[: len(model)] = rng.integers(-9, 10, (len(model), 2))
    pairs = sorted(model)
    graph = graphs.from_edges(NODES, pairs, [model[pair] for pair in pairs])
    incidence = nx.incidence_matrix(wanted, edgelist=pairs, oriented=True).toarray()
    difference = -incidence.T @ w  # networkx: -1 at the head
    for length in (PAIRS, PAIRS + 4):
        padded = graphs.pad(graph, length)
        assert_is(padded, NODES, model)
        found = _everything(padded, w, u[:length])
        np.testing.assert_array_equal(found["degrees"], [d for _, d in wanted.degree])
        weighted = [d for _, d in wanted.degree(weight="weight")]
        np.testing.assert_allclose(found["weighted"], weighted, rtol=1e-5)
        np.testing.assert_array_equal(np.flatnonzero(found["isolated"]), [*nx.isolates(wanted)])
        labels = {node: min(part) for part in nx.connected_components(wanted) for node in part}
        np.testing.assert_array_equal(found["components"], [labels[i] for i in range(NODES)])
        assert bool(found["connected"]) == nx.is_connected(wanted)
        np.testing.assert_array_equal(found["difference"][: len(model)], difference)
        np.testing.assert_array_equal(found["difference"][len(model) :], 0)
        np.testing.assert_array_equal(found["divergence"], -incidence @ u[: len(model)])
    assert padded.num_edges == PAIRS + 4
    np.testing.assert_array_equal(padded.present, np.arange(PAIRS + 4) < len(model))


def test_absent_edges_anywhere_join_nobody():
    """A weight that becomes 0 takes its edge out of the graph."""
    graph = graphs.from_edges(4, [(0, 1), (1, 2), (2, 3)])
    cut = Graph(graph.heads, graph.tails, jnp.array([1.0, 0.0, 1.0]), 4)
    np.testing.assert_array_equal(components(cut), [0, 0, 2, 2])
    np.testing.assert_array_equal(cut.degrees, [1, 1, 1, 1])
    assert not is_connected(cut)


@pytest.mark.parametrize("order", ["along", "against", "mixed"])
def test_components_of_a_long_chain(order):
    """However the nodes of the chain are numbered, in few rounds; and of two chains."""
    n = 2000
    place = np.arange(n)
    if order == "against":
        place = place[::-1]
    if order == "mixed":
        place = np.random.default_rng(5).permutation(n)
    edges = np.stack([place[:-1], place[1:]], 1)
    assert is_connected(graphs.from_edges(n, edges))
    cut = np.delete(edges, 700, axis=0)
    labels = np.asarray(components(graphs.from_edges(n, cut, max_edges=n - 1)))
    np.testing.assert_array_equal(labels[place[:701]], place[:701].min())
    np.testing.assert_array_equal(labels[place[701:]], place[701:].min())


# --- stacks and transformations ---


@pytest.mark.thorough
def test_a_stack_under_vmap_is_its_graphs_one_by_one():
    several = [graphs.chain(6), graphs.star(6, 2.0), graphs.grid(2, 3), graphs.from_edges(6, [])]
    stacked = graphs.stack(several)
    assert stacked.heads.shape == stacked.weights.shape == (4, 7)
    assert stacked.num_edges == 7
    rng = np.random.default_rng(0)
    w, u = rng.integers(-9, 10, (4, 6)), rng.integers(-9, 10, (4, 7))
    batch = (w.astype(np.float32), np.where(stacked.weights > 0, u, 0).astype(np.float32))
    found = jax.vmap(_everything)(stacked, *batch)
    for i, graph in enumerate(several):
        alone = _everything(graphs.pad(graph, 7), batch[0][i], batch[1][i])
        for name, part in alone.items():
            np.testing.assert_array_equal(found[name][i], part, err_msg=name)
    again = graphs.pad(stacked, 9)
    assert again.heads.shape == (4, 9)
    np.testing.assert_array_equal(again.tails[:, 7:], 5)
    np.testing.assert_array_equal(again.weights[:, 7:], 0)
    one = graphs.stack([graphs.chain(3)])
    assert one.heads.shape == (1, 2)


def test_too_many_edges_inside_jit_are_not_a_number():
    """The weights, and whatever is computed from them: nothing is silently wrong."""
    full = 1 - np.eye(4, dtype=np.float32)
    short = jax.jit(lambda matrix: graphs.from_matrix(matrix, max_edges=5))
    assert np.all(np.isnan(short(full).weights))
    assert np.all(short(full).present)
    assert np.all(np.isnan(short(full).weighted_degrees[:2]))
    both = jax.vmap(short)(jnp.stack([full, full * (np.arange(4) < 1) + 0]))
    np.testing.assert_array_equal(np.isnan(both.weights), [[True] * 5, [False] * 5])
    enough = jax.jit(lambda matrix: graphs.from_matrix(matrix, max_edges=6))
    assert_is(enough(full), 4, {(i, j): 1.0 for i in range(4) for j in range(i + 1, 4)})


def test_a_wrong_entry_inside_jit_is_not_a_number():
    matrix = np.zeros((3, 3), np.float32)
    matrix[0, 1] = matrix[1, 0] = 2
    for wrong in (-1.0, np.nan):
        matrix[1, 2] = matrix[2, 1] = wrong
        np.testing.assert_array_equal(_from_traced_matrix(matrix).weights, [2, np.nan, 0])


def test_derivatives_by_the_weights(dtype):
    def energy(matrix):
        graph = graphs.from_matrix(matrix)
        return jnp.sum(graph.weights**2) + graph.weighted_degrees[0]

    matrix = jnp.array([[0, 1, 0], [1, 0, 3], [0, 3, 0]], dtype)
    gradient = jax.jit(jax.grad(energy))(matrix)
    np.testing.assert_array_equal(gradient, [[0, 3, 0], [0, 0, 6], [0, 0, 0]])
    # Weights of an edge list may be traced too, and are sorted along.
    edges = [(3, 2), (0, 1), (2, 1)]
    by_edge = jax.grad(lambda a: jnp.sum(graphs.from_edges(4, edges, a).weights * jnp.arange(3.0)))
    np.testing.assert_array_equal(by_edge(jnp.array([1.0, 2.0, 3.0])), [2, 0, 1])
    scaled = jax.grad(lambda a: jnp.sum(graphs.chain(4, a).weights))(2.0)
    assert float(scaled) == 3


# --- mistakes ---


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (
            lambda: graphs.chain(3, [1, 2, 3]),
            "weights must have shape () or (2,), but it has (3,).",
        ),
        (
            lambda: graphs.chain(3, [1.0, -2.0]),
            "weights must be positive and finite, but entry 1 is -2; leave out edges "
            "of weight zero.",
        ),
        (
            lambda: graphs.chain(3, "heavy"),
            "weights must be an array of numbers, but it is 'heavy'.",
        ),
        (
            lambda: graphs.from_edges(4, [(0, 1), (2, 2)]),
            "edges must join different nodes, but entry 1 is [2, 2].",
        ),
        (
            lambda: graphs.from_edges(4, [(0, 1), (1, 4)]),
            "edges must join nodes from 0 to 3, but entry 1 is [1, 4].",
        ),
        (
            lambda: graphs.from_edges(4, [(2, 1), (3, 2), (2, 3)]),
            "edges must name every pair of nodes once, but they repeat [[2, 3]].",
        ),
        (
            lambda: graphs.from_edges(4, [(0.0, 1.0)]),
            "edges must be whole numbers, but it is array([[0., 1.]]).",
        ),
        (lambda: graphs.star(2.5), "n must be a whole number, but it is 2.5."),
        (lambda: graphs.grid(2, 0), "columns must be at least 1, but it is 0."),
        (
            lambda: graphs.from_edges(3, [(0, 1), (1, 2)], max_edges=1),
            "max_edges must be at least 2, the number of edges, but it is 1.",
        ),
        (
            lambda: graphs.pad(graphs.chain(5), 3),
            "max_edges must be at least 4, the length of the edge list, but it is 3.",
        ),
        (
            lambda: graphs.stack([graphs.chain(3), graphs.chain(3), graphs.chain(4)]),
            "graphs must have equally many nodes, but they have [3, 4].",
        ),
    ],
)
def test_mistakes_get_a_sentence(build, sentence):
    with pytest.raises(InputError) as caught:
        build()
    assert str(caught.value) == sentence


def test_traced_edges_get_a_sentence():
    with pytest.raises(InputError, match="edges must be known before compilation"):
        jax.jit(lambda edges: graphs.from_edges(3, edges))(jnp.array([[0, 1]]))


@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        (np.ones((2, 3)), "A must be a square matrix, but it has shape (2, 3)."),
        (
            [[0, np.nan], [np.nan, 0]],
            "A must be finite, but entry (0, 1) is nan; remove or repair that entry.",
        ),
        (
            [[0, -2], [-2, 0]],
            "A must not be negative, but entry (0, 1) is -2.",
        ),
        ([[0, 1], [2, 0]], "A must be symmetric, but entry (0, 1) is 1."),
        (
            [[0, 1], [1, 3]],
            "A must have a diagonal of zeros, but entry (1, 1) is 3.",
        ),
    ],
)
def test_mistakes_in_a_matrix_get_a_sentence(matrix, sentence):
    with pytest.raises(InputError) as caught:
        graphs.from_matrix(matrix, name="A")
    assert str(caught.value) == sentence


def test_a_graph_in_parts_gets_a_sentence():
    check_connected(graphs.chain(4))
    check_connected(graphs.pad(graphs.grid(2, 2), 9))
    with pytest.raises(InputError) as caught:
        check_connected(graphs.from_edges(6, [(0, 2), (1, 3)]))
    assert str(caught.value) == (
        "graph must be connected, but it has 4 components: node 1 cannot be reached from node 0; "
        "add edges, or solve every component for itself."
    )
    # What is traced cannot be looked at.
    jax.jit(check_connected)(graphs.from_edges(3, []))


def test_components_of_a_stack_get_a_sentence():
    stacked = graphs.stack([graphs.chain(3)] * 2)
    with pytest.raises(InputError, match=r"it is a stack of shape \(2,\); use jax.vmap over"):
        components(stacked)
    np.testing.assert_array_equal(jax.vmap(components)(stacked), np.zeros((2, 3)))
