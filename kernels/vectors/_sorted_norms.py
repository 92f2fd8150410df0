"""Proximal map of the sorted l1 norm, and the projection onto a permutahedron."""

import jax
import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import along, matched, widened
from fedjax_admm.kernels._safe import safe_ratio
from fedjax_admm.kernels.compiling import Falling, Size
from fedjax_admm.kernels.vectors._isotonic import blocks_of, ordered_fit
from fedjax_admm.kernels.vectors._ranks import ascending


def prox_slope(v: Array, step: Size, weights: Falling, axis: int = -1) -> Array:
    """Proximal map of the sorted l1 norm (SLOPE, OWL), `g(x) = sum_i weights_i |x|_(i)`.

    `|x|_(1) >= |x|_(2) >= ...` are the moduli in order. `Prox(v; step) = sign(v) max(u, 0)`,
    where `u` has the order of `|v|` and is, in order, the nearest falling sequence to `|v|_(i)
    - step weights_i`.

    Ties: none; entries of equal modulus stay equal. Derivative: the mean over the block of moduli
    that an entry belongs to, equal neighbours being one block; 0 for entries that are 0.

    Args:
      weights: at least 0 and not rising along `axis`; one for all points, or one for each.

    Reference: M. Bogdan, E. van den Berg, C. Sabatti, W. Su and E. J. Candes, "SLOPE: adaptive
    variable selection via convex optimization", Annals of Applied Statistics 9, 2015, section 2
    (the proximal map by isotonic regression).
    """
    v, step, weights = matched(v, step, weights)
    weights = along(v, weights, axis)
    dtype, places = v.dtype, jnp.broadcast_shapes(v.shape, step.shape, weights.shape)
    v, losses = widened(v), widened(step) * widened(weights)
    v, losses = (jnp.moveaxis(jnp.broadcast_to(x, places), axis, -1) for x in (v, losses))
    sign = jnp.sign(v)
    fit = _matching_fit(sign * v, jnp.flip(losses, -1))
    found = jnp.where(fit <= 0, 0.0, sign * fit)
    return jnp.moveaxis(found.astype(dtype), -1, axis)


def slope_value(x: Array, weights: Falling, axis: int = -1) -> Array:
    """Value of the sorted l1 norm (SLOPE, OWL), `g(x) = sum_i weights_i |x|_(i)`.

    `|x|_(1) >= |x|_(2) >= ...` are the moduli in order. Ties: of entries with equal modulus the
    first is counted as the larger. Derivative: that of this order; 0 by entries that are 0.
    """
    x, weights = matched(x, weights)
    weights = along(x, weights, axis)
    dtype, places = x.dtype, jnp.broadcast_shapes(x.shape, weights.shape)
    x, weights = (
        jnp.moveaxis(jnp.broadcast_to(widened(p), places), axis, -1) for p in (x, weights)
    )
    sizes = jnp.sort(jnp.sign(x) * x, axis=-1)
    return jnp.sum(jnp.flip(weights, -1) * sizes, axis=-1).astype(dtype)


def project_permutahedron(v: Array, weights: Array, axis: int = -1) -> Array:
    """Project onto the permutahedron of weights, the convex hull of all their permutations.

    `v - u`, where `u` has the order of `v` and is, in order, the nearest falling sequence to `v_(i)
    - weights_(i)`, both sorted so that they fall. With the weights `1, ..., n` and a large multiple
    of `v` these are ranks: the projection sorts and ranks softly.

    Ties: none; equal entries stay equal. Derivative: the deviation from the mean over the block
    that an entry belongs to, equal neighbours of `u` being one block.

    Args:
      weights: in any order along `axis`; one for all points, or one for each.

    Reference: M. Blondel, O. Teboul, Q. Berthet and J. Djolonga, "Fast differentiable sorting and
    ranking", ICML, 2020, proposition 3.
    """
    v, weights = matched(v, weights)
    weights = along(v, weights, axis)
    dtype, places = v.dtype, jnp.broadcast_shapes(v.shape, weights.shape)
    v, weights = (
        jnp.moveaxis(jnp.broadcast_to(widened(p), places), axis, -1) for p in (v, weights)
    )
    found = v - _matching_fit(v, jnp.sort(weights, axis=-1))
    return jnp.moveaxis(found.astype(dtype), -1, axis)


@jax.custom_jvp
def _matching_fit(v: Array, losses: Array) -> Array:
    """Return the nearest points to `v_(i) - losses_i` that rise with v; both in rising order.

    Equal entries have equal fits, since losses rise: an entry may take that of its first equal.
    """
    return _in_order(v, losses)[0]


def _in_order(v: Array, losses: Array) -> tuple[Array, Array, Array]:
    entries, places = ascending(v)
    fit = ordered_fit(entries - losses, jnp.ones_like(v))
    return jnp.take_along_axis(fit, places, axis=-1), fit, places


@_matching_fit.defjvp
def _matching_fit_jvp(primals, tangents):
    x, fit, places = _in_order(*primals)
    blocks = blocks_of(fit)
    chosen = jnp.ravel(jnp.take_along_axis(blocks.reshape(x.shape), places, axis=-1))

    def total(parts, numbers):
        return jax.ops.segment_sum(jnp.ravel(parts), numbers, x.size)

    moved, lost = tangents
    means = safe_ratio(total(moved, chosen) - total(lost, blocks), total(jnp.ones_like(x), blocks))
    return x, means[chosen].reshape(x.shape)
