"""What `solve private` tells and writes: released models, the ledger, curves.

Without --evaluate and --keep-private every file holds only what follows from the messages and from
public numbers. What does not is written where it is asked for, and says so.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fedjax_admm.privacy import accountant, rounded_up
from fedjax_admm.trials.results import CONFIG
from fedjax_admm.trials.solve._command import MODELS, Columns, Rows, Solution
from fedjax_admm.trials.solve._words import (
    amount,
    ignored_told,
    model_rows,
    rows_told,
    sentences,
    shortened,
    span,
)
from fedjax_admm.trials.solve.private._clients import samples_per_row
from fedjax_admm.trials.solve.private._figure import UNPROTECTED, draw_private_fit, label_of
from fedjax_admm.trials.solve.private._fit import SPENT, PrivateFit
from fedjax_admm.trials.solve.private._settings import METHODS, PrivateSettings

LEDGER, CURVE, PRIVATE_MODELS, EVALUATION = PrivateSettings.tables
say = sentences(__file__)


def solution(fit: PrivateFit, title: str) -> Solution:
    """Return the text and the files of a private fit; unprotected ones only on request."""
    settings, seen, label, silent = fit.settings, fit.observations, label_of(fit), 0 * fit.noise
    ledger = _ledger(fit)
    spent = {name: list(map(_in_full, fit.curve[name])) for name in SPENT}
    tables: dict[str, Rows | Columns | None] = {
        MODELS: _model_rows(fit, fit.released, fit.noise, label),
        LEDGER: ledger,
        CURVE: _labelled({**fit.curve, **spent}, label),
        PRIVATE_MODELS: None,
        EVALUATION: None,
    }
    entries = [dict(zip(ledger, row, strict=True)) for row in zip(*ledger.values(), strict=True)]
    privacy = {"label": label, "statement": fit.plan.statement(clipped=True).splitlines()}
    result: dict[str, Any] = {"privacy": {**privacy, "limits": limits(fit), "ledger": entries}}
    if settings.keep_private:
        tables[PRIVATE_MODELS] = _model_rows(fit, fit.private, silent, UNPROTECTED)
    if fit.evaluation is not None:
        last = {name: values[-1] for name, values in fit.evaluation.items()}
        told = {"optimal_value": fit.optimal_value, "shortfall": fit.shortfall}
        result["evaluation"] = {"label": UNPROTECTED, **last, **told}
        curve = {"round": fit.curve["round"], **fit.evaluation}
        tables[EVALUATION] = _labelled(curve, UNPROTECTED)
    return Solution(
        settings=settings,
        text=summary(fit),
        tables=tables,
        draw=lambda: draw_private_fit(fit, title_of(fit, title)),
        data={
            "clients": len(seen.nodes),
            "samples": seen.counts.sum(),
            "coefficients": seen.columns,
            "graph": fit.network.made,
            "edges": fit.network.num_edges,
        },
        result=result,
    )


def summary(fit: PrivateFit) -> str:
    """Return the text that a person reads."""
    network, settings, fewest = fit.network, fit.settings, int(fit.observations.counts.min())
    edges, degrees = amount(network.num_edges, "edge"), np.asarray(network.graph.degrees)
    numbers = (f"{name} {getattr(settings, name):g}" for name in METHODS[settings.method])
    lines = [
        *rows_told(fit.observations, "samples", "client"),
        say("graph", made=network.made, edges=edges, neighbours=span(degrees)),
        *ignored_told(network.ignored, "the edges"),
        *(say("method", s=settings, numbers=", ".join(numbers)), ""),
        *(fit.plan.statement(clipped=True), *limits(fit), ""),
    ]
    if settings.delta > 1 / fewest:
        lines.append(say("delta", delta=settings.delta, fewest=fewest))
    lines += _spent_told(fit)
    if fit.evaluation is not None:
        lines += ["", *_evaluation_told(fit, fit.evaluation)]
    if settings.keep_private:
        lines.append(say("kept", PRIVATE_MODELS, UNPROTECTED))
    return "\n".join(lines)


def limits(fit: PrivateFit) -> list[str]:
    """Return what the plan's statement cannot know, in one line per point."""
    settings = fit.settings
    noise = "system" if settings.seed is None else "seed"
    noise = "no_noise" if np.isinf(settings.epsilon) else noise
    lines = [say(noise), say("public"), say("not_covered")]
    together = samples_per_row(fit.observations)
    if together > 1:
        budget = together**2 * float(fit.spent.budget.max())
        epsilon = rounded_up(accountant.gaussian_epsilon(budget, settings.delta))
        lines.append(say("lags", samples=together, epsilon=epsilon, label=_in_brackets(fit)))
    return lines


def title_of(fit: PrivateFit, title: str) -> str:
    """Return what stands above the figure."""
    label = label_of(fit)
    return say(
        "title",
        title=title,
        s=fit.settings,
        columns=shortened(fit.observations.columns, 5),
        clients=len(fit.noise),
        edges=amount(fit.network.num_edges, "edge"),
        epsilon=rounded_up(fit.plan.epsilon),
        exact=rounded_up(fit.plan.exact_epsilon),
        delta=rounded_up(fit.settings.delta, 6),
        label=label and f", {label}",
    )


def _in_brackets(fit: PrivateFit) -> str:
    label = label_of(fit)
    return label and f" ({label})"


def _spent_told(fit: PrivateFit) -> Iterator[str]:
    spent = {name: rounded_up(getattr(fit.spent, name).max()) for name in SPENT}
    noise, columns = fit.noise, fit.observations.columns
    who = {"clients": len(noise), "releases": fit.releases.max(), "label": _in_brackets(fit)}
    yield say("spent", **who, **spent)
    if noise.any():
        yield say("deviation", noise.min(), noise.max())
    yield "Mean of the released models:"
    width = max(map(len, columns[:8]))
    for name, value in zip(columns[:8], fit.released.mean(0), strict=False):
        yield f"  {name:<{width}} {value:>12.5g}"
    if len(columns) > 8:
        yield f"  and {len(columns) - 8} more in {MODELS}"


def _evaluation_told(fit: PrivateFit, evaluation: Mapping[str, np.ndarray]) -> Iterator[str]:
    last = {name: values[-1] for name, values in evaluation.items()}
    yield say("evaluated", UNPROTECTED, EVALUATION, CONFIG)
    yield say("squares", clients=len(fit.noise), **last)
    yield say("objective", optimal=fit.optimal_value, **last)
    if fit.shortfall:
        yield from shortfall_told(fit.settings, fit.shortfall)


def shortfall_told(settings: PrivateSettings, parts: Mapping[str, float]) -> list[str]:
    """Return which of clipping, rounds and noise keeps the released models from the minimiser."""
    names = ["clipping", "rounds", *(() if np.isinf(settings.epsilon) else ("noise",))]
    bare = "noise and clipping" if parts["clipping"] > 0 else "noise"
    most, percent = max(names, key=parts.__getitem__), 100 * parts["clipped"]
    values = {"percent": percent, "clip": settings.clip, "number": settings.rounds, "bare": bare}
    head = say("distance", length=parts["minimiser"], most=most)
    return [head, *(f"    {name}: {say(name, **values, **parts)}" for name in names)]


def _model_rows(fit: PrivateFit, models: np.ndarray, noise: np.ndarray, label: str) -> Rows:
    seen = fit.observations
    last = _labelled({"samples": seen.counts, "noise_deviation": noise}, label)
    return model_rows(seen, models, {"client": seen.nodes}, last)


def _ledger(fit: PrivateFit) -> Columns:
    spent = {name: list(map(_in_full, getattr(fit.spent, name))) for name in SPENT}
    columns = {"client": fit.observations.nodes, "releases": fit.releases.tolist(), **spent}
    return _labelled(columns, label_of(fit))


def _labelled(columns: Columns, label: str) -> Columns:
    return {**columns, "label": [label] * len(next(iter(columns.values())))}


def _in_full(spent: float) -> float:
    """Return what was spent with the digits that tables have, rounded up."""
    return float(rounded_up(spent, 12))
