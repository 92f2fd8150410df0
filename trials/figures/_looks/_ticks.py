"""Ticks whose labels do not touch each other."""

from typing import TYPE_CHECKING

from fedjax_admm.trials.figures._looks._measures import POINTS, renderer_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_APART = 0.4  # of the height of letters, between labels


def thin_ticks(figure: "Figure") -> None:
    """Hide labels of ticks that would touch others; the ticks stay, and names of rows do.

    The figure has been laid out. Of a logarithmic axis the powers of ten go first, then 5, 2 and 3.
    """
    renderer = renderer_of(figure)
    for axes in figure.axes:
        for axis, ends in ((axes.xaxis, ("x0", "x1")), (axes.yaxis, ("y0", "y1"))):
            low, high = sorted(axis.get_view_interval())
            taken: list[tuple[float, float]] = []
            for minor in (False, True):
                ticks = axis.get_minor_ticks() if minor else axis.get_major_ticks()
                labels = [tick.label1 for tick in ticks if low <= tick.get_loc() <= high]
                if ends[0] == "y0" and any(_is_name(label.get_text()) for label in labels):
                    break
                for label in sorted(labels, key=lambda label: _rank(label.get_text(), minor)):
                    place = label.get_window_extent(renderer)
                    start, end = (getattr(place, name) for name in ends)
                    room = _APART * float(label.get_fontsize()) * figure.dpi / POINTS
                    room /= 2 if ends[0] == "y0" else 1
                    if any(end + room > first and start - room < last for first, last in taken):
                        label.set_visible(False)
                    elif label.get_text() and label.get_visible():
                        taken.append((start, end))


def _is_name(text: str) -> bool:
    return "$" not in text and sum(map(str.isalpha, text)) > 1


def _rank(text: str, minor: bool) -> int:
    """Return 0 for major ticks; minor ones are ranked by their first digit."""
    return "5231".find(text.lstrip("-0.")[:1]) % 10 if minor else 0
