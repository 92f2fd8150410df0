"""The observations of a network's nodes, read from a file: one row per node and time."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedjax_admm._checks import InputError, listed
from fedjax_admm._host._tables import Table, read_header, read_table

INTERCEPT = "intercept"


@dataclass(frozen=True)
class Observations:
    """The observations of every node, ready for regression."""

    nodes: tuple[str, ...]  # in the order in which they first appear
    features: tuple[np.ndarray, ...]  # per node, shape=(rows, dim); the last column is all 1
    targets: tuple[np.ndarray, ...]  # per node, shape=(rows,)
    columns: tuple[str, ...]  # names of the dim coefficients, the last one of the intercept
    coordinates: np.ndarray | None  # shape=(nodes, 2)
    coordinate_names: tuple[str, ...]
    rows_read: int
    rows_incomplete: int  # dropped because a used value was missing
    rows_without_past: int  # dropped because they are their node's first ones
    absent: tuple[str, ...]  # nodes that had no complete row
    order: str  # of the rows: that of the "file", or the form of their times
    ignored: tuple[str, ...] = ()  # other columns of the file

    @property
    def rows(self) -> dict[str, int]:
        """Return how many rows were read, left out and used."""
        return {
            "read": self.rows_read,
            "incomplete": self.rows_incomplete,
            "without_past": self.rows_without_past,
            "used": int(self.counts.sum()),
        }

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
    time_format: str | None = None,
    coordinates: str | None = None,
    at_least: int = 2,
    owner: str = "node",
    purpose: str = "training and validation need",
) -> Observations:
    """Read a file with a header and one row per node and time.

    Rows that lack a value in a used column (an empty cell, nan, NA, N/A or null) are dropped
    first. The others are put in order, node by node; `name[-1]` is then the value of a column in
    the node's previous row, whatever time has passed since, and a node's first row, which has
    none before it, is dropped. `name[-2]` goes back two rows, and so on.

    Args:
      path: the file.
      node: the column of the nodes' names.
      target: the column that is predicted.
      features: columns separated by commas, such as "max_temp[-1],min_temp".
      time: the column that orders a node's rows; the order of the file if None.
      time_format: the form of the times, as `Table.times` takes it; found from the column if None.
      coordinates: two columns "across,up" for a map; the first row of a node that has both counts.
      at_least: how many rows a node needs.
      owner: the word for a node in sentences on mistakes.
      purpose: the subject that needs so many rows, in these sentences.
    """
    header = read_header(path, "its first line must name the columns")
    lagged = _parsed_features(features, header.names)
    if (target, 0) in lagged:
        told = f"must not name the target {target} itself"
        remedy = f"the value of the row before is {target}[-1]"
        raise InputError(told, argument="features", remedy=remedy)
    places = [part.strip() for part in coordinates.split(",")] if coordinates else []
    if coordinates is not None and len(places) != 2:
        told = f"must name two columns, such as longitude,latitude, but it is {coordinates!r}"
        raise InputError(told, argument="coordinates")
    numbers = list(dict.fromkeys([*(name for name, _ in lagged), target]))
    labels = [node] if time is None else [node, time]
    asked = [*labels, *numbers, *places]
    header.require(asked)
    table = read_table(header, asked)
    if not len(table):
        raise InputError(f"{path} has no row below its header; it needs one per {owner} and time.")
    values, owners = table.numbers(numbers), table.texts(node)
    complete = np.isfinite(values).all(1) & (owners != "")
    times, order = np.zeros(len(table)), "file"
    if time is not None:
        times, order = table.times(time, time_format)
        complete &= np.isfinite(times)
    if not complete.any():
        columns = listed(dict.fromkeys([*labels, *numbers]))
        told = f"{path} has no row with a value in every used column ({columns})"
        raise InputError(told, remedy="fill in the missing ones")
    used = np.flatnonzero(complete)
    used = used[np.argsort(times[used], kind="stable")]
    if time is not None and any(lag for _, lag in lagged):
        _check_times(table, node, owners[used], time, times[used], used)

    rows: dict[str, list[int]] = defaultdict(list)
    for name, row in zip(owners[used].tolist(), used.tolist(), strict=True):
        rows[name].append(row)
    everyone = dict.fromkeys(owners[owners != ""].tolist())
    names = [name for name in everyone if name in rows]
    depth = max(lag for _, lag in lagged)
    x, y = [], []
    for name in names:
        own = values[rows[name]]
        length = max(len(own) - depth, 0)
        columns = [own[depth - lag :, numbers.index(column)][:length] for column, lag in lagged]
        x.append(np.stack([*columns, np.ones(length)], axis=1))
        y.append(own[depth:, numbers.index(target)])
    counts = dict(zip(names, map(len, y), strict=True))
    if len(names) == 1:
        told = f"{path} has one {owner} only, {names[0]!r} in column {node}"
        raise InputError(told, remedy="a network needs two or more")
    short = [name for name, count in counts.items() if count < at_least]
    if short:
        others = f" (and {len(short) - 1} more like it)" if len(short) > 1 else ""
        past = f" after the first {depth}" if depth else ""
        own = f"{counts[short[0]]} complete row{'' if counts[short[0]] == 1 else 's'}{past}"
        told = f"{path}: {owner} {short[0]!r}{others} has {own}, but {purpose} at least {at_least}"
        raise InputError(told, remedy=f"add rows or remove the {owner}")
    shown = [column if lag == 0 else f"{column}[-{lag}]" for column, lag in lagged]
    return Observations(
        nodes=tuple(names),
        features=tuple(x),
        targets=tuple(y),
        columns=(*shown, INTERCEPT),
        coordinates=_coordinates(table, places, owners, names, owner) if places else None,
        coordinate_names=tuple(places),
        rows_read=len(table),
        rows_incomplete=int((~complete).sum()),
        rows_without_past=len(used) - sum(counts.values()),
        absent=tuple(name for name in everyone if name not in rows),
        order=order,
        ignored=header.others(asked),
    )


def _parsed_features(text: str, header: Sequence[str]) -> list[tuple[str, int]]:
    """Turn "max_temp[-1],min_temp" into [("max_temp", 1), ("min_temp", 0)]."""
    features = []
    for part in (part.strip() for part in text.split(",")):
        column, lag, problem = part, 0, None
        bracket = re.fullmatch(r"(.+?)\s*\[([^\[\]]*)\]", part)
        if not part:
            problem = f"must name columns separated by commas, such as a,b[-1], but it is {text!r}"
        elif bracket and part not in header:
            column, past = bracket[1], re.fullmatch(r"\s*-\s*([1-9]\d{0,5})\s*", bracket[2])
            lag = int(past[1]) if past else 0
            if not past:
                problem = f"must say how many rows back, as {column}[-1] does, but it says {part}"
        if (column, lag) in features:
            problem = f"names {part} twice; remove one of them"
        if problem is not None:
            raise InputError(problem, argument="features")
        features.append((column, lag))
    return features


def _check_times(table: Table, node: str, owners, time: str, times, rows) -> None:
    """Check that no node has two rows of one time: which one came before is not known."""
    seen: dict[tuple[str, float], int] = {}
    written = table.texts(time)
    for owner, moment, row in zip(owners.tolist(), times.tolist(), rows.tolist(), strict=True):
        if (first := seen.setdefault((owner, moment), row)) != row:
            earlier = table.place(min(first, row)).rpartition(", ")[2]
            told = f"{table.place(max(first, row))}: {node} {owner!r} has a row of {time} "
            told += f"{str(written[row])!r} already in {earlier}"
            remedy = "remove one of them, or the row before is not known"
            raise InputError(told, remedy=remedy)


def _coordinates(table: Table, columns, owners, names: list[str], owner: str) -> np.ndarray:
    """Return every node's coordinates, shape (nodes, 2): those of its first row that has them."""
    values = table.numbers(columns)
    places: dict[str, np.ndarray] = {}
    for name, row in zip(owners.tolist(), values, strict=True):
        if np.isfinite(row).all():
            places.setdefault(name, row)
    for name in names:
        if name not in places:
            raise InputError(
                f"{table.header.path}: {owner} {name!r} has no {' and '.join(columns)} in any row; "
                "fill them in or leave {coordinates} out.",
                others=["coordinates"],
            )
    return np.stack([places[name] for name in names])
