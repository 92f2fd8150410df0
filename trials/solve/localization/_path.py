"""The path of a target from the files of a kit, and the baseline of single windows."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from fedjax_admm.direct import PathEstimate
from fedjax_admm.losses import squared
from fedjax_admm.problems import localization
from fedjax_admm.regions import Ellipse, dilution, ellipse, refine
from fedjax_admm.trials.solve._solution import Stages
from fedjax_admm.trials.solve.localization._choice import Choice, chosen_path
from fedjax_admm.trials.solve.localization._doubts import Doubts, doubts_of, once
from fedjax_admm.trials.tables._kits import KitLog

LEVEL = 0.9  # of the ellipses
SURE = 3  # posterior deviations: a larger offset is called one
_WINDOWS = 10_000  # that are located at most
POOR = 5  # dilution: a larger one is called poor geometry


@dataclass(frozen=True)
class LocatedPath:
    """A located path; a row per range, as in the file in the order of time."""

    choice: Choice
    doubts: Doubts  # where no region is told, and why
    clock: bool  # whether the target's clock had an offset
    dilution: np.ndarray  # shape=(rows,): of all anchors at the place of the row
    windows: np.ndarray  # shape=(rows, dim): single windows of ranges by least squares, as measured
    corrected: np.ndarray  # shape=(rows, dim): the same with the offsets and the scale of the path
    truth: Any  # shape=(rows, dim), NaN where it is not known

    @property
    def log(self) -> KitLog:
        """Return the log, whose anchors stand where the model has them."""
        return self.choice.log

    @property
    def path(self) -> PathEstimate:
        """Return the path of the model that was chosen."""
        return self.choice.path

    @property
    def rejected(self) -> np.ndarray:
        """Return which ranges counted for nothing, bool, shape (rows,)."""
        return np.asarray(self.path.weights) == 0

    @property
    def biased(self) -> np.ndarray:
        """Return which anchors have an offset beyond doubt, bool, shape (anchors,)."""
        return np.abs(self.path.offsets) > SURE * np.maximum(self.path.offset_deviations, 1e-300)

    def region(self, rows: Any = slice(None)) -> Ellipse:
        """Return the regions that hold the places of rows with the probability `LEVEL`.

        They are of the coordinates that the ranges tell.
        """
        told = ~self.doubts.axes
        spread = self.path.covariances[rows][:, told][:, :, told]
        return ellipse(self.path.positions[rows][:, told], spread, LEVEL)

    def deviations(self, row: np.ndarray) -> np.ndarray:
        """Return standard deviations of coordinates, (rows, dim), infinite where none is told."""
        variances = np.diagonal(self.path.covariances[row], axis1=1, axis2=2)
        unknown = self.doubts.rows[row][:, None] | self.doubts.axes[None]
        return np.where(unknown, np.inf, np.sqrt(np.maximum(variances, 0)))

    def ellipses(self, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return half axes, (rows, 2), and angles from x in degrees, (rows,), in the plane."""
        places, spread = self.path.positions[row, :2], self.path.covariances[row][:, :2, :2]
        half, directions = map(np.asarray, ellipse(places, spread, LEVEL).axes())
        unknown = self.doubts.rows[row] | self.doubts.axes[:2].any()
        half = np.where(unknown[:, None], np.inf, half)
        return half, np.degrees(np.arctan2(directions[:, 1, 0], directions[:, 0, 0])) % 180

    def errors(self, places: Any) -> dict[str, float]:
        """Return the median and the root of the mean square of distances to the truth."""
        gaps = np.linalg.norm(places - self.truth, axis=1)
        gaps = gaps[np.isfinite(gaps)]
        if not len(gaps):
            return {"median": np.nan, "rmse": np.nan}
        return {"median": float(np.median(gaps)), "rmse": float(np.sqrt(np.mean(gaps**2)))}

    def coverage(self) -> float:
        """Return the share of rows with a region whose region holds the true place."""
        there = np.isfinite(self.truth).all(1) & ~self.doubts.rows
        inside = np.asarray(self.region().contains(self.truth[:, ~self.doubts.axes]))[there]
        return float(inside.mean()) if len(inside) else np.nan


def locate_log(log: KitLog, stages: Stages | None = None, *, clock: bool = False) -> LocatedPath:
    """Locate the path that a kit measured, with a clock of the target's own if asked for."""
    stages = stages or Stages()
    with stages("path"):
        choice = chosen_path(log, clock=clock)
        log, path = choice.log, choice.path
    with stages("windows"):
        # The path as the start spares windows the local minima far away.
        windows = window_positions(log, log.ranges, path.positions, clock=clock)
        known = (log.ranges - path.offsets[log.anchor] - path.clock) / path.scales[log.anchor]
        corrected = window_positions(log, known, path.positions)
    truth = None if log.truth is None else _truth(log, log.truth, np.asarray(path.positions))
    geometry = np.asarray(dilution(log.anchors, path.positions, clock=clock)["gdop"])
    doubts = doubts_of(choice, clock=clock)
    return LocatedPath(choice, doubts, clock, geometry, windows, corrected, truth)


def _truth(log: KitLog, truth: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the true place of every row, (rows, dim), NaN where it is not known.

    It lies between two true places, if they are no further apart in time than two ranges. Of a
    sparser truth each place is that of the nearest row alone, moved as the path moves from the one
    time to the other.
    """
    own, times = truth[:, 0], log.times
    found = np.stack(
        [np.interp(times, own, column, left=np.nan, right=np.nan) for column in truth[:, 1:].T], -1
    )
    distinct = np.unique(times)  # several ranges may share one
    apart = float(np.median(distinct[1:] - distinct[:-1]))
    width = min(once(log), len(times) - 1)  # ranges may come in bursts
    apart = max(apart, float(np.median(times[width:] - times[:-width])) / 2)
    after = np.clip(np.searchsorted(own, times), 1, len(own) - 1)
    found[own[after] - own[after - 1] > 2 * apart] = np.nan
    nearest = np.clip(np.searchsorted(times, own), 1, len(times) - 1)
    between = (own >= times[0]) & (own <= times[-1])
    close = between & (times[nearest] - times[nearest - 1] <= 4 * apart)
    nearest -= own - times[nearest - 1] < times[nearest] - own
    here = np.stack([np.interp(own, times, column) for column in places.T], -1)
    moved = truth[:, 1:] + places[nearest] - here
    lone = close & np.isnan(found[nearest]).any(1)
    found[nearest[lone]] = moved[lone]
    return found


def window_positions(log: KitLog, ranges: Any, start: Any, *, clock: bool = False) -> np.ndarray:
    """Return the place of each row, (rows, dim), by least squares of the window around it alone.

    Of a long log some rows alone, evenly, are located, and the others are NaN.

    Args:
      log: anchors and rows.
      ranges: shape (rows,), metres, corrected or not.
      start: shape (rows, dim), metres.
      clock: whether the ranges of a window share an unknown offset.
    """

    def place(distances: jax.Array, first: jax.Array) -> jax.Array:
        problem = localization(log.anchors, distances, sigma=1.0, start=first, clock=clock)
        return refine(problem, problem.start, squared(), steps=20).position

    rows = np.unique(np.linspace(0, len(ranges) - 1, _WINDOWS).astype(int))
    found = np.full(np.shape(start), np.nan)
    found[rows] = jax.jit(jax.vmap(place))(log.windows(ranges, rows=rows), start[rows])
    return found
