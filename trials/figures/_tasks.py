"""Figures of several tasks side by side, in decibels.

A method's name says its task before a colon: "ridge: zCDP-NFL". Each task has a column of its own;
a method looks the same in all of them.
"""

import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm.trials.figures._bands import with_quantiles
from fedjax_admm.trials.figures._selection import everything
from fedjax_admm.trials.figures._style import (
    blank_figure,
    distinct_styles,
    finish,
    line_with_band,
    logarithmic_along,
    metric_label,
    parameter_label,
    readable,
    tick_values,
    width_of,
)
from fedjax_admm.trials.results import Results, summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SEPARATOR = ": "
"""What stands between the task and the method in a method's name."""


def task_curves_figure(
    results: Results,
    *,
    metric: str,
    title: Callable[[float], str],
    floor: float = -np.inf,
    logarithmic: bool = False,
) -> "Figure":
    """Draw a metric in dB against rounds: a column per task, at the last swept value.

    Where everything is drawn there is a row per swept value.

    Args:
      results: of a finished run.
      metric: its median over trials, with a band from the 10 to the 90 % quantile.
      title: swept value -> what to call its row.
      floor: in dB; what is smaller is drawn there.
      logarithmic: whether rounds are spread evenly in their logarithms.
    """
    tasks = tasks_in(results)
    first = 0 if everything(results) else len(results.sweep) - 1
    shape = (len(results.sweep) - first, len(tasks))
    figure = blank_figure(width_of(shape[1]), 1.6 + 3.2 * shape[0])
    grid = figure.subplots(*shape, sharex=True, sharey="row", squeeze=False)
    styles = distinct_styles(bare_names(results))
    for row, (value, line) in enumerate(zip(results.sweep[first:], grid, strict=True), first):
        for axes, (task, methods) in zip(line, tasks.items(), strict=True):
            for bare, name in methods.items():
                if results.has(name, metric):
                    values = results.values(name, metric)[row]
                    _band(axes, results.rounds, values, bare, styles[bare], floor)
            if logarithmic:
                logarithmic_along(axes)
            axes.set_title(f"{readable(task)}, {title(float(value))}", fontsize=10)
        line[0].set_ylabel(_decibels(results, metric))
    for axes in grid[-1]:
        axes.set_xlabel("iteration")
    _finish(figure, results, grid, floor)
    return figure


def task_sweep_figure(
    results: Results, *, metric: str, floor: float = -np.inf, logarithmic: bool = True
) -> "Figure":
    """Draw the last record of a metric in dB against the swept number, a column per task.

    Args:
      results: of a finished run.
      metric: its median over trials, with a band from the 10 to the 90 % quantile.
      floor: in dB; what is smaller is drawn there.
      logarithmic: whether the swept numbers are spread evenly in their logarithms.
    """
    tasks = tasks_in(results)
    figure = blank_figure(width_of(len(tasks)), 4.8)
    grid = figure.subplots(1, len(tasks), sharey=True, squeeze=False)
    styles = distinct_styles(bare_names(results))
    for axes, (task, methods) in zip(grid[0], tasks.items(), strict=True):
        for bare, name in methods.items():
            if results.has(name, metric):
                values = results.values(name, metric)[:, :, -1].T
                _band(axes, results.sweep, values, bare, styles[bare], floor)
        if logarithmic:
            tick_values(axes, results)
        axes.set_title(readable(task), fontsize=10)
        axes.set_xlabel(parameter_label(results))
    grid[0, 0].set_ylabel(_decibels(results, metric))
    _finish(figure, results, grid, floor)
    return figure


def tasks_in(results: Results) -> dict[str, dict[str, str]]:
    """Return task -> bare name -> name of the method."""
    tasks: dict[str, dict[str, str]] = {}
    for name in results.methods:
        task, separator, bare = name.partition(SEPARATOR)
        if not separator:
            raise InputError(
                f"a method of several tasks is called TASK{SEPARATOR}NAME, but one is {name!r}",
                value=name,
            )
        tasks.setdefault(task, {})[bare] = name
    return tasks


def bare_names(results: Results) -> list[str]:
    """Return the methods' names without their tasks, each once."""
    return list(dict.fromkeys(bare for methods in tasks_in(results).values() for bare in methods))


def _band(
    axes: "Axes", x: np.ndarray, values: np.ndarray, label: str, style: dict, floor: float
) -> None:
    """Draw median and quantiles over the first axis, in dB."""
    # Where rounding has made a gap negative or zero, it is at the floor; without one it has no
    # decibels and is not drawn.
    statistics = with_quantiles(summarize(values, axis=0))
    middle, low, high = (_in_decibels(part, floor) for part in statistics)
    line_with_band(axes, x, middle, low, high, label, style)


def _in_decibels(values: np.ndarray, floor: float) -> np.ndarray:
    least = 10 ** (floor / 10)
    raised = np.maximum(values, least) if least else np.where(values > 0, values, np.nan)
    return 10 * np.log10(raised)


def _decibels(results: Results, metric: str) -> str:
    """Return what stands beside an axis, in lines that are no longer than it."""
    label = f"{metric_label(results, metric)} (dB)"
    return label if "$" in label else textwrap.fill(label, 36)  # a formula stays whole


def _finish(figure: "Figure", results: Results, grid: np.ndarray, floor: float) -> None:
    """Add one legend of all methods, whichever task they appear in."""
    lines = {line.get_label(): line for axes in grid.flat for line in axes.lines}
    note = "median over trials, band from the 10 to the 90 % quantile"
    if np.isfinite(floor):
        note += f"; what is below {floor:g} dB is drawn there"
    finish(figure, results, lines, legend_title=note)
