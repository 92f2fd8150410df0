"""Figures of metrics against rounds, and against what the rounds cost."""

from typing import TYPE_CHECKING, Any

from fedjax_admm.trials.figures import _lines, _style
from fedjax_admm.trials.figures._sweeps import ends
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
    rows = [(ends if len(results.sweep) > 1 else _courses)(metric) for metric in shown]
    return _lines.draw_panels(results, _style.family_styles(results.methods), rows)[0]


def curve_figure(results: Results, *, metric: str, heavy: bool = False) -> "Figure":
    """Draw a metric against rounds, its median too, and the mean against numbers sent.

    Args:
      results: of a run.
      metric: what is drawn.
      heavy: whether tails are heavy: medians have bands then, and means if they are asked for.
    """
    rows = [_courses(metric, "none" if heavy else "errors")]
    return _lines.draw_panels(results, _style.family_styles(results.methods), rows)[0]


def _courses(metric: str, bands: str = "errors") -> list[dict[str, Any]]:
    """Return mean and median against rounds, and the mean against numbers sent."""
    # Bands of medians are drawn alone: those of ten methods would cover each other.
    kinds = (bands, "medians" if bands == "none" else "median", bands)
    costs = (_lines.ROUNDS, _lines.ROUNDS, "numbers_up")
    look = {"metric": metric, "log": "xy"}
    return [
        {**look, "bands": kind, "against": cost} for kind, cost in zip(kinds, costs, strict=True)
    ]


def cost_figure(results: Results, *, metric: str) -> "Figure":
    """Draw a metric against what it costs: rounds, local passes, numbers sent.

    It is drawn at the first swept value, or in a row per value where everything is drawn.
    """
    shown = results.sweep if _lines.everything(results) else results.sweep[:1]
    title = _style.parameter_label(results)
    look = {"metric": metric, "log": "xy"}
    rows = [
        [
            {**look, "against": cost, "row": row, "title": f"{title}: {value:g}"}
            for cost in (_lines.ROUNDS, "passes", _lines.SENT)
        ]
        for row, value in enumerate(shown)
    ]
    styles = _style.family_styles(results.methods)
    return _lines.draw_panels(results, styles, rows, sharey="row")[0]


def curves_by_method_figure(results: Results, *, metric: str) -> "Figure":
    """Draw a metric's median against rounds: one column per method, one line per swept value.

    Where everything is drawn a row above has the means.
    """
    names = [name for name in results.methods if results.has(name, metric)]
    bands = ["errors", "medians"][not _lines.everything(results) :]
    figure, grid = _style.panels(len(bands), len(names), 3, 3.6, sharex=True, sharey=True)
    looks = _style.family_styles(f"{value:g}" for value in results.sweep)
    for line, band in zip(grid, bands, strict=True):
        for axes, name in zip(line, names, strict=True):
            for row, label in enumerate(looks):
                more: Any = {"bands": band, "against": _lines.ROUNDS, "row": row}
                _lines.draw(axes, results, metric, looks, {label: name}, **more)
            axes.set_title(f"{_style.readable(name)}\n{_lines.words(results, band)}")
            _style.logarithmic(axes, "xy")
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
    whole = _lines.everything(results)
    metrics = ["error", *(("fresh_error", "objective", "training_error") if whole else ())]
    costs = [_lines.SENT, _lines.CLOCK][: 1 + whole]
    looks: Any = [{"metric": each, "against": _lines.ROUNDS} for each in metrics]
    looks += [{"metric": "error", "against": cost, "log": "x"} for cost in costs]
    styles = _style.distinct_styles(results.methods)
    moving = {name: name for name in styles if results.has(name, "numbers_up")}
    figure, grid = _style.panels(1 + whole, 2 + whole, width=5.8 - whole, sharey=not whole)
    for axes, look in zip(grid.flat, looks, strict=True):
        _lines.draw(axes, results, styles=styles, named=moving, **look)
        for name in (each for each in styles if each not in moving):
            if results.has(name, look["metric"]):
                level = _lines.last(results, name, look["metric"]).mean[0]
                style = {**styles[name], "marker": "", "linewidth": 1.4}
                axes.axhline(level, label=_style.readable(name), **style)
    return _style.finish(figure, results)
