"""The figure of a location: sensors, their ranges and the estimate."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from matplotlib.ticker import MaxNLocator

from fedjax_admm.trials.solve._style import BLUE, RED, add_grid, drawn
from fedjax_admm.trials.solve.localization._fit import Location


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
