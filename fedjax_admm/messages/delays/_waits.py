"""The laws of delays: how long messages wait.

    fixed          b
    bounded        uniform on 0, 1, ..., b
    geometric      P(wait = k) = p (1 - p)^k,          p = 1 / (1 + mean)
    heavy tailed   P(wait >= k) = (1 + k / scale)^-a,  a discrete Pareto (Lomax) law
    lossy          never, with a probability; else as another delay
    replay         given waits

Waits are whole rounds, drawn for every message by itself.
"""

from dataclasses import field
from functools import partial
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import (
    build,
    count,
    counted,
    declared,
    flag,
    flagged,
    is_concrete,
    number,
    of_shape,
    option,
    refuse,
    whole_numbers,
)
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm._threefry import one_loop, split
from fedjax_admm.messages.delays._delays import Delay, Prompt, check_delay


def _one_or_each(name: str, value: ArrayLike, **limits: float) -> jax.Array:
    numbers = number(name, value, **limits)
    of_shape(name, numbers, (), (None,))
    return numbers


@pytree_dataclass
class FixedDelay:
    """The same wait always; build it with `fixed_delay`."""

    rounds: jax.Array  # shape=() or (senders,), int32
    depth: int = field(metadata={"static": True})

    loses = False
    in_order = True

    def draw(self, key, index, number):
        """Return b."""
        return jnp.minimum(_each("rounds", self.rounds, number), self.depth)


@pytree_dataclass
class UniformDelay:
    """Waits up to a bound; build it with `bounded_delay`."""

    rounds: jax.Array  # shape=() or (senders,), int32
    depth: int = field(metadata={"static": True})
    in_order: bool = field(metadata={"static": True})

    loses = False

    def draw(self, key, index, number):
        """Draw from 0, 1, ..., b, all as likely."""
        most = jnp.minimum(_each("rounds", self.rounds, number), self.depth)
        return jax.random.randint(one_loop(key), (number,), 0, most + 1, jnp.int32)


class _Cut:
    """Delays whose long waits are lost, or end at the depth."""

    late: str

    @property
    def loses(self) -> bool:
        """Return whether messages that wait longer than the depth are lost."""
        return self.late == "lost"


@pytree_dataclass
class GeometricDelay(_Cut):
    """Memoryless waits; build it with `geometric_delay`."""

    # shape=() or (senders,), in rounds
    mean: jax.Array = declared(partial(_one_or_each, at_least=0))
    depth: int = counted(at_least=0)
    late: str = option("lost", "last")
    in_order: bool = flagged()

    def draw(self, key, index, number):
        """Return the whole part of an exponential draw over -log(1 - p) = log(1 + 1 / mean)."""
        mean = _each("mean", self.mean, number)
        some = mean > 0
        rate = jnp.log1p(1 / jnp.where(some, mean, 1))
        draws = jax.random.exponential(one_loop(key), (number,), mean.dtype)
        return _cut(jnp.where(some, draws / rate, 0), self.depth, self.late)


@pytree_dataclass
class HeavyTailedDelay(_Cut):
    """Mostly short waits, and a few of any length; build it with `heavy_tailed_delay`."""

    # shape=() or (senders,): a, and the scale in rounds
    exponent: jax.Array = declared(partial(_one_or_each, above=0))
    scale: jax.Array = declared(partial(_one_or_each, above=0))
    depth: int = counted(at_least=0)
    late: str = option("lost", "last")
    in_order: bool = flagged()

    def draw(self, key, index, number):
        """Return the whole part of scale (U^(-1 / a) - 1)."""
        exponent = _each("exponent", self.exponent, number)
        scale = _each("scale", self.scale, number).astype(exponent.dtype)
        draws = jax.random.exponential(one_loop(key), (number,), exponent.dtype)
        return _cut(scale * jnp.expm1(draws / exponent), self.depth, self.late)


@pytree_dataclass
class Lossy:
    """Some messages are lost; build it with `lossy`."""

    # shape=() or (senders,)
    probability: jax.Array = declared(partial(_one_or_each, at_least=0, at_most=1))
    delay: Delay = declared(check_delay)  # of those that are not

    loses = True

    @property
    def depth(self) -> int:
        """Return the depth of the other delay."""
        return self.delay.depth

    @property
    def in_order(self) -> bool:
        """Return whether messages that arrive do so in order."""
        return self.delay.in_order

    def draw(self, key, index, number):
        """Return the other delay's wait, or never."""
        lost_key, wait_key = split(key)
        probability = _each("probability", self.probability, number)
        lost = jax.random.bernoulli(one_loop(lost_key), probability)
        return jnp.where(lost, self.depth + 1, self.delay.draw(wait_key, index, number))


@pytree_dataclass
class ReplayDelays:
    """Waits that are given in advance; build it with `replay_delays`."""

    waits: jax.Array  # shape=(rounds, senders), int32
    depth: int = field(metadata={"static": True})
    loses: bool = field(metadata={"static": True})
    in_order: bool = field(metadata={"static": True})

    def draw(self, key, index, number):
        """Return the waits of round `index`."""
        row = jax.lax.dynamic_index_in_dim(self.waits, index, 0, keepdims=False)
        return _each("waits", row, number)


def fixed_delay(rounds: ArrayLike, depth: int | None = None) -> FixedDelay | Prompt:
    """Build the delay of messages that all wait equally long.

    Args:
      rounds: how long, a whole number for all senders, or one for each, shape (senders,).
      depth: the longest of them, where they are traced; longer ones are cut to it then.
    """
    waits, depth = _whole(rounds, depth)
    return FixedDelay(waits, depth) if depth else Prompt()


def bounded_delay(
    rounds: ArrayLike, depth: int | None = None, *, in_order: bool = False
) -> UniformDelay | Prompt:
    """Build the delay of messages that wait 0, 1, ... or b rounds, all as likely.

    Args:
      rounds: b, for all senders, or one for each, shape (senders,).
      depth: as in `fixed_delay`.
      in_order: whether no message overtakes an earlier one of its sender.
    """
    waits, depth = _whole(rounds, depth)
    in_order = flag("in_order", in_order)
    return UniformDelay(waits, depth, in_order) if depth else Prompt()


def geometric_delay(
    mean: ArrayLike, depth: int, *, late: str = "lost", in_order: bool = False
) -> GeometricDelay | Prompt:
    """Build the delay of messages of which a share p = 1 / (1 + mean) arrives in every round.

    Args:
      mean: wait in rounds, before it is cut, not negative; for all senders or one for each.
      depth: rounds of waiting after which nothing more is heard; static. The links take the memory
        of depth + 1 messages of every sender. (mean / (1 + mean))^(depth + 1) of all wait longer.
      late: what becomes of those: "lost", or "last", where they are heard after `depth` rounds.
      in_order: whether no message overtakes an earlier one of its sender.

    Returns:
      The delay; `Prompt` where the depth is 0 and nothing is lost.
    """
    delay = build(GeometricDelay, **locals())
    return delay if depth or delay.loses else Prompt()


def heavy_tailed_delay(
    exponent: ArrayLike,
    depth: int,
    *,
    scale: ArrayLike = 1.0,
    late: str = "lost",
    in_order: bool = False,
) -> HeavyTailedDelay | Prompt:
    """Build the delay of messages with `P(wait >= k) = (1 + k / scale)^-exponent`.

    The mean wait is infinite where the exponent is 1 or less, before it is cut; with scale 1 it is
    the Riemann zeta function of the exponent, less 1.

    Args:
      exponent: positive; for all senders or one for each.
      depth: as in `geometric_delay`.
      scale: of the waits, in rounds, positive; for all senders or one for each.
      late: as in `geometric_delay`.
      in_order: whether no message overtakes an earlier one of its sender.

    Returns:
      The delay; `Prompt` where the depth is 0 and nothing is lost.
    """
    delay = build(HeavyTailedDelay, **locals())
    return delay if depth or delay.loses else Prompt()


def lossy(probability: ArrayLike, delay: Delay | None = None) -> Lossy:
    """Build the delay of messages that are lost with a probability.

    Args:
      probability: of a loss, for all senders or one for each, shape (senders,).
      delay: of messages that are not lost; `prompt()` if None.
    """
    return build(Lossy, **locals())


def replay_delays(
    waits: ArrayLike, depth: int | None = None, *, in_order: bool = False
) -> ReplayDelays:
    """Build the delay of messages whose waits are known: recorded, or those of another program.

    Args:
      waits: whole numbers, shape (rounds, senders), of every message by the absolute number of its
        round; after the last round its row goes on.
      depth: what waits longer than this is lost; nothing is if None.
      in_order: whether no message overtakes an earlier one of its sender.
    """
    of_shape("waits", waits, (None, None))
    whole, longest = _whole(waits, None, "waits")
    depth = longest if depth is None else count("depth", depth, at_least=0)
    return ReplayDelays(whole, depth, longest > depth, flag("in_order", in_order))


def _each(name: str, value: jax.Array, senders: int) -> jax.Array:
    """Return one number per sender."""
    of_shape(name, value, (), (senders,))
    return jnp.broadcast_to(value, (senders,))


def _cut(waits: jax.Array, depth: int, late: str) -> jax.Array:
    """Return whole rounds; longer waits become depth + 1 (lost), or the depth."""
    most = depth + 1 if late == "lost" else depth
    return jnp.minimum(waits, most).astype(jnp.int32)


def _whole(value: ArrayLike, depth: int | None, name: str = "rounds") -> tuple[jax.Array, int]:
    """Return waits as int32, and the longest."""
    if not is_concrete(value):
        told = "must be known before anything is traced, but it is traced"
        refuse(depth is None, name, told, remedy="give the longest as {depth}")
        return jnp.asarray(value, jnp.int32), count("depth", cast(int, depth), at_least=0)
    host = whole_numbers(name, value, np.shape(value))
    longest = count(name, int(np.max(host)), at_least=0)
    depth = longest if depth is None else count("depth", depth, at_least=longest)
    return jnp.asarray(host, jnp.int32), depth
