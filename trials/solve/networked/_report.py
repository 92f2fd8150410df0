"""What `solve networked` tells and writes: models, their comparison, the grid of lam."""

from collections.abc import Sequence

import numpy as np

from fedjax_admm.trials.solve._command import MODELS, Rows, Solution
from fedjax_admm.trials.solve._words import amount, model_rows, rows_told, shortened
from fedjax_admm.trials.solve.networked._figure import draw_networked
from fedjax_admm.trials.solve.networked._fit import NetworkedFit
from fedjax_admm.trials.tables import QUANTILES, NodeGraph

COMPARISON, GRID_TABLE = "comparison.csv", "lam_grid.csv"
_UNFINISHED = 1e-3  # a larger relative residual is told


def solution(fit: NetworkedFit, title: str) -> Solution:
    """Return what is told and written of the models of a network."""
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
            "residual": fit.residual,
            "clusters": (fit.cluster_sizes > 1).sum(),
        },
    )


def summary(fit: NetworkedFit) -> str:
    """Return the text that a person reads."""
    lines = [*rows_told(fit.observations, "", "node"), *_graph_told(fit.network), ""]
    if len(fit.grid) > 1:
        lines += [*_grid_told(fit), ""]
    return "\n".join([*lines, *_errors_told(fit), *_remarks(fit)])


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
    return [*lines, f"Graph ({network.made}): {amount(network.num_edges, 'edge')}, {alone}."]


def _grid_told(fit: NetworkedFit) -> list[str]:
    choosing = len(fit.chosen_on)
    lines = [f"{'lam':>10}   GTV's error on {_splits(fit.chosen_on)}, which chose"]
    for lam, error in zip(fit.grid, fit.grid_errors[:, :choosing].mean(1), strict=True):
        mark = "   <- chosen" if lam == fit.lam else ""
        lines.append(f"{lam:>10.3g}   {error:.4g}{mark}")
    if fit.lam in (fit.grid[0], fit.grid[-1]):
        side = "smallest" if fit.lam == fit.grid[0] else "largest"
        lines.append(f"The {side} lam of the grid was best: --lam may do better beyond it.")
    return lines


def _errors_told(fit: NetworkedFit) -> list[str]:
    settings = fit.settings
    lines = [
        "Validation mean squared error, mean over nodes: mean (standard deviation) over "
        + (_splits(fit.reported) if fit.chosen_on else amount(len(fit.reported), "split")),
    ]
    about = {
        "local": "a model per node, on its own",
        "pooled": "one model for all nodes",
        "GTV": f"lam {fit.lam:.4g}, {settings.penalty}, {settings.rounds} rounds",
    }
    for method, values in fit.errors.items():
        spread = f"({_deviation(values):.4f})" if len(values) > 1 else ""
        lines.append(f"  {method:<8}{values.mean():>10.4f} {spread:<12} {about[method]}")
    return lines


def _remarks(fit: NetworkedFit) -> list[str]:
    lines, settings = [], fit.settings
    means = {method: float(values.mean()) for method, values in fit.errors.items()}
    deviation = _deviation(fit.errors["GTV"])
    if means["pooled"] <= means["GTV"] + deviation:
        better = int((fit.errors["GTV"] < fit.errors["pooled"]).sum())
        of = amount(len(fit.reported), "split")
        lines.append(
            "One pooled model comes within one standard deviation of GTV "
            f"({means['pooled']:.4g} against {means['GTV']:.4g} +- {deviation:.2g}; GTV is better "
            f"on {better} of {of}): the graph adds little to pooling."
        )
    if means["local"] <= means["GTV"] + deviation:
        lines.append(
            "Local models come within one standard deviation of GTV: the nodes have rows enough of "
            "their own."
        )
    if fit.chosen_on:
        lines.append(
            f"lam was chosen on {_splits(fit.chosen_on)} only, but all splits draw on the same "
            "rows: a trace of optimism remains."
        )
    if fit.residual > _UNFINISHED:
        lines.append(
            f"The final fit has not converged (relative residual {fit.residual:.1g}): try "
            f"--rounds {3 * settings.rounds}."
        )
    sizes = fit.cluster_sizes
    large, alone = sizes[sizes > 1], int((sizes == 1).sum())
    told = f"{amount(len(large), 'cluster')} of neighbours with the same model"
    if len(large):
        told += f", of sizes {shortened([str(size) for size in large], 8)}"
    lines.append(f"{told}; {amount(alone, 'node')} agreeing with no neighbour.")
    if settings.penalty in ("mocha", "squared"):
        lines.append(
            f"--penalty {settings.penalty} makes models alike, never equal: do not read much "
            "into clusters."
        )
    return lines


def _title(fit: NetworkedFit, title: str) -> str:
    settings, network = fit.settings, fit.network
    return (
        f"{title}: {settings.target} from {shortened(fit.observations.columns, 5)}\n"
        f"{len(fit.cluster)} nodes, {network.num_edges} edges ({network.made})\n"
        f"GTV with lam {fit.lam:.4g}, {settings.penalty}, {settings.rounds} rounds; "
        f"{amount(settings.splits, 'split')}, seed {settings.seed}"
    )


def _comparison_rows(fit: NetworkedFit) -> Rows:
    yield ["method", "mean", "sd", *(f"split_{split}" for split in fit.reported)]
    for method, values in fit.errors.items():
        spread = _deviation(values) if len(values) > 1 else ""
        yield [method, values.mean(), spread, *values]


def _grid_rows(fit: NetworkedFit) -> Rows:
    splits = range(1, fit.grid_errors.shape[1] + 1)
    yield ["lam", "chosen", *(f"split_{split}" for split in splits)]
    for lam, errors in zip(fit.grid, fit.grid_errors, strict=True):
        yield [lam, lam == fit.lam, *errors]


def _deviation(values: np.ndarray) -> float:
    """Return the standard deviation (n - 1); 0 of a single value."""
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def _splits(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"split {numbers[0]}"
    if len(numbers) == 2:
        return f"splits {numbers[0]} and {numbers[1]}"
    return f"splits {numbers[0]} to {numbers[-1]}"
