"""What an odometer saw between the times of ranges, for `locate_path`."""

import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import finite_array, rising

_SILENT = 10  # median steps: within a longer one an odometer tells nothing


def dead_reckoning(
    times: ArrayLike, odometer_times: ArrayLike, distances: ArrayLike, turns: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Return the moves and turns between times that an odometer saw, for `locate_path`.

    Within a step of the odometer the target turns evenly. Moves and turns are NaN where most of the
    time between two rows is before its first step, after its last one, or within a step of more
    than ten times the median: there the odometer was silent.

    Args:
      times: shape (rows,), seconds, not decreasing.
      odometer_times: the end of each step, shape (steps,), increasing.
      distances: distance of each step, shape (steps,), metres.
      turns: turn of each step, shape (steps,), radians, counterclockwise.

    Returns:
      Moves (rows, 2), metres, and turns (rows,), radians; those of the first row are 0.

    Raises:
      InputError: a shape does not fit, or times do not increase.
    """
    times = np.asarray(finite_array("times", times, (None,)), np.float64)
    ends = np.asarray(finite_array("odometer_times", odometer_times, (None,)), np.float64)
    rising("odometer_times", ends, least=2, remedy="sort the steps and remove repeated ones")
    steps = np.asarray(finite_array("distances", distances, ends.shape), np.float64)
    turned = np.asarray(finite_array("turns", turns, ends.shape), np.float64)
    heading = np.concatenate([[0], np.cumsum(turned)])
    middle = heading[:-1] + turned / 2
    track = np.cumsum(steps[:, None] * np.stack([np.cos(middle), np.sin(middle)], -1), 0)
    marks = np.concatenate([[2 * ends[0] - ends[1]], ends])
    heading = np.interp(times, marks, heading)
    track = [np.interp(times, marks, np.concatenate([[0], column])) for column in track.T]
    ahead = np.stack([np.diff(column, prepend=column[:1]) for column in track], -1)
    before = np.concatenate([heading[:1], heading[:-1]])
    cos, sin = np.cos(before), np.sin(before)
    moves = np.stack(
        [cos * ahead[:, 0] + sin * ahead[:, 1], cos * ahead[:, 1] - sin * ahead[:, 0]], -1
    )
    turned = np.diff(heading, prepend=heading[:1])
    seconds = np.diff(marks)
    covered = np.where(seconds > _SILENT * np.median(seconds), 0, seconds)
    spans = np.interp(times, marks, np.concatenate([[0], np.cumsum(covered)]))
    covered = np.diff(spans, prepend=0)
    silent = covered < np.diff(times, prepend=times[:1]) / 2
    silent[0] = False
    return np.where(silent[:, None], np.nan, moves), np.where(silent, np.nan, turned)
