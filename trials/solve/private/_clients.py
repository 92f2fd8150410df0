"""The samples and the graph of `solve private`: clients' rows of a CSV file, who talks to whom."""

import math
import re
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm.graphs import components, connected_graph
from fedjax_admm.trials.solve.private._settings import PrivateSettings
from fedjax_admm.trials.tables._node_graphs import NodeGraph, read_node_graph
from fedjax_admm.trials.tables._observations import Observations

DEFAULT_DEGREE, GRAPH_SEED = 3.0, 2025


def read_clients(path: Path, settings: PrivateSettings) -> Observations:
    """Read the samples of every client, one per row; the label 0 becomes -1 for a logistic loss."""
    words = {"owner": "client", "purpose": "the regression needs"}
    found = settings.rows(path, settings.edges, node=settings.client, at_least=1, **words)
    if found.absent:
        first, *rest = found.absent
        others = f" (and {len(rest)} more like it)" if rest else ""
        told = f"{path}: client {first!r}{others} has no complete row"
        raise InputError(told, remedy="fill in its values or remove its rows")
    labels = np.unique(np.concatenate(found.targets))
    if settings.loss != "logistic" or np.isin(labels, [-1, 1]).all():
        return found
    if not np.isin(labels, [0, 1]).all():
        wrong = next(label for label in labels if label not in (0, 1))
        told = f"logistic needs targets 0 and 1, or -1 and 1, but column {settings.target} of "
        told += f"{path} also holds {wrong:g}; take another {{loss}} or {{target}}"
        raise settings.mistake(told, "loss")
    return replace(found, targets=tuple(2 * targets - 1 for targets in found.targets))


def samples_per_row(observations: Observations) -> int:
    """Return of how many samples one row of the file may be a part.

    A row gives a sample its target, and with lags its values are features of later samples too.
    What is protected is one sample; s samples of one client have s^2 times the budget.
    """
    if not observations.rows["without_past"]:
        return 1
    found = (re.search(r"\[-(\d+)\]$", name) for name in observations.columns)
    return 1 + len({lag[1] for lag in found if lag})


def build_client_graph(clients: tuple[str, ...], settings: PrivateSettings) -> NodeGraph:
    """Read the graph of the clients from `settings.edges`, or draw one that is connected.

    A drawn one has the larger of 3 and log(clients) neighbours in the mean, and at most
    clients - 1. The graph is public, and so is the seed of the draw.
    """
    number, edges = len(clients), settings.edges
    if edges is not None:
        found = read_node_graph(edges, clients)
        lost = np.flatnonzero(np.asarray(components(found.graph)))
        if lost.size:
            told = f"{edges} must connect all clients, but no path of edges leads from "
            raise InputError(f"{told}{clients[0]!r} to {clients[lost[0]]!r}; add edges")
        return found
    degree = min(max(DEFAULT_DEGREE, math.log(number)), number - 1.0)
    num_edges = max(round(degree * number / 2), number - 1)
    graph = connected_graph(jax.random.key(GRAPH_SEED), number, num_edges)
    return NodeGraph(graph, f"drawn, mean degree {2 * num_edges / number:.3g}, seed {GRAPH_SEED}")
