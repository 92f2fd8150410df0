"""Proximal maps of the largest entries: maximum, sum of the k largest, l-infinity norm."""

from operator import index

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from fedjax_admm.kernels._arguments import demand_entries, length_along, matched, weighed, widened
from fedjax_admm.kernels.compiling import Size
from fedjax_admm.kernels.vectors._l1_ball import exceeds
from fedjax_admm.kernels.vectors._ranks import largest
from fedjax_admm.kernels.vectors._simplex import project_simplex
from fedjax_admm.kernels.vectors._thresholds import clipped_part, headroom


def prox_max(v: Array, step: Size, weight: Size = 1.0, axis: int = -1) -> Array:
    """Proximal map of the largest entry, `g(x) = max_i x_i` along an axis.

    `Prox(v; step) = min(v, t)` with the level `t` for which the entries lose `step` in all.
    Derivative: entries above the level move together, by the mean of what they lose; entries at the
    level count as those below. At step 0 the largest entries count as above it.

    Reference: Parikh and Boyd, 2014, section 6.4.1 (max function).
    """
    v, step = weighed(v, step, weight)
    demand_entries(v, axis, "prox_max")
    return (widened(v) - project_simplex(widened(v), widened(step), axis)).astype(v.dtype)


def max_value(x: Array, weight: Size = 1.0, axis: int = -1) -> Array:
    """Value of the maximum, `g(x) = max_i x_i` along an axis.

    Derivative: equal shares for entries that tie.
    """
    x, weight = matched(x, weight)
    demand_entries(x, axis, "max_value")
    return jnp.squeeze(weight * jnp.max(x, axis=axis, keepdims=True), axis)


def prox_linf(v: Array, step: Size, weight: Size = 1.0, axis: int = -1) -> Array:
    """Proximal map of the l-infinity norm, `g(x) = max_i |x_i|` along an axis.

    `Prox(v; step) = clip(v, -t, t)` with the level `t` for which the entries lose `step` in all,
    and 0 where `||v||_1 <= step`. Derivative: at the kink `||v||_1 = step` 0, that of the points
    which become 0; entries at the level count as those below.

    Args:
      step: at least 0, may be infinite.

    Reference: Parikh and Boyd, 2014, section 6.5.2 (l-infinity norm: the dual norm is the l1 norm).
    """
    v, step = weighed(v, step, weight)
    demand_entries(v, axis, "prox_linf")
    wide, loss = widened(v), widened(step)
    sign = jnp.sign(wide)
    left = exceeds(wide, loss, axis)
    lost = sign * project_simplex(sign * wide, jnp.where(left, loss, 1.0), axis)
    return jnp.where(left, wide - lost, 0.0).astype(v.dtype)


def linf_value(x: Array, weight: Size = 1.0, axis: int = -1) -> Array:
    """Value of the l-infinity norm, `g(x) = max_i |x_i|` along an axis.

    Derivative: equal shares for entries that tie, 0 at `x = 0`.
    """
    x, weight = matched(x, weight)
    demand_entries(x, axis, "linf_value")
    return jnp.squeeze(weight * jnp.max(jnp.sign(x) * x, axis=axis, keepdims=True), axis)


def prox_sum_largest(v: Array, step: Size, weight: Size, k: int, axis: int = -1) -> Array:
    """Proximal map of the sum of the `k` largest entries along an axis.

    `Prox(v; step) = v - u`, where `u` is the point with `0 <= u <= step` and `sum u = k step` that
    is nearest to `v`: entries far above a level lose `step`, those around it come down to it.

    Derivative: entries that come down to the level move together; entries at either end of them
    count as the others. At step 0 it is the derivative from above.

    Args:
      k: how many entries are added, a Python number from 1 to the size of `axis`.

    Reference: Beck, 2017, section 6.7 (sum of the k largest values).
    """
    v, step = weighed(v, step, weight)
    if v.size == 0:
        return v
    _demand_some(v, k, axis)
    wide, loss = widened(v), widened(step)
    shape = jnp.broadcast_shapes(v.shape, step.shape)
    # Sums of losses must stay finite; differences from the level are taken as they are.
    scale = headroom(loss)
    wide = jnp.broadcast_to(wide, shape)
    loss = jnp.broadcast_to(loss / scale, jnp.sum(wide, axis=axis, keepdims=True).shape)
    # At step 0 the sets are those of a step that is nearly 0, for the derivative from above.
    finfo, none = jnp.finfo(wide.dtype), stop_gradient(loss) == 0
    size = jnp.max(jnp.abs(stop_gradient(wide)), axis=axis, keepdims=True)
    nearly = jnp.maximum(float(finfo.eps) * size, float(finfo.tiny) / float(finfo.eps))
    loss = loss + jnp.where(none, nearly, 0.0)
    lower, upper = jnp.zeros_like(wide), jnp.broadcast_to(loss, shape)
    lost = clipped_part(wide / scale, lower, upper, jnp.ones_like(wide), k * loss, axis)
    lost = scale * (lost - jnp.where(none, stop_gradient(lost), 0.0))
    return (wide - lost).astype(v.dtype)


def sum_largest_value(x: Array, weight: Size, k: int, axis: int = -1) -> Array:
    """Value of the sum of the `k` largest entries along an axis.

    Ties: of equal entries those with the lowest index are added. Derivative: 1 by the entries that
    are added, 0 by the others.

    Args:
      axis: the axis over which entries are added.
    """
    x, weight = matched(x, weight)
    _demand_some(x, k, axis)
    wide = widened(x)
    total = jnp.sum(jnp.where(largest(wide, k, axis), wide, 0.0), axis=axis, keepdims=True)
    return jnp.squeeze(widened(weight) * total, axis).astype(x.dtype)


def _demand_some(v: Array, k: int, axis: int) -> None:
    length = length_along(v, axis)
    if not 1 <= index(k) <= length:
        raise ValueError(f"k must be from 1 to {length}, but it is {k}.")
