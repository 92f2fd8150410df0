"""Ticks whose labels do not touch each other."""

from typing import TYPE_CHECKING, Any

from fedjax_admm.trials.figures._looks._measures import POINTS, renderer_of

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_APART = 0.4  # of the height of letters, between labels


def thin_ticks(figure: "Figure") -> None:
    """Leave out labels of ticks that would touch others; the ticks stay.

    The figure has been laid out. Of a logarithmic axis, labels between its powers of ten go first.
    """
    renderer = renderer_of(figure)
    for axes in figure.axes:
        for axis, across in ((axes.xaxis, True), (axes.yaxis, False)):
            _thin(axis, across, renderer, POINTS / figure.dpi)


def _thin(axis: "Axis", across: bool, renderer: Any, scale: float) -> None:
    from matplotlib.ticker import FixedFormatter, FixedLocator

    low, high = sorted(axis.get_view_interval())
    taken: list[tuple[float, float]] = []
    kept: dict[bool, list[str]] = {}
    places: dict[bool, list[float]] = {}
    left_out = False
    for minor in (False, True):
        locations = [float(each) for each in axis.get_ticklocs(minor=minor)]
        words = [label.get_text() for label in axis.get_ticklabels(minor=minor)]
        labels = list(axis.get_ticklabels(minor=minor))
        if len(words) != len(locations) or (not across and any(map(_is_name, words))):
            return
        shown = [i for i, word in enumerate(words) if word and low <= locations[i] <= high]
        chosen: set[int] = set()
        for i in _order(shown, words, minor):
            found = labels[i].get_window_extent(renderer)
            start, end = (found.x0, found.x1) if across else (found.y0, found.y1)
            room = _APART * float(labels[i].get_fontsize()) / scale / (1 if across else 2)
            if all(end + room <= first or start - room >= last for first, last in taken):
                taken.append((start, end))
                chosen.add(i)
        left_out |= len(chosen) < len(shown)
        kept[minor] = [word if i in chosen else "" for i, word in enumerate(words)]
        places[minor] = locations
    if left_out:
        axis.set_major_locator(FixedLocator(places[False]))
        axis.set_major_formatter(FixedFormatter(kept[False]))
        axis.set_minor_locator(FixedLocator(places[True]))
        axis.set_minor_formatter(FixedFormatter(kept[True]))


def _is_name(word: str) -> bool:
    return "$" not in word and sum(map(str.isalpha, word)) > 1


def _order(shown: list[int], words: list[str], minor: bool) -> list[int]:
    """Return which labels have a place first: every second of ticks, 5 and 2 of those between."""
    if minor:
        digits = {i: words[i].lstrip("-0.")[:1] for i in shown}
        return sorted(shown, key=lambda i: "5231".find(digits[i]) % 10)
    step = 1
    ordered: list[int] = []
    while step < len(shown):
        step *= 2
    while step >= 1:
        ordered += [i for i in shown[::step] if i not in ordered]
        step //= 2
    return ordered
