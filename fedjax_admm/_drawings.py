"""Colours of figures, and layouts of graphs and trees."""

from collections.abc import Sequence

import numpy as np

# Hues of Okabe and Ito's palette, darker. Each has a contrast of 3 to 1 with white. Any two differ
# in grey, and for readers without red, green or blue cones (tests/trials/figures).
COLOURS = ("#274671", "#A33400", "#24A877", "#A9628A", "#C6730C", "#000000", "#0A71AF")
DENSE = 1500  # nodes of a component whose eigenvectors are those of a dense matrix
_SWEEPS = 300  # of simultaneous iteration for larger ones


def graph_positions(
    heads: np.ndarray, tails: np.ndarray, weights: np.ndarray, num_nodes: int
) -> np.ndarray:
    """Return positions at which neighbours are close, components side by side.

    In a component, the coordinates are the eigenvectors of the second and third smallest
    eigenvalue of the normalised Laplacian `L = I - D^(-1/2) A D^(-1/2)`, over the square roots of
    the degrees; the mean with their ranks spreads tight groups. Nodes without neighbours are in
    rows below.

    Args:
      heads: shape (edges,), int.
      tails: shape (edges,), int.
      weights: shape (edges,), floating; 0 for an edge that is absent.
      num_nodes: the number of nodes.

    Returns:
      Shape (num_nodes, 2), float64.
    """
    present = weights != 0
    heads, tails, weights = heads[present], tails[present], weights[present]
    labels = components(heads, tails, num_nodes)
    names, sizes = np.unique(labels, return_counts=True)
    places = np.zeros((num_nodes, 2))
    corner, shelf, width = np.zeros(2), 0.0, 1.6 * np.sqrt(sizes[sizes > 1].sum())
    for name in names[np.argsort(-sizes, kind="stable")][: np.sum(sizes > 1)]:
        members = np.flatnonzero(labels == name)
        side = np.sqrt(len(members))
        if corner[0] > 0 and corner[0] + side > width:
            corner, shelf = np.array([0.0, corner[1] - 1.2 * shelf]), 0.0
        shelf = shelf or side
        inside = labels[heads] == name
        local = np.searchsorted(members, np.stack([heads[inside], tails[inside]]))
        places[members] = corner + side * (_spectral(len(members), local, weights[inside]) - [0, 1])
        corner[0] += 1.2 * side
    alone = np.flatnonzero(np.isin(labels, names[sizes == 1]))
    row, column = np.divmod(np.arange(len(alone)), max(int(width), 10))
    places[alone] = np.stack([column, places[:, 1].min() - 1.5 - row], axis=1)
    return places


def components(heads: np.ndarray, tails: np.ndarray, num_nodes: int) -> np.ndarray:
    """Return the number of every node's component, shape (num_nodes,), from 0 by smallest node."""
    from scipy.sparse import coo_array  # takes a while
    from scipy.sparse.csgraph import connected_components

    edges = coo_array((np.ones(len(heads)), (heads, tails)), (num_nodes, num_nodes))
    return connected_components(edges, directed=False)[1]


def _spectral(size: int, edges: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return positions of a connected graph in the unit square; edges have the shape (2, edges)."""
    if size == 2:
        return np.array([[0.2, 0.5], [0.8, 0.5]])
    scale = 1 / np.sqrt(np.bincount(edges.ravel(), np.tile(weights, 2), size))
    if size <= DENSE:
        adjacency = np.zeros((size, size))
        np.add.at(adjacency, (*edges,), weights)
        adjacency = (adjacency + adjacency.T) * scale[:, None] * scale
        vectors = np.linalg.eigh(np.eye(size) - adjacency)[1][:, 1:3]
    else:
        vectors = _iterated(size, edges, weights, scale)
    vectors = vectors * scale[:, None] * np.where(vectors[0] < 0, -1, 1)
    spread = np.ptp(vectors, axis=0)
    ranks = vectors.argsort(0, kind="stable").argsort(0) / (size - 1)
    return ((vectors - vectors.min(0)) / np.where(spread > 0, spread, 1) + ranks) / 2


def _iterated(size: int, edges: np.ndarray, weights: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return two vectors near the eigenvectors, shape (size, 2), without a square matrix."""
    vectors = np.random.default_rng(0).standard_normal((size, 3))
    vectors[:, 0] = 1 / scale
    for _ in range(_SWEEPS):
        vectors = np.linalg.qr(vectors)[0]
        scaled = (vectors * scale[:, None])[edges[::-1].ravel()] * np.tile(weights, 2)[:, None]
        summed = np.stack([np.bincount(edges.ravel(), part, size) for part in scaled.T], axis=1)
        vectors = vectors + summed * scale[:, None]
    return np.linalg.qr(vectors)[0][:, 1:]


def tree_positions(
    client_parents: np.ndarray, server_parents: Sequence[np.ndarray], level_sizes: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return places of the nodes of a tree, and its links.

    Clients stand along the bottom, in the order of their servers; a server stands in the middle of
    its children.

    Args:
      client_parents: shape (clients,), int: the server above each client.
      server_parents: one per level from 1, shape (servers,): place within the level above.
      level_sizes: servers per level, the root first.

    Returns:
      Places, shape (servers + clients, 2), servers first, and pairs (node, parent),
      shape (links, 2), int.
    """
    begins = np.concatenate([[0], np.cumsum(level_sizes)]).astype(int)
    servers = int(begins[-1])
    parents = np.full(servers, -1)
    level = np.repeat(np.arange(len(level_sizes)), level_sizes)
    for depth, places in enumerate(server_parents, 1):
        parents[begins[depth] : begins[depth + 1]] = begins[depth - 1] + np.asarray(places)
    ancestors = [np.asarray(client_parents, int)]
    while np.any(parents[ancestors[-1]] >= 0):
        above = parents[ancestors[-1]]
        ancestors.append(np.where(above < 0, ancestors[-1], above))
    clients, order = len(client_parents), np.lexsort(ancestors)
    across = np.zeros(servers + clients)
    across[servers + order] = np.arange(clients)
    above = np.concatenate([parents, ancestors[0]])
    for node in reversed(range(servers)):
        children = np.flatnonzero(above == node)
        across[node] = across[children].mean() if children.size else 0.0
    up = np.concatenate([-level, np.full(clients, -len(level_sizes))])
    nodes = np.flatnonzero(above >= 0)
    return np.stack([across, up], 1), np.stack([nodes, above[nodes]], 1)
