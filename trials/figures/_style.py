"""How figures of results look: palette, bands, axes with units; readable in black and white.

Methods differ in colour, line and marker at once. The part of a method's name before a comma is
its family: members of a family share the colour.
"""

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_admm._drawings import COLOURS
from fedjax_admm.trials.figures._layout import add_legend, hide_shared
from fedjax_admm.trials.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINES: tuple[Any, ...] = (
    *("-", "--", ":", "-."),
    (0, (5, 1.5, 1, 1.5, 1, 1.5)),
    (0, (9, 2)),
    (0, (3, 1, 3, 1, 1, 1)),
    (0, (1, 4)),
)
MARKERS = (
    *("o", "s", "^", "D", "v", "x", "P", "*", "<", "h", "+", ">", "d"),
    *("1", "p", "X", "2", "8"),
)
LEFT_OUT = "left_out"
"""The entry of a configuration that counts the methods which a figure leaves out."""
_ROUNDING = 1e-3  # a share of the largest number drawn
_BEYOND = 1e200  # matplotlib's arithmetic of margins and ticks overflows soon after
_LONGEST = 80  # letters of a line
WIDEST = 11.7
"""Inches of a figure of a few panels: letters stay readable where it is shown 9 inches wide."""
_NARROWEST = 2.9  # inches of a panel
_MARKER_DISTANCE = 0.12  # along a curve, as a share of the diagonal of the axes


def blank_figure(width: float, height: float) -> "Figure":
    """Return a figure of a width and a height in inches, whose parts find their places.

    The rooms of figures import matplotlib here, so that what only names a figure costs nothing.
    """
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=150, layout="constrained")


def panels(
    rows: int, columns: int, height: float = 3.4, width: float = 4.7, **shared: Any
) -> "tuple[Figure, np.ndarray]":
    """Return a figure and its panels, shape (rows, columns).

    Args:
      rows: of panels.
      columns: of panels.
      height: inches of a row with its labels.
      width: inches of a panel with its labels, if they fit; narrower ones keep them readable.
      **shared: which axes are shared, as `Figure.subplots` takes it.
    """
    wide = columns * min(max(WIDEST / columns, _NARROWEST), width)
    figure = blank_figure(wide, 1.3 + height * rows)
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)


def few_panels(number: int) -> "tuple[Figure, np.ndarray]":
    """Return a figure and its panels: four lie in two rows, other numbers in one."""
    columns = 2 if number == 4 else number
    figure, grid = panels(number // columns, columns)
    return figure, grid.ravel()


def family_styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Give each name a colour (shared by its family), a line and a marker."""
    styles: dict[str, dict[str, Any]] = {}
    families: dict[str, int] = {}
    for i, name in enumerate(names):
        family = families.setdefault(name.split(",")[0], len(families))
        styles[name] = {
            "color": COLOURS[family % len(COLOURS)],
            "linestyle": _LINES[i % len(_LINES)],
            "marker": MARKERS[i % len(MARKERS)],
        }
    return styles


def distinct_styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Give each name a colour of its own, a line and a marker.

    From the eighth name on the colours come in another order.
    """
    return {
        name: {**style, "color": COLOURS[(i + 3 * (i // len(COLOURS))) % len(COLOURS)]}
        for i, (name, style) in enumerate(family_styles(names).items())
    }


def solver_styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Give each solver a colour and a marker, and each variant, "SOLVER, VARIANT", a line."""
    solvers: dict[str, int] = {}
    variants: dict[str, int] = {}
    styles: dict[str, dict[str, Any]] = {}
    for name in names:
        solver, _, variant = name.partition(", ")
        place = solvers.setdefault(solver, len(solvers))
        line = variants.setdefault(variant, len(variants))
        look = {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}
        styles[name] = {**look, "linestyle": _LINES[line % len(_LINES)]}
    return styles


def line_with_band(
    axes: "Axes",
    x: np.ndarray,
    band: Sequence[np.ndarray],
    label: str,
    style: dict[str, Any],
) -> None:
    """Draw a line and its band; none if it is the line itself."""
    middle, low, high = band
    draw_line(axes, x, middle, label, style)
    if low is not middle:
        x, low, high = map(drawable, (x, low, high))
        axes.fill_between(x, low, high, color=style["color"], alpha=0.12, linewidth=0)


def points_with_bars(
    axes: "Axes",
    middle: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    rows: np.ndarray,
    **style: Any,
) -> None:
    """Draw points and horizontal bars, which may lie beside their points."""
    middle, low, high = (np.atleast_1d(drawable(part)) for part in (middle, low, high))
    width = np.stack([np.zeros_like(low), high - low])
    axes.errorbar(low, rows, xerr=width, fmt="none", ecolor=style["color"], capsize=3)
    axes.plot(middle, rows, linestyle="none", **style)


def drawable(numbers: np.ndarray) -> np.ndarray:
    """Return numbers as a plot may have them: without those that overflow while it is laid out."""
    numbers = np.asarray(numbers, np.float64)
    size = np.abs(numbers)
    numbers = np.where(size < 1 / _BEYOND, 0, numbers)
    return np.where(size > _BEYOND, np.nan, numbers)


def draw_line(
    axes: "Axes", x: np.ndarray, y: np.ndarray, label: str, style: dict[str, Any]
) -> None:
    """Draw a line; a long one has markers at equal distances on the page."""
    if np.any(np.abs(y) > _BEYOND) or np.any(np.abs(x) > _BEYOND):
        note(axes, f"numbers beyond {_BEYOND:g} are not drawn")
    x, y = drawable(x), drawable(y)
    # Staggered, so that the markers of equal lines do not hide each other.
    first = _MARKER_DISTANCE * (len(axes.lines) % 5) / 5
    every = 1 if len(x) <= 25 else (first, _MARKER_DISTANCE)
    axes.plot(x, y, label=readable(label), markersize=4, markevery=every, linewidth=1.4, **style)


def logarithmic(axes: "Axes", *, rounds: bool = False) -> None:
    """Make the vertical axis logarithmic, and the horizontal one too where it counts rounds.

    Numbers that are negative by more than rounding, as an objective may be, keep it linear. What a
    logarithmic axis cannot show is said in a corner.
    """
    from fedjax_admm.trials.figures._ticks import PlainNumbers

    numbers = _drawn(axes, "y")
    least, largest = np.min(numbers, initial=0), np.max(numbers, initial=0)
    # Errors may all be zero: matplotlib warns of a logarithmic axis without positive numbers.
    if largest > 0 and -least <= _ROUNDING * largest:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(PlainNumbers())
        axes.yaxis.set_minor_formatter(PlainNumbers(minor_thresholds=(2.5, 2.5)))
        if least <= 0 and np.any(numbers <= 0):
            note(axes, "zeros and what is below are not drawn")
    if rounds:
        logarithmic_along(axes)


def logarithmic_along(axes: "Axes", *, partly: bool = False) -> None:
    """Make the horizontal axis logarithmic if all that is drawn there is positive.

    Args:
      axes: with its lines.
      partly: whether some zeros may be left out; it is said in a corner then.
    """
    from fedjax_admm.trials.figures._ticks import PlainNumbers

    numbers = _drawn(axes, "x")
    positive = bool(np.any(numbers > 0)) and bool(np.all(numbers >= 0 if partly else numbers > 0))
    if positive:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(PlainNumbers())
        axes.xaxis.set_minor_formatter(PlainNumbers(minor_thresholds=(1, 1)))
        if np.any(numbers <= 0):
            note(axes, "zeros are not drawn")


def _drawn(axes: "Axes", direction: str) -> np.ndarray:
    """Return all finite numbers of the lines of axes in a direction, "x" or "y"."""
    # The ends of a level line are those of the axes, not numbers; half a point is not drawn.
    lines = [
        line for line in axes.lines if direction == "y" or line.get_transform() == axes.transData
    ]
    numbers = [np.zeros(0)]
    for line in lines:
        both = np.broadcast_arrays(*map(np.asarray, (line.get_xdata(), line.get_ydata())))
        x, y = (np.asarray(values, np.float64) for values in both)
        numbers.append((x if direction == "x" else y)[np.isfinite(x) & np.isfinite(y)])
    return np.concatenate(numbers)


def note(axes: "Axes", words: str) -> None:
    """Write what has to be known of axes into their lower left corner."""
    axes.text(0.02, 0.02, words, transform=axes.transAxes, fontsize=8)


def tick_values(axes: "Axes", results: Results) -> None:
    """Give each swept number a tick of its own, evenly in the logarithms if it can be."""
    shown = drawable(results.sweep)
    if np.all(shown > 0):
        axes.set_xscale("log")
    ticks = {place: f"{value:g}" for place, value in zip(shown, results.sweep, strict=True)}
    ticks = {place: text for place, text in ticks.items() if np.isfinite(place)}
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.minorticks_off()


def readable(name: str) -> str:
    """Return a method's name as it is drawn: as it stands, but for k^2 and 2^k, set as powers."""
    literal = re.sub(r"k\^(-?[\d.]+)", r"$k^{\1}$", _whole(name).replace("$", r"\$"))
    literal = re.sub(r"([\d.]+)\^k\b", r"$\1^k$", literal)
    return f" {literal}" if literal.startswith("_") else literal  # else left out of legends


def caption(text: str, longest: int = _LONGEST) -> str:
    """Return a label or a title as it is drawn: mathematics between dollars if it can be read."""
    return "\n".join(_with_mathematics(_whole(line, longest)) for line in text.splitlines())


def _with_mathematics(line: str) -> str:
    if "$" in line:
        from matplotlib.mathtext import MathTextParser

        try:
            MathTextParser("path").parse(line)
        except (ValueError, RuntimeError):
            return line.replace("$", r"\$")
    return line


def _whole(line: str, longest: int = _LONGEST) -> str:
    """Return a line without the middle of what is too long."""
    return line if len(line) <= longest else f"{line[: longest // 2]}…{line[-longest // 2 :]}"


def metric_label(results: Results, metric: str) -> str:
    """Return what a metric is called on an axis, with its unit."""
    return caption(results.label(metric))


def parameter_label(results: Results) -> str:
    """Return what the swept number is called on an axis, with its unit."""
    return caption(results.config["parameter_label"])


def finish(
    figure: "Figure",
    results: Results,
    shown: Mapping[str, Any] | None = None,
    legend_title: str = "",
) -> "Figure":
    """Add the grid lines, one legend below, and the title: the finding, then what was run.

    A quick or an unfinished run is called a preview; only a run as large as the default one states
    its finding.

    Args:
      figure: with all that is drawn.
      results: what it shows.
      shown: what the legend shows by its name; all that has a name if None.
      legend_title: above the legend.

    Returns:
      The figure.
    """
    named: dict[str, Any] = {}
    for axes in figure.axes:
        axes.grid(True, which="major", linewidth=0.4, alpha=0.6)
        handles, labels = axes.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    hide_shared(figure)
    if shown := named if shown is None else shown:
        add_legend(figure, shown, legend_title)
    config = results.config
    ran = f"{config['experiment']}: {results.run_in_words}"
    data = config.get("data", "drawn").encode(errors="replace").decode()  # a path may be any bytes
    ran += "" if data == "drawn" else f"; data: {_whole(data, 2 * _LONGEST)}"
    if config.get(LEFT_OUT):
        ran += f"; --all draws {config[LEFT_OUT]} more"
    if config.get("quick"):
        finding = f"Preview of a quick run, too short to conclude from: {config['title']}"
    elif results.trials < config["trials"]:
        finding = f"Preview of the first {results.trials} trials: {config['title']}"
    else:
        title = f"{config['title'][:1].upper()}{config['title'][1:]}"
        finding = config.get("verdict") or title
    letters = int(11 * figure.get_figwidth())
    lines = [caption(line, letters) for line in _lines(_whole(finding, 400), letters)]
    lines += _lines(ran.replace("$", r"\$"), letters)
    figure.suptitle("\n".join(lines), fontsize=11)
    return figure


def _lines(text: str, letters: int) -> list[str]:
    """Return lines of at most so many letters, of about equal length."""
    rows = -(-len(text) // letters)
    return textwrap.wrap(text, min(letters, len(text) // max(rows, 1) + 6))
