r"""The units in which models are coupled: features standardised over all rows, or as they are.

    z_j = (x_j - m_j) / s_j,    x^T w + b = z^T v + c
    w_j = v_j / s_j,            b = c - sum_j w_j m_j

The penalty compares neighbours' v and c: coefficients count by what they do to predictions, and not
by the units that a column happens to have. Without an intercept nothing can be shifted: m = 0, and
s_j is the root mean square. With one, the targets are shifted by their mean too, which changes
no difference of models and lets the method start at the mean.

Means and deviations are those of all rows, held out ones included; of targets they show nothing
but the mean, which every fit is free to change.
"""

from dataclasses import dataclass

import numpy as np

_CONSTANT = 1e-12  # share of its largest modulus below which a column's deviation is rounding


@dataclass(frozen=True)
class Units:
    """Shift and scale of every column, and the level of the targets."""

    shift: np.ndarray  # shape=(dim,); 0 for the intercept
    scale: np.ndarray  # shape=(dim,), positive; 1 for the intercept
    level: float
    intercept: bool  # whether the last column is the constant 1
    constant: np.ndarray  # shape=(dim,), bool: columns that the intercept makes superfluous

    def features(self, x: np.ndarray) -> np.ndarray:
        """Return rows (..., dim) in these units; constant columns are 0."""
        return np.where(self.constant, 0.0, (x - self.shift) / self.scale)

    def targets(self, y: np.ndarray) -> np.ndarray:
        """Return targets (...) above their level."""
        return y - self.level

    def in_users(self, models: np.ndarray) -> np.ndarray:
        """Return models of features and targets in these units as models of the user's, (..., dim).

        The coefficient of a constant column is 0.
        """
        found = np.where(self.constant, 0.0, models / self.scale)
        if self.intercept:
            found[..., -1] += self.level - found @ self.shift
        return found


def standard_units(x: np.ndarray, y: np.ndarray, *, intercept: bool) -> Units:
    """Return the units in which rows x (rows, dim) and y (rows,) have mean 0 and deviation 1."""
    shift, level = np.zeros(x.shape[1]), 0.0
    if intercept:
        shift, level = x.mean(0), float(y.mean())
        shift[-1] = 0.0
    # The largest modulus first: squares of large numbers leave the range.
    largest = np.abs(x).max(0)
    size = np.where(largest > 0, largest, 1.0)
    scale = size * np.sqrt(np.mean(((x - shift) / size) ** 2, 0))
    constant = scale <= _CONSTANT * size
    if intercept:
        constant[-1], scale[-1] = False, 1.0
    return Units(shift, np.where(constant, 1.0, scale), level, intercept, constant)


def users_units(x: np.ndarray, y: np.ndarray, *, intercept: bool) -> Units:
    """Return the units that change nothing, as `standard_units` takes the rows."""
    dim = x.shape[1]
    return Units(np.zeros(dim), np.ones(dim), 0.0, intercept, np.zeros(dim, bool))
