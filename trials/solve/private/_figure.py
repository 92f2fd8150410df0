"""The figure of a private fit: disagreement and noise, the epsilon spent, errors if evaluated."""

from collections.abc import Mapping

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
    curve, plan, seen, label = fit.curve, fit.plan, fit.evaluation, label_of(fit)
    by = "zCDP" if plan.accounting == "zcdp" else f"{plan.accounting} composition"
    names = ("released models", f"spent by each client{label and f' ({label})'}", UNPROTECTED)
    measured = (
        "root mean square over clients",
        f"epsilon at delta {rounded_up(plan.delta, 6)}",
        "squared relative errors, sum over clients",
    )
    lines = [
        {
            "distance from their mean": curve["disagreement"],
            "length of their noise": curve["noise"],
        },
        {f"by {by}": curve["epsilon"], "exact": curve["exact_epsilon"]},
    ]
    if seen is not None:
        own = "models without noise"
        lines.append({names[0]: seen["released_error"], own: seen["unprotected_error"]})
    figure = Figure(figsize=(5.4 * len(lines), 5.4), layout="constrained")
    for place, axes in enumerate(figure.subplots(1, len(lines))):
        _draw_lines(axes, curve["round"], lines[place])
        if place != 1:
            make_logarithmic(axes)
        elif axes.lines:
            axes.set_ylim(bottom=0)
        else:
            axes.text(0.5, 0.5, "infinite: no noise", ha="center", transform=axes.transAxes)
            axes.set(xlim=(0, curve["round"][-1]), yticks=[])
        axes.set_xlim(left=0)
        axes.set(xlabel="round", ylabel=measured[place])
        axes.set_title(names[place], fontsize=10)
        add_grid(axes)
    figure.suptitle(drawn(title), fontsize=11)
    return figure


def _draw_lines(axes: Axes, rounds: np.ndarray, lines: Mapping[str, np.ndarray]) -> None:
    for (name, values), look in zip(lines.items(), (FIRST, SECOND), strict=True):
        there = np.isfinite(values)  # relative errors are not where the minimiser is zero
        if values[there].any():
            marks = {"markersize": 4, "markevery": (0.05, 0.12)}
            axes.plot(rounds[there], values[there], label=name, **marks, **look)
    if axes.lines:
        axes.legend(frameon=False, fontsize=9)
