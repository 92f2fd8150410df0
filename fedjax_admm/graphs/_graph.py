"""Graphs as edge lists: building, checking, padding and stacking them.

A transformation can't raise an error for values. Where a concrete call raises `InputError` (more
edges than the list has room for, a negative weight), the weights become NaN, and the run counts as
failed.
"""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.ops import segment_sum
from jax.typing import ArrayLike

from fedjax_admm import kernels
from fedjax_admm._checks import (
    count,
    default_float,
    finite_array,
    instance,
    is_concrete,
    of_shape,
    real_array,
    refuse,
    refuse_entries,
    whole_numbers,
)
from fedjax_admm._plots import plot_graph
from fedjax_admm._pytrees import pytree_dataclass

_GRAPH = "a graph of fedjax_admm.graphs"


@pytree_dataclass
class Graph:
    """An undirected weighted graph; build it with the functions of this module.

    Edges are sorted by head, then tail. Absent ones join the last node to itself, at the end.
    """

    heads: jax.Array  # shape=(edges,), int32, in increasing order: the smaller end of each edge
    tails: jax.Array  # shape=(edges,), int32: the larger end
    weights: jax.Array  # shape=(edges,): A_e > 0, or 0 for an edge that is not there
    num_nodes: int = field(metadata={"static": True})

    spread: ClassVar[tuple[str, ...]] = ("heads", "tails", "weights")

    def plot(self, values: Any = None, *, positions: Any = None, axes: Any = None) -> Any:
        """Draw edges thick by their weights and nodes coloured by values; return matplotlib's Axes.

        Args:
          values: shape (nodes,): what colours the nodes; one colour for all if None.
          positions: shape (nodes, 2); eigenvectors of the Laplacian if None.
          axes: what to draw into; new ones if None.
        """
        return plot_graph(self, values, positions, axes)

    @property
    def num_edges(self) -> int:
        """Return the length of the edge list, absent edges included."""
        return self.heads.shape[-1]

    @property
    def present(self) -> jax.Array:
        """Return which edges are there, shape (edges,), bool; weight NaN is there, and shows."""
        return self.weights != 0

    @property
    def degrees(self) -> jax.Array:
        """Return the number of edges at every node, shape (nodes,), int32."""
        return _degrees(self.heads, self.tails, self.num_nodes, self.present)

    @property
    def mean_degree(self) -> jax.Array:
        """Return the mean number of edges at a node, shape (), in the default float."""
        return jnp.mean(self.degrees.astype(default_float()))

    @property
    def weighted_degrees(self) -> jax.Array:
        """Return the sum of the weights of every node's edges, shape (nodes,)."""
        at_heads = segment_sum(self.weights, self.heads, self.num_nodes, indices_are_sorted=True)
        return at_heads + segment_sum(self.weights, self.tails, self.num_nodes)

    @property
    def isolated(self) -> jax.Array:
        """Return which nodes have no edge, shape (nodes,), bool."""
        return self.degrees == 0

    def difference(self, w: jax.Array) -> jax.Array:
        """Return D w: nodes (nodes, ...) to edges (edges, ...)."""
        return kernels.edge_difference(w, self.heads, self.tails)

    def divergence(self, u: jax.Array) -> jax.Array:
        """Return D^T u: edges (edges, ...) to nodes (nodes, ...)."""
        return kernels.node_divergence(u, self.heads, self.tails, self.num_nodes)


_degrees = jax.jit(kernels.degrees, static_argnums=2, inline=True)


# --- given edges ---


def from_edges(
    num_nodes: int,
    edges: Iterable[Any],
    weights: ArrayLike | Sequence[float] | None = None,
    *,
    max_edges: int | None = None,
) -> Graph:
    """Build a graph from a list of edges.

    Args:
      num_nodes: number of nodes, numbered from 0.
      edges: pairs of nodes, shape (edges, 2), in any order and either way round.
      weights: one positive number, or one per edge, in the order of `edges`; 1 if None. Weights
        may be traced, for derivatives by them; then they cannot be checked.
      max_edges: length of the edge list, filled up with absent edges; the number of edges if None.

    Returns:
      The graph, its edges sorted by head, then tail.
    """
    num_nodes = count("num_nodes", num_nodes)
    ends = _pairs(edges)
    outside = ((ends < 0) | (ends >= num_nodes)).any(1)
    refuse_entries(outside, "edges", f"must join nodes from 0 to {num_nodes - 1}", ends)
    refuse_entries(ends[:, 0] == ends[:, 1], "edges", "must join different nodes", ends)
    ends = np.sort(ends, axis=1)
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    ends = ends[order]
    twice = (ends[1:] == ends[:-1]).all(1)
    repeated = ends[1:][twice].tolist()
    refuse(repeated, "edges", f"must name every pair of nodes once, but they repeat {repeated[:1]}")
    return _assemble(num_nodes, ends, _edge_weights(weights, ends, order), max_edges)


def pad(graph: Graph, max_edges: int) -> Graph:
    """Fill up the edge list of a graph with absent edges; nothing else changes."""
    instance("graph", graph, Graph, _GRAPH)
    room = count("max_edges", max_edges, at_least=0) - graph.num_edges
    told = f"must be at least {graph.num_edges}, the length of the edge list"
    refuse(room < 0, "max_edges", told, max_edges)
    widths = [(0, 0)] * (graph.heads.ndim - 1) + [(0, room)]
    last = graph.num_nodes - 1
    # NumPy where it can be: jnp.pad compiles for every length.
    fill = np.pad if is_concrete(graph) else jnp.pad
    return Graph(
        jnp.asarray(fill(graph.heads, widths, constant_values=last)),
        jnp.asarray(fill(graph.tails, widths, constant_values=last)),
        jnp.asarray(fill(graph.weights, widths)),
        graph.num_nodes,
    )


def stack(graphs: Sequence[Graph]) -> Graph:
    """Put graphs with equally many nodes into one, for `jax.vmap` over its leading axis.

    Args:
      graphs: one or more graphs; shorter edge lists are filled up to the longest.

    Returns:
      A graph whose arrays have shape (graphs, edges).
    """
    graphs = list(graphs)
    numbers = sorted({graph.num_nodes for graph in graphs})
    refuse(len(numbers) != 1, "graphs", f"must have equally many nodes, but they have {numbers}")
    longest = max(graph.num_edges for graph in graphs)
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *(pad(g, longest) for g in graphs))


def from_matrix(
    weights: ArrayLike, *, max_edges: int | None = None, name: str = "weights"
) -> Graph:
    """Build a graph from a symmetric matrix of weights, also inside jit, vmap and grad.

    Args:
      weights: shape (nodes, nodes); entry (i, j) is the weight of the edge of i and j, 0 for none.
        The upper triangle is what counts; the lower one only has to agree with it.
      max_edges: length of the edge list. If None, the number of edges, or n (n - 1) / 2 where
        `weights` is traced.
      name: what the matrix is called in sentences.

    Returns:
      The graph. From a traced matrix, all weights are NaN if there are more than `max_edges` edges,
      and those of negative entries are NaN.
    """
    matrix = symmetric_matrix(name, weights)
    num_nodes = matrix.shape[0]
    if not is_concrete(weights):
        room = num_nodes * (num_nodes - 1) // 2
        room = room if max_edges is None else count("max_edges", max_edges, at_least=0)
        return join_pairs(matrix != 0, jnp.where(matrix < 0, jnp.nan, matrix), room)[0]
    host = np.asarray(matrix)
    loops = np.diag(np.diagonal(host))
    refuse_entries(loops != 0, name, "must have a diagonal of zeros", host)
    ends = np.argwhere(np.triu(host, 1))
    return _assemble(num_nodes, ends, host[ends[:, 0], ends[:, 1]], max_edges)


def symmetric_matrix(name: str, value: ArrayLike) -> jax.Array:
    """Turn data into a square float array, symmetric to rounding and without negative entries.

    Args:
      name: what the argument is called, for the message.
      value: shape (n, n); of a traced array only the shape is checked.

    Returns:
      Shape (n, n); a concrete array where `value` is concrete, also inside a transformation.
    """
    with jax.ensure_compile_time_eval() if is_concrete(value) else nullcontext():
        matrix = finite_array(name, value, (None, None))
    square = matrix.size and matrix.shape[0] == matrix.shape[1]
    refuse(not square, name, f"must be a square matrix, but it has shape {matrix.shape}")
    if is_concrete(value):
        host = np.asarray(matrix)
        tolerance = 64 * np.finfo(host.dtype).eps * np.max(np.abs(host))
        refuse_entries(host < 0, name, "must not be negative", host)
        refuse_entries(np.abs(host - host.T) > tolerance, name, "must be symmetric", host)
    return matrix


# --- fixed shapes ---


def chain(n: int, weights: ArrayLike | Sequence[float] | None = None) -> Graph:
    """Join every node to the next: 0 - 1 - ... - (n - 1).

    Args:
      n: number of nodes.
      weights: one positive number, or one per edge from the first to the last; 1 if None.
    """
    nodes = np.arange(count("n", n))
    return from_edges(n, np.stack([nodes[:-1], nodes[1:]], 1), weights)


def star(n: int, weights: ArrayLike | Sequence[float] | None = None) -> Graph:
    """Join node 0 to each of the n - 1 others.

    Args:
      n: number of nodes, the centre included.
      weights: one positive number, or one per edge from node 1 to the last; 1 if None.
    """
    others = np.arange(1, count("n", n))
    return from_edges(n, np.stack([np.zeros_like(others), others], 1), weights)


def grid(rows: int, columns: int, weights: ArrayLike | Sequence[float] | None = None) -> Graph:
    """Join every node of a rectangle to those beside, above and below it.

    Args:
      rows: number of rows.
      columns: number of columns; node `row * columns + column` stands at (row, column).
      weights: one positive number, or one per edge: node by node, first the edge to the right,
        then the one below; 1 if None.
    """
    nodes = np.arange(count("rows", rows) * count("columns", columns)).reshape(rows, columns)
    right = np.stack([nodes[:, :-1].ravel(), nodes[:, 1:].ravel()], 1)
    below = np.stack([nodes[:-1].ravel(), nodes[1:].ravel()], 1)
    ends = np.concatenate([right, below])
    return from_edges(nodes.size, ends[np.lexsort((ends[:, 1], ends[:, 0]))], weights)


# --- how graphs are put together ---


def join_pairs(joined: jax.Array, weights: jax.Array, max_edges: int) -> tuple[Graph, jax.Array]:
    """Build the graph of the upper triangle of a mask, traceable.

    Args:
      joined: which nodes are joined, shape (nodes, nodes), bool.
      weights: shape (nodes, nodes).
      max_edges: length of the edge list.

    Returns:
      The graph, its weights NaN if there are too many edges, and the number of edges.
    """
    num_nodes = joined.shape[0]
    upper = jnp.triu(joined, 1)
    edges = jnp.sum(upper, dtype=jnp.int32)
    heads, tails = jnp.nonzero(upper, size=max_edges, fill_value=num_nodes - 1)
    values = jnp.where(jnp.arange(max_edges, dtype=jnp.int32) < edges, weights[heads, tails], 0)
    values = jnp.where(edges <= max_edges, values, jnp.nan)
    return Graph(heads.astype(jnp.int32), tails.astype(jnp.int32), values, num_nodes), edges


def check_room(edges: int | jax.Array, max_edges: int) -> None:
    """Check that an edge list has room for so many edges, where their number is not traced."""
    if is_concrete(edges):
        told = f"must be at least {int(edges)}, the number of edges"
        refuse(int(edges) > max_edges, "max_edges", told, max_edges)


def _assemble(num_nodes: int, ends: np.ndarray, weights: ArrayLike, max_edges: int | None) -> Graph:
    """Build the graph of sorted edges, shape (edges, 2), and fill up its list."""
    graph = Graph(
        jnp.asarray(ends[:, 0], jnp.int32),
        jnp.asarray(ends[:, 1], jnp.int32),
        jnp.asarray(weights),
        num_nodes,
    )
    if max_edges is None:
        return graph
    check_room(len(ends), count("max_edges", max_edges, at_least=0))
    return pad(graph, max_edges)


def _pairs(edges: Iterable[Any]) -> np.ndarray:
    """Turn a user's list of edges into whole numbers, shape (edges, 2)."""
    if not isinstance(edges, str) and not hasattr(edges, "shape") and isinstance(edges, Iterable):
        edges = list(edges)
    told = "must be known before compilation, but they are traced"
    remedy = "inside jit build the graph with from_matrix"
    refuse(not is_concrete(edges), "edges", told, remedy=remedy)
    ends = np.asarray(edges)
    if ends.shape in ((0,), (0, 2)):
        return np.zeros((0, 2), np.int64)
    whole_numbers("edges", ends, (None, 2), at_least=None)
    return ends.astype(np.int64)


def _edge_weights(
    weights: ArrayLike | Sequence[float] | None, ends: np.ndarray, order: np.ndarray
) -> jax.Array:
    """Turn a user's weights into an array in the order of the sorted edges."""
    if weights is None:
        return jnp.ones(len(ends), default_float())
    concrete = is_concrete(weights)
    real_array("weights", weights)
    dtype = getattr(weights, "dtype", None)
    floating = dtype is not None and jnp.issubdtype(dtype, jnp.floating)
    floating = floating and dtype != np.longdouble  # JAX has none
    kind, dtype = (
        np if concrete else jnp,
        jax.dtypes.canonicalize_dtype(dtype if floating else float),
    )
    with np.errstate(all="ignore"):
        values = kind.asarray(weights, dtype)
    of_shape("weights", values, (), (len(ends),))
    if concrete:
        wrong = ~((values > 0) & np.isfinite(values))
        told, remedy = "must be positive and finite", "leave out edges of weight zero"
        refuse_entries(wrong, "weights", told, values, remedy)
    values = kind.broadcast_to(values, len(ends)) if values.ndim == 0 else values[order]
    return jnp.asarray(values)
