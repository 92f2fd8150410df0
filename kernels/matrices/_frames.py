"""Matrices with orthonormal columns."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import demand_entries, matched, widened
from fedjax_admm.kernels._loops import scan
from fedjax_admm.kernels.matrices._decompositions import decompose, times


def project_stiefel(v: Array, decomposition: str | None = None) -> Array:
    """Project onto the matrices with orthonormal columns (rows, where `v` is wide).

    `U V^T` where `v = U diag(s) V^T`: the orthogonal factor of the polar decomposition.

    Ties, singular values 0 (to rounding): any orthonormal completion is as near; that is taken
    which is built from unit vectors, so that the zero matrix gives a part of the identity up to the
    signs of the decomposition. Derivative: `U ((P - P^T) / (s_i + s_j)) V^T + (1 - U U^T) dv V
    diag(1 / s) V^T` with `P = U^T dv V`, smooth at full rank; where it is infinite, along singular
    values 0, it is taken as 0.

    Args:
      v: shape (..., m, n), floating dtype. Infinite entries give NaN.

    Reference: K. Fan and A. J. Hoffman, "Some metric inequalities in the space of matrices",
    Proceedings of the American Mathematical Society 6, 1955; N. J. Higham, "Functions of Matrices",
    SIAM, 2008, theorem 8.4.
    """
    (v,) = matched(v)
    if v.ndim < 2:
        raise ValueError(f"matrices have at least two axes, but the shape is {v.shape}.")
    demand_entries(v, -1, "project_stiefel")
    wide = widened(v)
    broken = ~jnp.all(jnp.isfinite(wide), axis=(-2, -1), keepdims=True)
    wide = jnp.where(broken, 0, wide)
    flat = v.shape[-2] < v.shape[-1]
    found = _polar(decomposition, wide.mT if flat else wide)
    return jnp.where(broken, jnp.nan, found.mT if flat else found).astype(v.dtype)


def project_orthogonal(v: Array, decomposition: str | None = None) -> Array:
    """Project square matrices onto the orthogonal ones.

    `U V^T` where `v = U diag(s) V^T`, of either determinant: rotations and reflections. Ties and
    derivative are those of `project_stiefel`.

    Args:
      v: shape (..., n, n), floating dtype. Infinite entries give NaN.

    Reference: P. H. Schoenemann, "A generalized solution of the orthogonal Procrustes problem",
    Psychometrika 31, 1966.
    """
    (v,) = matched(v)
    if v.ndim < 2 or v.shape[-1] != v.shape[-2]:
        raise ValueError(f"orthogonal matrices are square, but the shape is {v.shape}.")
    return project_stiefel(v, decomposition)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _polar(decomposition, matrix):
    left, _, right = _framed(decomposition, matrix)
    return times(_completed(left), right.mT)


@_polar.defjvp
def _polar_derivative(decomposition, primals, tangents):
    left, values, right = _framed(decomposition, *primals)
    (moved,) = tangents
    turned = times(times(left.mT, moved), right)
    positive = values > 0
    inverse = jnp.where(positive, 1 / jnp.where(positive, values, 1), 0)
    sums = values + values.mT
    both = positive & positive.mT
    core = jnp.where(both, (turned - turned.mT) / jnp.where(both, sums, 1), 0)
    # A direction without singular value is part of the completion: there the frame stays.
    inner = times(left, core) + (times(moved, right) - times(left, turned)) * inverse
    return times(_completed(left), right.mT), times(inner, right.mT)


def _framed(decomposition, matrix):
    """Return a decomposition in which vectors and values that are rounding alone are 0."""
    left, values, right = decompose(matrix, decomposition)
    noise = matrix.shape[-2] * jnp.finfo(matrix.dtype).eps * jnp.max(values, -1, keepdims=True)
    seen = (values > noise)[..., None, :]
    return jnp.where(seen, left, 0), jnp.where(seen, values[..., None, :], 0), right


def _completed(frame):
    """Replace columns of zeros by unit vectors that are orthogonal to the others."""

    def complete(q, place):
        column = jnp.take(q, place, axis=-1)[..., None]
        missing = jnp.sum(column * column, axis=(-2, -1), keepdims=True) == 0
        # The unit vector of which most lies outside of the span so far; twice is enough.
        outside = jnp.argmin(jnp.sum(q * q, axis=-1), axis=-1)
        new = jax.nn.one_hot(outside, q.shape[-2], dtype=q.dtype)[..., None]
        for _ in range(2):
            new = new - times(q, times(q.mT, new))
        new = new / jnp.sqrt(jnp.sum(new * new, axis=(-2, -1), keepdims=True))
        here = jax.nn.one_hot(place, q.shape[-1], dtype=q.dtype)
        return jnp.where(missing, q + new * here.reshape(*[1] * (q.ndim - 1), -1), q), None

    frame = jax.lax.stop_gradient(frame)
    return scan(complete, frame, jnp.arange(frame.shape[-1]))[0]
