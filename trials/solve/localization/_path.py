"""The path of a target from the files of a kit, and the baseline of single windows."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from fedjax_admm._shown import short_repr
from fedjax_admm.direct import PathEstimate, dead_reckoning, locate_path
from fedjax_admm.losses import squared
from fedjax_admm.problems import localization
from fedjax_admm.regions import Ellipse, dilution, ellipse, refine
from fedjax_admm.trials.solve._command import Stages
from fedjax_admm.trials.tables import KitLog

LEVEL = 0.9  # of the ellipses
SURE = 3  # posterior deviations: a larger offset is called one
POOR = 5  # dilution: a larger one is called poor geometry


@short_repr
@dataclass(frozen=True)
class LocatedPath:
    """A located path; a row per range, as in the file in the order of time."""

    log: KitLog
    path: PathEstimate  # arrays of the host
    dilution: np.ndarray  # shape=(rows,): of all anchors at the place of the row
    windows: np.ndarray  # shape=(rows, dim): single windows of ranges by least squares, as measured
    corrected: np.ndarray  # shape=(rows, dim): the same with the offsets and the scale of the path
    truth: Any  # shape=(rows, dim), NaN outside its times

    @property
    def rejected(self) -> np.ndarray:
        """Return which ranges counted for nothing, bool, shape (rows,)."""
        return np.asarray(self.path.weights) == 0

    @property
    def biased(self) -> np.ndarray:
        """Return which anchors have an offset beyond doubt, bool, shape (anchors,)."""
        return np.abs(self.path.offsets) > SURE * np.maximum(self.path.offset_deviations, 1e-300)

    def region(self, rows: Any = slice(None)) -> Ellipse:
        """Return the regions that hold the places of rows with the probability `LEVEL`."""
        return ellipse(self.path.positions[rows], self.path.covariances[rows], LEVEL)

    def ellipses(self, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return half axes, (rows, 2), and angles from x in degrees, (rows,), in the plane."""
        places, spread = self.path.positions[row, :2], self.path.covariances[row][:, :2, :2]
        half, directions = map(np.asarray, ellipse(places, spread, LEVEL).axes())
        return half, np.degrees(np.arctan2(directions[:, 1, 0], directions[:, 0, 0])) % 180

    def errors(self, places: Any) -> dict[str, float]:
        """Return the median and the root of the mean square of distances to the truth."""
        gaps = np.linalg.norm(places - self.truth, axis=1)
        gaps = gaps[np.isfinite(gaps)]
        return {"median": float(np.median(gaps)), "rmse": float(np.sqrt(np.mean(gaps**2)))}

    def coverage(self) -> float:
        """Return the share of rows whose region holds the true place."""
        there = np.isfinite(self.truth).all(1)
        return float(np.asarray(self.region().contains(self.truth))[there].mean())


def locate_log(log: KitLog, stages: Stages | None = None) -> LocatedPath:
    """Locate the path that a kit measured."""
    stages = stages or Stages()
    motion: Any = {}
    if log.odometry is not None:
        moves, turns = dead_reckoning(log.times, *log.odometry.T)
        motion |= {"moves": moves, "turns": turns}
    with stages("path"):
        found = locate_path(
            log.anchors, log.anchor, log.ranges, log.times, sigma=log.sigma, **motion
        )
        path = jax.tree.map(np.asarray, found)
    with stages("windows"):
        # The path as the start spares windows the local minima far away.
        windows = window_positions(log, log.ranges, path.positions)
        known = (log.ranges - path.offsets[log.anchor]) / path.scale
        corrected = window_positions(log, known, path.positions)
    truth = None
    if log.truth is not None:
        columns = [
            np.interp(log.times, log.truth[:, 0], column, left=np.nan, right=np.nan)
            for column in log.truth[:, 1:].T
        ]
        truth = np.stack(columns, -1)
    spread = np.asarray(dilution(log.anchors, path.positions)["gdop"])
    return LocatedPath(log, path, spread, windows, corrected, truth)


def window_positions(log: KitLog, ranges: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return the place of each row, (rows, dim), by least squares of the window around it alone.

    Args:
      log: anchors and rows.
      ranges: shape (rows,), metres, corrected or not.
      start: shape (rows, dim), metres.
    """

    def place(distances: jax.Array, first: jax.Array) -> jax.Array:
        problem = localization(log.anchors, distances, sigma=1.0, start=first)
        return refine(problem, first, squared(), steps=20).position

    return np.asarray(jax.jit(jax.vmap(place))(log.windows(ranges), start))
