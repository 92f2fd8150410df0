"""Absolute, quantile and logistic losses of many samples: values and proximal maps."""

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import matched
from fedjax_admm.kernels._gaps import approximate, with_gap
from fedjax_admm.kernels.compiling import Share, Size
from fedjax_admm.kernels.elementwise._absolute import prox_l1, prox_pinball
from fedjax_admm.kernels.elementwise._losses import prox_logistic
from fedjax_admm.kernels.losses._samples import (
    SampleFactor,
    SampleProx,
    precompose_samples,
    residuals,
)
from fedjax_admm.kernels.losses._spectrum import points_last


def absolute_loss_value(x: Array, factor: SampleFactor, axis: int = -1) -> Array:
    """Absolute loss of samples, `g(x) = sum_i |<a_i, x> - b_i|`: their sum, not their mean.

    Subgradient at the kinks `<a_i, x> = b_i`: 0 of that sample.
    """
    rest = _residuals(x, factor, axis)
    return jnp.sum(rest * jnp.sign(rest), -1).astype(matched(x)[0].dtype)


@approximate
def prox_absolute_loss(
    v: Array,
    step: Size,
    factor: SampleFactor,
    start: Array | None = None,
    rounds: int = 30,
    axis: int = -1,
) -> SampleProx:
    """Proximal map of the absolute loss of samples, `g(x) = sum_i |<a_i, x> - b_i|`.

    `Prox(v; step) = v - step A^T u` with slopes `u_i` in [-1, 1] that are the signs of the
    residuals of the result where these are not 0. There is no closed form: multipliers and Newton
    steps are joined, as in `precompose_samples`. With the mean instead of the sum, divide the step
    by m.

    Derivative: implicit; at kinks, where a residual leaves 0, one side or the mean of both.

    Args:
      factor: what `sample_factor` returns, of one loss for all points.
      start: slopes of an earlier call, shape (..., m): its memory; zeros if None.
      rounds: how often the multipliers change at most, each time after twenty Newton steps or less.

    Returns:
      The minimisers in shape and dtype of `v`; from `with_gap` a `SampleProx` with their slopes,
      shape (..., m), and the residual of the optimality condition, shape (...).

    Reference: Boyd et al., 2011, section 6.1; P. Bloomfield and W. L. Steiger, "Least Absolute
    Deviations", Birkhauser 1983.
    """
    return with_gap(precompose_samples(prox_l1, rounds))(v, step, factor, start=start, axis=axis)


def pinball_loss_value(x: Array, factor: SampleFactor, quantile: Share, axis: int = -1) -> Array:
    """Quantile loss of samples, `g(x) = sum_i max(q r_i, (q - 1) r_i)` with `r_i = <a_i, x> - b_i`.

    A positive residual, a prediction above the target, costs q: regression on the quantile tau of
    the targets has `q = 1 - tau`. Subgradient at the kinks `r_i = 0`: `q - 1/2` of that sample, the
    mean of both sides.
    """
    rest = _residuals(x, factor, axis)
    q = jnp.asarray(quantile, rest.dtype)
    q = q.reshape((1,) * (rest.ndim - q.ndim) + q.shape)
    return jnp.sum(jnp.maximum(q * rest, (q - 1) * rest), -1).astype(matched(x)[0].dtype)


@approximate
def prox_pinball_loss(
    v: Array,
    step: Size,
    factor: SampleFactor,
    quantile: Share,
    start: Array | None = None,
    rounds: int = 30,
    axis: int = -1,
) -> SampleProx:
    """Proximal map of the quantile loss of samples, `g(x) = sum_i max(q r_i, (q - 1) r_i)`.

    With the residuals `r_i = <a_i, x> - b_i`, `Prox(v; step) = v - step A^T u` with slopes `u_i` in
    [q - 1, q] that are q where a residual of the result is positive and `q - 1` where it is
    negative. There is no closed form: multipliers and Newton steps are joined, as in
    `precompose_samples`.

    Derivative: implicit; at kinks, where a residual leaves 0, one side or the mean of both.

    Args:
      factor: what `sample_factor` returns, of one loss for all points.
      quantile: q in [0, 1], the cost of a positive residual: a number, or one for each sample,
        shape (m,).
      start, rounds: as in `prox_absolute_loss`, whose results these are.

    Reference: R. Koenker and G. Bassett, "Regression Quantiles", Econometrica 46, 1978 (the loss);
    Boyd et al., 2011, section 6.1.
    """
    mapped = with_gap(precompose_samples(prox_pinball, rounds))
    return mapped(v, step, factor, quantile, start=start, axis=axis)


def logistic_loss_value(x: Array, factor: SampleFactor, axis: int = -1) -> Array:
    """Logistic loss of samples, `g(x) = sum_i log(1 + exp(-(<a_i, x> - b_i)))`.

    With features times labels in {-1, 1} as rows and `b = 0` it is that of classification.
    Derivative: no kink.
    """
    rest = _residuals(x, factor, axis)
    return jnp.sum(jnp.logaddexp(0.0 * rest, -rest), -1).astype(matched(x)[0].dtype)


@approximate
def prox_logistic_loss(
    v: Array,
    step: Size,
    factor: SampleFactor,
    start: Array | None = None,
    rounds: int = 30,
    axis: int = -1,
) -> SampleProx:
    """Proximal map of the logistic loss of samples, `g(x) = sum_i log(1 + exp(-(<a_i, x> - b_i)))`.

    With the residuals r of the result, `Prox(v; step) = v + step A^T (1 / (1 + exp(r)))`. There is
    no closed form: multipliers and Newton steps are joined, as in `precompose_samples`. Derivative:
    implicit; smooth, no kink.

    Args:
      factor: what `sample_factor` returns, of one loss for all points; for classification of
        features times labels in {-1, 1} and zeros.
      start, rounds: as in `prox_absolute_loss`, whose results these are.

    Reference: D. R. Cox, "The Regression Analysis of Binary Sequences", 1958 (the loss); Boyd et
    al., 2011, section 8.2.
    """
    return with_gap(precompose_samples(prox_logistic, rounds))(
        v, step, factor, start=start, axis=axis
    )


def _residuals(x: Array, factor: SampleFactor, axis: int) -> Array:
    point, _, wide = points_last(x, None, factor, axis)
    return residuals(point, wide)
