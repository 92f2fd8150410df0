r"""The linear system for the models in the splitting for GTV minimisation.

    (mu I + (s_k / metric_k) L_A) w_k = right_k      for every feature k, shape (nodes,)

with the Laplacian `L_A = D^T diag(A) D` of the weights A. It is solved by conjugate gradients from
the last solution, with one of two preconditioners:

    Eigenvectors    (mu I + (s_k / metric_k) L_A)^-1 from an eigendecomposition of L_A: one step is
                    exact, and costs two products with a dense matrix (nodes, nodes)
    Diagonal        (mu + (s_k / metric_k) A_i)^-1 with the weighted degrees A_i: several steps,
                    each of which passes over the edges once

The system itself is applied with the edges of the problem. The eigendecomposition of another graph
would therefore slow down the iteration without changing its limit. Derivatives with respect to the
weights are those of the solution.

Reference: M. R. Hestenes, E. Stiefel, "Methods of conjugate gradients for solving linear systems",
Journal of Research of the National Bureau of Standards 49 (1952) 409-436.
"""

from dataclasses import field

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import is_concrete
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.graphs import Graph
from fedjax_admm.kernels import safe_ratio

DENSE_NODES = 1000
"""The largest number of nodes whose Laplacian is decomposed: 8 MB of eigenvectors in float64."""

_HIGHEST = jax.lax.Precision.HIGHEST


@pytree_dataclass
class Eigenvectors:
    """Preconditioning by the inverse, from the eigenvectors of the Laplacian."""

    basis: jax.Array  # shape=(nodes, nodes): eigenvectors as columns
    spectrum: jax.Array  # shape=(nodes,): eigenvalues, 0 where rounding is all
    steps: int = field(default=1, metadata={"static": True})  # at most
    # how many times stiffer edges may be than nodes
    stiffest: float = field(default=1e4, metadata={"static": True})
    # by which the residual of the last solution shrinks
    accuracy: float = field(default=0.0, metadata={"static": True})

    def precondition(self, graph, mu, stiffness):
        """Return a map of residuals (nodes, dim), for `mu I + stiffness_k L_A`."""
        factors = 1 / (mu + stiffness[None] * self.spectrum[:, None])

        def solve(rows):
            turned = jnp.matmul(self.basis.T, rows, precision=_HIGHEST)
            return jnp.matmul(self.basis, factors * turned, precision=_HIGHEST)

        return solve


@pytree_dataclass
class Diagonal:
    """Preconditioning by the inverse of the diagonal."""

    steps: int = field(metadata={"static": True})  # at most
    stiffest: float = field(default=1e4, metadata={"static": True})
    accuracy: float = field(default=0.1, metadata={"static": True})  # of what a round moves

    def precondition(self, graph, mu, stiffness):
        """Return the quotient by the diagonal."""
        diagonal = mu + stiffness[None] * graph.weighted_degrees[:, None]
        return lambda rows: rows / diagonal


def eigenvectors(graph: Graph) -> Eigenvectors:
    """Decompose the Laplacian of a graph that is known, on the host in float64."""
    heads, tails = np.asarray(graph.heads), np.asarray(graph.tails)
    weights = np.asarray(graph.weights, np.float64)
    laplacian = np.zeros((graph.num_nodes, graph.num_nodes))
    for rows, columns, sign in ((heads, heads, 1), (tails, tails, 1), (heads, tails, -1)):
        np.add.at(laplacian, (rows, columns), sign * weights)
    # Absent edges have weight 0; the lower triangle is the one that is not filled.
    spectrum, basis = np.linalg.eigh(laplacian, UPLO="U")
    rounding = len(spectrum) * np.finfo(np.float64).eps * np.abs(spectrum).max(initial=0)
    spectrum = np.where(spectrum > rounding, spectrum, 0)
    dtype = graph.weights.dtype
    return Eigenvectors(jnp.asarray(basis, dtype), jnp.asarray(spectrum, dtype))


def can_be_decomposed(graph: Graph) -> bool:
    """Whether a graph is known before tracing, one alone, finite, and not too large."""
    known = is_concrete(graph) and graph.heads.ndim == 1 and graph.num_nodes <= DENSE_NODES
    return known and bool(np.isfinite(np.asarray(graph.weights)).all())


def agree(
    agreement: Eigenvectors | Diagonal,
    graph: Graph,
    mu: jax.Array,
    stiffness: jax.Array,
    right: jax.Array,
    start: jax.Array,
) -> jax.Array:
    """Solve `(mu I + stiffness_k L_A) w_k = right_k` for every feature k.

    Returns:
      Shape (nodes, dim).
    """
    precondition = agreement.precondition(graph, mu, stiffness)

    def apply(w):
        flows = graph.weights[:, None] * graph.difference(w)
        return mu * w + stiffness[None] * graph.divergence(flows)

    if agreement.steps == 1:
        residual = right - apply(start)
        direction = precondition(residual)
        bend = jnp.sum(direction * apply(direction), 0)
        return start + safe_ratio(jnp.sum(residual * direction, 0), bend)[None] * direction

    # Derivatives are those of the solution: solved for again, not through the steps.
    def solve(apply, right):
        return _conjugate_gradients(apply, precondition, right, start, agreement)

    return jax.lax.custom_linear_solve(apply, right, solve, symmetric=True)


def _conjugate_gradients(apply, precondition, right, start, agreement) -> jax.Array:
    """Solve for every column until the largest residual has shrunk as wanted."""

    def goes_on(carry):
        _, _, _, size, target, steps = carry
        return jnp.any(size > target) & (steps < agreement.steps)

    def improve(carry):
        w, residual, direction, size, target, steps = carry
        bent = apply(direction)
        # A residual of zero ends the search: the length 0 leaves everything as it is.
        length = safe_ratio(size, jnp.sum(direction * bent, 0))[None]
        w, residual = w + length * direction, residual - length * bent
        towards = precondition(residual)
        new = jnp.sum(residual * towards, 0)
        direction = towards + safe_ratio(new, size)[None] * direction
        return w, residual, direction, new, target, steps + 1

    residual = right - apply(start)
    direction = precondition(residual)
    size = jnp.sum(residual * direction, 0)
    target = agreement.accuracy**2 * size
    first = (start, residual, direction, size, target, jnp.zeros((), jnp.int32))
    return jax.lax.while_loop(goes_on, improve, first)[0]
