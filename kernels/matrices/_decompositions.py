"""Decompositions of batches of matrices, with derivatives that are finite everywhere.

Two ways: the routines of the platform behind `jax.numpy.linalg` (LAPACK on a CPU), and rotations.
LAPACK's, as JAX 0.10 calls them, wait for ever now and then when several CPU devices of one process
decompose larger matrices (130 rows; seen within 50 calls) at once. So rotations are taken for a CPU
where the process has several of its devices, and the platform's routines everywhere else: unasked,
no kernel can hang, and one device pays nothing for it.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import matched, widened
from fedjax_admm.kernels.matrices._rotations import rotate_symmetric, rotate_tall

WAYS = ("lapack", "rotations")


def eigh_by_rotations(matrix: Array) -> tuple[Array, Array]:
    """Decompose symmetric matrices by Jacobi's rotations, many at once.

    `matrix = vectors diag(values) vectors^T`. Each round rotates n / 2 disjoint pairs of rows and
    columns so that their common entries vanish; n - 1 rounds, with the pairs of a round-robin
    tournament, make one sweep over all pairs. Sweeps end when nothing is left to rotate.

    Derivative: exact where eigenvalues differ; between equal ones the part `1 / (l_i - l_j)` of the
    derivative of the vectors, which does not exist, is taken as 0.

    Args:
      matrix: shape (..., n, n), symmetric, floating dtype.

    Returns:
      The eigenvalues, shape (..., n), in no particular order, and the eigenvectors as the columns
      of an orthogonal matrix, shape (..., n, n).

    Reference: G. H. Golub and C. F. Van Loan, "Matrix Computations", 4th edition, 2013, sections
    8.5.3 to 8.5.6 (cyclic and parallel Jacobi).
    """
    (matrix,) = matched(matrix)
    values, vectors = decompose_symmetric(widened(matrix), "rotations")
    return values.astype(matrix.dtype), vectors.astype(matrix.dtype)


def svd_by_rotations(matrix: Array) -> tuple[Array, Array, Array]:
    """Decompose matrices of any shape by one-sided Jacobi rotations, many at once.

    `matrix = left diag(values) right^T`. Rounds rotate disjoint pairs of columns (of rows, where
    the matrix is wide) until all are orthogonal; their lengths are the singular values. Small ones
    are as accurate as the columns allow, down to the root of the smallest number of the dtype times
    the largest one; those below are 0.

    Derivative: exact where singular values differ and are positive; the parts `1 / (s_i - s_j)` and
    `1 / (s_i + s_j)` that do not exist are taken as 0.

    Args:
      matrix: shape (..., m, n), floating dtype.

    Returns:
      Left vectors as columns, shape (..., m, k) with `k = min(m, n)`; singular values, shape (...,
      k), falling; right vectors as columns, shape (..., n, k). Of a singular value 0, the left
      vector of a tall or square matrix and the right one of a wide matrix are zero; where it is
      below the rounding of the largest one, they have length 1 but need not be orthogonal.

    Reference: G. H. Golub and C. F. Van Loan, "Matrix Computations", 4th edition, 2013, section
    8.6.3 (one-sided Jacobi); J. Demmel and K. Veselic, "Jacobi's method is more accurate than QR",
    SIAM Journal on Matrix Analysis and Applications 13(4), 1992.
    """
    (matrix,) = matched(matrix)
    left, values, right = decompose(widened(matrix), "rotations")
    return left.astype(matrix.dtype), values.astype(matrix.dtype), right.astype(matrix.dtype)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def decompose_symmetric(matrix: Array, decomposition: str | None) -> tuple[Array, Array]:
    """Return the eigenvalues, in no particular order, and eigenvectors of symmetric matrices."""

    def lapack(a):
        return tuple(jnp.linalg.eigh(a, symmetrize_input=False))

    return _by_the_way(decomposition, rotate_symmetric, lapack, matrix)


@decompose_symmetric.defjvp
def _eigh_derivative(decomposition, primals, tangents):
    values, vectors = decompose_symmetric(*primals, decomposition)
    turned = times(times(vectors.mT, tangents[0]), vectors)
    gaps = values[..., None, :] - values[..., :, None]
    distinct = gaps != 0
    mixing = jnp.where(distinct, turned / jnp.where(distinct, gaps, 1), 0)
    moved = jnp.diagonal(turned, axis1=-2, axis2=-1)
    return (values, vectors), (moved, times(vectors, mixing))


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def decompose(matrix: Array, decomposition: str | None) -> tuple[Array, Array, Array]:
    """Return left vectors as columns, falling singular values, and right vectors as columns."""
    if matrix.shape[-2] < matrix.shape[-1]:
        right, values, left = decompose(matrix.mT, decomposition)
        return left, values, right

    def lapack(a):
        left, values, right = jnp.linalg.svd(a, full_matrices=False)
        return left, values, right.mT

    return _by_the_way(decomposition, rotate_tall, lapack, matrix)


@decompose.defjvp
def _svd_derivative(decomposition, primals, tangents):
    left, values, right = decompose(*primals, decomposition)
    (moved,) = tangents
    turned = times(times(left.mT, moved), right)
    own, other = values[..., None, :], values[..., :, None]
    gaps, sums = own - other, own + other
    distinct, positive = gaps != 0, sums > 0
    # In equal and opposite parts: own^2 - other^2 would overflow before its quotient does.
    even = jnp.where(distinct, (turned + turned.mT) / jnp.where(distinct, gaps, 1), 0) / 2
    odd = jnp.where(positive, (turned - turned.mT) / jnp.where(positive, sums, 1), 0) / 2
    inverse = jnp.where(values > 0, 1 / jnp.where(values > 0, values, 1), 0)[..., None, :]
    outside_left = (times(moved, right) - times(left, turned)) * inverse
    outside_right = (times(moved.mT, left) - times(right, turned.mT)) * inverse
    return (left, values, right), (
        times(left, even + odd) + outside_left,
        jnp.diagonal(turned, axis1=-2, axis2=-1),
        times(right, even - odd) + outside_right,
    )


def _by_the_way(decomposition, rotations, lapack, matrix):
    if decomposition is not None and decomposition not in WAYS:
        raise ValueError(
            f"decomposition must be one of {', '.join(WAYS)} or None, but it is {decomposition!r}."
        )
    if decomposition == "rotations":
        return rotations(matrix)
    if decomposition == "lapack" or matrix.size == 0 or not _several_cpu_devices():
        return lapack(matrix)
    return jax.lax.platform_dependent(matrix, cpu=rotations, default=lapack)


def _several_cpu_devices():
    try:
        return len(jax.local_devices(backend="cpu")) > 1
    except RuntimeError:  # a process without CPU devices
        return False


def times(left: Array, right: Array) -> Array:
    """Return the product of matrices, in full precision on every platform."""
    return jnp.matmul(left, right, precision=jax.lax.Precision.HIGHEST)
