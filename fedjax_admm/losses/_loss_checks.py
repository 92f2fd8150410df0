"""A check of a sample loss of one's own: value, slope and curvature belong together."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import having, is_concrete, refuse, refuse_entries, registered
from fedjax_admm.losses._samples import Absolute, Huber, Logistic, Quantile, Squared

OURS = (Squared, Absolute, Huber, Logistic, Quantile)
_MEMBERS = ("value", "slope", "curvature", "largest_curvature", "smooth", "labels")
_KIND = "one of fedjax_admm.losses, such as losses.squared(), or have the members of SampleLoss"
# Odd numbers, at which no loss has a kink.
_OFFSETS = np.outer([-1, 1], [0.0103, 0.1327, 0.7193, 1.9121, 6.2987, 24.713]).ravel()


def check_sample_loss(loss: Any) -> None:
    """Check that a loss is a `SampleLoss`, in float64 and at several predictions and targets.

    The slope must be the derivative of the value, and the curvature that of the slope, which is
    not negative, since the loss is convex, and at most `largest_curvature()`. Losses of this
    package, and losses whose numbers are traced, are believed.

    Args:
      loss: a pytree with the members of `SampleLoss`.

    Raises:
      InputError: a member is missing, or does not fit the others.
    """
    having(*_MEMBERS, kind=_KIND)("loss", loss)
    registered("loss", loss)
    if not isinstance(loss, OURS) and is_concrete(loss):
        with jax.ensure_compile_time_eval(), jax.enable_x64(True):
            _check_numbers(loss)


def check_minimizable(loss: Any, targets: jax.Array, weights: jax.Array) -> None:
    """Check that pooled samples can be minimised over: by the loss, and by its labels.

    A sample of weight zero may have any target.
    """
    having(*_MEMBERS, kind=_KIND)("loss", loss)
    rough = not isinstance(loss, OURS) and not loss.smooth
    refuse(rough, "loss", "must be smooth, or one of fedjax_admm.losses", loss)
    if loss.labels and is_concrete((targets, weights)):
        seen = np.asarray(targets)
        wrong = (np.abs(seen) != 1) & (np.asarray(weights) > 0)
        refuse_entries(wrong, "targets", f"must be -1 and 1 for {type(loss).__name__}", seen)


def _check_numbers(loss: Any) -> None:
    wide = jax.tree.map(lambda leaf: jnp.asarray(leaf, np.float64), loss)
    targets = np.array([-1.0, 1.0] if loss.labels else [-2.0, 0.0, 1.5])[:, None]
    y = np.broadcast_to(targets, (len(targets), _OFFSETS.size)).ravel()
    p = (_OFFSETS + (0 if loss.labels else targets) + np.zeros_like(targets)).ravel()
    for member, whose in (("slope", "value"), ("curvature", "slope")):
        found = np.asarray(getattr(wide, member)(p, y))
        wanted = np.asarray(jax.vmap(jax.grad(getattr(wide, whose)))(p, y))
        wrong = ~np.isclose(found, wanted, 1e-5, 1e-8)
        told = f"must have a {member} that is the derivative of its {whose}"
        rows = np.stack([p, y, found, wanted], -1)
        entry = f", but [prediction, target, {member}, derivative] of case"
        refuse_entries(wrong, "loss", told, rows, entry=entry)
    told, remedy = "must be convex in the prediction", "problems.federated takes any loss"
    refuse_entries(found < -1e-9, "loss", told, rows, remedy, ", but its curvature in case")
    largest = float(wide.largest_curvature())
    told = f"must have a largest_curvature() that bounds its curvature {found.max():.6g}"
    refuse(found.max() > largest * (1 + 1e-6) + 1e-12, "loss", told, largest)
