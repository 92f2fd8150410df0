r"""The rows of a fit: which are held out, and the units in which models are coupled.

    z_j = (x_j - m_j) / s_j,    x^T w + b = z^T v + c
    w_j = v_j / s_j,            b = c - sum_j w_j m_j

The penalty compares neighbours' v and c: coefficients count by what they do to predictions, and not
by the units that a column happens to have. The targets are shifted by their mean too, which changes
no difference of models and lets the method start at the mean.

Means and deviations are those of all rows, held out ones included; of targets they show nothing
but the mean, which every fit is free to change.
"""

from dataclasses import dataclass

import numpy as np

_CONSTANT = 1e-12  # share of its largest modulus below which a column's deviation is rounding


@dataclass(frozen=True)
class Units:
    """Shift and scale of every column, and the level of the targets; the last is the intercept."""

    shift: np.ndarray  # shape=(dim,); 0 for the intercept
    scale: np.ndarray  # shape=(dim,), positive; 1 for the intercept
    level: float
    constant: np.ndarray  # shape=(dim,), bool: columns that the intercept makes superfluous

    def features(self, x: np.ndarray) -> np.ndarray:
        """Return rows (..., dim) in these units; constant columns are 0."""
        return np.where(self.constant, 0.0, (x - self.shift) / self.scale)

    def in_users(self, models: np.ndarray) -> np.ndarray:
        """Return models of features and targets in these units as models of the user's, (..., dim).

        The coefficient of a constant column is 0.
        """
        found = np.where(self.constant, 0.0, models / self.scale)
        found[..., -1] += self.level - found @ self.shift
        return found


def standard_units(x: np.ndarray, y: np.ndarray) -> Units:
    """Return the units in which rows x (rows, dim) and y (rows,) have mean 0 and deviation 1."""
    shift = x.mean(0)
    shift[-1] = 0.0
    # The largest modulus first: squares of large numbers leave the range.
    largest = np.abs(x).max(0)
    size = np.where(largest > 0, largest, 1.0)
    scale = size * np.sqrt(np.mean(((x - shift) / size) ** 2, 0))
    constant = scale <= _CONSTANT * size
    constant[-1], scale[-1] = False, 1.0
    return Units(shift, np.where(constant, 1.0, scale), float(y.mean()), constant)


def users_units(dim: int) -> Units:
    """Return the units that change nothing."""
    return Units(np.zeros(dim), np.ones(dim), 0.0, np.zeros(dim, bool))


def rows_needed(validation: float) -> int:
    """Return how many rows a node needs, so that one at least is left for training."""
    # Near the answer: a share of 1 - 1e-12 needs so many rows that counting up would not end.
    rows = max(2, int((1 - 1e-9) / (1 - validation)) - 2)
    while rows - held_out_rows(rows, validation) < 1:
        rows += 1
    return rows


def held_out_rows(rows: int, validation: float) -> int:
    """Return `ceil(validation * rows)`, rounding errors aside."""
    return int(np.ceil(validation * rows - 1e-9))


def draw_splits(counts: np.ndarray, validation: float, splits: int, seed: int) -> np.ndarray:
    """Hold out a random part of every node's rows, once per split.

    Split s (from 0) permutes the rows of node after node with `numpy.random.default_rng([seed, s])`
    and holds the first `ceil(validation * rows)` out; counts (nodes,) are its rows.

    Returns:
      Shape (splits, nodes, max(counts)), bool: which rows are held out.
    """
    held_out = np.zeros((splits, len(counts), int(max(counts))), bool)
    for s in range(splits):
        random = np.random.default_rng([seed, s])
        for i, rows in enumerate(counts):
            held_out[s, i, random.permutation(rows)[: held_out_rows(rows, validation)]] = True
    return held_out
