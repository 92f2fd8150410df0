"""The graph itself: edge lists, how they are built, checked, padded and stacked.

Inside a transformation nothing can be refused. What would be an `InputError` outside (more edges
than the list has room for, a negative weight) gives weights NaN there, so that the run counts as
one that failed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.ops import segment_sum
from jax.typing import ArrayLike

from fedjax_admm import kernels
from fedjax_admm._checks import (
    InputError,
    count,
    default_float,
    finite_array,
    instance,
    is_concrete,
    is_real,
    one_line,
    real_array,
    several,
)
from fedjax_admm._plots import LARGEST_PICTURE, picture, plot_graph
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

        Raises:
          InputError: an array has another shape.
        """
        return plot_graph(self, values, positions, axes)

    def _picture(self) -> str:
        """Return a small picture for a notebook, "" for a large graph."""
        if self.num_nodes > LARGEST_PICTURE or self.heads.ndim > 1:
            return ""
        return picture(lambda axes: plot_graph(self, None, None, axes))

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
        return kernels.degrees(self.heads, self.tails, self.num_nodes, self.present)

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

    Raises:
      InputError: an edge is no pair of different nodes or is named twice, a weight is not positive
        and finite, there are not as many weights as edges, or `max_edges` is too small.
    """
    num_nodes = count("num_nodes", num_nodes)
    ends = _pairs(edges)
    outside = np.flatnonzero(((ends < 0) | (ends >= num_nodes)).any(1))
    if outside.size:
        raise InputError(
            f"must join nodes from 0 to {num_nodes - 1}, but edge {outside[0]} is "
            f"{_pair(ends[outside[0]])}",
            argument="edges",
            value=edges,
        )
    loops = np.flatnonzero(ends[:, 0] == ends[:, 1])
    if loops.size:
        raise InputError(
            f"must join different nodes, but edge {loops[0]} is {_pair(ends[loops[0]])}",
            argument="edges",
            value=edges,
            remedy="remove it",
        )
    ends = np.sort(ends, axis=1)
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    ends = ends[order]
    twice = np.flatnonzero((ends[1:] == ends[:-1]).all(1))
    if twice.size:
        head, tail = ends[twice[0]]
        raise InputError(
            f"must name every pair of nodes once, but they join {head} and {tail} twice",
            argument="edges",
            value=edges,
            remedy="keep one of the two edges",
        )
    return _assemble(num_nodes, ends, _edge_weights(weights, ends, order), max_edges)


def pad(graph: Graph, max_edges: int) -> Graph:
    """Fill up the edge list of a graph with absent edges; nothing else changes.

    Raises:
      InputError: `max_edges` is smaller than the length of the list.
    """
    instance("graph", graph, Graph, _GRAPH)
    room = count("max_edges", max_edges, at_least=0) - graph.num_edges
    if room < 0:
        raise InputError(
            f"must be at least {graph.num_edges}, the length of the edge list, but it is "
            f"{max_edges}",
            argument="max_edges",
            value=max_edges,
        )
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

    Raises:
      InputError: there is no graph, or the graphs differ in the number of nodes or in the dtype of
        their weights.
    """
    several("graphs", graphs, "graphs")
    graphs = list(graphs)
    for i, graph in enumerate(graphs):
        instance(f"graphs[{i}]", graph, Graph, _GRAPH)
    if not graphs:
        raise InputError(
            "must hold at least one graph, but it is empty",
            argument="graphs",
            value=graphs,
        )
    for i, graph in enumerate(graphs):
        if graph.num_nodes != graphs[0].num_nodes:
            raise InputError(
                f"must have equally many nodes, but graph 0 has {graphs[0].num_nodes} and graph "
                f"{i} has {graph.num_nodes}",
                argument="graphs",
                value=graphs,
            )
        if graph.weights.dtype != graphs[0].weights.dtype:
            raise InputError(
                f"must have weights of one dtype, but graph 0 has {graphs[0].weights.dtype} and "
                f"graph {i} has {graph.weights.dtype}",
                argument="graphs",
                value=graphs,
            )
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

    Raises:
      InputError: the matrix is not square, symmetric, finite and non-negative with a diagonal of
        zeros, or `max_edges` is too small.
    """
    matrix = symmetric_matrix(name, weights)
    num_nodes = matrix.shape[0]
    if not is_concrete(weights):
        room = num_nodes * (num_nodes - 1) // 2
        room = room if max_edges is None else count("max_edges", max_edges, at_least=0)
        return join_pairs(matrix != 0, jnp.where(matrix < 0, jnp.nan, matrix), room)[0]
    seen = np.asarray(matrix)
    loops = np.flatnonzero(np.diagonal(seen))
    if loops.size:
        raise InputError(
            f"must have a diagonal of zeros, but entry ({loops[0]}, {loops[0]}) is "
            f"{seen[loops[0], loops[0]]:g}",
            argument=name,
            value=matrix,
            remedy="no node is joined to itself",
        )
    ends = np.argwhere(np.triu(seen, 1))
    return _assemble(num_nodes, ends, seen[ends[:, 0], ends[:, 1]], max_edges)


def symmetric_matrix(name: str, value: ArrayLike) -> jax.Array:
    """Turn data into a square float array, symmetric to rounding and without negative entries.

    Args:
      name: what the argument is called, for the message.
      value: shape (n, n); of a traced array only the shape is checked.

    Returns:
      Shape (n, n); a concrete array where `value` is concrete, also inside a transformation.

    Raises:
      InputError: the matrix is not square or is empty; an entry is not finite, is negative, or
        differs from its mirror image by more than 64 rounding errors of the largest entry.
    """
    if not is_concrete(value):
        matrix = finite_array(name, value, (None, None))
    else:
        with jax.ensure_compile_time_eval():
            matrix = finite_array(name, value, (None, None))
    if matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise InputError(
            f"must be a square matrix, but it has shape {matrix.shape}",
            argument=name,
            value=matrix,
        )
    if is_concrete(value):
        seen = np.asarray(matrix)
        tolerance = 64 * np.finfo(seen.dtype).eps * np.max(np.abs(seen))
        for wrong, demand in (
            (seen < 0, "not be negative"),
            (np.abs(seen - seen.T) > tolerance, "be symmetric"),
        ):
            if wrong.any():
                i, j = np.argwhere(wrong)[0]
                mirror = f" and entry ({j}, {i}) is {seen[j, i]:g}" if "symm" in demand else ""
                raise InputError(
                    f"must {demand}, but entry ({i}, {j}) is {seen[i, j]:g}{mirror}",
                    argument=name,
                    value=matrix,
                )
    return matrix


# --- fixed shapes ---


def chain(n: int, weights: ArrayLike | Sequence[float] | None = None) -> Graph:
    """Join every node to the next: 0 - 1 - ... - (n - 1).

    Args:
      n: number of nodes.
      weights: one positive number, or one per edge from the first to the last; 1 if None.

    Raises:
      InputError: `n` is not a positive whole number, a weight is not positive and finite, or there
        are not as many weights as edges.
    """
    nodes = np.arange(count("n", n))
    return from_edges(n, np.stack([nodes[:-1], nodes[1:]], 1), weights)


def star(n: int, weights: ArrayLike | Sequence[float] | None = None) -> Graph:
    """Join node 0 to each of the n - 1 others.

    Args:
      n: number of nodes, the centre included.
      weights: one positive number, or one per edge from node 1 to the last; 1 if None.

    Raises:
      InputError: `n` is not a positive whole number, a weight is not positive and finite, or there
        are not as many weights as edges.
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

    Raises:
      InputError: a number is not a positive whole number, a weight is not positive and finite, or
        there are not as many weights as edges.
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
    found = jnp.sum(upper, dtype=jnp.int32)
    heads, tails = jnp.nonzero(upper, size=max_edges, fill_value=num_nodes - 1)
    values = jnp.where(jnp.arange(max_edges, dtype=jnp.int32) < found, weights[heads, tails], 0)
    values = jnp.where(found <= max_edges, values, jnp.nan)
    return Graph(heads.astype(jnp.int32), tails.astype(jnp.int32), values, num_nodes), found


def check_room(found: int | jax.Array, max_edges: int) -> None:
    """Check that an edge list has room for the edges found; a traced number is not looked at.

    Raises:
      InputError: more edges were found than the list has room for.
    """
    if is_concrete(found) and int(found) > max_edges:
        raise InputError(
            f"must be at least {int(found)}, the number of edges, but it is {max_edges}",
            argument="max_edges",
            value=max_edges,
        )


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
    if not is_concrete(edges):
        raise InputError(
            "must be known before compilation, but they are traced",
            argument="edges",
            value=edges,
            remedy="inside jit build the graph with from_matrix",
        )
    try:
        ends = np.asarray(edges)
    except ValueError:  # a list of parts of different lengths
        ends = np.empty(1)
    if ends.shape in ((0,), (0, 2)):
        return np.zeros((0, 2), np.int64)
    if ends.ndim != 2 or ends.shape[-1] != 2 or not np.issubdtype(ends.dtype, np.integer):
        raise InputError(
            "must be a list of pairs of whole numbers, shape (edges, 2), but it is "
            f"{one_line(edges)}",
            argument="edges",
            value=edges,
        )
    return ends.astype(np.int64)


def _pair(ends: np.ndarray) -> str:
    return f"({int(ends[0])}, {int(ends[1])})"


def _edge_weights(
    weights: ArrayLike | Sequence[float] | None, ends: np.ndarray, order: np.ndarray
) -> jax.Array:
    """Turn a user's weights into an array in the order of the sorted edges."""
    if weights is None:
        return jnp.ones(len(ends), default_float())
    truths = is_concrete(weights) and is_real(weights) and np.asarray(weights).dtype == bool
    if truths or not is_real(weights):
        raise InputError(
            f"must be numbers, but it is {one_line(weights)}", argument="weights", value=weights
        )
    real_array("weights", weights)
    given = getattr(weights, "dtype", None)
    floating = given is not None and jnp.issubdtype(given, jnp.floating)
    try:
        known = floating and given != np.longdouble  # JAX has none
        dtype = jax.dtypes.canonicalize_dtype(given) if known else default_float()
        with np.errstate(all="ignore"):
            kind = jnp if not is_concrete(weights) else np
            values = kind.asarray(weights, dtype)
    except (TypeError, ValueError):
        raise InputError(
            f"must be numbers, but it is {one_line(weights)}",
            argument="weights",
            value=weights,
        ) from None
    if values.shape not in ((), (len(ends),)):
        raise InputError(
            f"must be one number or one per edge, shape ({len(ends)},), but it has shape "
            f"{values.shape}",
            argument="weights",
            value=weights,
        )
    values = kind.broadcast_to(values, len(ends)) if values.ndim == 0 else values[order]
    if is_concrete(weights):
        wrong = np.flatnonzero(~((values > 0) & np.isfinite(values)))
        if wrong.size:
            with np.errstate(over="ignore"):  # of long doubles
                host = np.asarray(weights, np.float64)
            seen = np.broadcast_to(host, len(ends))[order][wrong[0]]
            rounded = f" ({values[wrong[0]]:g} in {values.dtype})" if 0 < seen < np.inf else ""
            raise InputError(
                f"must be positive and finite, but the edge of nodes {ends[wrong[0], 0]} and "
                f"{ends[wrong[0], 1]} has {seen:g}{rounded}",
                argument="weights",
                value=weights,
                remedy="leave out edges of weight zero",
            )
    return jnp.asarray(values)
