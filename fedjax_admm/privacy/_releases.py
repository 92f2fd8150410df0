"""Releases: the only road by which noise enters a message.

What is protected: **one sample (x, y) of one client, replaced by any other**. The adversary sees
every message of every client. Public are the graph, the number of samples of every client, all
hyper-parameters, the clipping norm, the regulariser and who takes part in which round.

A message moves by `gain_k` per unit of client k's gradient, which is a mean over M_k samples whose
gradients are clipped to the norm c. Replacing one sample moves it by at most

    Delta_k = 2 c gain_k / M_k

and the n-th release of the client adds normal noise of standard deviation z_n Delta_k to every
entry; the multipliers z_n come from a `Plan`.

Reference: F. Gauthier, C. Gratton, N. K. D. Venkategowda, S. Werner, "Private Networked Federated
Learning for Nonsmooth Objectives", Theorem 1.
"""

from dataclasses import dataclass, field
from typing import Protocol, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import InputError, default_float, one_line, scalar
from fedjax_admm._pytrees import register_dataclass
from fedjax_admm.privacy._plans import Plan, Spent


class Release(Protocol):
    """How the clients' messages are made public."""

    @property
    def clip(self) -> jax.Array | None:
        """Return the norm to which every sample's gradient is clipped, shape (); None for none."""
        ...

    @property
    def rounds(self) -> int | None:
        """Return how many releases of a client there may be; None for any number."""
        ...

    def __call__(
        self, key: jax.Array, messages: jax.Array, gains: jax.Array, sizes: jax.Array, n: jax.Array
    ) -> jax.Array:
        """Return what is sent.

        Args:
          key: a typed key, for this round alone.
          messages: shape (clients, dim).
          gains: by how much each message moves per unit of its client's gradient, shape (clients,).
          sizes: numbers of samples, shape (clients,).
          n: the number of each client's release, from 1, shape (clients,), int32.

        Returns:
          Shape (clients, dim).
        """
        ...


@register_dataclass
@dataclass(frozen=True, eq=False)
class ExactRelease:
    """Messages as they are; gradients may be clipped. Nothing is private."""

    clip: jax.Array | None  # shape=()

    @property
    def rounds(self) -> None:
        """Return None."""
        return None

    def __call__(self, key, messages, gains, sizes, n):
        """Return the messages."""
        return messages


@register_dataclass
@dataclass(frozen=True, eq=False)
class GaussianRelease:
    """Messages with normal noise; build it with `gaussian_release`."""

    norm: jax.Array  # shape=(): c, in the noise, and in the clipping if there is any
    multipliers: jax.Array  # shape=(rounds,): z_n
    clipped: bool = field(metadata={"static": True})  # whether gradients are clipped to the norm

    @property
    def clip(self) -> jax.Array | None:
        """Return the norm where gradients are clipped."""
        return self.norm if self.clipped else None

    @property
    def rounds(self) -> int:
        """Return how many releases the plan has."""
        return self.multipliers.shape[-1]

    def __call__(self, key, messages, gains, sizes, n):
        """Return the messages with noise; NaN after the last planned release."""
        # A negative place would count from the end.
        place = jnp.where(n > 0, n - 1, self.rounds)
        z = jnp.take(self.multipliers, place, mode="fill", fill_value=jnp.nan)
        deviation = z * self.sensitivity(gains, sizes)
        return messages + deviation[:, None] * jax.random.normal(
            key, messages.shape, messages.dtype
        )

    def sensitivity(self, gains: jax.Array, sizes: jax.Array) -> jax.Array:
        """Return Delta_k, how far one replaced sample can move each message, shape (clients,)."""
        return 2 * self.norm * gains / sizes.astype(gains.dtype)


def exact_release(clip: ArrayLike | None = None) -> ExactRelease:
    """Build `ExactRelease`.

    Args:
      clip: norm to which gradients of samples are clipped, positive; None does not clip.

    Returns:
      The release.

    Raises:
      InputError: `clip` is not a positive number.
    """
    return ExactRelease(None if clip is None else scalar("clip", clip, above=0))


def gaussian_release(
    plan: Plan, clip: ArrayLike | None, *, nominal_norm: ArrayLike | None = None
) -> GaussianRelease:
    """Build `GaussianRelease`.

    Args:
      plan: the noise multipliers. They are rounded up where the session computes in float32, so
        that noise is never smaller than planned.
      clip: norm c to which gradients of samples are clipped, positive. None does not clip: then no
        sensitivity is finite, and **there is no guarantee**; every epsilon is nominal.
      nominal_norm: with `clip=None`, the number that takes the place of c in the noise.

    Returns:
      The release; the norm and the multipliers are leaves.

    Raises:
      InputError: `clip` is not a positive number, not exactly one of the two norms is given, or
        early noise is too large for the session's dtype.
    """
    if not isinstance(plan, Plan):
        raise InputError(
            f"must be a Plan such as zcdp_plan makes, but it is {one_line(plan)}",
            argument="plan",
            value=plan,
        )
    if (clip is None) == (nominal_norm is None):
        raise InputError(
            "must be a positive number; or clip=None with nominal_norm=c for the paper's noise "
            "without clipping, which guarantees nothing",
            argument="clip",
            value=clip,
        )
    if clip is None:
        norm = scalar("nominal_norm", cast(ArrayLike, nominal_norm), above=0)
    else:
        norm = scalar("clip", clip, above=0)
    dtype = default_float()
    largest = np.max(plan.multipliers)
    if largest > np.finfo(dtype).max:
        raise InputError(
            f"must have multipliers that {dtype} can hold, but the first release has {largest:.3g}",
            argument="plan",
            value=plan,
            remedy="take a larger tau or fewer rounds",
        )
    multipliers = plan.multipliers.astype(dtype)
    small = multipliers.astype(np.float64) < plan.multipliers
    multipliers[small] = np.nextafter(multipliers[small], dtype.type(np.inf))
    return GaussianRelease(norm, jnp.asarray(multipliers), clip is not None)


def ledger(plan: Plan, release: GaussianRelease, releases: ArrayLike) -> Spent:
    """Return what clients have spent with a release, after so many releases of their own.

    Args:
      plan: by which the release was made.
      release: of the solver that has run; it decides whether epsilons are nominal.
      releases: whole numbers, such as `trace["releases"]` of a run, shape (records, clients).

    Returns:
      As `Plan.spent`; the label is `NOMINAL` where gradients were not clipped.

    Raises:
      InputError: the release adds no noise, or less than the plan, or a number is larger than
        planned.
    """
    if not isinstance(release, GaussianRelease):
        raise InputError(
            f"must be gaussian_release(plan, clip), but it is {type(release).__name__}, which "
            "adds no noise: nothing is private after the first release",
            argument="release",
            value=release,
        )
    added = np.asarray(release.multipliers, np.float64)
    if added.shape != plan.multipliers.shape:
        raise InputError(
            f"must be made by the plan, of {plan.rounds} releases, but it has the shape "
            f"{added.shape}",
            argument="release",
            value=release,
            remedy="give the plan that it was made by",
        )
    # A float32 number may lie below the plan's by its rounding.
    short = np.flatnonzero(added < plan.multipliers * (1 - 1e-7))
    if short.size:
        raise InputError(
            f"must add as much noise as the plan, but at release {short[0] + 1} its multiplier is "
            f"{added[short[0]]:.6g} and the plan's is {plan.multipliers[short[0]]:.6g}",
            argument="release",
            value=release,
            remedy="give the plan that it was made by",
        )
    return plan.spent(releases, clipped=release.clipped)
