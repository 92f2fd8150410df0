"""Linear algebra that runs anywhere: in a batch, on several devices of one CPU, on a GPU.

LAPACK's symmetric eigenvalue solver, as JAX 0.10 calls it on a CPU, can wait for ever when several
devices of one process solve batches of problems at once; what is here is made of products only.
"""

import jax
import jax.numpy as jnp

from fedjax_admm.kernels import safe_norm, safe_ratio

# A relative gap of 2^-40 between the two largest eigenvalues is still told apart, nearly.
_SQUARINGS = 40


def top_eigenvector(matrix: jax.Array) -> jax.Array:
    """Return the unit eigenvector of the largest eigenvalue of a positive semidefinite matrix.

    The matrix is squared again and again, P <- P^2 / trace(P^2): after s squarings the share of an
    eigenvalue l in P is l^(2^s), so that P becomes the projector onto the top eigenvector. Of an
    eigenspace of several dimensions, one vector is returned.

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
