"""Projections onto affine sets and graphs of linear maps, with a factor made once."""

from functools import partial
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import matched, widened
from fedjax_admm.kernels.compiling import Real
from fedjax_admm.kernels.matrices._decompositions import decompose, times


class AffineFactor(NamedTuple):
    """An affine set `{x: basis x = level}`; build it with `affine_factor`.

    Attributes:
      basis: orthonormal rows, shape (k, n), some of them zero where equations depend on each other.
      level: shape (k,).
    """

    basis: Array
    level: Array


class GraphFactor(NamedTuple):
    """The graph of a linear map; build it with `graph_factor`.

    Attributes:
      along: orthonormal rows that span the graph, shape (n, n + m), or none, (0, n + m), where the
        complement has fewer.
      across: orthonormal rows that span its orthogonal complement, shape (m, n + m), or none.
    """

    along: Array
    across: Array


def affine_factor(matrix: Array, right: Real, decomposition: str | None = None) -> AffineFactor:
    """Prepare the projection onto `{x: matrix x = right}`, once for many points.

    The rows of `matrix` become orthonormal by a singular value decomposition, `matrix = U S W^T`;
    singular values below `max(m, n) eps` times the largest count as 0: rows may depend on each
    other. If no x solves all equations, the set is that of the least squares solutions, `matrix^T
    matrix x = matrix^T right`. The decomposition takes O(m n min(m, n)) operations; keep it out of
    loops.

    Derivative: exact in `matrix` while its rank stays, also at equal singular values, and in
    `right`.

    Args:
      matrix: shape (m, n), floating dtype.
      right: shape (m,) or a number.
      decomposition: "lapack", "rotations" (runs anywhere, slower for many rows), or None for the
        one that fits the process.

    Returns:
      The factor, at least float32: what `project_affine` takes.

    Reference: A. Ben-Israel and T. N. E. Greville, "Generalized Inverses", 2nd edition, Springer
    2003, chapter 3 (least squares sets); G. H. Golub and V. Pereyra, "The Differentiation of
    Pseudo-Inverses and Nonlinear Least Squares Problems Whose Variables Separate", SIAM Journal on
    Numerical Analysis 10(2), 1973 (derivatives of the projector).
    """
    matrix, right = matched(matrix, right)
    right = jnp.broadcast_to(right, matrix.shape[:1])
    return AffineFactor(*_factored(decomposition, widened(matrix), widened(right)))


def project_affine(
    v: Array, factor: AffineFactor | Array, right: Real | None = None, axis: int = -1
) -> Array:
    """Project onto an affine set, `C = {x: A x = b}` along an axis, with a factor made once.

    `Prox(v; step) = v - W^T (W v - c)` with the orthonormal rows W and the level c of
    `affine_factor(A, b)`, which is `v - A^+ (A v - b)` with the pseudo-inverse `A^+`: 2 k n
    operations for a point. `b = 0` gives a subspace. Derivative: smooth, no kink; in A and b
    through the factor.

    Args:
      factor: what `affine_factor` returns, of one set for all points; or A itself, shape (m, n),
        with `right`: then the factor is made at every call.
      right: b, shape (m,) or a number, where A stands in the place of the factor.

    Reference: Parikh and Boyd, 2014, section 6.2 (affine set).
    """
    (v,) = matched(v)
    if right is not None:
        factor = affine_factor(cast(Array, factor), right)
    points, basis, level = _rows(v, axis, cast(AffineFactor, factor))
    level = level.reshape((1,) * (points.ndim - 1) + (-1,))
    moved = points - times(times(points, basis.T) - level, basis)
    return jnp.moveaxis(moved, -1, axis).astype(v.dtype)


def graph_factor(matrix: Array, decomposition: str | None = None) -> GraphFactor:
    """Prepare the projection onto the graph `{(x, y): y = matrix x}`, once for many points.

    Stores min(m, n) orthonormal rows of n + m entries: of the graph itself if `m > n`, else of its
    orthogonal complement. Derivative: exact in `matrix`.

    Args:
      matrix: shape (m, n), floating dtype.
      decomposition: as in `affine_factor`.

    Returns:
      The factor, at least float32: what `project_graph` takes.

    Reference: N. Parikh and S. Boyd, "Block splitting for distributed optimization", Mathematical
    Programming Computation 6(1), 2014 (graph projection).
    """
    (matrix,) = matched(matrix)
    matrix = widened(matrix)
    m, n = matrix.shape
    none = jnp.zeros((0, n + m), matrix.dtype)
    if m > n:
        rows = jnp.concatenate([jnp.eye(n, dtype=matrix.dtype), matrix.T], 1)
        return GraphFactor(_factored(decomposition, rows, jnp.zeros(n, matrix.dtype))[0], none)
    rows = jnp.concatenate([matrix, -jnp.eye(m, dtype=matrix.dtype)], 1)
    return GraphFactor(none, _factored(decomposition, rows, jnp.zeros(m, matrix.dtype))[0])


def project_graph(v: Array, factor: GraphFactor, axis: int = -1) -> Array:
    """Project onto the graph of a linear map, `C = {(x, y): y = A x}`, with a factor made once.

    `Prox(v; step) = (x, A x)` where `(I + A^T A) x = v_x + A^T v_y` for `v = (v_x, v_y)`; computed
    as `W^T W v` with orthonormal rows that span the graph, or `v - W^T W v` with ones that span its
    orthogonal complement, whichever are fewer. Derivative: smooth, no kink; in A through the
    factor.

    Args:
      v: points, any shape; along `axis` the n entries of x, then the m entries of y.
      factor: what `graph_factor` returns, of one map for all points.
      axis: the axis that holds a point.

    Reference: N. Parikh and S. Boyd, "Block splitting for distributed optimization", Mathematical
    Programming Computation 6(1), 2014 (graph projection).
    """
    (v,) = matched(v)
    points, along, across = _rows(v, axis, factor)
    if len(along) > 0:
        moved = times(times(points, along.T), along)
    else:
        moved = points - times(times(points, across.T), across)
    return jnp.moveaxis(moved, -1, axis).astype(v.dtype)


def _rows(v: Array, axis: int, factor: tuple[Array, Array]) -> tuple[Array, Array, Array]:
    """Return points with their coordinates last, and the factor in their dtype."""
    points = jnp.moveaxis(widened(v), axis, -1)
    one, other = factor
    return points, one.astype(points.dtype), other.astype(points.dtype)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _factored(decomposition: str | None, matrix: Array, right: Array) -> tuple[Array, Array]:
    """Return orthonormal rows W that span those of the matrix, and W times a solution."""
    basis, level, _, _ = _decomposed(decomposition, matrix, right)
    return basis, level


def _decomposed(decomposition: str | None, matrix: Array, right: Array) -> tuple[Array, ...]:
    left, values, rows = decompose(matrix, decomposition)
    negligible = max(matrix.shape) * jnp.finfo(matrix.dtype).eps * jnp.max(values, initial=0)
    seen = values > negligible
    inverse = jnp.where(seen, 1 / jnp.where(seen, values, 1.0), 0.0)
    basis = jnp.where(seen[:, None], rows.T, 0.0)
    return basis, inverse * times(right, left), left, inverse


@_factored.defjvp
def _factored_derivative(decomposition, primals, tangents):
    """Move the rows out of their span only: turning them within it changes no projection.

    `dW = S^-1 U^T dA (I - W^T W)` and, with a solution `x = W^T c`,
    `dc = S^-1 U^T (db - dA x) + S^-2 W dA^T (b - A x)`, from the derivative of the pseudo-inverse.
    """
    matrix, right = primals
    d_matrix, d_right = tangents
    basis, level, left, inverse = _decomposed(decomposition, matrix, right)
    solution = times(level, basis)
    rest = right - times(matrix, solution)
    turned = inverse[:, None] * times(left.T, d_matrix)
    d_basis = turned - times(times(turned, basis.T), basis)
    d_level = inverse * times(d_right, left) - times(turned, solution)
    d_level += inverse * inverse * times(basis, times(rest, d_matrix))
    return (basis, level), (d_basis, d_level)
