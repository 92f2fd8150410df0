"""How the figures of all families look."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from fedjax_admm._drawings import COLOURS

BLUE, RED, GREEN, PURPLE, ORANGE, BLACK, SKY = COLOURS
GREY = "#8C8C8C"
FIRST: dict[str, Any] = {"color": BLUE, "linestyle": "-", "marker": "o"}
SECOND: dict[str, Any] = {"color": RED, "linestyle": "--", "marker": "s"}
LEVEL: dict[str, Any] = {"color": BLACK, "linestyle": ":", "linewidth": 1.6}


def drawn(text: str, longest: int = 100) -> str:
    r"""Return a text with users' names as it is drawn: no mathematics, no line longer than some."""
    lines = text.split("\n")
    short = (line if len(line) <= longest else f"{line[: longest - 3]}..." for line in lines)
    return "\n".join(short).replace("$", r"\$")


def add_grid(*panels: Axes, **more: Any) -> None:
    """Draw thin lines at the ticks."""
    for axes in panels:
        axes.grid(True, linewidth=0.4, **{"alpha": 0.6, **more})


def make_logarithmic(axes: Axes) -> None:
    """Make the vertical axis logarithmic, with plain numbers, if anything positive is drawn."""
    if any((np.asarray(line.get_ydata(), float) > 0).any() for line in axes.lines):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
