"""Factor models of sparse tables: residuals of the entries, and the quadratics of the rows.

An entry `(t, j)` with value `M` is predicted by `u_t^T v_j`. With the v's fixed, the squared
residuals are one quadratic in every row's factor,

    1/2 sum_j (u_t^T v_j - M_tj)**2 = 1/2 u_t^T G_t u_t - b_t^T u_t + constant,
    G_t = sum_j v_j v_j^T,   b_t = sum_j M_tj v_j,

so that any number of gradient steps, `G_t u_t - b_t` each, needs one pass over the entries. A
quadratic is stored as r (r + 1) / 2 + r numbers: the upper triangle of G, row by row, then b.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedjax_admm.kernels._safe import safe_norm


def factor_residual(u: Array, v: Array, rows: Array, columns: Array, values: Array) -> Array:
    """Residuals of entries, `e = u_t^T v_j - M_tj`.

    Args:
      u: factors of the rows, shape (rows of the table, r).
      v: factors of the columns, shape (columns of the table, r).
      rows: row of each entry, shape (entries,), int32; numbers out of range read the nearest row.
      columns: column of each entry, likewise.
      values: values of the entries, shape (entries,).

    Returns:
      Residuals, shape (entries,), dtype of `u`.

    Reference: P. Hytla, T. T. A. Nghia, D. N. Phan, A. Rice, "A Linearized Alternating Direction
    Multiplier Method for Federated Matrix Completion Problems" (the loss f_i).
    """
    products = jnp.take(u, rows, 0, mode="clip") * jnp.take(v, columns, 0, mode="clip")
    # XLA's reduction over a short last axis is scalar code on a CPU.
    return sum(products[:, k] for k in range(products.shape[-1])) - values


def factor_gram(
    v: Array,
    rows: Array,
    columns: Array,
    values: Array,
    num_rows: int,
    start: Array | None = None,
) -> Array:
    """Quadratics of the rows of a table, `G_t = sum_j v_j v_j^T` and `b_t = sum_j M_tj v_j`.

    Args:
      v: factors of the columns, shape (columns of the table, r).
      rows: row of each entry, shape (entries,), int32, in increasing order; entries whose row is
        `num_rows` or more are left out.
      columns: column of each entry, shape (entries,), int32; numbers out of range read the nearest
        column.
      values: values of the entries, shape (entries,).
      num_rows: number of rows.
      start: the quadratics of other entries, to which these are added; zero if None.

    Returns:
      Quadratics, shape (num_rows, r (r + 1) / 2 + r), dtype of `v`; 0 for a row without entries. A
      table of r (r + 3) / 2 products per entry is held in memory: pass many entries in parts, with
      `start`.

    Reference: P. Hytla et al., as for `factor_residual`; the normal matrices of alternating least
    squares, Y. Zhou et al., "Large-scale Parallel Collaborative Filtering for the Netflix Prize",
    2008, equation (4).
    """
    w = jnp.take(v, columns, 0, mode="clip")
    # Row by row of the triangle: four times as fast on a CPU as one gather of all pairs.
    upper = [w[:, a : a + 1] * w[:, a:] for a in range(w.shape[-1])]
    products = jnp.concatenate([*upper, values[:, None] * w], -1)
    sums = jnp.zeros((num_rows, products.shape[-1]), v.dtype) if start is None else start
    return sums.at[rows].add(products, indices_are_sorted=True, mode="drop")


def gram_gradient(quadratic: Array, u: Array) -> Array:
    """Gradients of the quadratics, `G_t u_t - b_t`, components first.

    Components are the first axis, where the loop over rows is the innermost one: several times
    faster on a CPU than rows first.

    Args:
      quadratic: shape (r (r + 1) / 2 + r, ...): the transpose of what `factor_gram` returns.
      u: factors, shape (r, ...).

    Returns:
      Gradients, shape (r, ...).

    Reference: P. Hytla et al., as for `factor_residual` (the gradients of both blocks).
    """
    size = u.shape[0]
    place = _places(size)
    products = [sum(quadratic[place[a, b]] * u[b] for b in range(size)) for a in range(size)]
    return jnp.stack(products) - quadratic[-size:]


def gram_norm(quadratic: Array) -> Array:
    """Frobenius norms of the matrices, `||G_t||_F`, an upper bound of their largest eigenvalues.

    Args:
      quadratic: components first, shape (r (r + 1) / 2 + r, ...).

    Returns:
      Norms, shape (...,); the derivative is 0 where G is 0.

    Reference: G. H. Golub, C. F. Van Loan, "Matrix Computations", 4th edition, section 2.3.2.
    """
    size = _rank(quadratic)
    return safe_norm(quadratic[_places(size).ravel()], axis=0)


def _rank(quadratic: Array) -> int:
    """The r of a quadratic: it solves r (r + 3) / 2 = components."""
    return round((np.sqrt(9 + 8 * quadratic.shape[0]) - 3) / 2)


def _places(size: int) -> np.ndarray:
    """Place of entry (a, b) of a symmetric matrix in its upper triangle."""
    place = np.zeros((size, size), int)
    place[np.triu_indices(size)] = np.arange(size * (size + 1) // 2)
    return np.maximum(place, place.T)
