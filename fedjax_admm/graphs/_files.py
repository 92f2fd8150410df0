"""Graphs from elsewhere: CSV files, networkx, scipy.

graph, names = read_edges("roads.csv")         columns head, tail[, weight]
from_networkx(networkx.karate_club_graph())
from_scipy(matrix), to_scipy(graph)            sparse symmetric matrices
"""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import InputError, default_float, instance, is_concrete, one_line
from fedjax_admm._host import (
    LARGEST_NUMBER,
    LONGEST_NAME,
    SMALLEST_NUMBER,
    edge_columns,
    read_rows,
)
from fedjax_admm.graphs._graph import Graph, from_edges


def from_networkx(graph: Any, weight: str | None = "weight") -> Graph:
    """Build a graph from one of networkx.

    Nodes are numbered in the order of `graph.nodes`, which is the order in which they were added:
    row i of the data belongs to `list(graph.nodes)[i]`.

    Args:
      graph: a `networkx.Graph`, or whatever has its methods.
      weight: the edge attribute that holds the weights; an edge without it has weight 1. All
        weights are 1 if None.

    Returns:
      The graph.

    Raises:
      InputError: the graph is directed, has parallel edges, has no nodes or joins a node to itself,
        or a weight is not a positive number.
    """
    if not (hasattr(graph, "is_directed") and hasattr(graph, "nodes")):
        told = f"must be a graph of networkx, but it is {one_line(graph)}"
        raise InputError(told, argument="graph", value=graph)
    if graph.is_directed():
        raise InputError(
            "must be undirected, but it is directed",
            argument="graph",
            value=graph,
            remedy="convert it with graph.to_undirected()",
        )
    if graph.is_multigraph():
        raise InputError(
            "must have one edge per pair of nodes, but it is a multigraph",
            argument="graph",
            value=graph,
            remedy="add up parallel edges in a networkx.Graph",
        )
    number = {node: i for i, node in enumerate(graph.nodes)}
    if not number:
        raise InputError(
            "must have at least one node, but it is empty",
            argument="graph",
            value=graph,
        )
    ends, weights = [], []
    for head, tail, value in graph.edges(data=weight, default=1) if weight else _plain(graph):
        if head == tail:
            raise InputError(
                f"must join different nodes, but node {head!r} is joined to itself",
                argument="graph",
                value=graph,
                remedy="remove that edge",
            )
        try:
            weights.append(float(value))
        except (TypeError, ValueError):
            weights.append(np.nan)
        if not 0 < weights[-1] < np.inf:
            raise InputError(
                f"the attribute {weight!r} of edges must be a positive number, but that of "
                f"{head!r} and {tail!r} is {value!r}",
                value=value,
                remedy="leave out edges of weight zero",
            )
        ends.append((number[head], number[tail]))
    return from_edges(len(number), ends, weights)


def from_scipy(matrix: Any) -> Graph:
    """Build a graph from a sparse symmetric matrix of weights, which stays sparse.

    Args:
      matrix: shape (nodes, nodes), in any format of scipy; stored zeros are no edges.

    Returns:
      The graph.

    Raises:
      InputError: the matrix is not sparse or not square; a weight is negative or not finite; the
        diagonal is not zero, or the matrix is not symmetric to rounding.
    """
    if not hasattr(matrix, "tocsr") or len(matrix.shape) != 2:
        raise InputError(
            f"must be a sparse matrix of scipy, but it is {one_line(matrix)}",
            argument="matrix",
            value=matrix,
            remedy="a dense one goes to from_matrix",
        )
    if matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise InputError(
            f"must be square, but it has shape {matrix.shape}",
            argument="matrix",
            value=matrix,
        )
    rows = matrix.tocsr().copy()
    if not np.issubdtype(rows.dtype, np.floating):
        rows = rows.astype(default_float())
    rows.sum_duplicates()
    rows.eliminate_zeros()
    _check_entries(rows.tocoo())
    gap = abs(rows - rows.T).tocoo()
    # Weights are used as floats of JAX, often of 32 bits.
    precision = jnp.finfo(jax.dtypes.canonicalize_dtype(rows.dtype)).eps
    tolerance = 64 * precision * rows.data.max(initial=0)
    wrong = np.flatnonzero(gap.data > tolerance)
    if wrong.size:
        i, j = int(gap.row[wrong[0]]), int(gap.col[wrong[0]])
        raise InputError(
            f"must be symmetric, but entry ({i}, {j}) is {rows[i, j]:g} and entry ({j}, {i}) is "
            f"{rows[j, i]:g}",
            argument="matrix",
            value=matrix,
        )
    entries = rows.tocoo()
    upper = entries.row < entries.col
    ends = np.stack([entries.row[upper], entries.col[upper]], 1)
    return from_edges(matrix.shape[0], ends, entries.data[upper])


def to_scipy(graph: Graph) -> Any:
    """Return the symmetric matrix of a graph's weights as a `scipy.sparse.csr_array`.

    Args:
      graph: one graph, not a stack, outside any transformation.

    Returns:
      Shape (nodes, nodes), without absent edges.

    Raises:
      InputError: the graph is a stack, or is traced.
    """
    from scipy.sparse import coo_array

    instance("graph", graph, Graph, "a graph of fedjax_admm.graphs")
    if not is_concrete(graph) or graph.heads.ndim != 1:
        raise InputError(
            "must be one graph with known edges, but it is traced or a stack",
            argument="graph",
            value=graph,
        )
    present = np.asarray(graph.present)
    heads, tails, weights = (
        np.asarray(part)[present] for part in (graph.heads, graph.tails, graph.weights)
    )
    ends = (np.concatenate([heads, tails]), np.concatenate([tails, heads]))
    shape = (graph.num_nodes, graph.num_nodes)
    return coo_array((np.concatenate([weights, weights]), ends), shape=shape).tocsr()


def read_edges(path: str | Path, nodes: Sequence[Any] | None = None) -> tuple[Graph, list[str]]:
    """Read a CSV file with the columns head, tail[, weight]: one row per edge.

    The ends may be called source and target as well. Names of nodes may be any text; other columns
    are ignored, and spaces around cells too.

    Args:
      path: the file.
      nodes: names in the order of the data's rows; nodes without edges are named here only. If
        None, the names in the file, sorted: as numbers if all of them are whole numbers, else as
        text.

    Returns:
      The graph, of weight 1 where there is no column weight, and the name of every node.

    Raises:
      InputError: the file cannot be read, a column is missing, a name is missing or unknown, a
        weight is not a positive number, or an edge is named twice or joins a node to itself; the
        sentence names the line.
    """
    rows = _rows(path)
    header = rows[0][1]
    place = edge_columns(path, header)
    edges, weights = [], []
    for line, row in rows[1:]:
        if any(cell.strip() for cell in row[len(header) :]):
            raise InputError(
                f"{path}, line {line}: there are {len(row)} cells, but the first line names "
                f"{len(header)} columns",
                value=path,
                remedy="put names with commas in quotes, and write decimal points",
            )
        cells = {name: row[i].strip() if i < len(row) else "" for name, i in place.items()}
        for name, cell in cells.items():
            if not cell:
                raise InputError(
                    f"{path}, line {line}: {name} is missing",
                    value=path,
                    remedy="fill it in or remove that row",
                )
            if len(cell) > LONGEST_NAME:
                raise InputError(
                    f"{path}, line {line}: {name} must have {LONGEST_NAME} characters at most, "
                    f"but it has {len(cell)}",
                    value=path,
                    remedy="repair that row",
                )
        head, tail, *_ = cells.values()
        edges.append((line, head, tail))
        weights.append(_weight(path, line, cells["weight"]) if "weight" in cells else 1.0)
    names = _names(path, nodes, [name for _, *ends in edges for name in ends])
    return from_edges(len(names), _numbered(path, edges, names), weights), names


def _plain(graph: Any) -> list[tuple[Any, Any, int]]:
    return [(head, tail, 1) for head, tail in graph.edges()]


def _check_entries(entries: Any) -> None:
    """Check the stored entries of a sparse matrix one by one."""
    for wrong, demand in (
        (~np.isfinite(entries.data), "be finite"),
        (entries.data < 0, "not be negative"),
        (entries.row == entries.col, "have a diagonal of zeros"),
    ):
        if wrong.any():
            first = np.flatnonzero(wrong)[0]
            raise InputError(
                f"must {demand}, but entry ({entries.row[first]}, {entries.col[first]}) is "
                f"{entries.data[first]:g}",
                argument="matrix",
                value=entries,
            )


def _rows(path: str | Path) -> list[tuple[int, list[str]]]:
    """Read the rows of a CSV file that are not empty, each with its line of the file."""
    rows = read_rows(path)
    if not rows:
        raise InputError(
            f"{path} is empty",
            value=path,
            remedy="it must have the columns head, tail[, weight]",
        )
    return rows


def _weight(path: str | Path, line: int, cell: str) -> float:
    try:
        # Python reads 1_000 as a number; in a file it is a slip.
        value = float(cell.replace("_", "?"))
    except ValueError:
        raise InputError(
            f"{path}, line {line}: weight must be a number, but it is {cell!r:.60}",
            value=path,
            remedy="repair that row",
        ) from None
    if not SMALLEST_NUMBER <= value <= LARGEST_NUMBER:
        told = "positive and finite"
        if 0 < value < np.inf:
            told = f"between {SMALLEST_NUMBER:g} and {LARGEST_NUMBER:g}"
        raise InputError(
            f"{path}, line {line}: weight must be {told}, but it is {cell!r:.60}",
            value=path,
            remedy="remove or repair that row",
        )
    return value


def _names(path: str | Path, nodes: Sequence[Any] | None, found: list[str]) -> list[str]:
    """Return the names of all nodes in the order of the data."""
    if nodes is None:
        if not found:
            raise InputError(
                f"{path} has no edges",
                value=path,
                remedy="add rows, or give the names of the nodes",
            )
        whole = all(re.fullmatch(r"[+-]?[0-9]+", name) for name in found)
        return sorted(set(found), key=lambda name: (int(name) if whole else 0, name))
    names = [str(node).strip() for node in nodes]
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        raise InputError(
            f"must name each node once, but it repeats {twice[0]!r}",
            argument="nodes",
            value=nodes,
        )
    if not names:
        raise InputError(
            "must name at least one node, but it is empty",
            argument="nodes",
            value=nodes,
        )
    return names


def _numbered(
    path: str | Path, edges: list[tuple[int, str, str]], names: list[str]
) -> list[tuple[int, int]]:
    """Turn names into numbers."""
    number = {name: i for i, name in enumerate(names)}
    first: dict[frozenset[str], int] = {}
    for line, head, tail in edges:
        for name in (head, tail):
            if name not in number:
                raise InputError(
                    f"{path}, line {line}: node {name!r} is unknown",
                    value=path,
                    remedy="add it to nodes, or remove that row",
                )
        if head == tail:
            raise InputError(
                f"{path}, line {line}: node {head!r} is joined to itself",
                value=path,
                remedy="remove that row",
            )
        before = first.setdefault(frozenset((head, tail)), line)
        if before != line:
            raise InputError(
                f"{path}, line {line}: nodes {head!r} and {tail!r} are joined in line {before} "
                "already",
                value=path,
                remedy="remove one of the two rows",
            )
    return [(number[head], number[tail]) for _, head, tail in edges]
