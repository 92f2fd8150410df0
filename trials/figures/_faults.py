"""Figures of Byzantine senders and of late messages: tasks below or beside each other.

A method's name says its task before a colon, and among Byzantine senders the attack after the last
comma: "FSMDM: median, sign flip".
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm.trials.figures._bands import Band, mean_band, mean_words
from fedjax_admm.trials.figures._looks._ends import label_ends
from fedjax_admm.trials.figures._selection import everything
from fedjax_admm.trials.figures._style import (
    COLOURS,
    blank_figure,
    distinct_styles,
    draw_line,
    few_panels,
    finish,
    label_left,
    line_with_band,
    logarithmic,
    metric_label,
    parameter_label,
    readable,
    solver_styles,
)
from fedjax_admm.trials.figures._tasks import bare_names, tasks_in
from fedjax_admm.trials.results import Results, summarize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WORST = "worst of all attacks tried"


def attacks_figure(
    results: Results, *, metric: str, attacks: Sequence[str], leading: Sequence[str] = ()
) -> "Figure":
    """Draw the last record against the swept number: the largest mean of all attacks, by task.

    A last panel has the last of the attacks that are named, on the first task. Where everything is
    drawn there are a row per task, a column per attack, and a column of the largest mean.

    Args:
      results: of a finished run.
      metric: its mean over trials, with a band.
      attacks: which have a column.
      leading: tasks that have a panel where not everything is drawn; all if none is named.
    """
    tasks = {task: _by_aggregator(methods) for task, methods in tasks_in(results).items()}
    if not everything(results):
        few = {task: tasks[task] for task in leading if task in tasks} or tasks
        return _worst_figure(results, few, metric, attacks[-1])
    columns = (*attacks, _WORST)
    styles = _styles(dict.fromkeys(name for rules in tasks.values() for name in rules))
    shape = (len(tasks), len(columns))
    figure = blank_figure(4.2 * shape[1], 1.8 + 2.9 * shape[0])
    grid = figure.subplots(*shape, sharex=True, sharey="row", squeeze=False)
    for line, (task, rules) in zip(grid, tasks.items(), strict=True):
        for rule, names in rules.items():
            tables = {
                attack: summarize(results.values(name, metric)[:, :, -1], axis=1)
                for attack, name in names.items()
            }
            for axes, attack in zip(line, attacks, strict=False):
                if attack in tables:
                    shown = mean_band(results, tables[attack])
                    line_with_band(axes, results.sweep, *shown, rule, styles[rule])
            worst = np.max([table.mean for table in tables.values()], axis=0)
            draw_line(line[-1], results.sweep, worst, rule, styles[rule])
        for axes, column in zip(line, columns, strict=True):
            axes.set_title(f"{readable(task)}, {readable(column)}", fontsize=10)
            logarithmic(axes)
        line[0].set_ylabel(metric_label(results, metric), fontsize=9)
    for axes in grid[-1]:
        axes.set_xlabel(parameter_label(results))
    _finish(figure, results, grid, f"{mean_words(results)}; last column: the largest mean")
    return figure


def _worst_figure(
    results: Results, tasks: Mapping[str, Mapping], metric: str, attack: str
) -> "Figure":
    """Draw the largest mean of all attacks for every task, and one attack on the first task."""
    figure, panels = few_panels(len(tasks) + 1)
    styles = _styles(dict.fromkeys(name for rules in tasks.values() for name in rules))
    shown = [(task, rules, None) for task, rules in tasks.items()]
    shown += [(task, rules, attack) for task, rules, _ in shown[:1]]
    places = np.arange(len(results.sweep))
    for axes, (task, rules, only) in zip(panels, shown, strict=True):
        for rule, names in rules.items():
            bands = [
                mean_band(results, summarize(results.values(name, metric)[:, :, -1], axis=1))
                for kind, name in names.items()
                if only is None or kind == only
            ]
            if bands:
                line_with_band(axes, places, *_largest(bands), rule, styles[rule])
        title = f"{readable(task)}: {readable(only or _WORST)}"
        axes.set_title(f"{title}\n{mean_words(results)}", fontsize=10)
        axes.set_xticks(places, [f"{value:g}" for value in results.sweep])
        axes.set_xlabel(parameter_label(results))
        logarithmic(axes)
        label_ends(axes)
    label_left(panels, metric_label(results, metric))
    _finish(figure, results, panels)
    return figure


def _largest(bands: Sequence[Band]) -> Band:
    """Return, at every place, the band whose middle is largest."""
    every = np.stack([np.stack(band) for band in bands])  # (bands, 3, places)
    most = np.argmax(np.where(np.isnan(every[:, :1]), -np.inf, every[:, :1]), axis=0)
    middle, low, high = np.take_along_axis(every, most[None], axis=0)[0]
    return middle, low, high


def delays_figure(
    results: Results, *, metric: str, shown: float, beside: Sequence[str]
) -> "Figure":
    """Draw the last record against the swept number: a panel per task, a colour per solver.

    Where everything is drawn, the first row has "TASK: SOLVER" and the variants that are named, the
    second all other variants, "TASK: SOLVER, VARIANT", and the third the metric against rounds at
    one swept number, of what the first has.

    Args:
      results: of a finished run.
      metric: its mean over trials, with a band where numbers are swept.
      shown: the swept number of the third row, or the nearest to it.
      beside: variants in the first row.
    """
    if not everything(results):
        return _late_figure(results, metric)
    tasks = tasks_in(results)
    figure = blank_figure(4.8 * len(tasks), 12)
    grid = figure.subplots(3, len(tasks), sharey="col", squeeze=False)
    styles = solver_styles(bare_names(results))
    places = np.arange(len(results.sweep))
    row = int(np.argmin(np.abs(np.asarray(results.sweep) - shown)))
    label = parameter_label(results)
    for (first, second, third), (task, methods) in zip(grid.T, tasks.items(), strict=True):
        for bare, name in methods.items():
            values = results.values(name, metric)
            table = summarize(values[:, :, -1], axis=1)
            leading = _variant(bare) in ("", *beside)
            axes = first if leading else second
            line_with_band(axes, places, *mean_band(results, table), bare, styles[bare])
            if leading:
                middle = summarize(values[row], axis=0).mean
                draw_line(third, results.rounds, middle, bare, styles[bare])
        for axes in (first, second):
            axes.set_xticks(places, [f"{value:g}" for value in results.sweep])
            axes.set_xlabel(label)
            axes.set_title(f"{readable(task)}, last round, {mean_words(results)}", fontsize=10)
        third.set_xlabel("global round")
        third.set_title(f"{readable(task)}, {label} {results.sweep[row]:g}, mean", fontsize=10)
        for axes in (first, second, third):
            logarithmic(axes)
            axes.set_ylabel(metric_label(results, metric))
    _finish(figure, results, grid)
    return figure


def _late_figure(results: Results, metric: str) -> "Figure":
    """Draw the last record against the swept number, a panel per task, names at ends."""
    tasks = tasks_in(results)
    figure, panels = few_panels(len(tasks))
    styles = solver_styles(bare_names(results))
    places = np.arange(len(results.sweep))
    for axes, (task, methods) in zip(panels, tasks.items(), strict=True):
        for bare, name in methods.items():
            table = summarize(results.values(name, metric)[:, :, -1], axis=1)
            line_with_band(axes, places, *mean_band(results, table), bare, styles[bare])
        axes.set_xticks(places, [f"{value:g}" for value in results.sweep])
        axes.set_xlabel(parameter_label(results))
        axes.set_title(f"{readable(task)}, {mean_words(results)}", fontsize=10)
        logarithmic(axes)
        label_ends(axes)
    label_left(panels, metric_label(results, metric))
    _finish(figure, results, panels)
    return figure


def _variant(name: str) -> str:
    return name.partition(", ")[2]


def _by_aggregator(methods: dict[str, str]) -> dict[str, dict[str, str]]:
    """Return aggregator -> attack -> name of the method."""
    rules: dict[str, dict[str, str]] = {}
    for bare, name in methods.items():
        rule, comma, attack = bare.rpartition(", ")
        if not comma:
            raise InputError(
                f"a method of this figure is called TASK: AGGREGATOR, ATTACK, but one is {name!r}",
                value=name,
            )
        rules.setdefault(rule, {})[attack] = name
    return rules


def _styles(names: Sequence[str] | dict[str, None]) -> dict[str, dict]:
    """Return a style for every name; the eighth is grey."""
    colours = (*COLOURS, "0.5")
    return {
        name: {**style, "color": colours[i % len(colours)]}
        for i, (name, style) in enumerate(distinct_styles(names).items())
    }


def _finish(
    figure: "Figure", results: Results, grid: np.ndarray, legend_title: str | None = None
) -> None:
    """Add one legend of all that is drawn anywhere."""
    lines = {line.get_label(): line for axes in grid.flat for line in axes.lines}
    finish(figure, results, lines, legend_title)
