"""What `solve localization` tells: the position, the candidates, the residual of every sensor."""

from typing import Any

import numpy as np

from fedjax_admm.trials.solve._command import MODELS, Solution
from fedjax_admm.trials.solve._words import ignored_told, sentences
from fedjax_admm.trials.solve.localization._figure import coordinates, draw_location
from fedjax_admm.trials.solve.localization._fit import Location
from fedjax_admm.trials.solve.localization._settings import LocalizationSettings

RESIDUALS, *PATHS = LocalizationSettings.tables
POSITIONS, ANCHORS = PATHS  # of paths alone
MIRROR = "mirror image"
say = sentences(__file__)


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
    ranges, outliers, mirror = location.ranges, location.outliers, location.mirror

    def cost_of(place: np.ndarray) -> dict[str, Any]:
        return {"where": coordinates(ranges.axes, place), "cost": ranges.cost(place)}

    lines = [say("position", **cost_of(location.position)), ""]
    lines += [
        say("candidate", name=name, **cost_of(at)) for name, at in location.candidates.items()
    ]
    lines += ["", f"{'line':>6} {'range':>12} {'residual':>12}"]
    rows = zip(ranges.lines, ranges.distances, location.residuals, outliers, strict=True)
    lines += [say("sensor", *row) + "  outlier?" * bool(row[-1]) for row in rows]
    limits = {"sensors": len(outliers), "threshold": location.threshold}
    lines += ["", say("outliers", number=outliers.sum(), **limits)]
    if mirror is not None:
        flat = "plane" if len(ranges.axes) == 3 else "line"
        lines.append(say("mirror", flat=flat, **cost_of(mirror)))
    if ranges.missing:
        lines.append(say("missing", number=ranges.missing))
    return "\n".join([*lines, *ignored_told(ranges.ignored)])
