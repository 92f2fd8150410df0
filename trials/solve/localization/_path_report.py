"""What `solve localization` tells of a path: scale, offsets, geometry, and known errors.

`models.csv` compares the path with windows of ranges, each located by itself, as they were measured
and corrected by the offsets and the scale that the path found.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from fedjax_admm.trials.solve._command import MODELS, Columns, Solution
from fedjax_admm.trials.solve._words import amount, ignored_told, sentences, shortened
from fedjax_admm.trials.solve.localization._choice import CLOCKWISE, VELOCITY
from fedjax_admm.trials.solve.localization._path import LEVEL, POOR, SURE, LocatedPath
from fedjax_admm.trials.solve.localization._path_figure import draw_path
from fedjax_admm.trials.solve.localization._report import ANCHORS, POSITIONS, RESIDUALS
from fedjax_admm.trials.solve.localization._settings import LocalizationSettings

PATH, WINDOWS, CORRECTED = "path", "windows", "windows, ranges corrected"
say = sentences(__file__)


def path_solution(found: LocatedPath, settings: LocalizationSettings, title: str) -> Solution:
    """Return the text and the files of a path."""
    log, path, choice = found.log, found.path, found.choice
    result = {
        **{name: getattr(path, name) for name in ("scale", "scale_deviation")},
        **{name: getattr(choice, name) for name in ("own_scales", "motion", "evidence")},
        **{name: getattr(path, name) for name in ("noise", "offset_spread")},
        "biased": _biased(found),
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
    log, path, choice = found.log, found.path, found.choice
    where = " on average" if choice.own_scales else ", the same at all anchors"
    share, side = abs(float(path.scale) - 1), "long" if path.scale > 1 else "short"
    half = " x ".join(f"{each:.3g}" for each in np.median(found.region().axes()[0], 0))
    ranges, anchors = amount(len(log.ranges), "range"), amount(len(log.names), "anchor")
    seconds = log.times[-1] - log.times[0]
    lines = [
        *(say("path", seconds=seconds, ranges=ranges, anchors=anchors, motion=choice.motion), ""),
        say("scale", path=path, share=share, side=side, where=where),
        say("noise", path=path),
        *(say("ellipse", level=LEVEL, half=half), ""),
        f"{'anchor':>12} {'ranges':>8} {'scale':>8} {'offset (m)':>11} {'+/-':>8} {'rejected':>9}",
    ]
    names = ("anchor", "ranges", "scale", "offset", "offset_deviation", "rejected", "biased")
    for *row, biased in zip(*map(_anchors(found).get, names), strict=True):
        lines.append(say("anchor", *row) + "  biased" * bool(biased))
    lines += ["", *_remarks(found)]
    if found.truth is not None:
        lines += ["", f"{'error (m)':<28} {'median':>8} {'RMSE':>8}"]
        for name, places in _candidates(found).items():
            lines.append(say("error", name=name, **found.errors(places)))
        known = np.isfinite(found.truth).all(1).mean()
        lines.append(say("coverage", level=LEVEL, inside=found.coverage(), known=known))
    return "\n".join(lines)


def _remarks(found: LocatedPath) -> Iterator[str]:
    log, choice, biased = found.log, found.choice, _biased(found)
    if log.odometry is not None and choice.motion == VELOCITY:
        yield say("contradicted")
    elif choice.motion == CLOCKWISE:
        yield say("clockwise")
    if choice.own_scales:
        yield say("own_scales")
    told = "biased" if biased else "unbiased" if choice.offsets else "no_offsets"
    yield say(told, sure=SURE, names=shortened(biased, 8))
    lost, poor = amount(int(found.rejected.sum()), "range"), float((found.dilution > POOR).mean())
    yield say("rejected", ranges=lost, number=len(log.ranges))
    good, median = "poor" if poor > 0.1 else "good enough", np.median(found.dilution)
    yield say("geometry", good=good, median=median, limit=POOR, share=poor)
    for name, rows in (("no_range", log.missing), ("repeated", log.repeated)):
        if rows:
            yield say(name, rows=amount(rows, "row"))
    for name, names in (("unknown", log.unknown), ("silent", log.silent)):
        if names:
            yield say(name, names=shortened(names, 8))
    yield from ignored_told(log.ignored)


def _biased(found: LocatedPath) -> list[str]:
    return [name for name, known in zip(found.log.names, found.biased, strict=True) if known]


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
    deviations = np.sqrt(np.diagonal(path.covariances[row], axis1=1, axis2=2))
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
