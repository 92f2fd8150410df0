"""Figures of several tasks side by side: decibels, costs, false and late messages."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm.trials.figures import _lines, _style
from fedjax_admm.trials.results import Results, summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
    tasks = _lines.tasks_in(results)
    first = 0 if _lines.everything(results) else len(results.sweep) - 1
    figure, grid = _style.panels(
        len(results.sweep) - first, len(tasks), 3.2, sharex=True, sharey="row"
    )
    for row, (value, line) in enumerate(zip(results.sweep[first:], grid, strict=True), first):
        for axes, task in zip(line, tasks, strict=True):
            _draw(
                axes, results, metric, task, results.rounds, floor, lambda each, row=row: each[row]
            )
            if logarithmic:
                _style.logarithmic_along(axes)
            axes.set_title(f"{_style.readable(task)}, {title(float(value))}", fontsize=10)
            axes.set_xlabel("iteration")
    return _finished(figure, results, floor)


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
    tasks = _lines.tasks_in(results)
    figure, grid = _style.panels(1, len(tasks), sharey=True)
    for axes, task in zip(grid[0], tasks, strict=True):
        _draw(axes, results, metric, task, results.sweep, floor, lambda each: each[:, :, -1].T)
        if logarithmic:
            _style.tick_values(axes, results)
        axes.set_title(_style.readable(task), fontsize=10)
        axes.set_xlabel(_style.parameter_label(results))
    return _finished(figure, results, floor)


def _draw(
    axes: "Axes",
    results: Results,
    metric: str,
    task: str,
    x: np.ndarray,
    floor: float,
    part: Callable[[np.ndarray], np.ndarray],
) -> None:
    """Draw median and quantiles of a part of every method's numbers, (trials, x), in dB."""
    styles = _style.distinct_styles(_lines.bare_names(results))
    for bare, name in _lines.tasks_in(results)[task].items():
        if results.has(name, metric):
            table = summarize(part(results.values(name, metric)), axis=0)
            band = [_in_decibels(each, floor) for each in _lines.band_of(results, table, "medians")]
            _style.line_with_band(axes, x, band, bare, styles[bare])
    label = f"{_style.metric_label(results, metric)} (dB)"
    # No longer than the axis; a formula stays whole.
    axes.set_ylabel(label if "$" in label else textwrap.fill(label, 36))


def _in_decibels(values: np.ndarray, floor: float) -> np.ndarray:
    # Where rounding has made a gap negative or zero, it is at the floor; without one it has no
    # decibels and is not drawn.
    least = 10 ** (floor / 10)
    raised = np.maximum(values, least) if least else np.where(values > 0, values, np.nan)
    return 10 * np.log10(raised)


def _finished(figure: "Figure", results: Results, floor: float) -> "Figure":
    said = "median over trials, band from the 10 to the 90 % quantile"
    if np.isfinite(floor):
        said += f"; what is below {floor:g} dB is drawn there"
    return _style.finish(figure, results, legend_title=said)


def coverage_figure(
    results: Results, *, levels: Mapping[str, float], leading: str | None = None
) -> "Figure":
    """Draw coverage against the swept number: a column per noise, a row per nominal level.

    A method's name says its noise before a colon: "Cauchy: sandwich".

    Args:
      results: of a finished run.
      levels: metric -> nominal level, drawn as a grey line.
      leading: the metric that has a row where not everything is drawn; all if None.
    """
    tasks, styles = _lines.tasks_in(results), _style.distinct_styles(_lines.bare_names(results))
    if leading is not None and not _lines.everything(results):
        levels = {leading: levels[leading]}
    figure, grid = _style.panels(len(levels), len(tasks), 2.6, sharex=True, sharey="row")
    for line, (metric, level) in zip(grid, levels.items(), strict=True):
        for axes, (task, named) in zip(line, tasks.items(), strict=True):
            axes.axhline(level, color="0.6", linewidth=0.8)
            _lines.draw(axes, results, metric, styles, named)
            axes.set_title(f"{_style.readable(task)}, {level:.0%} regions", fontsize=10)
            axes.set_ylabel(f"coverage, {_lines.words(results)}")
            _style.tick_values(axes, results)
    return _style.finish(figure, results)


_COSTS = (_lines.ROUNDS, _lines.SENT, "gradients")


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
    if _lines.everything(results):
        return _costs_figure(results, metric)
    every, styles = _lines.tasks_in(results), _style.solver_styles(_lines.bare_names(results))
    found = {task: every[task] for task in every if task in tasks} or every
    figure, grid = _style.few_panels(len(found))
    swept = swept and len(results.sweep) > 1
    look: dict[str, Any] = {"against": _lines.EVEN if swept else _lines.ROUNDS, "row": -1}
    value = f"\n{_style.parameter_label(results)}: {results.sweep[-1]:g}"
    for axes, (task, named) in zip(grid, found.items(), strict=True):
        title = f"{_style.readable(task)}, last round" if swept else _style.readable(task)
        _lines.draw(axes, results, metric, styles, named, title=title, **look)
        axes.set_title(axes.get_title() + ("" if swept else value), fontsize=10)
        _style.logarithmic(axes, rounds=not swept)
    return _style.finish(figure, results)


def _costs_figure(results: Results, metric: str) -> "Figure":
    """Draw a metric against its costs at the first swept value, and its end against all values."""
    tasks, styles = _lines.tasks_in(results), _style.distinct_styles(_lines.bare_names(results))
    swept = len(results.sweep) > 1
    figure, grid = _style.panels(len(_COSTS) + swept, len(tasks), 3.1, sharey="row")
    first = f"{_style.parameter_label(results)}: {results.sweep[0]:g}"
    for line, (task, named) in zip(grid.T, tasks.items(), strict=True):
        for axes, cost in zip(line, _COSTS, strict=False):
            # Without bands: those of twelve methods would cover each other.
            _lines.draw(axes, results, metric, styles, named, bands="mean", against=cost)
            top = f"{_style.readable(task)}, mean\n{first}"
            axes.set_title(top if cost == _lines.ROUNDS else _style.readable(task), fontsize=10)
            _style.logarithmic(axes)
            _style.logarithmic_along(axes)
        if swept:
            title = f"{_style.readable(task)}, last round"
            _lines.draw(line[-1], results, metric, styles, named, title=title, against=_lines.EVEN)
            _style.logarithmic(line[-1])
    return _style.finish(figure, results)


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
    tasks = {task: _by_aggregator(methods) for task, methods in _lines.tasks_in(results).items()}
    if _lines.everything(results):
        figure, grid = _style.panels(
            len(tasks), len(attacks) + 1, 2.9, 4.2, sharex=True, sharey="row"
        )
        shown = [(task, attack) for task in tasks for attack in (*attacks, None)]
    else:
        few = [task for task in leading if task in tasks] or [*tasks]
        shown = [*((task, None) for task in few), (few[0], attacks[-1])]
        figure, grid = _style.few_panels(len(shown))
    styles = _style.distinct_styles(
        dict.fromkeys(rule for rules in tasks.values() for rule in rules)
    )
    for axes, (task, attack) in zip(grid.flat, shown, strict=True):
        _draw_rules(axes, results, metric, tasks[task], attack, styles)
        axes.set_title(f"{_style.readable(task)}, {_style.readable(attack or _WORST)}", fontsize=10)
    return _style.finish(figure, results, legend_title=_lines.words(results))


def _draw_rules(
    axes: "Axes",
    results: Results,
    metric: str,
    rules: Mapping[str, Mapping[str, str]],
    attack: str | None,
    styles: Mapping[str, dict],
) -> None:
    """Draw one attack, or at every place that whose mean is largest if it is None."""
    places = np.arange(len(results.sweep))
    for rule, names in rules.items():
        tables = [
            _lines.last(results, name, metric)
            for kind, name in names.items()
            if attack in (None, kind)
        ]
        if tables:
            every = np.stack([np.stack(_lines.band_of(results, table)) for table in tables])
            order = np.where(np.isnan(every[:, :1]), -np.inf, every[:, :1])
            largest = np.take_along_axis(every, np.argmax(order, axis=0)[None], axis=0)[0]
            _style.line_with_band(axes, places, largest, rule, styles[rule])
    axes.set_xticks(places, [f"{value:g}" for value in results.sweep])
    axes.set(xlabel=_style.parameter_label(results), ylabel=_style.metric_label(results, metric))
    _style.logarithmic(axes)


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
    tasks, styles = _lines.tasks_in(results), _style.solver_styles(_lines.bare_names(results))
    whole = _lines.everything(results)
    figure, grid = (
        _style.panels(3, len(tasks), sharey="col") if whole else _style.few_panels(len(tasks))
    )
    row = int(np.argmin(np.abs(np.asarray(results.sweep) - shown)))
    for column, (task, methods) in zip(grid.T, tasks.items(), strict=True):
        leading = {b: n for b, n in methods.items() if b.partition(", ")[2] in ("", *beside)}
        others = {bare: name for bare, name in methods.items() if bare not in leading}
        title = f"{_style.readable(task)}, last round"
        for axes, named in zip(
            np.atleast_1d(column), (leading, others) if whole else (methods,), strict=False
        ):
            _lines.draw(axes, results, metric, styles, named, title=title, against=_lines.EVEN)
            _style.logarithmic(axes)
        if whole:
            value = f"{_style.parameter_label(results)} {results.sweep[row]:g}"
            title = f"{_style.readable(task)}, {value}"
            look: dict[str, Any] = {
                "bands": "mean",
                "title": title,
                "row": row,
                "against": _lines.ROUNDS,
            }
            _lines.draw(column[2], results, metric, styles, leading, **look)
            _style.logarithmic(column[2])
    return _style.finish(figure, results)
