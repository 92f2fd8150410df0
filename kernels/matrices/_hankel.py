"""Hankel matrices: constant along their antidiagonals."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedjax_admm.kernels._arguments import matched, widened


def project_hankel(v: Array) -> Array:
    """Project onto the Hankel matrices, `x_ij = h_(i + j)`.

    Every entry is replaced by the mean of its antidiagonal. Derivative: linear, so that it is the
    map itself.

    Reference: J. A. Cadzow, "Signal enhancement: a composite property mapping algorithm", IEEE
    Transactions on Acoustics, Speech, and Signal Processing 36(1), 1988.
    """
    (v,) = matched(v)
    if v.size == 0:
        return v
    rows, columns = v.shape[-2:]
    places = np.add.outer(np.arange(rows), np.arange(columns))
    lengths = np.bincount(places.ravel())
    wide = widened(v)
    wide = wide / jnp.asarray(
        lengths[places].reshape([1] * (v.ndim - 2) + [rows, columns]), wide.dtype
    )
    # Rows with `rows` zeros behind, read with one entry less a row: each is shifted by its number.
    skewed = jnp.pad(wide, [(0, 0)] * (v.ndim - 1) + [(0, rows)]).reshape(
        *v.shape[:-2], rows * (rows + columns)
    )
    skewed = skewed[..., :-rows].reshape(*v.shape[:-2], rows, rows + columns - 1)
    return jnp.sum(skewed, axis=-2)[..., places].astype(v.dtype)
