"""The figure of an experiment that has none of its own."""

from typing import TYPE_CHECKING

from fedjax_admm.trials.figures._curves import draw_curves
from fedjax_admm.trials.figures._style import WIDEST, blank_figure, finish
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
    width, height, columns = (9, 4.6, 2) if swept else (WIDEST, 5, 3)
    figure = blank_figure(width, height * len(shown))
    grid = figure.subplots(len(shown), columns, squeeze=False)
    for panels, metric in zip(grid, shown, strict=True):
        (draw_sweep if swept else draw_curves)(panels, results, metric)
    finish(figure, results, {line.get_label(): line for axes in grid.flat for line in axes.lines})
    return figure
