"""The path of a kit's files by `locate_path` and by a batch of GTSAM, with the errors of both.

`python benchmarks/path_peers.py FOLDER` reads ranges.csv, tags.csv, odometry.csv and truth.csv of
FOLDER (such as Plaza 1). It needs `pip install gtsam`. GTSAM has a pose per range, its odometry
factors and range factors, with a Huber loss; it has no factor with an unknown scale of ranges, and
so gets ranges as measured, and then divided by the scale that `locate_path` has found.
"""

import sys
from pathlib import Path

import gtsam
import jax
import numpy as np

from fedjax_admm.direct import dead_reckoning, locate_path
from fedjax_admm.trials.tables import read_kit

SIGMA, RANDOM_WALK, SLIP = 0.5, 0.05, 0.02  # m; m and rad per root of a second; of a step


def batch(log, moves, turns, ranges, start):
    """Return the places of GTSAM's batch, begun at poses (rows, 3)."""
    symbol, graph, values = gtsam.symbol, gtsam.NonlinearFactorGraph(), gtsam.Values()
    huber = gtsam.noiseModel.mEstimator.Huber.Create(1.345)
    noise = gtsam.noiseModel.Robust.Create(huber, gtsam.noiseModel.Isotropic.Sigma(1, SIGMA))
    for k, anchor in enumerate(log.anchors):
        values.insert(symbol("l", k), gtsam.Point2(*anchor))
        fixed = gtsam.noiseModel.Isotropic.Sigma(2, 1e-4)
        graph.add(gtsam.PriorFactorPoint2(symbol("l", k), gtsam.Point2(*anchor), fixed))
    for i, pose in enumerate(start):
        values.insert(symbol("x", i), gtsam.Pose2(*pose))
        owner = symbol("l", int(log.anchor[i]))
        graph.add(gtsam.RangeFactor2D(symbol("x", i), owner, float(ranges[i]), noise))
        if i == 0:
            continue
        root = np.sqrt(max(log.times[i] - log.times[i - 1], 1e-3))
        along = RANDOM_WALK * root + SLIP * np.linalg.norm(moves[i])
        turned = SLIP * root + SLIP * abs(turns[i])
        spread = gtsam.noiseModel.Diagonal.Sigmas(np.array([along, along, turned]))
        step = gtsam.Pose2(*moves[i], turns[i])
        graph.add(gtsam.BetweenFactorPose2(symbol("x", i - 1), symbol("x", i), step, spread))
    found = gtsam.LevenbergMarquardtOptimizer(graph, values).optimize()
    poses = (found.atPose2(symbol("x", i)) for i in range(len(start)))
    return np.array([[pose.x(), pose.y()] for pose in poses])


def main(folder):
    """Print the median and the root of the mean square of the errors."""
    names = ("ranges", "tags", "odometry", "truth")
    log = read_kit(*(folder / f"{name}.csv" for name in names))
    moves, turns = dead_reckoning(log.times, *log.odometry.T)
    with jax.enable_x64(True):
        path = locate_path(log.anchors, log.anchor, log.ranges, log.times, moves=moves, turns=turns)
        places, scale = np.asarray(path.positions), float(path.scale)
    # The heading that turns dead reckoning into the path: both begin there.
    heading = np.concatenate([[0], np.cumsum(turns[1:])])
    before = np.concatenate([[0], heading[:-1]])
    rotated = (moves[:, 0] + 1j * moves[:, 1]) * np.exp(1j * before)
    reckoned, target = np.cumsum(rotated), places[:, 0] + 1j * places[:, 1]
    first = np.angle(np.vdot(reckoned - reckoned.mean(), target - target.mean()))
    start = np.stack([*places.T, first + heading], -1)
    truth = np.stack(
        [np.interp(log.times, log.truth[:, 0], column) for column in log.truth[:, 1:3].T], -1
    )
    for name, found in {
        "locate_path": places,
        "GTSAM, ranges as measured": batch(log, moves, turns, log.ranges, start),
        f"GTSAM, ranges / {scale:.4f}": batch(log, moves, turns, log.ranges / scale, start),
    }.items():
        error = np.linalg.norm(found - truth, axis=1)
        print(f"{name:28} median {np.median(error):.3f} m, RMSE {np.sqrt(np.mean(error**2)):.3f} m")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
