"""Figures of the last record: against the swept number, or of methods side by side."""

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm.trials.figures import _lines, _style
from fedjax_admm.trials.results import Results, summarize

if TYPE_CHECKING:
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
    figure, grid = _style.panels(1, 2 if share is None else 3)
    draw_sweep(grid[0, :2], results, metric, floor, "none" if heavy else "errors")
    if share is not None:
        failures, styles = grid[0, 2], _style.family_styles(results.methods)
        _lines.draw(failures, results, share, styles, bands="shares")
        failures.set_ylim(0, max(failures.get_ylim()[1], 0.01))
        failures.yaxis.set_major_formatter(lambda y, _: f"{100 * y:.3g}")
        failures.set_ylabel(f"{_style.metric_label(results, share)} (%)")
    if len(results.sweep) == 2 or results.sweep[-1] > 100 * results.sweep[0] > 0:
        for axes in grid.flat:
            _style.tick_values(axes, results)
    return _style.finish(figure, results)


def draw_sweep(
    row: np.ndarray,
    results: Results,
    metric: str,
    floor: float | None = None,
    bands: str = "errors",
) -> None:
    """Draw mean and median of the last record against the swept number, into two panels."""
    styles = _style.family_styles(results.methods)
    for axes, kind in zip(row, (bands, "medians"), strict=True):
        _lines.draw(axes, results, metric, styles, bands=kind)
        _style.logarithmic(axes)
        if floor is not None:
            axes.set_ylim(floor, max(axes.get_ylim()[1], 10 * floor))
    if floor is not None:
        has = [name for name in results.methods if results.has(name, metric)]
        below = [
            _style.readable(name)
            for name in has
            if _below(_lines.last(results, name, metric), floor)
        ]
        if below:
            _style.note(row[1], f"{', '.join(below)}: median below {floor:g}")


def _below(table, floor: float) -> bool:
    return bool(np.any(table.median < floor)) and not np.any(table.median >= floor)


def families_figure(results: Results, *, metric: str) -> "Figure":
    """Draw a metric at the last record against the swept number: one panel per family of methods.

    Lines are means over trials, bands one standard deviation of a trial (not of the mean) if no
    others are asked for.
    """
    families: dict[str, list[str]] = {}
    for name in results.methods:
        families.setdefault(name.split(", ")[0], []).append(name)
    alone = all(len(members) == 1 for members in families.values())
    shown = {"": results.methods} if alone else families
    figure, grid = _style.panels(1, len(shown), width=8.5 if alone else 4.7, sharey=True)
    for axes, (family, members) in zip(grid[0], shown.items(), strict=True):
        named = {name.removeprefix(f"{family}, "): name for name in members}
        look: dict[str, Any] = {
            "bands": "deviations",
            "title": _style.readable(family) if family else "",
        }
        _lines.draw(axes, results, metric, _style.family_styles(named), named, **look)
        _style.logarithmic(axes)
    return _style.finish(figure, results)


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
    ratios = [1.5] + [1] * len(clouds)
    figure, grid = _style.panels(1, len(ratios), width_ratios=ratios)
    left, *scatters = grid[0]
    _lines.draw(left, results, metric, _style.distinct_styles(results.methods), bands="deviations")
    _style.tick_values(left, results)
    for axes, (title, models) in zip(scatters, clouds.items(), strict=True):
        if np.ndim(models) != 2 or models.shape[1] < 2:
            raise InputError(
                f"{title}: models must have shape (nodes, 2 or more), not {np.shape(models)}",
                value=models,
            )
        pairs = _style.drawable(models[:, :2]).T
        axes.plot(*pairs, "o", markersize=3, alpha=0.6, color=_style.COLOURS[5])
        axes.set_title(title, fontsize=10)
        axes.set(xlabel=names[0], ylabel=names[1])
        axes.sharex(scatters[0])
        axes.sharey(scatters[0])
    return _style.finish(figure, results)


def methods_figure(results: Results, *, metrics: Sequence[str]) -> "Figure":
    """Draw the last record of several metrics, one row per method: trials and means with bars."""
    names = results.methods
    figure = _style.blank_figure(3 + 4 * len(metrics), 1.9 + 0.36 * len(names))
    grid = figure.subplots(1, len(metrics), sharey=True, squeeze=False)[0]
    rows = np.arange(len(names))[::-1]
    for axes, metric in zip(grid, metrics, strict=True):
        for i, value in enumerate(results.sweep):
            shown = [results.values(name, metric)[i, :, -1] for name in names]
            places = rows - 0.5 * (i + 0.5) / len(results.sweep) + 0.25
            look: dict[str, Any] = {"color": "0.6", "markersize": 9}
            for row, trials in zip(places, shown, strict=True):
                axes.plot(_style.drawable(trials), np.full(len(trials), row), "|", **look)
            _style.points_with_bars(
                axes,
                *_lines.band_of(results, summarize(np.stack(shown), axis=1), "deviations"),
                places,
                marker=_style.MARKERS[i % len(_style.MARKERS)],
                color=_style.COLOURS[i % len(_style.COLOURS)],
                label=f"{_style.parameter_label(results)} = {value:g}",
                markersize=5,
            )
        axes.set_yticks(rows, list(map(_style.readable, names)))
        axes.set_xlabel(_style.metric_label(results, metric))
        _style.logarithmic_along(axes, partly=True)
        axes.set_title(f"trials, {_lines.words(results, 'deviations')}", fontsize=10)
    return _style.finish(figure, results)


def ladder_figure(
    results: Results,
    *,
    metrics: Sequence[str],
    label: str,
) -> "Figure":
    """Draw the last record against a number in the methods' names: "family, 10".

    Args:
      results: of a finished run.
      metrics: one panel each.
      label: of the horizontal axis.
    """
    families: dict[str, list[str]] = {}
    for name in results.methods:
        families.setdefault(name.rpartition(", ")[0], []).append(name)
    several = len(results.sweep) > 1
    titles = {
        (family, i): f"{family}, {results.config['parameter_label']} {value:g}"
        if several
        else family
        for family in families
        for i, value in enumerate(results.sweep)
    }
    styles = _style.distinct_styles(titles.values())
    figure, grid = _style.few_panels(len(metrics))
    steps = {family: np.array(list(map(_step, names))) for family, names in families.items()}
    for axes, metric in zip(grid, metrics, strict=False):
        for (family, i), title in titles.items():
            ends = [results.values(name, metric)[i, :, -1] for name in families[family]]
            band = _lines.band_of(results, summarize(np.stack(ends), axis=1))
            _style.line_with_band(axes, steps[family], band, title, styles[title])
        axes.set_xticks(next(iter(steps.values())))
        axes.set(xlabel=label, ylabel=_style.metric_label(results, metric))
        axes.set_title(f"last round, {_lines.words(results)}", fontsize=10)
    handles, labels = grid[0].get_legend_handles_labels()
    return _style.finish(figure, results, dict(zip(labels, handles, strict=True)))


def _step(name: str) -> float:
    """Return the number at the end of a method's name."""
    with contextlib.suppress(ValueError):
        step = float(name.rpartition(", ")[2])
        if math.isfinite(step):
            return step
    raise InputError(
        f"a method of this figure is called FAMILY, NUMBER, but one is {name!r}", value=name
    )


def panels_figure(
    results: Results, *, metrics: Sequence[str], logarithmic: Sequence[str] = ()
) -> "Figure":
    """Draw the last record of several metrics against the swept number, one panel each.

    Args:
      results: of a finished run.
      metrics: one panel each.
      logarithmic: those whose axis is logarithmic.
    """
    figure, grid = _style.few_panels(len(metrics))
    for axes, metric in zip(grid, metrics, strict=True):
        _lines.draw(
            axes, results, metric, _style.distinct_styles(results.methods), title="last round"
        )
        _style.tick_values(axes, results)
        if metric in logarithmic:
            _style.logarithmic(axes)
    return _style.finish(figure, results)
