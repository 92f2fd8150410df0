"""What `solve ratings` tells and writes: factors, curve, errors."""

from collections.abc import Iterable, Sequence

import numpy as np

from fedjax_admm.trials.solve._command import MODELS, Rows, Solution
from fedjax_admm.trials.solve._words import amount, ignored_told, span
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
from fedjax_admm.trials.solve.ratings._settings import AUTO

FACTORS, CURVE = "factors.npz", "curve.csv"
_FEW = 30  # errors of fewer ratings tell little
_TIE = 0.002  # errors that differ by less count as equal


def solution(fit: RatingsFit, shown: Sequence[int], title: str) -> Solution:
    """Return the text and the files of a completed table; `shown` are positions of users."""
    table, factors, choice, curve = fit.table, fit.factors, fit.choice, fit.verdict.curve
    return Solution(
        settings=fit.settings,
        text=summary(fit, shown),
        tables={
            MODELS: _factor_rows(fit),
            CURVE: [list(curve), *zip(*curve.values(), strict=True)],
        },
        arrays={
            FACTORS: {
                "users": factors.users,
                "items": factors.items,
                "user_ids": table.user_ids,
                "item_ids": table.item_ids,
                "clients": factors.clients,
                "mean": np.array(factors.mean),
                "deviation": np.array(factors.deviation),
            }
        },
        draw=lambda: draw_ratings_fit(fit, _title(fit, title)),
        data={
            "ratings": len(table),
            "users": table.num_users,
            "items": table.num_items,
            "ratings_per_client": {
                name: getattr(factors.counts, name)() for name in ("min", "mean", "max")
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
            "grid": [
                {"beta": beta, "validation": error, "rounds": rounds}
                for beta, error, rounds in _tried(choice)
            ],
            "errors": {name: scores._asdict() for name, scores in fit.scores.items()},
        },
    )


def summary(fit: RatingsFit, shown: Sequence[int] = ()) -> str:
    """Return the text that a person reads, with the best items of the users at some positions."""
    lines = [*_result_told(fit), "", *_data_told(fit), ""]
    if len(fit.choice.grid) > 1:
        lines += [*_grid_told(fit.choice), ""]
    lines += [*_scores_told(fit), *_remarks(fit)]
    best = recommended(fit.table, fit.factors, shown, fit.settings.top_count)
    for user, items in zip(shown, best, strict=True):
        lines += ["", *_items_told(fit, user, items)]
    return "\n".join(lines)


def _result_told(fit: RatingsFit) -> list[str]:
    """Say which model was fitted to all ratings, and why."""
    choice, errors = fit.choice, fit.choice.errors
    biases, chosen = errors[BIASES], errors[FEDMC]
    if fit.settings.model != AUTO:
        return [f"The result is that of the {choice.model}, as --model says."]
    if choice.model == FEDMC:
        return [
            f"The result is that of {FEDMC}: on the ratings that choose it errs by {chosen:.4f}, "
            f"the {BIASES} by {biases:.4f}."
        ]
    return [
        f"The {BIASES} predict better than {FEDMC} here: on the ratings that choose they err by "
        f"{biases:.4f}, {FEDMC} by {chosen:.4f}.",
        "So the result is that of the biases: mean + b of the user + c of the item, with factors "
        "(b, 1) and (1, c). For the other factors add --model fedmc.",
    ]


def _data_told(fit: RatingsFit) -> list[str]:
    table, factors, settings = fit.table, fit.factors, fit.settings
    low, high = table.values.min(), table.values.max()
    members, counts = np.bincount(factors.clients), factors.counts
    split, tested = fit.choice, fit.verdict.tested
    return [
        f"{len(table)} ratings from {low:g} to {high:g} of {table.num_items} items by "
        f"{amount(table.num_users, 'user')}: mean {factors.mean:.4g}, standard deviation "
        f"{factors.deviation:.4g}.",
        *ignored_told(table.ignored),
        f"{amount(settings.clients, 'client')} with {span(members)} "
        f"{'users' if members.max() > 1 else 'user'} and {span(counts)} "
        f"ratings each (mean {counts.mean():.4g}); {settings.sampled} at random in each of "
        f"{amount(settings.rounds, 'round')}.",
        f"To judge beta: {split.fitted} ratings to learn from, {split.validated} held out. "
        f"For the test: {len(table) - tested} to learn from, {tested} held out.",
    ]


def _tried(choice: Choice) -> Iterable[tuple[float, float, int]]:
    """Return beta, error and rounds of all betas that were tried."""
    return zip(choice.grid, choice.grid_errors, choice.grid_rounds, strict=True)


def _grid_told(choice: Choice) -> list[str]:
    lines = [f"{'beta':>10}   validation error of {FEDMC}"]
    for beta, error, rounds in _tried(choice):
        mark = "   <- chosen" if beta == choice.beta else ""
        if rounds < choice.grid_rounds.max():
            mark = f"   after {amount(rounds, 'round')}, when others led"
        lines.append(f"{beta:>10.3g}   {_error(error)}{mark}")
    for end, side, factor in ((0, "smallest", 0.1), (-1, "largest", 10)):
        if choice.beta == choice.grid[end]:
            lines.append(
                f"The {side} beta of the grid was best: try --beta {factor * choice.beta:.2g} too, "
                "and compare the validation errors."
            )
    return lines


def _scores_told(fit: RatingsFit) -> list[str]:
    lines = [
        "Root mean square errors in standard deviations of the ratings learnt from, and in stars",
        f"  {'':<28}{'validation':>10}{'test':>9}{'in stars':>10}{'numbers sent':>18}",
    ]
    for name, (validation, test, stars, sent) in fit.scores.items():
        lines.append(f"  {name:<28}{_error(validation):>10}{test:>9.4f}{stars:>10.4f}{sent:>18,}")
    lines.append(
        f"Fresh users: each client takes {amount(fit.settings.inner_steps, 'more step')} against "
        "the last V, and sends nothing."
    )
    return lines


def _remarks(fit: RatingsFit) -> list[str]:
    scores, settings = fit.scores, fit.settings
    best = min(scores, key=lambda name: scores[name].test)
    lines = [f"Best on the test ratings, which chose nothing: {best} ({scores[best].test:.4f})."]
    lead = scores[BIASES].test - scores[FEDMC].test
    if lead < _TIE:
        verdict = "are better than" if lead <= -_TIE else "are as good as"
        lines.append(
            f"The {BIASES} {verdict} {FEDMC}: {scores[BIASES].test:.4f} against "
            f"{scores[FEDMC].test:.4f}, and {scores[FRESH].test:.4f} with fresh users."
        )
    if not (fit.factors.items.any() and fit.factors.users.any()):
        lines.append("All factors are 0: take a smaller --lam or --gamma.")
    elif scores[FEDMC].test >= scores[MEAN].test:
        lines.append(
            f"{FEDMC} is no better than the {MEAN}: these ratings are too few for --rank "
            f"{settings.rank}, or ask for another --beta, --lam or --gamma."
        )
    if min(fit.choice.validated, fit.verdict.tested) < _FEW:
        lines.append(
            f"Only {fit.choice.validated} ratings chose and {fit.verdict.tested} tested: which "
            "beta and model are best here is mostly chance."
        )
    if settings.penalty == "nonnegative":
        lines.append(
            "Factors that are not negative predict no rating below the mean: most of what others "
            "learn is out of reach."
        )
    up, down = (int(fit.verdict.curve[name][-1]) for name in ("numbers_up", "numbers_down"))
    return [
        *lines,
        "All errors are of one split: repeat with another --seed before trusting a small "
        "difference.",
        f"{FEDMC} sent {up:,} numbers up (W and Y) and {down:,} down (V).",
        "Means and biases were found in one place; the table says what clients would send.",
        "Ratings and users' factors stay with their client, but W and Y reveal which items it has "
        "rated.",
    ]


def _items_told(fit: RatingsFit, user: int, items: Sequence[int]) -> list[str]:
    table = fit.table
    name = f"User {table.user_ids[user]!s}"
    names = [str(table.item_ids[item]) for item in items]
    if not items:
        return [f"{name} has rated all items that have at least {KNOWN} ratings."]
    stars = np.clip(fit.factors.stars(user), table.values.min(), table.values.max())
    return [
        f"{name}: best predictions (stars) for items it has not rated, of those with at least "
        f"{KNOWN} ratings",
        *(f"  item {it:<12} {stars[item]:.2f}" for it, item in zip(names, items, strict=True)),
    ]


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
    table, settings = fit.table, fit.settings
    return (
        f"{name}: {len(table)} ratings, {table.num_users} users, "
        f"{table.num_items} items\n"
        f"{FEDMC} with beta {fit.choice.beta:.3g}, rank {settings.rank}, {settings.penalty}; "
        f"{settings.sampled} of {amount(settings.clients, 'client')} per round, seed "
        f"{settings.seed}"
    )


def _error(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" if np.isfinite(value) else "not finite"
