"""Graphs from CSV files, and networkx."""

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

from fedjax_admm import InputError
from fedjax_admm.graphs import from_networkx, read_edges


def edges_of(graph):
    heads, tails, weights = (np.asarray(leaf).tolist() for leaf in jax.tree.leaves(graph))
    assert list(zip(heads, tails, strict=True)) == sorted(set(zip(heads, tails, strict=True)))
    return dict(zip(zip(heads, tails, strict=True), weights, strict=True))


# --- networkx ---


def test_a_graph_of_networkx():
    karate = nx.karate_club_graph()
    graph = from_networkx(karate)
    assert graph.num_nodes == 34
    wanted = {tuple(sorted(edge)): w for *edge, w in karate.edges(data="weight")}
    assert edges_of(graph) == wanted
    assert set(edges_of(from_networkx(karate, weight=None)).values()) == {1.0}
    np.testing.assert_array_equal(graph.degrees, [degree for _, degree in karate.degree])


def test_nodes_are_numbered_in_the_order_of_the_graph(dtype):
    graph = nx.Graph()
    graph.add_nodes_from(["z", ("a", 1), "alone"])
    graph.add_edge("b", "z", length=0.5)
    graph.add_edge(("a", 1), "z")
    found = from_networkx(graph, weight="length")
    assert list(graph.nodes) == ["z", ("a", 1), "alone", "b"]
    assert edges_of(found) == {(0, 1): 1.0, (0, 3): 0.5}
    assert found.weights.dtype == dtype
    np.testing.assert_array_equal(found.isolated, [False, False, True, False])


def _with_edge(*edge, **attributes):
    graph = nx.Graph()
    graph.add_edge(*edge, **attributes)
    return graph


@pytest.mark.parametrize(
    ("graph", "sentence"),
    [
        (
            nx.DiGraph([(0, 1)]),
            "graph must be undirected, but it is directed; convert it with graph.to_undirected().",
        ),
        (
            nx.MultiGraph([(0, 1)]),
            "graph must have one edge per pair of nodes, but it is a multigraph; add up parallel "
            "edges in a networkx.Graph.",
        ),
        (
            _with_edge("a", "a"),
            "edges must join different nodes, but entry 0 is [0, 0].",
        ),
        *[
            (
                _with_edge("a", "b", weight=weight),
                "the attribute 'weight' of edge 'a', 'b' must be a positive number, "
                f"but it is {weight!r}.",
            )
            for weight in (0, -1.5, float("nan"), float("inf"), "heavy", None)
        ],
    ],
)
def test_mistakes_in_a_graph_of_networkx_get_a_sentence(graph, sentence):
    with pytest.raises(InputError) as caught:
        from_networkx(graph)
    assert str(caught.value) == sentence


# --- CSV files ---


@pytest.fixture
def write(tmp_path):
    def written(content):
        path = tmp_path / "edges.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written


@pytest.mark.parametrize(
    "content",
    [
        "head,tail,weight\nb,a,2\nb,c,0.5\n",
        "Source,head,TARGET,weight\nb,x,a,2\nb,y,c,0.5\n",
        "weight,tail,head\r\n2,a,b\r\n0.5,b,c\r\n",
        ' Head , TAIL ,length,Weight\n\n b , a ,9, 2 \n,,,\n"c",b,,5e-1',
        b"\xef\xbb\xbfhead,tail,weight\nb,a,2\nb,c,0.5\n",
    ],
    ids=["plain", "source and target", "another order", "spaces and other columns", "byte order"],
)
def test_files_in_many_forms(content, write, dtype):
    graph, names = read_edges(write(content))
    assert names == ["a", "b", "c"]
    assert graph.num_nodes == 3
    assert edges_of(graph) == {(0, 1): 2.0, (1, 2): 0.5}
    assert graph.weights.dtype == dtype


def test_nodes_in_the_order_of_the_data(write):
    path = write('head,tail\nZürich,"Köln, Süd"\nZürich,3\n')
    graph, names = read_edges(path, ["3", "Nowhere", "Zürich", "Köln, Süd"])
    assert names == ["3", "Nowhere", "Zürich", "Köln, Süd"]
    assert edges_of(graph) == {(0, 2): 1.0, (2, 3): 1.0}
    np.testing.assert_array_equal(graph.isolated, [False, True, False, False])
    assert read_edges(str(path))[1] == ["3", "Köln, Süd", "Zürich"]


def test_whole_numbers_are_sorted_as_numbers(write):
    path = write("head,tail\n10,9\n-1,10\n")
    graph, names = read_edges(path)
    assert names == ["-1", "9", "10"]
    assert edges_of(graph) == {(0, 2): 1.0, (1, 2): 1.0}
    numbered, names = read_edges(write("head,tail\n10,9\n"), range(12))
    assert edges_of(numbered) == {(9, 10): 1.0}
    assert names == [str(i) for i in range(12)]
    # One that is none makes all of them text.
    assert read_edges(write("head,tail\n10,9\n9,x\n"))[1] == ["10", "9", "x"]
    # What looks alike is not the same name.
    assert read_edges(write("head,tail\n1,01\n"))[1] == ["01", "1"]


def test_nodes_without_any_edge(write):
    graph, names = read_edges(write("head,tail\n"), ["a", "b"])
    assert (graph.num_nodes, graph.num_edges, names) == (2, 0, ["a", "b"])


COLUMNS = "head, tail[, weight]"
FORM = f"; its first line must name the columns {COLUMNS} or source, target[, weight], but it is "
FILE_MISTAKES = [
    ("", f" is empty; it must have the columns {COLUMNS}."),
    ("head,weight\n", f" has no column tail{FORM}'head,weight'."),
    ("a;b\nc;d\n", f" has no column head and tail{FORM}'a;b'."),
    ("head,tail,Tail\n", " names the column tail twice; rename one of them."),
    ("head,tail\n", " has no edges; add rows, or give the names of the nodes."),
    (
        "head,tail,weight\na,b,1\n\na,c,much\n",
        ", line 4: weight must be a number, but it is 'much'; repair that row.",
    ),
    *[
        (
            f"head,tail,weight\na,b,{cell}\n",
            f", line 2: weight must be {demand}, but it is {cell!r}; {remedy}.",
        )
        for cell, demand, remedy in (
            ("0", "positive", "remove or repair that row"),
            ("-1", "positive", "remove or repair that row"),
            ("nan", "finite", "repair that row"),
        )
    ],
    ("head,tail\na, \n", ", line 2: tail is missing; fill it in or remove that row."),
    ("head,tail\na,b\nc,c\n", ", line 3: node 'c' is joined to itself; remove that row."),
    (
        "head,tail\na,b\nc,b\nb,a\n",
        ", line 4: nodes 'b' and 'a' are joined in line 2 already; remove one of the two rows.",
    ),
]


@pytest.mark.parametrize(("content", "ending"), FILE_MISTAKES)
def test_mistakes_in_a_file_get_a_sentence(content, ending, write):
    path = write(content)
    with pytest.raises(InputError) as caught:
        read_edges(path)
    assert str(caught.value) == f"{path}{ending}"


@pytest.mark.parametrize(
    ("nodes", "sentence"),
    [
        (["a", "b"], "{path}, line 3: node 'c' is unknown; remove that row."),
        (["a", "b", "c", " a"], "nodes must name each node once, but they repeat ['a']."),
        ([], "{path}, line 2: node 'a' is unknown; remove that row."),
    ],
)
def test_mistakes_in_the_names_get_a_sentence(nodes, sentence, write):
    path = write("head,tail\na,b\nb,c\n")
    with pytest.raises(InputError) as caught:
        read_edges(path, nodes)
    assert str(caught.value) == sentence.format(path=path)


def test_weights_that_vanish_in_the_dtype_get_a_sentence(write):
    with pytest.raises(
        InputError,
        match="weights must be positive and finite, but entry 0 is 0; leave out edges of",
    ):
        read_edges(write("head,tail,weight\na,b,1e-60\n"))
    with jax.enable_x64(True):
        graph, _ = read_edges(write("head,tail,weight\na,b,1e-60\n"))
        np.testing.assert_array_equal(graph.weights, jnp.array([1e-60]))
