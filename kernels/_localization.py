"""Proximal maps of the two halves of a range residual, `|‖x - a‖ - d|` as a difference.

`|‖x - a‖ - d| = 2 max(0, ‖x - a‖ - d) - (‖x - a‖ - d)`: the first half is convex; of the second
the Moreau envelope is taken. Row kernels: the last axis is the space, parameters have the shape
of the axes before it. Both work on the radius alone and take one square root per row.
"""

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import matched
from fedjax_admm.kernels._safe import safe_norm
from fedjax_admm.kernels.compiling import OwnSize, Real


def prox_range_excess(
    p: Array, anchor: Array, distance: Real, step: OwnSize, scaled: bool = True
) -> Array:
    """Proximal map of twice the excess of a range, `g(x) = 2 max(0, ||x - anchor|| - distance)`.

    With `r = ||p - anchor||` the minimiser lies on the ray from the anchor through `p` at the
    radius `r` if `r <= distance`, else `max(distance, r - 2 step)`; computed as `p - clip(r -
    distance, 0, 2 step) (p - anchor) / r`, so that a point within range comes back unchanged.

    At the kinks `r = distance` and `r = distance + 2 step` the derivative is the mean of both
    sides; at `p = anchor` it is the identity (exact for `distance > 0`). Not differentiable in
    `distance` at 0 (half).

    Args:
      p: points, shape (..., dim), floating dtype.
      anchor: anchors.
      distance: ranges; a negative range acts as 0.
      scaled: False is faster and right for radii between 1e-16 and 1e18, see `safe_norm`.

    Returns:
      Minimisers, shape (..., dim), dtype of `p`.

    Reference: Mirzaeifard et al., 2025, equations (15)-(18).
    """
    p, step, anchor, distance = matched(p, step, anchor, distance)
    offset = p - anchor
    radius = safe_norm(offset, scaled=scaled)
    positive = radius > 0
    excess = jnp.clip(radius - jnp.maximum(distance, 0.0), 0.0, 2 * step)
    share = jnp.where(positive, excess / jnp.where(positive, radius, 1.0), 0.0)
    share = jnp.where(step < 0, jnp.nan, share)
    return p - share[..., None] * offset


def prox_negative_moreau_norm(
    c: Array, anchor: Array, step: OwnSize, mu: OwnSize, scaled: bool = True
) -> Array:
    """Minimise a quadratic minus the Moreau envelope of a norm.

    `argmin_z -e_mu(z) + ||c - z||**2 / (2 step)` with `e_mu(z) = ||z - anchor||**2 / (2 mu)` where
    `||z - anchor|| <= mu`, else `||z - anchor|| - mu / 2`. With `r = ||c - anchor||`: `anchor + mu
    / (mu - step) (c - anchor)` where `r <= mu - step`, else `anchor + (1 + step / r) (c - anchor)`;
    both are `c + step (c - anchor) / max(r, mu - step)`, which is how it is computed.

    The global minimiser for every `step` and `mu`, unique unless `r = 0` and `mu <= step`. There,
    if `mu < step`, the minimisers are the whole sphere of radius `step` around the anchor and no
    direction is distinguished: the anchor itself is returned (stationary, not minimal), with the
    identity as derivative; if `mu = step` they are the ball of radius `mu` and the anchor is one of
    them. At the kink `r = mu - step` the derivative is the mean of both sides.

    Args:
      c: centres, shape (..., dim), floating dtype.
      anchor: anchors.
      mu: parameter of the envelope; with 0 it is the norm itself.
      scaled: False is faster and right for radii between 1e-16 and 1e18, see `safe_norm`.

    Returns:
      Minimisers, shape (..., dim), dtype of `c`.

    Reference: Mirzaeifard et al., 2025, equations (20)-(22).
    """
    c, step, anchor, mu = matched(c, step, anchor, mu)
    offset = c - anchor
    radius = safe_norm(offset, scaled=scaled)
    divisor = jnp.maximum(radius, mu - step)
    distinguished = divisor > 0
    stretch = jnp.where(distinguished, step / jnp.where(distinguished, divisor, 1.0), 0.0)
    stretch = jnp.where((step < 0) | (mu < 0), jnp.nan, stretch)
    return c + stretch[..., None] * offset
