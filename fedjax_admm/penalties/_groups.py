"""Penalties of the rows of a model: a row is zero as a whole, or not at all."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm import kernels
from fedjax_admm._checks import build
from fedjax_admm.penalties._protocols import above, interval_distance, not_negative, penalty


@penalty
class GroupL2:
    """The Euclidean norms of rows; see `group_l2`."""

    weight: jax.Array = not_negative(one=True)

    def value(self, x):
        """Return `weight * sum_rows ||x_row||`."""
        return jnp.sum(self.weight * kernels.safe_norm(x))

    def prox(self, v, step):
        """Return each row shortened by `step * weight`, or zero."""
        return kernels.prox_group_l2(v, step, self.weight)

    def smoothed_prox(self, v, step, mu):
        """Return each row shortened by the prox of `weight * h_mu` of its length."""
        length = kernels.safe_norm(v, keepdims=True)
        shorter = kernels.prox_smoothed_abs(length, step, self.weight, mu)
        return v * kernels.safe_ratio(shorter, length)

    def optimality(self, x, gradient):
        """Return, row by row, the distance of -gradient from the subdifferential."""
        return _row_distance(x, gradient, lambda length: self.weight, self.weight)


@penalty
class SparseGroup:
    """The sparse group penalty; see `sparse_group`."""

    l1: jax.Array = not_negative(one=True)
    group: jax.Array = not_negative(one=True)

    def value(self, x):
        """Return `l1 sum |x_i| + group sum_rows ||x_row||`."""
        return jnp.sum(kernels.sparse_group_value(x, self.l1, self.group))

    def prox(self, v, step):
        """Return each row, its entries soft-thresholded, shortened by `step * group`, or zero."""
        return kernels.prox_sparse_group(v, step, self.l1, self.group)

    def optimality(self, x, gradient):
        """Return, row by row, the distance of -gradient from the subdifferential."""
        length = kernels.safe_norm(x, keepdims=True)
        pull = gradient + self.group * kernels.safe_ratio(x, length)
        away = interval_distance(x, pull, self.l1 * jnp.sign(x), self.l1)
        at_zero = kernels.safe_norm(kernels.soft_threshold(gradient, self.l1)) - self.group
        return jnp.where(length[..., 0] > 0, kernels.safe_norm(away), jnp.maximum(at_zero, 0))


@penalty
class GroupMCP:
    """The minimax concave penalty of the norms of rows; see `group_mcp`."""

    lam: jax.Array = above(0, one=True)
    gamma: jax.Array = above(0, one=True)
    weight: jax.Array = not_negative(one=True)

    def value(self, x):
        """Return `weight * sum_rows P(||x_row||)`."""
        return jnp.sum(self.weight * kernels.group_mcp_value(x, self.lam, self.gamma))

    def prox(self, v, step):
        """Return a global minimiser, hard threshold included (`step * weight >= gamma`)."""
        return kernels.prox_group_mcp(v, step * self.weight, self.lam, self.gamma)

    def smoothed_prox(self, v, step, mu):
        """Return each row, its length the prox of `weight * P(h_mu(.))` of its length."""
        return kernels.prox_smoothed_group_mcp(v, step * self.weight, self.lam, self.gamma, mu)

    def optimality(self, x, gradient):
        """Return, row by row, the distance of -gradient from the (Clarke) subdifferential."""

        def slope(length):
            return self.weight * jnp.maximum(self.lam - length / self.gamma, 0)

        return _row_distance(x, gradient, slope, self.weight * self.lam)


@penalty
class GroupSCAD:
    """The smoothly clipped absolute deviation of the norms of rows; see `group_scad`."""

    lam: jax.Array = above(0, one=True)
    gamma: jax.Array = above(2, one=True)
    weight: jax.Array = not_negative(one=True)

    def value(self, x):
        """Return `weight * sum_rows P(||x_row||)`."""
        return jnp.sum(self.weight * kernels.group_scad_value(x, self.lam, self.gamma))

    def prox(self, v, step):
        """Return a global minimiser, hard threshold included (large `step * weight`)."""
        return kernels.prox_group_scad(v, step * self.weight, self.lam, self.gamma)

    def smoothed_prox(self, v, step, mu):
        """Return each row, its length the prox of `weight * P(h_mu(.))` of its length."""
        return kernels.prox_smoothed_group_scad(v, step * self.weight, self.lam, self.gamma, mu)

    def optimality(self, x, gradient):
        """Return, row by row, the distance of -gradient from the (Clarke) subdifferential."""

        def slope(length):
            falling = (self.gamma * self.lam - length) / (self.gamma - 1)
            return self.weight * jnp.clip(falling, 0, self.lam)

        return _row_distance(x, gradient, slope, self.weight * self.lam)


@penalty
class GroupL0:
    """The number of rows that are not zero; see `group_l0`."""

    weight: jax.Array = not_negative(one=True)

    def value(self, x):
        """Return `weight * sum_rows [x_row != 0]`."""
        return jnp.sum(kernels.group_l0_value(x, self.weight))

    def prox(self, v, step):
        """Return rows longer than `sqrt(2 step weight)` as they are, others zero."""
        return kernels.prox_group_l0(v, step, self.weight)

    def optimality(self, x, gradient):
        """Return ||gradient|| of every row, or 0 where the row is 0."""
        steep = jnp.where(self.weight > 0, jnp.inf, 0.0).astype(x.dtype)
        return _row_distance(x, gradient, jnp.zeros_like, steep)


def group_l2(weight: ArrayLike) -> GroupL2:
    """Euclidean norms of rows, `weight * sum_rows ||x_row||` along the last axis."""
    return build(GroupL2, **locals())


def sparse_group(l1: ArrayLike, group: ArrayLike) -> SparseGroup:
    """Sparse group penalty, `l1 sum |x_i| + group sum_rows ||x_row||` along the last axis."""
    return build(SparseGroup, **locals())


def group_mcp(lam: ArrayLike, gamma: ArrayLike, weight: ArrayLike = 1.0) -> GroupMCP:
    """Minimax concave penalty of the norms of rows, `weight * sum P(||x_row||)`, P as in `mcp`.

    Rows longer than `gamma lam` are not shortened: as a link, differences are zero or unbiased.
    """
    return build(GroupMCP, **locals())


def group_scad(lam: ArrayLike, gamma: ArrayLike = 3.7, weight: ArrayLike = 1.0) -> GroupSCAD:
    """SCAD of the norms of rows, `weight * sum P(||x_row||)`, P as in `scad`.

    Rows longer than `gamma lam` are not shortened: as a link, differences are zero or unbiased.
    """
    return build(GroupSCAD, **locals())


def group_l0(weight: ArrayLike) -> GroupL0:
    """Number of rows that are not zero, times the weight; it has no smoothing."""
    return build(GroupL0, **locals())


def _row_distance(
    x: jax.Array,
    gradient: jax.Array,
    slope: Callable[[jax.Array], jax.Array],
    slope_at_zero: jax.Array,
) -> jax.Array:
    """Return the distance of -gradient from the subdifferential of phi(||.||), row by row.

    Args:
      x: shape (..., dim).
      gradient: shape (..., dim).
      slope: phi' at positive lengths, shape (..., 1).
      slope_at_zero: the radius of the subdifferential at 0.
    """
    length = kernels.safe_norm(x, keepdims=True)
    away = kernels.safe_norm(gradient + slope(length) * kernels.safe_ratio(x, length))
    at_zero = jnp.maximum(kernels.safe_norm(gradient) - slope_at_zero, 0)
    return jnp.where(length[..., 0] > 0, away, at_zero)
