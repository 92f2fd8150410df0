"""Figures and tables as papers print them: each panel says what it shows, and of which methods."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm.trials.figures import _lines, _style
from fedjax_admm.trials.results import Results, Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_AGAINST = {"rounds": _lines.ROUNDS, "seconds": _lines.CLOCK}


def printed_figure(
    results: Results,
    *,
    panels: Sequence[Mapping[str, Any]],
    labels: Mapping[str, str] | None = None,
    legend_title: str = "",
    columns: int = 3,
    **shared: Any,
) -> "Figure":
    """Draw panels, each with methods of its own.

    Args:
      results: of a run; a method, a swept value or a course that a panel needs and that is not
        there is an `InputError`.
      panels: what `draw` takes, with `methods` in place of `named`: label -> method, or names.
        `against` is "rounds" or "seconds"; without it the last record is drawn against the sweep.
        `at` is the swept value of a course, the last one if it is left out. With `each` there is a
        course for every swept value of a single method.
      labels: metric -> what the paper calls it, with its unit.
      legend_title: above the legend.
      columns: panels in a row, at most.
      **shared: which axes are shared, as `Figure.subplots` takes it.
    """
    results = _relabelled(results, labels)
    lines = [_lines_of(results, dict(panel)) for panel in panels]
    styles = _style.distinct_styles(dict.fromkeys(label for panel in lines for label in panel))
    across = min(len(panels), columns)
    figure, grid = _style.panels(-(-len(panels) // across), across, **shared)
    for axes, panel, drawn in zip(grid.flat, panels, lines, strict=False):
        look = {key: panel[key] for key in panel if key not in ("methods", "at", "each", "log")}
        look["against"] = _AGAINST.get(panel.get("against", ""), _lines.SWEPT)
        for label, (name, row) in drawn.items():
            _lines.draw(axes, results, styles=styles, named={label: name}, row=row, **look)
        _style.logarithmic(axes, panel.get("log", ""))
    return _style.finish(figure, results, legend_title=legend_title)


def _relabelled(results: Results, labels: Mapping[str, str] | None) -> Results:
    """Return results whose metrics are called as in the paper."""
    metrics = {**results.config["metrics"], **(labels or {})}
    return replace(results, config={**results.config, "metrics": metrics})


def _lines_of(results: Results, panel: dict[str, Any]) -> dict[str, tuple[str, int]]:
    """Return the label of every line of a panel, with its method and its place in the sweep."""
    names, metric = panel["methods"], panel["metric"]
    names = names if isinstance(names, Mapping) else {name: name for name in names}
    for name in names.values():
        if not results.has(name, metric):
            raise InputError(f"it has no {metric!r} of {name!r}", value=name)
    if "against" in panel and len(results.rounds) < 2:
        raise InputError("it has a single record of its rounds")
    if panel.get("each"):
        (name,) = names.values()
        return {f"{value:g}": (name, row) for row, value in enumerate(results.sweep)}
    row = row_at(results, panel.get("at"))
    return {label: (name, row) for label, name in names.items()}


def row_at(results: Results, value: float | None) -> int:
    """Return the place of a swept value, the last one if it is None."""
    if value is None:
        return len(results.sweep) - 1
    near = np.flatnonzero(np.isclose(results.sweep, value))
    if not near.size:
        raise InputError(f"it has no {results.config['parameter']} {value:g}", value=value)
    return int(near[0])


def printed_table(
    results: Results,
    *,
    rows: Mapping[str, str],
    metrics: Mapping[str, float],
    printed: Mapping[str, Sequence[str]],
    labels: Mapping[str, str] | None = None,
    at: float | None = None,
) -> "Figure":
    """Draw a table of the last record: means over trials beside what the paper prints.

    Args:
      results: of a run, as in `printed_figure`.
      rows: what the paper calls a method -> method.
      metrics: metric -> the unit of its numbers, 0.01 for per cent; a column each.
      printed: what the paper calls a method -> its printed cells, one per metric.
      labels: metric -> what the paper calls it, with its unit.
      at: the swept value, the last one if it is None.
    """
    results = _relabelled(results, labels)
    row = row_at(results, at)
    cells = []
    for label, name in rows.items():
        measured = [_lines.last(results, name, each) for each in metrics]
        shown = [
            _cell(table, row, unit) for table, unit in zip(measured, metrics.values(), strict=True)
        ]
        cells.append([label, *printed.get(label, ["-"] * len(metrics)), *shown])
    names = [
        results.label(each) + (" (%)" if unit == 0.01 else "") for each, unit in metrics.items()
    ]
    heads = ["", *(f"{name},\nprinted" for name in names), *(f"{name},\nhere" for name in names)]
    figure = _style.blank_figure(2.4 + 2.3 * len(heads[1:]), 1.6 + 0.4 * len(rows))
    axes = figure.subplots()
    axes.axis("off")
    drawn = axes.table(cells, colLabels=heads, loc="center", cellLoc="center", edges="horizontal")
    drawn.auto_set_font_size(False)
    drawn.set_fontsize(9)
    drawn.auto_set_column_width(range(len(heads)))
    for (line, _), cell in drawn.get_celld().items():
        cell.set_height(0.9 / (len(rows) + 2) * (2 if line == 0 else 1))
    axes.set_title("mean (standard deviation of a trial)")
    return _style.finish(figure, results)


def _cell(table: Summary, row: int, unit: float) -> str:
    """Return a mean and the deviation of a trial."""
    deviation = table.standard_error * np.sqrt(table.trials - table.nonfinite)
    digits = ".2e" if 0 < abs(table.mean[row]) < 1e-2 else ".3g"
    return f"{table.mean[row] / unit:{digits}} ({deviation[row] / unit:.2g})"


def printed_clouds(
    results: Results,
    *,
    clouds: Mapping[str, np.ndarray],
    names: tuple[str, str],
    columns: int = 3,
    dense: str = "",
) -> "Figure":
    """Draw a panel for each cloud of models, on common axes.

    Args:
      results: of a run.
      clouds: title -> models, shape (nodes, dim); their first two entries are drawn.
      names: of these two entries.
      columns: panels in a row, at most.
      dense: what the others are called of which the colour of a model says how many are near;
        without it all models have one colour.
    """
    across = min(len(clouds), columns)
    shape = -(-len(clouds) // across), across
    figure, grid = _style.panels(*shape, sharex=True, sharey=True)
    every = np.concatenate([_style.drawable(models[:, :2]) for models in clouds.values()])
    near = 0.05 * np.max(np.ptp(every, axis=0)) or 1.0
    for axes, (title, models) in zip(grid.flat, clouds.items(), strict=True):
        pairs = _style.drawable(models[:, :2])
        points = axes.scatter(*pairs.T, s=10, alpha=0.8, linewidths=0, color=_style.COLOURS[5])
        if dense:
            apart = np.linalg.norm(pairs[:, None] - pairs[None], axis=-1)
            points.set_array(np.sum(apart < near, axis=1))
            figure.colorbar(points, ax=axes, label=f"{dense} nearer than {near:.2g}")
        axes.set(title=title, xlabel=names[0], ylabel=names[1])
        axes.locator_params(nbins=5)
    return _style.finish(figure, results)
