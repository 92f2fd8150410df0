"""Where a path's regions are not to be trusted, and what in a log speaks against its options.

Each check is one of consistency: it needs no truth. A stretch whose ranges the path rejects, and a
coordinate whose mirror image fits as well, have no region; the others are sentences alone.
"""

from dataclasses import dataclass

import numpy as np

from fedjax_admm.trials.solve.localization._choice import Choice, flat
from fedjax_admm.trials.tables._kits import KitLog

_REJECTED = 0.35  # share of the ranges around a row: the path may be in a wrong mode there
_AROUND = 5  # times the ranges that locate the target once
_ALIKE = 10.0  # nats: a mirror image whose evidence is no lower by more fits as well
_ACROSS = 0.1  # of a unit vector: a coordinate that it has a part in
_SURVEYED = 0.15  # metres: anchors no further from one plane may lie in it
_ALTERNATING = 10.0  # times the closest two of three ranges: much larger errors are no noise
_TOGETHER = 0.7  # correlation of the errors of anchors
_INSTANTS = 400  # at which errors of anchors are compared


@dataclass(frozen=True)
class Doubts:
    """What is not known, and why."""

    rows: np.ndarray  # shape=(rows,), bool
    axes: np.ndarray  # shape=(dim,), bool
    reasons: tuple[str, ...]  # whole sentences


def once(log: KitLog) -> int:
    """Return how many ranges locate a target once."""
    return max(3 * len(log.names), 12)


def doubts_of(choice: Choice, *, clock: bool) -> Doubts:
    """Check a path for what it cannot know."""
    rows, stretch = _rejected(choice)
    axes, image = _mirrored(choice)
    several = _alternating(choice)
    others = [] if clock else _clock(choice)
    reasons = *several, *image, *stretch, *others
    return Doubts(rows | bool(several), axes, reasons)


def _rejected(choice: Choice) -> tuple[np.ndarray, list[str]]:
    """Find rows around which many ranges are rejected."""
    lost = (choice.path.weights == 0).astype(float)
    width = min(_AROUND * once(choice.log), len(lost))
    ones = np.ones(width)
    share = np.convolve(lost, ones, "same") / np.convolve(np.ones(len(lost)), ones, "same")
    unknown = share > _REJECTED
    if not unknown.any():
        return unknown, []
    told = f"The path is not known at {unknown.mean():.0%} of rows, whose regions are infinite: "
    told += f"more than {_REJECTED:.0%} of the ranges around are rejected there."
    return unknown, [told]


def _mirrored(choice: Choice) -> tuple[np.ndarray, list[str]]:
    """Find coordinates of which a mirror image across the anchors fits as well."""
    log, (across, _) = choice.log, flat(choice.log)
    none = np.zeros(len(log.axes), bool)
    height = (log.anchors - log.anchors.mean(0)) @ across
    if choice.image > _ALIKE and np.abs(height).max() > _SURVEYED:
        return none, []
    what = "plane" if len(log.axes) == 3 else "line"
    axes = np.abs(across) > _ACROSS
    names = " and ".join(name for name, unknown in zip(log.axes, axes, strict=True) if unknown)
    middle = len(log.times) // 2
    here = choice.path.positions[middle]
    there = here - 2 * ((here - log.anchors.mean(0)) @ across) * across
    at = lambda place: ", ".join(f"{each:.4g}" for each in place)  # noqa: E731
    told = f"The anchors lie in or near one {what}, so that the mirror image of the path fits as "
    told += f"well: in the middle of the log ({at(here)}) or ({at(there)}). The regions of {names} "
    return axes, [f"{told}are infinite; an anchor outside the {what} tells which is true."]


def _clock(choice: Choice) -> list[str]:
    """Find errors that all anchors share at a time, as those of a clock."""
    log, path = choice.log, choice.path
    whole = path.residuals + path.slow_errors
    instants = np.linspace(log.times[0], log.times[-1], _INSTANTS)
    series = []
    for each in range(len(log.names)):
        own = (log.anchor == each) & (path.weights > 0)
        if own.sum() > _INSTANTS // 20:
            series.append(np.interp(instants, log.times[own], whole[own]))
    if len(series) < 3:
        return []
    alike = np.corrcoef(series)[np.triu_indices(len(series), 1)]
    if np.median(alike) < _TOGETHER or float(path.slow) < 3 * float(path.noise):
        return []
    told = "All anchors' ranges err alike at a time, as those of a target whose clock drifts: try "
    return [told + "--clock."]


def _alternating(choice: Choice) -> list[str]:
    """Find ranges of an anchor that alternate between values, as those of several targets do.

    Of three ranges in a row the closest two are then of one target.
    """
    log, closest = choice.log, []
    for each in range(len(log.names)):
        own = log.ranges[log.anchor == each]
        three = np.sort([own[:-2], own[1:-1], own[2:]], 0)
        closest.append(np.diff(three, axis=0).min(0))
    apart = float(np.median(np.concatenate(closest)))
    if float(choice.path.noise) < _ALTERNATING * apart:
        return []
    told = f"The ranges of an anchor alternate: {apart:.2g} m between two of three in a row, but "
    told += f"{float(choice.path.noise):.2g} m from the path. They may be of several targets: give "
    return [told + "a file of each, or a column tag. No region is told."]
