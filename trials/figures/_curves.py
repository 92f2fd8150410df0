"""Figures of metrics against rounds, and against what the rounds cost."""

from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_admm.trials.figures import _lines, _style
from fedjax_admm.trials.figures._sweeps import draw_sweep
from fedjax_admm.trials.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COSTS = ("numbers_up", "numbers_down", "bits_up", "bits_down")  # measured without being named


def usual_figure(results: Results) -> "Figure":
    """Draw the first two of the experiment's metrics that were measured, a row each.

    They are drawn against the swept number where there are several values of it, else against
    rounds; a method has the same colour, line and marker in both rows. What is sent is no second.
    """
    measured = {name.rpartition("/")[2] for name in results.arrays}
    first, *others = (name for name in results.config["metrics"] if name in measured)
    shown = [first, *(name for name in others if name not in _COSTS)][:2]
    swept = len(results.sweep) > 1
    figure, grid = _style.panels(len(shown), 2 if swept else 3)
    for row, metric in zip(grid, shown, strict=True):
        (draw_sweep if swept else _draw_curves)(row, results, metric)
    return _style.finish(figure, results)


def curve_figure(results: Results, *, metric: str, heavy: bool = False) -> "Figure":
    """Draw a metric against rounds, its median too, and the mean against numbers sent.

    Args:
      results: of a run.
      metric: what is drawn.
      heavy: whether tails are heavy: medians have bands then, and means if they are asked for.
    """
    figure, grid = _style.panels(1, 3)
    _draw_curves(grid[0], results, metric, "none" if heavy else "errors")
    return _style.finish(figure, results)


def _draw_curves(row: np.ndarray, results: Results, metric: str, bands: str = "errors") -> None:
    """Draw mean and median against rounds, and the mean against numbers sent, in three panels."""
    styles = _style.family_styles(results.methods)
    # Bands of medians are drawn alone: those of ten methods would cover each other.
    kinds = (bands, "medians" if bands == "none" else "median", bands)
    costs = (_lines.ROUNDS, _lines.ROUNDS, "numbers_up")
    for axes, kind, cost in zip(row, kinds, costs, strict=True):
        _lines.draw(axes, results, metric, styles, bands=kind, against=cost)
        _style.logarithmic(axes, rounds=True)
    row[2].set_title("mean against traffic", fontsize=10)


def cost_figure(results: Results, *, metric: str) -> "Figure":
    """Draw a metric against what it costs: rounds, local passes, numbers sent.

    It is drawn at the first swept value, or in a row per value where everything is drawn.
    """
    rows = len(results.sweep) if _lines.everything(results) else 1
    figure, grid = _style.panels(rows, 3, sharey="row")
    styles = _style.family_styles(results.methods)
    for row, (line, value) in enumerate(zip(grid, results.sweep, strict=False)):
        for axes, cost in zip(line, (_lines.ROUNDS, "passes", _lines.SENT), strict=True):
            title = f"{_style.parameter_label(results)}: {value:g}"
            _lines.draw(axes, results, metric, styles, title=title, against=cost, row=row)
            _style.logarithmic(axes, rounds=True)
    return _style.finish(figure, results)


def curves_by_method_figure(results: Results, *, metric: str) -> "Figure":
    """Draw a metric's median against rounds: one column per method, one line per swept value.

    Where everything is drawn a row above has the means.
    """
    names = [name for name in results.methods if results.has(name, metric)]
    bands = ["errors", "medians"][not _lines.everything(results) :]
    figure, grid = _style.panels(len(bands), len(names), 3, 3.6, sharex=True, sharey=True)
    styles = list(_style.family_styles(map(str, range(len(results.sweep)))).values())
    for line, band in zip(grid, bands, strict=True):
        for axes, name in zip(line, names, strict=True):
            look: dict[str, Any] = {"bands": band, "against": _lines.ROUNDS}
            for row, (value, style) in enumerate(zip(results.sweep, styles, strict=True)):
                label = f"{value:g}"
                _lines.draw(axes, results, metric, {label: style}, {label: name}, row=row, **look)
            axes.set_title(f"{_style.readable(name)}\n{_lines.words(results, band)}", fontsize=10)
    for axes in grid.flat:
        _style.logarithmic(axes, rounds=True)
    return _style.finish(figure, results, legend_title=_style.parameter_label(results))


def progress_figure(results: Results) -> "Figure":
    """Draw the error against rounds and against numbers sent; methods that send nothing are levels.

    Where everything is drawn there are a fresh error, the objective, the training error, and the
    error against seconds too.

    Args:
      results: with the metrics error, fresh_error, training_error and objective, as far as a method
        has them, and the seconds per round of every method that sends something as details. The
        first swept value is drawn.
    """
    shown = [("error", _lines.ROUNDS), ("error", _lines.SENT)]
    if _lines.everything(results):
        shown[1:1] = [
            (each, _lines.ROUNDS) for each in ("fresh_error", "objective", "training_error")
        ]
        shown.append(("error", _lines.CLOCK))
    whole = len(shown) > 2
    figure, grid = _style.panels(1 + whole, 2 + whole, width=5.8 - whole, sharey=not whole)
    styles = _style.distinct_styles(results.methods)
    moving = {name: name for name in styles if results.has(name, "numbers_up")}
    for axes, (metric, cost) in zip(grid.flat, shown, strict=True):
        _lines.draw(axes, results, metric, styles, moving, against=cost)
        for name, style in styles.items():
            if name not in moving and results.has(name, metric):
                level = _lines.last(results, name, metric).mean[0]
                look = {key: style[key] for key in ("color", "linestyle")}
                axes.axhline(level, label=_style.readable(name), linewidth=1.4, **look)
        if cost != _lines.ROUNDS:
            _style.logarithmic_along(axes)
    return _style.finish(figure, results)
