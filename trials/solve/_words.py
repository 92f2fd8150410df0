"""Words and rows that several families tell their results in.

The sentences of a family stand in `sentences.toml` of its folder; `say = sentences(__file__)` fills
them in: `say("biased", sure=3, names="a, b")`.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_admm._host._times import DAY_FIRST, MONTH_FIRST
from fedjax_admm.trials.solve._command import Rows
from fedjax_admm.trials.tables._observations import Observations


def sentences(file: str) -> Callable[..., str]:
    """Return what fills in the sentences that stand beside a module."""

    @cache
    def known() -> dict[str, str]:
        return tomllib.loads(Path(file).with_name("sentences.toml").read_text("utf-8"))

    return lambda name, /, *values, **named: known()[name].format(*values, **named)


def amount(number: int | None, noun: str) -> str:
    """Return "1 edge", "2 edges"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def span(counts: np.ndarray) -> str:
    """Return "3", or "3 to 5" where numbers differ."""
    low, high = counts.min(), counts.max()
    return f"{low}" if low == high else f"{low} to {high}"


def shortened(names: Sequence[str], most: int = 4) -> str:
    """Join names by commas; of the others, the number."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def ignored_told(columns: Sequence[str], what: str = "") -> list[str]:
    """Tell with which columns nothing was done, of the input or of what is named."""
    named = [name or "(without a name)" for name in columns]
    if not named:
        return []
    verb = ("Column", "is") if len(named) == 1 else ("Columns", "are")
    return [f"{verb[0]} {shortened(named, 8)}{what and f' of {what}'} {verb[1]} ignored."]


def rows_told(observations: Observations, what: str, owner: str) -> list[str]:
    """Tell how many rows were read and used, whose they are, and in which order."""
    parts = [f"{observations.rows_read} rows read"]
    if observations.rows_incomplete:
        parts.append(f"{observations.rows_incomplete} dropped for a missing value")
    if observations.rows_without_past:
        parts.append(f"{observations.rows_without_past} used only as the row before another")
    counts, absent = observations.counts, observations.absent
    lines = [f"{', '.join(parts)}; {counts.sum()}{what and f' {what}'} are left."]
    if absent:
        verb = "has" if len(absent) == 1 else "have"
        lines.append(f"{amount(len(absent), owner)} {verb} no complete row: {shortened(absent)}.")
    if observations.order in (DAY_FIRST, MONTH_FIRST):
        lines.append(f"Dates were read as {observations.order}; --time-format can tell another.")
    lines.append(
        f"{amount(len(counts), owner)} with {span(counts)} {what or 'rows'} each; coefficients: "
        f"{shortened(observations.columns, 8)}."
    )
    return lines + ignored_told(observations.ignored)


def model_rows(
    observations: Observations,
    models: np.ndarray,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> Rows:
    """Return a row per node: columns before its coefficients, these, and columns after them."""
    own = {*before, *after}
    names = [f"{name} (coefficient)" if name in own else name for name in observations.columns]
    values = zip(*before.values(), *np.transpose(models), *after.values(), strict=True)
    return [[*before, *names, *after], *values]
