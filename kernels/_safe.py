"""Norms and ratios whose values and derivatives stay finite where the plain ones give NaN.

A single `where` around a division or a square root hides the bad value but not its derivative:
reverse mode multiplies the infinite derivative of the branch not taken by zero. Each function here
therefore replaces the argument first and the result afterwards.
"""

import jax.numpy as jnp
from jax import Array
from jax.lax import index_in_dim

from fedjax_admm.kernels._typing import Real

# Longest axis whose squares are added one by one: XLA's reduction over a short last axis is scalar
# code on a CPU (a third of the run time of localisation in three dimensions).
_SHORT_AXIS = 4


def sum_of_squares(v: Array, axis: int = -1, keepdims: bool = False) -> Array:
    """Sum of squares along an axis, fast where the axis is short.

    Args:
      v: points, any shape, floating dtype.
      axis: the axis over which the squares are added.
      keepdims: whether that axis stays, with size 1.

    Returns:
      Sums, the shape of `v` without `axis` (or with size 1 there), dtype of `v`.
    """
    if not 0 < v.shape[axis] <= _SHORT_AXIS:
        return jnp.sum(v * v, axis=axis, keepdims=keepdims)
    parts = [index_in_dim(v, i, axis, keepdims) for i in range(v.shape[axis])]
    total = parts[0] * parts[0]
    for part in parts[1:]:
        total = total + part * part
    return total


def safe_norm(v: Array, axis: int = -1, keepdims: bool = False) -> Array:
    """Euclidean norm along an axis, differentiable everywhere.

    `||v||_2 = sqrt(sum v**2)`, with the subgradient 0 at `v = 0`.

    Args:
      v: points, any shape, floating dtype.
      axis: the axis over which the norm is taken.
      keepdims: whether that axis stays, with size 1.

    Returns:
      Norms, the shape of `v` without `axis` (or with size 1 there), dtype of `v`. Entries so small
      that their squares underflow count as 0.

    Reference: N. Parikh and S. Boyd, "Proximal Algorithms", Foundations and Trends in Optimization
    1(3), 2014, section 6.5.1 (the norm and its subdifferential at 0).
    """
    squared = sum_of_squares(v, axis, keepdims)
    zero = squared == 0  # not "> 0" the other way round: the norm of NaN is NaN
    return jnp.where(zero, 0.0, jnp.sqrt(jnp.where(zero, 1.0, squared)))


def safe_ratio(numerator: Real, denominator: Real) -> Array:
    """Ratio that is 0 where the denominator is 0.

    `numerator / denominator`; where `denominator == 0` the value and both derivatives are 0.

    Args:
      numerator: any shape, floating dtype.
      denominator: broadcasts with `numerator`, same dtype or a Python number.

    Returns:
      The ratio, of the broadcast shape and the common dtype.
    """
    nonzero = jnp.not_equal(denominator, 0)
    return jnp.where(nonzero, numerator / jnp.where(nonzero, denominator, 1.0), 0.0)
