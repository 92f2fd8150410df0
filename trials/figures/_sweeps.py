"""Figures of the last record: against the swept number, or of methods side by side."""

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm.trials.figures._bands import mean_band, mean_words, with_error, with_quantiles
from fedjax_admm.trials.figures._style import (
    COLOURS,
    MARKERS,
    WIDEST,
    blank_figure,
    distinct_styles,
    draw_line,
    drawable,
    family_styles,
    few_panels,
    finish,
    line_with_band,
    logarithmic,
    logarithmic_along,
    metric_label,
    note,
    parameter_label,
    points_with_bars,
    readable,
    tick_values,
    width_of,
)
from fedjax_admm.trials.results import Results, summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def sweep_figure(
    results: Results,
    *,
    metric: str,
    share: str | None = None,
    floor: float | None = None,
    heavy: bool = False,
) -> "Figure":
    """Draw the last record against the swept number: mean, median and share of failures.

    Args:
      results: of a finished run.
      metric: what is averaged, with a band; that of medians has the 10 to 90 % quantiles.
      share: a metric of 0 and 1, whose mean is a share; no panel of failures without one.
      floor: lower end of the logarithmic axis; a method that lies below it is named in a note.
      heavy: whether tails are heavy: means have no bands then if none are asked for.
    """
    width = 2 if share is None else 3
    figure = blank_figure(width_of(width, 4.5), 4.6)
    panels = figure.subplots(1, width)
    draw_sweep(panels[:2], results, metric, floor, "none" if heavy else "errors")
    if share is not None:
        failures = panels[2]
        for name, style in family_styles(results.methods).items():
            if results.has(name, metric):
                with np.errstate(over="ignore"):
                    failed = summarize(100 * results.values(name, share)[:, :, -1], axis=1)
                line_with_band(failures, results.sweep, *with_error(failed), name, style)
        failures.set_ylabel(f"{metric_label(results, share)} (%)")
        failures.set_ylim(0, max(failures.get_ylim()[1], 1))
        failures.set_title("failures ± standard error")
        failures.set_xlabel(parameter_label(results))
    if len(results.sweep) == 2:
        for axes in panels:
            axes.set_xticks(results.sweep)
    finish(figure, results, panels[0])
    return figure


def draw_sweep(
    panels: "Sequence[Axes]",
    results: Results,
    metric: str,
    floor: float | None = None,
    bands: str = "errors",
) -> None:
    """Draw mean and median of the last record against the swept number, into two panels."""
    mean, median = panels
    below = []
    for name, style in family_styles(results.methods).items():
        if not results.has(name, metric):
            continue
        table = summarize(results.values(name, metric)[:, :, -1], axis=1)
        line_with_band(mean, results.sweep, *mean_band(results, table, bands), name, style)
        line_with_band(median, results.sweep, *with_quantiles(table), name, style)
        if floor is not None and np.any(table.median < floor) and not np.any(table.median >= floor):
            below.append(readable(name))
    for axes, title in ((mean, mean_words(results, bands)), (median, "median, 10–90 % of trials")):
        logarithmic(axes)
        if floor is not None:
            axes.set_ylim(floor, max(axes.get_ylim()[1], 10 * floor))
        axes.set_xlabel(parameter_label(results))
        axes.set_ylabel(metric_label(results, metric))
        axes.set_title(title)
    if below:
        note(median, f"{', '.join(below)}: median below {floor:g}")


def score_figure(results: Results, *, metric: str, score: str) -> "Figure":
    """Draw two metrics at the last record against the swept number, means with bands.

    Args:
      results: of a finished run.
      metric: drawn on a logarithmic axis.
      score: at most 1, drawn on a linear axis.
    """
    figure = blank_figure(11, 4.8)
    left, right = figure.subplots(1, 2)
    for name, style in family_styles(results.methods).items():
        for axes, measured in ((left, metric), (right, score)):
            table = summarize(results.values(name, measured)[:, :, -1], axis=1)
            line_with_band(axes, results.sweep, *mean_band(results, table), name, style)
    logarithmic(left)
    for axes, measured in ((left, metric), (right, score)):
        axes.set_xlabel(parameter_label(results))
        tick_values(axes, results)
        axes.set_ylabel(metric_label(results, measured))
        axes.set_title(mean_words(results))
    finish(figure, results, left)
    return figure


def families_figure(results: Results, *, metric: str) -> "Figure":
    """Draw a metric at the last record against the swept number: one panel per family of methods.

    Lines are means over trials, bands one standard deviation of a trial (not of the mean) if no
    others are asked for.
    """
    families: dict[str, list[str]] = {}
    for name in results.methods:
        families.setdefault(name.split(", ")[0], []).append(name)
    alone = all(len(members) == 1 for members in families.values())
    panels = {"": results.methods} if alone else families
    figure = blank_figure(max(8.5, width_of(len(panels))), 5)
    grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (family, members) in zip(grid, panels.items(), strict=True):
        labels = {name: name.removeprefix(f"{family}, ") for name in members}
        styles = family_styles(labels.values())
        for name, label in labels.items():
            table = summarize(results.values(name, metric)[:, :, -1], axis=1)
            band = mean_band(results, table, "deviations")
            line_with_band(axes, results.sweep, *band, label, styles[label])
        logarithmic(axes)
        title = mean_words(results, "deviations")
        axes.set_title(f"{readable(family)}, {title}" if family else title, fontsize=10)
        axes.set_xlabel(parameter_label(results))
    grid[0].set_ylabel(metric_label(results, metric))
    finish(figure, results, grid[0])
    return figure


def sweep_and_scatter_figure(
    results: Results, *, metric: str, clouds: Mapping[str, np.ndarray], names: tuple[str, str]
) -> "Figure":
    """Draw a metric at the last record against the swept number, and clouds of models beside it.

    Args:
      results: of a finished run.
      metric: means over trials, with one standard deviation of a trial as usual.
      clouds: what a cloud is -> models, shape (nodes, dim); their first two entries are drawn.
      names: of these two entries.
    """
    figure = blank_figure(min(6.5 + 3.6 * len(clouds), WIDEST), 5)
    columns = figure.subplots(1, 1 + len(clouds), width_ratios=[1.5] + [1] * len(clouds))
    left, scatters = columns[0], columns[1:]
    for name, style in distinct_styles(results.methods).items():
        table = summarize(results.values(name, metric)[:, :, -1], axis=1)
        band = mean_band(results, table, "deviations")
        line_with_band(left, results.sweep, *band, name, style)
    tick_values(left, results)
    left.set_xlabel(parameter_label(results))
    left.set_ylabel(metric_label(results, metric))
    left.set_title(mean_words(results, "deviations"), fontsize=10)
    for axes, (title, models) in zip(scatters, clouds.items(), strict=True):
        if np.ndim(models) != 2 or models.shape[1] < 2:
            raise InputError(
                f"{title}: models must have shape (nodes, 2 or more), not {np.shape(models)}",
                value=models,
            )
        axes.plot(
            drawable(models[:, 0]),
            drawable(models[:, 1]),
            "o",
            markersize=3,
            alpha=0.6,
            color=COLOURS[5],
        )
        axes.set_title(title, fontsize=10)
        axes.set_xlabel(names[0])
        axes.sharex(scatters[0])
        axes.sharey(scatters[0])
    scatters[0].set_ylabel(names[1])
    finish(figure, results, left)
    return figure


def methods_figure(results: Results, *, metrics: Sequence[str]) -> "Figure":
    """Draw the last record of several metrics, one row per method: trials and means with bars."""
    names = results.methods
    figure = blank_figure(3 + 4 * len(metrics), 1.9 + 0.36 * len(names))
    grid = figure.subplots(1, len(metrics), sharey=True, squeeze=False)[0]
    rows = np.arange(len(names))[::-1]
    for axes, metric in zip(grid, metrics, strict=True):
        for i, value in enumerate(results.sweep):
            shown = [results.values(name, metric)[i, :, -1] for name in names]
            table = summarize(np.stack(shown), axis=1)
            shift = 0.5 * (i + 0.5) / len(results.sweep) - 0.25
            for row, trials in zip(rows - shift, shown, strict=True):
                axes.plot(
                    drawable(trials), np.full(len(trials), row), "|", color="0.6", markersize=9
                )
            points_with_bars(
                axes,
                *mean_band(results, table, "deviations"),
                rows - shift,
                marker=MARKERS[i % len(MARKERS)],
                color=COLOURS[i % len(COLOURS)],
                label=f"{parameter_label(results)} = {value:g}",
                markersize=5,
            )
        axes.set_yticks(rows, list(map(readable, names)))
        axes.set_xlabel(metric_label(results, metric))
        logarithmic_along(axes, partly=True)
        axes.set_title(f"trials, {mean_words(results, 'deviations')}", fontsize=10)
    finish(figure, results, grid[0])
    return figure


def ladder_figure(
    results: Results,
    *,
    metrics: Sequence[str],
    label: str,
    timed: bool = False,
) -> "Figure":
    """Draw the last record against a number in the methods' names: "family, 10".

    Args:
      results: of a finished run.
      metrics: one panel each.
      label: of the horizontal axis.
      timed: whether `results.details` are seconds per round; one more panel then has the first
        metric against time, a line per method, at the last swept value.
    """
    families: dict[str, list[str]] = {}
    for name in results.methods:
        families.setdefault(name.rpartition(", ")[0], []).append(name)
    titles = {
        (family, i): f"{family}, {results.config['parameter_label']} {value:g}"
        if len(results.sweep) > 1
        else family
        for family in families
        for i, value in enumerate(results.sweep)
    }
    styles = distinct_styles(titles.values())
    number = len(metrics) + timed
    figure, panels = few_panels(number)
    steps = {family: np.array(list(map(_step, names))) for family, names in families.items()}
    for axes, metric in zip(panels, metrics, strict=False):
        for (family, i), title in titles.items():
            names = families[family]
            last = np.stack([results.values(name, metric)[i, :, -1] for name in names])
            table = summarize(last, axis=1)
            line_with_band(axes, steps[family], *mean_band(results, table), title, styles[title])
        axes.set_xticks(next(iter(steps.values())))
        axes.set_xlabel(label)
        axes.set_ylabel(metric_label(results, metric), fontsize=9)
        axes.set_title(f"last round, {mean_words(results)}", fontsize=10)
    if timed:
        _against_time(panels[-1], results, metrics[0])
    finish(figure, results, panels[0])
    return figure


def _step(name: str) -> float:
    """Return the number at the end of a method's name."""
    with contextlib.suppress(ValueError):
        step = float(name.rpartition(", ")[2])
        if math.isfinite(step):
            return step
    raise InputError(
        f"a method of this figure is called FAMILY, NUMBER, but one is {name!r}", value=name
    )


def _against_time(axes: "Axes", results: Results, metric: str) -> None:
    """Draw the mean of a metric against time, a line per method, at the last swept value."""
    for name, style in distinct_styles(results.methods).items():
        table = summarize(results.values(name, metric)[-1], axis=0)
        draw_line(axes, results.rounds * float(results.detail(name)), table.mean, name, style)
    logarithmic_along(axes)
    axes.set_xlabel("seconds on this machine, evaluation left out")
    axes.set_ylabel(metric_label(results, metric))
    axes.set_title(f"{parameter_label(results)} {results.sweep[-1]:g}, mean", fontsize=10)
    axes.legend(fontsize=8, frameon=False)


def panels_figure(results: Results, *, metrics: Sequence[str]) -> "Figure":
    """Draw the last record of several metrics against the swept number, one panel each."""
    figure, panels = few_panels(len(metrics))
    styles = distinct_styles(results.methods)
    for axes, metric in zip(panels, metrics, strict=True):
        for name, style in styles.items():
            table = summarize(results.values(name, metric)[:, :, -1], axis=1)
            line_with_band(axes, results.sweep, *mean_band(results, table), name, style)
        logarithmic_along(axes)
        axes.set_xlabel(parameter_label(results))
        axes.set_ylabel(metric_label(results, metric), fontsize=9)
        axes.set_title(f"last round, {mean_words(results)}", fontsize=10)
    finish(figure, results, panels[0])
    return figure
