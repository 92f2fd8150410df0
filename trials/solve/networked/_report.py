"""What `solve networked` tells and writes: models, their comparison, the grid of lam."""

from collections.abc import Sequence

import numpy as np

from fedjax_admm.trials.solve._solution import MODELS, Rows, Solution, model_rows
from fedjax_admm.trials.solve._words import told
from fedjax_admm.trials.solve.networked._figure import draw_networked
from fedjax_admm.trials.solve.networked._fit import NetworkedFit
from fedjax_admm.trials.solve.networked._settings import NetworkedSettings
from fedjax_admm.trials.tables._node_graphs import QUANTILES

COMPARISON, GRID_TABLE = NetworkedSettings.tables
_EQUAL = 1e-6  # share of an error below which a difference is one of rounding


def solution(fit: NetworkedFit, title: str) -> Solution:
    """Return the text and the files of the models of a network."""
    seen, network, chosen = fit.observations, fit.network, (fit.chosen, -1)
    first = {"node": seen.nodes, "cluster": fit.cluster}
    last = {"rows": seen.counts, "isolated": network.isolated}
    above = told("networked/title.txt", fit=fit, s=fit.settings, title=title)
    return Solution(
        settings=fit.settings,
        text=summary(fit),
        tables={
            MODELS: model_rows(seen, fit.models, first, last),
            COMPARISON: list(_comparison_rows(fit)),
            GRID_TABLE: list(_grid_rows(fit)) if len(fit.grid) > 1 else None,
        },
        draw=lambda: draw_networked(fit, above),
        data={
            "rows": seen.rows,
            "nodes": len(seen.nodes),
            "absent_nodes": seen.absent,
            "coefficients": seen.columns,
            "edges": network.num_edges,
            "isolated": network.isolated.sum(),
            "graph": network.made,
            "threshold": network.threshold,
        },
        result={
            "lam": fit.lam,
            "lam_chosen_on_splits": fit.chosen_on,
            "reported_splits": fit.reported,
            "gap": fit.gaps[chosen],
            "rounds": fit.rounds[chosen],
            "converged": fit.converged[chosen],
            "unfinished_lams": fit.grid[~fit.converged.all(1)],
            "clusters": (fit.cluster_sizes > 1).sum(),
        },
    )


def summary(fit: NetworkedFit) -> str:
    """Return the text that a person reads."""
    choosing, sizes, errors = len(fit.chosen_on), fit.cluster_sizes, fit.errors
    mine = slice(0, choosing)
    grid = []
    if choosing:
        worst = [part[:, mine].max(1) for part in (fit.rounds, fit.gaps)]
        grid = list(zip(fit.grid, fit.grid_errors[:, mine].mean(1), *worst, strict=True))
    others = {"pooled": "one pooled model", "local": "local models"}
    return told(
        "networked/told.txt",
        fit=fit,
        constant=np.array(fit.observations.columns)[fit.units.constant].tolist(),
        quantiles=QUANTILES,
        grid=grid,
        unfinished=int((~fit.converged[:, mine].all(1)).sum()),
        comparisons=[compared(errors["GTV"], errors[key], name) for key, name in others.items()],
        open_splits=int((~fit.converged[fit.chosen, :-1]).sum()),
        large=list(map(str, sizes[sizes > 1])),
        alone=int((sizes == 1).sum()),
        splits=_splits,
        infinity=np.inf,
    )


def compared(gtv: np.ndarray, other: np.ndarray, name: str) -> str:
    """Return in one sentence which of two methods predicts better, and how surely.

    Errors are compared split by split: a difference counts if its mean is more than its standard
    deviation over splits, or if three splits or more all agree.
    """
    difference = other - gtv
    mean = float(difference.mean())
    winner, loser = ("GTV", name) if mean > 0 else (name, "GTV")
    names = {"winner": winner, "loser": loser, "name": name}
    return told(
        "networked/better.txt",
        **names,
        equal=_EQUAL,
        splits=len(gtv),
        mean=mean,
        spread=_deviation(difference),
        larger=max(float(gtv.mean()), float(other.mean())),
        won=int((np.sign(mean) * difference > 0).sum()),
    )


def _comparison_rows(fit: NetworkedFit) -> Rows:
    yield ["method", "mean", "sd", "converged", *(f"split_{split}" for split in fit.reported)]
    places = [split - 1 for split in fit.reported]
    for method, values in fit.errors.items():
        spread = _deviation(values) if len(values) > 1 else ""
        done = method != "GTV" or bool(fit.converged[fit.chosen, places].all())
        yield [method, values.mean(), spread, done, *values]


def _grid_rows(fit: NetworkedFit) -> Rows:
    splits = range(1, fit.grid_errors.shape[1] + 1)
    yield ["lam", "chosen", "converged", "gap", "rounds", *(f"split_{split}" for split in splits)]
    for i, lam in enumerate(fit.grid):
        worst = [bool(fit.converged[i].all()), fit.gaps[i].max(), fit.rounds[i].max()]
        yield [lam, lam == fit.lam, *worst, *fit.grid_errors[i]]


def _deviation(values: np.ndarray) -> float:
    """Return the standard deviation (n - 1); 0 of a single value."""
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def _splits(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"split {numbers[0]}"
    return f"splits {numbers[0]} {'and' if len(numbers) == 2 else 'to'} {numbers[-1]}"
