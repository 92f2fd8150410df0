"""Total variation of images: a fixed number of accelerated steps on the dual, and their gap."""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from fedjax_admm.kernels._arguments import matched, undefined_by, weighed, widened
from fedjax_admm.kernels._gaps import approximate
from fedjax_admm.kernels._loops import scan
from fedjax_admm.kernels._safe import safe_norm
from fedjax_admm.kernels.chains._centred import centred
from fedjax_admm.kernels.compiling import Real, Size
from fedjax_admm.kernels.vectors._balls import project_l2_ball


@approximate
def prox_tv2d_isotropic(
    v: Array, step: Size, weight: Size = 1.0, *, iterations: int = 100
) -> tuple[Array, Array]:
    """Proximal map of the isotropic total variation of images, `g(x) = sum_ij ||(D x)_ij||_2`.

    `(D x)_ij = (x_{i+1,j} - x_ij, x_{i,j+1} - x_ij)`, 0 beyond the last row and column. `Prox(v;
    step) = v - D^T q` with the `q` that minimises `||v - D^T q||^2` among those with `||q_ij||_2 <=
    step`: `iterations` steps of accelerated projected gradients from `q = 0`. The gap bounds what
    the result lacks: `step g(x) + ||x - v||^2 / 2` exceeds its minimum by at most the gap, and `x`
    is at most `sqrt(2 gap)` from the minimiser.

    Ties: none, the minimiser is unique. Derivative: that of the steps taken, in the point and in
    the step; at the kinks `||q|| = step` that of `project_l2_ball`.

    Args:
      iterations: the number of steps, static.

    Returns:
      Approximate minimisers, broadcast shape, dtype of `v`; from `with_gap` their gaps too, that
      shape without the last two axes.

    Reference: A. Beck and M. Teboulle, "Fast gradient-based algorithms for constrained total
    variation image denoising and deblurring problems", IEEE Transactions on Image Processing
    18(11), 2009 (the algorithm FGP); L. I. Rudin, S. Osher and E. Fatemi, "Nonlinear total
    variation based noise removal algorithms", Physica D 60, 1992.
    """
    return _descended(v, step, weight, iterations, _into_discs, _lengths)


@approximate
def prox_tv2d_anisotropic(
    v: Array, step: Size, weight: Size = 1.0, *, iterations: int = 100
) -> tuple[Array, Array]:
    """Proximal map of the anisotropic total variation of images, `g(x) = sum_ij ||(D x)_ij||_1`.

    As `prox_tv2d_isotropic`, with a `q` among those with `|q| <= step`, entry by entry. Ties: none,
    the minimiser is unique. Derivative: that of the steps taken, in the point and in the step; at
    the kinks `|q| = step` the identity, that of the interval.

    Reference: A. Beck and M. Teboulle, "Fast gradient-based algorithms for constrained total
    variation image denoising and deblurring problems", IEEE Transactions on Image Processing
    18(11), 2009 (the algorithm FGP, with the l1-based total variation).
    """
    return _descended(v, step, weight, iterations, _into_boxes, _sizes)


def tv2d_isotropic_value(x: Array, weight: Size = 1.0) -> Array:
    """Isotropic total variation of images, `g(x) = sum_ij ||(D x)_ij||_2`.

    Derivative where both differences are 0: 0, an element of the subdifferential.

    Returns:
      Values, the shape of `x` without the last two axes, dtype of `x`.
    """
    x, weight = matched(x, weight)
    lengths = widened(weight) * _lengths(_differences(widened(x)))
    return jnp.sum(lengths, (-2, -1)).astype(x.dtype)


def tv2d_anisotropic_value(x: Array, weight: Size = 1.0) -> Array:
    """Anisotropic total variation of images, `g(x) = sum_ij ||(D x)_ij||_1`.

    Derivative where a difference is 0: 0, the middle of the subdifferential.

    Returns:
      Values, the shape of `x` without the last two axes, dtype of `x`.
    """
    x, weight = matched(x, weight)
    sizes = widened(weight) * _sizes(_differences(widened(x)))
    return jnp.sum(sizes, (-2, -1)).astype(x.dtype)


def _descended(
    v: Array,
    step: Real,
    weight: Real,
    iterations: int,
    project: Callable[[Array, Array], Array],
    norms: Callable[[Array], Array],
) -> tuple[Array, Array]:
    """Return what `iterations` steps on the dual give, and the gap of both problems there."""
    if iterations < 0:
        raise ValueError(f"iterations must be at least 0, but they are {iterations}.")
    v, step = weighed(v, step, weight)
    shape = jnp.broadcast_shapes(v.shape, step.shape)
    image = jnp.broadcast_to(widened(v), shape)
    step = widened(step if step.ndim else jnp.full((1,) * v.ndim, step))
    y, middle, scale = centred(image, (-2, -1))
    bound = step / scale

    def body(carry, weight):
        dual, ahead = carry
        # The largest eigenvalue of D D^T is below 8.
        climbed = ahead + _differences(y - _adjoint(ahead)) / 8
        new = project(climbed, bound)
        return (new, new + weight * (new - dual)), None

    start = jnp.zeros((2, *shape), image.dtype)
    (dual, _), _ = scan(body, (start, start), _momenta(iterations, image.dtype))
    x = y - _adjoint(dual)
    jumps = _differences(x)
    # Every term is at least 0: nothing cancels.
    lacking = jnp.maximum(bound * norms(jumps) - jnp.sum(dual * jumps, 0), 0.0)
    gap = jnp.sum(lacking, (-2, -1)) * scale[..., 0, 0] * scale[..., 0, 0]
    return undefined_by(middle + scale * x, step).astype(v.dtype), gap.astype(v.dtype)


def _momenta(iterations: int, dtype: jnp.dtype) -> Array:
    """Return the weights `(t_k - 1) / t_{k+1}`, where `t_{k+1} = (1 + sqrt(1 + 4 t_k^2)) / 2`."""

    def body(t, _):
        following = (1 + jnp.sqrt(1 + 4 * t * t)) / 2
        return following, (t - 1) / following

    return scan(body, jnp.ones((), dtype), length=iterations)[1]


def _differences(x: Array) -> Array:
    """`D x`, shape (2, ..., rows, columns)."""
    down = jnp.concatenate([jnp.diff(x, axis=-2), jnp.zeros_like(x[..., :1, :])], -2)
    right = jnp.concatenate([jnp.diff(x, axis=-1), jnp.zeros_like(x[..., :, :1])], -1)
    return jnp.stack([down, right])


def _adjoint(q: Array) -> Array:
    """`D^T q`, shape (..., rows, columns)."""
    down, right = q[0, ..., :-1, :], q[1, ..., :, :-1]
    row, column = jnp.zeros_like(q[0, ..., :1, :]), jnp.zeros_like(q[1, ..., :, :1])
    down = jnp.concatenate([row, down], -2) - jnp.concatenate([down, row], -2)
    return down + jnp.concatenate([column, right], -1) - jnp.concatenate([right, column], -1)


def _into_discs(q: Array, bound: Array) -> Array:
    return project_l2_ball(q, bound[None], axis=0)


def _into_boxes(q: Array, bound: Array) -> Array:
    bound = bound[None]
    return jnp.where(q > bound, bound, jnp.where(q < -bound, -bound, q))


def _lengths(jumps: Array) -> Array:
    return safe_norm(jumps, axis=0)


def _sizes(jumps: Array) -> Array:
    return jnp.sum(jumps * stop_gradient(jnp.sign(jumps)), 0)
