"""The figure of a path: the map with ellipses, and the residuals of every anchor."""

import numpy as np
from matplotlib.figure import Figure

from fedjax_admm._drawings import COLOURS
from fedjax_admm.trials.solve._style import BLACK, BLUE, GREY, RED, add_grid, drawn
from fedjax_admm.trials.solve.localization._path import LEVEL, LocatedPath

_ELLIPSES = 60  # that are drawn, evenly in time


def draw_path(found: LocatedPath, title: str) -> Figure:
    """Draw the path in the plane with 90 % ellipses, and residuals over time by anchor."""
    figure = Figure(figsize=(12.4, 6.2), layout="constrained")
    across, over = figure.subplots(1, 2)
    _draw_map(across, found)
    _draw_residuals(over, found)
    figure.suptitle(f"{drawn(title)}: {len(found.log.ranges)} ranges")
    return figure


def _draw_map(axes, found: LocatedPath) -> None:
    log, places = found.log, np.asarray(found.path.positions)
    if found.truth is not None:
        axes.plot(*found.truth.T[:2], color=GREY, linestyle="--", linewidth=1, label="true path")
    axes.plot(*places.T[:2], color=BLUE, linewidth=0.9, label="path")
    row = np.unique(np.linspace(0, len(places) - 1, _ELLIPSES).astype(int))
    found.region(row).plot(axes=axes, edgecolors=BLACK)
    axes.plot([], [], "o", markerfacecolor="none", color=BLACK, label=f"{LEVEL:.0%} ellipses")
    axes.scatter(*log.anchors.T[:2], marker="^", s=60, color=BLACK, zorder=5, label="anchor")
    for name, place in zip(log.names, log.anchors, strict=True):
        axes.annotate(drawn(name, 12), place[:2], xytext=(5, 5), textcoords="offset points")
    if found.rejected.any():
        lost = places[found.rejected].T[:2]
        axes.scatter(*lost, marker="x", color=RED, s=25, zorder=4, label="range rejected")
    axes.set(aspect="equal", xlabel="x (m)", ylabel="y (m)")
    axes.ticklabel_format(useOffset=False, style="plain")
    axes.legend(loc="best", fontsize="small")
    add_grid(axes)


def _draw_residuals(axes, found: LocatedPath) -> None:
    log, residuals = found.log, np.asarray(found.path.residuals)
    since = log.times - log.times[0]
    for each, name in enumerate(log.names):
        own = log.anchor == each
        look = {"markersize": 3, "color": COLOURS[each % len(COLOURS)]}
        label = drawn(name, 12) if each < 12 else None
        axes.plot(since[own], residuals[own], ".", label=label, **look)
    out = found.rejected
    if out.any():
        axes.plot(since[out], residuals[out], "x", color=RED, markersize=6, label="rejected")
    limit = 8 * float(found.path.noise)
    if np.abs(residuals).max() > limit:
        axes.set_yscale("symlog", linthresh=limit)
    axes.set(xlabel="time since the first range (s)", ylabel="range minus model (m)")
    axes.legend(loc="best", fontsize="small", markerscale=2)
    add_grid(axes)
