"""Norms and ratios whose values and derivatives stay finite where the plain ones give NaN.

A single `where` around a division or a square root hides the bad value but not its derivative:
reverse mode multiplies the infinite derivative of the branch not taken by zero. Each function here
therefore replaces the argument first and the result afterwards.

Squares leave the range of a dtype long before their root does: (1e25)**2 is infinite in float32.
Norms are therefore taken of numbers near 1, the points divided by a power of two, which is exact:
within the range of the squares the result has the bits of the plain formula.
"""

import jax.numpy as jnp
from jax import Array
from jax.lax import index_in_dim, reduce_precision, stop_gradient

from fedjax_admm.kernels._arguments import Real, matched, widened

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


def scaled_norm(v: Array, axis: int = -1) -> tuple[Array, Array, Array]:
    """Return points divided by a power of two, their norms, and that power.

    `||v||_2 = scale ||v / scale||_2`, where the largest entry of `v / scale` is near 1: no square
    overflows, and none that matters underflows. Ratios such as `radius / ||v||` belong to the
    scaled numbers: `radius v / ||v||` is `(v / scale) (radius / ||v / scale||)`.

    The norm has the subgradient 0 at 0, and the scale the derivative 0 (the result does not depend
    on it).

    Args:
      v: points, any shape; float16 and bfloat16 are taken to float32 first.
      axis: the axis over which the norm is taken.

    Returns:
      The scaled points in the shape of `v`, the norms of these and the scales with size 1 along
      `axis`, all float32 or float64.

    Reference: J. L. Blue, "A portable Fortran program to find the Euclidean norm of a vector", ACM
    Transactions on Mathematical Software 4(1), 1978 (scaling against overflow and underflow).
    """
    v = widened(v)
    finfo = jnp.finfo(v.dtype)
    largest = jnp.max(jnp.abs(stop_gradient(v)), axis=axis, keepdims=True, initial=0)
    scale = reduce_precision(largest, finfo.nexp, 0)
    # Neither the scale nor its inverse may leave the range; infinity and NaN go through.
    scale = jnp.clip(scale, 4 * float(finfo.tiny), 2.0 ** (finfo.maxexp - 3))
    scaled = v / scale
    squared = sum_of_squares(scaled, axis, keepdims=True)
    zero = squared == 0  # not "> 0" the other way round: the norm of NaN is NaN
    norm = jnp.where(zero, 0.0, jnp.sqrt(jnp.where(zero, 1.0, squared)))
    return scaled, norm, scale


def safe_norm(v: Array, axis: int = -1, keepdims: bool = False) -> Array:
    """Euclidean norm along an axis, differentiable everywhere and right over the whole range.

    `||v||_2 = sqrt(sum v**2)`, with the subgradient 0 at `v = 0`. Entries are divided by a power of
    two before they are squared: the norm is infinite only where it exceeds the largest number of
    the dtype.

    Args:
      v: points, any shape, floating dtype.
      axis: the axis over which the norm is taken.
      keepdims: whether that axis stays, with size 1.

    Returns:
      Norms, the shape of `v` without `axis` (or with size 1 there), dtype of `v`.

    Reference: N. Parikh and S. Boyd, "Proximal Algorithms", Foundations and Trends in Optimization
    1(3), 2014, section 6.5.1 (the norm and its subdifferential at 0).
    """
    (v,) = matched(v)
    _, norm, scale = scaled_norm(v, axis)
    norm = (norm * scale).astype(v.dtype)
    return norm if keepdims else jnp.squeeze(norm, axis)


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
