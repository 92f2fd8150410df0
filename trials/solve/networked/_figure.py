"""The figure of a fitted network: its clusters on a map or a layout, and the comparison."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure

from fedjax_admm._drawings import COLOURS, graph_positions
from fedjax_admm.graphs import Graph
from fedjax_admm.trials.solve._style import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    add_grid,
    drawn,
    make_logarithmic,
)
from fedjax_admm.trials.solve._words import amount
from fedjax_admm.trials.solve.networked._fit import NetworkedFit
from fedjax_admm.trials.tables._observations import Observations

_CLUSTERS = [(COLOURS[k], marker) for k, marker in zip((0, 1, 2, 3, 4, 6), "os^DvP", strict=True)]


def draw_networked(fit: NetworkedFit, title: str) -> Figure:
    """Draw the nodes by cluster on their map, or on a layout of the graph; beside it the errors.

    The largest clusters have a colour and a marker each; nodes that agree with no neighbour are
    grey dots.
    """
    seen, graph = fit.observations, fit.network.graph
    places, width = seen.coordinates, 6.5  # width in inches
    aspect = 1.0
    if places is not None:
        # The map is as wide as its nodes ask for, within limits.
        spread, aspect = np.maximum(np.ptp(places, axis=0), 1e-300), _aspect(seen)
        width = float(np.clip(5.5 * spread[0] / (aspect * spread[1]), 4.0, 8.0))
    figure = Figure(figsize=(width + 4.6, 7.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(width + 0.8, 3.2))
    if places is None:
        ends = np.asarray(graph.heads), np.asarray(graph.tails)
        places = graph_positions(*ends, np.asarray(graph.present, float), graph.num_nodes)
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
    look = {"ncols": min(len(handles), 3 if width < 5.5 else 4), "frameon": False, "fontsize": 9}
    figure.legend(handles=handles, loc="outside lower center", **look)
    figure.suptitle(drawn(title), fontsize=11)
    return figure


def _aspect(observations: Observations) -> float:
    """Return the aspect of a map in degrees; 1 where the columns are something else."""
    across, up = (name.lower() for name in observations.coordinate_names)
    assert observations.coordinates is not None
    latitude = observations.coordinates[:, 1].mean()
    degrees = across.startswith("lon") and up.startswith("lat") and abs(latitude) < 85
    return float(1 / np.cos(np.radians(latitude))) if degrees else 1.0


def _draw_edges(axes: Axes, graph: Graph, places: np.ndarray) -> None:
    present = np.asarray(graph.present)
    ends = places[np.stack([graph.heads, graph.tails], axis=1)[present]]
    alpha = float(np.clip(12 / np.sqrt(max(len(ends), 1)), 0.05, 0.7))
    look = {"colors": GREY, "linewidths": 0.5, "alpha": alpha, "rasterized": len(ends) > 5000}
    axes.add_collection(LineCollection(list(ends), zorder=1, **look))


def _draw_nodes(axes: Axes, places: np.ndarray, fit: NetworkedFit) -> list[PathCollection]:
    """Draw the nodes and return what the legend shows."""
    sizes, cluster = fit.cluster_sizes, fit.cluster
    number = int((sizes > 1).sum())
    large, alone = min(number, len(_CLUSTERS)), sizes[cluster - 1] == 1
    rest = (cluster > large) & ~alone
    more = f"{amount(number - large, 'more cluster')} ({rest.sum()} nodes)"
    others = {
        f"agrees with no neighbour ({alone.sum()})": (alone, GREY, "."),
        more: (rest, "white", "h"),
    }
    named = {
        f"cluster {place} ({size} nodes)": (cluster == place, *look)
        for place, (size, look) in enumerate(zip(sizes, _CLUSTERS[:large], strict=False), 1)
    }
    area, handles = float(np.clip(6000 / len(places), 12, 60)), []
    groups = {label: group for label, group in (others | named).items() if group[0].any()}
    for depth, (label, (chosen, colour, marker)) in enumerate(groups.items()):
        edge = "none" if marker == "." else "black"
        look = {"c": colour, "marker": marker, "edgecolors": edge, "linewidths": 0.5, "s": area}
        handles.append(axes.scatter(*places[chosen].T, label=label, zorder=2 + depth, **look))
    first = len(handles) - large
    return [*handles[first:], *reversed(handles[:first])]


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
