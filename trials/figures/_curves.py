"""Figures of metrics against rounds, and against what the rounds cost."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedjax_admm.trials.figures._bands import mean_band, mean_words, with_quantiles
from fedjax_admm.trials.figures._looks._ends import label_ends
from fedjax_admm.trials.figures._selection import everything
from fedjax_admm.trials.figures._style import (
    WIDEST,
    blank_figure,
    distinct_styles,
    draw_line,
    family_styles,
    finish,
    line_with_band,
    logarithmic,
    logarithmic_along,
    metric_label,
    parameter_label,
    readable,
    width_of,
)
from fedjax_admm.trials.results import Results, summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def curve_figure(results: Results, *, metric: str, heavy: bool = False) -> "Figure":
    """Draw a metric against rounds, its median too, and the mean against numbers sent.

    Args:
      results: of a run.
      metric: what is drawn.
      heavy: whether tails are heavy: medians have bands then, and means if they are asked for.
    """
    figure = blank_figure(WIDEST, 5)
    panels = figure.subplots(1, 3)
    draw_curves(panels, results, metric, "none" if heavy else "errors")
    finish(figure, results, panels[0])
    return figure


def draw_curves(
    panels: "Sequence[Axes]", results: Results, metric: str, bands: str = "errors"
) -> None:
    """Draw mean and median against rounds, and the mean against numbers sent, in three panels."""
    mean, median, traffic = panels
    label = metric_label(results, metric)
    for name, style in family_styles(results.methods).items():
        if not results.has(name, metric):
            continue
        table = summarize(results.values(name, metric)[0], axis=0)
        line_with_band(mean, results.rounds, *mean_band(results, table, bands), name, style)
        if bands == "none":
            line_with_band(median, results.rounds, *with_quantiles(table), name, style)
        else:  # without a band: those of ten methods would cover each other
            draw_line(median, results.rounds, table.median, name, style)
        if results.has(name, "numbers_up"):
            total = summarize(results.values(name, "numbers_up")[0], axis=0).mean
            line_with_band(traffic, total, *mean_band(results, table, bands), name, style)
    middle = "median, 10–90 % of trials" if bands == "none" else "median"
    for axes, title in ((mean, mean_words(results, bands)), (median, middle)):
        axes.set_xlabel("global round")
        axes.set_title(title)
    traffic.set_xlabel(metric_label(results, "numbers_up"))
    traffic.set_title("mean against traffic")
    for axes in (mean, median, traffic):
        logarithmic(axes, rounds=True)
        axes.set_ylabel(label)


def cost_figure(results: Results, *, metric: str) -> "Figure":
    """Draw a metric against what it costs: rounds, local passes, numbers sent.

    It is drawn at the first swept value, or in a row per value where everything is drawn.
    """
    rows = len(results.sweep) if everything(results) else 1
    figure = blank_figure(WIDEST, 0.8 + 4 * rows)
    grid = figure.subplots(rows, 3, sharey="row", squeeze=False)
    for name, style in family_styles(results.methods).items():
        passes = summarize(results.values(name, "passes"), axis=1).mean
        costs = (results.rounds, passes, _numbers_sent(results, name))
        for row, values in enumerate(results.values(name, metric)[:rows]):
            table = summarize(values, axis=0)
            for axes, cost in zip(grid[row], costs, strict=True):
                along = np.broadcast_to(cost, (len(results.sweep), len(results.rounds)))[row]
                line_with_band(axes, along, *mean_band(results, table), name, style)
    for row, value in zip(grid, results.sweep, strict=False):
        for axes in row:
            logarithmic(axes, rounds=True)
            axes.set_title(f"{parameter_label(results)}: {value:g}, {mean_words(results)}")
        row[0].set_ylabel(metric_label(results, metric))
    labels = ("global round", metric_label(results, "passes"), "numbers sent, up and down")
    for axes, label in zip(grid[-1], labels, strict=True):
        axes.set_xlabel(label)
    finish(figure, results, grid[0, 0])
    return figure


def curves_by_method_figure(results: Results, *, metric: str) -> "Figure":
    """Draw a metric's median against rounds: one column per method, one line per swept value.

    Where everything is drawn a row above has the means.
    """
    names = [name for name in results.methods if results.has(name, metric)]
    rows = 1 + everything(results)
    figure = blank_figure(width_of(len(names), 3.6), 1.2 + 2.6 * rows)
    grid = figure.subplots(rows, len(names), sharex=True, sharey=True, squeeze=False)
    label = metric_label(results, metric)
    styles = list(family_styles(map(str, range(len(results.sweep)))).values())
    for column, name in enumerate(names):
        values = results.values(name, metric)
        for row, value, style in zip(values, results.sweep, styles, strict=True):
            table = summarize(row, axis=0)
            bands = (mean_band(results, table), with_quantiles(table))[-rows:]
            for axes, band in zip(grid[:, column], bands, strict=True):
                line_with_band(axes, results.rounds, *band, f"{value:g}", style)
        grid[0, column].set_title(f"{readable(name)}\n{mean_words(results)}", fontsize=10)
        grid[-1, column].set_title(f"{readable(name)}\nmedian, 10–90 % of trials", fontsize=10)
        grid[-1, column].set_xlabel("global round")
    for axes in grid.flat:
        logarithmic(axes, rounds=True)
    for axes in grid[:, 0]:
        axes.set_ylabel(label)
    finish(figure, results, grid[0, 0], legend_title=parameter_label(results))
    return figure


def progress_figure(results: Results) -> "Figure":
    """Draw the error against rounds and against numbers sent; methods that send nothing are levels.

    Where everything is drawn there are a fresh error, the objective, the training error, and the
    error against seconds too.

    Args:
      results: with the metrics error, fresh_error, training_error and objective, as far as a method
        has them, and the seconds per round of every method that sends something as details. The
        first swept value is drawn.
    """
    sent, clock = "numbers sent, up and down", "seconds on this machine, evaluation left out"
    if everything(results):
        figure = blank_figure(14.5, 8.6)
        panels = figure.subplots(2, 3).ravel()
        metrics = ("error", "fresh_error", "objective", "training_error", "error", "error")
        costs = ("global round",) * 4 + (sent, clock)
    else:
        figure = blank_figure(11.5, 4.6)
        panels = figure.subplots(1, 2, sharey=True)
        metrics, costs = ("error", "error"), ("global round", sent)
    styles = distinct_styles(results.methods)
    for axes, metric, cost in zip(panels, metrics, costs, strict=True):
        for name, style in styles.items():
            if not results.has(name, metric):
                continue
            table = summarize(results.values(name, metric)[0], axis=0)
            if not results.has(name, "numbers_up"):
                level = {key: style[key] for key in ("color", "linestyle")}
                axes.axhline(table.mean[-1], label=readable(name), linewidth=1.4, **level)
                continue
            along = {
                "global round": results.rounds,
                sent: _numbers_sent(results, name)[0],
                clock: results.rounds * float(results.detail(name)),
            }
            line_with_band(axes, along[cost], *mean_band(results, table), name, style)
        axes.set_xlabel(cost)
        axes.set_ylabel(metric_label(results, metric))
        axes.set_title(mean_words(results), fontsize=10)
        if cost != "global round":
            logarithmic_along(axes)
    if not everything(results):
        label_ends(panels[-1])
        panels[-1].set_ylabel("")
    finish(figure, results, panels[0])
    return figure


def _numbers_sent(results: Results, method: str) -> np.ndarray:
    """Return the mean numbers sent both ways, shape (sweep, round)."""
    up, down = (results.values(method, f"numbers_{way}") for way in ("up", "down"))
    with np.errstate(over="ignore"):
        return summarize(up, axis=1).mean + summarize(down, axis=1).mean
