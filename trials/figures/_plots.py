"""Figures of results: uncertainty bands, axes with units, readable in black and white.

Methods differ in colour, line and marker at once. The part of a method's name before a comma is
its family: members of a family share the colour.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from fedjax_admm.trials import files
from fedjax_admm.trials.results import Results

# Okabe and Ito's palette: distinct for colour-blind readers, and in lightness.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000", "#56B4E9")
_LINES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
_MARKERS = ("o", "s", "^", "D", "v", "x", "P")
_MARKER_DISTANCE = 0.12  # along a curve, as a share of the diagonal of the axes


def sweep_figure(results: Results, *, metric: str, share: str, floor: float) -> Figure:
    """Draw the last record against the swept number: mean, median and share of failures.

    Args:
      results: of a finished run.
      metric: what is averaged; the bands are one standard error, and the 10 to 90 % quantiles.
      share: a metric of 0 and 1, whose mean is a share.
      floor: lower end of the logarithmic axis; a method that lies below it is named in a note.
    """
    figure = Figure(figsize=(13, 4.6), layout="constrained")
    mean, median, failures = figure.subplots(1, 3)
    label = _metric_label(results, metric)
    below = []
    for name, style in _styles(results.methods).items():
        if not results.has(name, metric):
            continue
        values = results.values(name, metric)
        table = results.summarize(values[:, :, -1], axis=1)
        low, high = table.mean - table.standard_error, table.mean + table.standard_error
        line_with_band(mean, results.sweep, table.mean, low, high, name, style)
        line_with_band(median, results.sweep, table.median, table.q10, table.q90, name, style)
        if np.any(table.median < floor) and not np.any(table.median >= floor):
            below.append(_readable(name))
        rate = results.summarize(results.values(name, share)[:, :, -1], axis=1)
        low, high = rate.mean - rate.standard_error, rate.mean + rate.standard_error
        line_with_band(failures, results.sweep, 100 * rate.mean, 100 * low, 100 * high, name, style)
    for axes, title in ((mean, "mean ± standard error"), (median, "median, 10–90 % of trials")):
        _logarithmic(axes)
        axes.set_ylim(floor, max(axes.get_ylim()[1], 10 * floor))
        axes.set_ylabel(label)
        axes.set_title(title)
    if below:
        note = f"{', '.join(below)}: median below {floor:g}"
        median.text(0.02, 0.02, note, transform=median.transAxes, fontsize=8)
    failures.set_ylabel(f"{_metric_label(results, share)} (%)")
    failures.set_ylim(0, max(failures.get_ylim()[1], 1))
    failures.set_title("failures ± standard error")
    for axes in (mean, median, failures):
        axes.set_xlabel(results.config["parameter_label"])
    finish(figure, results, mean)
    return figure


def curve_figure(results: Results, *, metric: str) -> Figure:
    """Draw a metric against rounds, its median too, and the mean against numbers sent."""
    figure = Figure(figsize=(14, 5.2), layout="constrained")
    mean, median, traffic = figure.subplots(1, 3)
    label = _metric_label(results, metric)
    for name, style in _styles(results.methods).items():
        if not results.has(name, metric):
            continue
        values = results.values(name, metric)
        table = results.summarize(values[0], axis=0)
        low, high = table.mean - table.standard_error, table.mean + table.standard_error
        line_with_band(mean, results.rounds, table.mean, low, high, name, style)
        # Without a band: those of ten methods would cover each other.
        _line(median, results.rounds, table.median, name, style)
        if results.has(name, "numbers_up"):
            total = np.mean(results.values(name, "numbers_up")[0], axis=0)
            line_with_band(traffic, total, table.mean, low, high, name, style)
    for axes, title in ((mean, "mean ± standard error"), (median, "median")):
        axes.set_xlabel("global round")
        axes.set_title(title)
    traffic.set_xlabel(_metric_label(results, "numbers_up"))
    traffic.set_title("mean against traffic")
    for axes in (mean, median, traffic):
        _logarithmic(axes, rounds=True)
        axes.set_ylabel(label)
    finish(figure, results, mean)
    return figure


def cost_figure(results: Results, *, metric: str) -> Figure:
    """Draw a metric against what it costs: rounds, local passes, numbers sent; a row per value."""
    rows = len(results.sweep)
    figure = Figure(figsize=(14, 0.8 + 4 * rows), layout="constrained")
    grid = figure.subplots(rows, 3, sharey="row", squeeze=False)
    for name, style in _styles(results.methods).items():
        costs = (results.rounds, *_mean_costs(results, name))
        for row, values in enumerate(results.values(name, metric)):
            table = results.summarize(values, axis=0)
            low, high = table.mean - table.standard_error, table.mean + table.standard_error
            for axes, cost in zip(grid[row], costs, strict=True):
                along = np.broadcast_to(cost, (rows, len(results.rounds)))[row]
                line_with_band(axes, along, table.mean, low, high, name, style)
    for row, value in zip(grid, results.sweep, strict=True):
        for axes in row:
            _logarithmic(axes, rounds=True)
            axes.set_title(f"{results.config['parameter_label']}: {value:g}, mean ± standard error")
        row[0].set_ylabel(_metric_label(results, metric))
    labels = ("global round", _metric_label(results, "passes"), "numbers sent, up and down")
    for axes, label in zip(grid[-1], labels, strict=True):
        axes.set_xlabel(label)
    finish(figure, results, grid[0, 0])
    return figure


def _mean_costs(results: Results, method: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean local passes and numbers sent, each of shape (sweep, round)."""
    passes = np.mean(results.values(method, "passes"), axis=1)
    return passes, _numbers_sent(results, method)


def _numbers_sent(results: Results, method: str) -> np.ndarray:
    """Return the mean numbers sent both ways, shape (sweep, round)."""
    sent = results.values(method, "numbers_up") + results.values(method, "numbers_down")
    return np.mean(sent, axis=1)


def score_figure(results: Results, *, metric: str, score: str) -> Figure:
    """Draw two metrics at the last record against the swept number, mean and one standard error.

    Args:
      results: of a finished run.
      metric: drawn on a logarithmic axis.
      score: at most 1, drawn on a linear axis.
    """
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, style in _styles(results.methods).items():
        for axes, measured in ((left, metric), (right, score)):
            table = results.summarize(results.values(name, measured)[:, :, -1], axis=1)
            low, high = table.mean - table.standard_error, table.mean + table.standard_error
            line_with_band(axes, results.sweep, table.mean, low, high, name, style)
    _logarithmic(left, rounds=True)
    right.set_xscale("log")
    for axes, measured in ((left, metric), (right, score)):
        axes.set_xlabel(results.config["parameter_label"])
        axes.set_xticks(results.sweep, [f"{value:g}" for value in results.sweep])
        axes.minorticks_off()
        axes.set_ylabel(_metric_label(results, measured))
        axes.set_title("mean ± standard error")
    finish(figure, results, left)
    return figure


def families_figure(results: Results, *, metric: str) -> Figure:
    """Draw a metric at the last record against the swept number: one panel per family of methods.

    Lines are means over trials, bands one standard deviation of a trial (not of the mean).
    """
    families: dict[str, list[str]] = {}
    for name in results.methods:
        families.setdefault(name.split(", ")[0], []).append(name)
    alone = all(len(members) == 1 for members in families.values())
    panels = {"": results.methods} if alone else families
    figure = Figure(figsize=(max(8.5, 1.8 + 4.2 * len(panels)), 5), layout="constrained")
    grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (family, members) in zip(grid, panels.items(), strict=True):
        labels = {name: name.removeprefix(f"{family}, ") for name in members}
        styles = _styles(labels.values())
        for name, label in labels.items():
            last = results.values(name, metric)[:, :, -1]
            table = results.summarize(last, axis=1)
            spread = table.standard_error * np.sqrt(table.trials - table.nonfinite)
            # On a logarithmic axis a band down to zero would fill the panel.
            low = np.maximum(table.mean - spread, table.mean / 10)
            style = styles[label]
            line_with_band(axes, results.sweep, table.mean, low, table.mean + spread, label, style)
        _logarithmic(axes)
        title = "mean ± standard deviation"
        axes.set_title(f"{family}, {title}" if family else title, fontsize=10)
        axes.set_xlabel(results.config["parameter_label"])
    grid[0].set_ylabel(_metric_label(results, metric))
    finish(figure, results, grid[0])
    return figure


def sweep_and_scatter_figure(
    results: Results, *, metric: str, clouds: Mapping[str, np.ndarray], names: tuple[str, str]
) -> Figure:
    """Draw a metric at the last record against the swept number, and clouds of models beside it.

    Args:
      results: of a finished run.
      metric: means over trials, with one standard deviation of a trial.
      clouds: what a cloud is -> models, shape (nodes, dim); their first two entries are drawn.
      names: of these two entries.
    """
    figure = Figure(figsize=(6.5 + 3.6 * len(clouds), 5), layout="constrained")
    columns = figure.subplots(1, 1 + len(clouds), width_ratios=[1.5] + [1] * len(clouds))
    left, scatters = columns[0], columns[1:]
    styles = _styles(results.methods)
    for place, (name, style) in enumerate(styles.items()):
        style = {**style, "color": _COLOURS[place % len(_COLOURS)]}
        table = results.summarize(results.values(name, metric)[:, :, -1], axis=1)
        spread = table.standard_error * np.sqrt(table.trials - table.nonfinite)
        low, high = table.mean - spread, table.mean + spread
        line_with_band(left, results.sweep, table.mean, low, high, name, style)
    left.set_xscale("log")
    left.set_xticks(results.sweep, [f"{value:g}" for value in results.sweep])
    left.minorticks_off()
    left.set_xlabel(results.config["parameter_label"])
    left.set_ylabel(_metric_label(results, metric))
    left.set_title("mean ± standard deviation", fontsize=10)
    for axes, (title, models) in zip(scatters, clouds.items(), strict=True):
        axes.plot(models[:, 0], models[:, 1], "o", markersize=3, alpha=0.6, color=_COLOURS[5])
        axes.set_title(title, fontsize=10)
        axes.set_xlabel(names[0])
        axes.sharex(scatters[0])
        axes.sharey(scatters[0])
    scatters[0].set_ylabel(names[1])
    finish(figure, results, left)
    return figure


def methods_figure(results: Results, *, metrics: Sequence[str]) -> Figure:
    """Draw the last record of several metrics, one row per method: trials, mean and deviation."""
    names = results.methods
    figure = Figure(figsize=(3 + 4 * len(metrics), 1.9 + 0.36 * len(names)), layout="constrained")
    grid = figure.subplots(1, len(metrics), sharey=True, squeeze=False)[0]
    places = np.arange(len(names))[::-1]
    for axes, metric in zip(grid, metrics, strict=True):
        for i, value in enumerate(results.sweep):
            shown = [results.values(name, metric)[i, :, -1] for name in names]
            table = results.summarize(np.stack(shown), axis=1)
            shift = 0.5 * (i + 0.5) / len(results.sweep) - 0.25
            for place, trials in zip(places - shift, shown, strict=True):
                axes.plot(trials, np.full(len(trials), place), "|", color="0.6", markersize=9)
            spread = table.standard_error * np.sqrt(table.trials - table.nonfinite)
            axes.errorbar(
                table.mean,
                places - shift,
                xerr=np.stack([np.minimum(spread, 0.9 * table.mean), spread]),
                fmt=_MARKERS[i % len(_MARKERS)],
                color=_COLOURS[i % len(_COLOURS)],
                label=f"{results.config['parameter_label']} = {value:g}",
                markersize=5,
                capsize=3,
            )
        axes.set_yticks(places, names)
        axes.set_xlabel(_metric_label(results, metric))
        if any(np.any(np.asarray(line.get_xdata()) > 0) for line in axes.lines):
            axes.set_xscale("log")
        axes.set_title("trials, mean ± standard deviation", fontsize=10)
    finish(figure, results, grid[0])
    return figure


def curves_by_method_figure(results: Results, *, metric: str) -> Figure:
    """Draw a metric against rounds: one column per method, one line per swept value."""
    names = [name for name in results.methods if results.has(name, metric)]
    figure = Figure(figsize=(3.6 * len(names), 6.4), layout="constrained")
    grid = figure.subplots(2, len(names), sharex=True, sharey=True, squeeze=False)
    label = _metric_label(results, metric)
    lines = _styles([f"{value:g}" for value in results.sweep])
    for column, name in enumerate(names):
        values = results.values(name, metric)
        for i, (value, style) in enumerate(lines.items()):
            table = results.summarize(values[i], axis=0)
            low, high = table.mean - table.standard_error, table.mean + table.standard_error
            mean, median = grid[:, column]
            line_with_band(mean, results.rounds, table.mean, low, high, value, style)
            line_with_band(median, results.rounds, table.median, table.q10, table.q90, value, style)
        grid[0, column].set_title(f"{_readable(name)}\nmean ± standard error", fontsize=10)
        grid[1, column].set_title("median, 10–90 % of trials", fontsize=10)
        grid[1, column].set_xlabel("global round")
    for axes in grid.flat:
        _logarithmic(axes, rounds=True)
    for axes in grid[:, 0]:
        axes.set_ylabel(label)
    finish(figure, results, grid[0, 0], legend_title=results.config["parameter_label"])
    return figure


def progress_figure(results: Results, *, seconds: Mapping[str, np.ndarray]) -> Figure:
    """Draw errors and the objective against rounds, and the error against what it costs.

    Args:
      results: with the metrics error, fresh_error, training_error and objective, as far as a method
        has them; the first swept value is drawn.
      seconds: name of a method -> seconds per round. A method that sends nothing is a level line.
    """
    figure = Figure(figsize=(14.5, 8.6), layout="constrained")
    grid = figure.subplots(2, 3)
    sent, clock = "numbers sent, up and down", "seconds on this machine, evaluation left out"
    metrics = ("error", "fresh_error", "objective", "training_error", "error", "error")
    costs = ("global round",) * 4 + (sent, clock)
    styles = distinct_styles(results.methods)
    for axes, metric, cost in zip(grid.flat, metrics, costs, strict=True):
        for name, style in styles.items():
            if not results.has(name, metric):
                continue
            table = results.summarize(results.values(name, metric)[0], axis=0)
            if not results.has(name, "numbers_up"):
                level = {key: style[key] for key in ("color", "linestyle")}
                axes.axhline(table.mean[-1], label=name, linewidth=1.4, **level)
                continue
            along = {
                "global round": results.rounds,
                sent: _numbers_sent(results, name)[0],
                clock: results.rounds * float(seconds[name]),
            }
            low, high = table.mean - table.standard_error, table.mean + table.standard_error
            line_with_band(axes, along[cost], table.mean, low, high, name, style)
        axes.set_xlabel(cost)
        axes.set_ylabel(_metric_label(results, metric))
        axes.set_title("mean ± standard error", fontsize=10)
        if cost != "global round":
            axes.set_xscale("log")
    finish(figure, results, grid[0, 0])
    return figure


def ladder_figure(
    results: Results,
    *,
    metrics: Sequence[str],
    label: str,
    seconds: Mapping[str, np.ndarray] | None = None,
) -> Figure:
    """Draw the last record against a number in the methods' names: "family, 10".

    Args:
      results: of a finished run.
      metrics: one panel each.
      label: of the horizontal axis.
      seconds: name of a method -> seconds per round; one more panel then has the first metric
        against time, a line per method, at the last swept value.
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
    number = len(metrics) + (seconds is not None)
    figure = Figure(figsize=(4.6 * number, 4.8), layout="constrained")
    panels = figure.subplots(1, number, squeeze=False)[0]
    steps = {
        family: np.array([float(name.rpartition(", ")[2]) for name in names])
        for family, names in families.items()
    }
    for axes, metric in zip(panels, metrics, strict=False):
        for (family, i), title in titles.items():
            names = families[family]
            last = np.stack([results.values(name, metric)[i, :, -1] for name in names])
            table = results.summarize(last, axis=1)
            low, high = table.mean - table.standard_error, table.mean + table.standard_error
            line_with_band(axes, steps[family], table.mean, low, high, title, styles[title])
        axes.set_xticks(next(iter(steps.values())))
        axes.set_xlabel(label)
        axes.set_ylabel(_metric_label(results, metric))
        axes.set_title("last round, mean ± standard error", fontsize=10)
    if seconds is not None:
        _against_time(panels[-1], results, metrics[0], seconds)
    finish(figure, results, panels[0])
    return figure


def _against_time(
    axes: Axes, results: Results, metric: str, seconds: Mapping[str, np.ndarray]
) -> None:
    """Draw the mean of a metric against time, a line per method, at the last swept value."""
    for name, style in distinct_styles(results.methods).items():
        table = results.summarize(results.values(name, metric)[-1], axis=0)
        _line(axes, results.rounds * float(seconds[name]), table.mean, name, style)
    axes.set_xscale("log")
    axes.set_xlabel("seconds on this machine, evaluation left out")
    axes.set_ylabel(_metric_label(results, metric))
    axes.set_title(f"{results.config['parameter_label']} {results.sweep[-1]:g}, mean", fontsize=10)
    axes.legend(fontsize=8, frameon=False)


def panels_figure(results: Results, *, metrics: Sequence[str]) -> Figure:
    """Draw the last record of several metrics against the swept number, one panel each."""
    figure = Figure(figsize=(4.2 * len(metrics), 4.6), layout="constrained")
    panels = figure.subplots(1, len(metrics), squeeze=False)[0]
    styles = distinct_styles(results.methods)
    for axes, metric in zip(panels, metrics, strict=True):
        for name, style in styles.items():
            table = results.summarize(results.values(name, metric)[:, :, -1], axis=1)
            low, high = table.mean - table.standard_error, table.mean + table.standard_error
            line_with_band(axes, results.sweep, table.mean, low, high, name, style)
        axes.set_xscale("log")
        axes.set_xlabel(results.config["parameter_label"])
        axes.set_ylabel(_metric_label(results, metric))
        axes.set_title("last round, mean ± standard error", fontsize=10)
    finish(figure, results, panels[0])
    return figure


def save_figure(figure: Figure, folder: Path, name: str = "figure") -> None:
    """Write `name.png` and `name.pdf`, atomically."""
    for kind in ("png", "pdf"):
        files.write_atomically(
            folder / f"{name}.{kind}",
            lambda file, kind=kind: figure.savefig(file, format=kind, dpi=150),
        )


def _styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Give each name a colour (shared by its family), a line and a marker."""
    styles: dict[str, dict[str, Any]] = {}
    families: dict[str, int] = {}
    for place, name in enumerate(names):
        family = families.setdefault(name.split(",")[0], len(families))
        styles[name] = {
            "color": _COLOURS[family % len(_COLOURS)],
            "linestyle": _LINES[place % len(_LINES)],
            "marker": _MARKERS[place % len(_MARKERS)],
        }
    return styles


def distinct_styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Give each name a colour of its own, a line and a marker."""
    return {
        name: {**style, "color": _COLOURS[place % len(_COLOURS)]}
        for place, (name, style) in enumerate(_styles(names).items())
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
    _line(axes, x, middle, label, style)
    axes.fill_between(x, low, high, color=style["color"], alpha=0.12, linewidth=0)


def _line(axes: Axes, x: np.ndarray, y: np.ndarray, label: str, style: dict[str, Any]) -> None:
    """Draw a line; a long one has markers at equal distances on the page."""
    # Staggered, so that the markers of equal lines do not hide each other.
    first = _MARKER_DISTANCE * (len(axes.lines) % 5) / 5
    every = 1 if len(x) <= 25 else (first, _MARKER_DISTANCE)
    axes.plot(x, y, label=_readable(label), markersize=4, markevery=every, linewidth=1.4, **style)


def _logarithmic(axes: Axes, *, rounds: bool = False) -> None:
    """Make the vertical axis logarithmic, and the horizontal one too where it counts rounds."""
    # Errors may all be zero: matplotlib warns of a logarithmic axis without positive numbers.
    if any(np.any(np.asarray(line.get_ydata()) > 0) for line in axes.lines):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(_PlainNumbers())
        axes.yaxis.set_minor_formatter(_PlainNumbers(minor_thresholds=(2.5, 0.4)))
    if rounds:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(_PlainNumbers())
        axes.xaxis.set_minor_formatter(_PlainNumbers())


class _PlainNumbers(LogFormatter):
    """Labels of a logarithmic axis as 0.5, 2 and 10 instead of 5e-1, 2e0 and 10^1."""

    def __call__(self, x, pos=None):
        """Return the number where `LogFormatter` would label the tick."""
        return f"{x:g}" if super().__call__(x, pos) else ""


def _readable(name: str) -> str:
    """Set powers of k in a method's name as powers."""
    return re.sub(r"k\^(-?[\d.]+)", r"$k^{\1}$", name)


def _metric_label(results: Results, metric: str) -> str:
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
