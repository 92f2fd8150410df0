"""The k-support norm, and the envelope of what counts nonzero entries.

Half the squared k-support norm is the convex envelope of `||x||**2 / 2` on the vectors with at most
k nonzero entries; less `||x||**2 / 2` it is the quadratic envelope of their indicator. As
`min sum x_i**2 / (2 w_i)` over weights `0 <= w_i <= 1` of the sum k it has a map for which the
minimal weights are, at the step s, `w_i = clip(a |v_i| - s, 0, 1)` with a such that they add up to
k. With the level `c = (1 + s) / a` and the share `m = s / (1 + s)`, entries above c have the weight
1, those below m c the weight 0, and those between lose m c.
"""

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from fedjax_admm.kernels._arguments import matched, undefined_by, weighed, widened
from fedjax_admm.kernels._safe import safe_ratio, unit_of
from fedjax_admm.kernels.compiling import Size
from fedjax_admm.kernels.vectors._ranks import largest
from fedjax_admm.kernels.vectors._thresholds import falling_root


def k_support_value(x: Array, weight: Size, k: int, axis: int = -1) -> Array:
    """Half the squared k-support norm along an axis.

    `g(x) = (sum_T x_i**2 + (sum_R |x_i|)**2 / (k - |T|)) / 2`, where the large entries T and the
    rest R are split such that the mean `sum_R |x_i| / (k - |T|)` lies between them; half of
    `||x||_1**2` for `k = 1`, of `||x||_2**2` for `k = n`. Derivative: `x` on T and the mean times
    the sign on R; no kink but at entries of R that are 0, and there 0.
    """
    x, weight = matched(x, weight)
    top, rest, scale = _parts_of_value(widened(x), k, axis)
    return jnp.squeeze(widened(weight) * (0.5 * (top + rest) * scale * scale), axis).astype(x.dtype)


def prox_k_support(v: Array, step: Size, weight: Size, k: int, axis: int = -1) -> Array:
    """Proximal map of half the squared k-support norm along an axis.

    `Prox(v; step) = v / (1 + step)` where `|v_i| >= c`, else the soft threshold of `v` by `c step /
    (1 + step)`, with the level `c` for which the weights `clip(((1 + step) |v_i| / c - step), 0,
    1)` add up to `k`. Where the `k` largest entries exceed the others by the factor `(1 + step) /
    step`, they alone are left, divided by `1 + step`.

    Derivative: that of the formula for the entries above, between and below; at either end they
    count as those between; where less than `k` entries are nonzero, `1 / (1 + step)` by every
    entry.

    Args:
      k: a Python number from 1 to the size of `axis`.

    Reference: A. Argyriou, R. Foygel and N. Srebro, "Sparse Prediction with the k-Support Norm",
    Advances in Neural Information Processing Systems 25, 2012 (the norm and its map); A. M.
    McDonald, M. Pontil and D. Stamos, "New Perspectives on k-Support and Cluster Norms", Journal of
    Machine Learning Research 17, 2016 (the weights). The level is derived in the comments.
    """
    v, step = weighed(v, step, weight)
    if v.size == 0:
        return v
    by = widened(step)
    kept = 1 / (1 + by)
    wide = widened(v)
    # Not 1 - kept: the share of a small step has its digits.
    top, between, loss = _split(wide, by * kept, kept, k, axis)
    return jnp.where(top, kept * wide, jnp.where(between, wide - loss, 0.0)).astype(v.dtype)


def top_k_envelope_value(x: Array, k: int, axis: int = -1) -> Array:
    """Quadratic envelope of the indicator of at most `k` nonzero entries along an axis.

    `g(x) = ((sum_R |x_i|)**2 / (k - |T|) - sum_R x_i**2) / 2` with the entries R that
    `k_support_value` does not count as large; 0 where at most `k` entries are nonzero. It is the
    largest function below the indicator whose sum with `||x||**2 / 2` is convex. Derivative: on R
    the mean `sum_R |x_i| / (k - |T|)` times the sign, less `x`; 0 elsewhere, and at entries that
    are 0.
    """
    (x,) = matched(x)
    wide = widened(x)
    _, rest, scale = _parts_of_value(wide, k, axis, less=True)
    return jnp.squeeze(0.5 * rest * scale * scale, axis).astype(x.dtype)


def prox_top_k_envelope(v: Array, step: Size, k: int, axis: int = -1) -> Array:
    """Proximal map of the quadratic envelope of the indicator of at most `k` nonzero entries.

    For `step < 1` it is that of half the squared k-support norm at the step `step / (1 - step)` and
    the point `v / (1 - step)`: `v` where `|v_i| >= c`, else the soft threshold of `v` by `step c`,
    divided by `1 - step`. From the step 1 on it is the projection on the vectors with at most `k`
    nonzero entries, as it is where the `k` largest entries exceed the others by the factor `1 /
    step`.

    Ties, at steps of at least 1: of entries with equal modulus those with the lowest index are
    kept. Derivative: that of the formula for the entries above, between and below; at either end
    they count as those between; where less than `k` entries are nonzero, 1 by every entry.

    Args:
      k: a Python number from 1 to the size of `axis`.

    Reference: V. Larsson and C. Olsson, "Convex Low Rank Approximation", International Journal of
    Computer Vision 120, 2016; M. Carlsson, "On Convex Envelopes and Regularization of Non-convex
    Functionals Without Moving Global Minima", Journal of Optimization Theory and Applications 183,
    2019 (minimisers from the step 1 on); F. Andersson, M. Carlsson and C. Olsson, "Convex envelopes
    for fixed rank approximation", Optimization Letters 11, 2017.
    """
    v, step = matched(v, step)
    if v.size == 0:
        return v
    wide, by = widened(v), widened(step)
    share = jnp.where(by < 1, by, 1.0)
    kept = 1 - share
    top, between, loss = _split(wide, share, kept, k, axis)
    grown = (wide - loss) / jnp.where(kept > 0, kept, 1.0)
    found = jnp.where(top, wide, jnp.where(between, grown, 0.0))
    return undefined_by(found, by).astype(v.dtype)


def _parts_of_value(x: Array, k: int, axis: int, less: bool = False) -> tuple[Array, Array, Array]:
    """Return the squares of large entries, the squared sum of the others, and a scale of both.

    With `less`, the squares of the others are taken from their squared sum.
    """
    scale = unit_of(jnp.max(jnp.abs(stop_gradient(x)), axis=axis, keepdims=True, initial=0))
    x = x / scale
    none = jnp.zeros((), x.dtype)
    top, _, _ = _split(x, none, none + 1, k, axis)
    room = k - jnp.sum(top, axis=axis, keepdims=True, dtype=x.dtype)
    room = jnp.where(room > 0, room, 1.0)
    total = jnp.sum(jnp.where(top, 0.0, x * jnp.sign(x)), axis=axis, keepdims=True)
    squares = jnp.sum(jnp.where(top, x * x, 0.0), axis=axis, keepdims=True)
    rest = total * (total / room)
    if less:
        rest = rest - jnp.sum(jnp.where(top, 0.0, x * x), axis=axis, keepdims=True)
    return squares, rest, scale


def _split(v: Array, share: Array, kept: Array, k: int, axis: int) -> tuple[Array, Array, Array]:
    """Return which entries are large, which lie between, and what the latter lose.

    Times c, the sum of the weights less k is `sum clip(|v| - m c, 0, (1 - m) c) - k (1 - m) c`, a
    broken line with the sign of that sum; on the piece of its root q entries are large, and
    `c = sum_between |v| / (m |between| + (k - q) (1 - m))`. The root is at least the (k + 1)-th
    largest entry: if it were below, k + 1 entries had the weight 1. It is at most the k-th over m,
    for beyond that fewer than k have any weight. If these two cross, no entry lies between.

    Args:
      v: float32 or float64.
      share: m, from 0 to 1, size 1 along `axis` or a number.
      kept: `1 - m`.
      k: how many entries have weight.
      axis: the axis of the entries.
    """
    if not 1 <= k <= v.shape[axis]:
        raise ValueError(f"k must be from 1 to {v.shape[axis]}, but it is {k}.")
    shape = jnp.broadcast_shapes(v.shape, share.shape)
    v = jnp.broadcast_to(v, shape)
    fixed = jnp.abs(stop_gradient(v))
    scale = unit_of(jnp.max(fixed, axis=axis, keepdims=True, initial=0))
    size, m, r = fixed / scale, stop_gradient(share), stop_gradient(kept)
    first = largest(size, k, axis)
    last = jnp.min(jnp.where(first, size, jnp.inf), axis=axis, keepdims=True)
    following = jnp.max(jnp.where(first, 0.0, size), axis=axis, keepdims=True)
    apart = m * last >= following

    def at(c):
        over = size - m * c
        inside, large = over > 0, over > r * c
        parts = jnp.where(large, r * c, jnp.where(inside, over, 0.0))
        total = jnp.sum(parts, axis=axis, keepdims=True)
        counted = jnp.sum(inside & ~large, axis=axis, keepdims=True, dtype=v.dtype)
        missing = k - jnp.sum(large, axis=axis, keepdims=True, dtype=v.dtype)
        known = float(jnp.finfo(v.dtype).eps) * total
        return total - k * r * c, m * counted + r * missing, known

    highest = jnp.where(m > 0, last / jnp.where(m > 0, m, 1.0), jnp.inf)
    everything = jnp.sum(size, axis=axis, keepdims=True) / (k * jnp.where(r > 0, r, 1.0))
    right = jnp.where(apart, following, jnp.minimum(highest, everything))
    c = falling_root(at, following, following, right)
    large = size > c
    between = ~large & ~(size < m * c)  # NaN lies between
    # The exact level of these sets, which is differentiated.
    absolute = v * jnp.sign(stop_gradient(v))
    missing = k - jnp.sum(large, axis=axis, keepdims=True, dtype=v.dtype)
    counted = jnp.sum(between, axis=axis, keepdims=True, dtype=v.dtype)
    total = jnp.sum(jnp.where(between, absolute / scale, 0.0), axis=axis, keepdims=True)
    level = safe_ratio(total, share * counted + kept * missing) * scale
    # Fewer than k nonzero entries leave the others free.
    free = (following == 0) & ((last == 0) | (m == 0))
    top = jnp.where(apart, first | free, large)
    loss = jnp.where(apart, 0.0, share * level)
    return top, between & ~apart, jnp.sign(stop_gradient(v)) * loss
