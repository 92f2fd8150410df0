"""A figure that is drawn gets a style: its width, letters, lines, panels, legends and ticks."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_admm.trials.figures._looks._choices import BANDS, FigureStyle
from fedjax_admm.trials.figures._looks._ends import ends_to_legend
from fedjax_admm.trials.figures._looks._legends import add_legend
from fedjax_admm.trials.figures._looks._measures import (
    POINTS,
    SMALL,
    SMALLEST,
    box,
    labels_box,
    wrap,
)
from fedjax_admm.trials.figures._looks._panels import arrange, fitting, panels_of, row_heights
from fedjax_admm.trials.figures._looks._ticks import thin_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

_USUAL = 10.0  # points: matplotlib's letters, for which lines and markers have their sizes
_PASSES = 8  # at most
_EXACT = 1.0  # points: the height of a figure that has settled
_PAD = 0.4  # of the letters' size, around a panel with its labels
_STATISTICS = (
    *(*BANDS.values(), "median, 10–90 % of trials", "mean"),
)  # as titles say them, after a comma or in a line of their own


def restyle(figure: "Figure", style: FigureStyle) -> None:
    """Give a figure a style; one without a width leaves it as it is.

    Where its panels would grow taller than the page letters are smaller than the style's.
    """
    width = style.width
    if width is None:
        return
    ends_to_legend(figure)
    style = fitting(figure, style)
    shape = figure.get_figheight() / figure.get_figwidth()
    _lay_out(figure, _PAD * style.letters / POINTS)
    title = _title(figure)
    if title is not None and not style.titled:
        title.set_text("")
        title.set_in_layout(False)
    _resize(figure, style)
    arrange(figure, style)
    _letter(figure, style)
    whole = {text: text.get_text() for axes in figure.axes for text in _written(axes)}
    figure.set_size_inches(width, shape * width)
    _renew_legends(figure, style)
    if title is not None and style.titled:
        wrap(figure, title, POINTS * width - style.letters, anew=False)
    beside = [title] if title is not None and style.titled else []
    height = sum(box(figure, each).height + style.letters for each in (*beside, *figure.legends))
    tall, changed = 0.0, True
    for _ in range(_PASSES):  # broken lines take room from the panels, whose labels are broken anew
        rows = row_heights(figure, style) or [POINTS * shape * width]
        settled = not changed and abs(height + sum(rows) - tall) < _EXACT
        tall = height + sum(rows)
        figure.set_size_inches(width, tall / POINTS)
        figure.draw_without_rendering()
        if settled:
            break
        changed = _break_lines(figure, whole)
    thin_ticks(figure)


def _lay_out(figure: "Figure", pad: float) -> None:
    """Have every part find its place, with so many inches around a panel; one's own way is kept."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    if isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine | None):
        figure.set_layout_engine("constrained", w_pad=pad, h_pad=pad)


def _title(figure: "Figure") -> Any:
    """Return the title of a figure; None if it has none."""
    words = figure.get_suptitle()
    return next((each for each in figure.texts if words and each.get_text() == words), None)


def _resize(figure: "Figure", style: FigureStyle) -> None:
    """Scale letters, lines and markers."""
    from matplotlib.collections import Collection
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

    scale = style.letters / _USUAL
    for text in figure.findobj(Text):
        size = min(max(scale * float(text.get_fontsize()), SMALLEST), style.letters)
        text.set_fontsize(size)
    small = max(SMALL * style.letters, SMALLEST)
    for axes in figure.axes:
        axes.tick_params(which="both", labelsize=small, width=0.8 * scale)
        axes.tick_params(which="major", length=3.5 * scale)
        axes.tick_params(which="minor", length=2 * scale)
        for text in _written(axes):
            text.set_fontsize(style.letters)
        axes.xaxis.get_offset_text().set_fontsize(small)
        axes.yaxis.get_offset_text().set_fontsize(small)
        for spine in axes.spines.values():
            spine.set_linewidth(0.8 * scale)
        for line in axes.findobj(Line2D):
            if line in axes.lines:
                line.set_linewidth(scale * line.get_linewidth())
                line.set_markersize(scale * line.get_markersize())
                line.set_markeredgewidth(scale * line.get_markeredgewidth())
        for drawn in axes.collections:
            assert isinstance(drawn, Collection)
            drawn.set_linewidth([scale * width for width in np.atleast_1d(drawn.get_linewidth())])
            if hasattr(drawn, "set_sizes") and len(drawn.get_sizes()):  # type: ignore[attr-defined]
                drawn.set_sizes(scale**2 * drawn.get_sizes())  # type: ignore[attr-defined]


def _letter(figure: "Figure", style: FigureStyle) -> None:
    """Put a letter before each panel's title, without what is said of all: the caption says it."""
    panels = panels_of(figure)
    if not style.lettered or len(panels) < 2:
        return
    titles = [axes.get_title() for axes in panels]
    for said in _STATISTICS:
        if all(title.endswith(said) for title in titles):
            titles = [title.removesuffix(said).rstrip(", :\n") for title in titles]
    for letter, title, axes in zip(letters_of(len(panels)), titles, panels, strict=True):
        axes.set_title(f"({letter}) {title}".rstrip(), fontsize=style.letters)


def letters_of(panels: int) -> list[str]:
    """Return what panels are called: a to z, then aa, ab, ..."""
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    names = [*alphabet, *(first + second for first in alphabet for second in alphabet)]
    return names[:panels]


def _renew_legends(figure: "Figure", style: FigureStyle) -> None:
    """Make every legend anew, in letters of the style."""
    size = max(SMALL * style.letters, SMALLEST)
    named = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
        legend = axes.get_legend()
        if legend is not None:
            look: Any = {"handlelength": 1.6, "labelspacing": 0.2, "borderpad": 0.1}
            axes.legend(fontsize=size, edgecolor="none", framealpha=0.8, **look)
    for legend in list(figure.legends):
        labels = [text.get_text() for text in legend.get_texts()]
        shown = zip(labels, legend.legend_handles, strict=True)
        handles = [named.get(label, handle) for label, handle in shown]
        title = legend.get_title().get_text()
        legend.remove()
        add_legend(figure, handles, labels, title=title, size=size)


def _written(axes: "Axes") -> "tuple[Text, Text, Text]":
    """Return the title and the labels of axes."""
    return axes.title, axes.xaxis.label, axes.yaxis.label


def _break_lines(figure: "Figure", whole: "Mapping[Text, str]") -> bool:
    """Break titles and labels, as they were written, where they are longer than their panels.

    Returns:
      Whether any of them is broken otherwise than before.
    """
    before = {text: text.get_text() for text in whole}
    for axes in figure.axes:
        place = box(figure, axes)
        left = min(place.x0, labels_box(figure, axes.yaxis).x0)
        rooms = (place.x1 - left, place.width, place.height)
        for text, room in zip(_written(axes), rooms, strict=True):
            text.set_text(whole[text])
            wrap(figure, text, room, anew=text is not axes.title)
        # Of a narrow panel the title stands above its labels too.
        outside = axes.title.get_text() and box(figure, axes.title).width > place.width
        middle = ((left if outside else place.x0) + place.x1) / 2
        axes.title.set_x((middle - place.x0) / place.width)
    return before != {text: text.get_text() for text in whole}
