"""Releases: the only road by which noise enters a message.

What is protected: **one sample (x, y) of one client, replaced by any other**. The adversary sees
every message of every client. Public are the graph, the number of samples of every client, all
hyper-parameters, the clipping norm, the regulariser and who takes part in which round.

A message moves by `gain_k` per unit of client k's gradient, which is a mean over M_k samples whose
gradients are clipped to the norm c. Replacing one sample moves it by at most

    Delta_k = 2 c gain_k / M_k

and the n-th release of the client adds normal noise of standard deviation z_n Delta_k to every
entry; the multipliers z_n come from a `Plan`. Numbers of a machine are rounded: noise is larger
than that by what rounding of the mean and of the deviation can take away
(`GaussianRelease.deviation`), it goes as far as `_noise` says, and messages are rounded to a grid
that shows nothing of their last bits.

Reference: F. Gauthier, C. Gratton, N. K. D. Venkategowda, S. Werner, "Private Networked Federated
Learning for Nonsmooth Objectives", Theorem 1.
"""

from dataclasses import field
from typing import Protocol, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import default_float, instance, is_concrete, refuse, scalar
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.losses import rounding_excess
from fedjax_admm.privacy._noise import (
    TAIL_SHARE,
    checked_dtype,
    on_grid,
    standard_normal,
    tail_mass,
    tails_of,
)
from fedjax_admm.privacy._plans import Plan


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
          gains: by how much each message moves per unit of its client's gradient, with room for its
            rounding, shape (clients,).
          sizes: numbers of samples, shape (clients,).
          n: the number of each client's release, from 1, shape (clients,), int32.

        Returns:
          Shape (clients, dim).
        """
        ...

    def costs(self, n: jax.Array) -> jax.Array:
        """Return 1 / z_n^2 of these releases, never too small, shape (clients,).

        z_n is the deviation of the noise over the sensitivity. A release that does not say it is
        counted as one without noise. One that has `tails(n)`, as `GaussianRelease`, tells by it how
        much the ends of its noise may add to delta; one that has not is taken at its word. One that
        has `deviation(gains, sizes, n)` tells that of its noise, which is told with the models.

        Args:
          n: the number of each client's release, from 1, shape (clients,), int32.
        """
        ...


_LARGER = "take a larger delta, or a smaller epsilon"


@pytree_dataclass
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

    def costs(self, n):
        """Return infinity: everything is lost."""
        return jnp.full(n.shape, jnp.inf, default_float())


@pytree_dataclass
class GaussianRelease:
    """Messages with normal noise; build it with `gaussian_release`."""

    norm: jax.Array  # shape=(): c, in the noise, and in the clipping if there is any
    multipliers: jax.Array  # shape=(rounds,): z_n of the plan
    delta: jax.Array  # shape=(): that of the plan, to which the tails of the noise may add little
    clipped: bool = field(metadata={"static": True})  # whether gradients are clipped to the norm

    @property
    def clip(self) -> jax.Array | None:
        """Return the norm where gradients are clipped."""
        return self.norm if self.clipped else None

    @property
    def rounds(self) -> int:
        """Return how many releases the plan has."""
        return self.multipliers.shape[-1]

    @property
    def entries(self) -> int:
        """Return how long messages may be for the tails to add `TAIL_SHARE` of delta at most."""
        rows = np.asarray(self.multipliers).reshape(-1, self.rounds)
        deltas = np.broadcast_to(np.asarray(self.delta, np.float64).ravel(), len(rows))
        pairs = zip(rows, deltas, strict=True)
        return min(_entries(tail_mass(row), delta) for row, delta in pairs)

    def __call__(self, key, messages, gains, sizes, n):
        """Return the messages with noise; NaN after the last planned release."""
        checked_dtype("messages", messages.dtype)
        deviation = self.deviation(gains, sizes, n)[:, None]
        noise = deviation * standard_normal(key, messages.shape, messages.dtype)
        return on_grid(messages + noise, deviation)

    def check(self, messages: jax.Array) -> None:
        """Check that noise can be drawn for messages of a shape (clients, dim) and a dtype."""
        checked_dtype("problem", messages.dtype)
        dim = messages.shape[-1]
        known = is_concrete((self.multipliers, self.delta))
        told = f"must have a delta that noise can honour, which its tails exceed with {dim} numbers"
        refuse(known and dim > self.entries, "plan", told, remedy=_LARGER)

    def deviation(self, gains: jax.Array, sizes: jax.Array, n: jax.Array) -> jax.Array:
        """Return the standard deviation of the noise of the n-th releases, shape (clients,).

        It is `z_n Delta_k (1 + e_k) (1 + 16 eps)`: e_k, `losses.rounding_excess`, is what rounding
        of a mean can add to the sensitivity, and the rest more than what the seven roundings of
        this product, of the multiplier to the problem's dtype and of the gain can take away.
        """
        excess = rounding_excess(sizes, gains.dtype) + 16 * jnp.finfo(gains.dtype).eps
        return self.used(n) * self.sensitivity(gains, sizes) * (1 + excess)

    def costs(self, n):
        """Return 1 / z_n^2 for the multipliers that are used, rounded up; infinity where z_n is 0.

        With the unit roundoff u, the quotient is off by 4u at most on any device and its square by
        10u, which 8 eps = 16u covers; `deviation` makes up for roundings of its own. What would
        vanish is the smallest normal number.
        """
        limits = jnp.finfo(self.multipliers.dtype)
        z = jax.lax.stop_gradient(self.used(n))
        inverse = 1 / z
        cost = jnp.maximum(inverse * inverse * (1 + 8 * limits.eps), limits.tiny)
        # NaN, beyond the plan, bounds nothing.
        return jnp.where(z >= 0, cost, jnp.inf).astype(z.dtype)

    def tails(self, n: jax.Array) -> jax.Array:
        """Return how much the tails of these releases' noise may add to delta, for every number.

        Zero where there is no noise, whose cost is infinite.
        """
        z = jax.lax.stop_gradient(self.used(n))
        return jnp.where(z == 0, 0, tails_of(1 / jnp.where(z == 0, 1, z)))

    def used(self, n: jax.Array) -> jax.Array:
        """Return z_n times 1 + (12 + T) eps, NaN beyond the T planned releases, shape (clients,).

        The sum of `costs` is rounded up by a part of (12 + 2 T) eps at most: this much more noise
        keeps it below that of the plan.
        """
        # A negative place would count from the end.
        place = jnp.where(n > 0, n - 1, self.rounds)
        planned = jnp.take(self.multipliers, place, mode="fill", fill_value=jnp.nan)
        return planned * (1 + (12 + self.rounds) * jnp.finfo(planned.dtype).eps)

    def sensitivity(self, gains: jax.Array, sizes: jax.Array) -> jax.Array:
        """Return Delta_k, how far one replaced sample can move each message, shape (clients,)."""
        return 2 * self.norm * gains / sizes.astype(gains.dtype)


def exact_release(clip: ArrayLike | None = None) -> ExactRelease:
    """Build `ExactRelease`.

    Args:
      clip: norm to which gradients of samples are clipped, positive; None does not clip.
    """
    return ExactRelease(None if clip is None else scalar("clip", clip, above=0))


def gaussian_release(
    plan: Plan, clip: ArrayLike | None, *, nominal_norm: ArrayLike | None = None
) -> GaussianRelease:
    """Build `GaussianRelease`.

    Args:
      plan: the noise multipliers. They are rounded up, so that noise is never smaller than planned
        and the ledger of a plan that is followed never above it.
      clip: norm c to which gradients of samples are clipped, positive. None does not clip: then no
        sensitivity is finite, and **there is no guarantee**; every epsilon is nominal.
      nominal_norm: with `clip=None`, the number that takes the place of c in the noise.

    Raises:
      InputError: `clip` is not a positive number, not exactly one of the two norms is given,
        early noise is too large for the session's dtype, or the tails of the noise could add more
        than a hundredth to the plan's delta.
    """
    instance("plan", plan, Plan, "a Plan such as zcdp_plan makes")
    told = "must be a positive number; or clip=None with nominal_norm=c for noise without clipping"
    refuse((clip is None) == (nominal_norm is None), "clip", f"{told}, which guarantees nothing")
    if clip is None:
        norm = scalar("nominal_norm", cast(ArrayLike, nominal_norm), above=0)
    else:
        norm = scalar("clip", clip, above=0)
    dtype = default_float()
    largest = np.max(plan.multipliers)
    told = f"must have multipliers that {dtype} can hold, but the first release has {largest:.3g}"
    remedy = "take a larger tau or fewer rounds"
    refuse(largest > np.finfo(dtype).max / 2, "plan", told, remedy=remedy)
    multipliers = plan.multipliers.astype(dtype)
    small = multipliers.astype(np.float64) < plan.multipliers
    multipliers[small] = np.nextafter(multipliers[small], dtype.type(np.inf))
    mass = tail_mass(multipliers)
    told = "must have a delta that noise can honour, which its tails exceed with any number"
    refuse(not _entries(mass, plan.delta), "plan", told, remedy=_LARGER)
    delta = jnp.asarray(plan.delta, dtype)
    return GaussianRelease(norm, jnp.asarray(multipliers), delta, clip is not None)


def _entries(mass: float, delta: float) -> int:
    """Return how long messages may be, given what each of their numbers can add to delta."""
    return int(min(TAIL_SHARE * delta / mass, 1e15)) if mass else 10**15
