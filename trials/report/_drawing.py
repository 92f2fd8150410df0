"""A figure as SVG inside a page: in the page's colours, with the numbers under the pointer."""

import io
import re
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_admm.trials.report._elements import Markup, element, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_POINTS = 72  # in an inch
_MOST = 60  # points of a line that tell their numbers
_LEAST, _MOST_SCALE = 0.85, 1.5  # pixels of a screen for a point: letters stay readable
_RADIUS = "7"  # of what the pointer must meet, in points
_COLOURS = {"#000000": "currentColor", "#ffffff": "var(--paper)"}


def inline_svg(figure: "Figure", prefix: str, description: str) -> Markup:
    """Return a figure as an `svg` element whose points tell their numbers.

    Args:
      figure: it is drawn anew, at 72 dots per inch.
      prefix: begins every `id`, which must be unique in a page.
      description: read aloud in the place of the figure.
    """
    import matplotlib

    figure.set_dpi(_POINTS)
    file = io.StringIO()
    drawn_alike: Any = {"svg.fonttype": "path", "svg.hashsalt": "fedjax-admm"}
    with warnings.catch_warnings(), matplotlib.rc_context(drawn_alike):
        # A letter that the font does not have is drawn as a box, which shows it well enough.
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
        figure.savefig(file, format="svg", metadata={"Date": None})
        figure.draw_without_rendering()
        points = "".join(_points(figure))
    found = file.getvalue()
    found = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", found, flags=re.DOTALL)
    drawn = found[found.index(">", found.index("<svg")) + 1 : found.rindex("</svg>")]
    drawn = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}", drawn)
    for colour, ours in _COLOURS.items():
        drawn = drawn.replace(colour, ours)
    width, height = _POINTS * figure.get_size_inches()
    label = text(description)
    start = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{label}" '
        f'style="min-width: {_LEAST * width:.0f}px; max-width: {_MOST_SCALE * width:.0f}px">'
    )
    return Markup(f'{start}{drawn}<g class="points">{points}</g></svg>')


def _points(figure: "Figure") -> Iterator[Markup]:
    """Yield a circle over every point of every line, which tells its numbers."""
    height = _POINTS * figure.get_size_inches()[1]
    names = {_look(line): _name(line) for axes in figure.axes for line in axes.lines if _name(line)}
    for axes in figure.axes:
        x_label, y_label = _label(axes, "x"), _label(axes, "y")
        for line in axes.lines:
            if line.get_transform() != axes.transData:  # a level line
                continue
            name = _name(line) or names.get(_look(line), "")
            for x, y, across, up in _visible(axes, line):
                told = [
                    name,
                    f"{x_label}: {_number(axes.xaxis, x)}",
                    f"{y_label}: {_number(axes.yaxis, y)}",
                ]
                title = element("title", "\n".join(word for word in told if word))
                place = {"cx": f"{across:.1f}", "cy": f"{height - up:.1f}", "r": _RADIUS}
                yield element("circle", title, **place)


def _visible(axes: "Axes", line: "Line2D") -> np.ndarray:
    """Return numbers and places of a line's points that are inside the axes, shape (points, 4)."""
    numbers = np.asarray(line.get_xydata(), np.float64)
    numbers = numbers[np.all(np.isfinite(numbers), axis=1)]
    with np.errstate(all="ignore"):  # zeros on a logarithmic axis
        places = axes.transData.transform(numbers)
    box = axes.bbox
    low, high = np.array([box.x0, box.y0]) - 1, np.array([box.x1, box.y1]) + 1
    inside = np.all((places >= low) & (places <= high), axis=1)
    both = np.concatenate([numbers, places], axis=1)[inside]
    chosen = np.linspace(0, max(len(both) - 1, 0), min(len(both), _MOST)).round().astype(int)
    return both[chosen]


def _name(line: "Line2D") -> str:
    """Return what a line is called in the legend, mathematics as plain text; "" if nothing."""
    label = str(line.get_label())
    return "" if label.startswith("_") else _plain(label)


def _plain(label: str) -> str:
    """Return a label as plain text: what `readable` wrote as mathematics, and its dollars."""
    return re.sub(r"\$k\^\{(.*?)\}\$", r"k^\1", label).replace(r"\$", "$").strip()


def _number(axis: "Axis", number: float) -> str:
    """Return a number along an axis; where its ticks have names, that of the nearest tick."""
    from matplotlib.ticker import FixedLocator, FuncFormatter

    named = axis.get_major_formatter()
    ticks = axis.get_majorticklocs()
    if isinstance(named, FuncFormatter) and isinstance(axis.get_major_locator(), FixedLocator):
        return _plain(named(ticks[np.argmin(np.abs(ticks - number))], None))
    return f"{number:.4g}"


def _look(line: "Line2D") -> tuple[str, ...]:
    """Return what lines of one method share: panels name them once."""
    return str(line.get_color()), str(line.get_linestyle()), str(line.get_marker())


def _label(axes: "Axes", direction: str) -> str:
    """Return what an axis is called; panels that share one may name it once."""
    shared = axes.get_shared_x_axes() if direction == "x" else axes.get_shared_y_axes()
    for each in [axes, *shared.get_siblings(axes)]:
        found = each.get_xlabel() if direction == "x" else each.get_ylabel()
        if found:
            return " ".join(_plain(found).splitlines()[0].split())
    return direction
