"""Norms and ratios whose values and derivatives stay finite where the plain ones give NaN.

A single `where` around a division or a square root hides the bad value but not its derivative:
reverse mode multiplies the infinite derivative of the branch not taken by zero. Each function here
therefore replaces the argument first and the result afterwards.

Squares leave the range of a dtype long before their root does: (1e25)**2 is infinite in float32.
Norms are therefore taken of numbers near 1, the points divided by a power of two, which is exact:
within the range of the squares the result has the bits of the plain formula. Of many entries the
plain formula is tried first, and the points are scaled only where it fails.
"""

from functools import partial, reduce

import jax.numpy as jnp
from jax import Array, custom_jvp
from jax.lax import bitcast_convert_type, cond, index_in_dim, reduce_precision, stop_gradient

from fedjax_admm.kernels._arguments import length_along, matched, widened
from fedjax_admm.kernels.compiling import Real

# Longest axis whose squares are added one by one: XLA's reduction over a short last axis is scalar
# code on a CPU (a third of the run time of localisation in three dimensions).
_SHORT_AXIS = 4
# From so many entries on one more look at all of them costs more than a decision.
_LONG = 1 << 16


def sum_of_squares(v: Array, axis: int = -1, keepdims: bool = False) -> Array:
    """Sum of squares along an axis, fast where the axis is short.

    Args:
      axis: the axis over which the squares are added.
      keepdims: whether that axis stays, with size 1.

    Returns:
      Sums, the shape of `v` without `axis` (or with size 1 there), dtype of `v`.
    """
    parts = _parts(v, axis, keepdims)
    if parts is None:
        return jnp.sum(v * v, axis=axis, keepdims=keepdims)
    return sum((part * part for part in parts[1:]), parts[0] * parts[0])


def _parts(v: Array, axis: int, keepdims: bool) -> list[Array] | None:
    """Return the entries along a short axis one by one, or None where the axis is long."""
    length = length_along(v, axis)
    if not 0 < length <= _SHORT_AXIS:
        return None
    return [index_in_dim(v, i, axis, keepdims) for i in range(length)]


def power_of_two(largest: Array) -> tuple[Array, Array]:
    """Return the power of two below a positive number, and its inverse, by its bits.

    Neither leaves the normal range: 0 counts as the smallest of them, infinity and NaN as the
    largest.
    """
    finfo = jnp.finfo(largest.dtype)
    whole = jnp.int32 if finfo.bits == 32 else jnp.int64
    one = 1 << finfo.nmant  # of the exponent
    bias = finfo.maxexp - 1
    exponent = bitcast_convert_type(largest, whole) & ((1 << finfo.nexp) - 1) * one
    exponent = jnp.clip(exponent, 3 * one, (2 * bias - 3) * one)
    inverse = 2 * bias * one - exponent
    return (
        bitcast_convert_type(exponent, largest.dtype),
        bitcast_convert_type(inverse, largest.dtype),
    )


def unit_of(size: Array) -> Array:
    """Return the power of two below a size, to divide by; 1 where it is 0, infinite or NaN.

    No derivative goes through the size, float32 or float64 and at least 0.
    """
    size = stop_gradient(size)
    return jnp.where((size > 0) & (size < jnp.inf), power_of_two(size)[0], 1.0)


def _scaled(v: Array, inverse: Array) -> Array:
    """Return points times a power of two, a product that XLA leaves as it is.

    Of constant points it would make `(v v) (inverse inverse)` out of the square, which is 0 times
    infinity; a rounding to the precision that they have keeps the factors together.
    """
    finfo = jnp.finfo(v.dtype)
    return reduce_precision(v * inverse, finfo.nexp, finfo.nmant)


def scaled_norm(v: Array, axis: int = -1) -> tuple[Array, Array, Array]:
    """Return points divided by a power of two, their norms, and that power.

    `||v||_2 = scale ||v / scale||_2`, where the largest entry of `v / scale` is near 1: no square
    overflows, and none that matters underflows. Ratios such as `radius / ||v||` belong to the
    scaled numbers: `radius v / ||v||` is `(v / scale) (radius / ||v / scale||)`. Norms and scales
    have size 1 along the axis; all three are float32 or float64.

    The norm has the subgradient 0 at 0, and the scale the derivative 0 (the result does not depend
    on it).

    Reference: J. L. Blue, "A portable Fortran program to find the Euclidean norm of a vector", ACM
    Transactions on Mathematical Software 4(1), 1978 (scaling against overflow and underflow).
    """
    v = widened(v)
    norm, scale, inverse = _norm_and_scale(v, axis, keepdims=True)
    return _scaled(v, inverse), norm, scale


def _norm_and_scale(v: Array, axis: int, keepdims: bool) -> tuple[Array, Array, Array]:
    """Return the norms of points divided by a power of two, that power, and its inverse."""
    parts = _parts(v, axis, keepdims)
    if parts is None:
        find = _tried if v.size >= _LONG else _looked_for
        norm, scale, inverse = find(v, axis)
        if keepdims:
            return norm, scale, inverse
        return jnp.squeeze(norm, axis), jnp.squeeze(scale, axis), jnp.squeeze(inverse, axis)
    # Entry by entry: nothing is spread along a short last axis.
    scale, inverse = power_of_two(
        reduce(jnp.maximum, [jnp.abs(stop_gradient(part)) for part in parts])
    )
    scaled = [_scaled(part, inverse) for part in parts]
    squared = sum((part * part for part in scaled[1:]), scaled[0] * scaled[0])
    return _safe_root(squared), scale, inverse


def _looked_for(v: Array, axis: int) -> tuple[Array, Array, Array]:
    """Scale the points by their largest entry."""
    largest = jnp.max(jnp.abs(stop_gradient(v)), axis=axis, keepdims=True, initial=0)
    scale, inverse = power_of_two(largest)
    return _safe_root(sum_of_squares(_scaled(v, inverse), axis, True)), scale, inverse


@partial(custom_jvp, nondiff_argnums=(1,))
def _tried(v: Array, axis: int) -> tuple[Array, Array, Array]:
    """Scale the points where a plain sum of squares leaves the range; the bits are the same."""
    finfo = jnp.finfo(v.dtype)
    squared = sum_of_squares(v, axis, True)
    least = float(finfo.tiny) / float(finfo.eps) ** 2  # what underflows is nothing beside it

    def plain(_: Array) -> tuple[Array, Array, Array]:
        one = jnp.where(squared < 0, squared, 1.0)  # not a constant: it varies over mesh axes
        return jnp.sqrt(squared), one, one

    within = jnp.all((squared >= least) & (squared < jnp.inf))
    return cond(within, plain, lambda v: _looked_for(v, axis), v)


@_tried.defjvp
def _derivative_of_norm(axis, primals, tangents):
    norm, scale, inverse = _tried(*primals, axis)
    zero = norm == 0
    share = _scaled(primals[0], inverse) * jnp.where(zero, 0.0, 1 / jnp.where(zero, 1.0, norm))
    change = jnp.sum(share * (tangents[0] * inverse), axis, keepdims=True)
    return (norm, scale, inverse), (change, jnp.zeros_like(scale), jnp.zeros_like(scale))


@custom_jvp
def _safe_root(squared: Array) -> Array:
    """Return the square root, with the derivative 0 at 0.

    Its value is the root alone: what a `where` on the squares would add is computed again by XLA in
    every loop that the root enters (a tenth of the time of a round of localisation).
    """
    return jnp.sqrt(squared)


@_safe_root.defjvp
def _derivative_of_root(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (squared,), (tangent,) = primals, tangents
    root = _safe_root(squared)
    zero = root == 0  # not "> 0" the other way round: the derivative at NaN is NaN
    return root, tangent * jnp.where(zero, 0.0, 0.5 / jnp.where(zero, 1.0, root))


def safe_norm(v: Array, axis: int = -1, keepdims: bool = False, scaled: bool = True) -> Array:
    """Euclidean norm along an axis, differentiable everywhere and right over the whole range.

    `||v||_2 = sqrt(sum v**2)`, with the subgradient 0 at `v = 0`. Entries are divided by a power of
    two before they are squared: the norm is infinite only where it exceeds the largest number of
    the dtype.

    Args:
      axis: the axis over which the norm is taken.
      keepdims: whether that axis stays, with size 1.
      scaled: False squares the entries as they are, in half the time: for entries whose squares
        stay within the range of their dtype (in float32 between 1e-16 and 1e18).

    Returns:
      Norms, the shape of `v` without `axis` (or with size 1 there), dtype of `v`.

    Reference: Parikh and Boyd, 2014, section 6.5.1 (the norm and its subdifferential at 0).
    """
    (v,) = matched(v)
    if not scaled:
        return _safe_root(sum_of_squares(widened(v), axis, keepdims)).astype(v.dtype)
    norm, scale, _ = _norm_and_scale(widened(v), axis, keepdims)
    return (norm * scale).astype(v.dtype)


def safe_ratio(numerator: Real, denominator: Real) -> Array:
    """Ratio that is 0 where the denominator is 0.

    `numerator / denominator`; where `denominator == 0` the value and both derivatives are 0.

    Args:
      numerator: any shape.
      denominator: broadcasts with `numerator`, same dtype or a Python number.

    Returns:
      The ratio, of the broadcast shape and the common dtype.
    """
    nonzero = jnp.not_equal(denominator, 0)
    return jnp.where(nonzero, numerator / jnp.where(nonzero, denominator, 1.0), 0.0)
