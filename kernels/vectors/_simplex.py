"""Projections onto simplices."""

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from fedjax_admm.kernels._arguments import along, demand_entries, matched, widened
from fedjax_admm.kernels._safe import unit_of
from fedjax_admm.kernels.compiling import Size
from fedjax_admm.kernels.vectors._ranks import largest
from fedjax_admm.kernels.vectors._thresholds import positive_part


def project_simplex(v: Array, mass: Size = 1.0, axis: int = -1) -> Array:
    """Project onto the simplex `x >= 0, sum x = mass` along an axis.

    `max(v - t, 0)` with the threshold `t` for which the entries sum to `mass`; points are first
    shifted by their maximum. Without sorting: Newton's method on the threshold. The sum is right to
    rounding for a million of entries, and for any offset.

    Ties: none; entries at the threshold are 0. A negative mass gives NaN. Derivative: that of the
    projection onto the affine hull of the positive entries; entries at the threshold belong to the
    zeros, and at mass 0 the derivative by the mass is that from above.

    Args:
      mass: at least 0.

    Reference: Duchi et al., 2008 (the threshold); L. Condat, "Fast projection onto the simplex and
    the l1 ball", Mathematical Programming 158, 2016 (C. Michelot's iteration, which is Newton's
    method).
    """
    v, mass = matched(v, mass)
    demand_entries(v, axis, "project_simplex")
    dtype, v, mass = v.dtype, widened(v), widened(mass)
    scale = unit_of(mass)
    shifted = (v - jnp.max(stop_gradient(v), axis=axis, keepdims=True)) / scale
    found = scale * positive_part(shifted, mass / scale, axis)
    return jnp.where(mass >= 0, found, jnp.nan).astype(dtype)


def project_weighted_simplex(v: Array, weights: Size, mass: Size = 1.0, axis: int = -1) -> Array:
    """Project onto the weighted simplex `x >= 0, <weights, x> = mass` along an axis.

    `max(v - t weights, 0)` with the threshold `t` for which the weighted sum is `mass`. An entry
    without weight is only kept from being negative.

    Ties: none; entries at the threshold are 0. A negative mass gives NaN, and so does a mass
    without any positive weight. Derivative: that of the projection onto the affine hull of the
    positive entries; entries at the threshold belong to the zeros, and at mass 0 the derivative by
    the mass is that from above.

    Args:
      weights: at least 0; one for all points, or one for each.
      mass: at least 0.

    Reference: G. Perez, S. Ament, C. Gomes and M. Barlaud, "Efficient projection algorithms onto
    the weighted l1 ball", Artificial Intelligence 306, 2022 (the threshold).
    """
    v, weights, mass = matched(v, weights, mass)
    demand_entries(v, axis, "project_weighted_simplex")
    weights = along(v, weights, axis)
    dtype, v, weights, mass = v.dtype, widened(v), widened(weights), widened(mass)
    found = weighted_simplex(v, weights, mass, axis)
    return jnp.where(mass >= 0, found, jnp.nan).astype(dtype)


def weighted_simplex(v: Array, weights: Array, mass: Array, axis: int) -> Array:
    """Return the projection onto a weighted simplex, of float32 or float64 points."""
    v, weights = jnp.broadcast_arrays(v, weights)
    unit = unit_of(jnp.max(weights, axis=axis, keepdims=True))
    weights, mass = weights / unit, mass / unit
    scale = unit_of(mass)
    used = weights > 0
    fixed, divisor = stop_gradient(v), stop_gradient(jnp.where(used, weights, 1.0))
    ratios = jnp.where(used, fixed / divisor, -jnp.inf)
    highest = jnp.max(ratios, axis=axis, keepdims=True)
    highest = jnp.where(highest > -jnp.inf, highest, 0.0)
    shifted = v - weights * highest
    # The entry with the highest ratio is 0 whatever the rounding was.
    shifted = jnp.where(ratios == highest, shifted - stop_gradient(shifted), shifted)
    found = scale * positive_part(shifted / scale, mass / scale, axis, weights)
    empty = (mass > 0) & ~jnp.any(used, axis=axis, keepdims=True)
    return jnp.where(empty, jnp.nan, found)


def project_sparse_simplex(v: Array, k: int, mass: Size = 1.0, axis: int = -1) -> Array:
    """Project onto points of the simplex with at most `k` nonzero entries.

    The `k` largest entries are projected onto the simplex `x >= 0, sum x = mass`, the others are 0.
    Ties: of equal entries those with the lowest index are kept; the other choices are as near.
    Derivative: that of `project_simplex` on the entries that are kept, 0 on the others.

    Args:
      k: how many entries may be nonzero, a Python number of at least 1.
      mass: at least 0.

    Reference: A. Kyrillidis, S. Becker, V. Cevher and C. Koch, "Sparse projections onto the
    simplex", ICML, 2013 (greedy selector and simplex projector).
    """
    if k < 1:
        raise ValueError(f"a simplex needs at least 1 entry that is not 0, but k is {k}.")
    v, mass = matched(v, mass)
    demand_entries(v, axis, "project_sparse_simplex")
    kept = largest(widened(v), k, axis)
    return project_simplex(jnp.where(kept, v, -jnp.inf), mass, axis)
