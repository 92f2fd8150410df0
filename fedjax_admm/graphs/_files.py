"""Graphs from elsewhere: CSV files and networkx.

graph, names = read_edges("roads.csv")         columns head, tail[, weight]
from_networkx(networkx.karate_club_graph())
"""

import re
from collections import Counter
from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_admm._checks import InputError, refuse
from fedjax_admm._host._tables import Table, edge_header, read_table
from fedjax_admm.graphs._graph import Graph, from_edges


def from_networkx(graph: Any, weight: str | None = "weight") -> Graph:
    """Build a graph from one of networkx.

    Nodes are numbered in the order of `graph.nodes`, which is the order in which they were added:
    row i of the data belongs to `list(graph.nodes)[i]`.

    Args:
      graph: a `networkx.Graph`, or whatever has its methods.
      weight: the edge attribute that holds the weights; an edge without it has weight 1. All
        weights are 1 if None.
    """
    told, remedy = "must be undirected, but it is directed", "convert it with graph.to_undirected()"
    refuse(graph.is_directed(), "graph", told, remedy=remedy)
    told = "must have one edge per pair of nodes, but it is a multigraph"
    refuse(graph.is_multigraph(), "graph", told, remedy="add up parallel edges in a networkx.Graph")
    number = {node: i for i, node in enumerate(graph.nodes)}
    ends, weights = [], []
    for head, tail, attributes in graph.edges(data=True):
        value = attributes.get(weight, 1) if weight else 1
        fits = isinstance(value, Real) and 0 < float(value) < np.inf
        told = f"the attribute {weight!r} of edge {head!r}, {tail!r} must be a positive number"
        refuse(not fits, None, told, value)
        ends.append((number[head], number[tail]))
        weights.append(float(value))
    return from_edges(len(number), ends, weights)


def read_edges(path: str | Path, nodes: Sequence[Any] | None = None) -> tuple[Graph, list[str]]:
    """Read a table with the columns head, tail[, weight]: one row per edge.

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
      InputError: a column is missing, a name is missing or unknown, a weight is not a positive
        number, or an edge is named twice or joins a node to itself; the sentence names the line.
    """
    header, columns = edge_header(path)
    table = read_table(header, columns)
    heads, tails = (table.texts(column, complete=True).tolist() for column in columns[:2])
    weights = table.numbers(columns[2:], complete=True, positive=True)
    names = _names(path, nodes, [*heads, *tails])
    edges = _numbered(table, list(zip(heads, tails, strict=True)), names)
    return from_edges(len(names), edges, weights[:, 0] if columns[2:] else None), names


def _names(path: str | Path, nodes: Sequence[Any] | None, ends: list[str]) -> list[str]:
    """Return the names of all nodes in the order of the data."""
    if nodes is None:
        remedy = "add rows, or give the names of the nodes"
        refuse(not ends, None, f"{path} has no edges", remedy=remedy)
        whole = all(re.fullmatch(r"[+-]?[0-9]+", name) for name in ends)
        return sorted(set(ends), key=lambda name: (int(name) if whole else 0, name))
    names = [str(node).strip() for node in nodes]
    twice = [name for name, times in Counter(names).items() if times > 1]
    refuse(twice, "nodes", f"must name each node once, but they repeat {twice[:1]}")
    return names


def _numbered(
    table: Table, edges: list[tuple[str, str]], names: list[str]
) -> list[tuple[int, int]]:
    """Turn names into numbers."""
    number = {name: i for i, name in enumerate(names)}
    first: dict[frozenset[str], int] = {}
    for row, (head, tail) in enumerate(edges):
        before = first.setdefault(frozenset((head, tail)), row)
        unknown = [name for name in (head, tail) if name not in number]
        if not unknown and head != tail and before == row:
            continue  # sentences are written of wrong rows alone: a file may have millions
        place, remedy = table.place(row), "remove that row"
        told = f"{place}: node {', '.join(map(repr, unknown[:1]))} is unknown"
        refuse(unknown, None, told, remedy=remedy)
        told = f"{place}: node {head!r} is joined to itself"
        refuse(head == tail, None, told, remedy=remedy)
        again = table.place(before).rpartition(", ")[2]
        told = f"{place}: nodes {head!r} and {tail!r} are joined in {again} already"
        raise InputError(told, remedy="remove one of the two rows")
    return [(number[head], number[tail]) for head, tail in edges]
