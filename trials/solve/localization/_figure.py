"""The figures of a location, sensors with their ranges, and of a path with its ellipses."""

from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from matplotlib.ticker import MaxNLocator

from fedjax_admm._drawings import COLOURS
from fedjax_admm.trials.solve._style import BLACK, BLUE, GREY, RED, add_grid, drawn
from fedjax_admm.trials.solve.localization._fit import Location
from fedjax_admm.trials.solve.localization._path import LEVEL, LocatedPath

_ELLIPSES = 60  # that are drawn, evenly in time
_SPARSE = 0.5  # share of rows without a true place beyond which true places are dots


def draw_location(location: Location, title: str) -> Figure:
    """Draw sensors, range circles and the estimate: the plane, or two cross-sections of space.

    In three dimensions each panel is the plane through the estimate; a sensor's circle is where
    its range sphere meets that plane, so good ranges pass through the estimate.
    """
    ranges = location.ranges
    planes = [(0, 1)] if len(ranges.axes) == 2 else [(0, 1), (0, 2)]
    figure = Figure(figsize=(6.4 * len(planes), 6.6), layout="constrained")
    for axes, plane in zip(figure.subplots(1, len(planes), squeeze=False)[0], planes, strict=True):
        _draw_plane(axes, location, plane)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    where = coordinates(ranges.axes, location.position)
    figure.suptitle(f"{drawn(title)}: {len(ranges.distances)} sensors\nestimate {where} m")
    return figure


def _draw_plane(axes: Axes, location: Location, plane: tuple[int, int]) -> None:
    ranges, bad = location.ranges, location.outliers
    others = [axis for axis in range(ranges.anchors.shape[1]) if axis not in plane]
    height = np.square(ranges.anchors[:, others] - location.position[others]).sum(1)
    radius = np.sqrt(np.maximum(np.square(ranges.distances) - height, 0))
    places = ranges.anchors[:, plane]
    for place, size, outlier in zip(places, radius, bad, strict=True):
        look = {"linestyle": "--", "edgecolor": RED} if outlier else {"edgecolor": BLUE}
        width = 0.9 if outlier else 0.7
        axes.add_patch(Circle(place, size, fill=False, alpha=0.7, linewidth=width, **look))
    for chosen, marker, colour, label in (
        (~bad, "o", BLUE, "sensor and range"),
        (bad, "x", RED, "suspected outlier (dashed)"),
    ):
        if chosen.any():
            axes.scatter(*places[chosen].T, marker=marker, c=colour, label=label)
    stars = [(location.position, "black", "estimate")]
    if location.mirror is not None:
        stars.append((location.mirror, "white", "mirror image, fits as well"))
    for depth, (place, colour, label) in enumerate(stars):
        look = {"marker": "*", "s": 220, "edgecolors": "black", "zorder": 6 - depth}
        axes.scatter(*place[[*plane]], c=colour, label=label, **look)
    # Outlying circles may be huge: the view is a square that holds the sensors and the estimate.
    shown = np.vstack([ranges.anchors, *(place[None] for place, *_ in stars)])
    middle, extent = (shown.max(0) + shown.min(0)) / 2, np.ptp(shown, axis=0).max()
    across, up = np.stack([middle - 0.6 * extent, middle + 0.6 * extent], 1)[[*plane]]
    names = [f"{ranges.axes[axis]} (m)" for axis in plane]
    axes.set(xlim=across, ylim=up, aspect="equal", xlabel=names[0], ylabel=names[1])
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.ticklabel_format(useOffset=False, style="plain")
    add_grid(axes)


def coordinates(names: tuple[str, ...], position: np.ndarray) -> str:
    """Return "x = 1.0000, y = 2.0000"."""
    return ", ".join(f"{name} = {value:.4f}" for name, value in zip(names, position, strict=True))


def draw_path(found: LocatedPath, title: str) -> Figure:
    """Draw the path in the plane with 90 % ellipses, and residuals over time by anchor."""
    figure = Figure(figsize=(12.4, 6.6), layout="constrained")
    across, over = figure.subplots(1, 2)
    _draw_map(across, found)
    _draw_residuals(over, found)
    look = {
        "loc": "outside lower center",
        "frameon": False,
        "fontsize": "small",
        "markerscale": 1.5,
    }
    known = {}
    for axes in (across, over):
        handles, labels = axes.get_legend_handles_labels()
        known |= dict(zip(labels, handles, strict=True))
    columns = min(8, len(known))
    look |= {"loc": "outside lower center", "ncols": columns}
    figure.legend(known.values(), known.keys(), **look)
    figure.suptitle(f"{drawn(title)}: {len(found.log.ranges)} ranges")
    return figure


def _draw_map(axes: Axes, found: LocatedPath) -> None:
    log, places = found.log, np.asarray(found.path.positions)
    if found.truth is not None:
        gaps = np.isnan(found.truth).any(1).mean() > _SPARSE  # a line needs neighbours
        look = {"linestyle": "none", "marker": ".", "markersize": 2} if gaps else {}
        look = {"linestyle": "--", "linewidth": 1} | look
        axes.plot(*found.truth.T[:2], color=GREY, label="true path", **look)
    axes.plot(*places.T[:2], color=BLUE, linewidth=0.9, label="path", zorder=3)
    row = np.unique(np.linspace(0, len(places) - 1, _ELLIPSES).astype(int))
    found.region(row).plot(axes=axes, edgecolors=BLACK)
    axes.plot([], [], "o", markerfacecolor="none", color=BLACK, label=f"{LEVEL:.0%} ellipses")
    for each, (name, place) in enumerate(zip(log.names, log.anchors, strict=True)):
        look = {"marker": "^", "s": 36, "zorder": 5, "color": _colour(each)}
        axes.scatter(*place[:2], label="anchor" if each == 0 else None, **look)
        axes.annotate(drawn(name, 12), place[:2], xytext=(5, 5), textcoords="offset points")
    if found.rejected.any():
        lost = places[found.rejected].T[:2]
        look = {"marker": "x", "color": RED, "s": 8, "linewidths": 0.6, "alpha": 0.6, "zorder": 2}
        axes.scatter(*lost, label="range rejected", **look)
    axes.set(aspect="equal", xlabel="x (m)", ylabel="y (m)")
    axes.ticklabel_format(useOffset=False, style="plain")
    add_grid(axes)


def _draw_residuals(axes: Axes, found: LocatedPath) -> None:
    log, residuals = found.log, np.asarray(found.path.residuals)
    since = log.times - log.times[0]
    for each, name in enumerate(log.names):
        own = (log.anchor == each) & ~found.rejected
        look = {"markersize": 2, "color": _colour(each)}
        axes.plot(since[own], residuals[own], ".", label=drawn(name, 12), **look)
    out = found.rejected
    if out.any():
        look = {"color": RED, "markersize": 3, "markeredgewidth": 0.6, "label": "range rejected"}
        axes.plot(since[out], residuals[out], "x", **look)
    limit = 8 * float(found.path.noise)
    if np.abs(residuals).max() > limit:
        axes.set_yscale("symlog", linthresh=limit)
    axes.set(xlabel="time since the first range (s)", ylabel="range minus model (m)")
    add_grid(axes)


def _colour(anchor: int) -> Any:
    """Return the colour of an anchor in both panels."""
    return COLOURS[anchor] if anchor < len(COLOURS) else colormaps["tab20"](anchor % 20)
