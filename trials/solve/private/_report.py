"""What `solve private` prints and writes: released models, the ledger, the figure, the settings.

Without --evaluate and --keep-private every file holds only what follows from the messages and from
public numbers. What does not is written where it is asked for, and says so.
"""

import csv
import io
import platform
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from fedjax_admm._checks import InputError
from fedjax_admm._version import __version__
from fedjax_admm.privacy import NOMINAL, accountant
from fedjax_admm.trials import figures, files
from fedjax_admm.trials.solve.private._fit import METHODS, PrivateFit
from fedjax_admm.trials.solve.private._input import ClientGraph, samples_per_row
from fedjax_admm.trials.tables import Observations

MODELS, LEDGER, CURVE = "models.csv", "ledger.csv", "curve.csv"
PRIVATE_MODELS, EVALUATION = "private_models.csv", "evaluation.csv"
UNPROTECTED = "not protected by the guarantee"
_NO_NOISE = "no noise, no guarantee"

# Okabe and Ito's palette, as in `plots`: distinct for colour-blind readers, and in lightness.
_FIRST: dict[str, Any] = {"color": "#0072B2", "linestyle": "-", "marker": "o"}
_SECOND: dict[str, Any] = {"color": "#D55E00", "linestyle": "--", "marker": "s"}


def summary(
    observations: Observations,
    network: ClientGraph,
    fit: PrivateFit,
    options: Mapping[str, Any],
    *,
    seeded: bool,
) -> str:
    """Return the text that a person reads.

    Args:
      observations: of the clients.
      network: their graph.
      fit: the result.
      options: those of the command that `fit.settings` does not know, by name.
      seeded: whether the noise comes from a seed.
    """
    lines = [*_data_told(observations, network), _method_told(fit), ""]
    lines += [fit.plan.statement(clipped=fit.settings.clipped), *limits(observations, fit, seeded)]
    lines += ["", *_warnings(observations, fit), *_spent_told(observations, fit)]
    if fit.evaluation is not None:
        lines += ["", *_evaluation_told(fit)]
    if options["keep_private"]:
        lines += [
            f"{PRIVATE_MODELS} holds the models without noise, which are {UNPROTECTED}: each is "
            "for its client only."
        ]
    return "\n".join(lines)


def write_results(
    folder: Path,
    observations: Observations,
    network: ClientGraph,
    fit: PrivateFit,
    options: Mapping[str, Any],
    *,
    seeded: bool,
) -> list[str]:
    """Write models, ledger, curve, figure and settings into a folder; earlier ones are replaced.

    Files of an earlier run that are not protected are removed where they are not asked for now.

    Args:
      folder: made if it is not there.
      observations: as `summary`.
      network: as `summary`.
      fit: as `summary`.
      options: as `summary`; "keep_private" asks for the models without noise.
      seeded: as `summary`.

    Returns:
      The names of the files.

    Raises:
      InputError: the file system refuses.
    """
    label = label_of(fit)
    tables: dict[str, Iterable[Sequence[Any]]] = {
        MODELS: _model_rows(observations, fit, fit.released, label),
        LEDGER: _ledger_rows(observations, fit),
        CURVE: _curve_rows(fit.curve, label),
    }
    if options["keep_private"]:
        tables[PRIVATE_MODELS] = _model_rows(observations, fit, fit.private, UNPROTECTED)
    if fit.evaluation is not None:
        columns = {"round": fit.curve["round"], **fit.evaluation}
        tables[EVALUATION] = _curve_rows(columns, UNPROTECTED)
    for name in {PRIVATE_MODELS, EVALUATION} - set(tables):
        _remove(folder / name)
    for name, rows in tables.items():
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        content = text.getvalue().encode()
        files.write_atomically(folder / name, lambda file, content=content: file.write(content))
    title = _title(observations, network, fit, options)
    figures.save_figure(draw_private_fit(fit, title), folder)
    config = _config(observations, network, fit, options, seeded)
    files.write_json(folder / files.CONFIG, config)
    return [*tables, "figure.png", "figure.pdf", files.CONFIG]


def label_of(fit: PrivateFit) -> str:
    """Return what is said beside every epsilon: nothing where it is guaranteed."""
    if not fit.settings.clipped:
        return NOMINAL
    return _NO_NOISE if np.isinf(fit.settings.epsilon) else ""


def limits(observations: Observations, fit: PrivateFit, seeded: bool) -> list[str]:
    """Return what the plan's statement cannot know, in one line per point."""
    if np.isinf(fit.settings.epsilon):
        noise = "none; nothing is protected"
    elif seeded:
        noise = "drawn from --seed, which is written nowhere: whoever knows it can take it away"
    else:
        noise = "pseudo-random, from a 64-bit key of the operating system that is kept nowhere"
    lines = [
        f"noise: {noise}",
        "also public: the names of clients and columns, the order of a client's rows",
        "also not covered: that a run was refused or failed, and what it said then (the step is "
        "checked on the data), columns scaled or a clipping norm chosen by the data, all samples "
        "of one client or of one person together",
    ]
    together = samples_per_row(observations)
    if together > 1:
        budget = together**2 * float(fit.spent.budget.max())
        epsilon = accountant.gaussian_epsilon(budget, fit.settings.delta)
        label = label_of(fit)
        lines.append(
            f"lags: one row of the file is part of up to {together} samples; for a whole row the "
            f"exact epsilon is {epsilon:.4g}{label and f' ({label})'}"
        )
    return lines


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
        each.grid(True, linewidth=0.4, alpha=0.6)
        if each.get_legend_handles_labels()[0]:
            each.legend(frameon=False, fontsize=9)
    figure.suptitle(title, fontsize=11)
    return figure


def repeating_command(fit: PrivateFit, options: Mapping[str, Any]) -> str:
    """Return the command that repeats a run with other noise: the seed is not in it."""
    words = ["fedjax-admm", "solve", "private"]
    settings = asdict(fit.settings)
    settings["clip"] = "none" if settings["clip"] is None else settings["clip"]
    for name, value in {**options, **settings}.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, str(value)]
    return shlex.join(words)


def _data_told(observations: Observations, network: ClientGraph) -> list[str]:
    counts = observations.counts
    told = [f"{observations.rows_read} rows read"]
    if observations.rows_incomplete:
        told.append(f"{observations.rows_incomplete} dropped for a missing value")
    if observations.rows_without_past:
        told.append(f"{observations.rows_without_past} used only as the row before another")
    lines = [f"{', '.join(told)}; {counts.sum()} samples are left."]
    if observations.order == "text":
        lines.append("Rows were put in order by --time as text: it has neither numbers nor dates.")
    graph = network.graph
    return [
        *lines,
        f"{len(counts)} clients with {_span(counts)} samples each; coefficients: "
        f"{_shortened(observations.columns, 8)}.",
        f"Graph ({network.made}): {_edges(network)}, {_span(np.asarray(graph.degrees))} neighbours "
        "of each client.",
    ]


def _method_told(fit: PrivateFit) -> str:
    settings = fit.settings
    numbers = {name: getattr(settings, name) for name in METHODS[settings.method]}
    loss = settings.loss
    if settings.huber_threshold is not None:
        loss += f" (threshold {settings.huber_threshold:g})"
    norm = (
        f"gradients of samples clipped to norm {settings.clip:g}"
        if settings.clipped
        else f"gradients not clipped ({NOMINAL})"
    )
    shown = ", ".join(f"{name} {value:g}" for name, value in numbers.items())
    return (
        f"Method {settings.method}: {shown}; loss {loss}, l1 {settings.l1:g}, l2 {settings.l2:g}; "
        f"{settings.rounds} rounds, {norm}."
    )


def _warnings(observations: Observations, fit: PrivateFit) -> list[str]:
    lines, settings = [], fit.settings
    if not settings.clipped:
        lines.append(
            "Warning: without clipping no sample is protected, whatever epsilon says "
            f"({NOMINAL}): --clip needs a number for a guarantee."
        )
    fewest = int(observations.counts.min())
    if settings.delta > 1 / fewest:
        lines.append(
            f"Warning: --delta {settings.delta:g} is above 1 / {fewest}, one over the samples of "
            "the smallest client: publishing one of its samples at random would be allowed."
        )
    return lines


def _spent_told(observations: Observations, fit: PrivateFit) -> list[str]:
    spent, label = fit.spent, label_of(fit)
    noise = fit.noise
    lines = [
        f"Spent by each of {len(noise)} clients in {fit.releases.max()} releases: budget "
        f"{spent.budget.max():.4g}, epsilon {spent.epsilon.max():.4g}, exact epsilon "
        f"{spent.exact_epsilon.max():.4g}{label and f' ({label})'}.",
    ]
    if noise.any():
        lines.append(
            "Standard deviation of the noise of the last release in a coefficient: "
            f"{noise.min():.3g} to {noise.max():.3g}; what is left of earlier noise comes on top."
        )
    lines.append("Mean of the released models:")
    shown = list(zip(observations.columns, fit.released.mean(0), strict=True))[:8]
    width = max(len(name) for name, _ in shown)
    lines += [f"  {name:<{width}} {value:>12.5g}" for name, value in shown]
    if len(observations.columns) > len(shown):
        lines.append(f"  and {len(observations.columns) - len(shown)} more in {MODELS}")
    return lines


def _evaluation_told(fit: PrivateFit) -> list[str]:
    assert fit.evaluation is not None
    last = {name: values[-1] for name, values in fit.evaluation.items()}
    return [
        f"Evaluated on the data (--evaluate), {UNPROTECTED}; so are {EVALUATION}, the figure's "
        f"last panel and the evaluation in {files.CONFIG}:",
        f"  sum over {len(fit.noise)} clients of squared relative errors: "
        f"{last['released_error']:.4g} of released models, {last['error']:.4g} of those without "
        f"noise (all zero: {len(fit.noise)})",
        f"  objective: {last['gap']:.4g} above the smallest value, {fit.optimal_value:.5g}, at the "
        "mean of the models without noise",
    ]


def _title(
    observations: Observations, network: ClientGraph, fit: PrivateFit, options: Mapping[str, Any]
) -> str:
    settings, label = fit.settings, label_of(fit)
    return (
        f"{Path(options['input']).name}: {options['target']} from "
        f"{_shortened(observations.columns, 5)}; {len(fit.noise)} clients, "
        f"{_edges(network)}\n{settings.method}, loss {settings.loss}, "
        f"{settings.rounds} rounds: epsilon {fit.plan.epsilon:.4g} (exact "
        f"{fit.plan.exact_epsilon:.4g}) at delta {settings.delta:g}{label and f', {label}'}"
    )


def _model_rows(
    observations: Observations, fit: PrivateFit, models: np.ndarray, label: str
) -> Iterable[Sequence[Any]]:
    own = ("client", "samples", "noise_deviation", "label")
    names = [f"{name} (coefficient)" if name in own else name for name in observations.columns]
    yield ["client", *names, "samples", "noise_deviation", "label"]
    for k, name in enumerate(observations.nodes):
        noise = 0.0 if models is fit.private else fit.noise[k]
        cells = [_cell(number) for number in models[k]]
        yield [name, *cells, int(observations.counts[k]), _cell(noise), label]


def _ledger(observations: Observations, fit: PrivateFit) -> list[dict[str, Any]]:
    spent, label = fit.spent, label_of(fit)
    return [
        {
            "client": name,
            "releases": int(fit.releases[k]),
            "budget": float(spent.budget[k]),
            "epsilon": float(spent.epsilon[k]),
            "exact_epsilon": float(spent.exact_epsilon[k]),
            "label": label,
        }
        for k, name in enumerate(observations.nodes)
    ]


def _ledger_rows(observations: Observations, fit: PrivateFit) -> Iterable[Sequence[Any]]:
    rows = _ledger(observations, fit)
    yield list(rows[0])
    for row in rows:
        yield [_cell(value) if isinstance(value, float) else value for value in row.values()]


def _curve_rows(columns: Mapping[str, np.ndarray], label: str) -> Iterable[Sequence[Any]]:
    yield [*columns, "label"]
    for row in zip(*columns.values(), strict=True):
        yield [*(_cell(value) if value.dtype.kind == "f" else int(value) for value in row), label]


def _config(
    observations: Observations,
    network: ClientGraph,
    fit: PrivateFit,
    options: Mapping[str, Any],
    seeded: bool,
) -> dict[str, Any]:
    settings = {name: _json(value) for name, value in asdict(fit.settings).items()}
    settings["clip"] = "none" if fit.settings.clip is None else settings["clip"]
    content = {
        "command": repeating_command(fit, options),
        "settings": {**options, **settings, "seed": "given, not stored" if seeded else None},
        "clients": len(observations.nodes),
        "samples": int(observations.counts.sum()),
        "coefficients": list(observations.columns),
        "graph": network.made,
        "edges": int(np.sum(network.graph.present)),
        "privacy": {
            "label": label_of(fit),
            "statement": fit.plan.statement(clipped=fit.settings.clipped).splitlines(),
            "limits": limits(observations, fit, seeded),
            "ledger": [
                {name: _json(value) for name, value in row.items()}
                for row in _ledger(observations, fit)
            ],
        },
        "versions": {
            "fedjax-admm": __version__,
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in ("jax", "jaxlib", "numpy")},
        },
    }
    if fit.evaluation is not None:
        content["evaluation"] = {
            "label": UNPROTECTED,
            **{name: _json(float(values[-1])) for name, values in fit.evaluation.items()},
            "optimal_value": _json(fit.optimal_value),
        }
    return content


def _draw_models(axes: Axes, fit: PrivateFit) -> None:
    curve = fit.curve
    _line(axes, curve["round"], curve["disagreement"], "distance from their mean", _FIRST)
    if (curve["noise"] > 0).any():
        _line(axes, curve["round"], curve["noise"], "length of their noise", _SECOND)
    _logarithmic(axes)
    axes.set_ylabel("root mean square over clients")
    axes.set_title("released models", fontsize=10)


def _draw_epsilon(axes: Axes, fit: PrivateFit) -> None:
    curve, label = fit.curve, label_of(fit)
    if np.isfinite(curve["epsilon"]).all():
        by = "zCDP" if fit.plan.accounting == "zcdp" else f"{fit.plan.accounting} composition"
        _line(axes, curve["round"], curve["epsilon"], f"by {by}", _FIRST)
        _line(axes, curve["round"], curve["exact_epsilon"], "exact", _SECOND)
        axes.set_ylim(bottom=0)
    else:
        axes.text(0.5, 0.5, "infinite: no noise", ha="center", transform=axes.transAxes)
        axes.set(xlim=(0, curve["round"][-1]), yticks=[])
    axes.set_ylabel(f"epsilon at delta {fit.plan.delta:g}")
    axes.set_title(f"spent by each client{label and f' ({label})'}", fontsize=10)


def _draw_evaluation(axes: Axes, fit: PrivateFit) -> None:
    assert fit.evaluation is not None
    rounds = fit.curve["round"]
    _line(axes, rounds, fit.evaluation["released_error"], "released models", _FIRST)
    _line(axes, rounds, fit.evaluation["error"], "models without noise", _SECOND)
    _logarithmic(axes)
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


def _logarithmic(axes: Axes) -> None:
    """Make the vertical axis logarithmic if there is anything positive to draw."""
    if not any((np.asarray(line.get_ydata()) > 0).any() for line in axes.lines):
        return
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot remove {path} of an earlier run: {error.strerror or error}; choose another "
            "folder with --out."
        ) from error


def _json(value: Any) -> Any:
    """Return what JSON can hold: infinity and NaN become words."""
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def _edges(network: ClientGraph) -> str:
    amount = int(np.sum(network.graph.present))
    return f"{amount} edge{'' if amount == 1 else 's'}"


def _span(counts: np.ndarray) -> str:
    low, high = counts.min(), counts.max()
    return f"{low}" if low == high else f"{low} to {high}"


def _shortened(names: Sequence[str], most: int) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def _cell(number: float) -> str:
    return f"{number:.12g}"
