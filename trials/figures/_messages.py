"""Figures of messages: what is reached for how many bits."""

from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_admm.trials.figures import _lines, _style
from fedjax_admm.trials.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def bits_figure(results: Results) -> "Figure":
    """Draw how many times fewer bits each compressor needs until the target is reached, by task.

    A cell is the mean bits of the first method of a task, which compresses nothing, over those of
    the method; it has no colour where less than half of the trials reach the target. Trials that
    never reach it count with all their bits: the mean is then too small, and the share of trials
    that reach it stands below. Where everything is drawn, a panel per task has the error against
    bits.

    Args:
      results: of a finished run, with the metrics error, bits, bits_to_target and reached, at the
        first swept value.
    """
    if not _lines.everything(results):
        return _savings_figure(results)
    look = {"metric": "error", "bands": "median", "against": "bits", "log": "xy"}
    tasks = _lines.tasks_in(results).items()
    looks = [{**look, "named": named, "title": _style.readable(task)} for task, named in tasks]
    rows = [looks[i : i + 3] for i in range(0, len(looks), 3)]
    styles = _style.distinct_styles(_lines.bare_names(results))
    target = f"{_style.parameter_label(results)} (dotted): {results.sweep[0]:g}"
    figure, _ = _lines.draw_panels(results, styles, rows, legend_title=target)
    for axes in figure.axes:
        axes.axhline(results.sweep[0], color="0.5", linewidth=0.8, linestyle=":")
        bottom, top = axes.get_ylim()
        if axes.get_yscale() == "log":
            axes.set_ylim(max(bottom, results.sweep[0] / 30), min(top, 3.0))
    return figure


def _savings_figure(results: Results) -> "Figure":
    """Draw the heat map of tasks and compressors."""
    tasks = _lines.tasks_in(results)
    uncompressed = {next(iter(methods)) for methods in tasks.values()}
    columns = [bare for bare in _lines.bare_names(results) if bare not in uncompressed] or ["none"]
    saved = np.full((len(tasks), len(columns)), np.nan)
    reached = np.zeros(saved.shape)
    for row, methods in enumerate(tasks.values()):
        bits, there = (
            {bare: _lines.last(results, name, metric).mean[0] for bare, name in methods.items()}
            for metric in ("bits_to_target", "reached")
        )
        for bare in methods.keys() & set(columns):
            place = row, columns.index(bare)
            saved[place], reached[place] = next(iter(bits.values())) / bits[bare], there[bare]
    figure = _style.blank_figure(2.4 + 0.92 * len(columns), 1.9 + 0.5 * len(tasks))
    axes = figure.subplots()
    with np.errstate(divide="ignore", invalid="ignore"):
        shade = np.where(reached >= 0.5, np.log2(_style.drawable(saved)), np.nan)
    most = max(1.0, float(np.nanmax(np.abs(shade), initial=0.0)))
    axes.imshow(shade, cmap="PuOr", vmin=-most, vmax=most, aspect="auto", alpha=0.7)
    for (row, column), ratio in np.ndenumerate(saved):
        share = reached[row, column]
        text = f"{ratio:.1f}×" + (f"\n{share:.0%} reach it" if share < 1 else "")
        if share == 0 or not np.isfinite(ratio):
            text = "–" if np.isnan(ratio) else "never"
        look: Any = {"ha": "center", "va": "center", "fontsize": 8 if "\n" in text else 10}
        look["color"] = "black" if share >= 0.5 else "0.45"
        axes.text(column, row, text, **look)
    slanted: Any = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(np.arange(len(columns)), list(map(_style.readable, columns)), **slanted)
    axes.set_yticks(np.arange(len(tasks)), list(map(_style.readable, tasks)))
    target = f"{_style.parameter_label(results)}: {results.sweep[0]:g}"
    axes.set_title(f"times fewer bits than without compression ({target})")
    _style.finish(figure, results)
    axes.grid(False)
    return figure
