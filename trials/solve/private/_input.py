"""The samples and the graph of `solve private`: clients' rows of a CSV file, who talks to whom."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import numpy as np

from fedjax_admm._checks import InputError, count
from fedjax_admm.graphs import Graph, components, connected_graph, read_edges
from fedjax_admm.trials.tables import Observations, read_observations

DEFAULT_DEGREE, GRAPH_SEED = 3.0, 2025
_MOST_ISOLATED = 5.0  # expected number of nodes without edges in a draw: 150 draws are needed then


@dataclass(frozen=True)
class ClientGraph:
    """The graph of the clients, and how it was made."""

    graph: Graph
    made: str  # in words


def read_clients(
    path: Path,
    *,
    client: str,
    target: str,
    features: str,
    time: str | None = None,
    intercept: bool = True,
    loss: str = "squared",
) -> Observations:
    """Read the samples of every client, as `read_observations` reads those of nodes.

    Args:
      path: a CSV file with one row per sample.
      client: the column that says whose row it is.
      target: the column that is predicted.
      features: columns separated by commas; `name[-1]` is the value in the client's row before.
      time: the column that orders a client's rows.
      intercept: append the constant feature 1.
      loss: "logistic" needs targets 0 and 1, or -1 and 1; 0 becomes -1.

    Returns:
      The samples.

    Raises:
      InputError: as `read_observations`; or a client has no complete row, or a target is no label.
    """
    try:
        found = read_observations(
            path,
            node=client,
            target=target,
            features=features,
            time=time,
            intercept=intercept,
            at_least=1,
        )
    except InputError as error:
        raise InputError(reworded(str(error), _CLIENTS_NOT_NODES)) from None
    if found.absent:
        first, *rest = found.absent
        others = f" (and {len(rest)} more like it)" if rest else ""
        raise InputError(
            f"{path}: client {first!r}{others} has no complete row; fill in its values "
            "or remove its rows."
        )
    if loss != "logistic":
        return found
    labels = np.unique(np.concatenate(found.targets))
    if np.isin(labels, [-1, 1]).all():
        return found
    if not np.isin(labels, [0, 1]).all():
        wrong = next(label for label in labels if label not in (0, 1))
        raise InputError(
            f"--loss logistic needs targets 0 and 1, or -1 and 1, but column {target} of {path} "
            f"also holds {wrong:g}; take another --loss or --target."
        )
    return replace(found, targets=tuple(2 * targets - 1 for targets in found.targets))


def samples_per_row(observations: Observations) -> int:
    """Return of how many samples one row of the file may be a part.

    A row gives a sample its target, and with lags its values are features of later samples too.
    What is protected is one sample; s samples of one client have s^2 times the budget.
    """
    if not observations.rows_without_past:
        return 1
    found = (re.search(r"\[-(\d+)\]$", name) for name in observations.columns)
    return 1 + len({lag[1] for lag in found if lag})


def build_client_graph(
    clients: tuple[str, ...],
    edges: Path | None = None,
    *,
    degree: float | None = None,
    seed: int | None = None,
) -> ClientGraph:
    """Read the graph of the clients, or draw one that is connected.

    Args:
      clients: names.
      edges: a CSV file head,tail; a graph is drawn if None.
      degree: mean number of neighbours where it is drawn; the larger of 3 and log(clients) if
        None, and at most clients - 1.
      seed: of the draw, 2025 if None. The graph is public, and so is the seed.

    Returns:
      The graph.

    Raises:
      InputError: the file is malformed or does not connect all clients, or no graph with that mean
        degree can be drawn.
    """
    number = len(clients)
    if edges is not None:
        if degree is not None or seed is not None:
            given = "degree" if degree is not None else "graph-seed"
            raise InputError(f"--{given} is for graphs that are drawn; leave it or --edges out.")
        graph = read_edges(edges, nodes=clients)[0]
        lost = np.flatnonzero(np.asarray(components(graph)))
        if lost.size:
            raise InputError(
                f"{edges} must connect all clients, but no path of edges leads from "
                f"{clients[0]!r} to {clients[lost[0]]!r}; add edges."
            )
        return ClientGraph(graph, f"edges of {Path(edges).name}")
    seed = count(
        "--graph-seed", GRAPH_SEED if seed is None else seed, at_least=0, at_most=2**32 - 1
    )
    if degree is None:
        degree = min(max(DEFAULT_DEGREE, math.log(number)), number - 1.0)
    least = max(2 * (number - 1) / number, math.log(number / _MOST_ISOLATED))
    if not least - 1e-9 <= degree <= number - 1:
        raise InputError(
            f"--degree must be between {math.ceil(100 * least) / 100:g} and {number - 1} for a "
            f"connected graph of {number} clients to be drawn, but it is {degree:g}; or give one "
            "with --edges."
        )
    num_edges = max(round(degree * number / 2), number - 1)
    graph = connected_graph(jax.random.key(seed), number, num_edges)
    return ClientGraph(graph, f"drawn, mean degree {2 * num_edges / number:.3g}, seed {seed}")


def reworded(sentence: str, words: Mapping[str, str]) -> str:
    """Return another module's sentence in the words of this command: pattern -> instead."""
    for pattern, instead in words.items():
        sentence = re.sub(pattern, instead, sentence)
    return sentence


# What the reader of nodes calls otherwise.
_CLIENTS_NOT_NODES = {
    r"\bone node only\b": "one client only",
    r"\bper node and time\b": "per client and time",
    r"\bnode (?=')": "client ",
    r"\bremove the node\b": "remove the client",
    r"\btraining and validation need\b": "the regression needs",
}
