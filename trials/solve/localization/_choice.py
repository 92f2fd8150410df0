"""Which model of a kit's ranges they speak for: motion, factors of anchors, and a moved anchor.

A richer model is taken if its evidence, the logarithm of the likelihood of all ranges, exceeds that
of the simpler one by more than half the logarithm of the number of ranges for each number that it
adds, as in the Bayesian information criterion. Of a long log pieces alone decide. Offsets and slow
errors of anchors need no choice: where there are none, the path finds them to be small.

Where an anchor is suspected (`_survey`), the path of all anchors with its place mended is one more
model.

Reference: G. Schwarz, "Estimating the dimension of a model", Annals of Statistics 6(2) (1978).
"""

from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from fedjax_admm.direct import PathEstimate, dead_reckoning, locate_path
from fedjax_admm.trials.solve.localization._survey import (
    exchanged,
    relocated,
    suspect,
    without,
)
from fedjax_admm.trials.tables._kits import KitLog

VELOCITY = "nearly constant velocity"
ODOMETRY = "odometry"
CLOCKWISE = "odometry with clockwise turns"
_LONG = 20_000  # ranges: of more, pieces decide
_PIECES, _PIECE = 8, 500
_FLAT = 0.2  # share of the anchors' extent: of a flatter set the mirror image is tried
_EXPLAINED = 0.5  # share of the motion that an odometer leaves unexplained: more contradicts it


@dataclass(frozen=True)
class Choice:
    """The path of the model that was chosen."""

    log: KitLog  # whose anchors stand where the model has them
    path: PathEstimate  # arrays of the host
    motion: str
    own_scales: bool
    evidence: dict[str, float]  # of every model that was fitted
    moved: dict[str, str] = field(default_factory=dict)  # anchor -> whose place it has
    image: float = np.inf  # by how much the evidence exceeds that of the mirror image


def chosen_path(log: KitLog, *, clock: bool = False) -> Choice:
    """Locate the path by the model that the ranges speak for.

    Args:
      log: of a kit.
      clock: whether the target's clock has an unknown offset.
    """
    if len(log.ranges) <= _LONG:
        return _chosen(log, clock)
    first = np.linspace(0, len(log.ranges) - _PIECE, _PIECES).astype(int)
    taken = (first[:, None] + np.arange(_PIECE)).ravel()
    rows = "times", "anchor", "ranges", "lines", *(["sigma"] if log.sigma is not None else [])
    short = _chosen(replace(log, **{name: getattr(log, name)[taken] for name in rows}), clock)
    whole = replace(log, anchors=short.log.anchors)
    return replace(short, log=whole, path=_path(whole, short.motion, None, short.own_scales, clock))


def _chosen(log: KitLog, clock: bool) -> Choice:
    margin = np.log(len(log.ranges)) / 2
    evidence: dict[str, float] = {}

    def fitted(log: KitLog, motion: str, start: Any = None, *, own: bool = False, **note: Any):
        path = _path(log, motion, start, own, clock)
        told = "".join(f", {name} {value}" for name, value in note.items())
        evidence[f"{motion}{', own scales' * own}{told}"] = float(path.evidence)
        return Choice(log, path, motion, own, evidence)

    best = fitted(log, VELOCITY)
    if log.odometry is not None:
        # A compass turns clockwise.
        driven = [fitted(log, each, best.path.positions) for each in (ODOMETRY, CLOCKWISE)]
        driven = max(driven, key=_evidence)
        if _evidence(driven) > _evidence(best) or _unexplained(driven) < _EXPLAINED:
            best = driven
    name = suspect(log, clock=clock)
    if name is not None:
        others = fitted(without(log, name), best.motion, without=name)
        tried = [(relocated(log, name, others.path), {name: "elsewhere"})]
        swap = exchanged(log, name, clock=clock)
        tried += [] if swap is None else [(swap[1], {name: swap[0], swap[0]: name})]
        for there, moved in tried:
            new = fitted(there, best.motion, moved=" and ".join(moved))
            if _evidence(new) > _evidence(best) + (len(log.axes) + 1) * margin:
                best = replace(new, moved=moved)
    across, thickness = flat(best.log)
    if thickness < _FLAT:
        places = best.path.positions - best.log.anchors.mean(0)
        start = best.path.positions - 2 * np.outer(places @ across, across)
        image = fitted(best.log, best.motion, start, side="mirrored")
        gap = _evidence(best) - _evidence(image)
        best = replace(best if gap >= 0 else replace(image, moved=best.moved), image=abs(gap))
    own = fitted(best.log, best.motion, best.path.positions, own=True)
    if _evidence(own) > _evidence(best) + margin:
        best = replace(own, moved=best.moved, image=best.image)
    return best


def flat(log: KitLog) -> tuple[np.ndarray, float]:
    """Return the direction in which anchors differ least, (dim,), and by what share of the most."""
    _, sizes, directions = np.linalg.svd(log.anchors - log.anchors.mean(0), full_matrices=False)
    full = len(sizes) == len(log.axes)
    return directions[-1] if full else _normal(directions), sizes[-1] / sizes[0] if full else 0.0


def _normal(directions: np.ndarray) -> np.ndarray:
    """Return a unit vector across the rows, (dim,)."""
    return np.linalg.svd(directions)[2][-1]


def _path(log: KitLog, motion: str, start: Any, own: bool, clock: bool) -> PathEstimate:
    model = {"own_scales": own, "clock": clock, "start": start, **_motion(log, motion)}
    rows = log.anchors, log.anchor, log.ranges, log.times
    return jax.tree.map(np.asarray, locate_path(*rows, sigma=log.sigma, **model))


def _evidence(choice: Choice) -> float:
    """Return the evidence; if it is not finite it counts as none."""
    return float(np.nan_to_num(choice.path.evidence, nan=-np.inf))


def _unexplained(driven: Choice) -> float:
    """Return which share of the motion between two windows an odometer leaves to its slip."""
    log, spans = driven.log, np.diff(driven.log.times)
    moves = np.linalg.norm(_motion(log, driven.motion)["moves"], axis=1)[1:]
    known = np.isfinite(moves)
    travelled = moves[known].sum() / max(len(log.names), 1)
    seconds = spans[known].sum() / max(len(log.names), 1)
    count = max(len(log.ranges) / max(3 * len(log.names), 12), 1)
    slip = float(driven.path.slip) * np.sqrt(seconds / count)
    return slip / max(travelled / count, 1e-12)


def _motion(log: KitLog, motion: str) -> dict[str, Any]:
    if motion == VELOCITY or log.odometry is None:
        return {}
    ends, distances, turned = log.odometry.T
    turned = -turned if motion == CLOCKWISE else turned
    moves, turns = dead_reckoning(log.times, ends, distances, turned)
    return {"moves": moves, "turns": turns}
