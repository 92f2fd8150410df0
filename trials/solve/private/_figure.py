"""The figure of a private fit: disagreement and noise, the epsilon spent, errors if evaluated."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedjax_admm.privacy import rounded_up
from fedjax_admm.trials.solve._style import FIRST, SECOND, add_grid, drawn, make_logarithmic
from fedjax_admm.trials.solve.private._fit import PrivateFit

UNPROTECTED = "not protected by the guarantee"
_NO_NOISE = "no noise, no guarantee"


def label_of(fit: PrivateFit) -> str:
    """Return what is said beside every epsilon: nothing where it is guaranteed."""
    return _NO_NOISE if np.isinf(fit.settings.epsilon) else ""


def draw_private_fit(fit: PrivateFit, title: str) -> Figure:
    """Draw disagreement and noise, the epsilon spent, and errors where they were evaluated."""
    panels = 2 + (fit.evaluation is not None)
    figure = Figure(figsize=(5.4 * panels, 5.4), layout="constrained")
    axes = figure.subplots(1, panels)
    _draw_models(axes[0], fit)
    _draw_epsilon(axes[1], fit)
    if fit.evaluation is not None:
        _draw_evaluation(axes[2], fit)
    for each in axes:
        each.set_xlim(left=0)
        each.set_xlabel("round")
        add_grid(each)
        if each.get_legend_handles_labels()[0]:
            each.legend(frameon=False, fontsize=9)
    figure.suptitle(drawn(title), fontsize=11)
    return figure


def _draw_models(axes: Axes, fit: PrivateFit) -> None:
    curve = fit.curve
    _line(axes, curve["round"], curve["disagreement"], "distance from their mean", FIRST)
    if (curve["noise"] > 0).any():
        _line(axes, curve["round"], curve["noise"], "length of their noise", SECOND)
    make_logarithmic(axes)
    axes.set_ylabel("root mean square over clients")
    axes.set_title("released models", fontsize=10)


def _draw_epsilon(axes: Axes, fit: PrivateFit) -> None:
    curve, label = fit.curve, label_of(fit)
    if np.isfinite(curve["epsilon"]).all():
        by = "zCDP" if fit.plan.accounting == "zcdp" else f"{fit.plan.accounting} composition"
        _line(axes, curve["round"], curve["epsilon"], f"by {by}", FIRST)
        _line(axes, curve["round"], curve["exact_epsilon"], "exact", SECOND)
        axes.set_ylim(bottom=0)
    else:
        axes.text(0.5, 0.5, "infinite: no noise", ha="center", transform=axes.transAxes)
        axes.set(xlim=(0, curve["round"][-1]), yticks=[])
    axes.set_ylabel(f"epsilon at delta {rounded_up(fit.plan.delta, 6)}")
    axes.set_title(f"spent by each client{label and f' ({label})'}", fontsize=10)


def _draw_evaluation(axes: Axes, fit: PrivateFit) -> None:
    assert fit.evaluation is not None
    rounds = fit.curve["round"]
    _line(axes, rounds, fit.evaluation["released_error"], "released models", FIRST)
    _line(axes, rounds, fit.evaluation["unprotected_error"], "models without noise", SECOND)
    make_logarithmic(axes)
    axes.set_ylabel("squared relative errors, sum over clients")
    axes.set_title(UNPROTECTED, fontsize=10)


def _line(
    axes: Axes, rounds: np.ndarray, values: np.ndarray, label: str, style: Mapping[str, Any]
) -> None:
    seen = np.isfinite(values)  # relative errors are not where the minimiser is zero
    if seen.any():
        axes.plot(
            rounds[seen], values[seen], label=label, markersize=4, markevery=(0.05, 0.12), **style
        )
