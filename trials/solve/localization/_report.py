"""What `solve localization` tells: the position, the candidates, the residual of every sensor."""

import numpy as np

from fedjax_admm.trials.solve._command import MODELS, Rows, Solution
from fedjax_admm.trials.solve.localization._figure import coordinates, draw_location
from fedjax_admm.trials.solve.localization._fit import Location, cost
from fedjax_admm.trials.solve.localization._settings import LocalizationSettings
from fedjax_admm.trials.tables import Ranges

RESIDUALS = "residuals.csv"
MIRROR = "mirror image"


def solution(
    ranges: Ranges, location: Location, settings: LocalizationSettings, title: str
) -> Solution:
    """Return what is told and written of a location."""
    at = dict(zip(ranges.axes, location.position, strict=True))
    return Solution(
        settings=settings,
        text=report(ranges, location),
        tables={
            MODELS: list(_candidate_rows(ranges, location)),
            RESIDUALS: list(_residual_rows(ranges, location)),
        },
        draw=lambda: draw_location(ranges, location, title),
        data={"sensors": len(ranges.distances), "dimensions": len(ranges.axes)},
        result={
            "position": at,
            "cost": cost(ranges, location.position),
            "suspected_outliers": int(location.outliers.sum()),
            "threshold": location.threshold,
            "ambiguous": location.mirror is not None,
        },
    )


def report(ranges: Ranges, location: Location) -> str:
    """Return the text that a person reads: position, candidates, residual of every sensor."""
    names = ranges.axes
    lines = [f"position (m): {coordinates(names, location.position)}", ""]
    for name, (position, paid) in location.candidates.items():
        where = coordinates(names, position)
        lines.append(f"  {name:<12} {where}   sum of |residuals| {paid:.4g} m")
    lines += ["", f"{'line':>6} {'range':>12} {'residual':>12}"]
    rows = zip(ranges.lines, ranges.distances, location.residuals, location.outliers, strict=True)
    for line, distance, residual, outlier in rows:
        mark = "  outlier?" if outlier else ""
        lines.append(f"{line:>6} {distance:>12.4f} {residual:>+12.4f}{mark}")
    suspected = int(location.outliers.sum())
    lines += [
        "",
        f"{suspected} of {len(ranges.distances)} sensors are suspected outliers "
        f"(|residual| above {location.threshold:.4g} m).",
    ]
    if location.mirror is not None:
        flat = "plane" if len(names) == 3 else "line"
        lines.append(
            f"The sensors lie in or near one {flat}, so the mirror image "
            f"{coordinates(names, location.mirror)} fits as well "
            f"(sum of |residuals| {cost(ranges, location.mirror):.4g} m)."
        )
    return "\n".join(lines)


def _candidate_rows(ranges: Ranges, location: Location) -> Rows:
    """Yield every candidate with its cost, the chosen one marked; then the mirror image."""
    yield ["method", *ranges.axes, "sum_of_absolute_residuals", "chosen"]
    for method, (position, paid) in location.candidates.items():
        chosen = np.array_equal(position, location.position)
        yield [method, *position, paid, chosen]
    if location.mirror is not None:
        yield [MIRROR, *location.mirror, cost(ranges, location.mirror), False]


def _residual_rows(ranges: Ranges, location: Location) -> Rows:
    yield ["line", *ranges.axes, "range", "residual", "suspected_outlier"]
    yield from (
        [int(line), *anchor, distance, residual, outlier]
        for line, anchor, distance, residual, outlier in zip(
            ranges.lines,
            ranges.anchors,
            ranges.distances,
            location.residuals,
            location.outliers,
            strict=True,
        )
    )
