"""What `solve private` tells and writes: released models, the ledger, curves.

Without --evaluate and --keep-private every file holds only what follows from the messages and from
public numbers. What does not is written where it is asked for, and says so.
"""

from typing import Any

import numpy as np

from fedjax_admm.privacy import accountant, rounded_up
from fedjax_admm.trials.solve._solution import MODELS, Columns, Rows, Solution, model_rows
from fedjax_admm.trials.solve._words import told
from fedjax_admm.trials.solve.private._clients import samples_per_row
from fedjax_admm.trials.solve.private._figure import UNPROTECTED, draw_private_fit, label_of
from fedjax_admm.trials.solve.private._fit import SPENT, PrivateFit
from fedjax_admm.trials.solve.private._settings import METHODS, PrivateSettings

LEDGER, CURVE, PRIVATE_MODELS, EVALUATION = PrivateSettings.tables


def solution(fit: PrivateFit, title: str) -> Solution:
    """Return the text and the files of a private fit; unprotected ones only on request."""
    settings, seen, label = fit.settings, fit.observations, label_of(fit)
    ledger: Columns = _labelled(
        {"client": seen.nodes, "releases": fit.releases.tolist(), **_in_full(fit.spent._asdict())},
        label,
    )
    tables: dict[str, Rows | Columns | None] = {
        MODELS: _model_rows(fit, fit.released, fit.noise, label),
        LEDGER: ledger,
        CURVE: _labelled({**fit.curve, **_in_full(fit.curve)}, label),
        PRIVATE_MODELS: None,
        EVALUATION: None,
    }
    entries = [dict(zip(ledger, row, strict=True)) for row in zip(*ledger.values(), strict=True)]
    privacy = {"label": label, "statement": fit.plan.statement(clipped=True).splitlines()}
    result: dict[str, Any] = {"privacy": {**privacy, "limits": limits(fit), "ledger": entries}}
    if settings.keep_private:
        tables[PRIVATE_MODELS] = _model_rows(fit, fit.private, 0 * fit.noise, UNPROTECTED)
    if fit.evaluation is not None:
        found = {"optimal_value": fit.optimal_value, "shortfall": fit.shortfall}
        result["evaluation"] = {"label": UNPROTECTED, **_last(fit), **found}
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
    """Return the text that a person reads; of what spoils the fit, which part does most."""
    settings = fit.settings
    spoilt = ["clipping", "rounds", *(() if np.isinf(settings.epsilon) else ("noise",))]
    return _told(
        "told",
        fit,
        numbers=METHODS[settings.method],
        degrees=np.asarray(fit.network.graph.degrees),
        limits=limits(fit),
        width=f"<{max(map(len, fit.observations.columns[:8]))}",
        unprotected=UNPROTECTED,
        last=_last(fit),
        most=max(spoilt, key=fit.shortfall.__getitem__) if fit.shortfall else None,
    )


def limits(fit: PrivateFit) -> list[str]:
    """Return what the plan's statement cannot know, in one line per point."""
    together = samples_per_row(fit.observations)
    budget = together**2 * float(fit.spent.budget.max())
    epsilon = accountant.gaussian_epsilon(budget, fit.settings.delta) if together > 1 else None
    return _told("limits", fit, together=together, row_epsilon=epsilon).splitlines()


def title_of(fit: PrivateFit, title: str) -> str:
    """Return what stands above the figure."""
    return _told("title", fit, title=title)


def _told(name: str, fit: PrivateFit, **values: Any) -> str:
    values |= {"fit": fit, "s": fit.settings, "label": label_of(fit)}
    return told(f"private/{name}.txt", up=rounded_up, infinity=np.inf, **values)


def _last(fit: PrivateFit) -> dict[str, float]:
    """Return what was evaluated after the last round."""
    return {name: values[-1] for name, values in (fit.evaluation or {}).items()}


def _model_rows(fit: PrivateFit, models: np.ndarray, noise: np.ndarray, label: str) -> Rows:
    seen = fit.observations
    last = _labelled({"samples": seen.counts, "noise_deviation": noise}, label)
    return model_rows(seen, models, {"client": seen.nodes}, last)


def _labelled(columns: Columns, label: str) -> Columns:
    return {**columns, "label": [label] * len(next(iter(columns.values())))}


def _in_full(columns: Columns) -> Columns:
    """Return what was spent with the digits that tables have, rounded up."""
    return {name: [float(rounded_up(each, 12)) for each in columns[name]] for name in SPENT}
