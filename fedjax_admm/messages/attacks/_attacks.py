"""Attacks: what Byzantine senders send in the place of their messages.

An attack is a pytree with

    who(key, number) -> bool (number,)                   who is Byzantine, drawn once per run
    init(values) -> memory                               of all senders, before the first message
    __call__(values, byzantine, present, memory, key) -> (messages, memory)

In the place of its honest message x_l a Byzantine sender l sends

    sign flip            -c x_l
    scaled noise         N(0, c^2 I), or mu + N(0, c^2 I), mu the mean of the honest who are present
    constant message     v
    stale replay         its own honest message of some messages ago

or an attack of `_collusions`. Attacks come before compression; absent senders send nothing.
"""

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, counted, declared, number, option, ranged
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm._threefry import one_loop
from fedjax_admm.messages.attacks._byzantine import (
    ByzantineAttack,
    ByzantineClients,
    byzantine,
    honest_mean,
    with_false,
)


class Attack(Protocol):
    """An attack of Byzantine senders."""

    def who(self, key: jax.Array, number: int) -> jax.Array:
        """Return which senders are Byzantine in a run with this key, bool, shape (number,)."""
        ...

    def init(self, values: jax.Array) -> Any:
        """Return the memory of the senders, stacked, for messages like values (n, ...)."""
        ...

    def __call__(
        self,
        values: jax.Array,
        byzantine: jax.Array,
        present: jax.Array,
        memory: Any,
        key: jax.Array,
        /,
    ) -> tuple[jax.Array, Any]:
        """Return the messages that are sent, and the memory.

        Args:
          values: honest messages, shape (k, ...).
          byzantine: which senders are Byzantine, bool, shape (k,).
          present: which senders send, bool, shape (k,).
          memory: of these k senders.
          key: a typed key, for this call alone.

        Returns:
          The false messages of Byzantine senders who are present, all other rows as they are; and
          the memory.
        """
        ...


@pytree_dataclass
class NoAttack:
    """Nobody is Byzantine; build it with `no_attack`."""

    def who(self, key, number):
        """Return False for everybody."""
        return jnp.zeros(number, bool)

    def init(self, values):
        """Remember nothing."""
        return ()

    def __call__(self, values, byzantine, present, memory, key):
        """Return the values."""
        return values, memory


@pytree_dataclass
class SignFlip(ByzantineAttack):
    """The message with another sign; build it with `sign_flip`."""

    byzantine: ByzantineClients
    scale: jax.Array = ranged(at_least=0)  # shape=()

    def __call__(self, values, byzantine, present, memory, key):
        """Send -c x."""
        return with_false(
            values, -self.scale.astype(values.dtype) * values, byzantine & present
        ), memory


@pytree_dataclass
class ScaledNoise(ByzantineAttack):
    """Normal noise, every Byzantine sender with its own; build it with `scaled_noise`."""

    byzantine: ByzantineClients
    deviation: jax.Array = ranged(at_least=0)  # shape=(), in the unit of the messages
    around: str = option("zero", "mean")

    def __call__(self, values, byzantine, present, memory, key):
        """Send N(0, c^2 I), around zero or the mean of the honest."""
        noise = jax.random.normal(one_loop(key), values.shape, values.dtype)
        false = self.deviation.astype(values.dtype) * noise
        if self.around == "zero":
            return with_false(values, false, byzantine & present), memory
        honest = present & ~byzantine
        return with_false(
            values, false + honest_mean(values, honest)[None], byzantine & present, honest
        ), memory


@pytree_dataclass
class ConstantMessage(ByzantineAttack):
    """The same message always; build it with `constant_message`."""

    byzantine: ByzantineClients
    value: jax.Array = declared(number)  # of a shape that broadcasts to that of a message

    def __call__(self, values, byzantine, present, memory, key):
        """Send v."""
        false = jnp.broadcast_to(self.value.astype(values.dtype), values.shape[1:])
        return with_false(values, false[None], byzantine & present), memory


class Past(NamedTuple):
    """Memory of `stale_replay`, stacked over senders."""

    messages: jax.Array  # shape=(n, age, ...): the last ones, in turn
    sent: jax.Array  # shape=(n,), int32: messages so far


@pytree_dataclass
class StaleReplay(ByzantineAttack):
    """An old honest message; build it with `stale_replay`."""

    byzantine: ByzantineClients
    age: int = counted()  # in messages of the sender

    def init(self, values):
        """Keep room for the last `age` messages of everybody."""
        shape = (values.shape[0], self.age, *values.shape[1:])
        return Past(jnp.zeros(shape, values.dtype), jnp.zeros(values.shape[0], jnp.int32))

    def __call__(self, values, byzantine, present, memory, key):
        """Send the honest message t - age, or the first one."""
        rows = jnp.arange(values.shape[0], dtype=jnp.int32)
        turn = memory.sent % self.age
        # The place of this message holds that of `age` messages ago.
        old = memory.messages[rows, jnp.where(memory.sent < self.age, 0, turn)]
        false = with_false(values, old, memory.sent > 0)
        stored = with_false(memory.messages[rows, turn], values, present)
        sent = memory.sent + present.astype(jnp.int32)
        past = Past(memory.messages.at[rows, turn].set(stored), sent)
        return with_false(values, false, byzantine & present), past


def no_attack() -> NoAttack:
    """Build the attack in which nobody is Byzantine."""
    return NoAttack()


def sign_flip(
    share: ArrayLike | None = None, scale: ArrayLike = 1.0, *, who: ArrayLike | None = None
) -> SignFlip:
    """Build the attack of senders that send -c times their own message.

    Args:
      share: of Byzantine senders, in [0, 1): `floor(share n)` of n, drawn uniformly for every run.
      scale: c, not negative.
      who: bool, shape (senders,), in the place of a share: exactly these are Byzantine.
    """
    return build(SignFlip, byzantine=byzantine(share, who), scale=scale)


def scaled_noise(
    share: ArrayLike | None = None,
    deviation: ArrayLike = 1.0,
    *,
    around: str = "zero",
    who: ArrayLike | None = None,
) -> ScaledNoise:
    """Build the attack of senders that send normal noise, each its own in every message.

    Args:
      share: as in `sign_flip`.
      deviation: standard deviation of every entry, in the unit of the messages.
      around: "zero", or "mean" for that of the honest who are present.
      who: as in `sign_flip`.
    """
    senders = byzantine(share, who)
    return build(ScaledNoise, byzantine=senders, deviation=deviation, around=around)


def constant_message(
    share: ArrayLike | None = None, value: ArrayLike = 0.0, *, who: ArrayLike | None = None
) -> ConstantMessage:
    """Build the attack of senders that always send the same.

    Args:
      share: as in `sign_flip`.
      value: what they send: a number, or an array whose shape broadcasts to that of a message.
      who: as in `sign_flip`.
    """
    return build(ConstantMessage, byzantine=byzantine(share, who), value=value)


def stale_replay(
    share: ArrayLike | None = None, age: int = 10, *, who: ArrayLike | None = None
) -> StaleReplay:
    """Build the attack of senders that send their own honest message of some messages ago.

    Until there are as many, it is the first message. It remembers `age` messages of every sender.

    Args:
      share: as in `sign_flip`.
      age: how many of the sender's own messages ago; static.
      who: as in `sign_flip`.
    """
    return build(StaleReplay, byzantine=byzantine(share, who), age=age)
