"""What `solve localization` writes: a position and its candidates, or a path.

`models.csv` compares a path with windows of ranges, each located by itself, as they were measured
and corrected by the offsets and the scale that the path found.
"""

from typing import Any

import numpy as np

from fedjax_admm.trials.solve._solution import MODELS, Columns, Solution
from fedjax_admm.trials.solve._words import told
from fedjax_admm.trials.solve.localization._choice import CLOCKWISE, VELOCITY
from fedjax_admm.trials.solve.localization._figure import coordinates, draw_location, draw_path
from fedjax_admm.trials.solve.localization._fit import Location
from fedjax_admm.trials.solve.localization._path import LEVEL, POOR, SURE, LocatedPath
from fedjax_admm.trials.solve.localization._settings import LocalizationSettings

RESIDUALS, POSITIONS, ANCHORS = LocalizationSettings.tables
PATH, WINDOWS, CORRECTED = "path", "windows", "windows, ranges corrected"
MIRROR = "mirror image"


def solution(location: Location, settings: LocalizationSettings, title: str) -> Solution:
    """Return the text and the files of a location."""
    ranges, position = location.ranges, location.position
    mirror = {} if location.mirror is None else {MIRROR: location.mirror}
    places = {**location.candidates, **mirror}
    models = [[name, *at, ranges.cost(at), at is position] for name, at in places.items()]
    return Solution(
        settings=settings,
        text=report(location),
        tables={
            MODELS: [["method", *ranges.axes, "sum_of_absolute_residuals", "chosen"], *models],
            RESIDUALS: {
                "line": ranges.lines,
                **dict(zip(ranges.axes, ranges.anchors.T, strict=True)),
                "range": ranges.distances,
                "residual": location.residuals,
                "suspected_outlier": location.outliers,
            },
            POSITIONS: None,
            ANCHORS: None,
        },
        draw=lambda: draw_location(location, title),
        data={
            "sensors": len(ranges.distances),
            "dimensions": len(ranges.axes),
            "left_out": ranges.missing,
        },
        result={
            "position": dict(zip(ranges.axes, position, strict=True)),
            "cost": ranges.cost(position),
            "suspected_outliers": location.outliers.sum(),
            "threshold": location.threshold,
            "ambiguous": location.mirror is not None,
        },
    )


def report(location: Location) -> str:
    """Return the text that a person reads: position, candidates, residual of every sensor."""
    axes = location.ranges.axes
    at = lambda place: coordinates(axes, place)  # noqa: E731
    return told("localization/place.txt", location=location, at=at)


def path_solution(found: LocatedPath, settings: LocalizationSettings, title: str) -> Solution:
    """Return the text and the files of a path."""
    log, path, choice = found.log, found.path, found.choice
    result = {
        **{name: getattr(path, name) for name in ("scale", "scale_deviation")},
        **{name: getattr(choice, name) for name in ("own_scales", "motion", "evidence")},
        **{name: getattr(path, name) for name in ("noise", "offset_spread")},
        "biased": np.array(log.names)[found.biased],
        "moved": choice.moved,
        "slow": path.slow,
        "memory": path.memory,
        "unknown": found.doubts.rows.mean(),
        "rejected": found.rejected.sum(),
        "median_dilution": np.median(found.dilution),
    }
    if found.truth is not None:
        result |= {**found.errors(path.positions), "coverage": found.coverage()}
    return Solution(
        settings=settings,
        text=path_text(found),
        tables={
            MODELS: _models(found),
            RESIDUALS: {
                "line": log.lines,
                "time": log.times,
                "anchor": np.array(log.names)[log.anchor],
                "range": log.ranges,
                "residual": path.residuals,
                "slow_error": path.slow_errors,
                "weight": path.weights,
                "rejected": found.rejected,
            },
            POSITIONS: _positions(found),
            ANCHORS: _anchors(found),
        },
        draw=lambda: draw_path(found, title),
        data={
            "ranges": len(log.ranges),
            "anchors": len(log.names),
            "dimensions": len(log.axes),
            "left_out": log.missing,
            "unknown_anchors": log.unknown,
            "silent_anchors": log.silent,
            "repeated": log.repeated,
        },
        result=result,
    )


def path_text(found: LocatedPath) -> str:
    """Return the text that a person reads."""
    constants = {"level": LEVEL, "poor": POOR, "sure": SURE}
    constants |= {"velocity": VELOCITY, "clockwise": CLOCKWISE}
    known: dict[str, Any] = {"errors": None}
    if found.truth is not None:
        known = {
            "errors": {name: found.errors(at) for name, at in _candidates(found).items()},
            "coverage": found.coverage(),
            "known": np.isfinite(found.truth).all(1).mean(),
        }
    return told(
        "localization/path.txt",
        found=found,
        anchors=_anchors(found),
        biased=[name for name, sure in zip(found.log.names, found.biased, strict=True) if sure],
        half=" x ".join(f"{each:.3g}" for each in np.median(found.region().axes()[0], 0)),
        dilution=np.median(found.dilution),
        share=(found.dilution > POOR).mean(),
        **constants,
        **known,
    )


def _candidates(found: LocatedPath) -> dict[str, Any]:
    return {PATH: found.path.positions, WINDOWS: found.windows, CORRECTED: found.corrected}


def _models(found: LocatedPath) -> Columns:
    log, path, rows = found.log, found.path, []
    for name, places in _candidates(found).items():
        offset, scale = path.offsets[log.anchor] + path.clock, path.scales[log.anchor]
        if name == WINDOWS:
            offset, scale = 0, 1
        length = np.linalg.norm(places - log.anchors[log.anchor], axis=1)
        residual = float(np.median(np.abs(log.ranges - offset - scale * length)))
        errors = {} if found.truth is None else found.errors(places)
        rows.append([name, residual, *errors.values()])
    header = ("method", "median_absolute_residual", "median_error", "rmse")
    return dict(zip(header, zip(*rows, strict=True), strict=False))


def _anchors(found: LocatedPath) -> Columns:
    log, path = found.log, found.path
    return {
        "anchor": log.names,
        **dict(zip(log.axes, log.anchors.T, strict=True)),
        "ranges": np.bincount(log.anchor, minlength=len(log.names)),
        "scale": path.scales,
        "scale_deviation": path.scale_deviations,
        "offset": path.offsets,
        "offset_deviation": path.offset_deviations,
        "biased": found.biased,
        "rejected": np.bincount(log.anchor, found.rejected, len(log.names)).astype(int),
    }


def _positions(found: LocatedPath) -> Columns:
    """Return a row per time: place, standard deviations, and the ellipse in the plane."""
    log, path = found.log, found.path
    times, row = np.unique(log.times, return_index=True)
    places, (half, angle) = np.asarray(path.positions[row]), found.ellipses(row)
    deviations = found.deviations(row)
    columns = {
        "time": times,
        **dict(zip(log.axes, places.T, strict=True)),
        **{f"{axis}_deviation": each for axis, each in zip(log.axes, deviations.T, strict=True)},
        **{f"half_axis_{number}": each for number, each in enumerate(half.T, 1)},
        "angle_degrees": angle,
    }
    if found.clock:
        columns["clock"] = path.clock[row]
    if log.plane is not None:
        columns["latitude"], columns["longitude"] = log.plane.degrees(places).T
    return columns
