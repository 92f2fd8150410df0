"""Captions: what a figure shows, in words that can stand below it in a paper."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from fedjax_admm.trials.figures._choices import BANDS
from fedjax_admm.trials.figures._layout import letters_of, panels_of
from fedjax_admm.trials.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MEANS = "means over trials, and bands or bars"
_MEDIANS = "medians over trials, and bands from the 10 to the 90 % quantile"
_BANDS = {
    BANDS["errors"]: f"{_MEANS} of one standard error of the mean",
    BANDS["deviations"]: f"{_MEANS} of one standard deviation of a trial, that end at a tenth of a "
    "positive mean",
    BANDS["quantiles"]: f"{_MEANS} from the 10 to the 90 % quantile",
    "failures ± standard error": "shares of trials that failed, and bands of one standard error",
    "median, 10–90 % of trials": _MEDIANS,
}


def figure_caption(figure: "Figure", results: Results) -> str:
    """Return a caption: what is shown, axes with units, bands, methods, trials, rounds, seed, data.

    Args:
      figure: as the experiment draws it, before it has a style.
      results: what it shows.
    """
    config = results.config
    data = str(config.get("data", "drawn"))
    drawn = "data are drawn anew in every trial" if data == "drawn" else f"data: {data}"
    panels, legends = _panels(figure), _legends(figure)
    shown = "\n".join([*panels, *legends])
    return _joined(
        [
            f"{config['title']} (experiment {config['experiment']})",
            *panels,
            *(
                f"“{said}” stands for {meaning}"
                for said, meaning in _BANDS.items()
                if said in shown
            ),
            *legends,
            f"{results.run_in_words}; {drawn}",
            f"After {config['paper']}" if config.get("paper") else "",
        ]
    )


def titled_caption(figure: "Figure") -> str:
    """Return the caption of a figure whose title says what it shows: title, axes, legends.

    Args:
      figure: as it was drawn, before it has a style.
    """
    return _joined([*figure.get_suptitle().split("\n"), *_panels(figure), *_legends(figure)])


def _panels(figure: "Figure") -> list[str]:
    """Return what every panel shows, with its letter where there are several."""
    panels = panels_of(figure)
    letters = [f"({letter}) " for letter in letters_of(len(panels))] if len(panels) > 1 else [""]
    return [start + _panel(axes) for start, axes in zip(letters, panels, strict=False)]


def _panel(axes: "Axes") -> str:
    """Return what a panel shows: its title and its axes."""
    x, y = axes.get_xlabel(), axes.get_ylabel()
    if not y and any(map(str.isalpha, "".join(each.get_text() for each in axes.get_yticklabels()))):
        y = "a row per method"
    shown = f"{y} against {x}" if x and y else x or y
    scales = {"horizontal": axes.get_xscale(), "vertical": axes.get_yscale()}
    logs = [name for name, scale in scales.items() if scale == "log"]
    scale = {0: "", 1: f", {''.join(logs)} axis logarithmic", 2: ", both axes logarithmic"}
    return ": ".join(filter(None, (axes.get_title(), shown))) + scale[len(logs)]


def _legends(figure: "Figure") -> list[str]:
    """Return what the legends below the panels say."""
    return [
        f"{legend.get_title().get_text() or 'Legend'}: "
        + "; ".join(text.get_text() for text in legend.get_texts())
        for legend in figure.legends
    ]


def _joined(sentences: Iterable[str]) -> str:
    r"""Return sentences as plain text in one line: k^-1 for `$k^{-1}$`, a dollar for `\$`."""
    line = " ".join(_sentence(words.strip()) for words in sentences if words.strip())
    line = re.sub(r"\$k\^\{(.*?)\}\$", r"k^\1", line)
    return " ".join(line.replace(r"\$", "$").split()) + "\n"


def _sentence(words: str) -> str:
    first = words.split(" ")[0]
    if first.isalpha() and first.islower() and len(first) > 1:  # y stays y
        words = words[0].upper() + words[1:]
    return words if words.endswith((".", "!", "?")) else f"{words}."
