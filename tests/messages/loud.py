"""A channel that changes nothing: what a solver does with it is what it does without one."""

import jax.numpy as jnp

from fedjax_admm._pytrees import pytree_dataclass


@pytree_dataclass
class Loud:
    """A channel that changes nothing, and counts its messages."""

    in_order = False

    def init(self, message):
        return jnp.zeros((), jnp.int32)

    def encode(self, message, state, key):
        return message, state + 1

    def bits(self, shape):
        return 7
