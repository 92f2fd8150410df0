"""The smoothed absolute value of smoothing ADMM and its proximal map."""

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import matched, weighed, widened
from fedjax_admm.kernels.compiling import Scale, Size


def smoothed_abs(v: Array, mu: Scale) -> Array:
    """Smooth upper bound of the absolute value.

    `h_mu(v) = |v|` where `|v| >= mu`, else `v**2 / (2 mu) + mu / 2`; it exceeds `|v|` by at most
    `mu / 2`. Derivative: `h_mu'(v) = clip(v / mu, -1, 1)`, continuous; at `|v| = mu` the second
    derivative is taken from outside, 0.

    Args:
      mu: smoothing parameter, positive.
    """
    v, mu = matched(v, mu)
    magnitude = jnp.abs(v)
    # Clipped before it is squared: the branch not taken must not overflow.
    inside = jnp.clip(v, -mu, mu)
    return jnp.where(magnitude >= mu, magnitude, 0.5 * (inside * (inside / mu) + mu))


def prox_smoothed_abs(v: Array, step: Size, weight: Size, mu: Scale) -> Array:
    """Proximal map of the smoothed absolute value, `g = h_mu`.

    `Prox(v; step) = v mu / (mu + step)` where `|v| <= mu + step`, else `v - step sign(v)`. No
    difference cancels. `mu -> 0` gives the soft threshold.

    Derivative at the kinks `|v| = mu + step`: that from outside.

    Args:
      mu: smoothing parameter, positive.

    Reference: Mirzaeifard et al., 2025, closed form after equation (23).
    """
    v, step, mu = weighed(v, step, weight, mu)
    point, step, mu = widened(v), widened(step), widened(mu)
    width = mu + step
    # A sum beyond the range is taken of quarters.
    part = jnp.where(jnp.isinf(width), 0.25, 1.0)
    inside = point * (part * mu / (part * mu + part * step))
    found = jnp.where(jnp.abs(point) >= width, point - step * jnp.sign(point), inside)
    return found.astype(v.dtype)
