"""What `solve networked` tells and writes: models, their comparison, the grid of lam."""

from collections.abc import Iterator, Sequence

import numpy as np

from fedjax_admm.trials.solve._command import MODELS, Rows, Solution
from fedjax_admm.trials.solve._words import (
    amount,
    ignored_told,
    model_rows,
    rows_told,
    sentences,
    shortened,
)
from fedjax_admm.trials.solve.networked._figure import draw_networked
from fedjax_admm.trials.solve.networked._fit import NetworkedFit
from fedjax_admm.trials.solve.networked._settings import NetworkedSettings
from fedjax_admm.trials.tables._node_graphs import QUANTILES, NodeGraph

COMPARISON, GRID_TABLE = NetworkedSettings.tables
_EQUAL = 1e-6  # share of an error below which a difference is one of rounding
say = sentences(__file__)


def solution(fit: NetworkedFit, title: str) -> Solution:
    """Return the text and the files of the models of a network."""
    seen, network, chosen = fit.observations, fit.network, (fit.chosen, -1)
    first = {"node": seen.nodes, "cluster": fit.cluster}
    last = {"rows": seen.counts, "isolated": network.isolated}
    return Solution(
        settings=fit.settings,
        text=summary(fit),
        tables={
            MODELS: model_rows(seen, fit.models, first, last),
            COMPARISON: list(_comparison_rows(fit)),
            GRID_TABLE: list(_grid_rows(fit)) if len(fit.grid) > 1 else None,
        },
        draw=lambda: draw_networked(fit, _title(fit, title)),
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
    lines = [*rows_told(fit.observations, "", "node"), *_units_told(fit)]
    lines += [*_graph_told(fit.network), ""]
    if len(fit.grid) > 1:
        lines += [*_grid_told(fit), ""]
    return "\n".join([*lines, *_errors_told(fit), *_remarks(fit)])


def _units_told(fit: NetworkedFit) -> Iterator[str]:
    """Tell in which units models are coupled."""
    yield say("raw" if fit.settings.raw else "standardised")
    names = np.array(fit.observations.columns)[fit.units.constant].tolist()
    if names:
        what, verb = ("feature", "has") if len(names) == 1 else ("features", "have")
        yield say("constant", what=what, names=shortened(names, 8), verb=verb)


def _graph_told(network: NodeGraph) -> Iterator[str]:
    if network.quantiles is not None:
        names = {0: "smallest", 0.5: "median", 1: "largest"}
        pairs = zip(QUANTILES, network.quantiles, strict=True)
        shown = ", ".join(f"{names.get(at, f'{at:.0%}')} {value:.3g}" for at, value in pairs)
        yield say("distances", shown=shown)
        yield say("threshold", network.threshold)
    alone = amount(int(network.isolated.sum()), "isolated node")
    yield say("graph", made=network.made, edges=amount(network.num_edges, "edge"), alone=alone)
    yield from ignored_told(network.ignored, "the edges")


def _grid_told(fit: NetworkedFit) -> Iterator[str]:
    choosing = len(fit.chosen_on)
    done = np.asarray(fit.converged[:, :choosing].all(1))
    rows = [["lam", "error", "rounds", "gap", ""]]
    for i, error in enumerate(fit.grid_errors[:, :choosing].mean(1)):
        marks = ["<- chosen"] if fit.grid[i] == fit.lam else []
        marks += [] if done[i] else ["not converged"]
        gap, rounds = fit.gaps[i, :choosing].max(), fit.rounds[i, :choosing].max()
        told = [f"{fit.grid[i]:.3g}", f"{error:.6g}", f"{rounds}", f"{gap:.1e}", "; ".join(marks)]
        rows.append(told)
    yield say("grid", splits=_splits(fit.chosen_on))
    yield from aligned(rows)
    if not done.all():
        open_, most = amount(int((~done).sum()), "row"), fit.rounds.max()
        yield say("unfinished", rows=open_, number=len(done), gap=fit.settings.gap, rounds=most)
    if fit.lam in (fit.grid[0], fit.grid[-1]):
        yield say("edge_of_grid", side="smallest" if fit.lam == fit.grid[0] else "largest")


def _errors_told(fit: NetworkedFit) -> list[str]:
    reported = _splits(fit.reported) if fit.chosen_on else amount(len(fit.reported), "split")
    several = len(fit.reported) > 1
    about = ["a model per node, on its own", "one model for all nodes"]
    about.append(f"models coupled with lam {fit.lam:.4g}, {fit.settings.penalty}")
    means = [f"{values.mean():.6g}" for values in fit.errors.values()]
    spreads = [f" ({_deviation(values):.6g})" * several for values in fit.errors.values()]
    width = max(map(len, means)) if several else 0
    means = [f"{mean:>{width}}{spread}" for mean, spread in zip(means, spreads, strict=True)]
    rows = list(zip(fit.errors, means, about, strict=True))
    lines = aligned(rows, left=(0, 1, 2) if several else (0, 2))
    shown = "mean (standard deviation) over" if several else "on"
    return [say("errors", shown=shown, reported=reported), *(f"  {line}" for line in lines)]


def _remarks(fit: NetworkedFit) -> Iterator[str]:
    yield compared(fit.errors["GTV"], fit.errors["pooled"], "one pooled model")
    yield compared(fit.errors["GTV"], fit.errors["local"], "local models")
    if fit.chosen_on:
        yield say("chosen", splits=_splits(fit.chosen_on))
    yield _convergence_told(fit)
    sizes, penalty = fit.cluster_sizes, fit.settings.penalty
    large, alone = sizes[sizes > 1], int((sizes == 1).sum())
    told = f", of sizes {shortened(list(map(str, large)), 8)}" if len(large) else ""
    number = amount(len(large), "cluster")
    yield say("clusters", clusters=number, sizes=told, alone=amount(alone, "node"))
    if penalty in ("mocha", "squared"):
        yield say("alike", penalty)


def compared(gtv: np.ndarray, other: np.ndarray, name: str) -> str:
    """Return in one sentence which of two methods predicts better, and how surely.

    Errors are compared split by split: a difference counts if its mean is more than its standard
    deviation over splits, or if three splits or more all agree.
    """
    difference = other - gtv
    mean, spread = float(difference.mean()), _deviation(difference)
    larger = max(float(gtv.mean()), float(other.mean()))
    if abs(mean) <= _EQUAL * larger:
        return say("equal", name=name)
    size = f"{100 * abs(mean) / larger:.2g} %"
    winner, loser = ("GTV", name) if mean > 0 else (name, "GTV")
    if len(gtv) == 1:
        return say("one_split", winner=winner, size=size, loser=loser)
    won = int((np.sign(mean) * difference > 0).sum())
    if abs(mean) <= spread and (won < len(gtv) or len(gtv) == 2):
        return say("tied", name=name, size=size)
    times = f", {abs(mean) / spread:.1f} standard deviations" if spread > _EQUAL * larger else ""
    start, verb = winner[0].upper() + winner[1:], "predict" + "s" * (not winner.endswith("s"))
    how = {"size": size, "times": times, "won": won, "of": amount(len(gtv), "split")}
    return say("better", start=start, verb=verb, loser=loser, **how)


def _convergence_told(fit: NetworkedFit) -> str:
    """Tell how near the optimum the models are."""
    gap, rounds = float(fit.gaps[fit.chosen, -1]), amount(int(fit.rounds[fit.chosen, -1]), "round")
    if not fit.converged[fit.chosen, -1]:
        near = say("above", 100 * gap) if np.isfinite(gap) else say("not_known")
        return say("open", rounds=rounds, near=near)
    places = [split - 1 for split in (*fit.chosen_on, *fit.reported)]
    open_ = int((~fit.converged[fit.chosen, places]).sum())
    others = say("open_splits", amount(open_, "split")) if open_ else ""
    return say("converged", rounds=rounds, gap=gap) + others


def aligned(rows: Sequence[Sequence[str]], left: Sequence[int] = (4,)) -> list[str]:
    """Return the lines of a table: columns as wide as what they hold, to the right but some."""
    columns = []
    for place, column in enumerate(zip(*rows, strict=True)):
        width = max(map(len, column))
        columns.append([f"{cell:{'<' if place in left else '>'}{width}}" for cell in column])
    return ["   ".join(row).rstrip() for row in zip(*columns, strict=True)]


def _title(fit: NetworkedFit, title: str) -> str:
    return say(
        "title",
        title=title,
        fit=fit,
        columns=shortened(fit.observations.columns, 5),
        nodes=len(fit.cluster),
        features="features as they are" if fit.settings.raw else "standardised features",
        end="" if fit.converged[fit.chosen, -1] else ", not converged",
        splits=amount(fit.settings.splits, "split"),
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
