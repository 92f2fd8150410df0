"""An anchor that does not stand where the file says, or two whose names are exchanged.

The ranges of an anchor are foretold by the places of windows in which its own say nothing. An
anchor whose ranges they miss by far more than those of the others is a suspect; hypotheses are the
place that its ranges tell, and the exchange of its name with that of another one.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np

from fedjax_admm.direct import PathEstimate, locate_centrally, rough_path
from fedjax_admm.problems import localization
from fedjax_admm.trials.tables._kits import KitLog

_SUSPECT = 4.0  # times the others' error
_BETTER = 0.5  # share of the error that is left by an exchange of names
_LEFT_OUT = 1e6  # relative scale of the errors of ranges that are left out
_LOCATING = 200  # ranges that locate a suspected anchor


def suspect(log: KitLog, *, clock: bool) -> str | None:
    """Return the anchor whose ranges the others foretell worst, if far worse than theirs."""
    if len(log.names) < len(log.axes) + 2:
        return None  # too few others to locate the target
    ratios = []
    for each, name in enumerate(log.names):
        size = _misfit(without(log, name), clock)
        own = log.anchor == each
        ratios.append(np.median(size[own]) / max(np.median(size[~own]), 1e-9))
    worst = int(np.argmax(ratios))
    return log.names[worst] if ratios[worst] > _SUSPECT else None


def exchanged(log: KitLog, name: str, *, clock: bool) -> tuple[str, KitLog] | None:
    """Return the anchor with which one is exchanged and the log that has it right, if there is."""
    here, found = log.names.index(name), []
    for there in range(len(log.names)):
        order = np.arange(len(log.names))
        order[[here, there]] = there, here
        tried = replace(log, anchors=log.anchors[order])
        found.append((float(np.median(_misfit(tried, clock))), there, tried))
    least = min(found, key=lambda each: each[0])
    return (log.names[least[1]], least[2]) if least[0] < _BETTER * found[here][0] else None


def without(log: KitLog, name: str) -> KitLog:
    """Return a log in which the ranges of an anchor say nothing."""
    sigma = np.ones(len(log.ranges)) if log.sigma is None else log.sigma
    left_out = log.anchor == log.names.index(name)
    return replace(log, sigma=np.where(left_out, _LEFT_OUT * np.median(sigma), sigma))


def relocated(log: KitLog, name: str, path: PathEstimate) -> KitLog:
    """Return a log in which an anchor stands where its ranges to the path of the others tell."""
    own = log.names.index(name)
    rows = np.flatnonzero(log.anchor == own)
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), _LOCATING)).astype(int)]
    ranges = (log.ranges[rows] - np.median(path.offsets) - path.clock[rows]) / path.scale
    places = path.positions[rows]
    middle = places.mean(0)
    problem = localization(places - middle, np.maximum(ranges, 1e-3))
    locate = jax.jit(partial(locate_centrally, half_width=1.2 * float(ranges.max())))
    anchors = log.anchors.copy()
    anchors[own] = np.asarray(locate(problem)) + middle
    return replace(log, anchors=anchors)


def _misfit(log: KitLog, clock: bool) -> Any:
    """Return by how much each range misses that of the places of windows, (rows,), metres."""
    rows = log.anchors, log.anchor, log.ranges, log.times
    places = np.asarray(rough_path(*rows, sigma=log.sigma, clock=clock))
    error = log.ranges - np.linalg.norm(places - log.anchors[log.anchor], axis=1)
    return np.abs(error - np.median(error))
