"""Names of lines at their right ends, in place of a legend, which do not touch each other."""

from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_admm.trials.figures._looks._legends import add_legend
from fedjax_admm.trials.figures._looks._measures import POINTS, any_letters

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation

_END = "end"  # marks the names at ends among other texts
_BESIDE = 1.03  # where names begin, as a share of the panel's width
_APART = 1.15  # heights of letters between the middles of names


def label_ends(axes: "Axes", *, size: float = 9.0) -> None:
    """Write the name of every line beside its right end; call it once all lines are drawn.

    Args:
      axes: with its lines and scales.
      size: of the letters, in points.
    """
    for line in axes.lines:
        name = str(line.get_label())
        if name.startswith("_"):
            continue
        x, y = (np.asarray(data, float) for data in (line.get_xdata(), line.get_ydata()))
        shown = np.isfinite(x) & np.isfinite(y) & ((y > 0) | (axes.get_yscale() != "log"))
        look: dict[str, Any] = {"fontsize": size, "color": line.get_color(), "va": "center"}
        look |= {"textcoords": "axes fraction", "annotation_clip": False, "gid": _END}
        if np.any(shown):
            last = np.flatnonzero(shown)[-1]
            ends = (float(x[last]), float(y[last]))
            level = line.get_transform() != axes.transData  # its x counts widths of the panel
            where: Any = axes.get_yaxis_transform() if level else "data"
            tie = {"arrowstyle": "-", "color": line.get_color(), "linewidth": 0.5}
            tie |= {"shrinkA": 0, "shrinkB": 2, "relpos": (0, 0.5)}
            axes.annotate(name, ends, (_BESIDE, 0.5), xycoords=where, arrowprops=tie, **look)
        else:
            axes.annotate(f"{name}: none", (1, 0), (_BESIDE, 0), xycoords="axes fraction", **look)


def names_at_ends(axes: "Axes") -> "list[Annotation]":
    """Return the names beside the ends of the lines of axes."""
    return [text for text in axes.texts if text.get_gid() == _END]  # type: ignore[misc]


def spread_ends(figure: "Figure") -> None:
    """Move names up or down until no two touch, as little as possible, and inside their panels.

    The heights p_1 <= p_2 <= ... minimise the sum of (p_i - t_i)^2 subject to p_(i+1) - p_i >= h
    and the ends of the panel, t_i being those of the lines: the isotonic regression of t_i - i h.
    """
    labelled = {axes: names_at_ends(axes) for axes in figure.axes}
    if not any(labelled.values()):
        return
    with any_letters():
        figure.draw_without_rendering()
    for axes, names in labelled.items():
        panel = axes.get_window_extent()
        if not names or panel.height <= 0:
            continue
        places = [axes.transData.transform((1, name.xy[1]))[1] for name in names]
        targets = (np.array(places) - panel.y0) / panel.height
        targets = np.where([name.xycoords == "axes fraction" for name in names], 0, targets)
        inches = panel.height / figure.dpi
        height = _APART * float(names[0].get_fontsize()) / POINTS / inches
        for name, place in zip(names, spread(targets, height), strict=True):
            name.set_position((_BESIDE, place))


def spread(targets: np.ndarray, height: float) -> np.ndarray:
    """Return places in [0, 1] near the targets, each at least `height` from the others.

    Where they do not all fit they go on above 1.
    """
    order = np.argsort(targets, kind="stable")
    steps = height * np.arange(len(order))
    places = _isotonic(targets[order] - steps)
    places = np.clip(places, 0, max(0.0, 1 - steps[-1])) + steps
    return places[np.argsort(order)]


def _isotonic(values: np.ndarray) -> np.ndarray:
    """Return the nearest numbers that do not decrease: neighbours that do are averaged."""
    means: list[float] = []
    counts: list[int] = []
    for value in values:
        means.append(float(value))
        counts.append(1)
        while len(means) > 1 and means[-2] >= means[-1]:
            count = counts[-2] + counts[-1]
            means[-2:] = [(counts[-2] * means[-2] + counts[-1] * means[-1]) / count]
            counts[-2:] = [count]
    return np.repeat(means, counts)


def ends_to_legend(figure: "Figure") -> None:
    """Put a legend in the place of names at ends, where a style leaves little room beside."""
    shown = {
        str(line.get_label()): line
        for axes in figure.axes
        if names_at_ends(axes)
        for line in axes.lines
        if not str(line.get_label()).startswith("_")
    }
    for axes in figure.axes:
        for name in names_at_ends(axes):
            name.remove()
    if shown:
        add_legend(figure, list(shown.values()), list(shown))
