"""The difference of the l1 and the Euclidean norm: sparser than l1, exact along the axes."""

import jax.numpy as jnp
from jax import Array
from jax.lax import broadcasted_iota, stop_gradient

from fedjax_admm.kernels._arguments import demand_entries, matched, undefined_by, weighed, widened
from fedjax_admm.kernels._safe import safe_norm
from fedjax_admm.kernels.compiling import Size
from fedjax_admm.kernels.elementwise._absolute import soft_threshold


def l1_minus_l2_value(x: Array, weight: Size, alpha: Size, axis: int = -1) -> Array:
    """Difference of norms, `g(x) = ||x||_1 - alpha ||x||_2` along an axis.

    Derivative at the kinks `x_i = 0`: 0 in that entry.
    """
    x, weight, alpha = matched(x, weight, alpha)
    wide = widened(x)
    absolute = jnp.sum(wide * jnp.sign(wide), axis, keepdims=True)
    difference = absolute - widened(alpha) * safe_norm(wide, axis, keepdims=True)
    return jnp.squeeze(widened(weight) * difference, axis).astype(x.dtype)


def prox_l1_minus_l2(v: Array, step: Size, weight: Size, alpha: Size, axis: int = -1) -> Array:
    """Proximal map of a difference of norms, `g(x) = ||x||_1 - alpha ||x||_2`, for every step.

    `max_i |v_i| > step`: `Prox(v; step) = z (1 + alpha step / ||z||)` with the soft threshold `z =
    S(v, step)`. Else at most one entry is not 0, that of the largest `|v_i|`, and it is `sign(v_i)
    max(|v_i| - (1 - alpha) step, 0)`.

    Ties (only for `max_i |v_i| <= step`): the first of the largest entries is kept, and positive
    where `v = 0` and `alpha > 1`; at `max_i |v_i| = step`, where every x with `||x|| = alpha
    step` on the largest entries is a minimiser, likewise. Derivative at the kinks: 1/2 where `|v_i|
    = step` beside a larger entry, 1/2 where the largest is `(1 - alpha) step`; at the limit
    between both cases that of the single entry.

    Args:
      v: points, any shape; the vectors lie along `axis`.
      alpha: at least 0; 1 in the reference's examples.

    Reference: Y. Lou and M. Yan, "Fast L1-L2 Minimization via a Proximal Operator", Journal of
    Scientific Computing 74, 2018, lemma 1; P. Yin, Y. Lou, Q. He and J. Xin, "Minimization of l1-2
    for Compressed Sensing", SIAM Journal on Scientific Computing 37(1), 2015.
    """
    v, step, alpha = weighed(v, step, weight, alpha)
    demand_entries(v, axis, "prox_l1_minus_l2")
    wide, step, alpha = widened(v), widened(step), widened(alpha)
    magnitude = stop_gradient(jnp.abs(wide))
    sparse = jnp.max(magnitude, axis, keepdims=True, initial=0) <= stop_gradient(step)

    shrunk = soft_threshold(wide, step)
    norm = jnp.where(sparse, 1.0, safe_norm(shrunk, axis, keepdims=True))
    dense = shrunk * (1 + alpha * (step / norm))

    first = jnp.argmax(magnitude, axis, keepdims=True)
    largest = broadcasted_iota(first.dtype, wide.shape, axis % wide.ndim) == first
    side = jnp.where(wide < 0, -1.0, 1.0).astype(wide.dtype)
    # The largest entry, moved away from 0 where alpha exceeds 1.
    single = side * jnp.maximum(side * wide - (1 - alpha) * step, 0.0)
    alone = jnp.where(largest, single, 0.0)
    return undefined_by(jnp.where(sparse, alone, dense), alpha).astype(v.dtype)
