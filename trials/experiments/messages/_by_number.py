"""Channels, attacks, aggregators and delays out of several, by number, and runs with them.

Methods that differ in their channel, attack or aggregator have different structures, and each would
be compiled by itself. Here a leaf chooses: such methods are one program, and where they run in turn
(`in_turn` of a method) only what is chosen is computed.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.kernels import safe_norm
from fedjax_admm.messages import Aggregator, Attack, Channel, Delay
from fedjax_admm.trials.experiments._methods import Method, SolverMethod


@pytree_dataclass
class AChannel(Channel):
    """One of several channels."""

    channels: tuple[Channel, ...]
    place: jax.Array  # shape=(), int32

    @property
    def in_order(self) -> bool:
        """Return whether one of them needs every message, and in order."""
        return any(channel.in_order for channel in self.channels)

    def init(self, message):
        """Return what the chosen one remembers, as one vector, as long as any of them needs."""
        states = [_vector(channel.init(message), message) for channel in self.channels]
        longest = max(state.size for state in states)
        return jax.lax.select_n(self.place, *[_padded(state, longest) for state in states])

    def encode(self, message, state, key):
        """Return what the chosen one makes of a message; the others are not computed."""
        ways = [partial(_encode, channel) for channel in self.channels]
        return jax.lax.switch(self.place, ways, message, state, key)

    def bits(self, shape):
        """Return the bits of the chosen one, whose place must be known."""
        return self.channels[int(self.place)].bits(shape)


def _encode(
    channel: Channel, message: jax.Array, state: jax.Array, key: jax.Array
) -> tuple[jax.Array, jax.Array]:
    first = channel.init(message)  # of which the shapes alone are used
    if not jax.tree.leaves(first):
        return channel.encode(message, first, key)[0], state
    vector, restored = ravel_pytree(first)
    arrives, new = channel.encode(message, restored(state[: vector.size]), key)
    return arrives, _padded(_vector(new, message), state.size)


def _vector(state: Any, message: jax.Array) -> jax.Array:
    leaves = [leaf.ravel() for leaf in jax.tree.leaves(state)]
    return jnp.concatenate([jnp.zeros(0, message.dtype), *leaves])


def _padded(vector: jax.Array, size: int) -> jax.Array:
    return jnp.concatenate([vector, jnp.zeros(size - vector.size, vector.dtype)])


@pytree_dataclass
class AnAttack:
    """One of several attacks, by the same Byzantine senders."""

    attacks: tuple[Attack, ...]
    place: jax.Array  # shape=(), int32

    @property
    def byzantine(self) -> Any:
        """Return who is Byzantine, where the first attack says it."""
        return getattr(self.attacks[0], "byzantine", None)

    def who(self, key, number):
        """Return who is Byzantine, as the first attack says."""
        return self.attacks[0].who(key, number)

    def init(self, values):
        """Return what each of them remembers."""
        return tuple(attack.init(values) for attack in self.attacks)

    def __call__(self, values, byzantine, present, memory, key):
        """Return what the chosen one tells; the others remember what they did."""

        def tell(place: int, values, byzantine, present, memory, key):
            told, new = self.attacks[place](values, byzantine, present, memory[place], key)
            return told, (*memory[:place], new, *memory[place + 1 :])

        ways = [partial(tell, place) for place in range(len(self.attacks))]
        return jax.lax.switch(self.place, ways, values, byzantine, present, memory, key)


@pytree_dataclass
class AnAggregator:
    """One of several aggregators."""

    aggregators: tuple[Aggregator, ...]
    place: jax.Array  # shape=(), int32

    def check(self, number):
        """Check that each of them serves groups of so many."""
        for aggregator in self.aggregators:
            aggregator.check(number)

    def __call__(self, values, weights, groups, number, previous):
        """Return what the chosen one makes of the vectors."""

        def make(aggregator: Aggregator, values, weights, groups, previous):
            return aggregator(values, weights, groups, number, previous)

        ways = [partial(make, aggregator) for aggregator in self.aggregators]
        return jax.lax.switch(self.place, ways, values, weights, groups, previous)


@pytree_dataclass
class ADelay:
    """One of several delays of equal depth, none of which keeps messages in order."""

    delays: tuple[Delay, ...]
    place: jax.Array  # shape=(), int32

    in_order = False

    @property
    def depth(self) -> int:
        """Return the longest wait."""
        return self.delays[0].depth

    @property
    def loses(self) -> bool:
        """Return whether one of them does."""
        return any(delay.loses for delay in self.delays)

    def draw(self, key, index, number):
        """Return the waits of the chosen one."""
        ways = [
            partial(lambda delay, key, index: delay.draw(key, index, number), delay)
            for delay in self.delays
        ]
        return jax.lax.switch(self.place, ways, key, index)


class SoughtMethod(Method):
    """A method whose error is the distance of the model from a solution that is known."""

    in_turn = True

    def sought(self, problem):
        """Return what is asked of the method: with a solution, and the unit of the error."""
        raise NotImplementedError

    def __call__(self, problem, key, rounds, every):
        """Run the solver; "error" is that of the server's model."""
        asked = self.sought(problem)
        # A clone: methods that run in turn have the same draws.
        problem, solver, key = self.posed(problem, jax.random.clone(key), rounds)
        trace = SolverMethod(solver, _model)(problem, key, rounds, every)
        error = safe_norm(trace.pop("model") - asked.solution[None]) / asked.unit
        return {**trace, "error": error}


def _model(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    return {"model": solver.estimate(state)}
