"""Legends whose rows are about equally long, and no longer than the figure is wide."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fedjax_admm.trials.figures._looks._measures import POINTS, box, wrap

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

_FILLED = 0.96  # of the width: letters are a little wider at other numbers of dots


def add_legend(
    figure: "Figure",
    handles: Sequence[Any],
    labels: Sequence[str],
    *,
    title: str | None = None,
    size: float = 9.0,
) -> "Legend":
    """Add a legend below all panels, in as few rows as fit the figure's width.

    Args:
      figure: it has the legend then.
      handles: what is drawn.
      labels: what each is called.
      title: above the entries.
      size: of the letters, in points.
    """
    room = _FILLED * POINTS * figure.get_figwidth() - size
    look: dict[str, Any] = {"loc": "outside lower center", "frameon": False, "fontsize": size}
    if room < 3.5 * 2 * POINTS:  # narrow: more fits side by side
        look |= {"columnspacing": 1.2, "handlelength": 2.0, "handletextpad": 0.5}
    *wide, narrow = _arrangements(len(labels))
    for columns in wide:
        legend = figure.legend(handles, labels, ncols=columns, **look)
        if box(figure, legend).width <= room:
            break
        legend.remove()
    else:
        legend = figure.legend(handles, labels, ncols=narrow, **look)
    if title:
        legend.set_title(title)
        legend.get_title().set_fontsize(size)
        legend.get_title().set_multialignment("center")
        wrap(figure, legend.get_title(), room)
    return legend


def _arrangements(entries: int) -> list[int]:
    """Return numbers of columns, the best first: few rows, and no entry alone in the last one."""
    shapes = {math.ceil(entries / rows): rows for rows in range(entries, 0, -1)}

    def cost(columns: int) -> tuple[int, bool]:
        rows = shapes[columns]
        alone = columns > 1 and rows > 1 and entries - columns * (rows - 1) == 1
        return rows + alone, alone

    return [*sorted(shapes, key=cost), 1]
