"""Figures of several tasks side by side: decibels, costs, false and late messages."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_admm.trials.figures import _lines, _style
from fedjax_admm.trials.results import Results

Look = dict[str, Any]
"""What `draw` is told of a panel."""

if TYPE_CHECKING:
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
    look = {"metric": metric, "floor": floor, "against": _lines.ROUNDS, "log": "x" * logarithmic}
    rows = [
        {**look, "row": row, "title": title(float(value))}
        for row, value in enumerate(results.sweep)
    ]
    return _decibels(results, rows if _lines.everything(results) else rows[-1:], floor)


def task_sweep_figure(results: Results, *, metric: str, floor: float = -np.inf) -> "Figure":
    """Draw the last record of a metric in dB against the swept number, a column per task.

    Args:
      results: of a finished run.
      metric: its median over trials, with a band from the 10 to the 90 % quantile.
      floor: in dB; what is smaller is drawn there.
    """
    return _decibels(results, [{"metric": metric, "floor": floor}], floor)


def _decibels(results: Results, looks: Sequence[Look], floor: float) -> "Figure":
    looks = [{**look, "bands": "medians"} for look in looks]
    said = f"what is below {floor:g} dB is drawn there" if np.isfinite(floor) else ""
    more: Any = {"legend_title": said, "sharex": True, "sharey": "row"}
    return _by_task(results, looks, 3.2, **more)[0]


def _by_task(
    results: Results,
    looks: Sequence[Look],
    *size: float,
    styles: Callable = _style.distinct_styles,
    only: Sequence[str] = (),
    **more: Any,
) -> "tuple[Figure, np.ndarray]":
    """Draw a row of panels for each look: a panel per task, or the named ones, in its title.

    The entry "named" of a look says which of a task's methods are drawn, of bare name -> name.
    """
    every = _lines.tasks_in(results)
    shown = [task for task in every if task in only] or [*every]
    rows = [[dict(look) for _ in shown] for look in looks]
    for row in rows:
        for task, look in zip(shown, row, strict=True):
            look["named"] = look.get("named", dict)(every[task])
            look["title"] = ", ".join(filter(None, (_style.readable(task), look.get("title"))))
    return _lines.draw_panels(results, styles(_lines.bare_names(results)), rows, *size, **more)


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
    if leading is not None and not _lines.everything(results):
        levels = {leading: levels[leading]}
    looks = [{"metric": each, "title": f"{level:.0%} regions"} for each, level in levels.items()]
    figure, grid = _by_task(results, looks, 2.6, sharex=True, sharey="row")
    for line, level in zip(grid, levels.values(), strict=True):
        for axes in line:
            axes.axhline(level, color="0.6", linewidth=0.8)
    return figure


_WORST = "worst of all attacks tried"
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
    several, parameter = len(results.sweep) > 1, _style.parameter_label(results)
    ends: Look = {"metric": metric, "against": _lines.EVEN, "title": "last round", "log": "y"}
    look: Look = {"metric": metric, "log": "xy"}
    if _lines.everything(results):
        # Without bands: those of twelve methods would cover each other.
        look |= {"bands": "mean", "title": f"{parameter}: {results.sweep[0]:g}"}
        looks = [*({**look, "against": cost} for cost in _COSTS), *[ends] * several]
        return _by_task(results, looks, 3.1, sharey="row")[0]
    look |= {"row": -1, "against": _lines.ROUNDS, "title": f"{parameter}: {results.sweep[-1]:g}"}
    shown = [ends if swept and several else look]
    return _by_task(results, shown, styles=_style.solver_styles, only=tasks)[0]


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
        shape = len(tasks), len(attacks) + 1
        figure, grid = _style.panels(*shape, 2.9, 4.2, sharex=True, sharey="row")
        shown = [(task, attack) for task in tasks for attack in (*attacks, None)]
    else:
        few = [task for task in leading if task in tasks] or [*tasks]
        shown = [*((task, None) for task in few), (few[0], attacks[-1])]
        figure, grid = _style.panels(*((2, 2) if len(shown) == 4 else (1, len(shown))))
    rules = dict.fromkeys(rule for of_task in tasks.values() for rule in of_task)
    styles, places = _style.distinct_styles(rules), np.arange(len(results.sweep))
    for axes, (task, attack) in zip(grid.flat, shown, strict=True):
        for rule, names in tasks[task].items():
            chosen = [name for kind, name in names.items() if attack in (None, kind)]
            if chosen:
                band = _largest(results, chosen, metric)
                _style.line_with_band(axes, places, band, rule, styles[rule])
        axes.set_xticks(places, [f"{value:g}" for value in results.sweep])
        axes.set_xlabel(_style.parameter_label(results))
        axes.set_ylabel(_style.metric_label(results, metric))
        axes.set_title(f"{_style.readable(task)}, {_style.readable(attack or _WORST)}")
        _style.logarithmic(axes)
    return _style.finish(figure, results, legend_title=_lines.words(results))


def _largest(results: Results, names: Sequence[str], metric: str) -> np.ndarray:
    """Return mean and band of the method whose mean is largest, at every place: (3, sweep)."""
    tables = [_lines.last(results, name, metric) for name in names]
    every = np.stack([np.stack(_lines.band_of(results, table)) for table in tables])
    order = np.where(np.isnan(every[:, :1]), -np.inf, every[:, :1])
    return np.take_along_axis(every, np.argmax(order, axis=0)[None], axis=0)[0]


def _by_aggregator(methods: dict[str, str]) -> dict[str, dict[str, str]]:
    """Return aggregator -> attack -> name of the method."""
    rules: dict[str, dict[str, str]] = {}
    for bare, name in methods.items():
        rule, _, attack = bare.rpartition(", ")
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
    last: Look = {"metric": metric, "against": _lines.EVEN, "title": "last round", "log": "y"}
    if not _lines.everything(results):
        return _by_task(results, [last], styles=_style.solver_styles)[0]

    def leading(methods: Mapping[str, str], wanted: bool = True) -> dict[str, str]:
        first = {bare: bare.partition(", ")[2] in ("", *beside) for bare in methods}
        return {bare: name for bare, name in methods.items() if first[bare] == wanted}

    row = int(np.argmin(np.abs(np.asarray(results.sweep) - shown)))
    value = f"{_style.parameter_label(results)} {results.sweep[row]:g}"
    course: Look = {"metric": metric, "bands": "mean", "row": row, "title": value, "log": "y"}
    looks = [{**last, "named": leading}, {**last, "named": partial(leading, wanted=False)}]
    looks.append({**course, "against": _lines.ROUNDS, "named": leading})
    return _by_task(results, looks, styles=_style.solver_styles, sharey="col")[0]
