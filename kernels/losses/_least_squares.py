"""Least squares: a factor made once, then the proximal map for any step and many points."""

from typing import NamedTuple, cast

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from fedjax_admm.kernels._arguments import check_system, matched, widened
from fedjax_admm.kernels.compiling import Real, Size, checked, kernel
from fedjax_admm.kernels.losses._spectrum import (
    coordinates,
    points_last,
    resolvent,
    spread,
    take_back,
)
from fedjax_admm.kernels.matrices._decompositions import decompose, times


class LeastSquaresFactor(NamedTuple):
    """The loss `||A x - b||^2 / 2` in its own coordinates; build it with `least_squares_factor`.

    Attributes:
      basis: right singular vectors as rows, shape (k, n) with k = min(m, n).
      spectrum: squares of the singular values, shape (k,).
      solution: coordinates of the shortest minimiser, shape (k,).
      rest: length of the residual that remains there, shape ().
    """

    basis: Array
    spectrum: Array
    solution: Array
    rest: Array


@checked
def least_squares_factor(
    matrix: Array, target: Array, weights: Size | None = None
) -> LeastSquaresFactor:
    """Prepare the proximal map of `||A x - b||^2 / 2`, once for many steps and points.

    The thin singular value decomposition of A (rows times the roots of the weights): k = min(m, n)
    vectors of n entries are stored, whichever of m and n is larger. Singular values below `max(m,
    n) eps` times the largest count as 0.

    Arrays that are no tracers are decomposed by NumPy in float64, with LAPACK called by NumPy; that
    can't hang. Inside `jax.jit` the decomposition is JAX's, in the dtype of the matrix: make the
    factor outside where you can, and outside of loops in any case.

    Derivative: under tracing exact in the target, and in the matrix where it has full rank; none
    where NumPy decomposes.

    Args:
      matrix: A, shape (m, n), or (..., m, n) for a batch of factors to map over by `jax.vmap`.
      target: b, shape (m,), or (..., m).
      weights: of the squares, at least 0, shape (m,) or (..., m); 1 if None.

    Returns:
      The factor, at least float32: what `prox_least_squares` takes.

    Reference: T. Hastie, R. Tibshirani, J. Friedman, "The Elements of Statistical Learning", 2nd
    edition, 2009, section 3.4.1 (ridge regression by the singular value decomposition).
    """
    parts = (matrix, target) if weights is None else (matrix, target, weights)
    matrix, *rest = matched(*parts)
    for name, part in zip(("target", "weights"), rest, strict=False):
        check_system(matrix, part, name)
    matrix, target, *weighted = (widened(part) for part in (matrix, *rest))
    if weighted:
        root = jnp.sqrt(weighted[0])
        matrix, target = root[..., None] * matrix, root * target
    if isinstance(matrix, Tracer) or isinstance(target, Tracer):
        return LeastSquaresFactor(*_factored(jnp, decompose(matrix, None), matrix, target))
    wide, level = np.asarray(matrix, np.float64), np.asarray(target, np.float64)
    left, values, rows = np.linalg.svd(wide, full_matrices=False)
    found = _factored(np, (left, values, rows.swapaxes(-1, -2)), wide, level)
    return LeastSquaresFactor(*(jnp.asarray(part, matrix.dtype) for part in found))


def _factored(xp, decomposed, matrix, target):
    """Return the parts of the factor, by NumPy or by JAX."""
    left, values, right = decomposed
    eps = xp.finfo(matrix.dtype).eps
    largest = xp.max(values, axis=-1, initial=0.0, keepdims=True)
    seen = values > max(matrix.shape[-2:]) * eps * largest
    inverse = xp.where(seen, 1 / xp.where(seen, values, 1.0), 0.0)
    product = times if xp is jnp else np.matmul
    along = product(left.swapaxes(-1, -2), target[..., None])[..., 0]
    rest = target - product(left, along[..., None])[..., 0]
    length = xp.sqrt(xp.sum(rest * rest, -1))
    spectrum = xp.where(seen, values, 0.0) ** 2
    return right.swapaxes(-1, -2), spectrum, inverse * along, length


def least_squares_value(x: Array, factor: LeastSquaresFactor, axis: int = -1) -> Array:
    """Least squares, `g(x) = ||A x - b||^2 / 2`: the sum over the rows, not their mean.

    Computed as `(sum_i s_i (<w_i, x> - c_i)^2 + r^2) / 2` from the factor. Derivative: `A^T (A x -
    b)`, no kink.
    """
    point, _, parts = points_last(x, None, factor, axis)
    basis, spectrum, solution, rest = parts
    off = coordinates(basis, point) - spread(solution, point.ndim)
    sums = jnp.sum(spread(spectrum, point.ndim) * off * off, -1) + rest * rest
    return (0.5 * sums).astype(matched(x)[0].dtype)


@checked
def prox_least_squares(
    v: Array,
    step: Real,
    factor: LeastSquaresFactor | Array,
    target: Array | None = None,
    axis: int = -1,
) -> Array:
    """Proximal map of least squares, `g(x) = ||A x - b||^2 / 2`, the sum over the rows of A.

    `Prox(v; step) = (I + step A^T A)^-1 (v + step A^T b)`, computed as `v - sum_i w_i (step s_i /
    (1 + step s_i)) (<w_i, v> - c_i)` with the right singular vectors w_i, the squared singular
    values s_i and the coordinates c_i of the shortest minimiser, from the factor: 4 n min(m, n)
    operations for a point, whatever the step. `step = 0` gives v. With the mean instead of the sum,
    divide the step by m.

    Derivative: smooth, no kink; in A and b through the factor.

    Args:
      factor: what `least_squares_factor` returns, of one loss for all points; or A itself, shape
        (m, n), with `target`: then the factor is made at every call.
      target: b, shape (m,), where A stands in the place of the factor.

    Reference: Parikh and Boyd, 2014, section 6.1.1 (quadratic functions, with a factor kept between
    the steps); T. Hastie, R. Tibshirani, J. Friedman, "The Elements of Statistical Learning", 2nd
    edition, 2009, section 3.2.
    """
    if target is not None:
        factor = least_squares_factor(cast(Array, factor), target)
    return _moved(v, step, cast(LeastSquaresFactor, factor), axis)


@kernel
def _moved(v: Array, step: Size, factor: LeastSquaresFactor, axis: int) -> Array:
    point, step, (basis, spectrum, solution, _) = points_last(v, step, factor, axis)
    spectrum = spread(spectrum, point.ndim)
    share = spectrum * resolvent(step, spectrum)
    off = coordinates(basis, point) - spread(solution, point.ndim)
    return take_back(point - times(share * off, basis), v, axis)
