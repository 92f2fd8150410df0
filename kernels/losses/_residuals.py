"""Losses of one sample: the proximal map of a scalar function along one direction.

With `g(x) = phi(<a, x> - b)` only the component of v along a changes, by the scalar proximal map of
phi at the step `||a||^2 step`. Rows are scaled to length 1 first, so that no square overflows.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import matched, widened
from fedjax_admm.kernels._safe import safe_ratio, scaled_norm
from fedjax_admm.kernels.compiling import Real, Share, Size
from fedjax_admm.kernels.elementwise._absolute import prox_pinball, soft_threshold
from fedjax_admm.kernels.elementwise._losses import prox_logistic


def absolute_residual_value(x: Array, row: Array, target: Real, axis: int = -1) -> Array:
    """Absolute loss of one sample, `g(x) = |<a, x> - b|`.

    Subgradient at the kink `<a, x> = b`: 0.
    """
    point, rest = _residual(x, row, target, axis)
    return (rest * jnp.sign(rest)).astype(point.dtype)


def prox_absolute_residual(v: Array, step: Size, row: Array, target: Real, axis: int = -1) -> Array:
    """Proximal map of the absolute loss of one sample, `g(x) = |<a, x> - b|`.

    `Prox(v; step) = v - a min(max(r / ||a||^2, -step), step)` with the residual `r = <a, v> - b`; v
    where `a = 0`. Derivative at the kinks `|r| = step ||a||^2`: the mean of both sides.

    Args:
      row: a, of as many axes as `v`, or fewer: then those of the last axes.
      target: b, a number.

    Reference: Combettes and Pesquet, 2011, table 10.1, property x (one direction), with the soft
    threshold; P. Bloomfield and W. L. Steiger, "Least Absolute Deviations", Birkhauser 1983.
    """

    def scalar(r: Array, step: Array, length: Array) -> Array:
        return soft_threshold(r, step * length)

    return _along_row(scalar, v, step, row, target, axis)


def pinball_residual_value(
    x: Array, row: Array, target: Real, quantile: Share, axis: int = -1
) -> Array:
    """Quantile loss of one sample, `g(x) = max(q r, (q - 1) r)` with `r = <a, x> - b`.

    A positive residual, a prediction above the target, costs q: regression on the quantile tau of
    the targets has `q = 1 - tau`. Subgradient at the kink `<a, x> = b`: `q - 1/2`, the mean of both
    sides.
    """
    point, rest = _residual(x, row, target, axis)
    q = jnp.asarray(quantile, rest.dtype)
    q = jnp.squeeze(q, axis) if q.ndim else q
    return jnp.maximum(q * rest, (q - 1) * rest).astype(point.dtype)


def prox_pinball_residual(
    v: Array, step: Size, row: Array, target: Real, quantile: Share, axis: int = -1
) -> Array:
    """Proximal map of the quantile loss of one sample, `g(x) = max(q r, (q - 1) r)`.

    With the residual `r = <a, v> - b`, `Prox(v; step) = v - a min(max(r / ||a||^2, step (q - 1)),
    step q)`; v where `a = 0`. Derivative at the kinks `r = step q ||a||^2` and `r = step (q - 1)
    ||a||^2`: the mean of both sides.

    Args:
      row: a, of as many axes as `v`, or fewer: then those of the last axes.
      target: b, a number.
      quantile: q in [0, 1], the cost of a positive residual, as the target.

    Reference: R. Koenker and G. Bassett, "Regression Quantiles", Econometrica 46, 1978 (the loss);
    Combettes and Pesquet, 2011, table 10.1, property x (one direction).
    """

    def scalar(r: Array, step: Array, length: Array) -> Array:
        return prox_pinball(r, step * length, jnp.asarray(quantile, r.dtype))

    return _along_row(scalar, v, step, row, target, axis)


def logistic_residual_value(x: Array, row: Array, target: Real, axis: int = -1) -> Array:
    """Logistic loss of one sample, `g(x) = log(1 + exp(-(<a, x> - b)))`.

    With features times the label in {-1, 1} as the row and `b = 0` it is that of classification.
    Derivative: `-a / (1 + exp(<a, x> - b))`, no kink.
    """
    point, rest = _residual(x, row, target, axis)
    return jnp.logaddexp(0.0 * rest, -rest).astype(point.dtype)


def prox_logistic_residual(v: Array, step: Size, row: Array, target: Real, axis: int = -1) -> Array:
    """Proximal map of the logistic loss of one sample, `g(x) = log(1 + exp(-(<a, x> - b)))`.

    `Prox(v; step) = v + a (s - r) / ||a||^2` with the residual `r = <a, v> - b` and the root s of
    `s = r + step ||a||^2 / (1 + exp(s))`, which is `prox_logistic(r, step ||a||^2)`; v where `a =
    0`. With features times the label in {-1, 1} as the row and `b = 0` it is the map of
    classification.

    Derivative: smooth, no kink; that of the root is implicit, as in `prox_logistic`.

    Args:
      row: a, of as many axes as `v`, or fewer: then those of the last axes; its squared length
        within the range of the dtype.
      target: b, a number.

    Reference: D. R. Cox, "The Regression Analysis of Binary Sequences", 1958 (the loss); Combettes
    and Pesquet, 2011, table 10.1, property x (one direction).
    """

    def scalar(r: Array, step: Array, length: Array) -> Array:
        root = prox_logistic(r * length, step * length * length)
        return safe_ratio(root, length)

    return _along_row(scalar, v, step, row, target, axis)


def _fitted(v: Array, row: Array, target: Real) -> tuple[Array, Array, Array, Array]:
    """Return the points, and points, row and target wide, the row with as many axes."""
    (point,) = matched(v)
    v, row, target = matched(widened(point), row, target)
    if row.ndim < v.ndim:
        row = row.reshape((1,) * (v.ndim - row.ndim) + row.shape)
    return point, v, row, target


def _residual(x, row, target, axis) -> tuple[Array, Array]:
    point, x, row, target = _fitted(x, row, target)
    rest = jnp.sum(row * x, axis, keepdims=True) - target
    return point, jnp.squeeze(rest, axis)


def _along_row(
    scalar: Callable[[Array, Array, Array], Array],
    v: Array,
    step: Real,
    row: Array,
    target: Real,
    axis: int,
) -> Array:
    """Move points along a row, to where `scalar(r, step, length)` takes `r = <e, v> - b / length`.

    `a = length e`: what is minimised over the line is `phi(length t) + (t - r)^2 / (2 step)`.
    """
    point, v, row, target = _fitted(v, row, target)
    step = jnp.asarray(step, v.dtype)
    scaled, norm, size = scaled_norm(row, axis)
    direction, length = safe_ratio(scaled, norm), norm * size
    r = jnp.sum(direction * v, axis, keepdims=True) - safe_ratio(target, length)
    change = jnp.where(length > 0, scalar(r, step, length) - r, 0.0)
    return (v + change * direction).astype(point.dtype)
