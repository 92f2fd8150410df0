"""A channel that changes nothing: what a solver does with it is what it does without one."""

from dataclasses import dataclass

import jax.numpy as jnp

from fedjax_admm._pytrees import register_dataclass


@register_dataclass
@dataclass(frozen=True, eq=False)
class Loud:
    """A channel that changes nothing, and counts its messages."""

    in_order = False

    def init(self, message):
        return jnp.zeros((), jnp.int32)

    def encode(self, message, state, key):
        return message, state + 1

    def bits(self, shape):
        return 7
