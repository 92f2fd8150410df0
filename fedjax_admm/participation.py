"""Participation: which clients take part in each round.

A participation process is a pytree with

    init(key, shape) -> state                              the first state, often empty
    draw(state, index, key, shape) -> (state, Presence)    the next state, and the active clients
    check(shape, rounds)                                   raises `InputError` before a run

`shape` is the shape of the mask that the solver asks for, usually `(clients,)`; `index` is the
absolute number of the round, from 0. The state is part of the round state of a run, so that a
resumed run draws the same clients.
"""

import math
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import (
    bool_array,
    build,
    count,
    declared,
    having,
    is_concrete,
    number,
    of_shape,
    positive,
    refuse,
    scalar,
)
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm._threefry import one_loop, split

__all__ = [
    "Participation",
    "Presence",
    "bernoulli",
    "everyone",
    "markov_on_off",
    "replay",
    "round_robin",
    "sampled",
    "where_active",
    "whole_rounds",
    "without_replacement",
]
Stacked = TypeVar("Stacked")


def __dir__() -> list[str]:
    return __all__


class Presence(NamedTuple):
    """The clients that take part in one round."""

    active: jax.Array  # bool, of the shape that the solver asks for
    sampled: jax.Array | None = None  # shape=(count,), int32: the active clients, where a fixed
    # number is drawn; a solver with heavy client work gathers these, updates and scatters them


class Participation(Protocol):
    """A process that draws the active clients of each round."""

    def init(self, key: jax.Array, shape: tuple[int, ...]) -> Any:
        """Return the process's first state."""
        ...

    def draw(
        self, state: Any, index: jax.Array, key: jax.Array, shape: tuple[int, ...]
    ) -> tuple[Any, Presence]:
        """Return the next state and the active clients of round `index`."""
        ...

    def check(self, shape: tuple[int, ...], rounds: int) -> None:
        """Raise `InputError` if the process cannot serve `rounds` rounds of masks of `shape`."""
        ...


def where_active(active: jax.Array, new: Stacked, old: Stacked) -> Stacked:
    """Keep the old state of inactive clients, over a whole pytree of stacked state.

    Args:
      active: bool mask; its axes are the leading axes of every leaf.
      new: the candidate state of all clients.
      old: the state before the round, of the same structure.

    Returns:
      A pytree with `new` where active and `old` elsewhere, dtypes unchanged.
    """

    def choose(new_leaf: jax.Array, old_leaf: jax.Array) -> jax.Array:
        mask = jnp.expand_dims(active, range(active.ndim, new_leaf.ndim))
        return jnp.where(mask, new_leaf, old_leaf)

    return jax.tree.map(choose, new, old)


class _Memoryless:
    """A process without a state, which fits any mask."""

    def init(self, key, shape):
        """Return the empty state."""
        return ()

    def check(self, shape, rounds):
        """Accept any mask."""


_PROBABILITY = partial(number, at_least=0, at_most=1)


@pytree_dataclass
class Everyone(_Memoryless):
    """Every client takes part in every round."""

    def draw(self, state, index, key, shape):
        """Activate all clients."""
        return state, Presence(jnp.ones(shape, bool))


@pytree_dataclass
class Bernoulli(_Memoryless):
    """Each client takes part with its own probability, independently of all else."""

    probability: jax.Array = declared(_PROBABILITY)  # shape=() or that of the mask

    def draw(self, state, index, key, shape):
        """Draw an independent mask."""
        return state, Presence(_bernoulli(key, self.probability, shape))

    def check(self, shape, rounds):
        """Check that the probabilities fit the mask."""
        _check_fits("probability", self.probability, shape)


@pytree_dataclass
class WithoutReplacement(_Memoryless):
    """A fixed number of clients, drawn uniformly without replacement in each round."""

    clients: int | None = declared(count, static=True, default=None)
    fraction: float | None = declared(
        lambda name, value: float(scalar(name, value, above=0, at_most=1)),
        static=True,
        default=None,
    )  # of the clients, instead of their number

    def count(self, shape: tuple[int, ...]) -> int:
        """Return the number of clients drawn from a mask of this shape."""
        if self.fraction is None:
            return self.clients or 0
        return max(1, round(self.fraction * math.prod(shape)))

    def draw(self, state, index, key, shape):
        """Draw different clients, listed in `sampled` in increasing order."""
        total = math.prod(shape)
        order = jax.random.permutation(one_loop(key), total)
        sampled = jnp.sort(order[: self.count(shape)]).astype(jnp.int32)
        active = jnp.zeros(total, bool).at[sampled].set(True).reshape(shape)
        return state, Presence(active, sampled)

    def check(self, shape, rounds):
        """Check that there are as many clients as are to be drawn."""
        total = math.prod(shape)
        told = f"must be at most the number of clients ({total})"
        refuse(self.count(shape) > total, "clients", told, self.clients)


@pytree_dataclass
class BoundedDelay:
    """Each client acts at least once in every `delay` rounds.

    A client acts with the given probability, and always after `delay - 1` silent rounds. The
    clients start staggered, so that probability 0 is the plain round robin with period `delay`.
    """

    delay: jax.Array = declared(lambda name, value: _whole(name, value))  # shape=(), int32
    probability: jax.Array = declared(_PROBABILITY)  # shape=() or that of the mask

    def init(self, key, shape):
        """Start client l with `l mod delay` silent rounds behind it."""
        return (jnp.arange(math.prod(shape), dtype=jnp.int32) % self.delay).reshape(shape)

    def draw(self, state, index, key, shape):
        """Draw a mask, and activate the clients that were silent for `delay - 1` rounds."""
        active = _bernoulli(key, self.probability, shape) | (state >= self.delay - 1)
        return jnp.where(active, 0, state + 1), Presence(active)

    check = Bernoulli.check


@pytree_dataclass
class MarkovOnOff:
    """Each client is a chain with two states, so that it is on or off for several rounds."""

    turn_on: jax.Array = positive(at_most=1, stacked=True)  # probability that a silent client wakes
    turn_off: jax.Array = positive(at_most=1, stacked=True)  # that an active one falls silent

    def init(self, key, shape):
        """Draw the state before the first round from the stationary distribution."""
        return _bernoulli(key, self.turn_on / (self.turn_on + self.turn_off), shape)

    def draw(self, state, index, key, shape):
        """Move every client's chain by one step."""
        wake_key, sleep_key = split(key)
        wakes = _bernoulli(wake_key, self.turn_on, shape)
        sleeps = _bernoulli(sleep_key, self.turn_off, shape)
        active = jnp.where(state, ~sleeps, wakes)
        return active, Presence(active)

    def check(self, shape, rounds):
        """Check that the probabilities fit the mask."""
        _check_fits("turn_on", self.turn_on, shape)
        _check_fits("turn_off", self.turn_off, shape)


@pytree_dataclass
class Replay(_Memoryless):
    """Masks given in advance: recorded ones, or those of a reference implementation."""

    masks: jax.Array = declared(lambda name, value: _masks(name, value))  # bool, (rounds, *mask)

    def draw(self, state, index, key, shape):
        """Return the mask of round `index`."""
        return state, Presence(jax.lax.dynamic_index_in_dim(self.masks, index, 0, keepdims=False))

    def check(self, shape, rounds):
        """Check that there is a mask of the right shape for every round."""
        of_shape("masks", self.masks, (None, *shape))
        told = f"holds {len(self.masks)} rounds, but the run needs {rounds}"
        refuse(
            len(self.masks) < rounds, "masks", told, remedy="give more masks, or run fewer rounds"
        )


@pytree_dataclass
class WholeRounds:
    """One draw for all passes of a round: an absent client is absent in every pass."""

    process: Participation = declared(lambda name, value: check_process(name, value))  # over nodes

    def init(self, key, shape):
        """Return the first state of the process over nodes."""
        return self.process.init(key, shape[1:])

    def draw(self, state, index, key, shape):
        """Draw once and repeat it for every pass."""
        state, presence = self.process.draw(state, index, key, shape[1:])
        return state, Presence(jnp.broadcast_to(presence.active, shape))

    def check(self, shape, rounds):
        """Check the process on the nodes alone."""
        told = "whole_rounds is for solvers with several passes per round, which this one has not"
        refuse(len(shape) < 2, None, told, remedy="use the process alone")
        self.process.check(shape[1:], rounds)


def everyone() -> Everyone:
    """Every client takes part in every round."""
    return Everyone()


def bernoulli(probability: ArrayLike) -> Bernoulli:
    """Each client takes part with a probability, one for all or one per client, in [0, 1]."""
    return build(Bernoulli, **locals())


def without_replacement(clients: int) -> WithoutReplacement:
    """Draw this many different clients in each round, uniformly."""
    return build(WithoutReplacement, **locals())


def sampled(fraction: float) -> WithoutReplacement:
    """Draw a fraction of the clients in each round, uniformly and without replacement.

    Args:
      fraction: of all clients, in (0, 1], rounded to a whole number, which is at least 1.

    Returns:
      The process; `without_replacement` takes the number of clients instead.
    """
    return build(WithoutReplacement, **locals())


def round_robin(delay: ArrayLike, probability: ArrayLike = 0.0) -> BoundedDelay:
    """Each client acts at least once in every `delay` rounds.

    Args:
      delay: rounds, one number for all clients.
      probability: of acting in any round; 0, the plain round robin, if left out.
    """
    return build(BoundedDelay, **locals())


def markov_on_off(turn_on: ArrayLike, turn_off: ArrayLike) -> MarkovOnOff:
    """Each client is on or off for several rounds: a Markov chain with two states.

    Args:
      turn_on: probability that a silent client takes part in the next round, in (0, 1].
      turn_off: probability that an active client does not, in (0, 1].
    """
    return build(MarkovOnOff, **locals())


def whole_rounds(process: Participation) -> WholeRounds:
    """Draw once per round where a solver makes several passes, as the hierarchical ones do.

    Args:
      process: over nodes, such as `bernoulli(0.5)`; alone, it draws every pass anew.
    """
    return build(WholeRounds, **locals())


def replay(masks: ArrayLike) -> Replay:
    """Repeat recorded masks, a bool array of shape `(rounds,) + mask shape`."""
    return build(Replay, **locals())


check_process = having(
    "init", "draw", "check", kind="a participation process such as bernoulli(0.5)"
)
"""The check of a participation process, which is no number and no builder."""


def _whole(name: str, value: Any) -> jax.Array:
    if is_concrete(value):
        scalar(name, value)
        value = count(name, np.asarray(value).item())
    return jnp.array(value, dtype=jnp.int32)


def _masks(name: str, value: Any) -> jax.Array:
    masks = bool_array(name, value)
    refuse(
        masks.ndim < 2, name, f"must have axes (rounds, clients), but its shape is {masks.shape}"
    )
    return masks


def _bernoulli(key: jax.Array, probability: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jax.random.bernoulli(one_loop(key), jnp.broadcast_to(probability, shape))


def _check_fits(name: str, value: jax.Array, shape: tuple[int, ...]) -> None:
    of_shape(name, value, (), shape)
