"""Lines and bands over trials: against the swept number, or against what rounds cost.

A method's name may say its task before a colon: "ridge: zCDP-NFL". A task has panels of its own, in
which a method has the same look as in those of others.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm.trials.figures import _style
from fedjax_admm.trials.figures._choices import BANDS, figure_files
from fedjax_admm.trials.results import Results, Summary, summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SEPARATOR = ": "
"""What stands between the task and the method in a method's name."""

SWEPT, EVEN = "swept", "swept, evenly"
ROUNDS, SENT = "global round", "numbers sent, up and down"
CLOCK = "seconds on this machine, evaluation left out"

_FIXED = {  # bands that are drawn whatever is asked for
    "medians": "median, 10–90 % of trials",
    "median": "median",
    "mean": "mean",
    "shares": "failures ± standard error",
}

Band = tuple[np.ndarray, np.ndarray, np.ndarray]
"""The line in the middle, and the lower and the upper end of its band."""


def everything(results: Results) -> bool:
    """Return whether the figure shall show all methods and panels."""
    return figure_files(results.config).everything


def with_methods(results: Results, names: Sequence[str]) -> Results:
    """Return results of the named methods alone.

    All methods stay where everything is asked for, or where none of the names is there.

    Args:
      results: of a run, finished or not.
      names: in full, or without the task before the colon.
    """
    kept = [name for name in results.methods if name in names or name.partition(": ")[2] in names]
    left_out = len(results.methods) - len(kept)
    if everything(results) or not kept or not left_out:
        return results
    config = {**results.config, "methods": kept, _style.LEFT_OUT: left_out}
    return dataclasses.replace(results, config=config)


def tasks_in(results: Results) -> dict[str, dict[str, str]]:
    """Return task -> bare name -> name of the method."""
    tasks: dict[str, dict[str, str]] = {}
    for name in results.methods:
        task, separator, bare = name.partition(SEPARATOR)
        if not separator:
            raise InputError(
                f"a method of several tasks is called TASK{SEPARATOR}NAME, but one is {name!r}",
                value=name,
            )
        tasks.setdefault(task, {})[bare] = name
    return tasks


def bare_names(results: Results) -> list[str]:
    """Return the methods' names without their tasks, each once."""
    return list(dict.fromkeys(bare for methods in tasks_in(results).values() for bare in methods))


def band_of(results: Results, table: Summary, usual: str = "errors") -> Band:
    """Return the mean and the band around it that is asked for of the results' figure.

    Args:
      results: they say which band it is, one of `BANDS`.
      table: over trials.
      usual: the band where none is asked for, which may be "none". "medians" with their quantiles,
        "median", "mean" and "shares" with standard errors are drawn whatever is asked for.
    """
    kind = _kind(results, usual)
    middle = table.median if kind in ("medians", "median") else table.mean
    if kind in ("medians", "quantiles"):
        return middle, table.q10, table.q90
    if kind not in ("errors", "shares", "deviations"):
        return middle, middle, middle
    with np.errstate(over="ignore"):
        spread = table.standard_error
        if kind == "deviations":
            spread = spread * np.sqrt(table.trials - table.nonfinite)
        low, high = middle - spread, middle + spread
    if kind == "deviations":  # on a logarithmic axis a band down to zero would fill the panel
        low = np.where(middle > 0, np.maximum(low, middle / 10), low)
    return middle, low, high


def words(results: Results, usual: str = "errors") -> str:
    """Return what the title of a panel calls what `band_of` gives."""
    return (BANDS | _FIXED).get(_kind(results, usual), "mean")


def _kind(results: Results, usual: str) -> str:
    return usual if usual in _FIXED else figure_files(results.config).bands or usual


def last(results: Results, name: str, metric: str) -> Summary:
    """Return the summary of the last record over trials, an entry per swept value."""
    return summarize(results.values(name, metric)[:, :, -1], axis=1)


def draw(
    axes: "Axes",
    results: Results,
    metric: str,
    styles: _style.Looks,
    named: Mapping[str, str] | None = None,
    *,
    against: str = SWEPT,
    bands: str = "errors",
    title: str = "",
    row: int = 0,
    log: str = "",
    floor: float | None = None,
) -> None:
    """Draw a metric: its last record against the swept number, or its course; a line per method.

    Args:
      axes: its labels and its title are written too.
      results: methods without the metric, or without that it is drawn against, have no line.
      metric: what is drawn.
      styles: label -> look.
      named: label -> method; a label is the method's name if None.
      against: SWEPT, EVEN (the swept values at equal distances), ROUNDS, SENT, CLOCK or a metric,
        whose mean it is.
      bands: as in `band_of`.
      title: what stands before the words for the bands.
      row: which swept value a course is of.
      log: which axes are logarithmic if they can be: "x", "y" or "xy".
      floor: in decibels, in which the metric is drawn if it is given; what is smaller is there.
    """
    swept, known = against in (SWEPT, EVEN), against in (SWEPT, EVEN, ROUNDS, SENT, CLOCK)
    for label, name in ({each: each for each in styles} if named is None else named).items():
        if results.has(name, metric) and (known or results.has(name, against)):
            values = results.values(name, metric)
            table = summarize(values[:, :, -1], axis=1) if swept else summarize(values[row], axis=0)
            along, band = _along(results, name, against, row), band_of(results, table, bands)
            band = band if floor is None else [_in_decibels(each, floor) for each in band]
            _style.line_with_band(axes, along, band, label, styles[label])
    if against == EVEN:
        places = np.arange(len(results.sweep))
        axes.set_xticks(places, [f"{value:g}" for value in results.sweep])
    elif swept:
        _style.tick_values(axes, results)
    label = against if known else _style.metric_label(results, against)
    axes.set_xlabel(_style.parameter_label(results) if swept else label)
    axes.set_ylabel(_style.metric_label(results, metric) + ("" if floor is None else " (dB)"))
    axes.set_title(", ".join(filter(None, (title, words(results, bands)))))
    _style.logarithmic(axes, log)


def draw_panels(
    results: Results,
    styles: _style.Looks,
    rows: Sequence[Sequence[Mapping[str, Any]]],
    *size: float,
    legend_title: str = "",
    **shared: Any,
) -> "tuple[Figure, np.ndarray]":
    """Return a figure of rows of panels, each what `draw` is told, and the panels (rows, columns).

    Args:
      results: of a run.
      styles: label -> look, in all panels that have none of their own.
      rows: of arguments of `draw`; the last may be shorter, and one row of four stands in two.
      *size: height and width of a panel, as `_style.panels` takes them.
      legend_title: above the legend.
      **shared: which axes are shared, as `Figure.subplots` takes it.
    """
    if [len(row) for row in rows] == [4]:
        rows = rows[0][:2], rows[0][2:]
    figure, grid = _style.panels(len(rows), len(rows[0]), *size, **shared)
    looks = [*chain.from_iterable(rows)]
    for axes in grid.flat[len(looks) :]:
        axes.remove()
    for axes, look in zip(grid.flat, looks, strict=False):
        draw(axes, results, **{"styles": styles, **look})
    return _style.finish(figure, results, legend_title=legend_title), grid


def _in_decibels(values: np.ndarray, floor: float) -> np.ndarray:
    # Where rounding has made a gap negative or zero, it is at the floor; without one it has no
    # decibels and is not drawn.
    least = 10 ** (floor / 10)
    raised = np.maximum(values, least) if least else np.where(values > 0, values, np.nan)
    return 10 * np.log10(raised)


def _along(results: Results, name: str, against: str, row: int) -> np.ndarray:
    """Return what a metric of a method is drawn against."""
    if against == CLOCK:
        return results.rounds * float(results.detail(name))
    simple = {SWEPT: results.sweep, ROUNDS: results.rounds, EVEN: np.arange(len(results.sweep))}
    if against in simple:
        return simple[against]
    spent = ("numbers_up", "numbers_down") if against == SENT else (against,)
    with np.errstate(over="ignore"):
        parts = [summarize(results.values(name, each)[row], axis=0).mean for each in spent]
        return np.sum(parts, axis=0)
