"""Figures of many methods on several tasks: what is reached for what it costs.

A method's name says its task before a colon, as in the figures of several tasks.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedjax_admm.trials.figures._bands import mean_band, mean_words
from fedjax_admm.trials.figures._looks._ends import label_ends
from fedjax_admm.trials.figures._selection import everything
from fedjax_admm.trials.figures._style import (
    blank_figure,
    distinct_styles,
    draw_line,
    few_panels,
    finish,
    label_left,
    line_with_band,
    logarithmic,
    logarithmic_along,
    metric_label,
    parameter_label,
    readable,
    solver_styles,
)
from fedjax_admm.trials.figures._tasks import bare_names, tasks_in
from fedjax_admm.trials.results import Results, summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COSTS = ("global round", "numbers sent, up and down", "gradients of single samples")


def peers_figure(
    results: Results, *, metric: str, tasks: Sequence[str] = (), swept: bool = True
) -> "Figure":
    """Draw a metric's end against all swept values, or its course against rounds: a panel per task.

    Where everything is drawn a column per task has the metric against its costs at the first swept
    value, and its end against all values.

    Args:
      results: of a finished run, with the metrics numbers_up, numbers_down and gradients.
      metric: means over trials; where values are swept, with a band.
      tasks: which have a panel where not everything is drawn; all if none is named.
      swept: whether a panel has the end against the swept values, not the course at the last one.
    """
    if everything(results):
        return _costs_figure(results, metric)
    found = {task: methods for task, methods in tasks_in(results).items() if task in tasks}
    found = found or tasks_in(results)
    figure, panels = few_panels(len(found))
    styles = solver_styles(bare_names(results))
    swept = swept and len(results.sweep) > 1
    places = np.arange(len(results.sweep)) if swept else results.rounds
    for axes, (task, methods) in zip(panels, found.items(), strict=True):
        for bare, name in methods.items():
            values = results.values(name, metric)
            drawn = (values[:, :, -1], 1) if swept else (values[-1], 0)
            band = mean_band(results, summarize(*drawn))
            line_with_band(axes, places, *band, bare, styles[bare])
        if swept:
            _label_values(axes, results, task)
        else:
            axes.set_xlabel("global round")
            value = f"{parameter_label(results)}: {results.sweep[-1]:g}"
            axes.set_title(f"{readable(task)}, {mean_words(results)}\n{value}", fontsize=9)
        logarithmic(axes, rounds=not swept)
        label_ends(axes)
    label_left(panels, metric_label(results, metric))
    finish(figure, results, panels[0])
    return figure


def _costs_figure(results: Results, metric: str) -> "Figure":
    """Draw a metric against its costs at the first swept value, and its end against all values."""
    tasks = tasks_in(results)
    swept = len(results.sweep) > 1
    rows = len(_COSTS) + swept
    figure = blank_figure(4.8 * len(tasks), 1.6 + 3.1 * rows)
    grid = figure.subplots(rows, len(tasks), sharey="row", squeeze=False)
    styles = distinct_styles(bare_names(results))
    first = f"{parameter_label(results)}: {results.sweep[0]:g}"
    for column, (task, methods) in enumerate(tasks.items()):
        for bare, name in methods.items():
            middle = summarize(results.values(name, metric)[0], axis=0).mean
            for axes, along in zip(grid[:, column], _costs(results, name), strict=False):
                # Without bands: those of twelve methods would cover each other.
                draw_line(axes, along, middle, bare, styles[bare])
            if swept:
                table = summarize(results.values(name, metric)[:, :, -1], axis=1)
                places = np.arange(len(results.sweep))
                band = mean_band(results, table)
                line_with_band(grid[-1, column], places, *band, bare, styles[bare])
        for axes, cost in zip(grid[:, column], _COSTS, strict=False):
            axes.set_title(
                f"{readable(task)}, mean\n{first}" if axes is grid[0, column] else readable(task),
                fontsize=9,
            )
            axes.set_xlabel(cost)
        if swept:
            _label_values(grid[-1, column], results, task)
    for axes in grid.flat:
        logarithmic(axes)
    for axes in grid[: len(_COSTS)].flat:
        if logarithmic_along(axes):
            axes.xaxis.set_minor_formatter("")
    for axes in grid[:, 0]:
        axes.set_ylabel(metric_label(results, metric))
    lines = {line.get_label(): line for axes in grid.flat for line in axes.lines}
    finish(figure, results, lines)
    return figure


def _costs(results: Results, name: str) -> tuple[np.ndarray, ...]:
    """Return rounds, numbers sent and gradients at the first swept value, each (round,)."""
    up, down, gradients = (
        summarize(results.values(name, cost)[0], axis=0).mean
        for cost in ("numbers_up", "numbers_down", "gradients")
    )
    with np.errstate(over="ignore"):
        return results.rounds, up + down, gradients


def _label_values(axes: "Axes", results: Results, task: str) -> None:
    axes.set_xticks(np.arange(len(results.sweep)), [f"{value:g}" for value in results.sweep])
    axes.set_xlabel(parameter_label(results))
    axes.set_title(f"{readable(task)}, last round, {mean_words(results)}", fontsize=9)
