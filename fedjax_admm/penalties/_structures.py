"""Penalties of models whose entries have an order, or stand in a matrix.

All are convex; the length of the proximal-gradient step at step 1 is their certificate.
"""

from dataclasses import field

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm import kernels
from fedjax_admm._checks import count, scalar
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.penalties._protocols import proximal_residual


@pytree_dataclass
class TotalVariation:
    """`weight * sum_rows sum_i |x_(i+1) - x_i|` along the last axis: models in steps."""

    weight: jax.Array  # shape=()

    def value(self, x):
        """Return `weight` times the total variation of all rows together."""
        return jnp.sum(self.weight * kernels.tv1d_value(x))

    def prox(self, v, step):
        """Return each row's minimiser, constant in pieces."""
        return kernels.prox_tv1d(v, step, self.weight)

    def optimality(self, x, gradient):
        """Return `||x - prox(x - gradient; 1)||` of every row: zero exactly where stationary."""
        return proximal_residual(self, x, gradient)


@pytree_dataclass
class FusedLasso:
    """`l1 sum |x_i| + variation sum_rows sum_i |x_(i+1) - x_i|` along the last axis."""

    l1: jax.Array  # shape=()
    variation: jax.Array  # shape=()

    def value(self, x):
        """Return the penalty of all rows together."""
        return jnp.sum(kernels.fused_lasso_value(x, self.l1, self.variation))

    def prox(self, v, step):
        """Return each row's minimiser: the soft threshold of that of the variation."""
        return kernels.prox_fused_lasso(v, step, self.l1, self.variation)

    def optimality(self, x, gradient):
        """Return `||x - prox(x - gradient; 1)||` of every row: zero exactly where stationary."""
        return proximal_residual(self, x, gradient)


@pytree_dataclass
class Nuclear:
    """`weight * sum of the singular values` of every row, read as a matrix row by row."""

    weight: jax.Array  # shape=()
    shape: tuple[int, int] = field(metadata={"static": True})

    def value(self, x):
        """Return `weight` times the nuclear norms of all rows together."""
        return jnp.sum(self.weight * kernels.nuclear_value(self._matrices(x)))

    def prox(self, v, step):
        """Return each matrix with its singular values soft-thresholded at `step * weight`."""
        threshold = step * self.weight
        if threshold.ndim:  # a step for every row
            threshold = threshold[..., None]
        return kernels.prox_nuclear(self._matrices(v), threshold).reshape(v.shape)

    def optimality(self, x, gradient):
        """Return `||x - prox(x - gradient; 1)||` of every row: zero exactly where stationary."""
        return proximal_residual(self, x, gradient)

    def _matrices(self, x):
        return x.reshape(*x.shape[:-1], *self.shape)


def total_variation(weight: ArrayLike) -> TotalVariation:
    """Build `TotalVariation`; the weight must not be negative."""
    return TotalVariation(scalar("weight", weight, at_least=0))


def fused_lasso(l1: ArrayLike, variation: ArrayLike) -> FusedLasso:
    """Build `FusedLasso`; neither number may be negative."""
    return FusedLasso(scalar("l1", l1, at_least=0), scalar("variation", variation, at_least=0))


def nuclear(weight: ArrayLike, rows: int, columns: int) -> Nuclear:
    """Build `Nuclear`; models have `rows * columns` entries, and the weight is not negative."""
    return Nuclear(
        scalar("weight", weight, at_least=0), (count("rows", rows), count("columns", columns))
    )
