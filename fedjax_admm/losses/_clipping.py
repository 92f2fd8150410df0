r"""Means of clipped gradients to which no sample contributes more than promised.

The gradient of sample j is `s_j v_j`, a slope times a vector: the features of a linear model, or
any gradient with slope 1. Shortened to the norm c it is

    t_j v_j / ||v_j||,    t_j = s_j ||v_j|| cut to [-c, c],

and that is how it is computed: v_j is divided by its largest entry before anything is multiplied,
so that nothing overflows. **The mean is total**: every sample of the dtype's whole range, infinity
and NaN included, has a contribution of norm at most c.

* A vector with an entry that is not finite contributes zero, and so does a slope that is NaN, such
  as that of the prediction `inf - inf`.
* A slope that is infinite, or that overflows with the length of its vector, contributes c.
* A vector of subnormal numbers alone, which many machines take for zero, contributes zero.

**Rounding.** Lengths are cut to `c / (1 + (dim + 8) eps)`, so that contributions are no longer than
c after all roundings of their own. Sums of more than 64 samples are taken in blocks of 32, whose
sums are added in pairs; a sum of M samples then passes through n = M additions, or 32 and log2(M /
32), and its error is at most n u times the sum of all lengths, u = eps / 2 the rounding of one
operation. Two means whose data differ in one sample are therefore at most

    2 c / M  (1 + M (n + 4) u)

apart: `rounding_excess` is the second term, which noise has to cover.

Reference: N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 4.2 (errors
of sums by their order).
"""

import jax
import jax.numpy as jnp

from fedjax_admm.kernels import safe_norm

_HIGHEST = jax.lax.Precision.HIGHEST
_ONE_BLOCK, _BLOCK = 64, 32


def clipped_mean(
    vectors: jax.Array, slopes: jax.Array, clip: jax.Array, sizes: jax.Array
) -> jax.Array:
    """Return the mean of `slopes * vectors`, each shortened to the norm `clip`.

    Args:
      vectors: shape (..., samples, dim), zero for padding.
      slopes: shape (..., samples); 1 where the vectors are the gradients.
      clip: c, shape ().
      sizes: M, the numbers of samples that are no padding, shape (...,).

    Returns:
      Shape (..., dim). Replacing one sample by any other moves it by at most `2 c / M (1 +
      rounding_excess)`.
    """
    rows, coefficients = clipped_slopes(vectors, slopes, clip)
    return sum_of_samples(rows, coefficients) / sizes.astype(rows.dtype)[..., None]


def clipped_slopes(
    vectors: jax.Array, slopes: jax.Array, clip: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return rows and coefficients whose products are `slopes * vectors`, shortened to `clip`.

    Args:
      vectors: shape (..., samples, dim).
      slopes: shape (..., samples).
      clip: shape ().

    Returns:
      The vectors divided by their largest entries, zero where one is not finite, and the
      coefficients by which they contribute, of the shape of the slopes.
    """
    rows, norms, scales = bounded_rows(vectors)
    limit = clip / (1 + (vectors.shape[-1] + 8) * jnp.finfo(rows.dtype).eps)
    lengths = slopes * scales * norms
    lengths = jnp.where(jnp.isnan(lengths), 0, jnp.clip(lengths, -limit, limit))
    return rows, lengths / jnp.where(norms > 0, norms, 1)


def bounded_rows(vectors: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return vectors (..., samples, dim) over their largest entries, norms, and these entries.

    A vector that is not finite becomes zero.
    """
    # What is made of a vector does not depend on what it is divided by.
    sizes = jax.lax.stop_gradient(jnp.abs(vectors))
    largest = jnp.max(sizes, -1)
    # A compiled maximum may pass over NaN; no comparison does.
    usable = jnp.all(sizes < jnp.inf, -1) & (largest >= jnp.finfo(vectors.dtype).tiny)
    scales = jnp.where(usable, largest, 1)
    # Divided as a product with the inverse, which above 8.5e37 would be subnormal in float32.
    eighth = jnp.where(scales > 1, 0.125, 8.0).astype(vectors.dtype)
    quotients = (vectors * eighth[..., None]) / (scales * eighth)[..., None]
    rows = jnp.where(usable[..., None], quotients, 0)
    norms = jnp.where(usable, safe_norm(rows, scaled=False), 0)
    return rows, norms, scales


def sum_of_samples(rows: jax.Array, coefficients: jax.Array) -> jax.Array:
    """Return `sum_j coefficients_j rows_j`: (..., samples, dim), (..., samples) to (..., dim)."""
    samples = rows.shape[-2]
    if samples <= _ONE_BLOCK:
        return jnp.einsum("...mp,...m->...p", rows, coefficients, precision=_HIGHEST)
    blocks = 1 << (-(-samples // _BLOCK) - 1).bit_length()
    lead, room = rows.ndim - 2, (0, blocks * _BLOCK - samples)
    rows = jnp.pad(rows, [(0, 0)] * lead + [room, (0, 0)])
    coefficients = jnp.pad(coefficients, [(0, 0)] * lead + [room])
    rows = rows.reshape(*rows.shape[:-2], blocks, _BLOCK, rows.shape[-1])
    coefficients = coefficients.reshape(*coefficients.shape[:-1], blocks, _BLOCK)
    sums = jnp.einsum("...bmp,...bm->...bp", rows, coefficients, precision=_HIGHEST)
    while sums.shape[-2] > 1:
        half = sums.shape[-2] // 2
        sums = sums[..., :half, :] + sums[..., half:, :]
    return sums[..., 0, :]


def rounding_excess(sizes: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Return by how much rounding exceeds the sensitivity `2 c / M`, relative to it.

    It is `M (n + 4) u` as in the module's docstring: 1.6e-4 for 50 samples in float32, 3e-2 for
    10,000; 3e-13 for 50 in float64.

    Args:
      sizes: numbers of samples M, any shape.
      dtype: in which the mean is computed, float32 or float64.

    Returns:
      The shape of `sizes`, in the dtype.
    """
    m = sizes.astype(dtype)
    additions = jnp.where(m <= _ONE_BLOCK, m, _BLOCK)
    # A block more or less: the logarithm need not be whole.
    additions += jnp.log2(jnp.maximum(m, _BLOCK) / _BLOCK) + 1
    return m * (additions + 4) * (jnp.finfo(dtype).eps / 2)
