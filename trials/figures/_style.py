"""How figures of results look: palette, bands, axes with units; readable in black and white.

Methods differ in colour, line and marker at once. The part of a method's name before a comma is
its family: members of a family share the colour.
"""

import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_admm._drawings import COLOURS
from fedjax_admm.trials.figures import _layout
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
MARKERS = tuple("os^DvxP*<h+>d1pX28")
LEFT_OUT = "left_out"
"""The entry of a configuration that counts the methods which a figure leaves out."""
_ROUNDING = 1e-3  # a share of the largest number drawn
_BEYOND = 1e200  # matplotlib's arithmetic of margins and ticks overflows soon after
_LONGEST = 80  # letters of a line
WIDEST = 11.7
"""Inches of a figure of a few panels: letters stay readable where it is shown 9 inches wide."""
_NARROWEST = 2.9  # inches of a panel
_APART = 1.4  # the least factor between ticks of a logarithmic axis
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


Looks = dict[str, dict[str, Any]]
"""Name -> colour, line and marker, as `Axes.plot` takes them."""


def _looks(
    names: Iterable[str], colour: Callable, line: Callable = str, marker: Callable = str
) -> Looks:
    """Give each name a look; names of which a function says the same share that part of it."""
    kinds: dict[str, tuple[Callable, Sequence[Any], dict[str, int]]] = {
        "color": (colour, COLOURS, {}),
        "linestyle": (line, _LINES, {}),
        "marker": (marker, MARKERS, {}),
    }
    return {
        name: {
            kind: every[places.setdefault(part(name), len(places)) % len(every)]
            for kind, (part, every, places) in kinds.items()
        }
        for name in names
    }


def family_styles(names: Iterable[str]) -> Looks:
    """Give each name a colour (shared by its family), a line and a marker."""
    return _looks(names, lambda name: name.split(",")[0])


def distinct_styles(names: Iterable[str]) -> Looks:
    """Give each name a colour of its own, a line and a marker.

    From the eighth name on the colours come in another order.
    """
    looks = _looks(names, str)
    for i, look in enumerate(looks.values()):
        look["color"] = COLOURS[(i + 3 * (i // len(COLOURS))) % len(COLOURS)]
    return looks


def solver_styles(names: Iterable[str]) -> Looks:
    """Give each solver a colour and a marker, and each variant, "SOLVER, VARIANT", a line."""
    solver, variant = (lambda name, part=part: name.partition(", ")[part] for part in (0, 2))
    return _looks(names, solver, variant, solver)


def line_with_band(
    axes: "Axes", x: np.ndarray, band: Any, label: str, style: dict[str, Any]
) -> None:
    """Draw a line, with markers at equal distances if it is long, and its band, if it has one.

    The band is what `band_of` gives: the middle and both ends, the same array three times if none.
    """
    if any(np.any(np.abs(part) > _BEYOND) for part in (x, band[0])):
        note(axes, f"numbers beyond {_BEYOND:g} are not drawn")
    shown, middle, low, high = map(drawable, (x, *band))
    # Staggered, so that the markers of equal lines do not hide each other.
    first = _MARKER_DISTANCE * (len(axes.lines) % 5) / 5
    every = 1 if len(shown) <= 25 else (first, _MARKER_DISTANCE)
    look = {"markersize": 4, "markevery": every, "linewidth": 1.4, **style}
    axes.plot(shown, middle, label=readable(label), **look)
    if band[1] is not band[0]:
        axes.fill_between(shown, low, high, color=style["color"], alpha=0.12, linewidth=0)


def drawable(numbers: Any) -> np.ndarray:
    """Return numbers as a plot may have them: without those that overflow while it is laid out."""
    numbers = np.asarray(numbers, np.float64)
    size = np.abs(numbers)
    numbers = np.where(size < 1 / _BEYOND, 0, numbers)
    return np.where(size > _BEYOND, np.nan, numbers)


def logarithmic(axes: "Axes", directions: str = "y") -> None:
    """Make the vertical axis ("y"), the horizontal one ("x") or both ("xy") logarithmic.

    Numbers that are negative by more than rounding, as an objective may be, keep an axis linear.
    What a logarithmic axis cannot show is said in a corner.
    """
    from fedjax_admm.trials.figures._ticks import PlainNumbers

    for direction in directions:
        numbers = _drawn(axes, direction)
        largest = np.max(numbers, initial=0)
        # Errors may all be zero: matplotlib warns of a logarithmic axis without positive numbers.
        if largest > 0 and -np.min(numbers, initial=0) <= _ROUNDING * largest:
            axes.set(**{f"{direction}scale": "log"})
            axis, few = (axes.xaxis, 1) if direction == "x" else (axes.yaxis, 2.5)
            axis.set_major_formatter(PlainNumbers())
            axis.set_minor_formatter(PlainNumbers(minor_thresholds=(few, few)))
            if np.any(numbers <= 0):
                note(axes, "zeros and what is below are not drawn")


def _drawn(axes: "Axes", direction: str) -> np.ndarray:
    """Return all finite numbers of the lines of axes in a direction, "x" or "y"."""
    numbers = [np.zeros(0)]
    for line in axes.lines:
        # The ends of a level line are those of the axes, not numbers; half a point is not drawn.
        if direction == "y" or line.get_transform() == axes.transData:
            both = np.asarray(line.get_data(), np.float64)
            numbers.append(both["xy".index(direction)][np.isfinite(both).all(0)])
    return np.concatenate(numbers)


def note(axes: "Axes", words: str) -> None:
    """Write what has to be known of axes into their lower left corner."""
    axes.text(0.02, 0.02, words, transform=axes.transAxes, fontsize=8)


def tick_values(axes: "Axes", results: Results) -> None:
    """Give swept numbers a tick each where there are two, or evenly where they grow by factors."""
    shown = drawable(results.sweep)
    rising = np.sort(shown)
    factors = np.all(rising > 0) and np.all(rising[1:] >= _APART * rising[:-1])
    if factors:
        axes.set_xscale("log")
    if factors or len(shown) == 2:
        kept = np.isfinite(shown)
        axes.set_xticks(shown[kept], [f"{value:g}" for value in results.sweep[kept]])
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


def finish(figure: "Figure", results: Results, legend_title: str = "") -> "Figure":
    """Add the grid lines, one legend below, and the title: the finding, then what was run.

    A quick or an unfinished run is called a preview; only a run as large as the default one states
    its finding.

    Args:
      figure: with all that is drawn.
      results: what it shows.
      legend_title: above the legend.

    Returns:
      The figure.
    """
    named: dict[str, Any] = {}
    for axes in figure.axes:
        axes.grid(True, which="major", linewidth=0.4, alpha=0.6)
        handles, labels = axes.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    wide, tall = (6.6, 5.2) * figure.get_size_inches()  # of panels, in heights of letters
    for axes in _layout.panels_of(figure):
        rows, columns = _layout.shape_around(axes)
        axes.set_title(_layout.wrapped(axes.get_title(), wide / columns), fontsize=10)
        axes.set_ylabel(_layout.wrapped(axes.get_ylabel(), tall / rows))
    _layout.hide_shared(figure)
    if named:
        _layout.add_legend(figure, named, legend_title)
    config = results.config
    ran = f"{config['experiment']}: {results.run_in_words}"
    data = config.get("data", "drawn").encode(errors="replace").decode()  # a path may be any bytes
    ran += "" if data == "drawn" else f"; data: {_whole(data, 2 * _LONGEST)}"
    if config.get(LEFT_OUT):
        ran += f"; --all draws {config[LEFT_OUT]} more"
    title = config["title"]
    finding = config.get("verdict") or title[:1].upper() + title[1:]
    if config.get("quick"):
        finding = f"Preview of a quick run, too short to conclude from: {title}"
    elif results.trials < config["trials"]:
        finding = f"Preview of the first {results.trials} trials: {title}"
    letters = int(11 * figure.get_figwidth())
    lines = [caption(line, letters) for line in _lines(_whole(finding, 400), letters)]
    lines += _lines(ran.replace("$", r"\$"), letters)
    figure.suptitle("\n".join(lines), fontsize=11)
    return figure


def _lines(text: str, letters: int) -> list[str]:
    """Return lines of at most so many letters, of about equal length."""
    rows = -(-len(text) // letters)
    return textwrap.wrap(text, min(letters, len(text) // max(rows, 1) + 6))
