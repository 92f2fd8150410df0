"""Proximal map of the robust phase retrieval residual."""

import jax.numpy as jnp
from jax import Array

from ._typing import Real
from .safe import safe_ratio


def prox_phase_residual(v: Array, step: Real, x: Array, y: Real) -> Array:
    """Proximal map of ``g(w) = |y - (x^T w)**2|``, the global minimiser for every step.

    Only the component along ``x`` moves. With ``u0 = x^T v``, ``rho = step ||x||**2``,
    ``s = sqrt(max(y, 0))`` and ``sgn(0) = +1``:
    ``u = sgn(u0) min(max(s, |u0| / (1 + 2 rho)), H)``, ``H = |u0| / (1 - 2 rho)`` if
    ``2 rho < 1``, else infinite, and ``w = v + x (u - u0) / ||x||**2`` (``w = v`` if ``x = 0``).

    Ties: for ``u0 = 0`` and ``2 rho >= 1`` both signs of ``u`` minimise and + is returned (at
    ``2 rho = 1`` the interval between them too). Derivative there: that for ``u0 > 0``; where two
    of the three values of the formula coincide: the mean of both sides; with respect to ``y`` at
    ``y <= 0``: 0. No box: clipping the result to one is not the exact proximal map of the sum.

    Args:
        v: Points, shape (..., dim), floating dtype.
        step: At least 0, shape (...) or a number.
        x: Measurement vectors, broadcast with ``v``.
        y: Measured intensities, shape (...) or a number; may be negative.

    Returns:
        Minimisers, shape (..., dim), dtype of ``v``.

    References:
        R. Mirzaeifard, S. Werner, "Smoothing ADMM for Non-convex and Non-smooth Hierarchical
        Federated Learning", client update of robust phase retrieval; D. Davis, D. Drusvyatskiy,
        K. J. MacPhee, C. Paquette, "Subgradient methods for sharp weakly convex functions",
        Journal of Optimization Theory and Applications 179, 2018 (the loss).
    """
    squared = jnp.sum(x * x, axis=-1)
    projection = jnp.sum(x * v, axis=-1)
    sign = jnp.where(projection >= 0, 1.0, -1.0)
    magnitude = sign * projection
    reach = 2 * step * squared
    measured = jnp.greater(y, 0)
    amplitude = jnp.where(measured, jnp.sqrt(jnp.where(measured, y, 1.0)), 0.0)
    convex = reach < 1
    ceiling = jnp.where(convex, magnitude / jnp.where(convex, 1 - reach, 1.0), jnp.inf)
    target = sign * jnp.minimum(jnp.maximum(amplitude, magnitude / (1 + reach)), ceiling)
    return v + safe_ratio(target - projection, squared)[..., None] * x
