"""Which model of a kit's ranges they speak for: motion, offsets, and factors of anchors.

Models are fitted from the simplest on. A richer one is taken if its evidence, the logarithm of the
likelihood of all ranges, exceeds that of the simpler one by more than half the logarithm of the
number of ranges for each intensity that it adds, as in the Bayesian information criterion.

Reference: G. Schwarz, "Estimating the dimension of a model", Annals of Statistics 6(2) (1978).
"""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from fedjax_admm.direct import PathEstimate, dead_reckoning, locate_path
from fedjax_admm.trials.tables._kits import KitLog

VELOCITY = "nearly constant velocity"
ODOMETRY = "odometry"
CLOCKWISE = "odometry with clockwise turns"


@dataclass(frozen=True)
class Choice:
    """The path of the model that was chosen."""

    path: PathEstimate  # arrays of the host
    motion: str
    offsets: bool
    own_scales: bool
    evidence: dict[str, float]  # of every model that was fitted


def chosen_path(log: KitLog, *, clock: bool = False) -> Choice:
    """Locate the path by the model that the ranges speak for.

    Args:
      log: of a kit.
      clock: whether the target's clock has an unknown offset.
    """
    rows = log.anchors, log.anchor, log.ranges, log.times
    margin = np.log(len(log.ranges)) / 2
    evidence: dict[str, float] = {}

    def fitted(motion: str, offsets: bool, own: bool) -> Choice:
        model = {"offsets": offsets, "own_scales": own, "clock": clock, **_motion(log, motion)}
        path = locate_path(*rows, sigma=log.sigma, **model)
        name = f"{motion}{', offsets' * offsets}{', own scales' * own}"
        evidence[name] = float(path.evidence)
        return Choice(jax.tree.map(np.asarray, path), motion, offsets, own, evidence)

    def of(motion: str) -> Choice:
        plain, richer = (fitted(motion, offsets, False) for offsets in (False, True))
        return richer if _better(richer, plain, margin) else plain

    best = of(VELOCITY)
    if log.odometry is not None:
        driven = of(ODOMETRY)
        # A compass turns clockwise.
        candidates = [driven] if _better(driven, best) else [best, of(CLOCKWISE)]
        best = max(candidates, key=lambda each: each.path.evidence)
    own = fitted(best.motion, best.offsets, True)
    if not _better(own, best, margin):
        return best
    simpler = fitted(best.motion, False, True) if own.offsets else own
    return own if _better(own, simpler, margin) else simpler


def _better(one: Choice, other: Choice, margin: float = 0.0) -> bool:
    """Return whether a model is that much better; evidence that is not finite counts as none."""
    first, second = (float(np.nan_to_num(each.path.evidence, nan=-np.inf)) for each in (one, other))
    return first > second + margin


def _motion(log: KitLog, motion: str) -> dict[str, Any]:
    if motion == VELOCITY or log.odometry is None:
        return {}
    ends, distances, turned = log.odometry.T
    turned = -turned if motion == CLOCKWISE else turned
    moves, turns = dead_reckoning(log.times, ends, distances, turned)
    return {"moves": moves, "turns": turns}
