"""A check of a sample loss of one's own: value, slope and curvature belong together."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import InputError, is_concrete, listed, one_line
from fedjax_admm.losses._samples import Absolute, Huber, Logistic, Quantile, Squared

_MEMBERS = ("value", "slope", "curvature", "largest_curvature", "smooth", "labels")
OURS = (Squared, Absolute, Huber, Logistic, Quantile)
_FAR = np.array([0.01, 0.13, 0.7, 1.9, 6.3, 25.0])
_OFFSETS = np.concatenate([-_FAR[::-1], [0.0], _FAR])


def check_sample_loss(loss: Any) -> None:
    """Check that a loss is a `SampleLoss`, in float64 and at several predictions and targets.

    The slope must lie between the one-sided derivatives of the value, which are one number where
    the loss is smooth; it must not fall while the prediction rises, since the loss is convex. The
    curvature must be the derivative of the slope, where it has one, and at most
    `largest_curvature()`. Difference quotients tell these. Losses of this package, and losses whose
    numbers are traced, are believed.

    Args:
      loss: a pytree with the members of `SampleLoss`.

    Raises:
      InputError: a member is missing, or does not fit the others; the sentence names the point and
        both numbers.
    """
    if isinstance(loss, type) or not hasattr(loss, "slope"):
        raise InputError(
            "must be one of fedjax_admm.losses, such as losses.squared(), but it is "
            f"{one_line(loss)}",
            argument="loss",
            value=loss,
        )
    if isinstance(loss, OURS):
        return
    name = type(loss).__name__
    missing = [member for member in _MEMBERS if not hasattr(loss, member)]
    if missing:
        raise _unfit(
            loss,
            f"must have all of {listed(_MEMBERS)}, but {name} has no {listed(missing)}",
            "losses.SampleLoss says what they are",
        )
    if jax.tree_util.all_leaves([loss]):
        raise _unfit(
            loss,
            f"must be a pytree, but {name} is registered as none",
            "register the class, as jax.tree_util.register_dataclass does",
        )
    if is_concrete(loss):
        with jax.ensure_compile_time_eval(), jax.enable_x64(True):
            _check_numbers(loss, name)


def check_minimizable(loss: Any, targets: jax.Array, weights: jax.Array) -> None:
    """Check that pooled samples can be minimised over: by the loss, and by its labels.

    A sample of weight zero may have any target.
    """
    if not isinstance(loss, OURS):
        known = all(hasattr(loss, name) for name in _MEMBERS)
        if isinstance(loss, type) or not known or not loss.smooth:
            raise _unfit(
                loss,
                "must be squared(), absolute(), huber(), logistic() or quantile(), or a smooth "
                f"loss with value, slope and curvature, but it is {one_line(loss)}",
            )
    if loss.labels and is_concrete((targets, weights)):
        seen = np.asarray(targets)[np.asarray(weights) > 0]
        if not np.all(np.abs(seen) == 1):
            wrong = seen[np.abs(seen) != 1][0]
            whose = "the logistic loss" if isinstance(loss, Logistic) else type(loss).__name__
            raise InputError(
                f"must be -1 and 1 for {whose}, but one of them is {wrong:g}",
                argument="targets",
                value=targets,
            )


def _check_numbers(loss: Any, name: str) -> None:
    wide = jax.tree.map(lambda leaf: jnp.asarray(leaf, np.float64), loss)
    targets = np.array([-1.0, 1.0] if loss.labels else [-2.0, 0.0, 1.5])
    y = np.repeat(targets[:, None], _OFFSETS.size, 1)
    p = np.broadcast_to(_OFFSETS, y.shape) + (0 if loss.labels else y)
    width = 1e-6 * (1 + np.abs(p))

    def of(member: str, prediction: np.ndarray) -> np.ndarray:
        function = getattr(wide, member)
        found = function(jnp.asarray(prediction), jnp.asarray(y))
        if getattr(found, "shape", None) != y.shape:
            raise _unfit(
                loss,
                f"must be elementwise, but {name}.{member} of arrays of shape {y.shape} is "
                f"{one_line(found)}",
            )
        found = np.asarray(found)
        bad = ~np.isfinite(found)
        if np.any(bad):
            at = _at(prediction, y, bad)
            raise _unfit(loss, f"must be finite, but {name}.{member} is {found[bad][0]:g} at {at}")
        return found

    values, slope, curvature = (
        of("value", p),
        of("slope", p),
        of("curvature", p),
    )
    ahead, behind = of("value", p + width), of("value", p - width)
    behind, ahead = (values - behind) / width, (ahead - values) / width
    _check_between(loss, name, "slope", "value", slope, behind, ahead, p, y, np.abs(values) / width)
    try:
        largest = float(wide.largest_curvature())
    except (TypeError, ValueError):
        largest = np.nan
    if not (np.isfinite(largest) and largest >= 0):
        raise _unfit(loss, f"must have a largest_curvature() that is a number, but {name} has none")
    jumps = ahead - behind > 4 * width * max(largest, 1) + 1e-6 * (1 + np.abs(slope))
    if loss.smooth and np.any(jumps):
        raise _unfit(
            loss,
            f"must have a continuous slope where {name}.smooth is True, but at "
            f"{_at(p, y, jumps)} it jumps from {behind[jumps][0]:.6g} to {ahead[jumps][0]:.6g}",
            "let smooth be False",
        )
    falls = np.diff(slope, axis=1) < -1e-9 * (1 + np.abs(slope[:, 1:]))
    if np.any(falls):
        i, j = np.argwhere(falls)[0]
        raise _unfit(
            loss,
            f"must be convex in the prediction, but at the target {y[i, 0]:g} {name}.slope falls "
            f"from {slope[i, j]:.6g} at {p[i, j]:g} to {slope[i, j + 1]:.6g} at {p[i, j + 1]:g}",
            "problems.federated takes any loss",
        )
    before, after = (of("slope", p + sign * width) for sign in (-1, 1))
    before, after = (slope - before) / width, (after - slope) / width
    bent = np.maximum(np.abs(before), np.abs(after)) < 1e4  # else the slope jumps
    low, high = np.where(bent, before, curvature), np.where(bent, after, curvature)
    noise = np.abs(slope) / width
    _check_between(loss, name, "curvature", "slope", curvature, low, high, p, y, noise)
    if curvature.max() > largest * (1 + 1e-6) + 1e-12:
        most = curvature == curvature.max()
        raise _unfit(
            loss,
            f"must have a largest_curvature() that bounds its curvature, but {name} says "
            f"{largest:.6g} and has {curvature.max():.6g} at {_at(p, y, most)}",
        )


def _check_between(loss, name, member, whose, found, behind, ahead, p, y, noise) -> None:
    """Check that a derivative lies between two difference quotients."""
    low, high = np.minimum(behind, ahead), np.maximum(behind, ahead)
    room = 1e-5 * (1e-2 + np.maximum(np.abs(low), np.abs(high))) + 1e-15 * noise
    off = (found < low - room) | (found > high + room)
    if not np.any(off):
        return
    low, high = low[off][0], high[off][0]
    one = abs(high - low) <= 1e-3 * (1e-2 + abs(high))
    wanted = f"is {(low + high) / 2:.6g}" if one else f"lies between {low:.6g} and {high:.6g}"
    raise _unfit(
        loss,
        f"must have a {member} that is the derivative of its {whose}, but at {_at(p, y, off)} "
        f"{name}.{member} is {found[off][0]:.6g}, and the derivative {wanted}",
    )


def _at(p: np.ndarray, y: np.ndarray, where: np.ndarray) -> str:
    return f"the prediction {p[where][0]:g} and the target {y[where][0]:g}"


def _unfit(loss: Any, told: str, remedy: str | None = None) -> InputError:
    return InputError(told, argument="loss", value=loss, remedy=remedy)
