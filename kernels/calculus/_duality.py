"""Moreau's envelope and Moreau's identity: what a proximal map tells of other functions."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import demand_proxes, matched, widened
from fedjax_admm.kernels._safe import safe_ratio
from fedjax_admm.kernels.compiling import Size, checked, kernel

Prox = Callable[..., Array]


@checked
def moreau_envelope(
    value: Callable[..., Array], prox: Prox, axis: int | tuple[int, ...] | None = None
) -> Callable[..., Array]:
    """Make Moreau's envelope, `M(v; step) = min_x g(x) + ||x - v||^2 / (2 step)`.

    `M(v; step) = g(x) + ||x - v||^2 / (2 step)` at `x = Prox(v; step)`; `g(v)` at `step = 0`.

    Derivative: `(v - Prox(v; step)) / step` by the point, `-||v - Prox||^2 / (2 step**2)` by the
    step, that of g at the minimiser by its parameters, whatever the derivatives of the map are;
    derivatives of these derivatives go through the map. At `step = 0` the quotient is its limit,
    the slope of the map in the step with the sign changed. Where g is convex the envelope has no
    kink in the point; else its kinks are the ties of the map.

    Args:
      value: g itself, `value(x, *parameters)`.
      prox: its proximal map, `prox(v, step, *parameters)`, of the same parameters.
      axis: the axes over which one value extends. If None: none where g gives as many axes as the
        points have (entry by entry), else as many of the last axes as g leaves out.

    Returns:
      `envelope(v, step, *parameters)`, of the shape of g.

    Reference: Parikh and Boyd, 2014, section 3.1; R. T. Rockafellar and R. J.-B. Wets, "Variational
    Analysis", 1998, theorem 2.26.
    """
    demand_proxes("moreau_envelope", prox)

    @jax.custom_jvp
    def least(v: Array, step: Array, *parameters: Any) -> Array:
        return objective_at(value, prox(v, step, *parameters), v, step, *parameters, axis=axis)

    @least.defjvp
    def slope(primals: Any, tangents: Any) -> tuple[Array, Array]:
        v, step, *parameters = primals
        x = prox(*primals)
        # (v - x) / step, and at the step 0 its limit, for which the map has to be differentiated.
        ratio = jax.lax.cond(
            jnp.any(step == 0),
            lambda: jnp.where(step == 0, _limit(prox, *primals), safe_ratio(v - x, step)),
            lambda: safe_ratio(v - x, step),
        )
        dv, dstep, *moves = tangents
        least_value, change = jax.jvp(
            lambda *p: objective_at(value, x, v, step, *p, axis=axis), parameters, moves
        )
        squares = ratio * (dv - 0.5 * ratio * dstep)
        return least_value, change + jnp.sum(squares, _axes(least_value, squares, axis))

    @kernel
    def envelope(v: Array, step: Size, *parameters: Any) -> Array:
        (point,) = matched(v)
        return least(*matched(widened(point), step), *parameters).astype(point.dtype)

    return envelope


def objective_at(
    value: Callable[..., Array],
    x: Array,
    v: Array,
    step: Array,
    *parameters: Any,
    axis: int | tuple[int, ...] | None = None,
) -> Array:
    """Return `g(x) + ||x - v||^2 / (2 step)`, of the shape of g; `axis` as in `moreau_envelope`."""
    values = jnp.asarray(value(x, *parameters))
    difference = v - x
    squares = 0.5 * difference * safe_ratio(difference, step)
    return values + jnp.sum(squares, _axes(values, squares, axis))


def _axes(values: Array, squares: Array, axis: int | tuple[int, ...] | None) -> Any:
    return tuple(range(values.ndim, squares.ndim)) if axis is None else axis


def _limit(prox: Prox, v: Array, step: Array, *parameters: Any) -> Array:
    """Return the limit of `(v - Prox(v; step)) / step` at the step 0."""
    ones = jnp.ones_like(step)
    return -jax.jvp(lambda size: prox(v, size, *parameters), (step,), (ones,))[1]


@checked
def envelope_prox(prox: Prox, smoothing: Size) -> Prox:
    """Make the proximal map of Moreau's envelope, `h(x) = min_u g(u) + ||u - x||^2 / (2 mu)`.

    `Prox_h(v; step) = (mu v + step Prox_g(v; mu + step)) / (mu + step)` with the smoothing `mu`.
    Derivative: that of the given map, averaged with the identity; smooth where that is.

    Args:
      prox: the map of a convex g, `prox(v, step, *parameters)`.
      smoothing: positive, or 0 where the step is positive; broadcasts with the step.

    Reference: Beck, 2017, theorem 6.63.
    """
    demand_proxes("envelope_prox", prox)

    @kernel
    def smoothed(v: Array, step: Size, *parameters: Any) -> Array:
        (point,) = matched(v)
        v, step, width = matched(widened(point), step, smoothing)
        moved = prox(v, width + step, *parameters)
        # An average, not v plus a share of the way: at large steps that way is as long as v.
        kept, taken = (safe_ratio(part, width + step) for part in (width, step))
        return (kept * v + taken * moved).astype(point.dtype)

    return smoothed


@checked
def conjugate(prox: Prox) -> Prox:
    """Make the proximal map of the conjugate, `h(x) = sup_u <u, x> - g(u)`, by Moreau's identity.

    `Prox_h(v; step) = v - step Prox_g(v / step; 1 / step)`. At `step = 0` it is the projection onto
    the domain of h. Steps are taken into the middle of the exponents of the dtype, 2^-56 to 2^56 in
    float32, so that neither the quotients nor their squares leave its range.

    The difference is exact to rounding of v, not of the result: where the result is much shorter
    than v (the projection of a point far away), a map of h of its own has more digits.

    Derivative: with `u = Prox_g(v / step; 1 / step)` and `D` its derivative by the point, `I - D`
    by the point and `-(I - D) u` by the step, to the rounding of u, which grows as `1 / step`
    outside a curved domain of h; at kinks the convention of the given map.

    Args:
      prox: the map of a convex, closed g, `prox(v, step, *parameters)`.

    Reference: Parikh and Boyd, 2014, section 2.5 (Moreau decomposition); the derivative by the step
    is derived in the comments.
    """
    demand_proxes("conjugate", prox)

    @jax.custom_jvp
    def dual(v: Array, step: Array, *parameters: Any) -> Array:
        step = _in_range(v, step)
        return v - step * prox(v / step, 1 / step, *parameters)

    @dual.defjvp
    def slope(primals: Any, tangents: Any) -> tuple[Array, Array]:
        v, step, *parameters = primals
        dv, dstep, *moves = tangents
        eps = jnp.finfo(v.dtype).eps
        nearly_zero, step = step < eps * eps, _in_range(v, step)
        inverse = 1 / step

        def inner(w: Array) -> Array:
            return prox(w, inverse, *parameters)

        u = inner(v / step)
        point = jnp.broadcast_to(v / step, u.shape)
        # By its step t a map moves by -D (w - p) / t at p = Prox(w; t). With w = v / s, t = 1 / s
        # the terms of order 1 / s in the derivative of v - s Prox(v / s; 1 / s) cancel.
        bent = u - jax.jvp(inner, (point,), (u,))[1]
        # Outside the domain of h, u grows as 1 / step, and (I - D) u is 0 but for its rounding.
        noise = 64 * eps * jnp.max(jnp.abs(u), initial=0)
        bent = jnp.where(nearly_zero & (jnp.abs(bent) <= noise), 0.0, bent)
        moved = jnp.broadcast_to(dv, u.shape)
        tangent = moved - jax.jvp(inner, (point,), (moved,))[1] - bent * dstep
        if parameters:
            change = jax.jvp(lambda *p: prox(point, inverse, *p), tuple(parameters), tuple(moves))
            tangent = tangent - step * change[1]
        return v - step * u, tangent

    @kernel
    def conjugated(v: Array, step: Size, *parameters: Any) -> Array:
        (point,) = matched(v)
        return dual(*matched(widened(point), step), *parameters).astype(point.dtype)

    return conjugated


def _in_range(v: Array, step: Array) -> Array:
    """Keep a step where neither it, nor its inverse, nor `v / step` overflows."""
    largest = jnp.finfo(v.dtype).maxexp
    longest = jnp.max(jnp.abs(v), initial=0)
    middle = 2.0 ** (7 * largest // 16)
    least = jnp.maximum(longest * 2.0 ** (3 - largest), 1 / middle)
    return jax.lax.stop_gradient(jnp.clip(step, least, middle))
