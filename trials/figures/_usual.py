"""The figure of an experiment that has none of its own."""

from typing import TYPE_CHECKING

from fedjax_admm.trials.figures._curves import curve_figure
from fedjax_admm.trials.figures._sweeps import sweep_figure
from fedjax_admm.trials.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def usual_figure(results: Results) -> "Figure":
    """Draw the first of the experiment's metrics that was measured.

    It is drawn against the swept number where there are several values of it, else against rounds.
    """
    measured = {name.rpartition("/")[2] for name in results.arrays}
    metric = next(name for name in results.config["metrics"] if name in measured)
    draw = sweep_figure if len(results.sweep) > 1 else curve_figure
    return draw(results, metric=metric)
