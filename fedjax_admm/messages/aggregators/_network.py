"""A sorting network: the same comparisons whatever the numbers are, each between whole rows.

XLA sorts on a CPU one column after another by comparisons that it cannot vectorise. For m rows, m a
power of two, a network takes log2(m) (log2(m) + 1) / 2 steps of one loop over all rows at once.

Reference: K. E. Batcher, "Sorting Networks and Their Applications", AFIPS 1968 (the bitonic sort).
"""

import jax
import jax.numpy as jnp
import numpy as np

MOST = 128
"""Rows that a network sorts, at most: in 28 steps."""


def sort_columns(keys: jax.Array, others: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Sort every column of the keys, and move the entries of another array along.

    Where keys are equal, the order of the others is any.

    Args:
      keys: shape (rows, columns), none NaN.
      others: likewise; zero where the key is inf.

    Returns:
      Both, the keys in increasing order along the rows.
    """
    rows = len(keys)
    if rows > MOST:
        keys, others = jax.lax.sort((keys, others), dimension=0, num_keys=1)
        return keys, others
    digits = (rows - 1).bit_length()
    room = ((0, 2**digits - rows), (0, 0))
    start = jnp.pad(keys, room, constant_values=jnp.inf), jnp.pad(others, room)

    def step(pair, both):
        partner, smaller = both
        keys, others = pair
        there, other_there = keys[partner], others[partner]
        moves = jnp.where(smaller[:, None], there < keys, there > keys)
        return (jnp.where(moves, there, keys), jnp.where(moves, other_there, others)), None

    (keys, others), _ = jax.lax.scan(step, start, _steps(digits))
    return keys[:rows], others[:rows]


def _steps(digits: int) -> tuple[np.ndarray, np.ndarray]:
    """Return, for every step, each row's partner, and whether the row gets the smaller one."""
    place = np.arange(2**digits, dtype=np.int32)
    steps = [(phase, digit) for phase in range(1, digits + 1) for digit in reversed(range(phase))]
    partners = np.array([place ^ 2**digit for _, digit in steps], np.int32)
    # Blocks of 2^phase rows are sorted up and down by turns: two of them are bitonic.
    smaller = [(place >> digit & 1) == (place >> phase & 1) for phase, digit in steps]
    return partners.reshape(-1, 2**digits), np.array(smaller, bool).reshape(-1, 2**digits)
