"""Files as localisation kits write them: ranges over time, anchors, odometry and a true path.

Columns have usual names, in any order, with their unit behind: `time_s`, `range (cm)`, `x_m`,
`turn_deg`. Without a unit they are in seconds, metres and radians; times may be dates.
Places are x, y[, z] or latitude, longitude[, altitude] in degrees on WGS84; then all happens in the
plane that touches the ellipsoid at the middle of the anchors, x to the east and y to the north.
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm._host._tables import Table, read_header, read_table
from fedjax_admm._host._times import NUMBERS
from fedjax_admm.trials.tables._ranges import AXES

_LENGTHS = {"m": 1.0, "cm": 0.01, "mm": 0.001, "km": 1000.0, "ft": 0.3048}
_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_ANGLES = {"rad": 1.0, "deg": math.pi / 180}
_COLUMNS = {  # what is read -> the names that it may have, and its units
    "time": (("time", "timestamp", "t", "datetime"), _TIMES),
    "anchor": ([n + end for n in ("anchor", "tag", "beacon", "node") for end in ("", "_id")], {}),
    "range": (("range", "distance", "dist"), _LENGTHS),
    "sigma": (("sigma", "std", "deviation"), _LENGTHS),
    "distance": (("distance", "dist"), _LENGTHS),
    "turn": (("turn", "dtheta", "yaw"), _ANGLES),
    "x": (("x",), _LENGTHS),
    "y": (("y",), _LENGTHS),
    "z": (("z", "altitude", "alt", "height"), _LENGTHS),
    "latitude": (("latitude", "lat"), {"deg": 1.0}),
    "longitude": (("longitude", "lon", "lng"), {"deg": 1.0}),
}
_EQUATOR, _SQUARED_ECCENTRICITY = 6378137.0, 6.69437999014e-3  # of WGS84: metres, and a ratio


@dataclass(frozen=True)
class Plane:
    """The plane that touches the ellipsoid of WGS84 at a place."""

    latitude: float  # degrees
    longitude: float

    def metres(self) -> tuple[float, float]:
        """Return the metres of a degree to the east and of one to the north."""
        sine = math.sin(math.radians(self.latitude))
        bend = 1 - _SQUARED_ECCENTRICITY * sine**2
        across = _EQUATOR / math.sqrt(bend)
        up = across * (1 - _SQUARED_ECCENTRICITY) / bend
        east = across * math.cos(math.radians(self.latitude))
        return math.radians(east), math.radians(up)

    def places(self, latitude: np.ndarray, longitude: np.ndarray) -> np.ndarray:
        """Return x and y, (places, 2), metres, of places in degrees."""
        return np.stack([longitude - self.longitude, latitude - self.latitude], -1) * self.metres()

    def degrees(self, places: np.ndarray) -> np.ndarray:
        """Return latitudes and longitudes, (places, 2), of x and y."""
        east, north = (places / self.metres()).T
        return np.stack([self.latitude + north, self.longitude + east], -1)


@dataclass(frozen=True)
class KitLog:
    """What a kit measured, in the order of time; metres, seconds and radians."""

    names: tuple[str, ...]  # of the anchors
    anchors: np.ndarray  # shape=(anchors, dim)
    plane: Plane | None  # where places are latitudes and longitudes
    times: np.ndarray  # shape=(rows,)
    anchor: np.ndarray  # shape=(rows,), int
    ranges: np.ndarray  # shape=(rows,)
    sigma: np.ndarray | None  # shape=(rows,)
    lines: np.ndarray  # shape=(rows,): of the file of ranges
    missing: int  # ranges that were left out because a cell is empty or not positive
    unknown: tuple[str, ...]  # anchors that have ranges, but no place
    odometry: np.ndarray | None  # shape=(steps, 3): end of a step, its distance, its turn
    truth: np.ndarray | None  # shape=(times, 1 + dim): time and place
    ignored: tuple[str, ...] = ()  # other columns of the file of ranges
    silent: tuple[str, ...] = ()  # anchors that have a place, but no range, and were left out
    repeated: int = 0  # rows that were left out because they repeat another one

    @property
    def axes(self) -> tuple[str, ...]:
        """Return the names of the dim coordinates."""
        return AXES[: self.anchors.shape[1]]

    def windows(self, ranges: np.ndarray, width: int = 15) -> np.ndarray:
        """Return the ranges around each row by anchor, (rows, anchors, width), NaN elsewhere.

        Args:
          ranges: shape (rows,), metres, as measured or corrected.
          width: how many rows a window has.
        """
        rows = len(ranges)
        width = min(width, rows)
        first = np.clip(np.arange(rows) - width // 2, 0, rows - width)
        taken = first[:, None] + np.arange(width)
        found = np.full((rows, len(self.names), width), np.nan)
        places = np.arange(rows)[:, None], self.anchor[taken], np.arange(width)[None]
        found[places] = ranges[taken]
        return found


def read_kit(
    ranges: str | Path,
    anchors: str | Path,
    odometry: str | Path | None = None,
    truth: str | Path | None = None,
    *,
    signed: bool = False,
    form: str | None = None,
) -> KitLog:
    """Read the files of a kit.

    Args:
      ranges: time, anchor, range[, sigma], a row per range. Rows without a positive range, rows
        of anchors without a place, and rows that repeat another one are left out and counted.
      anchors: anchor and its place.
      odometry: time, distance and turn of each step, at the step's end; steps that end at one time
        are added.
      truth: time and place.
      signed: whether ranges may be negative or 0, as those of a clock of its own are.
      form: the form of all times, as `Table.times` takes it; found from each file if None.
    """
    table = _read(anchors, "anchor, x, y[, z]")
    names = table.texts(_column(table, "anchor")[0], complete=True).tolist()
    twice = next((each for each in names if names.count(each) > 1), None)
    if twice is not None:
        raise InputError(f"{anchors} has two rows of anchor {twice!r}; remove one of them.")
    plane, places = _places(table)
    dim = places.shape[1]
    if len(names) < dim:
        told = f"{anchors} has {len(names)} anchors, but {dim} dimensions need at least {dim}"
        raise InputError(told)
    table = _read(ranges, "time, anchor, range[, sigma]")
    measured = ["range", *(["sigma"] if _column(table, "sigma", optional=True) else [])]
    used = [_column(table, what)[0] for what in ("time", "anchor", *measured)]
    times, owners, numbers = _seconds(table, form), table.texts(used[1]), _scaled(table, *measured)
    whole = np.isfinite(times) & np.isfinite(numbers).all(1) & (owners != "")
    whole &= (numbers[:, signed:] > 0).all(1)  # of signed ranges sigma alone
    placed = np.isin(owners, names)
    kept = np.flatnonzero(whole & placed)
    if len(kept) < dim + 1:
        raise InputError(
            f"{ranges} has {len(kept)} ranges of anchors in {anchors}, but a path in {dim} "
            f"dimensions needs at least {dim + 1}; check the names of anchors in both."
        )
    kept = kept[np.argsort(times[kept], kind="stable")]
    anchor = np.array([names.index(each) for each in owners[kept].tolist()])
    rows = [times[kept], anchor, numbers[kept, 0]]
    _, first = np.unique(rows, axis=1, return_index=True)
    repeated, first = len(kept) - len(first), np.sort(first)
    kept = kept[first]
    heard, anchor = np.unique(anchor[first], return_inverse=True)
    steps = None if odometry is None else _odometry(odometry, form)
    true = None if truth is None else _truth(truth, plane, dim, form)
    for path, others in ((odometry, steps), (truth, true)):
        _check_clock(ranges, times[kept], path, others)
    return KitLog(
        names=tuple(names[each] for each in heard),
        anchors=places[heard],
        plane=plane,
        times=times[kept],
        anchor=anchor,
        ranges=numbers[kept, 0],
        sigma=numbers[kept, 1] if len(measured) > 1 else None,
        lines=table.lines[kept],
        missing=int((~whole).sum()),
        unknown=tuple(dict.fromkeys(owners[whole & ~placed].tolist())),
        odometry=steps,
        truth=true,
        ignored=table.header.others(used),
        silent=tuple(name for place, name in enumerate(names) if place not in heard),
        repeated=repeated,
    )


def _check_clock(
    ranges: str | Path, times: np.ndarray, path: str | Path | None, rows: np.ndarray | None
) -> None:
    """Check that the rows of another file are of the clock of the ranges."""
    if rows is not None and (rows[0, 0] > times[-1] or rows[-1, 0] < times[0]):
        told = f"the times of {path}, {rows[0, 0]:.15g} to {rows[-1, 0]:.15g} s, are not those of "
        told += f"{ranges}, {times[0]:.15g} to {times[-1]:.15g} s"
        raise InputError(told, remedy="name the unit of both columns, as time_ms")


def _scaled(table: Table, *whats: str, complete: bool = False) -> np.ndarray:
    """Return columns in metres, radians or degrees, shape (rows, columns)."""
    names, factors = zip(*(_column(table, what) for what in whats), strict=True)
    return table.numbers(names, complete=complete) * factors


def _seconds(table: Table, form: str | None) -> np.ndarray:
    """Return times as seconds, NaN where one is missing."""
    name, factor = _column(table, "time")
    times, found = table.times(name, form)
    return times * factor if found == NUMBERS else times


def _read(path: str | Path, form: str) -> Table:
    header = read_header(path, f"it must have the columns {form}", lower=True)
    table = read_table(header, header.names)
    if not len(table):
        raise InputError(f"{path} has no row below its header; it needs the columns {form}.")
    return table


def _column(table: Table, what: str, *, optional: bool = False) -> Any:
    """Return the name of a column and the factor that its unit means."""
    names, units = _COLUMNS[what]
    known = {"": 1.0, **units}
    for name in names:
        for column in table.header.names:
            plain = re.sub(r"[\s_-]+", "_", column)
            unit = re.fullmatch(rf"{name}(?:_?[\[(]|_)?(.*?)[\])]?", plain)
            if unit and unit[1] in known:
                table.header.require([column])
                return column, known[unit[1]]
    if optional:
        return None
    hint = f", perhaps with a unit as in {names[0]}_{next(iter(units))}" if units else ""
    columns = f"its columns are {', '.join(table.header.names)}"
    raise InputError(f"{table.header.path} has no column {names[0]}{hint}; {columns}")


def _places(table: Table, plane: Plane | None = None, *, complete: bool = True):
    """Return the plane and the places, shape (rows, dim)."""
    degrees = _column(table, "latitude", optional=True)
    whats = ["latitude", "longitude"] if degrees else ["x", "y"]
    whats += ["z"] if _column(table, "z", optional=True) else []
    numbers = _scaled(table, *whats, complete=complete)
    if not degrees:
        return None, numbers
    plane = plane or Plane(*numbers[:, :2].mean(0).tolist())
    return plane, np.column_stack([plane.places(*numbers[:, :2].T), numbers[:, 2:]])


def _odometry(path: str | Path, form: str | None) -> np.ndarray:
    table = _read(path, "time, distance, turn")
    steps = np.column_stack([_seconds(table, form), _scaled(table, "distance", "turn")])
    steps = steps[np.isfinite(steps).all(1)]
    ends, which = np.unique(steps[:, 0], return_inverse=True)
    return _increasing(path, ends, [np.bincount(which, column) for column in steps[:, 1:].T])


def _truth(path: str | Path, plane: Plane | None, dim: int, form: str | None) -> np.ndarray:
    table = _read(path, "time, x, y[, z]")
    own, places = _places(table, plane, complete=False)
    if places.shape[1] < dim or (own is None) != (plane is None):
        raise InputError(f"{path} must have places of the same columns as the file of anchors.")
    rows = np.column_stack([_seconds(table, form), places[:, :dim]])
    rows = rows[np.isfinite(rows).all(1)]
    times, first = np.unique(rows[:, 0], return_index=True)
    return _increasing(path, times, rows[first, 1:].T)


def _increasing(path: str | Path, times: np.ndarray, columns: Any) -> np.ndarray:
    """Return times in ascending order and what belongs to them as rows."""
    if len(times) < 2:
        raise InputError(f"{path} has {len(times)} time, but at least 2 are needed.")
    return np.stack([times, *columns], -1)
