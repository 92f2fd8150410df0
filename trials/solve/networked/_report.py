"""What `solve networked` tells and writes: models, their comparison, the grid of lam."""

from collections.abc import Sequence

import numpy as np

from fedjax_admm.trials.solve._command import MODELS, Rows, Solution
from fedjax_admm.trials.solve._words import amount, ignored_told, model_rows, rows_told, shortened
from fedjax_admm.trials.solve.networked._figure import draw_networked
from fedjax_admm.trials.solve.networked._fit import NetworkedFit
from fedjax_admm.trials.tables._node_graphs import QUANTILES, NodeGraph

COMPARISON, GRID_TABLE = "comparison.csv", "lam_grid.csv"
_EQUAL = 1e-6  # share of an error below which a difference is one of rounding


def solution(fit: NetworkedFit, title: str) -> Solution:
    """Return the text and the files of the models of a network."""
    seen, network = fit.observations, fit.network
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
            "rows": {
                "read": seen.rows_read,
                "incomplete": seen.rows_incomplete,
                "without_past": seen.rows_without_past,
                "used": seen.counts.sum(),
            },
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
            "gap": fit.gaps[fit.chosen, -1],
            "rounds": fit.rounds[fit.chosen, -1],
            "converged": fit.converged[fit.chosen, -1],
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


def _units_told(fit: NetworkedFit) -> list[str]:
    """Tell in which units models are coupled."""
    if fit.settings.raw:
        return ["Features are as they are (--raw): lam acts on coefficients in their units."]
    lines = [
        "Features are standardised over all rows: lam acts on coefficients per standard deviation. "
        "Models and errors are told in your units."
    ]
    names = [name for name, one in zip(fit.observations.columns, fit.units.constant, strict=True)
             if one]  # fmt: skip
    if names:
        first = "constant feature" if len(names) == 1 else "constant features"
        verb = "has" if len(names) == 1 else "have"
        lines.append(
            f"The {first} {shortened(names, 8)} {verb} coefficient 0: the intercept does as much."
        )
    return lines


def _graph_told(network: NodeGraph) -> list[str]:
    lines = []
    if network.quantiles is not None:
        names = {0: "smallest", 0.5: "median", 1: "largest"}
        shown = ", ".join(
            f"{names.get(share, f'{share:.0%}')} {value:.3g}"
            for share, value in zip(QUANTILES, network.quantiles, strict=True)
        )
        lines = [
            f"Squared Wasserstein distances: {shown}.",
            f"--threshold {network.threshold:.4g} was chosen: the smallest that leaves at most 5% "
            "of the nodes isolated.",
        ]
    alone = amount(int(network.isolated.sum()), "isolated node")
    lines.append(f"Graph ({network.made}): {amount(network.num_edges, 'edge')}, {alone}.")
    return lines + ignored_told(network.ignored, "the edges")


def _grid_told(fit: NetworkedFit) -> list[str]:
    choosing = len(fit.chosen_on)
    done = np.asarray(fit.converged[:, :choosing].all(1))
    rows = [["lam", "error", "rounds", "gap", ""]]
    for i, error in enumerate(fit.grid_errors[:, :choosing].mean(1)):
        marks = ["<- chosen"] if fit.grid[i] == fit.lam else []
        marks += [] if done[i] else ["not converged"]
        gap, rounds = fit.gaps[i, :choosing].max(), fit.rounds[i, :choosing].max()
        rows.append(
            [f"{fit.grid[i]:.3g}", f"{error:.6g}", str(rounds), f"{gap:.1e}", "; ".join(marks)]
        )
    lines = [f"GTV's error on {_splits(fit.chosen_on)}, which chose lam; most rounds, largest gap:"]
    lines += aligned(rows)
    if not done.all():
        lines.append(
            f"{amount(int((~done).sum()), 'row')} of {len(done)} did not converge: the gap is "
            f"above {fit.settings.gap:g} after {fit.rounds.max()} rounds, and the error is that of "
            "unfinished models."
        )
    if fit.lam in (fit.grid[0], fit.grid[-1]):
        side = "smallest" if fit.lam == fit.grid[0] else "largest"
        lines.append(f"The {side} lam of the grid was best: --lam may do better beyond it.")
    return lines


def _errors_told(fit: NetworkedFit) -> list[str]:
    reported = _splits(fit.reported) if fit.chosen_on else amount(len(fit.reported), "split")
    several = len(fit.reported) > 1
    shown = "mean (standard deviation) over" if several else "on"
    about = {
        "local": "a model per node, on its own",
        "pooled": "one model for all nodes",
        "GTV": f"models coupled with lam {fit.lam:.4g}, {fit.settings.penalty}",
    }
    means = [f"{values.mean():.6g}" for values in fit.errors.values()]
    spreads = [f"{_deviation(values):.6g}" for values in fit.errors.values()]
    width = max(map(len, means))
    rows = [
        [method, f"{mean:>{width}} ({spread})" if several else mean, about[method]]
        for method, mean, spread in zip(fit.errors, means, spreads, strict=True)
    ]
    lines = aligned(rows, left=(0, 1, 2) if several else (0, 2))
    head = f"Validation mean squared error, mean over nodes: {shown} {reported}"
    return [head, *(f"  {line}" for line in lines)]


def _remarks(fit: NetworkedFit) -> list[str]:
    settings = fit.settings
    lines = [compared(fit.errors["GTV"], fit.errors["pooled"], "one pooled model")]
    lines.append(compared(fit.errors["GTV"], fit.errors["local"], "local models"))
    if fit.chosen_on:
        lines.append(
            f"lam was chosen on {_splits(fit.chosen_on)} only, but all splits draw on the same "
            "rows: a trace of optimism remains."
        )
    lines.append(_convergence_told(fit))
    sizes = fit.cluster_sizes
    large, alone = sizes[sizes > 1], int((sizes == 1).sum())
    found = f"{amount(len(large), 'cluster')} of neighbours with the same model"
    if len(large):
        found += f", of sizes {shortened([str(size) for size in large], 8)}"
    lines.append(f"{found}; {amount(alone, 'node')} agreeing with no neighbour.")
    if settings.penalty in ("mocha", "squared"):
        lines.append(
            f"--penalty {settings.penalty} makes models alike, never equal: do not read much "
            "into clusters."
        )
    return lines


def compared(gtv: np.ndarray, other: np.ndarray, name: str) -> str:
    """Return in one sentence which of two methods predicts better, and how surely.

    Errors are compared split by split: a difference counts if its mean is more than its standard
    deviation over splits, or if three splits or more all agree.
    """
    difference = other - gtv
    mean, spread = float(difference.mean()), _deviation(difference)
    larger = max(float(gtv.mean()), float(other.mean()))
    if abs(mean) <= _EQUAL * larger:
        return f"GTV and {name} have the same error."
    size = f"{100 * abs(mean) / larger:.2g} %"
    winner, loser = ("GTV", name) if mean > 0 else (name, "GTV")
    if len(gtv) == 1:
        return f"On the one split, {winner} had an error {size} below that of {loser}."
    won = int((np.sign(mean) * difference > 0).sum())
    if abs(mean) <= spread and (won < len(gtv) or len(gtv) == 2):
        return (
            f"GTV and {name} cannot be told apart: their errors differ by {size}, less than the "
            "standard deviation of the difference."
        )
    times = f", {abs(mean) / spread:.1f} standard deviations" if spread > _EQUAL * larger else ""
    of = amount(len(gtv), "split")
    start = winner[0].upper() + winner[1:]
    verb = "predict" if winner.endswith("s") else "predicts"
    return f"{start} {verb} better than {loser}: an error {size} below{times}, on {won} of {of}."


def _convergence_told(fit: NetworkedFit) -> str:
    """Tell how near the optimum the models are."""
    final, rounds = float(fit.gaps[fit.chosen, -1]), int(fit.rounds[fit.chosen, -1])
    if not fit.converged[fit.chosen, -1]:
        near = (
            f"its objective may be {100 * final:.2g} % above the optimum"
            if np.isfinite(final)
            else "how far its objective is from the optimum is not known"
        )
        return (
            f"The final fit has not converged: after {amount(rounds, 'round')} {near}. Its models "
            "and clusters are not those of the penalty."
        )
    line = (
        f"The final fit has converged: after {amount(rounds, 'round')} its objective is within "
        f"{final:.1e} of the optimum, relatively."
    )
    places = [split - 1 for split in (*fit.chosen_on, *fit.reported)]
    open_ = int((~fit.converged[fit.chosen, places]).sum())
    if open_:
        line += f" Fits of {amount(open_, 'split')} have not."
    return line


def aligned(rows: Sequence[Sequence[str]], left: Sequence[int] = (4,)) -> list[str]:
    """Return the lines of a table: columns as wide as what they hold, to the right but some."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "   ".join(
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return [line.rstrip() for line in lines]


def _title(fit: NetworkedFit, title: str) -> str:
    settings, network = fit.settings, fit.network
    return (
        f"{title}: {settings.target} from {shortened(fit.observations.columns, 5)}\n"
        f"{len(fit.cluster)} nodes, {network.num_edges} edges ({network.made})\n"
        f"GTV with lam {fit.lam:.4g}, {settings.penalty}, "
        f"{'features as they are' if settings.raw else 'standardised features'}"
        f"{'' if fit.converged[fit.chosen, -1] else ', not converged'}; "
        f"{amount(settings.splits, 'split')}, seed {settings.seed}"
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
    if len(numbers) == 2:
        return f"splits {numbers[0]} and {numbers[1]}"
    return f"splits {numbers[0]} to {numbers[-1]}"
