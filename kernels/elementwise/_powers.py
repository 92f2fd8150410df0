"""Proximal maps of `|x|**p` with p = 0, 1/2, 2/3: hard and nearly hard thresholds.

All are 0 up to a threshold, jump there, and bend back to the identity far out. Beyond the jump the
ratio of the minimiser to the point is a power of a number u near 1, the largest root of
`u**n - u + c` (n = 3 for p = 1/2, n = 4 for p = 2/3), whose slope stays away from 0: Newton's steps
from a cubic fit reach it. Derivatives are those of the condition that the minimiser fulfils.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from fedjax_admm.kernels._arguments import matched, undefined_by, weighed, widened
from fedjax_admm.kernels.compiling import Size

# Of (u - 1) / c, within 2e-3 of the largest root u up to the c of the jump.
_FITS = {3: (-0.51361281, -0.12447534, -1.68620252), 4: (-0.36376792, 0.13837207, -1.31074654)}


def _rate(n: int, x: Array) -> Array:
    """Return the derivative of `x**p` for x > 0, `p x**(p - 1)`, p = (n - 2) / (n - 1)."""
    if n == 3:
        return 0.5 / jnp.sqrt(x)
    # By logarithm and one step of Newton's: ten times as fast as the cube root on a CPU.
    root = jnp.exp(jnp.log(x) / -3)
    root = root * (4 - ((x * root) * root) * root) / 3
    return (2 / 3) * jnp.where(x < jnp.inf, root, 0.0)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _beyond(n: int, v: Array, step: Array) -> Array:
    """Return the minimiser for points v > 0 beyond the jump."""
    c = (step / v) * _rate(n, v)
    first, second, third = _FITS[n]
    u = 1 + c * (first + c * (second + c * third))
    for _ in range(3 if c.dtype.itemsize == 8 else 2):
        u = u - (u**n - u + c) / (n * u ** (n - 1) - 1)
    return v * u ** (n - 1)


@_beyond.defjvp
def _slope(n: int, primals: tuple[Array, Array], tangents: tuple[Array, Array]):
    """Differentiate `x + step p x**(p - 1) = v`."""
    x = _beyond(n, *primals)
    rate = _rate(n, x)
    curvature = 1 - (primals[1] / x) * rate / (n - 1)
    return x, (tangents[0] - tangents[1] * rate) / curvature


def _thresholded(n: int, v: Array, step: Array, threshold: Array, dtype) -> Array:
    """Return the minimiser: 0 up to the threshold, its branch beyond."""
    small = jnp.abs(stop_gradient(v)) <= stop_gradient(threshold)
    x = _beyond(n, jnp.where(small, 1.0, v * jnp.sign(v)), jnp.where(small, 0.0, step))
    return jnp.where(small, 0.0, jnp.sign(v) * x).astype(dtype)


def l0_value(x: Array, weight: Size = 1.0) -> Array:
    """Count nonzero entries, `g(x) = 1` where `x != 0`, else 0.

    Derivative: 0 everywhere; g is constant beside its jump at 0.
    """
    x, weight = matched(x, weight)
    return weight * jnp.abs(jnp.sign(x))


def prox_l0(v: Array, step: Size, weight: Size = 1.0) -> Array:
    """Proximal map of the number of nonzero entries, `g(x) = 1` where `x != 0`, else 0.

    `Prox(v; step) = 0` where `|v| <= sqrt(2 step)`, else `v` (hard threshold). Ties, `|v| = sqrt(2
    step)`: 0 is returned, not `v`. Derivative: 1 beyond the threshold, 0 up to it and at the jump;
    in `step` 0 everywhere.

    Reference: T. Blumensath and M. E. Davies, "Iterative Thresholding for Sparse Approximations",
    Journal of Fourier Analysis and Applications 14, 2008, section 2 (hard thresholding).
    """
    v, step = weighed(v, step, weight)
    wide = widened(step)
    # Twice the root of half the step: the same number, where twice the step leaves the range.
    twice = jnp.where(wide < 1, jnp.sqrt(2 * wide), 2 * jnp.sqrt(0.5 * wide))
    threshold = stop_gradient(twice)
    found = jnp.where(jnp.abs(widened(v)) <= threshold, jnp.zeros_like(v), v)
    return undefined_by(found, step)


def l_half_value(x: Array, weight: Size = 1.0) -> Array:
    """Square root of magnitudes, `g(x) = |x|**(1/2)`.

    Derivative at the kink `x = 0`: 0, though the slope is infinite on both sides.
    """
    x, weight = matched(x, weight)
    zero = x == 0
    return weight * jnp.where(zero, jnp.zeros_like(x), jnp.sqrt(jnp.where(zero, 1.0, jnp.abs(x))))


def prox_l_half(v: Array, step: Size, weight: Size = 1.0) -> Array:
    """Proximal map of the square root of the magnitude, `g(x) = |x|**(1/2)`.

    `Prox(v; step) = 0` where `|v| <= 3/2 step**(2/3)`, else `2/3 v (1 + cos(2/3 (pi - arccos(step /
    4 (|v| / 3)**(-3/2)))))`. The result is computed as `v u**2` with the largest root of `u**3 - u
    + step / (2 |v|**(3/2)) = 0`, which is the same number; it is at least `2/3 |v|` beyond the
    threshold.

    Ties, `|v| = 3/2 step**(2/3)`: 0 is returned, not `2/3 v`. Derivative: exact beyond the
    threshold, `1 / (1 - step / (4 x**(3/2)))` in the point for x > 0; 0 up to it and at the jump.

    Reference: Z. Xu, X. Chang, F. Xu and H. Zhang, "L1/2 Regularization: A Thresholding
    Representation Theory and a Fast Solver", IEEE Transactions on Neural Networks and Learning
    Systems 23(7), 2012 (half thresholding).
    """
    v, step = weighed(v, step, weight)
    wide, step = widened(v), widened(step)
    return _thresholded(3, wide, step, 1.5 * jnp.cbrt(step) ** 2, v.dtype)


def l_two_thirds_value(x: Array, weight: Size = 1.0) -> Array:
    """Power 2/3 of magnitudes, `g(x) = |x|**(2/3)`.

    Derivative at the kink `x = 0`: 0, though the slope is infinite on both sides.
    """
    x, weight = matched(x, weight)
    zero = x == 0
    root = jnp.cbrt(jnp.where(zero, 1.0, x))
    return weight * jnp.where(zero, jnp.zeros_like(x), root * root)


def prox_l_two_thirds(v: Array, step: Size, weight: Size = 1.0) -> Array:
    """Proximal map of the power 2/3 of the magnitude, `g(x) = |x|**(2/3)`.

    `Prox(v; step) = 0` where `|v| <= 2 (2/3 step)**(3/4)`, else `v u**3` with the largest root of
    the quartic `u**4 - u + 2/3 step |v|**(-4/3) = 0`; it is at least `|v| / 2` beyond the
    threshold.

    Ties, `|v| = 2 (2/3 step)**(3/4)`: 0 is returned, not `v / 2`. Derivative: exact beyond the
    threshold, `1 / (1 - 2/9 step x**(-4/3))` in the point for x > 0; 0 up to it and at the jump.

    Reference: W. Cao, J. Sun and Z. Xu, "Fast image deconvolution using closed-form thresholding
    formulas of Lq (q = 1/2, 2/3) regularization", Journal of Visual Communication and Image
    Representation 24(1), 2013 (threshold and quartic); D. Krishnan and R. Fergus, "Fast Image
    Deconvolution using Hyper-Laplacian Priors", Advances in Neural Information Processing Systems
    22, 2009.
    """
    v, step = weighed(v, step, weight)
    wide, step = widened(v), widened(step)
    # The power 3/4 by two square roots: no step leaves the range on the way.
    small = step < 1  # four times a small step keeps its digits down to the smallest one
    root = jnp.sqrt(jnp.where(small, 4 * step, step) * (2 / 3)) * jnp.where(small, 0.5, 1.0)
    return _thresholded(4, wide, step, 2 * root * jnp.sqrt(root), v.dtype)
