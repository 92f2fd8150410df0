"""What `solve private` tells and writes: released models, the ledger, curves.

Without --evaluate and --keep-private every file holds only what follows from the messages and from
public numbers. What does not is written where it is asked for, and says so.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedjax_admm.privacy import accountant, rounded_up
from fedjax_admm.trials.results import CONFIG
from fedjax_admm.trials.solve._command import MODELS, Rows, Solution
from fedjax_admm.trials.solve._words import (
    amount,
    ignored_told,
    model_rows,
    rows_told,
    shortened,
    span,
)
from fedjax_admm.trials.solve.private._clients import samples_per_row
from fedjax_admm.trials.solve.private._figure import UNPROTECTED, draw_private_fit, label_of
from fedjax_admm.trials.solve.private._fit import PrivateFit
from fedjax_admm.trials.solve.private._settings import METHODS, PrivateSettings

LEDGER, CURVE = "ledger.csv", "curve.csv"
SPENT = ("budget", "epsilon", "exact_epsilon")
PRIVATE_MODELS, EVALUATION = "private_models.csv", "evaluation.csv"


def solution(fit: PrivateFit, title: str) -> Solution:
    """Return the text and the files of a private fit; unprotected ones only on request."""
    settings, seen, label = fit.settings, fit.observations, label_of(fit)
    ledger = _ledger(fit)
    privacy = {
        "label": label,
        "statement": fit.plan.statement(clipped=True).splitlines(),
        "limits": limits(fit),
        "ledger": ledger,
    }
    tables: dict[str, Rows | None] = {
        MODELS: _model_rows(fit, fit.released, fit.noise, label),
        LEDGER: [list(ledger[0]), *(list(row.values()) for row in ledger)],
        CURVE: _curve_rows(_curve(fit), label),
        PRIVATE_MODELS: None,
        EVALUATION: None,
    }
    result: dict[str, Any] = {"privacy": privacy}
    if settings.keep_private:
        silent = np.zeros_like(fit.noise)
        tables[PRIVATE_MODELS] = _model_rows(fit, fit.private, silent, UNPROTECTED)
    if fit.evaluation is not None:
        last = {name: values[-1] for name, values in fit.evaluation.items()}
        result["evaluation"] = {
            "label": UNPROTECTED,
            **last,
            "optimal_value": fit.optimal_value,
            "shortfall": fit.shortfall,
        }
        curve = {"round": fit.curve["round"], **fit.evaluation}
        tables[EVALUATION] = _curve_rows(curve, UNPROTECTED)
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
    network = fit.network
    lines = [
        *rows_told(fit.observations, "samples", "client"),
        f"Graph ({network.made}): {amount(network.num_edges, 'edge')}, "
        f"{span(np.asarray(network.graph.degrees))} neighbours of each client.",
        *ignored_told(network.ignored, "the edges"),
        _method_told(fit),
        "",
        fit.plan.statement(clipped=True),
        *limits(fit),
        "",
        *_warnings(fit),
        *_spent_told(fit),
    ]
    if fit.evaluation is not None:
        lines += ["", *_evaluation_told(fit, fit.evaluation)]
    if fit.settings.keep_private:
        lines.append(
            f"{PRIVATE_MODELS} holds the models without noise, which are {UNPROTECTED}: each is "
            "for its client only. No other user of this machine may open the folder."
        )
    return "\n".join(lines)


def limits(fit: PrivateFit) -> list[str]:
    """Return what the plan's statement cannot know, in one line per point."""
    if np.isinf(fit.settings.epsilon):
        noise = "none; nothing is protected"
    elif fit.settings.seed is not None:
        noise = "drawn from --seed, which is written nowhere: whoever knows it can take it away"
    else:
        noise = "pseudo-random, from a 64-bit key of the operating system that is kept nowhere"
    lines = [
        f"noise: {noise}",
        "also public: the names of clients and columns, the order of a client's rows, how many "
        "rows lack a value (they are no samples: replaced is a complete row by a complete one)",
        "also not covered: that a run was refused or failed, and what it said then (the step is "
        "checked on the data), columns scaled or a clipping norm chosen by the data, all samples "
        "of one client or of one person together",
    ]
    together = samples_per_row(fit.observations)
    if together > 1:
        budget = together**2 * float(fit.spent.budget.max())
        epsilon = accountant.gaussian_epsilon(budget, fit.settings.delta)
        label = label_of(fit)
        lines.append(
            f"lags: one row of the file is part of up to {together} samples; for a whole row the "
            f"exact epsilon is {rounded_up(epsilon)}{label and f' ({label})'}"
        )
    return lines


def title_of(fit: PrivateFit, title: str) -> str:
    """Return what stands above the figure."""
    settings, plan, label = fit.settings, fit.plan, label_of(fit)
    return (
        f"{title}: {settings.target} from {shortened(fit.observations.columns, 5)}; "
        f"{len(fit.noise)} clients, {amount(fit.network.num_edges, 'edge')}\n{settings.method}, "
        f"loss {settings.loss}, {settings.rounds} rounds: epsilon {rounded_up(plan.epsilon)} "
        f"(exact {rounded_up(plan.exact_epsilon)}) at delta {rounded_up(settings.delta, 6)}"
        f"{label and f', {label}'}"
    )


def _method_told(fit: PrivateFit) -> str:
    settings = fit.settings
    numbers = {name: getattr(settings, name) for name in METHODS[settings.method]}
    norm = f"gradients of samples clipped to norm {settings.clip:g}"
    shown = ", ".join(f"{name} {value:g}" for name, value in numbers.items())
    return (
        f"Method {settings.method}: {shown}; loss {settings.loss}, l1 {settings.l1:g}, "
        f"l2 {settings.l2:g}; {settings.rounds} rounds, {norm}."
    )


def _warnings(fit: PrivateFit) -> list[str]:
    lines, settings = [], fit.settings
    fewest = int(fit.observations.counts.min())
    if settings.delta > 1 / fewest:
        lines.append(
            f"Warning: --delta {settings.delta:g} is above 1 / {fewest}, one over the samples of "
            "the smallest client: publishing one of its samples at random would be allowed."
        )
    return lines


def _spent_told(fit: PrivateFit) -> list[str]:
    spent, label, noise = fit.spent, label_of(fit), fit.noise
    columns = fit.observations.columns
    lines = [
        f"Spent by each of {len(noise)} clients in {fit.releases.max()} releases: budget "
        f"{rounded_up(spent.budget.max())}, epsilon {rounded_up(spent.epsilon.max())}, exact "
        f"epsilon {rounded_up(spent.exact_epsilon.max())}{label and f' ({label})'}.",
    ]
    if noise.any():
        lines.append(
            "Standard deviation of the noise of the last release in a coefficient: "
            f"{noise.min():.3g} to {noise.max():.3g}; what is left of earlier noise comes on top."
        )
    lines.append("Mean of the released models:")
    named = list(columns[:8])
    width = max(map(len, named))
    shown = zip(named, fit.released.mean(0), strict=False)
    lines += [f"  {name:<{width}} {value:>12.5g}" for name, value in shown]
    if len(columns) > 8:
        lines.append(f"  and {len(columns) - 8} more in {MODELS}")
    return lines


def _evaluation_told(fit: PrivateFit, evaluation: Mapping[str, np.ndarray]) -> list[str]:
    last = {name: values[-1] for name, values in evaluation.items()}
    return [
        f"Evaluated on the data (--evaluate), {UNPROTECTED}; so are {EVALUATION}, the figure's "
        f"last panel and the evaluation in {CONFIG}:",
        f"  sum over {len(fit.noise)} clients of squared relative errors: "
        f"{last['released_error']:.4g} of released models, {last['unprotected_error']:.4g} of "
        f"those without noise (all zero: {len(fit.noise)})",
        f"  objective: {last['gap']:.4g} above the smallest value, {fit.optimal_value:.5g}, at the "
        "mean of the models without noise",
        *(shortfall_told(fit.settings, fit.shortfall) if fit.shortfall else []),
    ]


def shortfall_told(settings: PrivateSettings, parts: Mapping[str, float]) -> list[str]:
    """Return which of clipping, rounds and noise keeps the released models from the minimiser."""
    sentences = {
        "clipping": f"{100 * parts['clipped']:.3g} % of the samples have a gradient longer than "
        f"--clip {settings.clip:g} where a run without noise ends, {parts['clipping']:.3g} farther "
        "from the minimiser for it. A larger --clip clips fewer, and needs more noise."
    }
    bare = "noise and clipping" if parts["clipping"] > 0 else "noise"
    sentences["rounds"] = (
        f"{settings.rounds} rounds without {bare} end {parts['rounds']:.3g} from the minimiser. "
        "More --rounds end nearer, with more noise in each."
    )
    if not np.isinf(settings.epsilon):
        sentences["noise"] = (
            f"it moves the released models by {parts['noise']:.3g}. A larger --epsilon or more "
            "samples of each client make that less."
        )
    return [
        f"  distance of the released models from the minimiser, whose length is "
        f"{parts['minimiser']:.3g} (root mean squares over clients), most by the "
        f"{max(sentences, key=parts.__getitem__)}:",
        *(f"    {name}: {sentence}" for name, sentence in sentences.items()),
    ]


def _model_rows(fit: PrivateFit, models: np.ndarray, noise: np.ndarray, label: str) -> Rows:
    seen = fit.observations
    labels = [label] * len(noise)
    last = {"samples": seen.counts, "noise_deviation": noise, "label": labels}
    return model_rows(seen, models, {"client": seen.nodes}, last)


def _ledger(fit: PrivateFit) -> list[dict[str, Any]]:
    spent, label = fit.spent, label_of(fit)
    return [
        {
            "client": name,
            "releases": int(fit.releases[k]),
            **{column: _in_full(getattr(spent, column)[k]) for column in SPENT},
            "label": label,
        }
        for k, name in enumerate(fit.observations.nodes)
    ]


def _curve(fit: PrivateFit) -> dict[str, Any]:
    spent = {name: list(map(_in_full, fit.curve[name])) for name in SPENT}
    return {**fit.curve, **spent}


def _in_full(spent: float) -> float:
    """Return what was spent with the digits that tables have, rounded up."""
    return float(rounded_up(spent, 12))


def _curve_rows(columns: Mapping[str, np.ndarray], label: str) -> Rows:
    return [[*columns, "label"], *([*row, label] for row in zip(*columns.values(), strict=True))]
