"""The figure of a completed table: errors against rounds, and those of every beta."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedjax_admm.trials.solve._style import FIRST, LEVEL, ORANGE, RED, add_grid, drawn
from fedjax_admm.trials.solve.ratings._fit import BIASES, FEDMC, Choice, RatingsFit

_TRAINING: dict[str, Any] = {"color": ORANGE, "linestyle": "--", "marker": "^"}


def draw_ratings_fit(fit: RatingsFit, title: str) -> Figure:
    """Draw errors against rounds; beside it those of the betas, if several were tried."""
    several = len(fit.choice.grid) > 1
    figure = Figure(figsize=(11.5 if several else 7, 5), layout="constrained")
    panels = figure.subplots(1, 1 + several, squeeze=False)[0]
    _draw_curve(panels[0], fit)
    if several:
        _draw_grid(panels[1], fit.choice)
    add_grid(*panels)
    for axes in panels:
        axes.set_ylabel("root mean square error (standard deviations)")
        axes.legend(frameon=False, fontsize=9)
    figure.suptitle(drawn(title), fontsize=11)
    return figure


def _draw_curve(axes: Axes, fit: RatingsFit) -> None:
    curve, level = fit.curve, fit.scores[BIASES].test
    axes.axhline(level, label=f"{BIASES}, test", **LEVEL)
    for name, style in (("test", FIRST), ("training", _TRAINING)):
        label = f"{FEDMC}, {name}"
        axes.plot(curve["round"], curve[f"{name}_error"], label=label, markersize=4, **style)
    axes.set_xlim(left=0)
    axes.set_xlabel("global round")


def _draw_grid(axes: Axes, choice: Choice) -> None:
    axes.axhline(choice.errors[BIASES], label=f"{BIASES}, validation", **LEVEL)
    shown = np.where(np.isfinite(choice.grid_errors), choice.grid_errors, np.nan)
    whole = choice.grid_rounds == choice.grid_rounds.max()
    look = {**FIRST, "marker": "s", "markersize": 5}
    axes.plot(choice.grid, shown, label=f"{FEDMC}, validation", **look)
    if not whole.all():
        look |= {"linestyle": "none", "markerfacecolor": "white", "zorder": 5}
        axes.plot(choice.grid[~whole], shown[~whole], label="stopped early", **look)
    look = {"markersize": 13, "fillstyle": "none", "color": RED, "markeredgewidth": 1.6}
    chosen = choice.beta, choice.errors[FEDMC]
    axes.plot(*chosen, "o", label=f"chosen: {choice.beta:.3g}", **look)
    axes.set_xscale("log")
    axes.set_xlabel("beta")
