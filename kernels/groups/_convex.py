"""Proximal maps of convex penalties on groups of entries."""

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from fedjax_admm.kernels._arguments import matched, weighed, widened
from fedjax_admm.kernels.compiling import Size
from fedjax_admm.kernels.elementwise._absolute import soft_threshold
from fedjax_admm.kernels.elementwise._losses import huber_value, prox_huber
from fedjax_admm.kernels.groups._radial import Axis, group_norm, radial_value, shrink_norm


def group_l2_value(x: Array, weight: Size = 1.0, axis: Axis = -1) -> Array:
    """Euclidean norm of groups, `g(x) = ||x||_2`.

    Derivative at the kink `x = 0`: 0.

    Returns:
      Norms, one for each group: the shape of `x` without `axis`, dtype of `x`.
    """
    return radial_value(x, lambda norm: jnp.asarray(weight, norm.dtype) * norm, axis)


def prox_group_l2(v: Array, step: Size, weight: Size = 1.0, axis: Axis = -1) -> Array:
    """Proximal map of the Euclidean norm of groups, `g(x) = ||x||_2` along an axis or several.

    `Prox(v; step) = max(0, 1 - step / ||v||) v`, and 0 where `||v|| <= step`. Derivative at `v =
    0`: 0 for `step > 0`, the identity for `step = 0` (both exact); at the kink `||v|| = step`: the
    mean of both sides.

    Reference: Parikh and Boyd, 2014, section 6.5.1 (block soft thresholding); M. Yuan and Y. Lin,
    "Model selection and estimation in regression with grouped variables", 2006.
    """
    v, step = weighed(v, step, weight)
    return shrink_norm(v, lambda norm: jnp.maximum(norm - step.astype(norm.dtype), 0.0), axis)


def sparse_group_value(x: Array, l1: Size, group: Size, axis: Axis = -1) -> Array:
    """Sparse group penalty, `g(x) = l1 ||x||_1 + group ||x||_2` along an axis or several.

    Derivative at the kinks `x_i = 0`: 0 in that entry.
    """
    x, l1, group = matched(x, l1, group)
    absolute = jnp.sum(widened(l1 * (x * jnp.sign(x))), axis, keepdims=True)
    total = absolute + widened(group) * group_norm(x, axis)
    return jnp.squeeze(total, axis).astype(x.dtype)


def prox_sparse_group(v: Array, step: Size, l1: Size, group: Size, axis: Axis = -1) -> Array:
    """Proximal map of the sparse group penalty, `g(x) = l1 ||x||_1 + group ||x||_2`.

    `Prox(v; step) = max(0, 1 - step group / ||z||) z` with `z = S(v, step l1)`: the soft threshold
    `S` entry by entry, then the block soft threshold of its result.

    Derivative at the kinks: 1/2 of both sides at `|v_i| = step l1`, the mean of both sides at
    `||z|| = step group`, 0 at `z = 0` for `step group > 0`.

    Args:
      l1: weight of the l1 norm, at least 0.
      group: weight of the Euclidean norm, at least 0.

    Reference: N. Simon, J. Friedman, T. Hastie and R. Tibshirani, "A Sparse-Group Lasso", Journal
    of Computational and Graphical Statistics 22(2), 2013; Y.-L. Yu, "On Decomposing the Proximal
    Map", Advances in Neural Information Processing Systems 26, 2013 (the two maps in a row).
    """
    v, step, l1, group = matched(v, step, l1, group)
    return prox_group_l2(soft_threshold(v, step * l1), step * group, axis=axis)


def cube_l2_value(x: Array, weight: Size = 1.0, axis: Axis = -1) -> Array:
    """Cube of the Euclidean norm, `g(x) = ||x||_2**3` along an axis or several.

    Derivative: `3 ||x|| x`, smooth: no kink.
    """
    return radial_value(
        x, lambda norm: jnp.asarray(weight, norm.dtype) * (norm * norm * norm), axis
    )


def prox_cube_l2(v: Array, step: Size, weight: Size = 1.0, axis: Axis = -1) -> Array:
    """Proximal map of the cube of the Euclidean norm, `g(x) = ||x||_2**3`.

    `Prox(v; step) = 2 v / (1 + sqrt(1 + 12 step ||v||))`: the norm r of the result solves `r + 3
    step r**2 = ||v||`. Derivative at `v = 0`: the identity; smooth: no kink of the first order.

    Reference: Y. Nesterov and B. T. Polyak, "Cubic regularization of Newton method and its global
    performance", Mathematical Programming 108, 2006 (the cubic term); Beck, 2017, theorem 6.18
    (prox of a composition with the norm).
    """
    v, step = weighed(v, step, weight)
    step = widened(step)

    def shrink(norm: Array) -> Array:
        # The product of step and norm may leave the range where the root of it does not.
        long, wide = jnp.maximum(stop_gradient(norm), 1.0), jnp.maximum(stop_gradient(step), 1.0)
        inside = (1 / long) / wide + 12 * (norm / long) * (step / wide)
        return norm * (2 / (1 + jnp.sqrt(long) * jnp.sqrt(wide) * jnp.sqrt(inside)))

    return shrink_norm(v, shrink, axis)


def group_huber_value(x: Array, delta: Size, axis: Axis = -1) -> Array:
    """Huber loss of the norm, `g(x) = ||x||**2 / 2` up to `||x|| = delta`, linear beyond.

    `delta (||x|| - delta / 2)` where `||x|| > delta`. Derivative: `min(1, delta / ||x||) x`, no
    kink; that in `delta` is `||x|| - delta` outside.
    """
    x, delta = matched(x, delta)
    return radial_value(x, lambda norm: huber_value(norm, delta), axis)


def prox_group_huber(v: Array, step: Size, delta: Size, axis: Axis = -1) -> Array:
    """Proximal map of the Huber loss of the norm, `g(x) = ||x||**2 / 2` up to `||x|| = delta`.

    `Prox(v; step) = v / (1 + step)` where `||v|| <= (1 + step) delta`, else `(1 - step delta /
    ||v||) v`. A weight multiplies `step`; an infinite `delta` gives the square. The loss of unit
    slope, `||x||**2 / (2 delta)` near 0, has the map `prox_group_huber(v, step / delta, delta)`.

    Derivative at the kink `||v|| = (1 + step) delta`: the mean of both sides; at `v = 0` the
    identity over `1 + step`.

    Args:
      delta: where the square ends, at least 0 and possibly infinite.

    Reference: P. J. Huber, "Robust Estimation of a Location Parameter", Annals of Mathematical
    Statistics 35(1), 1964 (the loss); Beck, 2017, theorem 6.18 (prox of a composition with the
    norm).
    """
    v, step, delta = matched(v, step, delta)
    return shrink_norm(v, lambda norm: prox_huber(norm, step, delta), axis)
