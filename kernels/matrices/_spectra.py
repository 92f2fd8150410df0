"""Functions of singular values and of eigenvalues, with derivatives where these are equal."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import matched, widened
from fedjax_admm.kernels.compiling import Real
from fedjax_admm.kernels.matrices._decompositions import decompose, decompose_symmetric, times


def spectral_map(
    v: Array,
    function: Callable[..., Array],
    *parameters: Real,
    separable: bool = True,
    decomposition: str | None = None,
) -> Array:
    """Apply a function to the singular values of matrices.

    `F(v) = U diag(f(s)) V^T` where `v = U diag(s) V^T`. With the proximal map of g as f it is the
    proximal map of `G(X) = g(s(X))`, if g does not depend on signs and on the order. A matrix whose
    singular values f leaves alone comes back unchanged, bit for bit.

    Ties: equal singular values that f sends to different numbers (counts, jumps) are told apart by
    the order in which the decomposition finds them. Derivative: by divided differences of f, `(f(a)
    - f(b)) / (a - b)` and `(f(a) + f(b)) / (a + b)` for every pair of singular values, with f'
    where the two are equal to half of the digits and where both are 0: finite everywhere, in
    forward and reverse mode, by the parameters too. At kinks of f it follows f.

    Args:
      v: shape (..., m, n), floating dtype. Infinite entries give NaN.
      function: `function(s, *parameters)`, `s` of shape (..., 1, k) with `k = min(m, n)`, falling;
        0 at 0. It closes over no traced array.
      *parameters: numbers, or arrays that broadcast with shape (..., 1, k).
      separable: whether every result depends on its own singular value alone; if not, f must treat
        all alike (the projection on a ball does), and its whole Jacobian is computed.
      decomposition: "lapack", "rotations" (slower for large matrices, never waits for another
        device), or None: rotations on a CPU with several devices, else the platform's routines.

    Returns:
      Shape (..., m, n), dtype of `v`.

    Reference: A. S. Lewis, "The convex analysis of unitarily invariant matrix functions", Journal
    of Convex Analysis 2, 1995 (the proximal map); V. Noferini, "A formula for the Frechet
    derivative of a generalized matrix function", SIAM Journal on Matrix Analysis and Applications
    38(2), 2017 (the derivative).
    """
    wide, parameters, broken = _prepared(v, parameters)
    flat = wide.shape[-2] < wide.shape[-1]
    found = _mapped(function, separable, decomposition, wide.mT if flat else wide, parameters)
    return _finished(v, found.mT if flat else found, broken)


def eigenvalue_map(
    v: Array,
    function: Callable[..., Array],
    *parameters: Real,
    decomposition: str | None = None,
) -> Array:
    """Apply a function of one number to the eigenvalues of symmetric matrices.

    `F(v) = Q diag(f(l)) Q^T` where `(v + v^T) / 2 = Q diag(l) Q^T`. With the proximal map of g as f
    it is the proximal map of `G(X) = sum g(l(X))`, infinite where X is not symmetric.

    Derivative: by divided differences of f, `(f(a) - f(b)) / (a - b)` for every pair of
    eigenvalues, with f' where the two are equal to half of the digits: finite everywhere, in
    forward and reverse mode, by the parameters too. At kinks of f it follows f.

    Args:
      v: shape (..., n, n), floating dtype; its symmetric part counts. Infinite entries give NaN.
      function: `function(l, *parameters)`, elementwise, `l` of shape (..., 1, n). It closes over no
        traced array.
      *parameters: numbers, or arrays that broadcast with shape (..., 1, 1).
      decomposition: "lapack", "rotations" (slower for large matrices, never waits for another
        device), or None: rotations on a CPU with several devices, else the platform's routines.

    Returns:
      Symmetric, shape (..., n, n), dtype of `v`.

    Reference: R. Bhatia, "Matrix Analysis", Springer, 1997, theorem V.3.3 (Daleckii and Krein's
    derivative); A. S. Lewis, "Convex analysis on the Hermitian matrices", SIAM Journal on
    Optimization 6(1), 1996 (the proximal map).
    """
    wide, parameters, broken = _prepared(v, parameters)
    if wide.shape[-1] != wide.shape[-2]:
        raise ValueError(f"eigenvalues need square matrices, but their shape is {wide.shape}.")
    wide = wide / 2 + wide.mT / 2
    return _finished(v, _symmetric(function, decomposition, wide, parameters), broken)


def singular_values(v: Array, decomposition: str | None = None) -> Array:
    """Return the singular values of matrices, falling.

    Derivative: `u_i^T dv w_i` for the vectors that were found; finite where values are equal or 0.

    Args:
      v: shape (..., m, n), floating dtype. Infinite entries give NaN.

    Returns:
      Shape (..., min(m, n)), dtype of `v`.

    Reference: G. H. Golub and C. F. Van Loan, "Matrix Computations", 4th edition, 2013, section
    2.4.
    """
    wide, _, broken = _prepared(v, ())
    values = decompose(wide, decomposition)[1]
    return _finished(v, values, broken[..., 0])


def _prepared(v, parameters):
    """Return matrices without what no decomposition takes, parameters, and which were broken."""
    v, *parameters = matched(v, *parameters)
    if v.ndim < 2:
        raise ValueError(f"matrices have at least two axes, but the shape is {v.shape}.")
    wide = widened(v)
    broken = ~jnp.all(jnp.isfinite(wide), axis=(-2, -1), keepdims=True)
    return jnp.where(broken, 0, wide), tuple(widened(p) for p in parameters), broken


def _finished(v: Any, found: Array, broken: Array) -> Array:
    return jnp.where(broken, jnp.nan, found).astype(matched(v)[0].dtype)


def _assembled(left, values, right):
    return times(left * values, right.mT)


def _decomposed(matrix, decomposition):
    """Return a decomposition whose left vectors are orthonormal, or 0 where they are noise."""
    left, values, right = decompose(matrix, decomposition)
    noise = matrix.shape[-2] * jnp.finfo(matrix.dtype).eps * jnp.max(values, -1, keepdims=True)
    values, seen = values[..., None, :], (values > noise)[..., None, :]
    return jnp.where(seen, left, 0), values, right


@partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def _mapped(function, separable, decomposition, matrix, parameters):
    left, values, right = decompose(matrix, decomposition)
    values = values[..., None, :]
    found = function(values, *parameters)
    kept = jnp.all(found == values, axis=-1, keepdims=True)
    return jnp.where(kept, matrix, _assembled(left, found, right))


@_mapped.defjvp
def _mapped_derivative(function, separable, decomposition, primals, tangents):
    matrix, parameters = primals
    moved, moved_parameters = tangents
    left, values, right = _decomposed(matrix, decomposition)
    found, by_parameters = jax.jvp(
        lambda *numbers: function(values, *numbers), parameters, moved_parameters
    )
    turned = times(times(left.mT, moved), right)
    along = jnp.diagonal(turned, axis1=-2, axis2=-1)[..., None, :]
    if separable:
        slope, own = _slopes(function, values, parameters, along)
        limit = slope / 2 + slope.mT / 2
    else:
        basis = jnp.eye(values.shape[-1], dtype=values.dtype)
        jacobian = jax.vmap(
            lambda e: _pushed(function, values, parameters, jnp.broadcast_to(e, values.shape)),
            out_axes=-1,
        )(basis.reshape(-1, *[1] * (values.ndim - 1), basis.shape[0]))[..., 0, :, :]
        slope = jnp.diagonal(jacobian, axis1=-2, axis2=-1)[..., None, :]
        own = times(along, jacobian.mT)
        limit = (slope - jacobian) / 2 + (slope - jacobian).mT / 2
    even = _divided(found, values, limit, -1)
    odd = _divided(found, values, slope / 2 + slope.mT / 2, 1)
    diagonal = jnp.eye(values.shape[-1], dtype=bool)
    diagonal = diagonal.reshape(*[1] * (values.ndim - 2), *diagonal.shape)
    core = jnp.where(diagonal, own, even * (turned + turned.mT) / 2)
    core = core + odd * (turned - turned.mT) / 2
    positive = values > 0
    outside = jnp.where(positive, found / jnp.where(positive, values, 1), slope)
    inner = times(left, core) + (times(moved, right) - times(left, turned)) * outside
    kept = jnp.all(found == values, axis=-1, keepdims=True)
    image = jnp.where(kept, matrix, _assembled(left, found, right))
    return image, times(inner + left * by_parameters, right.mT)


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _symmetric(function, decomposition, matrix, parameters):
    values, vectors = decompose_symmetric(matrix, decomposition)
    values = values[..., None, :]
    found = function(values, *parameters)
    kept = jnp.all(found == values, axis=-1, keepdims=True)
    return jnp.where(kept, matrix, _assembled(vectors, found, vectors))


@_symmetric.defjvp
def _symmetric_derivative(function, decomposition, primals, tangents):
    matrix, parameters = primals
    moved, moved_parameters = tangents
    values, vectors = decompose_symmetric(matrix, decomposition)
    values = values[..., None, :]
    found, by_parameters = jax.jvp(
        lambda *numbers: function(values, *numbers), parameters, moved_parameters
    )
    turned = times(times(vectors.mT, moved), vectors)
    slope, _ = _slopes(function, values, parameters, values)
    core = _divided(found, values, slope / 2 + slope.mT / 2, -1) * turned
    kept = jnp.all(found == values, axis=-1, keepdims=True)
    image = jnp.where(kept, matrix, _assembled(vectors, found, vectors))
    return image, times(times(vectors, core) + vectors * by_parameters, vectors.mT)


def _pushed(function, values, parameters, along):
    """Return the derivative of a function by the values, along a direction."""
    return jax.jvp(lambda s: function(s, *parameters), (values,), (along,))[1]


def _slopes(function, values, parameters, along):
    slope = _pushed(function, values, parameters, jnp.ones_like(values))
    return slope, slope * along


def _divided(found, values, limit, sign):
    """Return `(f(a) + sign f(b)) / (a + sign b)` for all pairs, the limit where that is 0 / 0."""
    below = values + sign * values.mT
    size = jnp.max(jnp.abs(values), axis=-1, keepdims=True)
    # Nearer than this, the rounding of the difference is worse than the mean of both slopes.
    small = jnp.abs(below) <= jnp.finfo(values.dtype).eps ** 0.5 * size
    small = small if sign < 0 else below <= 0
    return jnp.where(small, limit, (found + sign * found.mT) / jnp.where(small, 1, below))
