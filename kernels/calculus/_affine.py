"""Proximal maps of g shifted, scaled, tilted or made strongly convex, from the map of g.

What is returned takes `(v, step, *parameters)`, where the parameters are those of the map of g.
Shifts, factors and weights may be traced arrays, and have fewer axes than the points: then they are
those of the last axes. Counts and axes of a map go in by `functools.partial` beforehand.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import demand_proxes, matched, widened
from fedjax_admm.kernels.compiling import NotNaN, Real, Size, checked, kernel

Prox = Callable[..., Array]


@checked
def translate(prox: Prox, shift: Real) -> Prox:
    """Make the proximal map of a translated function, `h(x) = g(x - shift)`.

    `Prox_h(v; step) = shift + Prox_g(v - shift; step)`. Derivative: that of the given map, the
    kinks moved by `shift`.

    Args:
      shift: where the origin of g goes, broadcasts with the points.

    Reference: Combettes and Pesquet, 2011, table 10.1, property i (translation).
    """
    demand_proxes("translate", prox)

    @kernel
    def translated(v: Array, step: Size, *parameters: Real) -> Array:
        (point,) = matched(v)
        v, step, centre = _spread(widened(point), step, shift)
        return (centre + prox(v - centre, step, *parameters)).astype(point.dtype)

    return translated


@checked
def scale(prox: Prox, factor: NotNaN) -> Prox:
    """Make the proximal map of a function of a multiple, `h(x) = g(factor x)`.

    `Prox_h(v; step) = Prox_g(factor v; factor**2 step) / factor`; `v` where the factor is 0.
    Derivative: that of the given map, the kinks divided by `factor`; at `factor = 0` the identity.

    Args:
      factor: a number of either sign, also a traced one.

    Reference: Combettes and Pesquet, 2011, table 10.1, property ii (scaling).
    """
    demand_proxes("scale", prox)

    @kernel
    def scaled(v: Array, step: Size, *parameters: Real) -> Array:
        return _of_multiple(prox, v, step, factor, 0.0, parameters)

    return scaled


@checked
def precompose_diagonal(prox: Prox, factors: NotNaN, shift: Real = 0.0) -> Prox:
    """Make the proximal map of a separable g after a diagonal, `h(x) = g(factors * x + shift)`.

    `Prox_h(v; step) = (Prox_g(factors v + shift; factors**2 step) - shift) / factors`, entry by
    entry; `v` where a factor is 0. Derivative: that of the given map, the kinks moved as the points
    are; the identity where a factor is 0.

    Args:
      prox: the map of g, `prox(v, step, *parameters)`, elementwise: it takes an array of steps.
      factors: of either sign, broadcasts with the points.
      shift: added to the multiples, broadcasts with the points.

    Reference: Combettes and Pesquet, 2011, table 10.1, properties i and ii, entry by entry.
    """
    demand_proxes("precompose_diagonal", prox)

    @kernel
    def precomposed(v: Array, step: Size, *parameters: Real) -> Array:
        return _of_multiple(prox, v, step, factors, shift, parameters)

    return precomposed


@checked
def postscale(prox: Prox, weight: Size) -> Prox:
    """Make the proximal map of a multiple, `h(x) = weight g(x)`.

    `Prox_h(v; step) = Prox_g(v; weight step)`; a constant added to g changes no proximal map.
    Derivative: that of the given map, the kinks at the step `weight step`.

    Args:
      weight: at least 0, broadcasts with the step.

    Reference: Parikh and Boyd, 2014, section 2.2 (postcomposition).
    """
    demand_proxes("postscale", prox)

    @kernel
    def postscaled(v: Array, step: Size, *parameters: Real) -> Array:
        (point,) = matched(v)
        v, step, many = _spread(widened(point), step, weight)
        return prox(v, many * step, *parameters).astype(point.dtype)

    return postscaled


@checked
def tilt(prox: Prox, slope: Real) -> Prox:
    """Make the proximal map of a function plus a linear one, `h(x) = g(x) + <slope, x>`.

    `Prox_h(v; step) = Prox_g(v - step slope; step)`. Derivative: that of the given map, the kinks
    moved by `step slope`.

    Args:
      slope: broadcasts with the points.

    Reference: Parikh and Boyd, 2014, section 2.2 (affine addition).
    """
    demand_proxes("tilt", prox)

    @kernel
    def tilted(v: Array, step: Size, *parameters: Real) -> Array:
        (point,) = matched(v)
        v, step, gradient = _spread(widened(point), step, slope)
        return prox(v - step * gradient, step, *parameters).astype(point.dtype)

    return tilted


@checked
def regularise(prox: Prox, weight: Size, centre: Real = 0.0) -> Prox:
    """Make the proximal map with a quadratic, `h(x) = g(x) + weight ||x - centre||^2 / 2`.

    `Prox_h(v; step) = Prox_g((v + step weight centre) / (1 + step weight); step / (1 + step
    weight))`. Derivative: that of the given map at the averaged point.

    Args:
      weight: at least 0, broadcasts with the step.
      centre: where the quadratic is least, broadcasts with the points.

    Reference: Parikh and Boyd, 2014, section 2.2 (regularization).
    """
    demand_proxes("regularise", prox)

    @kernel
    def regularised(v: Array, step: Size, *parameters: Real) -> Array:
        (point,) = matched(v)
        v, step, weights, middle = _spread(widened(point), step, weight, centre)
        pull = step * weights
        share = 1 / (1 + pull)
        # Not (v + pull centre) share: an average leaves the range nowhere.
        averaged = share * v + (share * pull) * middle
        return prox(averaged, share * step, *parameters).astype(point.dtype)

    return regularised


def _of_multiple(prox, v, step, factor, shift, parameters) -> Array:
    """Map for g(factor x + shift)."""
    (point,) = matched(v)
    v, step, factor, shift = _spread(widened(point), step, factor, shift)
    flat = factor == 0
    factor = jnp.where(flat, 1.0, factor)
    image = prox(factor * v + shift, factor * factor * step, *parameters)
    return jnp.where(flat, v, (image - shift) / factor).astype(point.dtype)


def _spread(v: Array, step: Real, *numbers: Real) -> tuple[Array, ...]:
    """Match a step and numbers to points, and give those of fewer axes the leading ones."""
    v, *parts = matched(v, step, *numbers)
    shapes = [part.shape for part in parts]
    padded = [(1,) * (v.ndim - len(shape)) + shape if shape else () for shape in shapes]
    return (v, *(part.reshape(shape) for part, shape in zip(parts, padded, strict=True)))
