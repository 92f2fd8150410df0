"""The observations of a network's nodes, read from a CSV file: one row per node and time."""

import csv
import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedjax_admm._checks import InputError, listed

INTERCEPT = "intercept"
MISSING = frozenset({"", "na", "nan", "n/a", "null"})  # in a column of numbers, in any case


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

    Returns:
      The observations.

    Raises:
      InputError: the file cannot be read, a column is missing, a cell is not a number, or a node
        has too few rows; the sentence names line, column or node.
    """
    header, rows = _read_table(path)
    wanted = _parsed_features(path, features, header)
    if (target, 0) in wanted:
        raise InputError(
            f"--features must not name the target {target} itself; the value of the row before is "
            f"{target}[-1]."
        )
    places = [part.strip() for part in coordinates.split(",")] if coordinates else []
    if coordinates is not None and len(places) != 2:
        raise InputError(
            f"--coordinates must name two columns, such as longitude,latitude, but it is "
            f"{coordinates!r}."
        )
    numbers = list(dict.fromkeys([*(name for name, _ in wanted), target]))
    labels = [node] if time is None else [node, time]
    _check_columns(path, header, [*labels, *numbers, *places])
    table = _Table(path, header, rows)
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
    _check_nodes(path, node, names, [len(part) for part in y], at_least, depth)
    shown = [column if lag == 0 else f"{column}[-{lag}]" for column, lag in wanted]
    return Observations(
        nodes=tuple(names),
        features=tuple(x),
        targets=tuple(y),
        columns=(*shown, INTERCEPT) if intercept else tuple(shown),
        intercept=intercept,
        coordinates=_places(table, places, owners, names) if places else None,
        coordinate_names=tuple(places),
        rows_read=len(rows),
        rows_incomplete=int((~complete).sum()),
        rows_without_past=len(kept) - sum(len(part) for part in y),
        absent=tuple(name for name in everyone if name not in of_node),
        order=order,
    )


@dataclass(frozen=True)
class _Table:
    path: Path
    header: list[str]
    rows: list[tuple[int, list[str]]]  # line of the file, cells

    def texts(self, column: str) -> np.ndarray:
        """Return a column as stripped texts; a cell that is not there is empty."""
        place = self.header.index(column)
        return np.array([row[place].strip() if place < len(row) else "" for _, row in self.rows])

    def numbers(self, columns: Sequence[str]) -> np.ndarray:
        """Return columns as numbers, shape (rows, columns); NaN where a value is missing."""
        return np.array(
            [
                [self._number(line, column, text) for line, text in self._cells(column)]
                for column in columns
            ]
        ).T.reshape(-1, len(columns))

    def _cells(self, column: str):
        texts = self.texts(column)
        return ((line, text) for (line, _), text in zip(self.rows, texts, strict=True))

    def _number(self, line: int, column: str, text: str) -> float:
        if text.lower() in MISSING:
            return np.nan
        try:
            # Python reads 1_000 as a number; in a file it is a slip.
            value = float(text.replace("_", "?"))
        except ValueError:
            raise InputError(
                f"{self.path}, line {line}: {column} must be a number, but it is {str(text)!r}; "
                "repair it, or leave the cell empty."
            ) from None
        if not np.isfinite(value):
            raise InputError(
                f"{self.path}, line {line}: {column} must be finite, but it is {str(text)!r}; "
                "repair it, or leave the cell empty."
            )
        return value


def _read_table(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the names of the columns and the rows that are not blank, with their lines."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; check the name given with --input.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text; save it as a CSV file in UTF-8.") from None
    except (OSError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be read as a CSV file: {reason}.") from None
    if not rows:
        raise InputError(f"{path} is empty; its first line must name the columns.")
    header = [name.strip() for name in rows[0][1]]
    twice = sorted({name for name in header if name and header.count(name) > 1})
    if twice:
        raise InputError(f"{path} names the column {listed(twice)} twice; rename one of them.")
    for line, row in rows[1:]:
        if any(cell.strip() for cell in row[len(header) :]):
            raise InputError(
                f"{path}, line {line}: there are {len(row)} cells, but the first line names "
                f"{len(header)} columns; write decimal points, not decimal commas."
            )
    if len(rows) == 1:
        raise InputError(f"{path} has no row below its header; it needs one per node and time.")
    return header, rows[1:]


def _parsed_features(path: Path, text: str, header: Sequence[str]) -> list[tuple[str, int]]:
    """Turn "max_temp[-1],min_temp" into [("max_temp", 1), ("min_temp", 0)]."""
    wanted = []
    for part in (part.strip() for part in text.split(",")):
        if not part:
            raise InputError(
                f"--features must name columns separated by commas, such as a,b[-1], but it is "
                f"{text!r}."
            )
        column, lag = part, 0
        bracket = re.fullmatch(r"(.+?)\s*\[([^\[\]]*)\]", part)
        if bracket and part not in header:
            past = re.fullmatch(r"\s*-\s*([1-9]\d{0,5})\s*", bracket[2])
            if past is None:
                raise InputError(
                    f"--features: {part} must say how many rows back, as {bracket[1]}[-1] does."
                )
            column, lag = bracket[1], int(past[1])
        if (column, lag) in wanted:
            raise InputError(f"--features names {part} twice; remove one of them.")
        wanted.append((column, lag))
    return wanted


def _check_columns(path: Path, header: Sequence[str], used: Sequence[str]) -> None:
    missing = [name for name in dict.fromkeys(used) if name not in header]
    if missing:
        hint = ""
        if len(header) == 1 and re.search(r"[;\t]", header[0]):
            hint = "; separate them by commas"
        raise InputError(
            f"{path} has no column {listed(missing)}; its columns are {', '.join(header)}{hint}."
        )


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


def _check_times(table: _Table, owners, times, kept, node: str, time: str) -> None:
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


def _check_nodes(
    path: Path, node: str, names: list[str], counts: list[int], at_least: int, depth: int
) -> None:
    if len(names) == 1:
        raise InputError(
            f"{path} has one node only, {names[0]!r} in column {node}; a network needs two or more."
        )
    short = [i for i, count in enumerate(counts) if count < at_least]
    if short:
        others = f" (and {len(short) - 1} more like it)" if len(short) > 1 else ""
        past = f" after the first {depth}" if depth else ""
        rows = "row" if counts[short[0]] == 1 else "rows"
        raise InputError(
            f"{path}: node {names[short[0]]!r}{others} has {counts[short[0]]} complete {rows}"
            f"{past}, but training and validation need at least {at_least}; add rows or remove "
            "the node."
        )


def _places(table: _Table, columns: list[str], owners: np.ndarray, names: list[str]) -> np.ndarray:
    """Return every node's coordinates, shape (nodes, 2)."""
    values = table.numbers(columns)
    found: dict[str, np.ndarray] = {}
    for owner, place in zip(owners.tolist(), values, strict=True):
        if owner not in found and np.isfinite(place).all():
            found[owner] = place
    lost = [name for name in names if name not in found]
    if lost:
        raise InputError(
            f"{table.path}: node {lost[0]!r} has no {' and '.join(columns)} in any row; fill them "
            "in or leave --coordinates out."
        )
    return np.stack([found[name] for name in names])
