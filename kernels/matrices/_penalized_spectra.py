"""Penalties of singular values, one by one: any, and three that spare large values."""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import demand_proxes, matched
from fedjax_admm.kernels.compiling import Above1, Real, Scale, Size
from fedjax_admm.kernels.elementwise._concave import log_sum_value, prox_log_sum
from fedjax_admm.kernels.elementwise._folded_concave import (
    mcp_value,
    prox_mcp,
    prox_scad,
    scad_value,
)
from fedjax_admm.kernels.matrices._spectra import singular_values, spectral_map


def spectral_value(
    x: Array, value: Callable[..., Array], *parameters: Real, decomposition: str | None = None
) -> Array:
    """Penalty of the singular values, `g(x) = sum p(s_i(x))`.

    Derivative: `U diag(p'(s)) V^T` over the positive singular values; 0 along the others.

    Args:
      value: p, elementwise: `value(s, *parameters)` for `s` of shape (..., 1, min(m, n)).
      *parameters: numbers, or arrays that broadcast with shape (..., 1, 1).
    """
    x, *numbers = matched(x, *parameters)
    values = singular_values(x, decomposition)[..., None, :]
    return jnp.sum(value(values, *numbers), axis=(-2, -1))


def prox_spectral(
    v: Array,
    step: Size,
    prox: Callable[..., Array],
    *parameters: Real,
    decomposition: str | None = None,
) -> Array:
    """Proximal map of a penalty of the singular values, `g(x) = sum p(s_i(x))`.

    `Prox(v; step) = U diag(prox_p(s; step)) V^T` where `v = U diag(s) V^T`: the global minimiser if
    `prox_p` is that of an even function p.

    Ties: those of the elementwise map; equal singular values may be sent to different ones.
    Derivative: by divided differences of the elementwise map, as in `spectral_map`; at its kinks it
    follows the map.

    Args:
      prox: elementwise, `prox(s, step, *parameters)`, for example `prox_l_half`; it closes over no
        traced array.
      *parameters: numbers, or arrays that broadcast with shape (..., 1, 1).

    Reference: C. Lu, C. Zhu, C. Xu, S. Yan and Z. Lin, "Generalized singular value thresholding",
    AAAI Conference on Artificial Intelligence, 2015, proposition 1; A. S. Lewis, "The convex
    analysis of unitarily invariant matrix functions", Journal of Convex Analysis 2, 1995.
    """
    demand_proxes("prox_spectral", prox)
    return spectral_map(v, prox, step, *parameters, decomposition=decomposition)


def spectral_mcp_value(
    x: Array, lam: Size, gamma: Scale, decomposition: str | None = None
) -> Array:
    """Minimax concave penalty of the singular values, `g(x) = sum mcp(s_i(x))`."""
    return spectral_value(x, mcp_value, lam, gamma, decomposition=decomposition)


def prox_spectral_mcp(
    v: Array, step: Size, lam: Size, gamma: Scale, decomposition: str | None = None
) -> Array:
    """Proximal map of the minimax concave penalty of the singular values, `g(x) = sum mcp(s_i(x))`.

    `Prox(v; step) = U diag(prox_mcp(s, step, lam, gamma)) V^T` where `v = U diag(s) V^T`: the
    global minimiser for every step. Ties and derivative: those of `prox_mcp`, as in
    `prox_spectral`.

    Reference: C. Lu, C. Zhu, C. Xu, S. Yan and Z. Lin, "Generalized singular value thresholding",
    AAAI, 2015, proposition 1;
    C.-H. Zhang, "Nearly unbiased variable selection under minimax concave penalty", Annals of
    Statistics 38(2), 2010 (the penalty).
    """
    return prox_spectral(v, step, prox_mcp, lam, gamma, decomposition=decomposition)


def spectral_scad_value(
    x: Array, lam: Size, gamma: Above1, decomposition: str | None = None
) -> Array:
    """Smoothly clipped absolute deviation of the singular values, `g(x) = sum scad(s_i(x))`."""
    return spectral_value(x, scad_value, lam, gamma, decomposition=decomposition)


def prox_spectral_scad(
    v: Array, step: Size, lam: Size, gamma: Above1, decomposition: str | None = None
) -> Array:
    """Proximal map of SCAD of the singular values, `g(x) = sum scad(s_i(x))`.

    `Prox(v; step) = U diag(prox_scad(s, step, lam, gamma)) V^T` where `v = U diag(s) V^T`: the
    global minimiser for every step. Ties and derivative: those of `prox_scad`, as in
    `prox_spectral`.

    Reference: C. Lu, C. Zhu, C. Xu, S. Yan and Z. Lin, "Generalized singular value thresholding",
    AAAI, 2015, proposition 1;
    J. Fan and R. Li, "Variable selection via nonconcave penalized likelihood and its oracle
    properties", Journal of the American Statistical Association 96, 2001 (the penalty).
    """
    return prox_spectral(v, step, prox_scad, lam, gamma, decomposition=decomposition)


def spectral_log_det_value(
    x: Array, weight: Size, epsilon: Scale, decomposition: str | None = None
) -> Array:
    """Log-determinant surrogate of the rank, `g(x) = sum log(1 + s_i(x) / epsilon)`."""
    return spectral_value(x, log_sum_value, weight, epsilon, decomposition=decomposition)


def prox_spectral_log_det(
    v: Array, step: Size, weight: Size, epsilon: Scale, decomposition: str | None = None
) -> Array:
    """Proximal map of the log-determinant surrogate, `g(x) = sum log(1 + s_i(x) / epsilon)`.

    `Prox(v; step) = U diag(prox_log_sum(s, step, weight, epsilon)) V^T` where `v = U diag(s) V^T`:
    the global minimiser for every step. Ties and derivative: those of `prox_log_sum`, as in
    `prox_spectral`. The smaller epsilon, the nearer to the rank.

    Reference: C. Lu, C. Zhu, C. Xu, S. Yan and Z. Lin, "Generalized singular value thresholding",
    AAAI, 2015, proposition 1;
    M. Fazel, H. Hindi and S. P. Boyd, "Log-det heuristic for matrix rank minimization with
    applications to Hankel and Euclidean distance matrices", American Control Conference, 2003 (the
    penalty).
    """
    return prox_spectral(v, step, prox_log_sum, weight, epsilon, decomposition=decomposition)
