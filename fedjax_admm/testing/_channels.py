"""Checks of a channel and of a delay: decoded values, state and bits; whole waits."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm.testing._parts import FOR_ALL, FOR_SMOOTH, Bench, normal
from fedjax_admm.testing._shared import (
    both_precisions,
    demand,
    demand_bool,
    demand_count,
    demand_finite,
    demand_kind,
    demand_same_form,
    doing,
)

_ROUNDS = 16


class Channel(Bench):
    """A channel, with the shape of its messages."""

    method = ".encode"

    def call(self, part: Any, *arguments: Any) -> Any:
        first, message, key = arguments
        return part.encode(message, part.init(first), key)

    def arguments(self, trial: int) -> tuple:
        pair = (normal(self.shape, seed=seed + trial) for seed in (10, 20))
        return (*pair, jax.random.key(trial))

    def smooth(self, part: Any, *arguments: Any) -> Any:
        return part.encode(*arguments, jax.random.key(5))

    def places(self, dtype: Any) -> dict[str, tuple]:
        zeros = jnp.zeros(self.shape, dtype)
        state = self.part.init(zeros)
        messages = {"a message": normal(self.shape, dtype), "zeros": zeros, "ones": zeros + 1}
        return {what: (message, state) for what, message in messages.items()}


@jax.jit
def _encode(channel, message, state, key):
    return channel.encode(message, state, key)


def _kind(b: Bench) -> None:
    demand_bool(f"{b.name}.in_order", b.part.in_order)
    where = f"{b.where} of a message of shape {b.shape}"
    for dtype, channel in both_precisions(b.part):
        with doing(f"{b.name}.init of a message of shape {b.shape}"):
            state = channel.init(normal(b.shape, dtype, 1))
        with doing(f"{where} and dtype {np.dtype(dtype).name}"):
            pair = _encode(channel, normal(b.shape, dtype), state, jax.random.key(0))
        demand(
            isinstance(pair, tuple) and len(pair) == 2,
            f"{where} must return the decoded message and the state, but it returns a "
            f"{type(pair).__name__}.",
        )
        demand_kind(where, pair[0], b.shape, dtype)
        demand_finite(where, pair[0])
        demand_same_form(where, "a state", state, pair[1])


def _bits(b: Bench) -> None:
    with doing(f"{b.name}.bits of {b.shape}"):
        bits = b.part.bits(b.shape)
    demand_count(f"{b.name}.bits({b.shape})", bits)


def _zeros(b: Bench) -> None:
    arrives = zeros = jnp.zeros(b.shape, jnp.float32)
    with doing(f"{b.where} of zeros"):
        state = b.part.init(zeros)
        for number in range(2):
            arrives, state = _encode(b.part, zeros, state, jax.random.key(number))
    demand(
        not np.any(np.asarray(arrives) != 0),
        f"Zeros must arrive as zeros, but {b.name} makes {np.asarray(arrives).ravel()[:3]} of "
        "them; divide by what is zero only where it is not.",
    )


CHANNEL_CHECKS = {"kind": _kind, "bits": _bits, "zeros": _zeros, **FOR_SMOOTH}


class Delay(Bench):
    """A delay, with a number of senders."""

    method = ".draw"
    rtol = 0.0

    def call(self, part: Any, *arguments: Any) -> Any:
        return part.draw(*arguments, self.senders)

    def arguments(self, trial: int) -> tuple:
        return jax.random.key(trial), jnp.int32(trial)


def _depth(b: Delay) -> None:
    with doing(f"{b.name}.depth of a delay that is traced"):
        depths = []
        jax.eval_shape(lambda delay: depths.append(delay.depth), b.part)
    demand_count(f"{b.name}.depth of a delay that is traced", depths[0])
    for name in ("loses", "in_order"):
        demand_bool(f"{b.name}.{name}", getattr(b.part, name))
    for _, delay in both_precisions(b.part):
        with doing(f"{b.where} for {b.senders} senders"):
            waits = b.call(delay, *b.arguments(0))
        dtype, shape = getattr(waits, "dtype", type(waits)), getattr(waits, "shape", None)
        demand(
            dtype == jnp.int32 and shape == (b.senders,),
            f"{b.where} must return int32 of shape ({b.senders},), whole rounds, but it returns "
            f"{dtype} of shape {shape}.",
        )


def _waits(b: Delay) -> None:
    with doing(f"{b.where} under jax.vmap, over rounds"):
        keys = jax.random.split(jax.random.key(1), _ROUNDS)
        draw = jax.jit(jax.vmap(lambda key, index: b.call(b.part, key, index)))
        waits = np.asarray(draw(keys, jnp.arange(_ROUNDS, dtype=jnp.int32)))
    demand(
        np.all(waits >= 0),
        f"{b.name} must let messages wait 0 rounds or more, but one waits {waits.min()}.",
    )
    demand(
        b.part.loses or np.all(waits <= b.part.depth),
        f"{b.name} has loses=False, but a message waits {waits.max()} rounds, which is more than "
        f"its depth of {b.part.depth}, and is never heard; cut waits to the depth, or let loses "
        "be True.",
    )


DELAY_CHECKS = {"kind": _depth, "waits": _waits, **FOR_ALL}
