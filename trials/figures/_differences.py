"""A forest plot of paired differences: one row per method and swept value, and the line of zero."""

from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_admm.trials.figures import _lines, _style
from fedjax_admm.trials.figures._curves import cost_figure
from fedjax_admm.trials.results import Comparison, Results, summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_APART = 100.0  # the largest difference beside the middle one, from which the axis is logarithmic
_ROW, _HEAD, _REST = 0.24, 0.3, 1.6  # inches: a row, a method's name, all else
_TALLEST = 400.0  # inches


def half_width(standard_error: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Return half the width of a 95 % interval of a mean, by Student's distribution.

    `t(0.975; pairs - 1) * standard_error`; NaN where there are fewer than two pairs.

    Args:
      standard_error: of the means, any shape.
      pairs: how many numbers each mean is of, the same shape.
    """
    from scipy.special import stdtrit  # takes a while

    return stdtrit(np.where(np.asarray(pairs) > 1, np.asarray(pairs) - 1.0, np.nan), 0.975) * (
        np.asarray(standard_error)
    )


def _draw_intervals(
    axes: "Axes", rows: np.ndarray, mean: Any, error: Any, pairs: Any, colour: str, **look: Any
) -> None:
    """Draw means, their standard errors (thick) and 95 % intervals (thin)."""
    mean, error = _style.drawable(mean), _style.drawable(error)
    wide = half_width(error, np.asarray(pairs))
    axes.hlines(rows, mean - wide, mean + wide, color=colour, linewidth=1)
    axes.hlines(rows, mean - error, mean + error, color=colour, linewidth=3.5)
    axes.plot(mean, rows, linestyle="none", color=colour, markeredgecolor="white", **look)


def differences_figure(comparison: Comparison) -> "Figure":
    """Draw paired differences, their standard errors (thick) and 95 % intervals (thin).

    The axis is logarithmic on both sides of zero where one difference would hide the others.
    """
    names = list(dict.fromkeys(row.method for row in comparison.rows))
    groups = {name: [row for row in comparison.rows if row.method == name] for name in names}
    height = _REST + _HEAD * len(groups) + _ROW * len(comparison.rows)
    figure = _style.blank_figure(7.5, min(height, _TALLEST))
    axes = figure.subplots()
    axes.axvline(0, color="0.4", linewidth=1, zorder=0)
    ticks: dict[float, str] = {}
    for (method, style), rows in zip(
        _style.distinct_styles(groups).items(), groups.values(), strict=True
    ):
        place = max(ticks, default=-_HEAD / _ROW) + _HEAD / _ROW
        places = place + 1 + np.arange(len(rows))
        ticks |= {place: _style.readable(method)}
        ticks |= {at: f"{row.value:g}" for at, row in zip(places, rows, strict=True)}
        look = {"label": _style.readable(method), "marker": style["marker"], "markersize": 5}
        table = [row.difference for row in rows]
        mean, error, pairs = (
            np.array([getattr(each, name) for each in table])
            for name in ("mean", "standard_error", "trials")
        )
        _draw_intervals(axes, places, mean, error, pairs, style["color"], **look)
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.set_ylim(max(ticks) + 0.6, -0.8)
    axes.tick_params("y", length=0)
    axes.grid(True, axis="x", linewidth=0.4, alpha=0.6)
    sizes = np.abs(_style.drawable([row.difference.mean for row in comparison.rows]))
    sizes, how = sizes[sizes > 0], ""  # without NaN
    if sizes.size and np.max(sizes) > _APART * (middle := np.median(sizes)):
        axes.set_xscale("symlog", linthresh=middle)
        how = f" (logarithmic beyond ±{middle:.1g})"
    axes.set_xlabel(
        f"{_style.caption(f'difference in {comparison.label}')}{how}\n"
        "left of zero is smaller; thick: standard error, thin: 95 % interval"
    )
    axes.set_ylabel(_style.caption(comparison.parameter))
    figure.suptitle(_style.caption(comparison.title, 2 * 80).replace("; ", "\n"), fontsize=10)
    return figure


def paired_figure(results: Results, *, metric: str) -> "Figure":
    """Draw the differences of all methods from the first in the last record, paired by trial.

    A panel per swept value has means, one standard error (thick) and 95 % intervals (thin). Where
    everything is drawn, the metric is drawn against its costs instead.
    """
    if _lines.everything(results):
        return cost_figure(results, metric=metric)
    first, *others = results.methods
    figure = _style.blank_figure(2.8 + 3.9 * len(results.sweep), 2.2 + 0.42 * len(others))
    panels = figure.subplots(1, len(results.sweep), sharey=True, squeeze=False)[0]
    rows = np.arange(len(others))[::-1]
    for i, (axes, value) in enumerate(zip(panels, results.sweep, strict=True)):
        last = np.stack([results.values(name, metric)[i, :, -1] for name in results.methods])
        with np.errstate(over="ignore", invalid="ignore"):
            table = summarize(last[1:] - last[:1], axis=1)
        axes.axvline(0, color="0.4", linewidth=1, zorder=0)
        numbers = (table.mean, table.standard_error, table.trials - table.nonfinite)
        _draw_intervals(axes, rows, *numbers, _style.COLOURS[0], marker="o")
        words = "mean, standard error (thick), 95 % interval (thin)"
        axes.set_title(f"{_style.parameter_label(results)}: {value:g}\n{words}")
        axes.set_xlabel(
            f"{_style.metric_label(results, metric)},\nminus that of {_style.readable(first)}"
        )
        axes.margins(y=0.15)
    panels[0].set_yticks(rows, list(map(_style.readable, others)))
    return _style.finish(figure, results)
