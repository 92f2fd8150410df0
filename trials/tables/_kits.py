"""Files as localisation kits write them: ranges over time, anchors, odometry and a true path.

Columns have usual names, in any order, with their unit behind: `time_s`, `range (cm)`, `x_m`,
`turn_deg`. Without a unit they are in seconds, metres and radians; times may be dates.
Places are x, y[, z] or latitude, longitude[, altitude] in degrees on WGS84; then all happens in the
plane that touches the ellipsoid at the middle of the anchors, x to the east and y to the north.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedjax_admm._checks import InputError, listed
from fedjax_admm._host._tables import Table, read_header, read_table
from fedjax_admm._host._times import NUMBERS
from fedjax_admm.trials.tables._columns import AXES, COLUMNS

_DAY = 86_400.0  # seconds
_FAR, _NEAR = 30.0, 0.1  # ranges beyond these shares of anchors' distances are in another unit
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
        east = _turned(longitude - self.longitude)
        return np.stack([east, latitude - self.latitude], -1) * self.metres()

    def degrees(self, places: np.ndarray) -> np.ndarray:
        """Return latitudes and longitudes, (places, 2), of x and y."""
        east, north = (places / self.metres()).T
        return np.stack([self.latitude + north, _turned(self.longitude + east)], -1)


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
    midnight: bool = False  # whether times of the day pass midnight, where a day was added

    @property
    def axes(self) -> tuple[str, ...]:
        """Return the names of the dim coordinates."""
        return AXES[: self.anchors.shape[1]]

    def windows(
        self, ranges: np.ndarray, width: int = 15, rows: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the ranges around each row by anchor, (rows, anchors, width), NaN elsewhere.

        Args:
          ranges: shape (rows,), metres, as measured or corrected.
          width: how many rows a window has.
          rows: those whose windows are returned; all if None.
        """
        rows = np.arange(len(ranges)) if rows is None else rows
        width = min(width, len(ranges))
        first = np.clip(rows - width // 2, 0, len(ranges) - width)
        taken = first[:, None] + np.arange(width)
        found = np.full((len(rows), len(self.names), width), np.nan)
        places = np.arange(len(rows))[:, None], self.anchor[taken], np.arange(width)[None]
        found[places] = ranges[taken]
        return found


def read_kit(
    ranges: str | Path | Sequence[str | Path],
    anchors: str | Path | None,
    odometry: str | Path | None = None,
    truth: str | Path | None = None,
    *,
    signed: bool = False,
    form: str | None = None,
    named: Mapping[str, str] | None = None,
    tag: str | None = None,
) -> KitLog:
    """Read the files of a kit.

    Args:
      ranges: time, anchor, range[, sigma], a row per range; or time and a column per anchor, called
        after it; or several files, of which one without a column of anchors has the ranges of the
        anchor whose name its own name ends with. Rows without a positive range, rows of anchors
        without a place, and rows that repeat another one are left out and counted.
      anchors: anchor and its place; where None, the ranges have these in columns anchor_x, ...
      odometry: time, distance and turn of each step, at the step's end; steps that end at one time
        are added.
      truth: time and place.
      signed: whether ranges may be negative or 0, as those of a clock of its own are.
      form: the form of all times, as `Table.times` takes it; found from each file if None.
      named: what is read -> its column, perhaps with a unit as in `dist[mm]`, in all files that
        have it.
      tag: whose ranges are read, where the file has those of several.
    """
    named, paths = dict(named or {}), [ranges] if isinstance(ranges, str | Path) else list(ranges)
    whats, several = "time, anchor, range[, sigma]", len(paths) > 1
    logs = [_File.read(path, whats, named, empty=several) for path in paths]
    if anchors is None:
        names, plane, places = _anchors(logs, "anchor_")
    else:
        names, plane, places = _anchors([_of_anchors(anchors, named)], "")
    dim = places.shape[1]
    first = logs[0].table.header.path
    if len(names) < dim:
        told = f"{anchors or first} has {len(names)} anchors, but {dim} dimensions need at least "
        raise InputError(f"{told}{dim}")
    rows = _joined([_measured(each, names, form, tag) for each in logs])
    times, midnight = _unwrapped(rows.times, rows.owners)
    lengths = rows.ranges if rows.sigmas is None else np.minimum(rows.ranges, rows.sigmas)
    if signed:
        lengths = np.ones_like(rows.ranges) if rows.sigmas is None else rows.sigmas
    whole = np.isfinite(times) & np.isfinite(rows.ranges) & (rows.owners != "") & (lengths > 0)
    placed = np.isin(rows.owners, names)
    kept = np.flatnonzero(whole & placed)
    if len(kept) < dim + 1:
        raise _too_few(first, anchors, dim, len(kept), rows, placed)
    kept = kept[np.argsort(times[kept], kind="stable")]
    anchor = np.array([names.index(each) for each in rows.owners[kept].tolist()])
    parts = [times[kept], anchor, rows.ranges[kept]]
    _, unlike = np.unique(parts, axis=1, return_index=True)
    repeated, unlike = len(kept) - len(unlike), np.sort(unlike)
    kept = kept[unlike]
    heard, anchor = np.unique(anchor[unlike], return_inverse=True)
    if not signed:
        _check_lengths(first, places[heard], rows.ranges[kept])
    steps = None if odometry is None else _odometry(odometry, named, form)
    true = None if truth is None else _truth(truth, plane, dim, named, form)
    if named:
        lost, column = next(iter(named.items()))
        told = f"no file has the column {column}, which {{map}} names for {lost}"
        raise InputError(told, remedy="check its name", others=["map"])
    for path, others in ((odometry, steps), (truth, true)):
        _check_clock(first, times[kept], path, others)
    return KitLog(
        names=tuple(names[each] for each in heard),
        anchors=places[heard],
        plane=plane,
        times=times[kept],
        anchor=anchor,
        ranges=rows.ranges[kept],
        sigma=None if rows.sigmas is None else rows.sigmas[kept],
        lines=rows.lines[kept],
        missing=int((~whole).sum()),
        unknown=tuple(dict.fromkeys(rows.owners[whole & ~placed].tolist())),
        odometry=steps,
        truth=true,
        ignored=rows.ignored,
        silent=tuple(name for place, name in enumerate(names) if place not in heard),
        repeated=repeated,
        midnight=midnight,
    )


def columns_of(text: str) -> dict[str, str]:
    """Return what `"time=field.stamp,range=dist[mm]"` names."""
    pairs = [part.partition("=")[::2] for part in text.split(",") if text]
    found = {what.strip(): column.strip() for what, column in pairs}
    wrong = [what for what, column in found.items() if what not in COLUMNS or not column]
    if wrong:
        told = f"must read as in time=stamp,range=dist[mm], but {wrong[0]!r} is none of "
        raise InputError(told + ", ".join(COLUMNS), argument="map", value=text)
    return found


def holds_anchors(path: Path, named: Mapping[str, str]) -> bool:
    """Return whether the rows of a file have the places of their anchors."""
    header = read_header(path, "it must have the columns time, anchor, range")
    places = ("anchor_x", "anchor_latitude")
    return any(what in named or header.find(*COLUMNS[what]) for what in places)


@dataclass(frozen=True)
class _File:
    """A file of a kit, and what a person says of its columns."""

    table: Table
    named: dict[str, str]  # those of this file
    form: str  # what columns there should be

    @classmethod
    def read(
        cls, path: str | Path, form: str, named: dict[str, str], *, empty: bool = False
    ) -> "_File":
        """Read all columns, and take those that this file has out of what is named."""
        header = read_header(path, f"it must have the columns {form}")
        table = read_table(header, header.names)
        if not (len(table) or empty):
            raise InputError(f"{path} has no row below its header; it needs the columns {form}.")
        own = {w: c for w, c in named.items() if {c, _unit(c)[0]} & {*header.names}}
        for what in own:
            del named[what]
        return cls(table, own, form)

    def column(self, what: str, *, optional: bool = False) -> Any:
        """Return the name of a column and the factor that its unit means."""
        header, (names, units) = self.table.header, COLUMNS[what]
        if what in self.named:
            column = self.named[what]
            plain, unit = (column, "") if column in header.names else _unit(column)
            if unit and unit not in units:
                told = f"{unit!r} is no unit of {what}; it may be {', '.join(units) or 'none'}"
                raise InputError(told, argument="map", value=column)
            found = [(plain, units.get(unit, 1.0))]
        else:
            found = header.find(names, units)
        if found:
            header.require([found[0][0]])
            return found[0]
        if optional:
            return None
        hint = f", perhaps with a unit as in {what}_{next(iter(units))}" if units else ""
        columns = f"its columns are {', '.join(header.names)}; name one by {{map}} {what}=COLUMN"
        told = f"{header.path} has no column {what}{hint}; {columns}"
        raise InputError(told, others=["map"])

    def scaled(self, *whats: str, complete: bool = False) -> np.ndarray:
        """Return columns in metres, radians or degrees, shape (rows, columns)."""
        names, factors = zip(*(self.column(what) for what in whats), strict=True)
        return self.table.numbers(names, complete=complete) * factors

    def seconds(self, form: str | None) -> np.ndarray:
        """Return times as seconds, NaN where one is missing."""
        name, factor = self.column("time")
        times, found = self.table.times(name, form)
        return times * factor if found == NUMBERS else times

    def places(self, plane: Plane | None = None, *, own: str = "", complete: bool = True):
        """Return the plane and the places, shape (rows, dim)."""
        degrees = self.column(f"{own}latitude", optional=True)
        whats = [f"{own}{each}" for each in (("latitude", "longitude") if degrees else ("x", "y"))]
        whats += [f"{own}z"] if self.column(f"{own}z", optional=True) else []
        numbers = self.scaled(*whats, complete=complete)
        if not degrees:
            return None, numbers
        far = np.abs(numbers[:, :2]) > (90, 360)
        if far.any():
            row, place = np.argwhere(far)[0]
            told = f"{self.table.place(row)}: {whats[place]} is {numbers[row, place]:g} degrees"
            raise InputError(told, remedy="check whether latitude and longitude are exchanged")
        if plane is None:
            latitude, longitude = numbers[:, 0].mean(), numbers[0, 1]
            middle = longitude + _turned(numbers[:, 1] - longitude).mean()
            plane = Plane(float(latitude), float(_turned(middle)))
        return plane, np.column_stack([plane.places(*numbers[:, :2].T), numbers[:, 2:]])


class _Rows(NamedTuple):
    """The ranges of a file, in its order."""

    times: np.ndarray  # shape=(rows,)
    owners: np.ndarray  # shape=(rows,): names of anchors
    ranges: np.ndarray  # shape=(rows,)
    sigmas: np.ndarray | None  # shape=(rows,)
    lines: np.ndarray  # shape=(rows,)
    ignored: tuple[str, ...]


def _measured(file: _File, names: list[str], form: str | None, tag: str | None) -> _Rows:
    """Return the ranges of a file, whatever its form."""
    table, header = file.table, file.table.header
    times, used = file.seconds(form), [file.column("time")[0]]
    owner = file.column("anchor", optional=True)
    beside = {name.lower(): name for name in names}
    wide = [each for each in header.names if each.lower() in beside]
    if owner is None and not file.column("range", optional=True) and wide:
        header.require(wide)
        ranges, each = table.numbers(wide), np.array([beside[name.lower()] for name in wide])
        row, column = np.nonzero(np.isfinite(ranges))
        rest = header.others([*used, *wide])
        return _Rows(times[row], each[column], ranges[row, column], None, table.lines[row], rest)
    if owner is not None:
        owners = table.texts(owner[0])
        used.append(owner[0])
    else:
        stem = Path(header.path).stem.lower()
        ends = [name for name in names if re.search(rf"(^|[\W_]){re.escape(name.lower())}$", stem)]
        if not ends:
            file.column("anchor")  # says that there is none
        owners = np.full(len(table), max(ends, key=len))
    measured = ["range", *(["sigma"] if file.column("sigma", optional=True) else [])]
    numbers, used = file.scaled(*measured), [*used, *(file.column(each)[0] for each in measured)]
    kept, whose = np.arange(len(table)), file.column("tag", optional=True)
    if whose is not None and whose[0] not in used:
        tags = table.texts(whose[0])
        known = sorted({*tags.tolist()} - {""})
        if (tag is None and len(known) > 1) or (tag is not None and tag not in known):
            told = f"{header.path} has the ranges of the tags {listed(known)}"
            raise InputError(told, remedy="choose one by {tag}", others=["tag"])
        kept, used = np.flatnonzero((tags == tag) | (tag is None)), [*used, whose[0]]
    elif tag is not None:
        raise InputError(f"{header.path} has no column tag", argument="tag", value=tag)
    sigmas = numbers[kept, 1] if len(measured) > 1 else None
    parts = times[kept], owners[kept], numbers[kept, 0], sigmas, table.lines[kept]
    return _Rows(*parts, header.others(used))


def _joined(parts: list[_Rows]) -> _Rows:
    """Return the ranges of several files; they all tell deviations, or none does."""
    times, owners, ranges, sigmas, lines, ignored = zip(*parts, strict=True)
    known = all(each is not None for each in sigmas)
    return _Rows(
        times=np.concatenate(times),
        owners=np.concatenate(owners),
        ranges=np.concatenate(ranges),
        sigmas=np.concatenate(sigmas) if known else None,
        lines=np.concatenate(lines),
        ignored=tuple(dict.fromkeys(name for names in ignored for name in names)),
    )


def _of_anchors(path: str | Path, named: dict[str, str]) -> _File:
    file = _File.read(path, "anchor, x, y[, z]", named)
    names = file.table.texts(file.column("anchor")[0], complete=True).tolist()
    twice = next((each for each in names if names.count(each) > 1), None)
    if twice is not None:
        raise InputError(f"{path} has two rows of anchor {twice!r}; remove one of them.")
    return file


def _anchors(files: list[_File], own: str) -> tuple[list[str], Plane | None, np.ndarray]:
    """Return the names of the anchors, the plane, and their places."""
    names, places, plane = [], [], None
    for file in files:
        found, where = file.places(plane, own=own)
        plane = plane or found
        names += file.table.texts(file.column("anchor")[0], complete=True).tolist()
        places.append(where)
    known, every, whose = list(dict.fromkeys(names)), np.concatenate(places), np.array(names)
    first = np.stack([every[np.argmax(whose == name)] for name in known])
    moved = ~np.isclose(every, first[[known.index(name) for name in names]], atol=1e-3).all(1)
    if moved.any():
        told = f"anchor {names[np.argmax(moved)]!r} has several places in its rows"
        raise InputError(told, remedy="give the anchors that stand still in a file with {anchors}")
    return known, plane, first


def _too_few(path, anchors, dim: int, number: int, rows: _Rows, placed: np.ndarray) -> InputError:
    """Return why too few ranges can be used."""
    told = f"{path} has {number} ranges of anchors in {anchors or path}, but a path in {dim} "
    told += f"dimensions needs at least {dim + 1}"
    if placed.any():
        seen = rows.ranges[placed & np.isfinite(rows.ranges)]
        if seen.size and (seen <= 0).mean() > 0.5:
            told += f": its ranges are {seen.min():g} to {seen.max():g}, as signal strengths are"
            return InputError(told, remedy="name a column of lengths")
        return InputError(told, remedy="fill in times and ranges")
    whose = listed(list(dict.fromkeys(rows.owners.tolist()))[:4])
    return InputError(told, remedy=f"check the names of anchors in both; the ranges are of {whose}")


def _check_lengths(path: str | Path, anchors: np.ndarray, ranges: np.ndarray) -> None:
    """Check that ranges are of the size of the anchors' distances."""
    apart = np.linalg.norm(anchors[:, None] - anchors[None], axis=-1)
    typical, unlike = float(np.median(ranges)), apart[apart > 0]
    if unlike.size and not _NEAR * unlike.min() < typical < _FAR * unlike.max():
        told = f"the ranges of {path} are {typical:.4g} m in the median, and its anchors are "
        told += f"{unlike.min():.4g} to {unlike.max():.4g} m apart"
        remedy = "name the units, as in range_mm and x_cm, or by {map} range=range[mm]"
        raise InputError(told, remedy=remedy, others=["map"])


def _unwrapped(times: np.ndarray, owners: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return times of the day that pass midnight once with a day added, and whether they do.

    They fall by half a day or more in one row of the file, and one anchor has ranges on both sides
    of it: files that are in order by anchor fall as well.
    """
    known = np.flatnonzero(np.isfinite(times))
    falls = np.flatnonzero(np.diff(times[known]) < -_DAY / 2)
    if len(falls) != 1 or np.ptp(times[known]) > _DAY:
        return times, False
    after = known[falls[0] + 1 :]
    if not {*owners[known[: falls[0] + 1]].tolist()} & {*owners[after].tolist()}:
        return times, False
    moved = times.copy()
    moved[after] += _DAY
    return moved, True


def _check_clock(
    ranges: str | Path, times: np.ndarray, path: str | Path | None, rows: np.ndarray | None
) -> None:
    """Check that the rows of another file are of the clock of the ranges."""
    if rows is not None and (rows[0, 0] > times[-1] or rows[-1, 0] < times[0]):
        told = f"the times of {path}, {rows[0, 0]:.15g} to {rows[-1, 0]:.15g} s, are not those of "
        told += f"{ranges}, {times[0]:.15g} to {times[-1]:.15g} s"
        apart = max(rows[0, 0] - times[-1], times[0] - rows[-1, 0])
        remedy = "name the unit of both columns, as time_ms"
        if apart < _DAY and times[0] > 1000 * _DAY:  # since 1970
            remedy = f"they are {apart / 3600:.3g} hours apart, as local times and UTC may be: "
            remedy += "write the zone behind dates, as +02:00"
        raise InputError(told, remedy=remedy)


def _unit(column: str) -> tuple[str, str]:
    """Return a column and the unit in brackets behind it."""
    found = re.fullmatch(r"(.*?)\s*\[(\w+)\]", column)
    return (found[1], found[2]) if found else (column, "")


def _turned(degrees: Any) -> Any:
    """Return angles between -180 and 180 degrees."""
    return (degrees + 180) % 360 - 180


def _odometry(path: str | Path, named: dict[str, str], form: str | None) -> np.ndarray:
    file = _File.read(path, "time, distance, turn", named)
    steps = np.column_stack([file.seconds(form), file.scaled("distance", "turn")])
    steps = steps[np.isfinite(steps).all(1)]
    ends, which = np.unique(steps[:, 0], return_inverse=True)
    return _increasing(path, ends, [np.bincount(which, column) for column in steps[:, 1:].T])


def _truth(
    path: str | Path, plane: Plane | None, dim: int, named: dict[str, str], form: str | None
) -> np.ndarray:
    file = _File.read(path, "time, x, y[, z]", named)
    own, places = file.places(plane, complete=False)
    if places.shape[1] < dim or (own is None) != (plane is None):
        raise InputError(f"{path} must have places of the same columns as the file of anchors.")
    rows = np.column_stack([file.seconds(form), places[:, :dim]])
    rows = rows[np.isfinite(rows).all(1)]
    times, first = np.unique(rows[:, 0], return_index=True)
    return _increasing(path, times, rows[first, 1:].T)


def _increasing(path: str | Path, times: np.ndarray, columns: Any) -> np.ndarray:
    """Return times in ascending order and what belongs to them as rows."""
    if len(times) < 2:
        raise InputError(f"{path} has {len(times)} time, but at least 2 are needed.")
    return np.stack([times, *columns], -1)
