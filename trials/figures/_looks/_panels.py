"""Panels side by side: as many as a width holds, those of a wider figure in more rows."""

import math
from typing import TYPE_CHECKING, Any

from fedjax_admm.trials.figures._looks._choices import FigureStyle
from fedjax_admm.trials.figures._looks._measures import POINTS, box, whole_box

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHAPE = 0.6  # height of a panel to its width, labels included there
# All in letters' heights.
_USUAL, _NARROWEST = 20.0, 14.0  # widths of a panel with its labels
_LOWEST, _HIGHEST = 7.5, 14.0  # heights of a panel without its labels
_AROUND = 5.0  # heights of a panel's title and labels, before they are measured
_GAP = 0.8  # between panels
_NAME = 1.4  # height of a row with a name


def panels_of(figure: "Figure") -> "list[Axes]":
    """Return the panels of a figure in the order in which they are read."""
    placed = [axes for axes in figure.axes if axes.get_subplotspec() is not None]
    return sorted(placed, key=_place)


def _place(axes: "Axes") -> tuple[int, int]:
    spec: Any = axes.get_subplotspec()
    return spec.rowspan.start, spec.colspan.start


def arrange(figure: "Figure", style: FigureStyle) -> None:
    """Lay the panels into as many columns as the style's width holds.

    A row that is broken has its labels at every panel again, where the one beside it has others.
    """
    panels, grid = panels_of(figure), _grid(figure)
    if grid is not None:
        width = POINTS * float(style.width or figure.get_figwidth())
        columns = _columns(panels, grid.ncols, width, style)
        if columns < grid.ncols:
            _flow(figure, panels, columns)


def _grid(figure: "Figure") -> Any:
    """Return the grid of all panels; None where there are none, or several grids."""
    specs: list[Any] = [axes.get_subplotspec() for axes in panels_of(figure)]
    grids = {id(spec.get_gridspec()): spec.get_gridspec() for spec in specs}
    return next(iter(grids.values())) if len(grids) == 1 else None


def row_heights(figure: "Figure", style: FigureStyle) -> list[float]:
    """Return the heights of the rows of panels with all that is written around them, in points.

    The rows of the grid have them then. Without one grid of all panels there are none.
    """
    grid = _grid(figure)
    if grid is None:
        return []
    width = POINTS * figure.get_figwidth() / grid.ncols
    heights: dict[int, float] = {}
    for axes in panels_of(figure):
        written = whole_box(figure, axes).height - box(figure, axes).height
        row = _place(axes)[0]
        height = _inside(axes, width, style) + written + _GAP * style.letters
        heights[row] = max(heights.get(row, 0), height)
    rows = [heights[row] for row in sorted(heights)]
    if len(rows) == grid.nrows:
        grid.set_height_ratios(rows)
    return rows


def _columns(panels: "list[Axes]", asked: int, width: float, style: FigureStyle) -> int:
    """Return how many panels lie side by side: rather few, unless the figure grows too tall."""
    usual, most = (
        max(1, math.floor(width / style.letters / each)) for each in (_USUAL, _NARROWEST)
    )
    if asked <= usual:
        return asked

    def fits(columns: int) -> bool:
        rows = [panels[i : i + columns] for i in range(0, len(panels), columns)]
        inside = (max(_inside(axes, width / columns, style) for axes in row) for row in rows)
        return sum(inside) + len(rows) * _AROUND * style.letters <= POINTS * style.height

    if any(axes.get_legend() for axes in panels):
        most = usual  # a legend inside takes room
    most = min(most, asked)
    possible = [*range(usual, most + 1), *range(usual - 1, 1, -1)]
    possible = [columns for columns in possible if fits(columns)]
    even = [columns for columns in possible if asked % columns == 0]
    return (even or possible or [most])[0]


def _inside(axes: "Axes", width: float, style: FigureStyle) -> float:
    """Return how tall a panel is without its labels, in points."""
    names = [each.get_text() for each in axes.get_yticklabels()]
    needed = _NAME * sum(any(map(str.isalpha, name)) and "$" not in name for name in names)
    usual = min(max(_SHAPE * width / style.letters, _LOWEST), _HIGHEST)
    return style.letters * max(usual, needed)


def _flow(figure: "Figure", panels: "list[Axes]", columns: int) -> None:
    """Lay panels into rows of so many, and give each the labels that others had for it.

    Names of rows are left out where the legend tells them by their markers.
    """
    from matplotlib.gridspec import GridSpec

    places = {axes: _place(axes) for axes in panels}
    told = {text.get_text() for legend in figure.legends for text in legend.get_texts()}
    for axes, (row, column) in places.items():
        names = {each.get_text() for each in axes.get_yticklabels()} - {""}
        left = [each for each in panels if places[each][0] == row and places[each][1] < column]
        below = [each for each in panels if places[each][1] == column and places[each][0] > row]
        if not axes.get_ylabel():
            shared = axes.get_shared_y_axes()
            labels = [each.get_ylabel() for each in reversed(left) if shared.joined(axes, each)]
            axes.set_ylabel(
                next(filter(None, labels), ""), fontsize=axes.yaxis.label.get_fontsize()
            )
        if not axes.get_xlabel():
            labels = [each.get_xlabel() for each in below]
            axes.set_xlabel(
                next(filter(None, labels), ""), fontsize=axes.xaxis.label.get_fontsize()
            )
        axes.tick_params(which="both", labelbottom=True, labelleft=not names or not names <= told)
    grid = GridSpec(math.ceil(len(panels) / columns), columns, figure=figure)
    for i, axes in enumerate(panels):
        axes.set_subplotspec(grid[divmod(i, columns)])
    for i, axes in enumerate(panels):
        beside = panels[i - 1] if i % columns else None
        if beside is not None and axes.get_shared_y_axes().joined(axes, beside):
            axes.tick_params(which="both", labelleft=False)
            axes.set_ylabel("")
    for above, under in zip(panels, panels[columns:], strict=False):
        if above.get_xlabel() == under.get_xlabel():
            above.set_xlabel("")
