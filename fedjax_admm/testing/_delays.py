"""Checks of a delay: whole waits and a static depth."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm.testing._parts import FOR_ALL, Bench, fresh
from fedjax_admm.testing._shared import both_precisions, demand, doing

_ROUNDS = 16


class Delay(Bench):
    """A delay, with a number of senders."""

    method = ".draw"
    rtol = 0.0

    def call(self, part: Any, *arguments: Any) -> Any:
        """Draw the waits of a round."""
        key, index = arguments
        return part.draw(key, jnp.asarray(index, jnp.int32), self.senders)

    def arguments(self, trial: int, dtype: Any = np.float32) -> tuple:
        """Return a key and a round."""
        return fresh(trial), jnp.int32(trial)


def _kind(b: Delay) -> None:
    traced = []

    def look(delay):
        traced.append(delay.depth)
        return 0

    with doing(f"{b.name}.depth of a delay that is traced"):
        jax.jit(look)(b.part)
    for what, depth in (("", b.part.depth), (" of a delay that is traced", traced[0])):
        demand(
            type(depth) is int and depth >= 0,
            f"{b.name}.depth{what} must be a whole Python number that is not negative, but it is "
            f"{depth!r}; register it as a static field.",
        )
    for name in ("loses", "in_order"):
        demand(
            type(getattr(b.part, name)) is bool,
            f"{b.name}.{name} must be True or False, a part of the structure, but it is "
            f"{getattr(b.part, name)!r}.",
        )
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
    draw = jax.jit(jax.vmap(lambda key, index: b.call(b.part, key, index)))
    with doing(f"{b.where} under jax.vmap, over rounds"):
        keys = jax.random.split(fresh(1), _ROUNDS)
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


DELAY_CHECKS = {"kind": _kind, "waits": _waits, **FOR_ALL}
