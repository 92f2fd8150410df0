"""The quadratic envelope of the indicator of a rank."""

from jax import Array

from fedjax_admm.kernels.compiling import Size
from fedjax_admm.kernels.matrices._spectra import singular_values, spectral_map
from fedjax_admm.kernels.vectors._k_support import prox_top_k_envelope, top_k_envelope_value


def rank_envelope_value(x: Array, k: int, decomposition: str | None = None) -> Array:
    """Quadratic envelope of the indicator of matrices of rank at most `k`.

    `g(x) = top_k_envelope_value(s(x), k)` with the singular values s: 0 where the rank is at most
    `k`; the largest function below the indicator whose sum with `||x||_F**2 / 2` is convex.
    Derivative: `U diag(p) V^T` with that of `top_k_envelope_value` by the singular values.
    """
    return top_k_envelope_value(singular_values(x, decomposition), k)


def prox_rank_envelope(v: Array, step: Size, k: int, decomposition: str | None = None) -> Array:
    """Proximal map of the quadratic envelope of the indicator of matrices of rank at most `k`.

    `Prox(v; step) = U diag(prox_top_k_envelope(s, step, k)) V^T` where `v = U diag(s) V^T`: from
    the step 1 on `project_rank`. With a misfit `||x - a||_F**2 / 2` beside the envelope it is
    `prox_rank_envelope((v + step a) / (1 + step), step / (1 + step), k)`.

    Ties, at steps of at least 1: those of `project_rank`. Derivative: by divided differences of
    `prox_top_k_envelope`, as in `spectral_map`.

    Args:
      k: a Python number from 1 to `min(m, n)`.

    Reference: V. Larsson and C. Olsson, "Convex Low Rank Approximation", International Journal of
    Computer Vision 120, 2016; F. Andersson, M. Carlsson and C. Olsson, "Convex envelopes for fixed
    rank approximation", Optimization Letters 11, 2017.
    """

    def shrink(values: Array, step: Array) -> Array:
        return prox_top_k_envelope(values, step, k)

    return spectral_map(v, shrink, step, separable=False, decomposition=decomposition)
