"""A forest plot of paired differences: one row per method and swept value, and the line of zero."""

import math
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm.trials import files
from fedjax_admm.trials.figures._curves import cost_figure
from fedjax_admm.trials.figures._selection import everything
from fedjax_admm.trials.figures._style import (
    COLOURS,
    blank_figure,
    caption,
    distinct_styles,
    drawable,
    finish,
    metric_label,
    parameter_label,
    readable,
)
from fedjax_admm.trials.results import Comparison, Results, summarize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "pdf", "svg")

_NORMAL = 1.959963984540054  # the 97.5 % quantile of the normal distribution
# Of Student's distribution with 1, 2, ... degrees of freedom: a series is exact enough after them.
_FEW = (12.7062, 4.30265, 3.18245, 2.77645, 2.57058, 2.44691, 2.36462, 2.30600, 2.26216, 2.22814)
_APART = 100.0  # the largest difference beside the middle one, from which the axis is logarithmic
_ROW, _HEAD, _REST = 0.24, 0.3, 1.6  # inches: a row, a method's name, all else
_DOTS = 150
_TALLEST = 400.0  # inches


def half_width(standard_error: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Return half the width of a 95 % interval of a mean, by Student's distribution.

    `t(0.975; pairs - 1) * standard_error`; NaN where there are fewer than two pairs.

    Args:
      standard_error: of the means, any shape.
      pairs: how many numbers each mean is of, the same shape.
    """
    freedom = np.asarray(pairs) - 1
    z, v = _NORMAL, np.maximum(freedom, 1)
    series = z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
    series += (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    few = np.asarray(_FEW)[np.minimum(v, len(_FEW)) - 1]
    quantile = np.where(freedom < 1, np.nan, np.where(v <= len(_FEW), few, series))
    return quantile * np.asarray(standard_error)


def differences_figure(comparison: Comparison) -> "Figure":
    """Draw paired differences, their standard errors (thick) and 95 % intervals (thin).

    The axis is logarithmic on both sides of zero where one difference would hide the others.
    """
    groups = [
        (method, list(rows)) for method, rows in groupby(comparison.rows, lambda row: row.method)
    ]
    height = _REST + sum(_HEAD + _ROW * len(rows) for _, rows in groups)
    figure = blank_figure(7.5, min(height, _TALLEST))
    axes = figure.subplots()
    axes.axvline(0, color="0.4", linewidth=1, zorder=0)
    styles = distinct_styles(method for method, _ in groups)
    ticks: dict[float, tuple[str, str]] = {}  # place -> text and weight
    place = 0.0
    for method, rows in groups:
        ticks[place] = readable(method), "bold"
        places = place + 1 + np.arange(len(rows))
        ticks |= {at: (f"{row.value:g}", "normal") for at, row in zip(places, rows, strict=True)}
        table = [row.difference for row in rows]
        mean = drawable(np.array([each.mean for each in table]))
        error = drawable(np.array([each.standard_error for each in table]))
        wide = half_width(error, np.array([each.trials for each in table]))
        colour = styles[method]["color"]
        axes.hlines(places, mean - wide, mean + wide, color=colour, linewidth=1)
        axes.hlines(places, mean - error, mean + error, color=colour, linewidth=3.5)
        axes.plot(
            mean,
            places,
            label=readable(method),
            color=colour,
            marker=styles[method]["marker"],
            linestyle="none",
            markersize=5,
            markeredgecolor="white",
            markeredgewidth=0.6,
        )
        place += len(rows) + 1 + (_HEAD - _ROW) / _ROW
    axes.set_yticks(list(ticks), [text for text, _ in ticks.values()])
    for label, (_, weight) in zip(axes.get_yticklabels(), ticks.values(), strict=True):
        label.set_fontweight(weight)
    axes.set_ylim(place - 0.5, -0.8)
    axes.tick_params("y", length=0)
    axes.grid(True, axis="x", linewidth=0.4, alpha=0.6)
    how = _spread(axes, np.array([row.difference.mean for row in comparison.rows]))
    axes.set_xlabel(
        f"{caption(f'difference in {comparison.label}')}{how}\n"
        "left of zero is smaller; thick: standard error, thin: 95 % interval",
        fontsize=9,
    )
    axes.set_ylabel(caption(comparison.parameter), fontsize=9)
    figure.suptitle(caption(comparison.title, 2 * 80).replace("; ", "\n"), fontsize=10)
    return figure


def _spread(axes, means: np.ndarray) -> str:
    """Make the axis logarithmic on both sides of zero where it has to be; say so."""
    sizes = np.abs(drawable(means))
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    if not sizes.size or np.max(sizes) <= _APART * np.median(sizes):
        return ""
    linear = 10.0 ** math.floor(math.log10(np.min(sizes[sizes >= np.median(sizes) / _APART])))
    axes.set_xscale("symlog", linthresh=linear)
    return f" (logarithmic beyond ±{linear:g})"


def save_picture(figure: "Figure", path: Path) -> None:
    """Write a figure as one file, atomically, in the format that its name ends with."""
    kind = picture_format(path)
    about = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}[kind]
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "fedjax-admm"}):  # the same bytes every time
        files.write_atomically(
            path, lambda file: figure.savefig(file, format=kind, dpi=_DOTS, metadata=about)
        )


def paired_figure(results: Results, *, metric: str) -> "Figure":
    """Draw the differences of all methods from the first in the last record, paired by trial.

    A panel per swept value has means, one standard error (thick) and 95 % intervals (thin). Where
    everything is drawn, the metric is drawn against its costs instead.
    """
    if everything(results):
        return cost_figure(results, metric=metric)
    first, *others = results.methods
    figure = blank_figure(2.8 + 3.9 * len(results.sweep), 2.2 + 0.42 * len(others))
    panels = figure.subplots(1, len(results.sweep), sharey=True, squeeze=False)[0]
    rows = np.arange(len(others))[::-1]
    for i, (axes, value) in enumerate(zip(panels, results.sweep, strict=True)):
        last = {name: results.values(name, metric)[i, :, -1] for name in results.methods}
        with np.errstate(over="ignore", invalid="ignore"):
            apart = np.stack([last[name] - last[first] for name in others])
        table = summarize(apart, axis=1)
        mean, error = drawable(table.mean), drawable(table.standard_error)
        wide = half_width(error, table.trials - table.nonfinite)
        axes.axvline(0, color="0.4", linewidth=1, zorder=0)
        axes.hlines(rows, mean - wide, mean + wide, color=COLOURS[0], linewidth=1)
        axes.hlines(rows, mean - error, mean + error, color=COLOURS[0], linewidth=3.5)
        axes.plot(mean, rows, "o", color=COLOURS[0], markeredgecolor="white")
        words = "mean, standard error (thick), 95 % interval (thin)"
        axes.set_title(f"{parameter_label(results)}: {value:g}\n{words}", fontsize=9)
        axes.set_xlabel(f"{metric_label(results, metric)},\nminus that of {readable(first)}")
        axes.margins(y=0.15)
    panels[0].set_yticks(rows, list(map(readable, others)))
    finish(figure, results, {})
    return figure


def picture_format(path: Path) -> str:
    """Return the format that a picture's name asks for: one of `FORMATS`."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise InputError(
            f"must end in .png, .pdf or .svg, but it is {path.name!r}",
            argument="picture",
            value=path,
        )
    return kind
