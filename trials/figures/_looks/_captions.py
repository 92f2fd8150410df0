"""Captions: what a figure shows, in words that can stand below it in a paper."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from fedjax_admm.trials.figures._looks._choices import BANDS
from fedjax_admm.trials.figures._looks._ends import names_at_ends
from fedjax_admm.trials.figures._looks._panels import panels_of
from fedjax_admm.trials.figures._looks._restyling import letters_of
from fedjax_admm.trials.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BANDS = {
    BANDS["errors"]: "means over trials, and bands or bars of one standard error of the mean",
    BANDS["deviations"]: "means over trials, and bands or bars of one standard deviation of a "
    "trial, that end at a tenth of a positive mean",
    BANDS["quantiles"]: "means over trials, and bands or bars from the 10 to the 90 % quantile",
    "failures ± standard error": "shares of trials that failed, and bands of one standard error",
    "median, 10–90 % of trials": "medians over trials, and bands from the 10 to the 90 % quantile",
    "10 to the 90 %": "medians over trials, and bands from the 10 to the 90 % quantile",
}


def figure_caption(figure: "Figure", results: Results) -> str:
    """Return a caption: what is shown, axes with units, bands, methods, trials, rounds, seed, data.

    Args:
      figure: as the experiment draws it, before it has a style.
      results: what it shows.
    """
    config = results.config
    opening = f"{config['title']} (experiment {config['experiment']})"
    data = str(config.get("data", "drawn"))
    drawn = "data are drawn anew in every trial" if data == "drawn" else f"data: {data}"
    closing = [f"{results.run_in_words}; {drawn}"]
    if config.get("paper"):
        closing.append(f"After {config['paper']}")
    return _joined([opening, *_panels(figure), *_bands(figure), *_legends(figure), *closing])


def titled_caption(figure: "Figure") -> str:
    """Return the caption of a figure whose title says what it shows: title, axes, legends.

    Args:
      figure: as it was drawn, before it has a style.
    """
    return _joined(
        [*map(plain, figure.get_suptitle().split("\n")), *_panels(figure), *_legends(figure)]
    )


def _panels(figure: "Figure") -> list[str]:
    """Return what every panel shows, with its letter where there are several."""
    panels = panels_of(figure)
    letters = [f"({letter}) " for letter in letters_of(len(panels))] if len(panels) > 1 else [""]
    return [start + _panel(axes, panels) for start, axes in zip(letters, panels, strict=False)]


def _bands(figure: "Figure") -> list[str]:
    """Return what the words for means and bands in titles stand for."""
    words = "\n".join(
        [axes.get_title() for axes in panels_of(figure)]
        + [legend.get_title().get_text() for legend in figure.legends]
    )
    bands = {meaning: f"“{said}”" for said, meaning in _BANDS.items() if said in words}
    return [f"{said} stands for {meaning}" for meaning, said in bands.items()]


def _legends(figure: "Figure") -> list[str]:
    """Return what the legends below the panels, or the names at the ends of lines, say."""
    ends = {plain(name.get_text()): None for axes in figure.axes for name in names_at_ends(axes)}
    sentences = [f"Lines: {'; '.join(ends)}"] if ends else []
    for legend in figure.legends:
        entries = "; ".join(plain(text.get_text()) for text in legend.get_texts())
        title = plain(legend.get_title().get_text())
        sentences.append(f"{title or 'Legend'}: {entries}")
    return sentences


def _joined(sentences: Iterable[str]) -> str:
    """Return sentences as one line; of a panel without words nothing is said."""
    return " ".join(_sentence(words) for words in sentences if words.strip()) + "\n"


def _panel(axes: "Axes", panels: "list[Axes]") -> str:
    """Return what a panel shows: its title and its axes, which it may share with others."""
    title = plain(axes.get_title())
    x, y = _label(axes, panels, "x"), _label(axes, panels, "y")
    logarithmic = [name for name in ("x", "y") if getattr(axes, f"get_{name}scale")() == "log"]
    scale = {
        ("x", "y"): ", both axes logarithmic",
        ("x",): ", horizontal axis logarithmic",
        ("y",): ", vertical axis logarithmic",
        (): "",
    }[tuple(logarithmic)]
    alike = axes.get_shared_y_axes().get_siblings(axes)
    names = [each.get_text() for one in (axes, *alike) for each in one.get_yticklabels()]
    if not y and any(map(str.isalpha, "".join(names))):
        y = "a row per method"
    shown = f"{y} against {x}" if x and y else x or y
    return (f"{title}: {shown}" if title and shown else title or shown) + scale


def _label(axes: "Axes", panels: "list[Axes]", direction: str) -> str:
    """Return what an axis is called; panels of a row or a column may name it once."""
    own = getattr(axes, f"get_{direction}label")()
    if own:
        return plain(own)
    shared = getattr(axes, f"get_shared_{direction}_axes")()
    spec = axes.get_subplotspec()
    for each in panels:
        other = each.get_subplotspec()
        if spec is None or other is None:
            continue
        aligned = (
            spec.colspan == other.colspan if direction == "x" else spec.rowspan == other.rowspan
        )
        below = direction == "y" or other.rowspan.start > spec.rowspan.start
        label = getattr(each, f"get_{direction}label")()
        if label and below and aligned and (direction == "x" or shared.joined(axes, each)):
            return plain(label)
    return ""


def plain(label: str) -> str:
    r"""Return a label as plain text, in one line: k^-1 for `$k^{-1}$`, a dollar for `\$`."""
    label = re.sub(r"\$k\^\{(.*?)\}\$", r"k^\1", label)
    return " ".join(label.replace(r"\$", "$").split())


def _sentence(words: str) -> str:
    words = words.strip()
    first = words.split(" ")[0]
    if first.isalpha() and first.islower() and len(first) > 1:  # y stays y
        words = words[0].upper() + words[1:]
    return words if words.endswith((".", "!", "?")) else f"{words}."
