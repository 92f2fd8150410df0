"""The position of a target: by federated rounds and by the centralised reference."""

from dataclasses import dataclass

import jax
import numpy as np

from fedjax_admm._run._rounds import run
from fedjax_admm.direct import locate_centrally
from fedjax_admm.problems import localization
from fedjax_admm.solvers import fsmdm
from fedjax_admm.trials.solve._solution import Stages
from fedjax_admm.trials.tables._ranges import RangeTable

_HALF_WIDTH = 30.0  # metres: the size of the problems for which the tuned constants were chosen
_LOCAL_UPDATES = 3  # of a sensor in a round
_FLAT = 1e-9  # sensors of such a height, as a share of their extent, lie in one plane
_NEARLY_FLAT = 0.05  # of such a height, they lie near one: the mirror image may fit as well
_MAD_TO_DEVIATION = 1.4826  # median absolute residual -> standard deviation of a normal


@dataclass(frozen=True)
class Location:
    """A located target."""

    ranges: RangeTable
    position: np.ndarray  # shape=(dim,), metres: the candidate of least cost
    candidates: dict[str, np.ndarray]  # method -> position
    residuals: np.ndarray  # shape=(sensors,): distance from position minus measured range, metres
    threshold: float  # metres: a larger absolute residual marks a suspected outlier
    mirror: np.ndarray | None  # shape=(dim,), metres: a second position that fits as well, where
    # the sensors lie in or near one plane (in the plane: one line)

    @property
    def outliers(self) -> np.ndarray:
        """Return a bool per sensor: whether its range is a suspected outlier."""
        return np.abs(self.residuals) > self.threshold


def locate(ranges: RangeTable, rounds: int, stages: Stages | None = None) -> Location:
    """Locate the target by tuned FSMDM and by the centralised reference; keep the cheaper answer.

    The measurements are moved and scaled to the size for which FSMDM's constants were chosen.
    The cost of a position is `sum_l | ||w - a_l|| - d_l |`. A sensor is suspected where its
    residual exceeds three standard deviations, estimated as 1.4826 times the median absolute
    residual (at least a thousandth of the median range).
    """
    stages, centre = stages or Stages(), ranges.anchors.mean(0)
    typical = float(np.median(ranges.distances))
    scale = _HALF_WIDTH / max(float(np.abs(ranges.anchors - centre).max()), typical)
    anchors = (ranges.anchors - centre) * scale
    problem = localization(anchors, ranges.distances * scale, start=_beside(anchors))
    with stages("federated rounds"):
        done = run(
            fsmdm("tuned", local_updates=_LOCAL_UPDATES), problem, jax.random.key(0), rounds=rounds
        )
        found = {"FSMDM": done.estimate.block_until_ready()}
    # Exact ranges: by the triangle inequality the target is no further from the centre of the
    # sensors than the mean range, so that the grid, of the size of the median one, is near it.
    with stages("centralised reference"):
        found["centralised"] = jax.jit(locate_centrally)(problem).block_until_ready()
    candidates = {
        name: np.asarray(scaled, np.float64) / scale + centre for name, scaled in found.items()
    }
    position = min(candidates.values(), key=ranges.cost)
    residuals = ranges.residuals(position)
    deviation = _MAD_TO_DEVIATION * float(np.median(np.abs(residuals)))
    threshold = max(3 * deviation, 1e-3 * typical)
    mirror = _mirror(ranges, position, threshold)
    return Location(ranges, position, candidates, residuals, threshold, mirror)


def _beside(anchors: np.ndarray) -> np.ndarray | None:
    """Return a start beside the plane of sensors that lie in one, where no gradient leads out."""
    _, sizes, directions = np.linalg.svd(anchors - anchors.mean(0), full_matrices=False)
    return _HALF_WIDTH * directions[-1] if sizes[-1] < _FLAT * sizes[0] else None


def _mirror(ranges: RangeTable, position: np.ndarray, threshold: float) -> np.ndarray | None:
    """Return the image of a position in the sensors' plane, if it is another one that fits.

    The sensors lie in or near one plane if their singular values say so, wherever the target is.
    The image fits if the mean absolute residual grows by less than one standard deviation, a third
    of the threshold. Sensors on one line of space have many such images; one is returned.
    """
    centre = ranges.anchors.mean(0)
    # Without `full_matrices` the left factor would be square: sensors times sensors.
    _, sizes, directions = np.linalg.svd(ranges.anchors - centre, full_matrices=False)
    limit = ranges.cost(position) + threshold / 3 * len(ranges.distances)
    for first in reversed(np.flatnonzero(sizes < _NEARLY_FLAT * sizes[0])):
        across = directions[first:]
        image = position - 2 * across.T @ (across @ (position - centre))
        if np.linalg.norm(image - position) > threshold and ranges.cost(image) < limit:
            return image
    return None
