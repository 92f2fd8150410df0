"""What `solve ratings` tells and writes: factors, curve, errors."""

from collections.abc import Iterator, Sequence

import numpy as np

from fedjax_admm.trials.solve._command import MODELS, Rows, Solution
from fedjax_admm.trials.solve._words import amount, ignored_told, sentences, span
from fedjax_admm.trials.solve.ratings._figure import draw_ratings_fit
from fedjax_admm.trials.solve.ratings._fit import (
    BIASES,
    FEDMC,
    FRESH,
    KNOWN,
    MEAN,
    Choice,
    RatingsFit,
    recommended,
)
from fedjax_admm.trials.solve.ratings._settings import AUTO, RatingsSettings

FACTORS, CURVE = RatingsSettings.tables
_FEW = 30  # errors of fewer ratings tell little
_TIE = 0.002  # errors that differ by less count as equal
say = sentences(__file__)


def solution(fit: RatingsFit, shown: Sequence[int], title: str) -> Solution:
    """Return the text and the files of a completed table; `shown` are positions of users."""
    table, factors, choice, counts = fit.table, fit.factors, fit.choice, fit.factors.counts
    parts = ("users", "items", "clients", "mean", "deviation")
    arrays = {name: np.asarray(getattr(factors, name)) for name in parts}
    tried = zip(choice.grid, choice.grid_errors, choice.grid_rounds, strict=True)
    names = ("beta", "validation", "rounds")
    return Solution(
        settings=fit.settings,
        text=summary(fit, shown),
        tables={MODELS: _factor_rows(fit), CURVE: fit.verdict.curve},
        arrays={FACTORS: {**arrays, "user_ids": table.user_ids, "item_ids": table.item_ids}},
        draw=lambda: draw_ratings_fit(fit, _title(fit, title)),
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
            "held_out_to_test": fit.verdict.tested,
        },
        result={
            "model": choice.model,
            "beta": choice.beta,
            "grid": [dict(zip(names, each, strict=True)) for each in tried],
            "errors": {name: scores._asdict() for name, scores in fit.scores.items()},
        },
    )


def summary(fit: RatingsFit, shown: Sequence[int] = ()) -> str:
    """Return the text that a person reads, with the best items of the users at some positions."""
    told = "asked" if fit.settings.model != AUTO else "fedmc" if fit.choice.model == FEDMC else ""
    errors = {"fedmc": fit.choice.errors[FEDMC], "biases": fit.choice.errors[BIASES]}
    names = (fit.choice.model,) if told == "asked" else (FEDMC, BIASES)
    lines = [say(told or "biases", *names, **errors), "", *_data_told(fit), ""]
    if len(fit.choice.grid) > 1:
        lines += [*_grid_told(fit.choice), ""]
    lines += [*_scores_told(fit), *_remarks(fit)]
    best = recommended(fit.table, fit.factors, shown, fit.settings.top_count)
    for user, items in zip(shown, best, strict=True):
        lines += ["", *_items_told(fit, user, items)]
    return "\n".join(lines)


def _data_told(fit: RatingsFit) -> Iterator[str]:
    table, factors, settings, tested = fit.table, fit.factors, fit.settings, fit.verdict.tested
    members, counts, users = np.bincount(factors.clients), factors.counts, table.num_users
    size = {"ratings": len(table), "items": table.num_items, "users": amount(users, "user")}
    yield say("table", f=factors, low=table.values.min(), high=table.values.max(), **size)
    yield from ignored_told(table.ignored)
    yield say(
        "clients",
        clients=amount(settings.clients, "client"),
        members=span(members),
        users="users" if members.max() > 1 else "user",
        counts=span(counts),
        mean=counts.mean(),
        sampled=settings.sampled,
        rounds=amount(settings.rounds, "round"),
    )
    yield say("split", choice=fit.choice, rest=len(table) - tested, tested=tested)


def _grid_told(choice: Choice) -> Iterator[str]:
    yield f"{'beta':>10}   validation error of {FEDMC}"
    tried = zip(choice.grid, choice.grid_errors, choice.grid_rounds, strict=True)
    for beta, error, rounds in tried:
        mark = "   <- chosen" if beta == choice.beta else ""
        if rounds < choice.grid_rounds.max():
            mark = f"   after {amount(rounds, 'round')}, when others led"
        yield f"{beta:>10.3g}   {_error(error)}{mark}"
    for end, side, factor in ((0, "smallest", 0.1), (-1, "largest", 10)):
        if choice.beta == choice.grid[end]:
            yield say("edge_of_grid", side=side, beta=factor * choice.beta)


def _scores_told(fit: RatingsFit) -> Iterator[str]:
    yield say("errors")
    yield f"  {'':<28}{'validation':>10}{'test':>9}{'in stars':>10}{'numbers sent':>18}"
    for name, (validation, *others) in fit.scores.items():
        yield say("scores", name, _error(validation), *others)
    yield say("fresh", amount(fit.settings.inner_steps, "more step"))


def _remarks(fit: RatingsFit) -> Iterator[str]:
    settings, choice = fit.settings, fit.choice
    errors = {name: scores.test for name, scores in fit.scores.items()}
    best = min(errors, key=errors.__getitem__)
    yield say("best", best, errors[best])
    lead, last = errors[BIASES] - errors[FEDMC], {"fedmc": errors[FEDMC], "fresh": errors[FRESH]}
    if lead < _TIE:
        verdict = "are better than" if lead <= -_TIE else "are as good as"
        yield say("rivals", BIASES, FEDMC, verdict=verdict, biases=errors[BIASES], **last)
    if not (fit.factors.items.any() and fit.factors.users.any()):
        yield say("zero")
    elif errors[FEDMC] >= errors[MEAN]:
        yield say("no_better", FEDMC, MEAN, rank=settings.rank)
    if min(choice.validated, fit.verdict.tested) < _FEW:
        yield say("few", choice.validated, fit.verdict.tested)
    if settings.penalty == "nonnegative":
        yield say("nonnegative")
    sent = (int(fit.verdict.curve[name][-1]) for name in ("numbers_up", "numbers_down"))
    yield say("ends", FEDMC, *sent)


def _items_told(fit: RatingsFit, user: int, items: Sequence[int]) -> Iterator[str]:
    table = fit.table
    yield say("items" if items else "rated_all", table.user_ids[user], KNOWN)
    stars = np.clip(fit.factors.stars(user), table.values.min(), table.values.max())
    for item in items:
        yield say("item", str(table.item_ids[item]), stars[item])


def _factor_rows(fit: RatingsFit) -> Rows:
    """Yield the factors of every user and of every item; an item belongs to no client."""
    table, factors = fit.table, fit.factors
    rank = factors.items.shape[1]
    yield ["kind", "id", "client", *(f"factor_{k}" for k in range(1, rank + 1))]
    for identity, client, row in zip(table.user_ids, factors.clients, factors.users, strict=True):
        yield ["user", identity, client, *row]
    for identity, row in zip(table.item_ids, factors.items, strict=True):
        yield ["item", identity, "", *row]


def _title(fit: RatingsFit, name: str) -> str:
    table, clients = fit.table, amount(fit.settings.clients, "client")
    size = {"ratings": len(table), "users": table.num_users, "items": table.num_items}
    how = {"method": FEDMC, "beta": fit.choice.beta, "s": fit.settings, "clients": clients}
    return say("title", title=name, **size, **how)


def _error(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" if np.isfinite(value) else "not finite"
