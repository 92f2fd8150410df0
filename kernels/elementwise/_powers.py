"""Proximal maps of `|x|**p` with p = 0, 1/2, 2/3: hard and nearly hard thresholds.

All are 0 up to a threshold, jump there, and bend back to the identity far out. Beyond the jump the
minimiser of `|x|**p` is `v u**(1 / (1 - p))`-like with a `u` near 1 that solves a polynomial whose
slope stays away from 0: Newton's steps from a cubic fit reach it, and the derivative is that of the
equation.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from fedjax_admm.kernels._arguments import Real, matched, widened

# Of the largest root of u**n - u + c: fits of (u - 1) / c within 2e-3, and the largest c of use.
_FITS = {
    3: (-0.51361281, -0.12447534, -1.68620252, 6**-0.5 * 2 / 3),
    4: (-0.36376792, 0.13837207, -1.31074654, 2 ** (-4 / 3)),
}


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _root(n: int, c: Array) -> Array:
    """Return the largest root of `u**n - u + c` for c from 0 to the largest of use."""
    first, second, third, _ = _FITS[n]
    u = 1 + c * (first + c * (second + c * third))
    for _ in range(3 if c.dtype.itemsize == 8 else 2):
        u = u - (u**n - u + c) / (n * u ** (n - 1) - 1)
    return u


@_root.defjvp
def _slope(n: int, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    u = _root(n, *primals)
    return u, -tangents[0] / (n * u ** (n - 1) - 1)


def l0_value(x: Array) -> Array:
    """Count nonzero entries, `g(x) = 1` where `x != 0`, else 0.

    Derivative: 0 everywhere; g is constant beside its jump at 0.

    Args:
      x: points, any shape, floating dtype.

    Returns:
      Values (not summed), shape and dtype of `x`.

    Reference: T. Blumensath and M. E. Davies, "Iterative Thresholding for Sparse Approximations",
    Journal of Fourier Analysis and Applications 14, 2008.
    """
    (x,) = matched(x)
    return jnp.abs(jnp.sign(x))


def prox_l0(v: Array, step: Real) -> Array:
    """Proximal map of the number of nonzero entries, `g(x) = 1` where `x != 0`, else 0.

    `Prox(v; step) = 0` where `|v| <= sqrt(2 step)`, else `v` (hard threshold). A weight multiplies
    `step`; the threshold grows like its square root.

    Ties, `|v| = sqrt(2 step)`: 0 is returned, not `v`.

    Derivative: 1 beyond the threshold, 0 up to it and at the jump; in `step` 0 everywhere.

    Args:
      v: points, any shape, floating dtype.
      step: at least 0, broadcasts with `v`.

    Returns:
      Minimisers, broadcast shape, dtype of `v`.

    Reference: T. Blumensath and M. E. Davies, "Iterative Thresholding for Sparse Approximations",
    Journal of Fourier Analysis and Applications 14, 2008, section 2 (hard thresholding).
    """
    v, step = matched(v, step)
    threshold = stop_gradient(jnp.sqrt(widened(step)) * jnp.sqrt(2.0).astype(widened(v).dtype))
    return jnp.where(jnp.abs(widened(v)) <= threshold, jnp.zeros_like(v), v)


def l_half_value(x: Array) -> Array:
    """Square root of magnitudes, `g(x) = |x|**(1/2)`.

    Derivative at the kink `x = 0`: 0, though the slope is infinite on both sides.

    Args:
      x: points, any shape, floating dtype.

    Returns:
      Values (not summed), shape and dtype of `x`.

    Reference: Z. Xu, X. Chang, F. Xu and H. Zhang, "L1/2 Regularization: A Thresholding
    Representation Theory and a Fast Solver", IEEE Transactions on Neural Networks and Learning
    Systems 23(7), 2012.
    """
    (x,) = matched(x)
    zero = x == 0
    return jnp.where(zero, jnp.zeros_like(x), jnp.sqrt(jnp.where(zero, 1.0, jnp.abs(x))))


def prox_l_half(v: Array, step: Real) -> Array:
    """Proximal map of the square root of the magnitude, `g(x) = |x|**(1/2)`.

    `Prox(v; step) = 0` where `|v| <= 3/2 step**(2/3)`, else
    `2/3 v (1 + cos(2/3 (pi - arccos(step / 4 (|v| / 3)**(-3/2)))))`. The result is computed as
    `v u**2` with the largest root of `u**3 - u + step / (2 |v|**(3/2)) = 0`, which is the same
    number; it is at least `2/3 |v|` beyond the threshold.

    Ties, `|v| = 3/2 step**(2/3)`: 0 is returned, not `2/3 v`.

    Derivative: exact beyond the threshold, `1 / (1 - step / (4 x**(3/2)))` in the point for x > 0;
    0 up to it and at the jump.

    Args:
      v: points, any shape, floating dtype.
      step: at least 0, broadcasts with `v`.

    Returns:
      Minimisers, broadcast shape, dtype of `v`.

    Reference: Z. Xu, X. Chang, F. Xu and H. Zhang, "L1/2 Regularization: A Thresholding
    Representation Theory and a Fast Solver", IEEE Transactions on Neural Networks and Learning
    Systems 23(7), 2012 (half thresholding).
    """
    v, step = matched(v, step)
    wide, step = widened(v), widened(step)
    magnitude = jnp.abs(stop_gradient(wide))
    small = magnitude <= stop_gradient(1.5 * jnp.cbrt(step) ** 2)
    far = jnp.where(small, 1.0, wide * jnp.sign(wide))
    c = jnp.where(small, 0.0, 0.5 * (step / far) / jnp.sqrt(far))
    u = _root(3, jnp.minimum(c, _FITS[3][-1]))
    return jnp.where(small, 0.0, wide * (u * u)).astype(v.dtype)


def l_two_thirds_value(x: Array) -> Array:
    """Power 2/3 of magnitudes, `g(x) = |x|**(2/3)`.

    Derivative at the kink `x = 0`: 0, though the slope is infinite on both sides.

    Args:
      x: points, any shape, floating dtype.

    Returns:
      Values (not summed), shape and dtype of `x`.

    Reference: D. Krishnan and R. Fergus, "Fast Image Deconvolution using Hyper-Laplacian Priors",
    Advances in Neural Information Processing Systems 22, 2009.
    """
    (x,) = matched(x)
    zero = x == 0
    root = jnp.cbrt(jnp.where(zero, 1.0, x))
    return jnp.where(zero, jnp.zeros_like(x), root * root)


def prox_l_two_thirds(v: Array, step: Real) -> Array:
    """Proximal map of the power 2/3 of the magnitude, `g(x) = |x|**(2/3)`.

    `Prox(v; step) = 0` where `|v| <= 2 (2/3 step)**(3/4)`, else `v u**3` with the largest root of
    the quartic `u**4 - u + 2/3 step |v|**(-4/3) = 0`; it is at least `|v| / 2` beyond the
    threshold.

    Ties, `|v| = 2 (2/3 step)**(3/4)`: 0 is returned, not `v / 2`.

    Derivative: exact beyond the threshold, `1 / (1 - 2/9 step x**(-4/3))` in the point for x > 0;
    0 up to it and at the jump.

    Args:
      v: points, any shape, floating dtype.
      step: at least 0, broadcasts with `v`.

    Returns:
      Minimisers, broadcast shape, dtype of `v`.

    Reference: W. Cao, J. Sun and Z. Xu, "Fast image deconvolution using closed-form thresholding
    formulas of Lq (q = 1/2, 2/3) regularization", Journal of Visual Communication and Image
    Representation 24(1), 2013 (threshold and quartic).
    """
    v, step = matched(v, step)
    wide, step = widened(v), widened(step)
    magnitude = jnp.abs(stop_gradient(wide))
    # The power 3/4 by two square roots: no step leaves the range on the way.
    root = jnp.sqrt(step * (2 / 3))
    small = magnitude <= stop_gradient(2 * root * jnp.sqrt(root))
    far = jnp.where(small, 1.0, wide * jnp.sign(wide))
    c = jnp.where(small, 0.0, (2 / 3) * (step / far) / jnp.cbrt(far))
    u = _root(4, jnp.minimum(c, _FITS[4][-1]))
    return jnp.where(small, 0.0, wide * (u * u * u)).astype(v.dtype)
