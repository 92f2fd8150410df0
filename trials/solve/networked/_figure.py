"""The figure of a fitted network: its clusters on a map or a layout, and the comparison."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure

from fedjax_admm.graphs import Graph, components
from fedjax_admm.trials.solve._style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    add_grid,
    drawn,
    make_logarithmic,
)
from fedjax_admm.trials.solve._words import amount
from fedjax_admm.trials.solve.networked._fit import NetworkedFit
from fedjax_admm.trials.tables import Observations

_CLUSTERS = ((BLUE, "o"), (RED, "s"), (GREEN, "^"), (PURPLE, "D"), (ORANGE, "v"), (SKY, "P"))
_SWEEPS = 300  # of simultaneous iteration
RELAXED = 800  # the largest component that is relaxed by forces
_STEPS = 150


def draw_networked(fit: NetworkedFit, title: str) -> Figure:
    """Draw the nodes by cluster on their map, or on a layout of the graph; beside it the errors.

    The largest clusters have a colour and a marker each; nodes that agree with no neighbour are
    grey dots.
    """
    seen, graph = fit.observations, fit.network.graph
    places, aspect, width = seen.coordinates, 1.0, 6.5  # width in inches
    if places is not None:
        # The map is as wide as its nodes ask for, within limits.
        spread = np.maximum(np.ptp(places, axis=0), 1e-300)
        aspect = _aspect(seen)
        width = float(np.clip(5.5 * spread[0] / (aspect * spread[1]), 4.0, 8.0))
    figure = Figure(figsize=(width + 4.6, 7.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(width + 0.8, 3.2))
    if places is None:
        places = layout(graph)
        left.set(xticks=[], yticks=[])
        left.set_title("layout of the graph: neighbours are close", fontsize=10)
    else:
        left.set_aspect(aspect, adjustable="datalim")
        across, up = map(drawn, seen.coordinate_names)
        left.set(xlabel=across, ylabel=up)
        add_grid(left, alpha=0.4)
    _draw_edges(left, graph, places)
    handles = _draw_nodes(left, places, fit)
    _draw_errors(right, fit)
    columns = min(len(handles), 3 if width < 5.5 else 4)
    look = {"loc": "outside lower center", "frameon": False, "fontsize": 9}
    figure.legend(handles=handles, ncols=columns, **look)
    figure.suptitle(drawn(title), fontsize=11)
    return figure


def layout(graph: Graph) -> np.ndarray:
    """Place every component by two eigenvectors of its Laplacian, components side by side.

    The eigenvectors are those of the smallest nontrivial eigenvalues of the normalised Laplacian
    of the unweighted edges. From there, all nodes of a small component repel each other and edges
    pull, so that a tight group does not become one dot. Nodes without neighbours stand in rows
    below. The places have shape (nodes, 2).

    Reference: T. Fruchterman, E. Reingold, "Graph drawing by force-directed placement", Software:
    Practice and Experience 21, 1991 (the forces).
    """
    present = np.asarray(graph.present)
    heads, tails = np.asarray(graph.heads)[present], np.asarray(graph.tails)[present]
    labels = np.asarray(components(replace(graph, weights=jnp.asarray(present, float))))
    names, sizes = np.unique(labels, return_counts=True)
    places = np.zeros((graph.num_nodes, 2))
    corner, shelf, width = np.zeros(2), 0.0, 1.6 * np.sqrt(sizes[sizes > 1].sum())
    for name in names[np.argsort(-sizes, kind="stable")]:
        members = np.flatnonzero(labels == name)
        if len(members) == 1:
            continue
        inside = labels[heads] == name
        local = np.searchsorted(members, np.stack([heads[inside], tails[inside]]))
        side = np.sqrt(len(members))
        if corner[0] > 0 and corner[0] + side > width:
            corner = np.array([0.0, corner[1] - 1.2 * shelf])
            shelf = 0.0
        if shelf == 0:
            shelf = side
        places[members] = corner + side * (_spectral(len(members), local) - [0, 1])
        corner[0] += 1.2 * side
    alone = np.flatnonzero(np.isin(labels, names[sizes == 1]))
    row, column = np.divmod(np.arange(len(alone)), max(int(width), 10))
    places[alone] = np.stack([column, places[:, 1].min() - 1.5 - row], axis=1)
    return places


def _spectral(size: int, edges: np.ndarray) -> np.ndarray:
    """Place a connected graph in the unit square; edges (2, edges)."""
    if size == 2:
        return np.array([[0.2, 0.5], [0.8, 0.5]])
    scale = 1 / np.sqrt(np.bincount(edges.ravel(), minlength=size))
    vectors = _iterated(size, edges, scale) * scale[:, None]
    vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(0), [0, 1]])
    places = _in_unit_square(vectors)
    ranks = vectors.argsort(0, kind="stable").argsort(0) / (size - 1)
    places = (places + ranks) / 2
    return _in_unit_square(_relaxed(places, edges)) if size <= RELAXED else places


def _in_unit_square(places: np.ndarray) -> np.ndarray:
    spread = np.ptp(places, axis=0)
    return (places - places.min(0)) / np.where(spread > 0, spread, 1)


def _relaxed(places: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Move places along the forces length^2 / d between all nodes and d^2 / length on edges."""
    size = len(places)
    length = 1 / np.sqrt(size)
    # All edges together shall not pull more than those of a sparse graph.
    pull = min(1.0, 2 * size / edges.shape[1]) / length
    for step in np.linspace(0.1, 0.002, _STEPS):
        apart = places[:, None] - places[None]
        squared = np.maximum((apart**2).sum(-1, keepdims=True), (1e-3 * length) ** 2)
        force = (apart * (length**2 / squared)).sum(1)
        along = places[edges[0]] - places[edges[1]]
        along = along * np.linalg.norm(along, axis=1, keepdims=True) * pull
        np.subtract.at(force, edges[0], along)
        np.add.at(force, edges[1], along)
        strength = np.maximum(np.linalg.norm(force, axis=1, keepdims=True), 1e-12)
        places = places + force / strength * np.minimum(strength, step)
    return places


def _iterated(size: int, edges: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return two vectors near the wanted eigenvectors, (nodes, 2), without a square matrix."""
    vectors = np.random.default_rng(0).standard_normal((size, 3))
    vectors[:, 0] = 1 / scale
    for _ in range(_SWEEPS):
        vectors = np.linalg.qr(vectors)[0]
        scaled = (vectors * scale[:, None])[edges[::-1].ravel()]
        summed = np.stack([np.bincount(edges.ravel(), part, size) for part in scaled.T], axis=1)
        vectors = vectors + summed * scale[:, None]
    return np.linalg.qr(vectors)[0][:, 1:]


def _aspect(observations: Observations) -> float:
    """Return the aspect of a map in degrees; 1 where the columns are something else."""
    across, up = (name.lower() for name in observations.coordinate_names)
    assert observations.coordinates is not None
    latitude = observations.coordinates[:, 1].mean()
    if across.startswith("lon") and up.startswith("lat") and abs(latitude) < 85:
        return float(1 / np.cos(np.radians(latitude)))
    return 1.0


def _draw_edges(axes: Axes, graph: Graph, places: np.ndarray) -> None:
    present = np.asarray(graph.present)
    heads, tails = np.asarray(graph.heads)[present], np.asarray(graph.tails)[present]
    lines = LineCollection(
        list(np.stack([places[heads], places[tails]], axis=1)),
        colors=GREY,
        linewidths=0.5,
        alpha=float(np.clip(12 / np.sqrt(max(len(heads), 1)), 0.05, 0.7)),
        zorder=1,
        rasterized=len(heads) > 5000,
    )
    axes.add_collection(lines)


def _draw_nodes(axes: Axes, places: np.ndarray, fit: NetworkedFit) -> list[PathCollection]:
    """Draw the nodes and return what the legend shows."""
    sizes = fit.cluster_sizes
    large = min(int((sizes > 1).sum()), len(_CLUSTERS))
    area = float(np.clip(6000 / len(places), 12, 60))
    groups: list[tuple[np.ndarray, str, str, str]] = []
    alone = sizes[fit.cluster - 1] == 1
    rest = (fit.cluster > large) & ~alone
    if alone.any():
        groups.append((alone, GREY, ".", f"agrees with no neighbour ({alone.sum()})"))
    if rest.any():
        number = int((sizes > 1).sum()) - large
        label = f"{amount(number, 'more cluster')} ({rest.sum()} nodes)"
        groups.append((rest, "white", "h", label))
    for number, (colour, marker) in enumerate(_CLUSTERS[:large], start=1):
        label = f"cluster {number} ({sizes[number - 1]} nodes)"
        groups.append((fit.cluster == number, colour, marker, label))
    handles = []
    for depth, (chosen, colour, marker, label) in enumerate(groups):
        edge = "none" if marker == "." else "black"
        look = {"c": colour, "marker": marker, "edgecolors": edge, "linewidths": 0.5, "s": area}
        handles.append(axes.scatter(*places[chosen].T, label=label, zorder=2 + depth, **look))
    return [*handles[len(handles) - large :], *reversed(handles[: len(handles) - large])]


def _draw_errors(axes: Axes, fit: NetworkedFit) -> None:
    """Draw the mean validation errors with their standard deviations, and every split."""
    values = np.stack(list(fit.errors.values()))
    looks = zip(values, (BLACK, ORANGE, BLUE), ("s", "^", "o"), strict=True)
    for at, (each, colour, marker) in enumerate(looks):
        mean, deviation = each.mean(), each.std(ddof=1) if len(each) > 1 else 0.0
        axes.plot(np.full(len(each), at - 0.18), each, "_", color=GREY, markersize=7)
        look = {"color": colour, "marker": marker, "markersize": 8, "capsize": 5}
        axes.errorbar(at, mean, deviation, **look)
        beside = {"xytext": (9, 0), "textcoords": "offset points", "va": "center", "fontsize": 9}
        axes.annotate(f"{mean:.4g}", (at, mean), **beside)
    if values.min() > 0 and values.max() > 20 * values.min():
        make_logarithmic(axes)
    axes.set_xticks(range(len(values)), list(fit.errors))
    axes.set_xlim(-0.5, len(values) - 0.3)
    axes.set_ylabel("validation mean squared error, mean over nodes")
    splits = values.shape[1]
    told = f"mean ± standard deviation\nof {splits} splits (dashes)" if splits > 1 else "one split"
    axes.set_title(told, fontsize=10)
    add_grid(axes, axis="y")
