"""The observations of a network's nodes, read from a file: one row per node and time."""

import re
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
    rows: dict[str, int]  # "read", "incomplete", "without_past" (a node's first ones), "used"
    absent: tuple[str, ...]  # nodes that had no complete row
    order: str  # of the rows: that of the "file", or the form of their times
    ignored: tuple[str, ...] = ()  # other columns of the file

    @property
    def counts(self) -> np.ndarray:
        """Return the number of rows of every node, shape (nodes,)."""
        return np.array([len(values) for values in self.targets])

    def stacked(self) -> tuple[np.ndarray, np.ndarray]:
        """Return features (nodes, rows, dim) and targets (nodes, rows), padded with zeros."""
        x = np.zeros((len(self.nodes), self.counts.max(), len(self.columns)))
        y = np.zeros(x.shape[:2])
        for i, count in enumerate(self.counts):
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
    depth = max(lag for _, lag in lagged)
    if time is not None and depth:
        _check_times(table, node, owners[used], time, times[used], used)
    known, which = np.unique(owners[used], return_inverse=True)
    grouped = used[np.argsort(which, kind="stable")]
    parts = np.split(grouped, np.cumsum(np.bincount(which))[:-1])
    rows = dict(zip(known.tolist(), parts, strict=True))
    everyone = list(dict.fromkeys(owners[owners != ""].tolist()))
    names = [name for name in everyone if name in rows]
    x, y = [], []
    for name in names:
        own = values[rows[name]]
        length = max(len(own) - depth, 0)
        columns = [own[depth - lag :, numbers.index(column)][:length] for column, lag in lagged]
        x.append(np.stack([*columns, np.ones(length)], axis=1))
        y.append(own[depth:, numbers.index(target)])
    if len(names) == 1:
        told = f"{path} has one {owner} only, {names[0]!r} in column {node}"
        raise InputError(told, remedy="a network needs two or more")
    short = [(name, len(rows)) for name, rows in zip(names, y, strict=True) if len(rows) < at_least]
    if short:
        (first, number), *rest = short
        others = f" (and {len(rest)} more like it)" if rest else ""
        past = f" after the first {depth}" if depth else ""
        own = f"{number} complete row{'' if number == 1 else 's'}{past}"
        told = f"{path}: {owner} {first!r}{others} has {own}, but {purpose} at least {at_least}"
        raise InputError(told, remedy=f"add rows or remove the {owner}")
    left = sum(map(len, y))
    return Observations(
        nodes=tuple(names),
        features=tuple(x),
        targets=tuple(y),
        columns=(*(f"{name}[-{lag}]" if lag else name for name, lag in lagged), INTERCEPT),
        coordinates=_coordinates(table, places, owners, names, owner) if places else None,
        coordinate_names=tuple(places),
        rows={
            "read": len(table),
            "incomplete": int((~complete).sum()),
            "without_past": len(used) - left,
            "used": left,
        },
        absent=tuple(name for name in everyone if name not in rows),
        order=order,
        ignored=header.others(asked),
    )


def _parsed_features(text: str, header: Sequence[str]) -> list[tuple[str, int]]:
    """Turn "max_temp[-1],min_temp" into [("max_temp", 1), ("min_temp", 0)]."""
    features: list[tuple[str, int]] = []
    for part in (part.strip() for part in text.split(",")):
        column, lag, problem = part, 0, None
        bracket = None if part in header else re.fullmatch(r"(.+?)\s*\[([^\[\]]*)\]", part)
        if bracket:
            column, past = bracket[1], re.fullmatch(r"\s*-\s*([1-9]\d{0,5})\s*", bracket[2])
            lag = int(past[1]) if past else 0
            if not past:
                problem = f"must say how many rows back, as {column}[-1] does, but it says {part}"
        if not part:
            problem = f"must name columns separated by commas, such as a,b[-1], but it is {text!r}"
        elif (column, lag) in features:
            problem = f"names {part} twice; remove one of them"
        if problem is not None:
            raise InputError(problem, argument="features")
        features.append((column, lag))
    return features


def _check_times(table: Table, node: str, owners, time: str, times, rows) -> None:
    """Check that no node has two rows of one time: which one came before is not known."""
    seen: dict[tuple[str, float], int] = {}
    for *both, row in zip(owners.tolist(), times.tolist(), rows.tolist(), strict=True):
        first = seen.setdefault((both[0], both[1]), row)
        if first != row:
            first, row = sorted((first, row))
            earlier = table.place(first).rpartition(", ")[2]
            told = f"{table.place(row)}: {node} {both[0]!r} has a row of {time} "
            told += f"{str(table.texts(time)[row])!r} already in {earlier}"
            raise InputError(told, remedy="remove one of them, or the row before is not known")


def _coordinates(table: Table, columns, owners, names: list[str], owner: str) -> np.ndarray:
    """Return every node's coordinates, shape (nodes, 2): those of its first row that has them."""
    values = table.numbers(columns)
    there = np.flatnonzero(np.isfinite(values).all(1))[::-1]
    places = dict(zip(owners[there].tolist(), values[there], strict=True))
    lost = [name for name in names if name not in places]
    if lost:
        told = f"{table.header.path}: {owner} {lost[0]!r} has no {' and '.join(columns)} in any row"
        remedy = "fill them in or leave {coordinates} out"
        raise InputError(told, remedy=remedy, others=["coordinates"])
    return np.stack([places[name] for name in names])
