"""Participation: who takes part in a round. Asynchrony lives here and nowhere else.

A participation process is a pytree with

    init(key, shape) -> state                       what it must remember (may be empty)
    draw(state, index, key, shape) -> (state, Presence)
    check(shape, rounds)                            eager, one clear sentence

`shape` is the shape of the mask that the solver asks for, usually `(clients,)`; `index` is the
absolute number of the round from 0. The state is part of the round state of a run: without it a
bounded-delay or Markov run would not resume to the same numbers.
"""

import math
from dataclasses import field
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import (
    InputError,
    count,
    is_concrete,
    number,
    one_line,
    real_array,
    shape_text,
)
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm._shown import short_repr

Stacked = TypeVar("Stacked")


@short_repr
class Presence(NamedTuple):
    """Who takes part in one round."""

    active: jax.Array  # bool, of the shape that the solver asks for
    sampled: jax.Array | None = None  # shape=(count,), int32: the active ones, where a fixed
    # number is drawn; a solver with heavy client work gathers these, updates and scatters them


class Participation(Protocol):
    """A process that draws who is active in each round."""

    def init(self, key: jax.Array, shape: tuple[int, ...]) -> Any:
        """Return the process's first state."""
        ...

    def draw(
        self, state: Any, index: jax.Array, key: jax.Array, shape: tuple[int, ...]
    ) -> tuple[Any, Presence]:
        """Return the next state and who is active in round `index`."""
        ...

    def check(self, shape: tuple[int, ...], rounds: int) -> None:
        """Raise `InputError` if the process cannot serve `rounds` rounds of masks of `shape`."""
        ...


def where_active(active: jax.Array, new: Stacked, old: Stacked) -> Stacked:
    """Keep `old` for those who are not active, over a whole pytree of stacked state.

    Args:
      active: bool mask; its axes are the leading axes of every leaf.
      new: the candidate state of everybody.
      old: the state before the round, of the same structure.

    Returns:
      A pytree with `new` where active and `old` elsewhere, dtypes unchanged.
    """

    def choose(new_leaf: jax.Array, old_leaf: jax.Array) -> jax.Array:
        mask = jnp.expand_dims(active, range(active.ndim, new_leaf.ndim))
        return jnp.where(mask, new_leaf, old_leaf)

    return jax.tree.map(choose, new, old)


@pytree_dataclass
class Everyone:
    """Everybody takes part in every round."""

    def init(self, key, shape):
        """Remember nothing."""
        return ()

    def draw(self, state, index, key, shape):
        """Activate everybody."""
        return state, Presence(jnp.ones(shape, bool))

    def check(self, shape, rounds):
        """Fit any mask."""


@pytree_dataclass
class Bernoulli:
    """Each client takes part with its own probability, independently of all else."""

    probability: jax.Array  # shape=() or that of the mask

    def init(self, key, shape):
        """Remember nothing."""
        return ()

    def draw(self, state, index, key, shape):
        """Draw an independent mask."""
        return state, Presence(_bernoulli(key, self.probability, shape))

    def check(self, shape, rounds):
        """Check that the probabilities fit the mask."""
        _check_fits("probability", self.probability, shape)


@pytree_dataclass
class WithoutReplacement:
    """A fixed number of clients, drawn uniformly without replacement in each round."""

    count: int = field(metadata={"static": True})

    def init(self, key, shape):
        """Remember nothing."""
        return ()

    def draw(self, state, index, key, shape):
        """Draw `count` different clients, listed in `sampled` in increasing order."""
        total = math.prod(shape)
        sampled = jnp.sort(jax.random.permutation(key, total)[: self.count]).astype(jnp.int32)
        active = jnp.zeros(total, bool).at[sampled].set(True).reshape(shape)
        return state, Presence(active, sampled)

    def check(self, shape, rounds):
        """Check that there are as many clients as are to be drawn."""
        if self.count > math.prod(shape):
            raise InputError(
                f"must be at most the number of clients ({math.prod(shape)}), "
                f"but it is {self.count}",
                argument="clients",
                value=self.count,
            )


@pytree_dataclass
class BoundedDelay:
    """Nobody is silent for long: each client acts at least once in every `delay` rounds.

    A client acts with the given probability, and always after `delay - 1` silent rounds. The
    clients start staggered, so that probability 0 is the plain round robin with period `delay`.
    """

    delay: jax.Array  # shape=(), int32
    probability: jax.Array  # shape=() or that of the mask

    def init(self, key, shape):
        """Start client l with `l mod delay` silent rounds behind it."""
        return (jnp.arange(math.prod(shape), dtype=jnp.int32) % self.delay).reshape(shape)

    def draw(self, state, index, key, shape):
        """Draw a mask, and activate whoever has been silent for `delay - 1` rounds."""
        active = _bernoulli(key, self.probability, shape) | (state >= self.delay - 1)
        return jnp.where(active, 0, state + 1), Presence(active)

    def check(self, shape, rounds):
        """Check that the probabilities fit the mask."""
        _check_fits("probability", self.probability, shape)


@pytree_dataclass
class MarkovOnOff:
    """Each client is a two-state chain: it goes on and off for whole stretches of rounds."""

    turn_on: jax.Array  # shape=() or that of the mask: probability that a silent client wakes
    turn_off: jax.Array  # shape=() or that of the mask: probability that an active one sleeps

    def init(self, key, shape):
        """Draw the state before the first round from the stationary distribution."""
        return _bernoulli(key, self.turn_on / (self.turn_on + self.turn_off), shape)

    def draw(self, state, index, key, shape):
        """Move every client's chain by one step."""
        wake_key, sleep_key = jax.random.split(key)
        wakes = _bernoulli(wake_key, self.turn_on, shape)
        sleeps = _bernoulli(sleep_key, self.turn_off, shape)
        active = jnp.where(state, ~sleeps, wakes)
        return active, Presence(active)

    def check(self, shape, rounds):
        """Check that the probabilities fit the mask."""
        _check_fits("turn_on", self.turn_on, shape)
        _check_fits("turn_off", self.turn_off, shape)


@pytree_dataclass
class Replay:
    """Masks given in advance: recorded ones, or those of a reference implementation."""

    masks: jax.Array  # bool, shape=(rounds,) + that of the mask

    def init(self, key, shape):
        """Remember nothing."""
        return ()

    def draw(self, state, index, key, shape):
        """Return the mask of round `index`."""
        return state, Presence(jax.lax.dynamic_index_in_dim(self.masks, index, 0, keepdims=False))

    def check(self, shape, rounds):
        """Check that there is a mask of the right shape for every round."""
        if self.masks.shape[1:] != shape:
            raise InputError(
                f"must have shape {shape_text(('rounds', *shape))}, but it has {self.masks.shape}",
                argument="masks",
                value=self.masks,
            )
        if self.masks.shape[0] < rounds:
            raise InputError(
                f"holds {self.masks.shape[0]} rounds, but the run needs {rounds}",
                argument="masks",
                value=self.masks,
                remedy="give more masks or run fewer rounds",
            )


@pytree_dataclass
class WholeRounds:
    """Who is absent is absent for the whole round: one draw for all passes of a round.

    For solvers whose mask has the axes (passes, nodes), such as the hierarchical ones.
    """

    process: Participation  # over nodes

    def init(self, key, shape):
        """Return the first state of the process over nodes."""
        return self.process.init(key, shape[1:])

    def draw(self, state, index, key, shape):
        """Draw once and repeat it for every pass."""
        state, presence = self.process.draw(state, index, key, shape[1:])
        return state, Presence(jnp.broadcast_to(presence.active, shape))

    def check(self, shape, rounds):
        """Check the process on the nodes alone."""
        if len(shape) < 2:
            raise InputError(
                "whole_rounds is for solvers with several passes per round, whose masks have axes "
                f"(passes, nodes), but this one asks for masks of shape {shape}",
                value=self,
                remedy="use the process alone",
            )
        self.process.check(shape[1:], rounds)


def everyone() -> Everyone:
    """Everybody takes part in every round."""
    return Everyone()


def bernoulli(probability: ArrayLike) -> Bernoulli:
    """Build `Bernoulli`: one probability for all, or one per client."""
    return Bernoulli(number("probability", probability, at_least=0, at_most=1))


def without_replacement(clients: int) -> WithoutReplacement:
    """Build `WithoutReplacement`: this many different clients in each round."""
    return WithoutReplacement(count("clients", clients))


def round_robin(delay: ArrayLike, probability: ArrayLike = 0.0) -> BoundedDelay:
    """Build `BoundedDelay`: each client acts at least once in every `delay` rounds.

    Args:
      delay: rounds, one number for all clients.
      probability: of acting in any round; 0, the plain round robin, if left out.
    """
    if is_concrete(delay):
        real_array("delay", delay)
        if np.ndim(delay):
            raise InputError(
                f"must be one number, but it has shape {np.shape(delay)}",
                argument="delay",
                value=delay,
                remedy="use jax.vmap over several",
            )
        delay = count("delay", np.asarray(delay).item())
    return BoundedDelay(
        jnp.array(delay, dtype=jnp.int32),
        number("probability", probability, at_least=0, at_most=1),
    )


def markov_on_off(turn_on: ArrayLike, turn_off: ArrayLike) -> MarkovOnOff:
    """Build `MarkovOnOff` from the probabilities of waking and of falling asleep."""
    return MarkovOnOff(
        number("turn_on", turn_on, above=0, at_most=1),
        number("turn_off", turn_off, above=0, at_most=1),
    )


def whole_rounds(process: Participation) -> WholeRounds:
    """Build `WholeRounds` from a process over nodes, such as `bernoulli(0.5)`.

    Without it, the passes of a round are drawn one by one.
    """
    check_process("process", process)
    return WholeRounds(process)


def replay(masks: ArrayLike) -> Replay:
    """Build `Replay` from a bool array of shape `(rounds,) + mask shape`."""
    real_array("masks", masks)
    masks = jnp.asarray(masks)
    if masks.dtype != bool or masks.ndim < 2:
        raise InputError(
            "must be a bool array with axes (rounds, clients), "
            f"but it has dtype {masks.dtype} and shape {masks.shape}",
            argument="masks",
            value=masks,
        )
    return Replay(masks)


def check_process(name: str, process: Any) -> None:
    """Check that an argument is a participation process."""
    methods = ("init", "draw", "check")
    if isinstance(process, type) or not all(hasattr(process, method) for method in methods):
        raise InputError(
            "must be a participation process such as bernoulli(0.5), but it is "
            f"{one_line(process)}",
            argument=name,
            value=process,
        )


def _bernoulli(key: jax.Array, probability: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jax.random.bernoulli(key, jnp.broadcast_to(probability, shape))


def _check_fits(name: str, value: jax.Array, shape: tuple[int, ...]) -> None:
    if value.ndim and value.shape != shape:
        raise InputError(
            f"must be one number or have the shape of the mask {shape}, "
            f"but it has shape {value.shape}",
            argument=name,
            value=value,
        )
