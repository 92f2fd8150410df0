"""The graph of the nodes of a user's own network: by likeness of their data, or from a file."""

import os
from dataclasses import dataclass
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import InputError, count
from fedjax_admm._host._tables import edge_header
from fedjax_admm.graphs import (
    Graph,
    gaussian_wasserstein_from_moments,
    nearest_neighbours,
    read_edges,
    threshold as within,
)
from fedjax_admm.trials.tables._observations import Observations

WASSERSTEIN, NEAREST = "wasserstein", "neighbours"  # kinds of graphs that are made here
NEIGHBOURS = 5
MAX_ISOLATED = 0.05  # share of the nodes that a threshold chosen here leaves without neighbours
QUANTILES = (0, 0.01, 0.05, 0.25, 0.5, 1)
"""The shares of pairs at which distances between nodes are reported."""
_LEAST_DISTANCE = 1e-6  # of two nodes, as a share of the median distance
_ROUNDING = 1e-13  # of a distance, as a share of a row's squared length


@dataclass(frozen=True)
class NodeGraph:
    """A graph of the nodes, and how it was made."""

    graph: Graph
    made: str  # in words
    threshold: float | None = None
    quantiles: np.ndarray | None = None  # of the distances at QUANTILES, where a threshold was
    # chosen here
    ignored: tuple[str, ...] = ()  # other columns of the file of edges

    @property
    def isolated(self) -> np.ndarray:
        """Return which nodes have no neighbour, shape (nodes,)."""
        return np.asarray(self.graph.isolated)

    @property
    def num_edges(self) -> int:
        """Return the number of edges that are there."""
        return int(np.count_nonzero(self.graph.weights))


def build_graph(
    observations: Observations,
    graph: str = WASSERSTEIN,
    threshold: float | None = None,
    neighbours: int | None = None,
) -> NodeGraph:
    """Build the graph of the nodes.

    Distances are squared 2-Wasserstein distances between normal distributions fitted to all rows
    of a node, its features (without the intercept) and its target, in the columns' own units.

    Args:
      observations: of the nodes.
      graph: "wasserstein" joins nodes at a distance of at most `threshold`, "neighbours" joins a
        node to its nearest ones; both with weight 1 / distance. Else the path of a CSV file
        head,tail[,weight] with names of nodes.
      threshold: the smallest one that leaves at most 5 % of the nodes without neighbours if None.
      neighbours: 5 if None.

    """
    names = observations.nodes
    for argument, value, kind in (
        ("threshold", threshold, WASSERSTEIN),
        ("neighbours", neighbours, NEAREST),
    ):
        if value is not None and graph != kind:
            told = f"goes with {{graph}} {kind} only; leave it out"
            raise InputError(told, argument=argument, value=value, others=["graph"])
    if graph not in (WASSERSTEIN, NEAREST):
        return _graph_of_file(graph, names)
    distances = node_distances(observations)
    if graph == NEAREST:
        k = NEIGHBOURS if neighbours is None else neighbours
        k = count("neighbours", k, at_most=len(names) - 1)
        near = nearest_neighbours(distances, k, weight=jnp.reciprocal)
        return NodeGraph(near, f"{k} nearest neighbours by squared Wasserstein distance")
    between = distances[np.triu_indices(len(names), 1)]
    quantiles = None
    if threshold is None:
        quantiles = np.quantile(between, QUANTILES)
        threshold = _linking_threshold(distances)
    elif not threshold >= between.min():
        told = f"{threshold:g} leaves no edge: distances between nodes go from {between.min():.4g} "
        told += f"to {between.max():.4g}, with median {np.median(between):.4g}"
        about = {"argument": "threshold", "value": threshold}
        raise InputError(told, remedy="choose a larger one", **about)
    joined = within(distances, threshold)
    made = f"squared Wasserstein distance at most {threshold:.4g}"
    return NodeGraph(joined, made, threshold, quantiles)


def _graph_of_file(path: str, names: tuple[str, ...]) -> NodeGraph:
    if not os.path.exists(path):
        told = f"must be {WASSERSTEIN}, {NEAREST} or a file of edges, but {path!r} is none of them"
        raise InputError(told, argument="graph", value=path, remedy="check the name")
    network = read_node_graph(path, names)
    if network.num_edges == 0:
        raise InputError(f"{path} joins no nodes; it must have a line head,tail per edge.")
    return network


def read_node_graph(path: str | Path, names: tuple[str, ...]) -> NodeGraph:
    """Read the graph of the nodes with some names from a file of edges."""
    graph, _ = read_edges(path, nodes=names)
    header, columns = edge_header(path)
    return NodeGraph(graph, f"edges of {Path(path).name}", ignored=header.others(columns))


def node_distances(observations: Observations) -> np.ndarray:
    """Return the squared 2-Wasserstein distances of the nodes' rows, shape (nodes, nodes).

    Nodes that are more alike than a millionth of the median distance count as that far apart, so
    that 1 / distance is finite.
    """
    samples = [
        np.column_stack([x[:, :-1], y])
        for x, y in zip(observations.features, observations.targets, strict=True)
    ]
    means = np.stack([rows.mean(0) for rows in samples])
    covariances = np.stack([np.cov(rows.T) for rows in samples])
    distances = np.asarray(gaussian_wasserstein_from_moments(means, covariances))
    different = ~np.eye(len(distances), dtype=bool)
    median = np.median(distances[different])
    if not median > _ROUNDING * np.median([np.square(rows).sum(1).mean() for rows in samples]):
        raise InputError(
            "half of the nodes or more are at distance 0 from each other; check {node}, or give "
            "the edges in a file with {graph}.",
            others=["node", "graph"],
        )
    return np.where(different, np.maximum(distances, _LEAST_DISTANCE * median), 0)


def _linking_threshold(distances: np.ndarray) -> float:
    """Return the smallest threshold that leaves at most `MAX_ISOLATED` of the nodes alone."""
    others = distances + np.diag(np.full(len(distances), np.inf))
    nearest = np.sort(others.min(1))
    return float(nearest[len(nearest) - 1 - int(MAX_ISOLATED * len(nearest))])
