"""What `solve localization` tells: the position, the candidates, the residual of every sensor."""

from fedjax_admm.trials.solve._command import MODELS, Solution
from fedjax_admm.trials.solve._words import ignored_told
from fedjax_admm.trials.solve.localization._figure import coordinates, draw_location
from fedjax_admm.trials.solve.localization._fit import Location
from fedjax_admm.trials.solve.localization._settings import LocalizationSettings

RESIDUALS, MIRROR = "residuals.csv", "mirror image"
PATHS = POSITIONS, ANCHORS = "positions.csv", "anchors.csv"  # of paths alone


def solution(location: Location, settings: LocalizationSettings, title: str) -> Solution:
    """Return the text and the files of a location."""
    ranges, position = location.ranges, location.position
    places = location.candidates
    if location.mirror is not None:
        places = {**places, MIRROR: location.mirror}
    models = [[name, *at, ranges.cost(at), at is position] for name, at in places.items()]
    sensors = (ranges.distances, location.residuals, location.outliers)
    residuals = zip(ranges.lines, *ranges.anchors.T, *sensors, strict=True)
    names = ["line", *ranges.axes, "range", "residual", "suspected_outlier"]
    return Solution(
        settings=settings,
        text=report(location),
        tables={
            MODELS: [["method", *ranges.axes, "sum_of_absolute_residuals", "chosen"], *models],
            RESIDUALS: [names, *residuals],
            **dict.fromkeys(PATHS),
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
    ranges, names = location.ranges, location.ranges.axes
    lines = [f"position (m): {coordinates(names, location.position)}", ""]
    for name, at in location.candidates.items():
        cost = f"sum of |residuals| {ranges.cost(at):.4g} m"
        lines.append(f"  {name:<12} {coordinates(names, at)}   {cost}")
    lines += ["", f"{'line':>6} {'range':>12} {'residual':>12}"]
    rows = zip(ranges.lines, ranges.distances, location.residuals, location.outliers, strict=True)
    for line, distance, residual, outlier in rows:
        mark = "  outlier?" if outlier else ""
        lines.append(f"{line:>6} {distance:>12.4f} {residual:>+12.4f}{mark}")
    lines += [
        "",
        f"{location.outliers.sum()} of {len(ranges.distances)} sensors are suspected outliers "
        f"(|residual| above {location.threshold:.4g} m).",
    ]
    if location.mirror is not None:
        flat = "plane" if len(names) == 3 else "line"
        lines.append(
            f"The sensors lie in or near one {flat}, so the mirror image "
            f"{coordinates(names, location.mirror)} fits as well "
            f"(sum of |residuals| {ranges.cost(location.mirror):.4g} m)."
        )
    if ranges.missing:
        lines.append(f"Rows without a range, which were left out: {ranges.missing}.")
    lines += ignored_told(ranges.ignored)
    return "\n".join(lines)
