"""Where parts of a figure stand: panels in rows, shared labels, legends below; a style's width.

Matplotlib's constrained layout gives every part its place. What is decided here is how many panels
stand side by side, how tall they are, and where lines of text are broken.
"""

import math
import textwrap
from collections.abc import Mapping
from itertools import product
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

from fedjax_admm.trials.figures._choices import FigureStyle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_POINTS = 72  # in an inch
_USUAL = 10.0  # points: the letters for which figures are drawn
_SMALL, _SMALLEST = 0.875, 6.0  # of ticks and legends, to the letters of labels; points
# All in letters' heights: the mean width of a letter, the least width of a panel, heights of panels
# and of maps without their labels, a line of text, ticks and gaps, a row with a name.
_LETTER, _NARROW, _LOWEST, _HIGHEST, _TALLEST = 0.58, 19.0, 7.5, 14.0, 30.0
_LINE, _AROUND, _NAME = 1.4, 3.5, 1.4
_HANDLE = 5.2  # what a legend shows beside a name
_SHAPE = 0.6  # height of a panel to its width


def panels_of(figure: "Figure") -> "list[Axes]":
    """Return the panels of a figure in the order in which they are read."""
    placed = [axes for axes in figure.axes if axes.get_subplotspec() is not None]
    return sorted(placed, key=_place)


def letters_of(panels: int) -> list[str]:
    """Return what panels are called: a to z, then aa, ab, ..."""
    pairs = map("".join, product(ascii_lowercase, repeat=2))
    return [*ascii_lowercase, *pairs][:panels]


def shape_around(axes: "Axes") -> tuple[int, int]:
    """Return how many rows and columns the grid of a panel has."""
    spec: Any = axes.get_subplotspec()
    return spec.get_gridspec().get_geometry()


def _place(axes: "Axes") -> tuple[int, int]:
    spec: Any = axes.get_subplotspec()
    return spec.rowspan.start, spec.colspan.start


def hide_shared(figure: "Figure") -> None:
    """Hide a label that the panel on the left or below has too, and the ticks of a shared axis."""
    placed = {_place(axes): axes for axes in panels_of(figure)}
    for (row, column), axes in placed.items():
        near: Any = {("y", "left"): (row, column - 1), ("x", "bottom"): (row + 1, column)}
        for (name, side), place in near.items():
            other, label = placed.get(place, axes), getattr(axes, f"{name}axis").label
            its = getattr(other, f"{name}axis").label
            label.set_visible(other is axes or its.get_text() != label.get_text())
            joined = getattr(axes, f"get_shared_{name}_axes")().joined(axes, other)
            axes.tick_params(name, which="both", **{f"label{side}": other is axes or not joined})


def add_legend(
    figure: "Figure", shown: Mapping[str, Any], title: str = "", size: float = 9.0
) -> int:
    """Add a legend below all panels, in as few rows of equal length as fit the figure's width.

    Args:
      figure: it has the legend then.
      shown: names, and what each is called.
      title: above the entries.
      size: of the letters, in points.

    Returns:
      The number of lines.
    """
    room = _POINTS * figure.get_figwidth() / size
    fitting = int(room / (_LETTER * max(map(len, shown)) + _HANDLE))
    rows = math.ceil(len(shown) / max(fitting, 1))
    heading = wrapped(title, room)
    place: Any = {"loc": "outside lower center", "ncols": math.ceil(len(shown) / rows)}
    look: Any = {"fontsize": size, "title_fontsize": size, "title": heading or None}
    handles, names = list(shown.values()), list(shown)
    legend = figure.legend(handles, names, frameon=False, **place, **look)
    legend.get_title().set_multialignment("center")
    return rows + (heading.count("\n") + 1 if heading else 0)


def wrapped(text: str, room: float) -> str:
    """Return a text whose lines fit into the room of so many letters' heights; formulas stay."""
    letters = max(int(room / _LETTER), 8)
    whole: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    return "\n".join(
        line if "$" in line.replace(r"\$", "") else textwrap.fill(line, letters, **whole)
        for line in text.split("\n")
    )


def restyle(figure: "Figure", style: FigureStyle) -> None:
    """Give a figure a style; one without a width leaves it as it is.

    Panels stand in as many columns as the width holds, and the figure is as tall as they need.
    """
    if style.width is None:
        return
    figure.set_layout_engine("constrained")
    _resize(figure, style.letters)
    panels, room, lines = panels_of(figure), _POINTS * style.width / style.letters, 0
    if words := figure.get_suptitle():
        title = wrapped(words, room) if style.titled else ""
        figure.suptitle(title, fontsize=style.letters)
        lines += title.count("\n") + 2 if title else 0
    columns = _stack(figure, panels, room)
    names = letters_of(len(panels)) if style.lettered and len(panels) > 1 else []
    for letter, axes in zip(names, panels, strict=False):
        axes.set_title(f"({letter}) {axes.get_title()}", fontsize=style.letters)
    heights = [_fit(axes, room / columns) for axes in panels]
    figure.set_figwidth(style.width)
    for legend in list(figure.legends):
        texts = [text.get_text() for text in legend.get_texts()]
        shown = dict(zip(texts, legend.legend_handles, strict=True))
        heading = legend.get_title().get_text().replace("\n", " ")
        legend.remove()
        lines += 1 + add_legend(figure, shown, heading, max(_SMALL * style.letters, _SMALLEST))
    tall = sum(max(heights[i : i + columns]) for i in range(0, len(panels), columns))
    page = _POINTS * style.height / style.letters - _LINE * lines
    tall = max(min(tall, page), 0.7 * tall) or _HIGHEST  # lower panels rather than a taller page
    figure.set_figheight((tall + _LINE * lines) * style.letters / _POINTS)


def _resize(figure: "Figure", letters: float) -> None:
    """Scale letters, lines and markers."""
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

    scale = letters / _USUAL
    for axes in figure.axes:
        axes.tick_params(which="both", labelsize=max(_SMALL * letters, _SMALLEST))
    for each in figure.findobj():
        if isinstance(each, Text):
            each.set_fontsize(min(max(scale * float(each.get_fontsize()), _SMALLEST), letters))
        elif isinstance(each, Line2D):
            each.set_linewidth(scale * each.get_linewidth())
            each.set_markersize(scale * each.get_markersize())


def _stack(figure: "Figure", panels: "list[Axes]", room: float) -> int:
    """Lay the panels into as many columns as there is room for; return how many those are."""
    from matplotlib.gridspec import GridSpec

    if not panels:
        return 1
    asked = shape_around(panels[0])[1]
    names = [len(name) for axes in panels for name in _names(axes)]
    fitting = int((room - _LETTER * max(names, default=0)) / _NARROW)
    columns = min(asked, max(fitting, 1))
    if columns < asked:
        grid = GridSpec(math.ceil(len(panels) / columns), columns, figure=figure)
        for i, axes in enumerate(panels):
            axes.set_subplotspec(grid[divmod(i, columns)])
        hide_shared(figure)
    return columns


def _names(axes: "Axes") -> list[str]:
    """Return the names that rows have in the place of numbers."""
    names = [each.get_text() for each in axes.get_yticklabels()]
    return [name for name in names if any(map(str.isalpha, name)) and "$" not in name]


def _fit(axes: "Axes", width: float) -> float:
    """Break the lines of a panel of a width; return its height with them, in letters' heights."""
    from matplotlib.ticker import FixedFormatter

    if axes.get_aspect() == "auto":
        height = max(min(max(_SHAPE * width, _LOWEST), _HIGHEST), _NAME * len(_names(axes)))
    else:  # a map
        height = min(width, _TALLEST)
    inside = width - 3 - _LETTER * max(map(len, _names(axes)), default=0)
    axes.set_title(wrapped(axes.get_title(), inside), fontsize=axes.title.get_fontsize())
    axes.set_xlabel(wrapped(axes.get_xlabel(), inside))
    axes.set_ylabel(wrapped(" ".join(axes.get_ylabel().split("\n")), height + 3))
    if isinstance(axes.xaxis.get_major_formatter(), FixedFormatter):
        texts = [each.get_text() for each in axes.get_xticklabels()]
        every = math.ceil(_LETTER * sum(len(text) + 2 for text in texts) / max(width - 5, 1))
        kept = [text if i % max(every, 1) == 0 else "" for i, text in enumerate(texts)]
        axes.set_xticks(axes.get_xticks(), kept)
    words = [text for text in (axes.get_title(), axes.get_xlabel()) if text]
    return height + _AROUND + _LINE * sum(text.count("\n") + 1 for text in words)
