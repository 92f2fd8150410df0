"""Figures of the last record: against the swept number, or of methods side by side."""

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
    row = ends(metric, "none" if heavy else "errors")
    row += [] if share is None else [{"metric": share, "bands": "shares"}]
    styles = _style.family_styles(results.methods)
    figure, (grid,) = _lines.draw_panels(results, styles, [row])
    if share is not None:
        grid[2].set_ylim(0, max(grid[2].get_ylim()[1], 0.01))
        grid[2].yaxis.set_major_formatter(lambda y, _: f"{100 * y:.3g}")
        grid[2].set_ylabel(f"{_style.metric_label(results, share)} (%)")
    if floor is not None:
        for axes in grid[:2]:
            axes.set_ylim(floor, max(axes.get_ylim()[1], 10 * floor))
        has = [name for name in results.methods if results.has(name, metric)]
        below = [
            _style.readable(name)
            for name in has
            for median in [_lines.last(results, name, metric).median]
            if np.any(median < floor) and not np.any(median >= floor)
        ]
        if below:
            _style.note(grid[1], f"{', '.join(below)}: median below {floor:g}")
    return figure


def ends(metric: str, bands: str = "errors") -> list[dict[str, Any]]:
    """Return panels of the mean and the median of the last record against the swept number."""
    return [{"metric": metric, "bands": kind, "log": "y"} for kind in (bands, "medians")]


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
    row: list[dict[str, Any]] = []
    for family, members in shown.items():
        named = {name.removeprefix(f"{family}, "): name for name in members}
        look = {"metric": metric, "bands": "deviations", "log": "y"}
        title = family and _style.readable(family)
        row.append({**look, "title": title, "named": named, "styles": _style.family_styles(named)})
    return _lines.draw_panels(results, {}, [row], 3.4, 8.5 if alone else 4.7, sharey=True)[0]


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
    for axes, (title, models) in zip(scatters, clouds.items(), strict=True):
        pairs = _style.drawable(models[:, :2]).T
        axes.plot(*pairs, "o", markersize=3, alpha=0.6, color=_style.COLOURS[5])
        axes.set(title=title, xlabel=names[0], ylabel=names[1])
        axes.sharex(scatters[0])
        axes.sharey(scatters[0])
    return _style.finish(figure, results)


def methods_figure(results: Results, *, metrics: Sequence[str]) -> "Figure":
    """Draw the last record of several metrics, one row per method: trials and means with bars."""
    names = results.methods
    figure = _style.blank_figure(3 + 4 * len(metrics), 1.9 + 0.36 * len(names))
    grid = figure.subplots(1, len(metrics), sharey=True, squeeze=False)[0]
    rows = np.arange(len(names))[::-1]
    labels = [f"{_style.parameter_label(results)} = {value:g}" for value in results.sweep]
    for axes, metric in zip(grid, metrics, strict=True):
        for i, (label, look) in enumerate(_style.distinct_styles(labels).items()):
            shown = np.stack([results.values(name, metric)[i, :, -1] for name in names])
            places = rows - 0.5 * (i + 0.5) / len(labels) + 0.25
            axes.plot(_style.drawable(shown), places, "|", color="0.6", markersize=9)
            band = _lines.band_of(results, summarize(shown, axis=1), "deviations")
            middle, low, high = map(_style.drawable, band)
            axes.hlines(places, low, high, color=look["color"])
            more = {**look, "linestyle": "none", "markersize": 5}
            axes.plot(middle, places, label=label, **more)
        axes.set_yticks(rows, list(map(_style.readable, names)))
        axes.set_xlabel(_style.metric_label(results, metric))
        _style.logarithmic(axes, "x")
        axes.set_title(f"trials, {_lines.words(results, 'deviations')}")
    return _style.finish(figure, results)


def ladder_figure(results: Results, *, metrics: Sequence[str], label: str) -> "Figure":
    """Draw the last record against a number in the methods' names: "family, 10".

    Args:
      results: of a finished run.
      metrics: one panel each.
      label: of the horizontal axis.
    """
    families: dict[str, list[str]] = {}
    for name in results.methods:
        families.setdefault(name.rpartition(", ")[0], []).append(name)
    swept = [f", {results.config['parameter_label']} {value:g}" for value in results.sweep]
    ends = swept if len(swept) > 1 else [""]
    titles = {(family, i): family + end for family in families for i, end in enumerate(ends)}
    styles = _style.distinct_styles(titles.values())
    figure, grid = _style.panels(1, len(metrics))
    steps = {family: np.array(list(map(_step, names))) for family, names in families.items()}
    for axes, metric in zip(grid[0], metrics, strict=True):
        for (family, i), title in titles.items():
            last = [results.values(name, metric)[i, :, -1] for name in families[family]]
            band = _lines.band_of(results, summarize(np.stack(last), axis=1))
            _style.line_with_band(axes, steps[family], band, title, styles[title])
        axes.set_xticks(next(iter(steps.values())))
        axes.set(xlabel=label, ylabel=_style.metric_label(results, metric))
        axes.set_title(f"last round, {_lines.words(results)}")
    return _style.finish(figure, results)


def _step(name: str) -> float:
    """Return the number at the end of a method's name."""
    try:
        return float(name.rpartition(", ")[2])
    except ValueError:
        mistake = f"a method of this figure is called FAMILY, NUMBER, but one is {name!r}"
        raise InputError(mistake, value=name) from None


def panels_figure(
    results: Results, *, metrics: Sequence[str], logarithmic: Sequence[str] = ()
) -> "Figure":
    """Draw the last record of several metrics against the swept number, one panel each.

    Args:
      results: of a finished run.
      metrics: one panel each.
      logarithmic: those whose axis is logarithmic.
    """
    look = {"title": "last round"}
    row = [{**look, "metric": each, "log": "y" * (each in logarithmic)} for each in metrics]
    return _lines.draw_panels(results, _style.distinct_styles(results.methods), [row])[0]
