"""Panels side by side: as many as a width holds, those of a wider figure in more rows."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fedjax_admm.trials.figures._looks._choices import FigureStyle
from fedjax_admm.trials.figures._looks._measures import POINTS, SMALL, SMALLEST, box, whole_box

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHAPE = 0.6  # height of a panel to its width, labels included there
_SHARE = 0.7  # of the height of a page, for the maps of a column
# All in letters' heights.
_USUAL, _NARROW, _NARROWEST = 20.0, 15.5, 14.0  # widths of a panel; where each has its labels
_LOWEST, _HIGHEST = 7.5, 14.0  # heights of a panel without its labels
_TALLEST = 36.0  # height of a map without its labels
_TICKS, _WRITTEN = 2.4, 1.3  # around a panel before it is measured: ticks and gaps; a line of text
_BESIDE = 5.0  # width of what stands beside a map
_GAP = 0.8  # between panels
_NAME = 1.4  # height of a row with a name
_LETTER, _HANDLE, _LINE = 0.55, 4.5, 1.5  # of a legend: width of a letter, of what it shows; height
_FINER = 0.5  # points: by how much letters are made smaller at a time


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
        if columns < grid.ncols or _crowded(panels, width / columns, style):
            _flow(figure, panels, columns)


def fitting(figure: "Figure", style: FigureStyle) -> FigureStyle:
    """Return the style with smaller letters where the figure would grow taller than its page.

    A panel is so many letters tall, and so many letters wide where panels lie side by side: with
    smaller letters both save room. What does not fit with the smallest ones is taller.
    """
    smaller = style
    while smaller.letters > SMALLEST and _height(figure, smaller) > POINTS * style.height:
        smaller = replace(smaller, letters=max(smaller.letters - _FINER, SMALLEST))
    return smaller


def _height(figure: "Figure", style: FigureStyle) -> float:
    """Return about how tall a figure becomes that has a style, in points."""
    panels, grid = panels_of(figure), _grid(figure)
    if grid is None:
        return 0.0
    width, small = POINTS * float(style.width or figure.get_figwidth()), SMALL * style.letters
    height = _tall(panels, _columns(panels, grid.ncols, width, style), width, style)
    for legend in figure.legends:
        labels = [text.get_text() for text in legend.get_texts()]
        longest = _HANDLE + _LETTER * max(map(len, labels), default=0)
        side_by_side = max(1, math.floor(width / small / longest))
        height += _LINE * small * math.ceil(len(labels) / side_by_side) + style.letters
    return height


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
        height = _inside(axes, width, grid.nrows, style) + written + _GAP * style.letters
        heights[row] = max(heights.get(row, 0), height)
    rows = [heights[row] for row in sorted(heights)]
    if len(rows) == grid.nrows:
        grid.set_height_ratios(rows)
    return rows


def _columns(panels: "list[Axes]", asked: int, width: float, style: FigureStyle) -> int:
    """Return how many panels lie side by side: rather few, unless the figure grows too tall."""
    usual = max(1, math.floor(width / style.letters / _USUAL))
    if asked <= usual:
        return asked
    narrow = [
        columns
        for columns in range(usual + 1, asked + 1)
        if _narrowest(panels, columns) * style.letters * columns <= width
    ]
    if any(axes.get_legend() for axes in panels):
        narrow = []  # a legend inside takes room
    possible = [
        columns
        for columns in [usual, *narrow, *range(usual - 1, 1, -1)]
        if _tall(panels, columns, width, style) <= POINTS * style.height
    ]
    even = [columns for columns in possible if asked % columns == 0]
    return (even or possible or [max([usual, *narrow])])[0]


def _narrowest(panels: "list[Axes]", columns: int) -> float:
    """Return how many letters wide a panel must be beside others, which may share its labels."""
    pairs = [(panels[i - 1], panels[i]) for i in range(len(panels)) if i % columns]
    shared = all(one.get_shared_y_axes().joined(one, other) for one, other in pairs)
    return _NARROWEST if shared else _NARROW


def _tall(panels: "list[Axes]", columns: int, width: float, style: FigureStyle) -> float:
    """Return about how tall so many columns of panels are with their labels, in points."""
    rows = [panels[i : i + columns] for i in range(0, len(panels), columns)]
    room = width / columns

    def height(axes: "Axes") -> float:
        lines = sum(
            math.ceil(_LETTER * len(line) * style.letters / room)
            for text in (axes.get_title(), axes.get_xlabel())
            for line in text.split("\n")
        )
        around = (_TICKS + _WRITTEN * lines) * style.letters
        return _inside(axes, room, len(rows), style) + around

    return sum(max(map(height, row)) for row in rows)


def _crowded(panels: "list[Axes]", width: float, style: FigureStyle) -> bool:
    """Return whether names of rows take the room of the panels beside them."""
    longest = max((len(name) for axes in panels for name in _names(axes)), default=0)
    return (_NARROWEST + _LETTER * longest) * style.letters > width


def _names(axes: "Axes") -> list[str]:
    """Return the names that rows have in the place of numbers."""
    names = [each.get_text() for each in axes.get_yticklabels()]
    return [name for name in names if any(map(str.isalpha, name)) and "$" not in name]


def _inside(axes: "Axes", width: float, rows: int, style: FigureStyle) -> float:
    """Return how tall a panel is without its labels, in points, in a figure of so many rows."""
    if axes.get_aspect() != "auto":
        height = _shape(axes) * (width - _BESIDE * style.letters)
        return min(height, _TALLEST * style.letters, _SHARE * POINTS * style.height / rows)
    needed = _NAME * len(_names(axes))
    usual = min(max(_SHAPE * width / style.letters, _LOWEST), _HIGHEST)
    return style.letters * max(usual, needed)


def _shape(axes: "Axes") -> float:
    """Return the height of a map to its width: its nodes', where its limits follow its room."""
    limits = axes.dataLim if axes.get_adjustable() == "datalim" else axes.viewLim
    if not 0 < limits.width < math.inf:  # nodes above each other, or none
        return 1.0
    shape = float(axes.get_aspect()) * limits.height / limits.width  # type: ignore[arg-type]
    return max(shape, _SHAPE)


def _flow(figure: "Figure", panels: "list[Axes]", columns: int) -> None:
    """Lay panels into rows of so many, and give each the labels that others had for it.

    Names of rows are left out where the legend tells them by their markers.
    """
    from matplotlib.gridspec import GridSpec

    places = {axes: _place(axes) for axes in panels}
    in_legend = {text.get_text() for legend in figure.legends for text in legend.get_texts()}
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
        axes.tick_params(
            which="both", labelbottom=True, labelleft=not names or not names <= in_legend
        )
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
