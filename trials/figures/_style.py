"""How figures of results look: palette, bands, axes with units; readable in black and white.

Methods differ in colour, line and marker at once. The part of a method's name before a comma is
its family: members of a family share the colour.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from fedjax_admm.trials import files
from fedjax_admm.trials.results import Results, Summary

# Okabe and Ito's palette: distinct for colour-blind readers, and in lightness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000", "#56B4E9")
_LINES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "x", "P")
_ROUNDING = 1e-3  # a share of the largest number drawn
_MARKER_DISTANCE = 0.12  # along a curve, as a share of the diagonal of the axes


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
    """Give each name a colour of its own, a line and a marker."""
    return {
        name: {**style, "color": COLOURS[i % len(COLOURS)]}
        for i, (name, style) in enumerate(family_styles(names).items())
    }


def line_with_band(
    axes: Axes,
    x: np.ndarray,
    middle: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    label: str,
    style: dict[str, Any],
) -> None:
    """Draw a line and its band."""
    draw_line(axes, x, middle, label, style)
    axes.fill_between(x, low, high, color=style["color"], alpha=0.12, linewidth=0)


def with_error(table: Summary) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean, and one standard error below and above it."""
    return table.mean, table.mean - table.standard_error, table.mean + table.standard_error


def with_quantiles(table: Summary) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the median, and the 10 and 90 % quantiles."""
    return table.median, table.q10, table.q90


def deviation(table: Summary) -> np.ndarray:
    """Return the standard deviation of a trial, not of the mean."""
    return table.standard_error * np.sqrt(table.trials - table.nonfinite)


def draw_line(axes: Axes, x: np.ndarray, y: np.ndarray, label: str, style: dict[str, Any]) -> None:
    """Draw a line; a long one has markers at equal distances on the page."""
    # Staggered, so that the markers of equal lines do not hide each other.
    first = _MARKER_DISTANCE * (len(axes.lines) % 5) / 5
    every = 1 if len(x) <= 25 else (first, _MARKER_DISTANCE)
    axes.plot(x, y, label=readable(label), markersize=4, markevery=every, linewidth=1.4, **style)


def logarithmic(axes: Axes, *, rounds: bool = False) -> None:
    """Make the vertical axis logarithmic, and the horizontal one too where it counts rounds.

    Numbers that are negative by more than rounding, as an objective may be, keep it linear.
    """
    drawn = [np.asarray(line.get_ydata(), np.float64) for line in axes.lines]
    numbers = np.concatenate([values[np.isfinite(values)] for values in drawn] or [np.zeros(0)])
    least, largest = np.min(numbers, initial=0), np.max(numbers, initial=0)
    # Errors may all be zero: matplotlib warns of a logarithmic axis without positive numbers.
    if largest > 0 and -least <= _ROUNDING * largest:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(_PlainNumbers())
        axes.yaxis.set_minor_formatter(_PlainNumbers(minor_thresholds=(2.5, 0.4)))
    if rounds:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(_PlainNumbers())
        axes.xaxis.set_minor_formatter(_PlainNumbers())


def tick_values(axes: Axes, results: Results) -> None:
    """Spread the swept numbers evenly in their logarithms, each with a tick of its own."""
    axes.set_xscale("log")
    axes.set_xticks(results.sweep, [f"{value:g}" for value in results.sweep])
    axes.minorticks_off()


class _PlainNumbers(LogFormatter):
    """Labels of a logarithmic axis as 0.5, 2 and 10 instead of 5e-1, 2e0 and 10^1."""

    def __call__(self, x, pos=None):
        """Return the number where `LogFormatter` would label the tick."""
        return f"{x:g}" if super().__call__(x, pos) else ""


def readable(name: str) -> str:
    """Set powers of k in a method's name as powers."""
    return re.sub(r"k\^(-?[\d.]+)", r"$k^{\1}$", name)


def metric_label(results: Results, metric: str) -> str:
    """Return what a metric is called on an axis, with its unit."""
    return results.config["metrics"][metric]


def finish(
    figure: Figure,
    results: Results,
    shown: Axes | Mapping[str, Any],
    legend_title: str | None = None,
) -> None:
    """Add the grid lines, one legend below and the title that says what was run."""
    for each in figure.axes:
        each.grid(True, which="major", linewidth=0.4, alpha=0.6)
    if isinstance(shown, Axes):
        handles, labels = shown.get_legend_handles_labels()
    else:
        handles, labels = list(shown.values()), list(shown)
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=min(len(labels), 6),
        title=legend_title,
        frameon=False,
        fontsize=9,
    )
    config = results.config
    ran = f"{config['trials']} trials, {config['rounds']} rounds, seed {config['seed']}"
    data = config.get("data", "drawn")
    figure.suptitle(
        f"{config['experiment']}: {config['title']}\n"
        + (ran if data == "drawn" else f"{ran}; data: {data}"),
        fontsize=11,
    )


def save_figure(figure: Figure, folder: Path, name: str = "figure") -> None:
    """Write `name.png` and `name.pdf`, atomically."""
    for kind in ("png", "pdf"):
        files.write_atomically(
            folder / f"{name}.{kind}",
            lambda file, kind=kind: figure.savefig(file, format=kind, dpi=150),
        )
