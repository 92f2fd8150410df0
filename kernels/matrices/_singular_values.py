"""The nuclear norm, and balls of singular values."""

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import matched
from fedjax_admm.kernels.compiling import Size
from fedjax_admm.kernels.elementwise._absolute import prox_l1
from fedjax_admm.kernels.matrices._spectra import singular_values, spectral_map
from fedjax_admm.kernels.vectors._l1_ball import project_l1_ball


def nuclear_value(x: Array, weight: Size = 1.0, *, decomposition: str | None = None) -> Array:
    """Nuclear norm, `g(x) = sum s_i(x)`, the sum of the singular values.

    Derivative: `U V^T` over the positive singular values, the subgradient with the smallest norm.

    Returns:
      Norms, shape (...), dtype of `x`.
    """
    values = singular_values(x, decomposition)[..., None, :]
    values, weight = matched(values, weight)
    return jnp.sum(jnp.squeeze(weight * values, -2), axis=-1)


def prox_nuclear(
    v: Array, step: Size, weight: Size = 1.0, *, decomposition: str | None = None
) -> Array:
    """Proximal map of the nuclear norm, `g(x) = sum s_i(x)`: singular value thresholding.

    `Prox(v; step) = U diag(max(s - step, 0)) V^T` where `v = U diag(s) V^T`. Weights `w_i` of the
    shape (..., 1, k) that rise along the last axis give the weighted nuclear norm `sum w_i s_i(x)`,
    which spares large singular values: it is not convex, and this is its global minimiser.

    Derivative at the kinks `s_i = step`: that of `soft_threshold`, 1/2 along the singular pair;
    where singular values are equal, the limit of divided differences.

    Args:
      step: at least 0, a number or an array that broadcasts with shape (..., 1, min(m, n)).

    Reference: J.-F. Cai, E. J. Candes and Z. Shen, "A singular value thresholding algorithm for
    matrix completion", SIAM Journal on Optimization 20(4), 2010, theorem 2.1; S. Gu, Q. Xie, D.
    Meng, W. Zuo, X. Feng and L. Zhang, "Weighted nuclear norm minimization and its applications to
    low level vision", International Journal of Computer Vision 121, 2017 (weights); B. Recht, M.
    Fazel and P. A. Parrilo, "Guaranteed minimum-rank solutions of linear matrix equations via
    nuclear norm minimization", SIAM Review 52(3), 2010.
    """
    return spectral_map(v, prox_l1, step, weight, decomposition=decomposition)


def project_rank(v: Array, k: int, decomposition: str | None = None) -> Array:
    """Project onto the matrices of rank at most `k`.

    `U diag(s_1, ..., s_k, 0, ..., 0) V^T` where `v = U diag(s) V^T`.

    Ties, `s_k = s_(k + 1)`: one of the nearest matrices is returned, that of the singular pairs
    which the decomposition finds first. Derivative: where `s_k > s_(k + 1)` that of the truncated
    decomposition, which grows like `s_k / (s_k - s_(k + 1))`; where the two are equal to half of
    the digits, 1/2 between them.

    Args:
      k: the largest rank, a Python number of at least 0.

    Reference: C. Eckart and G. Young, "The approximation of one matrix by another of lower rank",
    Psychometrika 1, 1936; L. Mirsky, "Symmetric gauge functions and unitarily invariant norms",
    Quarterly Journal of Mathematics 11, 1960.
    """
    if k < 0:
        raise ValueError(f"a rank is at least 0, but k is {k}.")

    def keep(values):
        return values.at[..., k:].set(0)

    return spectral_map(v, keep, decomposition=decomposition)


def project_spectral_ball(v: Array, radius: Size, decomposition: str | None = None) -> Array:
    """Project onto the ball of the spectral norm, `max_i s_i(x) <= radius`.

    `U diag(min(s, radius)) V^T` where `v = U diag(s) V^T`. Points in the ball come back unchanged,
    bit for bit. Derivative at the kinks `s_i = radius`: 1/2 along the singular pair, the mean of
    both sides.

    Args:
      radius: at least 0.

    Reference: Parikh and Boyd, 2014, section 6.7.3.
    """
    return spectral_map(v, jnp.minimum, radius, decomposition=decomposition)


def project_nuclear_ball(v: Array, radius: Size, decomposition: str | None = None) -> Array:
    """Project onto the ball of the nuclear norm, `sum s_i(x) <= radius`.

    `U diag(p) V^T` where `v = U diag(s) V^T` and p is the projection of s onto the l1 ball, `max(s
    - t, 0)`. Points in the ball come back unchanged, bit for bit.

    Derivative: that of `project_l1_ball` along the singular pairs; on the sphere the identity, that
    of the ball, and singular values at the threshold count as those that are 0.

    Args:
      radius: at least 0.

    Reference: Parikh and Boyd, 2014, section 6.7.3; Duchi et al., 2008 (the threshold).
    """
    return spectral_map(v, project_l1_ball, radius, separable=False, decomposition=decomposition)
