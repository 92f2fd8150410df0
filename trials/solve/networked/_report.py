"""What `solve networked` prints and writes: tables, the figure, the settings."""

import csv
import io
import platform
import shlex
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_admm._version import __version__
from fedjax_admm.trials import figures, files
from fedjax_admm.trials.solve.networked._figure import draw_networked
from fedjax_admm.trials.solve.networked._fit import NetworkedFit
from fedjax_admm.trials.tables import QUANTILES, NodeGraph, Observations

MODELS, COMPARISON, GRID_TABLE = "models.csv", "comparison.csv", "lam_grid.csv"
_UNFINISHED = 1e-3  # a larger relative residual is told


def summary(
    observations: Observations, network: NodeGraph, fit: NetworkedFit, settings: Mapping[str, Any]
) -> str:
    """Return the text that a person reads."""
    lines = [*_rows_told(observations), *_graph_told(network), ""]
    if len(fit.grid) > 1:
        lines += [*_grid_told(fit), ""]
    lines += [*_errors_told(fit, settings), *_remarks(fit, settings)]
    return "\n".join(lines)


def write_results(
    folder: Path,
    observations: Observations,
    network: NodeGraph,
    fit: NetworkedFit,
    settings: Mapping[str, Any],
) -> list[str]:
    """Write models, comparison, figure and settings into a folder; earlier ones are replaced.

    Args:
      folder: made if it is not there.
      observations: of the nodes.
      network: their graph.
      fit: the result.
      settings: the options of the command, by name.

    Returns:
      The names of the files.

    Raises:
      InputError: the file system refuses.
    """
    tables = {
        MODELS: _model_rows(observations, network, fit),
        COMPARISON: _comparison_rows(fit),
    }
    if len(fit.grid) > 1:
        tables[GRID_TABLE] = _grid_rows(fit)
    for name, rows in tables.items():
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        content = text.getvalue().encode()
        files.write_atomically(folder / name, lambda file, content=content: file.write(content))
    figure = draw_networked(
        observations, network.graph, fit, _title(observations, network, fit, settings)
    )
    figures.save_figure(figure, folder)
    files.write_json(
        folder / files.CONFIG,
        {
            "command": repeating_command(settings),
            "settings": dict(settings),
            "rows": {
                "read": observations.rows_read,
                "incomplete": observations.rows_incomplete,
                "without_past": observations.rows_without_past,
                "used": int(observations.counts.sum()),
            },
            "absent_nodes": list(observations.absent),
            "coefficients": list(observations.columns),
            "nodes": len(observations.nodes),
            "edges": network.num_edges,
            "isolated": int(network.isolated.sum()),
            "graph": network.made,
            "threshold": network.threshold,
            "lam": fit.lam,
            "lam_chosen_on_splits": list(fit.chosen_on),
            "reported_splits": list(fit.reported),
            "residual": fit.residual,
            "clusters": int((fit.cluster_sizes > 1).sum()),
            "versions": {
                "fedjax-admm": __version__,
                "python": platform.python_version(),
                **{name: metadata.version(name) for name in ("jax", "jaxlib", "numpy")},
            },
        },
    )
    return [*tables, "figure.png", "figure.pdf", files.CONFIG]


def repeating_command(settings: Mapping[str, Any]) -> str:
    """Return the command that repeats a run, in full."""
    words = ["fedjax-admm", "solve", "networked"]
    for name, value in settings.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, str(value)]
    return shlex.join(words)


def _rows_told(observations: Observations) -> list[str]:
    counts = observations.counts
    told = [f"{observations.rows_read} rows read"]
    if observations.rows_incomplete:
        told.append(f"{observations.rows_incomplete} dropped for a missing value")
    if observations.rows_without_past:
        told.append(f"{observations.rows_without_past} used only as the row before another")
    lines = [f"{', '.join(told)}; {counts.sum()} are left."]
    if observations.absent:
        nodes = _number(len(observations.absent), "node")
        verb = "has" if len(observations.absent) == 1 else "have"
        lines.append(f"{nodes} {verb} no complete row: {_shortened(observations.absent)}.")
    if observations.order == "text":
        lines.append("Rows were put in order by --time as text: it has neither numbers nor dates.")
    rows = (
        f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"
    )
    lines.append(
        f"{len(counts)} nodes with {rows} rows each; coefficients: "
        f"{_shortened(observations.columns, 8)}."
    )
    return lines


def _graph_told(network: NodeGraph) -> list[str]:
    lines = []
    if network.quantiles is not None:
        shown = zip(QUANTILES, network.quantiles, strict=True)
        names = {0: "smallest", 0.5: "median", 1: "largest"}
        lines += [
            "Squared Wasserstein distances: "
            + ", ".join(f"{names.get(share, f'{share:.0%}')} {value:.3g}" for share, value in shown)
            + ".",
            f"--threshold {network.threshold:.4g} was chosen: the smallest that leaves at most 5% "
            "of the nodes isolated.",
        ]
    isolated = int(network.isolated.sum())
    lines.append(
        f"Graph ({network.made}): {_number(network.num_edges, 'edge')}, "
        f"{_number(isolated, 'isolated node')}."
    )
    return lines


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


def _errors_told(fit: NetworkedFit, settings: Mapping[str, Any]) -> list[str]:
    lines = [
        "Validation mean squared error, mean over nodes: mean (standard deviation) over "
        + (_splits(fit.reported) if fit.chosen_on else _number(len(fit.reported), "split")),
    ]
    about = {
        "local": "a model per node, on its own",
        "pooled": "one model for all nodes",
        "GTV": f"lam {fit.lam:.4g}, {settings['penalty']}, {settings['rounds']} rounds",
    }
    for method, values in fit.errors.items():
        spread = f"({_deviation(values):.4f})" if len(values) > 1 else ""
        lines.append(f"  {method:<8}{values.mean():>10.4f} {spread:<12} {about[method]}")
    return lines


def _remarks(fit: NetworkedFit, settings: Mapping[str, Any]) -> list[str]:
    lines = []
    means = {method: float(values.mean()) for method, values in fit.errors.items()}
    deviation = _deviation(fit.errors["GTV"])
    if means["pooled"] <= means["GTV"] + deviation:
        better = int((fit.errors["GTV"] < fit.errors["pooled"]).sum())
        of = _number(len(fit.reported), "split")
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
            f"--rounds {3 * settings['rounds']}."
        )
    sizes = fit.cluster_sizes
    large, alone = sizes[sizes > 1], int((sizes == 1).sum())
    told = f"{_number(len(large), 'cluster')} of neighbours with the same model"
    if len(large):
        told += f", of sizes {_shortened([str(size) for size in large], 8)}"
    lines.append(f"{told}; {_number(alone, 'node')} agreeing with no neighbour.")
    if settings["penalty"] in ("mocha", "squared"):
        lines.append(
            f"--penalty {settings['penalty']} makes models alike, never equal: do not read much "
            "into clusters."
        )
    return lines


def _title(
    observations: Observations, network: NodeGraph, fit: NetworkedFit, settings: Mapping[str, Any]
) -> str:
    columns = _shortened(observations.columns, 5)
    return (
        f"{Path(settings['input']).name}: {settings['target']} from {columns}\n"
        f"{len(observations.nodes)} nodes, {network.num_edges} edges ({network.made})\n"
        f"GTV with lam {fit.lam:.4g}, {settings['penalty']}, {settings['rounds']} rounds; "
        f"{_number(settings['splits'], 'split')}, seed {settings['seed']}"
    )


def _model_rows(
    observations: Observations, network: NodeGraph, fit: NetworkedFit
) -> Iterable[Sequence[Any]]:
    own = ("node", "cluster", "rows", "isolated")
    names = [f"{name} (coefficient)" if name in own else name for name in observations.columns]
    yield ["node", "cluster", *names, "rows", "isolated"]
    for name, cluster, model, rows, isolated in zip(
        observations.nodes,
        fit.cluster,
        fit.models,
        observations.counts,
        network.isolated,
        strict=True,
    ):
        yield [name, int(cluster), *(_cell(number) for number in model), int(rows), int(isolated)]


def _comparison_rows(fit: NetworkedFit) -> Iterable[Sequence[Any]]:
    yield ["method", "mean", "sd", *(f"split_{split}" for split in fit.reported)]
    for method, values in fit.errors.items():
        spread = _cell(_deviation(values)) if len(values) > 1 else ""
        yield [method, _cell(values.mean()), spread, *(_cell(value) for value in values)]


def _grid_rows(fit: NetworkedFit) -> Iterable[Sequence[Any]]:
    splits = range(1, fit.grid_errors.shape[1] + 1)
    yield ["lam", "chosen", *(f"split_{split}" for split in splits)]
    for lam, errors in zip(fit.grid, fit.grid_errors, strict=True):
        yield [_cell(lam), int(lam == fit.lam), *(_cell(value) for value in errors)]


def _deviation(values: np.ndarray) -> float:
    """Return the standard deviation (n - 1); 0 of a single value."""
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def _splits(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"split {numbers[0]}"
    if len(numbers) == 2:
        return f"splits {numbers[0]} and {numbers[1]}"
    return f"splits {numbers[0]} to {numbers[-1]}"


def _number(amount: int, noun: str) -> str:
    return f"{amount} {noun}{'' if amount == 1 else 's'}"


def _shortened(names: Sequence[str], most: int = 4) -> str:
    """Join names by commas; after the first ones, the number of the others."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def _cell(number: float) -> str:
    return f"{number:.12g}"
