"""What `solve ratings` prints and writes: tables, factors, the figure, the settings."""

import csv
import io
import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedjax_admm._version import __version__
from fedjax_admm.ratings import Ratings
from fedjax_admm.trials import figures, files
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

FACTORS, CURVE, REPORT = "factors.npz", "curve.csv", "report.json"
_TIE = 0.002  # errors that differ by less are told to be equal

# Okabe and Ito's palette, as in `plots`: distinct for colour-blind readers, and in lightness.
_TEST: dict[str, Any] = {"color": "#0072B2", "linestyle": "-", "marker": "o"}
_TRAINING: dict[str, Any] = {"color": "#E69F00", "linestyle": "--", "marker": "^"}
_LEVEL: dict[str, Any] = {"color": "#000000", "linestyle": ":", "linewidth": 1.6}


def summary(
    table: Ratings, fit: RatingsFit, *, top: Sequence[int] = (), top_count: int = 10
) -> str:
    """Return the text that a person reads.

    Args:
      table: the ratings.
      fit: the result.
      top: positions of users whose best items are listed.
      top_count: how many items.
    """
    lines = [*_data_told(table, fit), ""]
    if len(fit.choice.grid) > 1:
        lines += [*_grid_told(fit.choice), ""]
    lines += [*_scores_told(fit), *_remarks(fit)]
    for user, items in zip(top, recommended(table, fit.factors, top, top_count), strict=True):
        lines += ["", *_items_told(table, fit, user, items)]
    return "\n".join(lines)


def write_results(
    folder: Path, table: Ratings, fit: RatingsFit, options: Mapping[str, Any]
) -> list[str]:
    """Write factors, curve, figure and settings into a folder; earlier ones are replaced.

    Args:
      folder: made if it is not there.
      table: the ratings.
      fit: the result.
      options: those of the command that `fit.settings` does not know, by name.

    Returns:
      The names of the files.

    Raises:
      InputError: the file system refuses.
    """
    factors = fit.factors
    files.write_arrays(
        folder / FACTORS,
        {
            "users": factors.users,
            "items": factors.items,
            "user_ids": table.user_ids,
            "item_ids": table.item_ids,
            "clients": factors.clients,
            "mean": np.array(factors.mean),
            "deviation": np.array(factors.deviation),
        },
    )
    curve = _curve(fit).encode()
    files.write_atomically(folder / CURVE, lambda file: file.write(curve))
    figures.save_figure(draw_ratings_fit(fit, _title(table, fit, options)), folder)
    files.write_json(folder / REPORT, _report(table, fit, options))
    return [FACTORS, CURVE, "figure.png", "figure.pdf", REPORT]


def draw_ratings_fit(fit: RatingsFit, title: str) -> Figure:
    """Draw errors against rounds; beside it those of the betas, if several were tried."""
    several = len(fit.choice.grid) > 1
    figure = Figure(figsize=(11.5 if several else 7, 5), layout="constrained")
    panels = figure.subplots(1, 1 + several, squeeze=False)[0]
    _draw_curve(panels[0], fit)
    if several:
        _draw_grid(panels[1], fit.choice)
    for axes in panels:
        axes.set_ylabel("root mean square error (standard deviations)")
        axes.grid(True, linewidth=0.4, alpha=0.6)
        axes.legend(frameon=False, fontsize=9)
    figure.suptitle(title, fontsize=11)
    return figure


def repeating_command(fit: RatingsFit, options: Mapping[str, Any]) -> str:
    """Return the command that repeats a run, in full."""
    words = ["fedjax-admm", "solve", "ratings"]
    for name, value in {**options, **asdict(fit.settings)}.items():
        for each in value if isinstance(value, list) else [value]:
            if each is not None:
                words += [f"--{name.replace('_', '-')}", str(each)]
    return shlex.join(words)


def _data_told(table: Ratings, fit: RatingsFit) -> list[str]:
    factors, settings = fit.factors, fit.settings
    low, high = table.values.min(), table.values.max()
    members, counts = np.bincount(factors.clients), factors.counts
    split, tested = fit.choice, fit.verdict.tested
    return [
        f"{len(table)} ratings from {low:g} to {high:g} of {table.num_items} items by "
        f"{_number(table.num_users, 'user')}: mean {factors.mean:.4g}, standard deviation "
        f"{factors.deviation:.4g}.",
        f"{_number(settings.clients, 'client')} with {_span(members)} users and {_span(counts)} "
        f"ratings each (mean {counts.mean():.4g}); {settings.sampled} at random in each of "
        f"{_number(settings.rounds, 'round')}.",
        f"To judge beta: {split.fitted} ratings to learn from, {split.validated} held out. "
        f"For the test: {len(table) - tested} to learn from, {tested} held out.",
    ]


def _grid_told(choice: Choice) -> list[str]:
    lines = [f"{'beta':>10}   validation error of {FEDMC}"]
    for beta, error in zip(choice.grid, choice.grid_errors, strict=True):
        mark = "   <- chosen" if beta == choice.beta else ""
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
        f"Fresh users: each client takes {_number(fit.settings.inner_steps, 'more step')} against "
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


def _items_told(table: Ratings, fit: RatingsFit, user: int, items: Sequence[int]) -> list[str]:
    name = f"User {table.user_ids[user]}"
    if not items:
        return [f"{name} has rated all items that have at least {KNOWN} ratings."]
    stars = np.clip(fit.factors.stars(user), table.values.min(), table.values.max())
    return [
        f"{name}: best predictions (stars) for items it has not rated, of those with at least "
        f"{KNOWN} ratings",
        *(f"  item {table.item_ids[item]:<12} {stars[item]:.2f}" for item in items),
    ]


def _curve(fit: RatingsFit) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(fit.verdict.curve)
    for row in zip(*fit.verdict.curve.values(), strict=True):
        writer.writerow([f"{value:.9g}" if value.dtype.kind == "f" else value for value in row])
    return text.getvalue()


def _report(table: Ratings, fit: RatingsFit, options: Mapping[str, Any]) -> dict[str, Any]:
    choice, counts = fit.choice, fit.factors.counts
    errors = (float(error) if np.isfinite(error) else None for error in choice.grid_errors)
    return {
        "command": repeating_command(fit, options),
        "settings": {**options, **asdict(fit.settings)},
        "data": {
            "ratings": len(table),
            "users": table.num_users,
            "items": table.num_items,
            "ratings_per_client": {
                "min": int(counts.min()),
                "mean": float(counts.mean()),
                "max": int(counts.max()),
            },
            "mean": fit.factors.mean,
            "deviation": fit.factors.deviation,
            "fitted_to_judge_beta": choice.fitted,
            "held_out_to_judge_beta": choice.validated,
            "held_out_to_test": fit.verdict.tested,
        },
        "beta": choice.beta,
        "grid": [
            {"beta": float(beta), "validation": error}
            for beta, error in zip(choice.grid, errors, strict=True)
        ],
        "errors": {name: scores._asdict() for name, scores in fit.scores.items()},
        "seconds": fit.seconds,
        "versions": {
            "fedjax-admm": __version__,
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in ("jax", "jaxlib", "numpy")},
        },
    }


def _draw_curve(axes: Axes, fit: RatingsFit) -> None:
    curve, level = fit.verdict.curve, fit.scores[BIASES].test
    axes.axhline(level, label=f"{BIASES}, test", **_LEVEL)
    for name, style in (("test", _TEST), ("training", _TRAINING)):
        label = f"{FEDMC}, {name}"
        axes.plot(curve["round"], curve[f"{name}_error"], label=label, markersize=4, **style)
    axes.set_xlim(left=0)
    axes.set_xlabel("global round")


def _draw_grid(axes: Axes, choice: Choice) -> None:
    axes.axhline(choice.errors[BIASES], label=f"{BIASES}, validation", **_LEVEL)
    shown = np.where(np.isfinite(choice.grid_errors), choice.grid_errors, np.nan)
    label = f"{FEDMC}, validation"
    axes.plot(choice.grid, shown, label=label, markersize=5, **{**_TEST, "marker": "s"})
    axes.plot(
        choice.beta,
        choice.errors[FEDMC],
        "o",
        markersize=13,
        fillstyle="none",
        color="#D55E00",
        markeredgewidth=1.6,
        label=f"chosen: {choice.beta:.3g}",
    )
    axes.set_xscale("log")
    axes.set_xlabel("beta")


def _title(table: Ratings, fit: RatingsFit, options: Mapping[str, Any]) -> str:
    settings = fit.settings
    return (
        f"{Path(options['input']).name}: {len(table)} ratings, {table.num_users} users, "
        f"{table.num_items} items\n"
        f"{FEDMC} with beta {fit.choice.beta:.3g}, rank {settings.rank}, {settings.penalty}; "
        f"{settings.sampled} of {_number(settings.clients, 'client')} per round, seed "
        f"{settings.seed}"
    )


def _error(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" if np.isfinite(value) else "not finite"


def _span(counts: np.ndarray) -> str:
    low, high = counts.min(), counts.max()
    return f"{low}" if low == high else f"{low} to {high}"


def _number(amount: int | None, noun: str) -> str:
    return f"{amount} {noun}{'' if amount == 1 else 's'}"
