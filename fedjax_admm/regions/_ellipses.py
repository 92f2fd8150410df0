"""Elliptical regions, `(x - centre)^T matrix^{-1} (x - centre) <= threshold`."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import betainc, gammainc
from jax.typing import ArrayLike

from fedjax_admm._checks import finite_array, number, real_array
from fedjax_admm._linear_algebra import pivots, positive_inverse
from fedjax_admm._plots import plot_ellipses
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.kernels import eigh_by_rotations
from fedjax_admm.kernels.compiling import kernel

_BISECTIONS = 50


@pytree_dataclass
class Ellipse:
    """An ellipse or ellipsoid, or a stack of them."""

    centre: jax.Array  # shape=(..., dim), metres
    matrix: jax.Array  # shape=(..., dim, dim): a covariance, square metres
    threshold: jax.Array  # shape=(...): of the squared distance in units of the matrix
    level: jax.Array  # shape=(): the nominal probability

    @kernel
    def scores(self, points: jax.Array) -> jax.Array:
        """Return `sqrt((x - centre)^T matrix^{-1} (x - centre))`: (..., dim) to (...)."""
        shape = jnp.broadcast_shapes(points.shape, self.centre.shape)
        gap = jnp.broadcast_to(points, shape) - jnp.broadcast_to(self.centre, shape)
        scaled = jnp.einsum("...ij,...j->...i", positive_inverse(self.matrix), gap)
        return jnp.sqrt(jnp.maximum(jnp.sum(gap * scaled, -1), 0))

    @kernel
    def contains(self, points: jax.Array) -> jax.Array:
        """Return which points lie inside, bool: (..., dim) to (...)."""
        scores = self.scores(points)
        return scores**2 <= jnp.broadcast_to(self.threshold, scores.shape)

    @kernel
    def axes(self) -> tuple[jax.Array, jax.Array]:
        """Return the half axes, (..., dim), metres, falling, and their directions as columns."""
        variances, directions = eigh_by_rotations(self.matrix)
        order = jnp.argsort(-variances, axis=-1)
        variances = jnp.take_along_axis(variances, order, -1)
        directions = jnp.take_along_axis(directions, order[..., None, :], -1)
        return jnp.sqrt(jnp.maximum(variances, 0) * self.threshold[..., None]), directions

    def plot(self, *, axes: Any = None, **style: Any) -> Any:
        """Draw the regions on a map and return matplotlib's Axes; in space, their shadows on it.

        Args:
          axes: what to draw into; new ones if None.
          **style: of matplotlib's `EllipseCollection`, such as `edgecolors`.
        """
        return plot_ellipses(self, axes, style)

    @kernel
    def radius(self) -> jax.Array:
        """Return the geometric mean of the half axes, shape (...), metres."""
        logarithms = jnp.log(pivots(self.matrix))
        return jnp.exp(jnp.mean(logarithms, -1) / 2) * jnp.sqrt(self.threshold)


def ellipse(
    centre: ArrayLike,
    matrix: ArrayLike,
    level: ArrayLike = 0.9,
    *,
    degrees: ArrayLike | None = None,
    threshold: ArrayLike | None = None,
) -> Ellipse:
    """Build the region that holds a normal position of some covariance with a probability.

    The threshold is the quantile of chi-squared with dim degrees of freedom; or that of `dim F`
    with dim and `degrees` of freedom, for a covariance that few residuals estimate.

    Args:
      centre: shape (..., dim), metres.
      matrix: the covariance, shape (..., dim, dim), square metres.
      level: the probability, between 0 and 1.
      degrees: of freedom of the covariance, shape (...), as `Covariance.degrees`; without end if
        None.
      threshold: of the squared distance in units of the matrix, shape (...), where it comes from
        elsewhere, as the square of a conformal radius.

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
        probability, dim = level.astype(centre.dtype), centre.shape[-1]
        if degrees is None:
            threshold = chi_squared_quantile(probability, dim)
        else:
            threshold = f_quantile(probability, dim, jnp.asarray(degrees, centre.dtype))
    threshold = jnp.broadcast_to(jnp.asarray(threshold, centre.dtype), centre.shape[:-1])
    return Ellipse(centre, matrix, threshold, level)


def real_matrix(matrix: ArrayLike, centre: jax.Array) -> jax.Array:
    """Return a matrix of the shape (..., dim, dim) that belongs to a centre (..., dim)."""
    shape = (*centre.shape, centre.shape[-1])
    real_array("matrix", matrix)
    array = jnp.asarray(matrix, centre.dtype)
    return array if array.shape == shape else finite_array("matrix", matrix, shape)


@kernel
def chi_squared_quantile(level: jax.Array, degrees: int) -> jax.Array:
    """Return q with P(chi-squared <= q) = level, by bisection; elementwise.

    It lies below `n + 2 sqrt(n L) + 2 L`, with L = -log(1 - level) and n degrees of freedom.

    Reference: B. Laurent, P. Massart, "Adaptive estimation of a quadratic functional by model
    selection", Annals of Statistics 28(5) (2000), lemma 1.
    """
    tail = -jnp.log1p(-level)
    high = degrees + 2 * jnp.sqrt(degrees * tail) + 2 * tail
    half = jnp.asarray(degrees / 2, level.dtype)
    return _bisected(lambda q: gammainc(half, q / 2), level, high)


@kernel
def f_quantile(level: jax.Array, dim: int, degrees: jax.Array) -> jax.Array:
    """Return `dim q` with P(F <= q) = level, F of `dim` and `degrees` degrees of freedom.

    `x = dim F / (degrees + dim F)` has the beta distribution of dim / 2 and degrees / 2.
    """
    half = jnp.asarray(dim / 2, level.dtype)
    level, degrees = jnp.broadcast_arrays(level, degrees)
    share = _bisected(lambda x: betainc(half, degrees / 2, x), level, jnp.ones_like(level))
    return degrees * share / (1 - share)


def _bisected(
    probability: Callable[[jax.Array], jax.Array], level: jax.Array, high: jax.Array
) -> jax.Array:
    """Return where a distribution function that rises from 0 reaches the level, below `high`."""

    def halve(ends, _):
        low, high = ends
        middle = (low + high) / 2
        below = probability(middle) < level
        return (jnp.where(below, middle, low), jnp.where(below, high, middle)), None

    (_, found), _ = jax.lax.scan(halve, (jnp.zeros_like(high), high), length=_BISECTIONS)
    return found
