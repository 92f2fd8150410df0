"""A sorting network: the same comparisons whatever the numbers are, each between whole rows.

XLA sorts on a CPU one column after another by comparisons that it cannot vectorise. For m rows, m a
power of two, a network takes log2(m) (log2(m) + 1) / 2 steps of one loop over all rows at once.

Reference: K. E. Batcher, "Sorting Networks and Their Applications", AFIPS 1968 (the odd-even merge
sort).
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
      others: likewise.

    Returns:
      Both, the keys in increasing order along the rows.
    """
    rows = len(keys)
    if rows > MOST:
        keys, others = jax.lax.sort((keys, others), dimension=0, num_keys=1)
        return keys, others

    def step(pair, both):
        partner, smaller = both
        keys, others = pair
        there, other_there = keys[partner], others[partner]
        moves = jnp.where(smaller[:, None], there < keys, there > keys)
        return (jnp.where(moves, there, keys), jnp.where(moves, other_there, others)), None

    return jax.lax.scan(step, (keys, others), _steps(rows))[0]


def _steps(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return, for every step, each row's partner, and whether the row gets the smaller one.

    Blocks of 2^phase sorted rows are merged by pairs. The smaller key always goes to the earlier
    row, so that rows beyond the last one can be left out. A row without a partner has itself.
    """
    place, digits = np.arange(rows, dtype=np.int32), (rows - 1).bit_length()
    partners, smaller = [], []
    for phase in range(digits):
        for step in (2**digit for digit in reversed(range(phase + 1))):
            begin = step % 2**phase
            earlier = (place >= begin) & ((place - begin) // step % 2 == 0) & (place + step < rows)
            earlier &= place >> (phase + 1) == place + step >> (phase + 1)
            partner = np.where(earlier, place + step, place)
            partner[partner[earlier]] = place[earlier]
            partners.append(partner)
            smaller.append(earlier)
    shape = len(partners), rows
    return np.array(partners, np.int32).reshape(shape), np.array(smaller, bool).reshape(shape)
