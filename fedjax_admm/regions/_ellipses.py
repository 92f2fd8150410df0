"""Elliptical regions, `(x - centre)^T matrix^{-1} (x - centre) <= threshold`."""

import jax
import jax.numpy as jnp
from jax.scipy.special import gammainc
from jax.typing import ArrayLike

from fedjax_admm._checks import finite_array, number, real_array
from fedjax_admm._linear_algebra import positive_inverse
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.kernels import eigh_by_rotations

_BISECTIONS = 50


@pytree_dataclass
class Ellipse:
    """An ellipse or ellipsoid, or a stack of them."""

    centre: jax.Array  # shape=(..., dim), metres
    matrix: jax.Array  # shape=(..., dim, dim): a covariance, square metres
    threshold: jax.Array  # shape=(...): of the squared distance in units of the matrix
    level: jax.Array  # shape=(): the nominal probability

    def scores(self, points: jax.Array) -> jax.Array:
        """Return `sqrt((x - centre)^T matrix^{-1} (x - centre))`: (..., dim) to (...)."""
        gap = points - self.centre
        scaled = jnp.einsum("...ij,...j->...i", positive_inverse(self.matrix), gap)
        return jnp.sqrt(jnp.maximum(jnp.sum(gap * scaled, -1), 0))

    def contains(self, points: jax.Array) -> jax.Array:
        """Return which points lie inside, bool: (..., dim) to (...)."""
        return self.scores(points) ** 2 <= self.threshold

    def axes(self) -> tuple[jax.Array, jax.Array]:
        """Return the half axes, (..., dim), metres, falling, and their directions as columns."""
        variances, directions = eigh_by_rotations(self.matrix)
        order = jnp.argsort(-variances, axis=-1)
        variances = jnp.take_along_axis(variances, order, -1)
        directions = jnp.take_along_axis(directions, order[..., None, :], -1)
        return jnp.sqrt(jnp.maximum(variances, 0) * self.threshold[..., None]), directions

    def radius(self) -> jax.Array:
        """Return the geometric mean of the half axes, shape (...), metres."""
        lengths, _ = self.axes()
        return jnp.exp(jnp.mean(jnp.log(lengths), -1))


def ellipse(
    centre: ArrayLike,
    matrix: ArrayLike,
    level: ArrayLike = 0.9,
    *,
    threshold: ArrayLike | None = None,
) -> Ellipse:
    """Build the region that holds a normal position of some covariance with a probability.

    Args:
      centre: shape (..., dim), metres.
      matrix: the covariance, shape (..., dim, dim), square metres.
      level: the probability, between 0 and 1.
      threshold: of the squared distance in units of the matrix, shape (...), where it comes from
        elsewhere, as the square of a conformal radius; the quantile of chi-squared with dim degrees
        of freedom if None.

    Returns:
      The region.

    Raises:
      InputError: the level does not lie between 0 and 1, or shapes do not fit.
    """
    level = number("level", level, above=0, at_most=1)
    real_array("centre", centre)
    centre = jnp.asarray(centre)
    matrix = real_matrix(matrix, centre)
    if threshold is None:
        threshold = chi_squared_quantile(level.astype(centre.dtype), centre.shape[-1])
    threshold = jnp.broadcast_to(jnp.asarray(threshold, centre.dtype), centre.shape[:-1])
    return Ellipse(centre, matrix, threshold, level)


def real_matrix(matrix: ArrayLike, centre: jax.Array) -> jax.Array:
    """Return a matrix of the shape (..., dim, dim) that belongs to a centre (..., dim)."""
    shape = (*centre.shape, centre.shape[-1])
    real_array("matrix", matrix)
    array = jnp.asarray(matrix, centre.dtype)
    return array if array.shape == shape else finite_array("matrix", matrix, shape)


def chi_squared_quantile(level: jax.Array, degrees: int) -> jax.Array:
    """Return q with P(chi-squared <= q) = level, by bisection; elementwise.

    It lies below `n + 2 sqrt(n L) + 2 L`, with L = -log(1 - level) and n degrees of freedom.

    Reference: B. Laurent, P. Massart, "Adaptive estimation of a quadratic functional by model
    selection", Annals of Statistics 28(5) (2000), lemma 1.
    """
    tail = -jnp.log1p(-level)
    high = degrees + 2 * jnp.sqrt(degrees * tail) + 2 * tail
    half = jnp.asarray(degrees / 2, level.dtype)

    def halve(ends, _):
        low, high = ends
        middle = (low + high) / 2
        below = gammainc(half, middle / 2) < level
        return (jnp.where(below, middle, low), jnp.where(below, high, middle)), None

    (_, found), _ = jax.lax.scan(halve, (jnp.zeros_like(high), high), length=_BISECTIONS)
    return found
