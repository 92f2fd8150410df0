"""Linear algebra without LAPACK: in a batch, on several devices of one CPU, on a GPU.

LAPACK's eigenvalue, singular value, LU and Cholesky routines, as JAX 0.10 calls them on a CPU, can
hang when several devices of one process solve batches of problems at once. These functions use sums
and products only, like `fedjax_admm.kernels.eigh_by_rotations`.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from fedjax_admm.kernels import eigh_by_rotations, safe_norm, safe_ratio, svd_by_rotations

# Squarings resolve a relative gap of about 2^-40 between the two largest eigenvalues.
_SQUARINGS = 40


def top_eigenvector(matrix: jax.Array) -> jax.Array:
    """Return the unit eigenvector of the largest eigenvalue of a positive semidefinite matrix.

    The matrix is squared again and again, P <- P^2 / trace(P^2): after s squarings the share of an
    eigenvalue l in P is l^(2^s), so that P becomes the projector onto the top eigenvector. For an
    eigenspace of several dimensions, the result is one of its vectors.

    Args:
      matrix: shape (n, n), symmetric, positive semidefinite.

    Returns:
      Shape (n,), of length 1 and either sign; zero for the zero matrix.
    """

    def square(power, _):
        squared = jnp.matmul(power, power, precision=jax.lax.Precision.HIGHEST)
        return safe_ratio(squared, jnp.trace(squared)), None

    first = safe_ratio(matrix, jnp.trace(matrix))
    projector, _ = jax.lax.scan(square, first, length=_SQUARINGS)
    column = projector[:, jnp.argmax(jnp.diagonal(projector))]
    return safe_ratio(column, safe_norm(column))


def top_eigenvalue(matrix: jax.Array) -> jax.Array:
    """Return the largest eigenvalue of a positive semidefinite matrix (n, n), shape ()."""
    vector = top_eigenvector(matrix)
    image = jnp.matmul(matrix, vector, precision=jax.lax.Precision.HIGHEST)
    return jnp.sum(vector * image)


def positive_inverse(matrix: jax.Array) -> jax.Array:
    """Invert a symmetric positive definite matrix by Gauss-Jordan elimination, many at once.

    No pivoting: the pivots of a positive definite matrix are positive. The relative error of the
    inverse is about the condition number times the rounding of the dtype.

    Args:
      matrix: shape (..., n, n), symmetric, positive definite.

    Returns:
      The inverse, shape (..., n, n).

    Reference: N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition,
    section 14.4 (Gauss-Jordan elimination).
    """
    size = matrix.shape[-1]
    places = jnp.arange(size)

    def eliminate(a, k):
        row, column = jnp.take(a, k, axis=-2), jnp.take(a, k, axis=-1)
        here = places == k
        pivot = jnp.take(row, k, axis=-1)[..., None]
        # The row and the column of the pivot become those of the inverse.
        scaled = jnp.where(here, 1, row) / pivot
        rest = jnp.where(here[:, None], 0, a)
        rest = jnp.where(here, 0, rest)
        outer = jnp.where(here, -1, column)[..., :, None] * scaled[..., None, :]
        return rest - outer, None

    return jax.lax.scan(eliminate, matrix, places)[0]


def pivots(matrix: jax.Array) -> jax.Array:
    """Return the pivots of small symmetric matrices: all positive if and only if a matrix is.

    Their product is the determinant. The elimination is written out.

    Args:
      matrix: shape (..., n, n), symmetric.

    Returns:
      Shape (..., n); not finite after a pivot 0.
    """
    found, rest = [], matrix
    for _ in range(matrix.shape[-1]):
        pivot, row = rest[..., 0, 0], rest[..., 0, 1:]
        found.append(pivot)
        outer = row[..., :, None] * row[..., None, :] / pivot[..., None, None]
        rest = rest[..., 1:, 1:] - outer
    return jnp.stack(found, -1)


def eigh_in_any_units(matrix: jax.Array, *, lifted: bool) -> tuple[jax.Array, jax.Array]:
    """Decompose a positive semidefinite matrix whose rows may have very different units.

    With `matrix = D C D`, C of unit diagonal, and `C = W diag(c) W^T`, one-sided rotations find the
    singular values of `diag(c)^(1/2) W^T D`: all are as accurate as C allows, whatever D is.

    Args:
      matrix: shape (n, n), symmetric, positive semidefinite.
      lifted: whether an eigenvalue of C that is rounding alone counts as the least that is not,
        and a row of zeros as one of the least diagonal entry; else both are 0.

    Returns:
      Eigenvalues, shape (n,), falling, and eigenvectors as columns, shape (n, n).

    Reference: J. Demmel and K. Veselic, "Jacobi's method is more accurate than QR", SIAM Journal on
    Matrix Analysis and Applications 13(4), 1992.
    """
    size, eps = matrix.shape[-1], jnp.finfo(matrix.dtype).eps
    root = jnp.sqrt(jnp.diagonal(matrix))
    known = root > 0
    least = jnp.min(jnp.where(known, root, jnp.inf))
    root = jnp.where(known, root, jnp.where(jnp.isfinite(least), least, 1))
    diagonal = jnp.where(known | lifted, 1, 0).astype(matrix.dtype)
    scaled = matrix / root[:, None] / root[None]
    scaled = scaled.at[jnp.diag_indices(size)].set(diagonal)
    spectrum, vectors = eigh_by_rotations(scaled)
    rounding = 64 * size * eps * jnp.max(spectrum)
    spectrum = jnp.where(spectrum > rounding, spectrum, rounding if lifted else 0)
    rows = jnp.sqrt(spectrum)[:, None] * vectors.T * root[None]
    _, singular, vectors = svd_by_rotations(rows)
    return singular**2, vectors


def solve_least_norm(matrix: jax.Array, right: jax.Array) -> jax.Array:
    """Solve `matrix x = right` for the shortest x, where matrix and right side come from data.

    Up to 128 unknowns the matrix is decomposed without the eigenvalues that are rounding alone.
    Larger systems are solved with a small ridge and refined: directions whose eigenvalues are below
    a millionth of the mean one (a thirtieth in float32) are not resolved.

    Args:
      matrix: shape (n, n), symmetric and positive semidefinite; it may be singular.
      right: shape (n,), in the range of the matrix to rounding.

    Returns:
      Shape (n,).

    Reference: C. W. Groetsch, "The Theory of Tikhonov Regularization for Fredholm Equations of the
    First Kind", Pitman 1984 (iterated regularisation).
    """
    highest, size = jax.lax.Precision.HIGHEST, matrix.shape[-1]
    eps = jnp.finfo(matrix.dtype).eps
    if size <= _DECOMPOSED:
        spectrum, vectors = eigh_in_any_units(matrix, lifted=False)
        # Eigenvalues that should be 0 are below the square of the rounding.
        seen = spectrum > eps**2 * jnp.max(spectrum)
        scaled = vectors * safe_ratio(1.0, jnp.where(seen, spectrum, 0))[None]
        inverse, steps = jnp.matmul(scaled, vectors.T, precision=highest), 3
    else:
        mean = jnp.trace(matrix) / size
        ridge = jnp.where(mean > 0, mean, 1) * eps ** (1 / 3)
        inverse, steps = positive_inverse(matrix + ridge * jnp.eye(size, dtype=matrix.dtype)), 50

    def refine(x, _):
        error = right - jnp.matmul(matrix, x, precision=highest)
        return x + jnp.matmul(inverse, error, precision=highest), None

    return jax.lax.scan(refine, jnp.zeros_like(right), length=steps)[0]


_DECOMPOSED = 128


def compensated_sum(
    carry: tuple[jax.Array, jax.Array], term: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Add a term to a sum with compensated rounding.

    `(total, lost)` stands for `total + lost`, with `lost` below the rounding of `total`: millions
    of additions are as accurate as a few.

    Reference: D. E. Knuth, "The Art of Computer Programming", volume 2, 3rd edition, section 4.2.2,
    theorem B (the exact error of an addition).
    """
    total, lost = carry
    new, cut = _two_sum(total, term)
    return _two_sum(new, lost + cut)


def _two_sum(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the rounded sum and its rounding error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def conjugate_gradients(
    apply: Callable[[jax.Array], jax.Array], target: jax.Array, tolerance: float = 1e-5
) -> jax.Array:
    """Solve `apply(x) = target` for a symmetric positive definite map by conjugate gradients.

    Unlike `jax.scipy.sparse.linalg.cg` it can stand inside `jax.lax.custom_root`, whose derivative
    is transposed; it has no derivative of its own.

    Args:
      apply: linear, (dim,) to (dim,).
      target: shape (dim,).
      tolerance: of the residual, relative to the target.

    Returns:
      Shape (dim,), after at most 10 dim steps.
    """
    limit = tolerance**2 * jnp.vdot(target, target)

    def goes_on(carry):
        _, _, _, residual, steps = carry
        return (residual > limit) & (steps < 10 * target.size)

    def step(carry):
        x, r, direction, residual, steps = carry
        bent = apply(direction)
        bend = jnp.vdot(direction, bent)
        # A direction without curvature ends the search with a step of length 0.
        length = jnp.where(bend > 0, residual / jnp.where(bend > 0, bend, 1), 0)
        x, r = x + length * direction, r - length * bent
        new = jnp.where(bend > 0, jnp.vdot(r, r), 0)
        return x, r, r + new / residual * direction, new, steps + 1

    first = (jnp.zeros_like(target), target, target, jnp.vdot(target, target), jnp.int32(0))
    return jax.lax.while_loop(goes_on, step, first)[0]
