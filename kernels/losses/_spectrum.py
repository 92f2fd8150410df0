"""What losses share whose proximal map is diagonal in coordinates of their own."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import matched, widened
from fedjax_admm.kernels.matrices._decompositions import times


def points_last(v: Array, step: Any, factor: Any, axis: int) -> tuple[Array, Array, Any]:
    """Return points with their coordinates last, the step (0 if None) and the factor, widened."""
    (v,) = matched(v)
    leaves, shape = jax.tree.flatten(factor)
    wide, step, *leaves = matched(widened(v), 0.0 if step is None else step, *leaves)
    if step.ndim:
        step = jnp.moveaxis(step, axis, -1)
    return jnp.moveaxis(wide, axis, -1), step, jax.tree.unflatten(shape, leaves)


def take_back(point: Array, v: Array, axis: int) -> Array:
    """Return points with their coordinates where those of `v` are, in its dtype."""
    return jnp.moveaxis(point, -1, axis).astype(matched(v)[0].dtype)


def coordinates(basis: Array, point: Array) -> Array:
    """Return products of points (..., n) with the rows of a basis (k, n), shape (..., k)."""
    return times(point, basis.mT)


def spread(part: Array, axes: int) -> Array:
    """Give a vector (k,) leading axes of size 1."""
    return part.reshape((1,) * (axes - 1) + part.shape)


def resolvent(step: Array, spectrum: Array) -> Array:
    """Return `step / (1 + step spectrum)`, right from the step 0 to the end of the range."""
    small = step * spectrum <= 1
    low = step / (1 + jnp.where(small, step, 0.0) * spectrum)
    high = 1 / (1 / jnp.where(small, 1.0, step) + spectrum)
    return jnp.where(small, low, high)
