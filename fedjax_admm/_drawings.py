"""Where nodes of graphs and trees stand in a picture, and small pictures as SVG.

The SVG takes the colour of the text around it, so that it reads on light and on dark pages; it
needs nothing but NumPy.
"""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

# Hues of Okabe and Ito's palette, darker: each has a contrast of 3 to 1 with white, and any two are
# told apart in grey, and by readers without red, green or blue cones (tests/trials/figures).
COLOURS = ("#274671", "#A33400", "#24A877", "#A9628A", "#C6730C", "#000000", "#0A71AF")
LARGEST_LAYOUT = 1500  # nodes of a graph whose places are computed: eigenvectors of a dense matrix
_LARGEST_PICTURE, _MOST_LINKS = 400, 3000  # nodes and links in a small picture
_MOST_NUMBERS = 1_000_000  # of runs of which a small picture shows the median
_WIDTH, _HEIGHT, _MARGIN = 320, 160, 8  # pixels


def spectral_positions(
    heads: np.ndarray, tails: np.ndarray, weights: np.ndarray, num_nodes: int
) -> np.ndarray:
    """Return places at which neighbours are near: eigenvectors of the normalised Laplacian.

    `L = I - D^(-1/2) A D^(-1/2)`; the coordinates are those eigenvectors of the second and third
    smallest eigenvalue, over the square roots of the degrees.

    Args:
      heads: shape (edges,), int.
      tails: shape (edges,), int.
      weights: shape (edges,), floating; 0 for an edge that is not there.
      num_nodes: at most `LARGEST_LAYOUT`.

    Returns:
      Shape (num_nodes, 2), float64.
    """
    adjacency = np.zeros((num_nodes, num_nodes))
    np.add.at(adjacency, (heads, tails), weights)
    np.fill_diagonal(adjacency, 0)
    adjacency += adjacency.T
    scale = 1 / np.sqrt(np.maximum(adjacency.sum(1), 1e-12 * max(adjacency.max(initial=0), 1)))
    scale[adjacency.sum(1) == 0] = 0
    vectors = np.linalg.eigh(np.eye(num_nodes) - scale[:, None] * adjacency * scale)[1]
    places = np.zeros((num_nodes, 2))
    found = vectors[:, 1:3] * np.where(scale > 0, scale, 1)[:, None]
    places[:, : found.shape[1]] = found
    return places


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
    path = [tuple(_path(parents, int(server))) for server in client_parents]
    order = np.asarray(sorted(range(len(path)), key=path.__getitem__), int)
    across = np.zeros(servers + len(path))
    across[servers + order] = np.arange(len(path))
    above = np.concatenate([parents, np.asarray(client_parents, int)])
    for node in [*range(servers - 1, -1, -1)]:
        children = np.flatnonzero(above == node)
        across[node] = across[children].mean() if children.size else 0.0
    up = np.concatenate([-level, np.full(len(path), -len(level_sizes))])
    nodes = np.flatnonzero(above >= 0)
    return np.stack([across, up], 1), np.stack([nodes, above[nodes]], 1)


def _path(parents: np.ndarray, server: int) -> list[int]:
    """Return the servers from the root to one of them."""
    way = [server]
    while parents[way[-1]] >= 0:
        way.append(int(parents[way[-1]]))
    return way[::-1]


def curve_svg(x: Any, y: Any, name: str) -> str:
    """Return a curve, logarithmic upwards where all is positive; "" where there is none to draw.

    Args:
      x: shape (..., records): batched runs have the same, and their median is drawn.
      y: shape (..., records).
      name: what the curve shows; it stands above with the first and the last number.
    """
    if np.size(y) > _MOST_NUMBERS:
        return ""
    x, y = np.asarray(x, float), np.asarray(y, float)
    x, y = x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1])
    if x.shape != y.shape or np.any(x != x[0]):
        return ""
    name += " (median)" * (len(x) > 1)
    x, y = x[0], np.ma.median(np.ma.masked_invalid(y), 0).filled(np.nan)
    kept = np.isfinite(y)
    if kept.sum() < 2:
        return ""
    x, y = x[kept], y[kept]
    told = f"{name}: {y[0]:.4g} to {y[-1]:.4g}"
    y = np.log10(y) if np.all(y > 0) else y
    keep = np.unique(np.linspace(0, len(x) - 1, 200).astype(int))
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in _fitted(np.stack([x, y], 1)[keep]))
    line = f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/>'
    text = f'<text x="{_WIDTH - _MARGIN}" y="12" text-anchor="end" font-size="11"'
    return _svg(f'{line}{text} fill="currentColor">{escape(told)}</text>')


def graph_svg(heads: Any, tails: Any, weights: Any, num_nodes: int) -> str:
    """Return a graph, "" where it is too large for a small picture, or where there are several."""
    small = 0 < num_nodes <= _LARGEST_PICTURE and len(heads) <= _MOST_LINKS
    if not small or np.ndim(heads) != 1:
        return ""
    heads, tails, weights = map(np.asarray, (heads, tails, weights))
    there = weights != 0
    known = np.nan_to_num(weights, nan=1.0, posinf=1.0)
    places = spectral_positions(heads, tails, known, num_nodes)
    return _links_svg(places, np.stack([heads[there], tails[there]], 1))


def tree_svg(client_parents: Any, server_parents: Sequence[Any], level_sizes: Sequence[int]) -> str:
    """Return a tree, "" where it is too large for a small picture."""
    if len(client_parents) + sum(level_sizes) > _LARGEST_PICTURE:
        return ""
    parents = [np.asarray(each) for each in server_parents]
    return _links_svg(*tree_positions(np.asarray(client_parents), parents, level_sizes))


def _links_svg(places: np.ndarray, links: np.ndarray) -> str:
    """Return nodes and links."""
    fitted = _fitted(places)
    lines = "".join(
        f"M{fitted[a][0]:.1f} {fitted[a][1]:.1f}L{fitted[b][0]:.1f} {fitted[b][1]:.1f}"
        for a, b in links
    )
    dots = "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2"/>' for a, b in fitted)
    return _svg(
        f'<path d="{lines}" fill="none" stroke="currentColor" stroke-width="0.5" opacity="0.4"/>'
        f'<g fill="currentColor">{dots}</g>'
    )


def _fitted(points: np.ndarray) -> np.ndarray:
    """Return points in pixels, upwards as figures have it."""
    low, size = points.min(0), np.ptp(points, 0)
    share = (points - low) / np.where(size > 0, size, 1)
    share[:, 1] = 1 - share[:, 1]
    return _MARGIN + share * (np.array([_WIDTH, _HEIGHT]) - 2 * _MARGIN)


def _svg(inner: str) -> str:
    """Return a picture of these elements."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{inner}</svg>'
    )
