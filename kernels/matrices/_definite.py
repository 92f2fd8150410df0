"""Positive semidefinite matrices: the cone and its logarithmic barrier."""

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import matched, widened
from fedjax_admm.kernels.compiling import Size
from fedjax_admm.kernels.elementwise._barriers import log_barrier_value, prox_log_barrier
from fedjax_admm.kernels.matrices._decompositions import decompose_symmetric
from fedjax_admm.kernels.matrices._spectra import eigenvalue_map


def project_psd(v: Array, decomposition: str | None = None) -> Array:
    """Project onto the positive semidefinite matrices.

    `Q diag(max(l, 0)) Q^T` where `(v + v^T) / 2 = Q diag(l) Q^T`: the skew part of `v` has no
    influence. Positive semidefinite matrices come back symmetrised, otherwise unchanged. Derivative
    at the kinks, eigenvalues 0: 1/2 along their eigenvectors, the mean of both sides.

    Reference: N. J. Higham, "Computing a nearest symmetric positive semidefinite matrix", Linear
    Algebra and its Applications 103, 1988, theorem 2.1; J. Malick and H. S. Sendov, "Clarke
    generalized Jacobian of the projection onto the cone of positive semidefinite matrices",
    Set-Valued Analysis 14, 2006 (the derivative).
    """
    return eigenvalue_map(v, lambda values: jnp.maximum(values, 0.0), decomposition=decomposition)


def log_det_value(x: Array, weight: Size = 1.0, *, decomposition: str | None = None) -> Array:
    """Logarithmic barrier of the positive definite matrices, `g(x) = -log det x`.

    Infinite where an eigenvalue is not positive; the symmetric part of `x` counts. Derivative:
    `-x^-1`, smooth: no kink inside; 0 along the vectors of eigenvalues that are not positive.
    """
    x, weight = matched(x, weight)
    wide = widened(x)
    broken = ~jnp.all(jnp.isfinite(wide), axis=(-2, -1), keepdims=True)
    wide = jnp.where(broken, 0, wide)
    values, _ = decompose_symmetric(wide / 2 + wide.mT / 2, decomposition)
    value = jnp.sum(log_barrier_value(values[..., None, :], widened(weight)), axis=(-2, -1))
    return jnp.where(broken[..., 0, 0], jnp.nan, value).astype(x.dtype)


def prox_log_det(
    v: Array, step: Size, weight: Size = 1.0, *, decomposition: str | None = None
) -> Array:
    """Proximal map of the log-det barrier, `g(x) = -log det x` on positive definite matrices.

    `Prox(v; step) = Q diag((l + sqrt(l**2 + 4 step)) / 2) Q^T` where `(v + v^T) / 2 = Q diag(l)
    Q^T`; step 0 projects onto the positive semidefinite matrices.

    Derivative: smooth where `step > 0`. At step 0 and an eigenvalue 0 that of `prox_log_barrier`:
    the mean of both sides in the point, and 0 in the step, where it is infinite.

    Reference: Parikh and Boyd, 2014, section 6.7.5; Boyd and Vandenberghe, 2004, section 11.6.1.
    """
    return eigenvalue_map(v, prox_log_barrier, step, weight, decomposition=decomposition)
