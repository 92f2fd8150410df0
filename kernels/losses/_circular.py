"""Least squares after a circular convolution, diagonal in Fourier space."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import matched, widened
from fedjax_admm.kernels.compiling import Size
from fedjax_admm.kernels.losses._spectrum import resolvent


def least_squares_circular_value(
    x: Array, kernel: Array, target: Array, axes: Sequence[int] = (-1,)
) -> Array:
    """Least squares after a circular convolution, `g(x) = ||k * x - b||^2 / 2`.

    Derivative: the residual `k * x - b`, correlated with k; no kink.

    Returns:
      Values, the shape of `x` without `axes`.
    """
    (point,) = matched(x)
    x, kernel, target = _same_axes(widened(point), kernel, target)
    sizes = [x.shape[axis] for axis in axes]
    image = jnp.fft.irfftn(
        jnp.fft.rfftn(kernel, axes=axes) * jnp.fft.rfftn(x, axes=axes), s=sizes, axes=axes
    )
    rest = image - target
    return (0.5 * jnp.sum(rest * rest, tuple(axes))).astype(point.dtype)


def prox_least_squares_circular(
    v: Array, step: Size, kernel: Array, target: Array, axes: Sequence[int] = (-1,)
) -> Array:
    """Proximal map of least squares after a circular convolution, `g(x) = ||k * x - b||^2 / 2`.

    With Fourier transforms in capitals, `Prox(v; step)` has the transform `(V + step conj(K) B) /
    (1 + step |K|^2)`, computed as `V - step conj(K) (K V - B) / (1 + step |K|^2)`: only the change
    is transformed back, and `step = 0` gives v. O(n log n) operations. Derivative: smooth, no kink.

    Args:
      v: signals or images, any shape.
      step: at least 0; broadcasts with `v` and has size 1 along `axes` (or is a number).
      kernel: k, of the size of `v` along `axes`, its centre at the first entry: pad it with zeros
        and roll it; may have fewer axes than `v`.
      target: b, as the kernel.
      axes: along which signals lie: one, or two for images.

    Reference: Parikh and Boyd, 2014, section 6.1.1 (quadratic functions), in the coordinates of the
    convolution theorem; J. W. Cooley, P. A. W. Lewis, P. D. Welch, "The finite Fourier transform",
    IEEE Transactions on Audio and Electroacoustics 17(2), 1969.
    """
    (point,) = matched(v)
    v, step = matched(widened(point), step)
    v, kernel, target = _same_axes(v, kernel, target)
    sizes = [v.shape[axis] for axis in axes]
    if v.size == 0:
        return point
    k, signal, goal = (jnp.fft.rfftn(part, axes=axes) for part in (kernel, v, target))
    power = jnp.real(k) ** 2 + jnp.imag(k) ** 2
    share = resolvent(step, power)
    change = jnp.conj(k) * (k * signal - goal)
    change = jax.lax.complex(share * jnp.real(change), share * jnp.imag(change))
    return (v - jnp.fft.irfftn(change, s=sizes, axes=axes)).astype(point.dtype)


def _same_axes(v: Array, *parts: Array) -> tuple[Array, ...]:
    """Match arrays to points, and give those of fewer axes leading ones of size 1."""
    v, *given = matched(v, *parts)
    return (v, *(part.reshape((1,) * (v.ndim - part.ndim) + part.shape) for part in given))
