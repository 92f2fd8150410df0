"""Byzantine senders: a share of the senders, drawn for every run, or those that a mask names."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import bool_array, of_shape, refuse, scalar
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm._threefry import one_loop

# The share 0.29 of 100 is 29, although neither float32 nor float64 holds 0.29.
_ROUNDING = 4 * float(np.finfo(np.float32).eps)


@pytree_dataclass
class DrawnByzantine:
    """A share of the senders; build it with `byzantine`. A larger one only adds, with one key."""

    share: jax.Array  # shape=(), in [0, 1)

    def draw(self, key, number):
        """Draw floor(share n) of n senders, bool, shape (number,), all sets as likely."""
        drawn = jnp.floor(self.share * (number * (1 + _ROUNDING))).astype(jnp.int32)
        rank = jax.random.permutation(one_loop(key), jnp.arange(number, dtype=jnp.int32))
        return rank < jnp.minimum(drawn, number - 1)


@pytree_dataclass
class NamedByzantine:
    """Exactly some senders; build it with `byzantine`."""

    who: jax.Array  # shape=(senders,), bool

    def draw(self, key, number):
        """Return the mask."""
        of_shape("who", self.who, (number,))
        return self.who


def byzantine(
    share: ArrayLike | None = None, who: ArrayLike | None = None
) -> DrawnByzantine | NamedByzantine:
    """Build the choice of Byzantine senders: `floor(share n)` of n, drawn, or those of a mask.

    Args:
      share: in [0, 1), a leaf; at least one sender is honest.
      who: bool, shape (senders,), in the place of a share: exactly these are Byzantine.
    """
    if share is not None and who is None:
        return DrawnByzantine(scalar("share", share, at_least=0, below=1))
    told = "must be a number in [0, 1), or be left out where {who} says who is Byzantine"
    refuse(share is not None or who is None, "share", told)
    mask = bool_array("who", who, (None,))
    return NamedByzantine(mask)


ByzantineClients = DrawnByzantine | NamedByzantine


class ByzantineAttack:
    """Base of attacks, which draw their Byzantine senders and mostly remember nothing."""

    byzantine: ByzantineClients

    def who(self, key, number):
        """Draw a share of the senders, or return those that are named."""
        return self.byzantine.draw(key, number)

    def init(self, values) -> Any:
        """Remember nothing."""
        return ()


def rows_of(mask: jax.Array, values: jax.Array) -> jax.Array:
    """Return a mask of rows with the axes of the values."""
    return jnp.expand_dims(mask, range(1, values.ndim))


def with_false(
    values: jax.Array, false: jax.Array, rows: jax.Array, honest: jax.Array | None = None
) -> jax.Array:
    """Return values with false rows; the values as they are if `honest` is empty."""
    if honest is not None:
        rows = rows & jnp.any(honest)
    return jnp.where(rows_of(rows, values), false, values)


def honest_number(honest: jax.Array) -> jax.Array:
    """Return how many rows are honest, at least 1."""
    return jnp.maximum(jnp.sum(honest, dtype=jnp.int32), 1)


def honest_mean(values: jax.Array, honest: jax.Array) -> jax.Array:
    """Return the mean of the honest rows, zero where there are none."""
    total = jnp.sum(jnp.where(rows_of(honest, values), values, 0), 0)
    return total / honest_number(honest).astype(values.dtype)
