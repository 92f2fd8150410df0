"""Figures of runs, graphs and trees; matplotlib is imported when one is drawn."""

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_admm._checks import InputError, finite_array, listed
from fedjax_admm._drawings import COLOURS, graph_positions, tree_positions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COUNTS = ("round", "messages")  # of a trace, besides what was measured
_LINES = ("-", "--", ":", "-.")


def plot_trace(
    trace: Mapping[str, Any], metric: str | None, label: str | None, axes: "Axes | None"
) -> "Axes":
    """Draw what a run measured against its rounds; see `Run.plot`."""
    measured = [name for name in trace if name not in _COUNTS]
    metric = next(iter(measured), "") if metric is None else metric
    about: Any = {"argument": "metric", "value": metric}
    if metric not in trace:
        known = f"must be one of what the run measured, {listed(measured) or 'nothing'}"
        raise InputError(known, **about, remedy=None if measured else "give the run a measure")
    rounds, values = (np.asarray(trace[name], np.float64) for name in ("round", metric))
    if values.shape != rounds.shape:
        mistake = f"has the shape {values.shape}, but a curve needs a number per round"
        raise InputError(mistake, **about, remedy="draw the entry that you want from run.trace")
    every = rounds.reshape(-1, rounds.shape[-1])
    x, runs = every[0], values.reshape(every.shape)
    if np.any(every != x):
        raise InputError(
            "cannot be drawn against rounds, for the runs have recorded different ones, as those "
            "of run_until do",
            **about,
            remedy="use to_dataframe(), or run with rounds given",
        )
    axes = _axes(axes)
    finite = np.isfinite(runs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of rounds where no run is finite
        low, middle, high = np.nanquantile(np.where(finite, runs, np.nan), [0.1, 0.5, 0.9], 0)
    lost = np.sum(~finite.all(1))
    median = f"median of what is finite ({lost} of {len(runs)} runs are not)" if lost else "median"
    several, earlier = len(runs) > 1, len(axes.lines)
    colour, line = COLOURS[earlier % len(COLOURS)], _LINES[earlier % len(_LINES)]
    name = (median if several else metric) if label is None else label
    name += f" ({median}, 10 to 90 %)" if several and label is not None else ""
    axes.plot(x, middle, color=colour, linestyle=line, label=name)
    if several:
        band = axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
        band.set_label("10 to 90 %" if label is None else "")
    if several or label is not None:
        axes.legend(frameon=False)
    positive = np.any(finite) and np.all(runs[finite] > 0)
    logarithmic = positive and not (earlier and axes.get_yscale() == "linear")
    axes.set_yscale("log" if logarithmic else "linear")
    axes.set(xlabel="round", ylabel=metric)
    axes.grid(True, linewidth=0.4, alpha=0.6)
    return axes


def plot_graph(graph: Any, values: Any, positions: Any, axes: "Axes | None") -> "Axes":
    """Draw a graph; see `Graph.plot`."""
    heads, tails, weights = (np.asarray(each) for each in (graph.heads, graph.tails, graph.weights))
    number = graph.num_nodes
    if positions is None:
        positions = graph_positions(heads, tails, weights, number)
    positions = finite_array("positions", positions, (number, 2))
    values = None if values is None else finite_array("values", values, (number,))
    axes = _axes(axes)
    from matplotlib.collections import LineCollection

    present = weights != 0
    ends = np.stack([positions[heads[present]], positions[tails[present]]], 1)
    widths = 0.2 + 0.6 * weights[present] / max(np.max(weights[present], initial=0), 1e-300)
    look: Any = {"colors": "0.6", "linewidths": list(widths), "alpha": 0.6, "zorder": 1}
    axes.add_collection(LineCollection(list(ends), **look))
    coloured = {"color": COLOURS[0]} if values is None else {"c": values, "cmap": "viridis"}
    drawn = axes.scatter(*positions.T, s=18, zorder=2, **coloured)
    if values is not None:
        axes.figure.colorbar(drawn, ax=axes)
    axes.set(xticks=[], yticks=[])
    axes.autoscale_view()
    return axes


def plot_tree(tree: Any, axes: "Axes | None") -> "Axes":
    """Draw a tree; see `Tree.plot`."""
    places, links = tree_positions(
        np.asarray(tree.client_parents), [*map(np.asarray, tree.server_parents)], tree.level_sizes
    )
    axes = _axes(axes)
    from matplotlib.collections import LineCollection

    axes.add_collection(LineCollection(list(places[links]), colors="0.6", linewidths=0.7, zorder=1))
    servers = sum(tree.level_sizes)
    parts = {"servers": (places[:servers], "s", 40), "clients": (places[servers:], "o", 12)}
    for colour, (label, (shown, marker, size)) in zip(COLOURS, parts.items(), strict=False):
        axes.scatter(*shown.T, marker=marker, s=size, color=colour, label=label, zorder=2)
    axes.legend(frameon=False)
    axes.set_axis_off()
    axes.autoscale_view()
    return axes


def plot_ellipses(region: Any, axes: "Axes | None", style: Mapping[str, Any]) -> "Axes":
    """Draw elliptical regions on a map; see `Ellipse.plot`.

    The shadow of `(x - c)^T M^{-1} (x - c) <= q` on the first two coordinates has the same q and
    the leading 2 x 2 block of M.
    """
    axes = _axes(axes)
    from matplotlib.collections import EllipseCollection

    centres = np.asarray(region.centre, np.float64)[..., :2].reshape(-1, 2)
    dim = np.shape(region.matrix)[-1]
    matrices = np.asarray(region.matrix, np.float64).reshape(-1, dim, dim)[:, :2, :2]
    squares, directions = np.linalg.eigh(matrices)
    widths = 2 * np.sqrt(squares * np.asarray(region.threshold, np.float64).reshape(-1, 1))
    angles = np.degrees(np.arctan2(directions[:, 1, 1], directions[:, 0, 1]))
    look = {"facecolors": "none", "edgecolors": COLOURS[0], "linewidths": 0.8, **style}
    place: Any = {"units": "xy", "offsets": centres, "offset_transform": axes.transData}
    axes.add_collection(EllipseCollection(widths[:, 1], widths[:, 0], angles, **place, **look))
    reach = widths.max(1)[:, None] / 2
    axes.update_datalim(np.concatenate([centres - reach, centres + reach]))
    axes.autoscale_view()
    return axes


def _axes(axes: "Axes | None") -> "Axes":
    """Return the axes, or new ones, which a notebook shows."""
    if axes is not None:
        return axes
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]
