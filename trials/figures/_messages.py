"""Figures of messages: what is reached for how many bits.

A method's name says its task before a colon, as in the figures of several tasks.
"""

from typing import TYPE_CHECKING

import numpy as np

from fedjax_admm.trials.figures._bands import mean_band, mean_words
from fedjax_admm.trials.figures._selection import everything
from fedjax_admm.trials.figures._style import (
    blank_figure,
    distinct_styles,
    draw_line,
    drawable,
    finish,
    logarithmic,
    logarithmic_along,
    metric_label,
    parameter_label,
    points_with_bars,
    readable,
)
from fedjax_admm.trials.figures._tasks import bare_names, tasks_in
from fedjax_admm.trials.results import Results, summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = 3


def bits_figure(results: Results) -> "Figure":
    """Draw how many times fewer bits each compressor needs until the target is reached, by task.

    A cell is the mean bits of the first method of a task, which compresses nothing, over those of
    the method; it has no colour where less than half of the trials reach the target. Where
    everything is drawn, a column per task has the error against bits and the bits until the target
    is reached.

    Trials that never reach it count with all their bits: the mean is then too small. Such a mean
    is drawn hollow, and the share of trials that reach the target stands beside it.

    Args:
      results: of a finished run, with the metrics error, bits, bits_to_target and reached, at the
        first swept value.
    """
    if not everything(results):
        return _savings_figure(results)
    tasks = tasks_in(results)
    columns = min(_COLUMNS, len(tasks))
    lines = -(-len(tasks) // columns)
    figure = blank_figure(4.9 * columns, 1.2 + 5.6 * lines)
    grid = figure.subplots(2 * lines, columns, squeeze=False)
    styles = distinct_styles(bare_names(results))
    for place, (task, methods) in enumerate(tasks.items()):
        row, column = divmod(place, columns)
        _draw_curves(grid[2 * row, column], results, task, methods, styles)
        _draw_bits(grid[2 * row + 1, column], results, task, methods, styles)
    for place in range(len(tasks), lines * columns):
        row, column = divmod(place, columns)
        grid[2 * row, column].remove()
        grid[2 * row + 1, column].remove()
    shown = {line.get_label(): line for axes in grid[::2].flat for line in axes.lines}
    shown = {label: line for label, line in shown.items() if not str(label).startswith("_")}
    target = f"{parameter_label(results)}: {results.sweep[0]:g}"
    finish(
        figure,
        results,
        shown,
        legend_title=f"{target}. Curves: median; below: {mean_words(results)}. Hollow: not all "
        "trials reach it (share beside), and those that do not count with all their bits",
    )
    return figure


def _savings_figure(results: Results) -> "Figure":
    """Draw the heat map of tasks and compressors."""
    tasks = tasks_in(results)
    uncompressed = {next(iter(methods)) for methods in tasks.values()}
    columns = [bare for bare in bare_names(results) if bare not in uncompressed] or ["none"]
    saved = np.full((len(tasks), len(columns)), np.nan)
    reached = np.zeros(saved.shape)
    for row, methods in enumerate(tasks.values()):
        bits, share = (
            {
                bare: summarize(results.values(name, metric)[0, :, -1], axis=0).mean
                for bare, name in methods.items()
            }
            for metric in ("bits_to_target", "reached")
        )
        plain = next(iter(bits.values()))
        for bare in methods.keys() & set(columns):
            saved[row, columns.index(bare)] = plain / bits[bare]
            reached[row, columns.index(bare)] = share[bare]
    figure = blank_figure(2.4 + 0.92 * len(columns), 1.9 + 0.5 * len(tasks))
    axes = figure.subplots()
    with np.errstate(divide="ignore", invalid="ignore"):
        shade = np.where(reached >= 0.5, np.log2(drawable(saved)), np.nan)
    most = max(1.0, float(np.nanmax(np.abs(shade), initial=0.0)))
    axes.imshow(shade, cmap="PuOr", vmin=-most, vmax=most, aspect="auto")
    for (row, column), ratio in np.ndenumerate(saved):
        share = reached[row, column]
        if share == 0 or not np.isfinite(ratio):
            text = "–" if np.isnan(ratio) else "never"
        else:
            text = f"{ratio:.1f}×" + (f"\n{share:.0%} reach it" if share < 1 else "")
        dark = share >= 0.5 and abs(shade[row, column]) > 0.7 * most
        size = 10 if "\n" not in text else 8
        axes.text(
            *(column, row, text),
            ha="center",
            va="center",
            fontsize=size,
            color="white" if dark else "black" if share >= 0.5 else "0.45",
        )
    axes.set_xticks(np.arange(len(columns)), [readable(bare) for bare in columns], rotation=30)
    for label in axes.get_xticklabels():
        label.set(ha="right", rotation_mode="anchor")
    axes.set_yticks(np.arange(len(tasks)), list(map(readable, tasks)))
    target = f"{parameter_label(results)}: {results.sweep[0]:g}"
    axes.set_title(f"times fewer bits than without compression ({target})", fontsize=10)
    finish(figure, results, {})
    axes.grid(False)
    return figure


def _draw_curves(
    axes: "Axes", results: Results, task: str, methods: dict[str, str], styles: dict
) -> None:
    """Draw the median error against bits."""
    for bare, name in methods.items():
        error = summarize(results.values(name, "error")[0], axis=0).median
        bits = summarize(results.values(name, "bits")[0], axis=0).mean
        fresh = np.diff(bits, prepend=0) > 0  # where a task has ended nothing moves any more
        draw_line(axes, bits[fresh], error[fresh], bare, styles[bare])
    axes.axhline(results.sweep[0], color="0.5", linewidth=0.8, linestyle=":")
    logarithmic(axes)
    logarithmic_along(axes)
    axes.xaxis.set_minor_formatter("")
    bottom, top = axes.get_ylim()
    if axes.get_yscale() == "log":
        axes.set_ylim(max(bottom, results.sweep[0] / 30), min(top, 3.0))
    axes.set_title(readable(task), fontsize=10)
    axes.set_ylabel(metric_label(results, "error"))


def _draw_bits(
    axes: "Axes", results: Results, task: str, methods: dict[str, str], styles: dict
) -> None:
    """Draw the mean bits until the target is reached, a line for every method."""
    rows = np.arange(len(methods))[::-1]
    for row, (bare, name) in zip(rows, methods.items(), strict=True):
        table = summarize(results.values(name, "bits_to_target")[0, :, -1], axis=0)
        band = mean_band(results, table)
        share = summarize(results.values(name, "reached")[0, :, -1], axis=0).mean
        style = styles[bare]
        points_with_bars(
            axes,
            *band,
            np.array([row]),
            marker=style["marker"] if style["marker"] not in "x+12" else "p",
            color=style["color"],
            markerfacecolor=style["color"] if share == 1 else "none",
            markersize=6,
        )
        if share < 1:
            axes.annotate(
                f"→ {share:.0%}",
                (float(table.mean), row),
                xytext=(9, 0),
                textcoords="offset points",
                fontsize=7,
                va="center",
            )
    axes.set_title(readable(task), fontsize=10)
    axes.set_yticks(rows, [readable(bare) for bare in methods], fontsize=8)
    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter("")
    axes.margins(x=0.18)
    axes.set_xlabel("bits, all senders")
