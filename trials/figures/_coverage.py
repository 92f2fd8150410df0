"""Figures of coverage: the share of trials whose region holds the truth, against number of data.

A method's name says its noise before a colon: "Cauchy: sandwich".
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fedjax_admm.trials.figures._bands import mean_band, mean_words
from fedjax_admm.trials.figures._selection import everything
from fedjax_admm.trials.figures._style import (
    blank_figure,
    distinct_styles,
    finish,
    line_with_band,
    parameter_label,
    readable,
    tick_values,
    width_of,
)
from fedjax_admm.trials.figures._tasks import bare_names, tasks_in
from fedjax_admm.trials.results import Results, summarize

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def coverage_figure(
    results: Results, *, levels: Mapping[str, float], leading: str | None = None
) -> "Figure":
    """Draw coverage against the swept number: a column per noise, a row per nominal level.

    Args:
      results: of a finished run.
      levels: metric -> nominal level, drawn as a grey line.
      leading: the metric that has a row where not everything is drawn; all if None.
    """
    tasks = tasks_in(results)
    if leading is not None and not everything(results):
        levels = {leading: levels[leading]}
    figure = blank_figure(width_of(len(tasks)), 1.5 + 2.6 * len(levels))
    grid = figure.subplots(len(levels), len(tasks), sharex=True, sharey="row", squeeze=False)
    styles = distinct_styles(bare_names(results))
    for line, (metric, level) in zip(grid, levels.items(), strict=True):
        for axes, (task, names) in zip(line, tasks.items(), strict=True):
            axes.axhline(level, color="0.6", linewidth=0.8)
            for bare, name in names.items():
                table = summarize(results.values(name, metric)[:, :, -1], axis=1)
                line_with_band(axes, results.sweep, *mean_band(results, table), bare, styles[bare])
            axes.set_title(f"{readable(task)}, {level:.0%} regions", fontsize=10)
            tick_values(axes, results)
        line[0].set_ylabel(f"coverage, {mean_words(results)}", fontsize=9)
    for axes in grid[-1]:
        axes.set_xlabel(parameter_label(results))
    finish(figure, results, grid[0, 0])
    return figure
