"""The observations of a network's nodes, read from a CSV file: one row per node and time."""

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedjax_admm._checks import InputError, listed
from fedjax_admm.trials.tables._csv import MISSING, Table, read_csv

INTERCEPT = "intercept"


@dataclass(frozen=True)
class Observations:
    """What every node observed, ready for regression."""

    nodes: tuple[str, ...]  # in the order in which they first appear
    features: tuple[np.ndarray, ...]  # per node, shape=(rows, dim); the last column may be all 1
    targets: tuple[np.ndarray, ...]  # per node, shape=(rows,)
    columns: tuple[str, ...]  # names of the dim coefficients
    intercept: bool  # whether the last column is the constant 1
    coordinates: np.ndarray | None  # shape=(nodes, 2)
    coordinate_names: tuple[str, ...]
    rows_read: int
    rows_incomplete: int  # dropped because a used value was missing
    rows_without_past: int  # dropped because they are their node's first ones
    absent: tuple[str, ...]  # nodes that had no complete row
    order: str  # how rows were ordered: "file", "numbers", "dates" or "text"

    @property
    def counts(self) -> np.ndarray:
        """Return the number of rows of every node, shape (nodes,)."""
        return np.array([len(values) for values in self.targets])

    def stacked(self) -> tuple[np.ndarray, np.ndarray]:
        """Return features (nodes, rows, dim) and targets (nodes, rows), padded with zeros."""
        counts = self.counts
        x = np.zeros((len(self.nodes), counts.max(), len(self.columns)))
        y = np.zeros(x.shape[:2])
        for i, count in enumerate(counts):
            x[i, :count], y[i, :count] = self.features[i], self.targets[i]
        return x, y


def read_observations(
    path: Path,
    *,
    node: str,
    target: str,
    features: str,
    time: str | None = None,
    intercept: bool = True,
    coordinates: str | None = None,
    at_least: int = 2,
    owner: str = "node",
    purpose: str = "training and validation need",
) -> Observations:
    """Read a CSV file with a header and one row per node and time.

    Rows that lack a value in a used column (an empty cell, nan, NA, N/A or null) are dropped
    first. The others are put in order, node by node; `name[-1]` is then the value of a column in
    the node's previous row, whatever time has passed since, and a node's first row, which has
    none before it, is dropped. `name[-2]` goes back two rows, and so on.

    Args:
      path: the file.
      node: the column that says whose row it is; any text.
      target: the column that is predicted.
      features: columns separated by commas, such as "max_temp[-1],min_temp".
      time: the column that orders a node's rows, as numbers, as ISO dates or else as text; the
        order of the file if None.
      intercept: append the constant feature 1.
      coordinates: two columns "across,up" for a map; the first row of a node that has both counts.
      at_least: how many rows a node needs.
      owner: what a node is called in sentences on mistakes.
      purpose: who needs so many rows, in these sentences.

    Returns:
      The observations.

    Raises:
      InputError: the file cannot be read, a column is missing, a cell is not a number, or a node
        has too few rows; the sentence names line, column or node.
    """
    table = read_csv(path, "its first line must name the columns")
    if not table.rows:
        raise InputError(f"{path} has no row below its header; it needs one per {owner} and time.")
    wanted = _parsed_features(features, table.header)
    if (target, 0) in wanted:
        raise InputError(
            f"must not name the target {target} itself",
            argument="features",
            value=features,
            remedy=f"the value of the row before is {target}[-1]",
        )
    places = [part.strip() for part in coordinates.split(",")] if coordinates else []
    if coordinates is not None and len(places) != 2:
        raise InputError(
            f"must name two columns, such as longitude,latitude, but it is {coordinates!r}",
            argument="coordinates",
            value=coordinates,
        )
    numbers = list(dict.fromkeys([*(name for name, _ in wanted), target]))
    labels = [node] if time is None else [node, time]
    table.require([*labels, *numbers, *places])
    values = table.numbers(numbers)
    owners = table.texts(node)
    complete = np.isfinite(values).all(1) & (owners != "")
    times = table.texts(node if time is None else time)
    if time is not None:
        complete &= ~np.isin(np.char.lower(times), list(MISSING))
    if not complete.any():
        raise InputError(
            f"{path} has no row with a value in every used column "
            f"({listed(dict.fromkeys([*labels, *numbers]))}); fill in the missing ones."
        )
    kept = np.flatnonzero(complete)
    order = "file"
    if time is not None:
        keys, order = _ordering(times[kept])
        kept = kept[np.argsort(keys, kind="stable")]
        if any(lag for _, lag in wanted):
            _check_times(table, owners[kept], times[kept], kept, node, time)

    everyone = list(dict.fromkeys(owners[owners != ""].tolist()))
    of_node = _grouped(owners[kept], kept)
    depth = max(lag for _, lag in wanted)
    x, y, names = [], [], []
    for name in everyone:
        if name not in of_node:
            continue
        own = values[of_node[name]]
        length = max(len(own) - depth, 0)
        used = [own[depth - lag :, numbers.index(column)][:length] for column, lag in wanted]
        used += [np.ones(length)] if intercept else []
        x.append(np.stack(used, axis=1))
        y.append(own[depth:, numbers.index(target)])
        names.append(name)
    _check_counts(
        path, node, dict(zip(names, map(len, y), strict=True)), depth, at_least, owner, purpose
    )
    shown = [column if lag == 0 else f"{column}[-{lag}]" for column, lag in wanted]
    return Observations(
        nodes=tuple(names),
        features=tuple(x),
        targets=tuple(y),
        columns=(*shown, INTERCEPT) if intercept else tuple(shown),
        intercept=intercept,
        coordinates=_places(table, places, owners, names, owner) if places else None,
        coordinate_names=tuple(places),
        rows_read=len(table.rows),
        rows_incomplete=int((~complete).sum()),
        rows_without_past=len(kept) - sum(len(part) for part in y),
        absent=tuple(name for name in everyone if name not in of_node),
        order=order,
    )


def _parsed_features(text: str, header: Sequence[str]) -> list[tuple[str, int]]:
    """Turn "max_temp[-1],min_temp" into [("max_temp", 1), ("min_temp", 0)]."""
    wanted = []
    for part in (part.strip() for part in text.split(",")):
        if not part:
            raise InputError(
                f"must name columns separated by commas, such as a,b[-1], but it is {text!r}",
                argument="features",
                value=text,
            )
        column, lag = part, 0
        bracket = re.fullmatch(r"(.+?)\s*\[([^\[\]]*)\]", part)
        if bracket and part not in header:
            past = re.fullmatch(r"\s*-\s*([1-9]\d{0,5})\s*", bracket[2])
            if past is None:
                raise InputError(
                    f"must say how many rows back, as {bracket[1]}[-1] does, but it says {part}",
                    argument="features",
                    value=text,
                )
            column, lag = bracket[1], int(past[1])
        if (column, lag) in wanted:
            raise InputError(
                f"names {part} twice", argument="features", value=text, remedy="remove one of them"
            )
        wanted.append((column, lag))
    return wanted


def _ordering(texts: np.ndarray) -> tuple[np.ndarray, str]:
    """Return keys that sort like the texts' meaning, and what they were taken for."""
    try:
        return _finite([float(text) for text in texts]), "numbers"
    except ValueError:
        pass
    try:
        dates = [datetime.datetime.fromisoformat(text) for text in texts]
        ranks = {date: rank for rank, date in enumerate(sorted(set(dates)))}
        return np.array([ranks[date] for date in dates]), "dates"
    except (ValueError, TypeError):  # TypeError: some have a time zone, some have none
        return texts, "text"


def _finite(values: list[float]) -> np.ndarray:
    if not np.isfinite(values).all():
        raise ValueError("not finite")
    return np.array(values)


def _check_times(table: Table, owners, times, kept, node: str, time: str) -> None:
    """Check that no node has two rows of one time: which one came before is not known."""
    seen: dict[tuple[str, str], int] = {}
    for owner, moment, place in zip(owners.tolist(), times.tolist(), kept.tolist(), strict=True):
        line = table.rows[place][0]
        if (owner, moment) in seen:
            first, second = sorted((seen[owner, moment], line))
            raise InputError(
                f"{table.path}, line {second}: {node} {owner!r} has a row of {time} {moment!r} "
                f"already in line {first}; remove one of them, or the row before is not known."
            )
        seen[owner, moment] = line


def _grouped(owners: np.ndarray, places: np.ndarray) -> dict[str, np.ndarray]:
    """Return the places of every owner's rows, in their order."""
    groups: dict[str, list[int]] = {}
    for owner, place in zip(owners.tolist(), places.tolist(), strict=True):
        groups.setdefault(owner, []).append(place)
    return {owner: np.array(group) for owner, group in groups.items()}


def _check_counts(
    path: Path,
    node: str,
    counts: dict[str, int],
    depth: int,
    at_least: int,
    owner: str,
    purpose: str,
) -> None:
    if len(counts) == 1:
        raise InputError(
            f"{path} has one {owner} only, {next(iter(counts))!r} in column {node}; a network "
            "needs two or more."
        )
    short = [name for name, count in counts.items() if count < at_least]
    if short:
        others = f" (and {len(short) - 1} more like it)" if len(short) > 1 else ""
        past = f" after the first {depth}" if depth else ""
        rows = "row" if counts[short[0]] == 1 else "rows"
        raise InputError(
            f"{path}: {owner} {short[0]!r}{others} has {counts[short[0]]} complete {rows}{past}, "
            f"but {purpose} at least {at_least}; add rows or remove the {owner}."
        )


def _places(
    table: Table, columns: list[str], owners: np.ndarray, names: list[str], called: str
) -> np.ndarray:
    """Return every node's coordinates, shape (nodes, 2)."""
    values = table.numbers(columns)
    found: dict[str, np.ndarray] = {}
    for owner, place in zip(owners.tolist(), values, strict=True):
        if owner not in found and np.isfinite(place).all():
            found[owner] = place
    lost = [name for name in names if name not in found]
    if lost:
        raise InputError(
            f"{table.path}: {called} {lost[0]!r} has no {' and '.join(columns)} in any row; fill "
            "them in or leave {coordinates} out.",
            others=["coordinates"],
        )
    return np.stack([found[name] for name in names])
