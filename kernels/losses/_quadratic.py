"""Convex quadratics: a factor made once, then the proximal map for any step and many points."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from fedjax_admm.kernels._arguments import check_system, matched, widened
from fedjax_admm.kernels.compiling import Size, checked
from fedjax_admm.kernels.losses._spectrum import (
    coordinates,
    points_last,
    resolvent,
    spread,
    take_back,
)
from fedjax_admm.kernels.matrices._decompositions import decompose_symmetric, times


class QuadraticFactor(NamedTuple):
    """The function `x^T Q x / 2 + q^T x` in its own coordinates; build it with `quadratic_factor`.

    Attributes:
      basis: eigenvectors as rows, shape (n, n).
      spectrum: eigenvalues, at least 0, shape (n,).
      slope: coordinates of q, shape (n,).
    """

    basis: Array
    spectrum: Array
    slope: Array


@checked
def quadratic_factor(matrix: Array, linear: Array) -> QuadraticFactor:
    """Prepare the proximal map of `x^T Q x / 2 + q^T x`, once for many steps and points.

    The eigendecomposition of Q, of which only the symmetric part counts. Q may be singular;
    eigenvalues that are negative by rounding become 0.

    Arrays that are no tracers are decomposed by NumPy in float64; inside `jax.jit` the
    decomposition is JAX's, in the dtype of the matrix: make the factor outside where you can, and
    outside of loops in any case.

    Derivative: under tracing exact in q, and in Q where it is positive definite; none where NumPy
    decomposes.

    Args:
      matrix: Q, shape (n, n), positive semidefinite, or (..., n, n) for a batch of factors to map
        over by `jax.vmap`.
      linear: q, shape (n,), or (..., n).

    Returns:
      The factor, at least float32: what `prox_quadratic` takes.

    Reference: Parikh and Boyd, 2014, section 6.1.1 (quadratic functions, with a factor kept between
    the steps).
    """
    matrix, linear = matched(matrix, linear)
    check_system(matrix, linear, "linear part")
    if matrix.shape[-1] != matrix.shape[-2]:
        raise ValueError(
            f"the matrix of a quadratic must be square, but its shape is {matrix.shape}."
        )
    matrix, linear = widened(matrix), widened(linear)
    if isinstance(matrix, Tracer) or isinstance(linear, Tracer):
        values, vectors = decompose_symmetric(0.5 * (matrix + matrix.mT), None)
        slope = times(vectors.mT, linear[..., None])[..., 0]
        return QuadraticFactor(vectors.mT, jnp.maximum(values, 0.0), slope)
    wide = np.asarray(matrix, np.float64)
    values, vectors = np.linalg.eigh(0.5 * (wide + wide.swapaxes(-1, -2)))
    rounding = wide.shape[-1] * float(jnp.finfo(matrix.dtype).eps)
    if np.any(values < -rounding * np.max(np.abs(values), axis=-1, keepdims=True, initial=0)):
        raise ValueError(
            "the matrix of a convex quadratic must have no negative eigenvalue, but the least one "
            f"is {np.min(values):g}; split off its negative part and take it into the step."
        )
    basis = vectors.swapaxes(-1, -2)
    slope = np.matmul(basis, np.asarray(linear, np.float64)[..., None])[..., 0]
    found = (basis, np.maximum(values, 0.0), slope)
    return QuadraticFactor(*(jnp.asarray(part, matrix.dtype) for part in found))


def quadratic_value(x: Array, factor: QuadraticFactor, axis: int = -1) -> Array:
    """Convex quadratic, `g(x) = x^T Q x / 2 + q^T x`.

    Computed as `sum_i s_i <w_i, x>^2 / 2 + d_i <w_i, x>` from the factor. Derivative: `Q x + q`, no
    kink.
    """
    point, _, (basis, spectrum, slope) = points_last(x, None, factor, axis)
    along = coordinates(basis, point)
    values = along * (0.5 * spread(spectrum, point.ndim) * along + spread(slope, point.ndim))
    return jnp.sum(values, -1).astype(matched(x)[0].dtype)


def prox_quadratic(v: Array, step: Size, factor: QuadraticFactor, axis: int = -1) -> Array:
    """Proximal map of a convex quadratic, `g(x) = x^T Q x / 2 + q^T x`.

    `Prox(v; step) = (I + step Q)^-1 (v - step q)`, computed as `v - sum_i w_i (s_i <w_i, v> + d_i)
    step / (1 + step s_i)` with the eigenvectors w_i, the eigenvalues s_i and the coordinates d_i of
    q, from the factor: 4 n**2 operations for a point, whatever the step. `step = 0` gives v.

    Derivative: smooth, no kink; in Q and q through the factor.

    Args:
      factor: what `quadratic_factor` returns, of one function for all points.

    Reference: Parikh and Boyd, 2014, section 6.1.1.
    """
    point, step, (basis, spectrum, slope) = points_last(v, step, factor, axis)
    spectrum = spread(spectrum, point.ndim)
    share = resolvent(step, spectrum)
    change = (spectrum * share) * coordinates(basis, point) + share * spread(slope, point.ndim)
    return take_back(point - times(change, basis), v, axis)
