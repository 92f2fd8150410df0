"""What `solve localization` tells of a path: places, anchors, ranges, geometry, errors."""

from typing import Any

import numpy as np

from fedjax_admm.trials.solve._command import MODELS, Solution
from fedjax_admm.trials.solve._words import amount, ignored_told, shortened
from fedjax_admm.trials.solve.localization._choice import CLOCKWISE, VELOCITY
from fedjax_admm.trials.solve.localization._path import LEVEL, POOR, SURE, LocatedPath
from fedjax_admm.trials.solve.localization._path_figure import draw_path
from fedjax_admm.trials.solve.localization._report import ANCHORS, POSITIONS, RESIDUALS
from fedjax_admm.trials.solve.localization._settings import LocalizationSettings

PATH, WINDOWS, CORRECTED = "path", "windows", "windows, ranges corrected"


def path_solution(found: LocatedPath, settings: LocalizationSettings, title: str) -> Solution:
    """Return the text and the files of a path."""
    log, path = found.log, found.path
    result = {
        "scale": path.scale,
        "scale_deviation": path.scale_deviation,
        "own_scales": found.choice.own_scales,
        "motion": found.choice.motion,
        "evidence": found.choice.evidence,
        "noise": path.noise,
        "offset_spread": path.offset_spread,
        "biased": [name for name, known in zip(log.names, found.biased, strict=True) if known],
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
            RESIDUALS: _residuals(found),
            POSITIONS: _positions(found),
            ANCHORS: _anchors(found),
        },
        draw=lambda: draw_path(found, title),
        data={
            "ranges": len(log.ranges),
            "anchors": len(log.names),
            "dimensions": len(log.axes),
            "left_out": log.missing,
            "unknown_anchors": list(log.unknown),
            "silent_anchors": list(log.silent),
            "repeated": log.repeated,
        },
        result=result,
    )


def path_text(found: LocatedPath) -> str:
    """Return the text that a person reads."""
    log, path = found.log, found.path
    span, scale = log.times[-1] - log.times[0], float(path.scale)
    axes, _ = found.region().axes()
    half = " x ".join(f"{each:.3g}" for each in np.median(axes, 0))
    lines = [
        f"path of {span:.6g} s from {amount(len(log.ranges), 'range')} of "
        f"{amount(len(log.names), 'anchor')}, by {found.choice.motion}",
        "",
        f"  scale    {scale:.4f} +/- {float(path.scale_deviation):.4f}: ranges are "
        f"{abs(scale - 1):.1%} too {'long' if scale > 1 else 'short'}"
        + (", the same at all anchors" if not found.choice.own_scales else " on average"),
        f"  noise    {float(path.noise):.3g} m of a range",
        f"  ellipse  {LEVEL:.0%} with half axes of {half} m in the median",
        "",
        f"{'anchor':>12} {'ranges':>8} {'scale':>8} {'offset (m)':>11} {'+/-':>8} {'rejected':>9}",
    ]
    for each, name in enumerate(log.names):
        own = log.anchor == each
        mark = "  biased" if found.biased[each] else ""
        lines.append(
            f"{name:>12.12} {own.sum():>8} {path.scales[each]:>8.4f} {path.offsets[each]:>+11.3f} "
            f"{path.offset_deviations[each]:>8.3f} {found.rejected[own].sum():>9}{mark}"
        )
    lines.append("")
    if log.odometry is not None and found.choice.motion == VELOCITY:
        lines.append("The ranges contradict the odometry, which was not used; check its columns.")
    elif found.choice.motion == CLOCKWISE:
        lines.append("The turns of the odometry are clockwise, as the ranges tell.")
    if found.choice.own_scales:
        lines.append("Anchors have scales of their own, beyond what chance explains.")
    biased = [name for name, known in zip(log.names, found.biased, strict=True) if known]
    lines.append(
        f"Anchors with an offset of more than {SURE} deviations: {shortened(biased, 8)}."
        if biased
        else f"No anchor has an offset of more than {SURE} deviations beside the scale."
        if found.choice.offsets
        else "Offsets of anchors explain no more than chance does, and are taken as 0."
    )
    lines.append(
        f"{amount(int(found.rejected.sum()), 'range')} of {len(log.ranges)} were rejected "
        "(more than 5 deviations of the noise away); residuals.csv marks them."
    )
    poor = float((found.dilution > POOR).mean())
    lines.append(
        f"The geometry is {'poor' if poor > 0.1 else 'good enough'}: the dilution of precision "
        f"is {np.median(found.dilution):.2g} in the median, and above {POOR} at {poor:.0%} of rows."
    )
    if log.missing:
        lines.append(f"{amount(log.missing, 'row')} without a positive range were left out.")
    if log.unknown:
        lines.append(f"Anchors without a place were left out: {shortened(log.unknown, 8)}.")
    if log.silent:
        lines.append(f"Anchors without a range were left out: {shortened(log.silent, 8)}.")
    if log.repeated:
        lines.append(f"{amount(log.repeated, 'row')} that repeat another one were left out.")
    lines += ignored_told(log.ignored)
    if found.truth is not None:
        lines += ["", f"{'error (m)':<28} {'median':>8} {'RMSE':>8}"]
        for name, places in _candidates(found).items():
            errors = found.errors(places)
            lines.append(f"  {name:<26} {errors['median']:>8.3f} {errors['rmse']:>8.3f}")
        lines.append(
            f"The {LEVEL:.0%} regions hold {found.coverage():.1%} of the true places, which are "
            f"known at {np.isfinite(found.truth).all(1).mean():.0%} of the ranges."
        )
    return "\n".join(lines)


def _candidates(found: LocatedPath) -> dict[str, Any]:
    return {
        PATH: found.path.positions,
        WINDOWS: found.windows,
        CORRECTED: found.corrected,
    }


def _models(found: LocatedPath):
    log, told = found.log, found.truth is not None
    header = ["method", "median_absolute_residual", *(("median_error", "rmse") if told else ())]
    rows: list[list[Any]] = [header]
    for name, places in _candidates(found).items():
        plain = name == WINDOWS
        offset = 0 if plain else found.path.offsets[log.anchor] + found.path.clock
        scale = 1 if plain else found.path.scales[log.anchor]
        length = np.linalg.norm(places - log.anchors[log.anchor], axis=1)
        residual = float(np.median(np.abs(log.ranges - offset - scale * length)))
        errors = found.errors(places).values() if told else ()
        rows.append([name, residual, *errors])
    return rows


def _residuals(found: LocatedPath):
    log, path = found.log, found.path
    names = np.array(log.names)[log.anchor]
    rows = zip(
        log.lines, log.times, names, log.ranges, path.residuals, path.weights, found.rejected,
        strict=True,
    )  # fmt: skip
    return [["line", "time", "anchor", "range", "residual", "weight", "rejected"], *rows]


def _anchors(found: LocatedPath):
    log, path = found.log, found.path
    counts = np.bincount(log.anchor, minlength=len(log.names))
    lost = np.bincount(log.anchor, found.rejected, len(log.names)).astype(int)
    rows = zip(
        log.names, *log.anchors.T, counts, path.scales, path.scale_deviations,
        path.offsets, path.offset_deviations, found.biased, lost, strict=True,
    )  # fmt: skip
    header = ["anchor", *log.axes, "ranges", "scale", "scale_deviation"]
    header += ["offset", "offset_deviation", "biased", "rejected"]
    return [header, *rows]


def _positions(found: LocatedPath):
    """Return a row per time: place, standard deviations, and the ellipse in the plane."""
    log, path = found.log, found.path
    times, row = np.unique(log.times, return_index=True)
    places, spread = path.positions[row], path.covariances[row]
    deviations = np.sqrt(np.diagonal(spread, axis1=1, axis2=2))
    half, angle = found.ellipses(row)
    header = ["time", *log.axes, *(f"{axis}_deviation" for axis in log.axes)]
    columns = [times, *places.T, *deviations.T, *half.T, angle]
    header += ["half_axis_1", "half_axis_2", "angle_degrees"]
    if found.clock:
        header += ["clock"]
        columns += [path.clock[row]]
    if log.plane is not None:
        header += ["latitude", "longitude"]
        columns += [*log.plane.degrees(np.asarray(places)).T]
    return [header, *zip(*columns, strict=True)]
