"""Proximal maps of the least and of an average of several functions."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import demand_as_many, demand_proxes, matched, widened
from fedjax_admm.kernels.calculus._duality import objective_at
from fedjax_admm.kernels.compiling import Size, checked, kernel

Prox = Callable[..., Array]


@checked
def pointwise_minimum(
    values: Sequence[Callable[..., Array]], proxes: Sequence[Prox]
) -> Callable[..., Array]:
    """Make the proximal map of the least of several functions, `h(x) = min(g_1(x), ..., g_k(x))`.

    `Prox_h(v; step) = Prox_i(v; step)` where i has the least Moreau envelope `g_i(x) + ||x - v||^2
    / (2 step)` at `x = Prox_i(v; step)`: the global minimiser. Of separable functions the least is
    taken entry by entry.

    Ties: the first of the functions with the least envelope. Derivative: that of the map which is
    taken; at a jump that of the first.

    Args:
      values: the functions, `value(x, *parameters)`, all of one shape: entry by entry, or one for
        several of the last axes.
      proxes: their maps, `prox(v, step, *parameters)`.

    Returns:
      The map of h, `minimised(v, step, *parameters)`: the parameters are sequences, those of each
      function, or none at all.

    Reference: derived in the comments.
    """
    demand_proxes("pointwise_minimum", *proxes)
    demand_as_many("values", values, proxes)

    @kernel
    def minimised(v: Array, step: Size, *parameters: Any) -> Array:
        # The minimum over x and i can be taken over x first: that is the envelope of g_i.
        (point,) = matched(v)
        v, step = matched(widened(point), step)
        numbers = list(parameters) if parameters else [()] * len(proxes)
        demand_as_many("parameters", numbers, proxes)
        best = least = None
        for value, prox, more in zip(values, proxes, numbers, strict=True):
            x = prox(v, step, *more)
            height = objective_at(value, x, v, step, *more)
            if best is None or least is None:
                best, least = x, height
                continue
            lower = height < least
            least = jnp.where(lower, height, least)
            wide = lower.reshape(lower.shape + (1,) * (x.ndim - lower.ndim))
            best = jnp.where(wide, x, best)
        return jnp.asarray(best).astype(point.dtype)

    return minimised


@checked
def proximal_average(proxes: Sequence[Prox], weights: Size) -> Callable[..., Array]:
    """Make the average of proximal maps, which is the map of the proximal average of functions.

    `Prox_h(v; step) = w_1 Prox_1(v; step) + ... + w_k Prox_k(v; step)` with weights that sum to 1.
    The proximal average h of convex functions is the one whose Moreau envelope is the average of
    theirs, `M_h = w_1 M_1 + ... + w_k M_k`; it depends on the step.

    Derivative: the average of those of the given maps.

    Args:
      proxes: the maps of convex functions, `prox(v, step, *parameters)`.
      weights: shape (k,), at least 0; they are divided by their sum.

    Returns:
      The map of h, `averaged(v, step, *parameters)`: the parameters are sequences, those of each
      function, or none at all.

    Reference: H. H. Bauschke, R. Goebel, Y. Lucet, X. Wang, "The proximal average: basic theory",
    SIAM Journal on Optimization 19(2), 2008; Y.-L. Yu, "Better approximation and faster algorithm
    using the proximal average", Advances in Neural Information Processing Systems 26, 2013.
    """
    demand_proxes("proximal_average", *proxes)

    @kernel
    def averaged(v: Array, step: Size, *parameters: Any) -> Array:
        (point,) = matched(v)
        v, step, shares = matched(widened(point), step, weights)
        demand_as_many("weights", shares, proxes)
        numbers = list(parameters) if parameters else [()] * len(proxes)
        demand_as_many("parameters", numbers, proxes)
        shares = shares / jnp.sum(shares)
        parts = [
            share * prox(v, step, *more)
            for share, prox, more in zip(shares, proxes, numbers, strict=True)
        ]
        return jnp.asarray(sum(parts)).astype(point.dtype)

    return averaged
