"""How wide letters are: sizes of texts in points, and lines broken to fit."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.text import Text

POINTS = 72  # in an inch
SMALL = 0.875  # of ticks and legends, to the letters of labels
SMALLEST = 6.0  # points: nothing smaller is readable in print
_WORDS = re.compile(r"(?:\$[^$]*\$|\\\$|[^\s$]|\$)+")  # mathematics between dollars stays whole


@contextmanager
def any_letters() -> Iterator[None]:
    """Draw a letter that the font does not have as a box, which shows it well enough."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
        yield


def renderer_of(figure: "Figure") -> Any:
    """Return what measures the texts of a figure, in its pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = figure.canvas
    if not isinstance(canvas, FigureCanvasAgg):
        canvas = FigureCanvasAgg(figure)
    return canvas.get_renderer()


def box(figure: "Figure", artist: Any) -> Any:
    """Return where an artist is, in points."""
    return _in_points(figure, artist.get_window_extent(renderer_of(figure)))


def whole_box(figure: "Figure", axes: "Axes") -> Any:
    """Return where axes are with their labels and titles, in points."""
    return _in_points(figure, axes.get_tightbbox(renderer_of(figure)))


def labels_box(figure: "Figure", axis: "Axis") -> Any:
    """Return where the label and the tick labels of an axis are, in points; nowhere if none are."""
    from matplotlib.transforms import Bbox

    extent = axis.get_tightbbox(renderer_of(figure))
    return _in_points(figure, Bbox.null() if extent is None else extent)


def _in_points(figure: "Figure", pixels: Any) -> Any:
    from matplotlib.transforms import Affine2D

    return pixels.transformed(Affine2D().scale(POINTS / figure.dpi))


def wrap(figure: "Figure", text: "Text", room: float, *, anew: bool = True) -> None:
    """Break the lines of a text where they are longer than there is room.

    Args:
      figure: the text is in.
      text: it is changed; a word that is longer stays whole.
      room: in points.
      anew: whether lines that have been broken are joined before.
    """
    renderer = renderer_of(figure)
    words = text.get_text()

    def width(line: str) -> float:
        text.set_text(line)
        angle = text.get_rotation()
        text.set_rotation(0)
        room_taken = text.get_window_extent(renderer).width * POINTS / figure.dpi
        text.set_rotation(angle)
        return room_taken

    lines = words.split("\n")
    if all(width(line) <= room for line in lines):
        text.set_text(words)
        return
    broken: list[str] = []
    for line in [" ".join(lines)] if anew else lines:
        start = len(broken)
        for word in _WORDS.findall(line):
            longer = f"{broken[-1]} {word}" if len(broken) > start else word
            if len(broken) > start and width(longer) <= room:
                broken[-1] = longer
            else:
                broken.append(word)
    text.set_text("\n".join(broken))
