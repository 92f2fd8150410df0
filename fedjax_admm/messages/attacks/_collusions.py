"""Attacks of Byzantine senders that know all honest messages and agree on one of their own.

    mimic                          x_i of one honest i
    a little is enough             mu - z sigma
    inner product manipulation     -epsilon mu

with mu the mean and sigma the standard deviations (per entry, divided by the number of senders) of
the honest senders that are present. If there are none, Byzantine senders send honest messages.
"""

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtri
from jax.typing import ArrayLike

from fedjax_admm._checks import build, declared, option, optional, ranged, scalar
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.kernels import safe_norm
from fedjax_admm.messages.attacks._byzantine import (
    ByzantineAttack,
    ByzantineClients,
    byzantine,
    honest_mean,
    honest_number,
    rows_of,
    with_false,
)

# Steps of the power iteration of `mimic`, from the honest message farthest from the mean.
_STEPS = 8


@pytree_dataclass
class Mimic(ByzantineAttack):
    """The message of one honest sender, over-represented; build it with `mimic`."""

    byzantine: ByzantineClients
    whom: str = option("extreme", "first")

    def __call__(self, values, byzantine, present, memory, key):
        """Send the message of the most extreme honest sender of this call, or of the first one."""
        honest = present & ~byzantine
        score = honest.astype(values.dtype)
        if self.whom == "extreme":
            score = jnp.where(honest, _reach(jax.lax.stop_gradient(values), honest), -1)
        copied = jnp.argmax(score)
        return with_false(values, values[copied][None], byzantine & present, honest), memory


@pytree_dataclass
class ALittleIsEnough(ByzantineAttack):
    """As far from the mean as goes unnoticed; build it with `a_little_is_enough`."""

    byzantine: ByzantineClients
    # shape=(); None: from the counts of those who are present
    z: jax.Array | None = declared(optional(scalar))

    def __call__(self, values, byzantine, present, memory, key):
        """Send mu - z sigma."""
        honest, colluding = present & ~byzantine, byzantine & present
        mean = honest_mean(values, honest)[None]
        apart = jnp.where(rows_of(honest, values), values - mean, 0)
        root = jnp.sqrt(honest_number(honest).astype(values.dtype))
        deviation = safe_norm(apart, axis=0)[None] / root
        z = _unnoticed(honest, colluding) if self.z is None else self.z
        return with_false(
            values, mean - z.astype(values.dtype) * deviation, colluding, honest
        ), memory


@pytree_dataclass
class InnerProductManipulation(ByzantineAttack):
    """Against the mean of the honest; build it with `inner_product_manipulation`."""

    byzantine: ByzantineClients
    epsilon: jax.Array = ranged(at_least=0)  # shape=()

    def __call__(self, values, byzantine, present, memory, key):
        """Send -epsilon mu."""
        honest = present & ~byzantine
        false = -self.epsilon.astype(values.dtype) * honest_mean(values, honest)[None]
        return with_false(values, false, byzantine & present, honest), memory


def mimic(
    share: ArrayLike | None = None, whom: str = "extreme", *, who: ArrayLike | None = None
) -> Mimic:
    """Build the attack in which all copy one honest sender, whose vote then counts too much.

    No message is out of the ordinary: it hurts where honest senders differ. The published attack
    learns a direction over many rounds and then copies one sender for good; here the choice is made
    anew from the messages of every call, without a memory.

    Args:
      share: as in `sign_flip`.
      whom: "extreme", the honest sender who is farthest from the mean along the leading direction
        of the honest spread, found by 8 power steps from the honest message farthest from the mean;
        or "first", the first in order of those who are present, which is one fixed sender where all
        are.
      who: as in `sign_flip`.

    Reference: S. P. Karimireddy, L. He, M. Jaggi, "Byzantine-Robust Learning on Heterogeneous
    Datasets via Bucketing", ICLR 2022, arXiv:2006.09365.
    """
    return build(Mimic, byzantine=byzantine(share, who), whom=whom)


def a_little_is_enough(
    share: ArrayLike | None = None, z: ArrayLike | None = None, *, who: ArrayLike | None = None
) -> ALittleIsEnough:
    r"""Build the attack of senders that all send mu - z sigma.

    With n senders present, f of them Byzantine senders, and h = n - f, the largest z at which a
    majority of the senders is farther from the mean than the Byzantine senders are, if messages
    are normal, is

        z = \Phi^{-1}((h - s) / h),   s = floor(n / 2 + 1) - f

    where s is the number of honest senders that the Byzantine senders need on their side; for a
    single Byzantine sender it is zero (odd n) or a little below. The formula needs 0 < s < h:
    outside s is moved to the nearest of 1 and h - 1, so that Byzantine senders in the majority say
    the largest finite z, and with fewer than two honest senders, where sigma is 0, they say mu.

    Args:
      share: as in `sign_flip`.
      z: how many standard deviations, of either sign; the formula's, from those who are present in
        every call, if None.
      who: as in `sign_flip`.

    Reference: G. Baruch, M. Baruch, Y. Goldberg, "A Little Is Enough: Circumventing Defenses For
    Distributed Learning", NeurIPS 2019, arXiv:1902.06156, Algorithm 3.
    """
    return build(ALittleIsEnough, byzantine=byzantine(share, who), z=z)


def inner_product_manipulation(
    share: ArrayLike | None = None, epsilon: ArrayLike = 0.5, *, who: ArrayLike | None = None
) -> InnerProductManipulation:
    """Build the attack of senders that all send -epsilon mu.

    Against the mean of n messages of which f are false, it turns the direction around if epsilon >
    (n - f) / f; a small one hides among honest messages that differ much.

    Args:
      share: as in `sign_flip`.
      epsilon: not negative.
      who: as in `sign_flip`.

    Reference: C. Xie, O. Koyejo, I. Gupta, "Fall of Empires: Breaking Byzantine-tolerant SGD by
    Inner Product Manipulation", UAI 2019, arXiv:1903.03936.
    """
    return build(InnerProductManipulation, byzantine=byzantine(share, who), epsilon=epsilon)


def _reach(values: jax.Array, honest: jax.Array) -> jax.Array:
    """Return how far rows are from the mean along the leading direction of the honest spread."""
    apart = jnp.where(rows_of(honest, values), values - honest_mean(values, honest)[None], 0)
    apart = apart.reshape(values.shape[0], -1)
    largest = jnp.max(jnp.abs(apart))
    apart = apart / jnp.where(largest > 0, largest, 1)

    def step(along, _):
        along = jnp.matmul(apart.T, jnp.matmul(apart, along))
        length = safe_norm(along)
        return along / jnp.where(length > 0, length, 1), None

    start = apart[jnp.argmax(jnp.sum(apart * apart, -1))]
    return jnp.abs(jnp.matmul(apart, jax.lax.scan(step, start, length=_STEPS)[0]))


def _unnoticed(honest: jax.Array, colluding: jax.Array) -> jax.Array:
    """Return the z of `a_little_is_enough`, from how many are honest and how many collude."""
    there, colluders = jnp.sum(honest, dtype=jnp.int32), jnp.sum(colluding, dtype=jnp.int32)
    needed = (there + colluders) // 2 + 1 - colluders
    needed = jnp.clip(needed, 1, jnp.maximum(there - 1, 1))
    kind = jnp.result_type(float)
    share = (there - needed).astype(kind) / jnp.maximum(there, 1).astype(kind)
    return ndtri(jnp.where(there > 1, share, 0.5).astype(kind))
