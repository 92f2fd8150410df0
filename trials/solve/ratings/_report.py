"""What `solve ratings` tells and writes: factors, curve, errors."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedjax_admm.ratings import Pairs
from fedjax_admm.trials.solve._solution import MODELS, Columns, Rows, Solution
from fedjax_admm.trials.solve._words import told
from fedjax_admm.trials.solve.ratings._figure import draw_ratings_fit
from fedjax_admm.trials.solve.ratings._fit import (
    BIASES,
    FEDMC,
    FRESH,
    INNER_STEPS,
    KNOWN,
    MEAN,
    RatingsFit,
    recommended,
)
from fedjax_admm.trials.solve.ratings._settings import RatingsSettings

FACTORS, CURVE, PREDICTIONS = RatingsSettings.tables
_FEW = 30  # errors of fewer ratings tell little
_TIE = 0.002  # errors that differ by less count as equal


def solution(
    fit: RatingsFit,
    shown: Sequence[int],
    title: str,
    pairs: Pairs | None = None,
    titles: Sequence[Any] | None = None,
) -> Solution:
    """Return the text and the files of a completed table.

    Args:
      fit: of the table.
      shown: positions of users whose best items are told.
      title: what stands above the figure.
      pairs: that are predicted, if any.
      titles: of all items; their numbers or texts if None.
    """
    table, factors, choice, counts = fit.table, fit.factors, fit.choice, fit.factors.counts
    parts = ("users", "items", "clients", "mean", "deviation")
    arrays = {name: np.asarray(getattr(factors, name)) for name in parts}
    tried = zip(choice.grid, choice.grid_errors, choice.grid_rounds, strict=True)
    names = ("beta", "validation", "rounds")
    return Solution(
        settings=fit.settings,
        text=summary(fit, shown, pairs, titles),
        tables={
            MODELS: _factor_rows(fit),
            CURVE: fit.curve,
            PREDICTIONS: None if pairs is None else _predictions(fit, pairs),
        },
        arrays={FACTORS: {**arrays, "user_ids": table.user_ids, "item_ids": table.item_ids}},
        draw=lambda: draw_ratings_fit(fit, _told("title", fit, title=title)),
        data={
            "ratings": len(table),
            "users": table.num_users,
            "items": table.num_items,
            "ratings_per_client": {
                name: getattr(counts, name)() for name in ("min", "mean", "max")
            },
            "mean": factors.mean,
            "deviation": factors.deviation,
            "fitted_to_judge_beta": choice.fitted,
            "held_out_to_judge_beta": choice.validated,
            "held_out_to_test": fit.tested,
        },
        result={
            "model": choice.model,
            "beta": choice.beta,
            "grid": [dict(zip(names, each, strict=True)) for each in tried],
            "errors": {name: scores._asdict() for name, scores in fit.scores.items()},
        },
    )


def summary(
    fit: RatingsFit,
    shown: Sequence[int] = (),
    pairs: Pairs | None = None,
    titles: Sequence[Any] | None = None,
) -> str:
    """Return the text that a person reads, with the best items of the users at some positions."""
    table, errors = fit.table, {name: score.test for name, score in fit.scores.items()}
    constants = {"few": _FEW, "tie": _TIE, "known": KNOWN, "infinity": np.inf}
    constants |= {"biases": BIASES, "fresh": FRESH, "mean": MEAN, "inner_steps": INNER_STEPS}
    lists = []
    for user, items in zip(shown, recommended(table, fit.factors, shown), strict=True):
        stars = _in_range(fit, fit.factors.stars(user))
        names = [str((table.item_ids if titles is None else titles)[item]) for item in items]
        lists.append((table.user_ids[user], names, stars[items]))
    return _told(
        "told",
        fit,
        members=np.bincount(fit.factors.clients),
        tested=fit.tested,
        curve=fit.curve,
        scores=fit.scores,
        errors=errors,
        best=min(errors, key=errors.__getitem__),
        lists=lists,
        pairs=pairs,
        unknown=0 if pairs is None else int((pairs.places < 0).any(1).sum()),
        **constants,
    )


def _predictions(fit: RatingsFit, pairs: Pairs) -> Columns:
    stars = _in_range(fit, fit.factors.of_pairs(pairs.places))
    return {"user": pairs.users, "item": pairs.items, "prediction": stars}


def _in_range(fit: RatingsFit, stars: np.ndarray) -> np.ndarray:
    """Return predictions within the range of the ratings."""
    return np.clip(stars, fit.table.values.min(), fit.table.values.max())


def _told(name: str, fit: RatingsFit, **values: Any) -> str:
    parts = {name: getattr(fit, name) for name in ("table", "factors", "choice")}
    return told(f"ratings/{name}.txt", s=fit.settings, fedmc=FEDMC, **parts, **values)


def _factor_rows(fit: RatingsFit) -> Rows:
    """Yield the factors of every user and of every item; an item belongs to no client."""
    table, factors = fit.table, fit.factors
    rank = factors.items.shape[1]
    yield ["kind", "id", "client", *(f"factor_{k}" for k in range(1, rank + 1))]
    for identity, client, row in zip(table.user_ids, factors.clients, factors.users, strict=True):
        yield ["user", identity, client, *row]
    for identity, row in zip(table.item_ids, factors.items, strict=True):
        yield ["item", identity, "", *row]
