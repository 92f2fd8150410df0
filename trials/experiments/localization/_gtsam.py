"""The path of a kit by a batch of GTSAM, where it is installed: a baseline for `locate_path`.

There is a pose per range, an odometry factor between neighbours and a range factor with Huber's
loss. GTSAM has no factor with an unknown scale of ranges, so it takes ranges as they are given.

Reference: F. Dellaert, M. Kaess, "Factor graphs for robot perception", Foundations and Trends in
Robotics 6(1-2) (2017).
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from fedjax_admm.trials.tables._kits import KitLog

_SIGMA, _RANDOM_WALK, _SLIP = 0.5, 0.05, 0.02  # m; m and rad per root of a second; of a step
_SILENT = 10.0  # m and rad: what a step may be that no odometer saw


def installed() -> bool:
    """Return whether GTSAM is there."""
    return find_spec("gtsam") is not None


def batch_positions(
    log: KitLog, moves: np.ndarray, turns: np.ndarray, ranges: np.ndarray, places: np.ndarray
) -> np.ndarray:
    """Return the places of the batch, shape (rows, 2), metres.

    Args:
      log: anchors and rows.
      moves: of `dead_reckoning`, shape (rows, 2), metres.
      turns: shape (rows,), radians.
      ranges: shape (rows,), metres, as measured or corrected.
      places: where the optimiser begins, shape (rows, 2), metres.
    """
    gtsam: Any = import_module("gtsam")
    silent = np.isnan(turns)
    moves, turns = np.nan_to_num(moves), np.nan_to_num(turns)
    symbol = gtsam.symbol
    graph, values, kinds = gtsam.NonlinearFactorGraph(), gtsam.Values(), gtsam.noiseModel
    huber = kinds.mEstimator.Huber.Create(1.345)
    noise = kinds.Robust.Create(huber, kinds.Isotropic.Sigma(1, _SIGMA))
    for k, anchor in enumerate(log.anchors):
        values.insert(symbol("l", k), gtsam.Point2(*anchor))
        fixed = kinds.Isotropic.Sigma(2, 1e-4)
        graph.add(gtsam.PriorFactorPoint2(symbol("l", k), gtsam.Point2(*anchor), fixed))
    roots = np.sqrt(np.maximum(np.diff(log.times, prepend=log.times[0]), 1e-3))
    for i, pose in enumerate(_poses(moves, turns, places)):
        values.insert(symbol("x", i), gtsam.Pose2(*pose))
        owner = symbol("l", int(log.anchor[i]))
        graph.add(gtsam.RangeFactor2D(symbol("x", i), owner, float(ranges[i]), noise))
        if i == 0:
            continue
        along = _RANDOM_WALK * roots[i] + _SLIP * np.linalg.norm(moves[i]) + _SILENT * silent[i]
        turned = _SLIP * (roots[i] + abs(turns[i])) + _SILENT * silent[i]
        spread = kinds.Diagonal.Sigmas(np.array([along, along, turned]))
        step = gtsam.Pose2(*moves[i], turns[i])
        graph.add(gtsam.BetweenFactorPose2(symbol("x", i - 1), symbol("x", i), step, spread))
    found = gtsam.LevenbergMarquardtOptimizer(graph, values).optimize()
    poses = (found.atPose2(symbol("x", i)) for i in range(len(ranges)))
    return np.array([[pose.x(), pose.y()] for pose in poses])


def _poses(moves: np.ndarray, turns: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return places with headings, (rows, 3): the rotation that turns dead reckoning into them."""
    heading = np.concatenate([[0], np.cumsum(turns[1:])])
    before = np.concatenate([[0], heading[:-1]])
    reckoned = np.cumsum((moves[:, 0] + 1j * moves[:, 1]) * np.exp(1j * before))
    target = places[:, 0] + 1j * places[:, 1]
    first = np.angle(np.vdot(reckoned - reckoned.mean(), target - target.mean()))
    return np.stack([*places.T, first + heading], -1)
