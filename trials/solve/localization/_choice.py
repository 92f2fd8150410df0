"""Which model of a kit's ranges they speak for: motion, factors of anchors, and a moved anchor.

A richer model is taken if its evidence, the logarithm of the likelihood of all ranges, exceeds that
of the simpler one by more than half the logarithm of the number of ranges for each number that it
adds, as in the Bayesian information criterion. Offsets and slow errors of anchors need no choice:
where there are none, the path finds them to be small.

An anchor whose errors are far above those of the others may stand elsewhere. The path of the others
alone then locates it by its ranges, and the path of all with the place found is the hypothesis.

Reference: G. Schwarz, "Estimating the dimension of a model", Annals of Statistics 6(2) (1978).
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from fedjax_admm.direct import PathEstimate, dead_reckoning, locate_centrally, locate_path
from fedjax_admm.problems import localization
from fedjax_admm.trials.tables._kits import KitLog

VELOCITY = "nearly constant velocity"
ODOMETRY = "odometry"
CLOCKWISE = "odometry with clockwise turns"
_SUSPECT = 3.0  # times the median anchor's error
_LEFT_OUT = 1e6  # relative scale of the errors of ranges that are left out
_FLAT = 0.2  # share of the anchors' extent: of a flatter set the mirror image is tried
_LOCATING = 200  # ranges that locate a suspected anchor
_EXPLAINED = 0.5  # share of the motion that an odometer leaves unexplained: more contradicts it


@dataclass(frozen=True)
class Choice:
    """The path of the model that was chosen."""

    log: KitLog  # whose anchors stand where the model has them
    path: PathEstimate  # arrays of the host
    motion: str
    own_scales: bool
    evidence: dict[str, float]  # of every model that was fitted
    moved: dict[str, float] = field(default_factory=dict)  # anchor -> metres from the file's place
    image: float = np.inf  # by how much the evidence exceeds that of the mirror image


def chosen_path(log: KitLog, *, clock: bool = False) -> Choice:
    """Locate the path by the model that the ranges speak for.

    Args:
      log: of a kit.
      clock: whether the target's clock has an unknown offset.
    """
    margin = np.log(len(log.ranges)) / 2
    evidence: dict[str, float] = {}

    def fitted(log: KitLog, motion: str, start: Any = None, *, own: bool = False, **note: Any):
        model = {"own_scales": own, "clock": clock, "start": start, **_motion(log, motion)}
        rows = log.anchors, log.anchor, log.ranges, log.times
        path = jax.tree.map(np.asarray, locate_path(*rows, sigma=log.sigma, **model))
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
    for name in suspects(best):
        others = _without(log, name)
        alone = fitted(others, best.motion, without=name)
        place = _located_anchor(log, name, alone.path)
        there = replace(log, anchors=np.where(_is(log, name)[:, None], place, log.anchors))
        moved = fitted(there, best.motion, alone.path.positions, moved=name)
        if _evidence(moved) > _evidence(best) + (len(log.axes) + 1) * margin:
            far = float(np.linalg.norm(place - log.anchors[log.names.index(name)]))
            best = replace(moved, moved={name: far})
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


def suspects(choice: Choice) -> list[str]:
    """Return the anchors, at most two, whose errors are far above those of the others."""
    log, size = choice.log, anchor_errors(choice)
    if len(log.names) < len(log.axes) + 2:
        return []  # too few others to locate the target
    far = np.flatnonzero(size > _SUSPECT * np.median(size))
    return [log.names[each] for each in far[np.argsort(-size[far])][:2]]


def anchor_errors(choice: Choice) -> np.ndarray:
    """Return the root of the median square of each anchor's whole error, (anchors,), metres."""
    log, path = choice.log, choice.path
    error = path.residuals + path.slow_errors + path.offsets[log.anchor] - np.median(path.offsets)
    return np.array(
        [np.sqrt(np.median(error[log.anchor == each] ** 2)) for each in range(len(log.names))]
    )


def _evidence(choice: Choice) -> float:
    """Return the evidence; if it is not finite it counts as none."""
    return float(np.nan_to_num(choice.path.evidence, nan=-np.inf))


def _is(log: KitLog, name: str) -> np.ndarray:
    return np.arange(len(log.names)) == log.names.index(name)


def _without(log: KitLog, name: str) -> KitLog:
    """Return a log in which the ranges of an anchor say nothing."""
    sigma = np.ones(len(log.ranges)) if log.sigma is None else log.sigma
    left_out = _is(log, name)[log.anchor]
    return replace(log, sigma=np.where(left_out, _LEFT_OUT * np.median(sigma), sigma))


def _located_anchor(log: KitLog, name: str, path: PathEstimate) -> np.ndarray:
    """Return the place of an anchor, (dim,), from its ranges to the path of the others."""
    rows = np.flatnonzero(_is(log, name)[log.anchor])
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), _LOCATING)).astype(int)]
    ranges = (log.ranges[rows] - np.median(path.offsets) - path.clock[rows]) / path.scale
    places = path.positions[rows]
    middle = places.mean(0)
    problem = localization(places - middle, np.maximum(ranges, 1e-3))
    locate = jax.jit(partial(locate_centrally, half_width=1.2 * float(ranges.max())))
    return np.asarray(locate(problem)) + middle


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
