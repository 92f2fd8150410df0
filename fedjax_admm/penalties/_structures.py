"""Penalties of models whose entries have an order, or stand in a matrix; all are convex."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm import kernels
from fedjax_admm._checks import build, counted
from fedjax_admm.penalties._protocols import CertifiedByStep, not_negative, penalty


@penalty
class TotalVariation(CertifiedByStep):
    """The total variation of rows; see `total_variation`."""

    weight: jax.Array = not_negative(one=True)

    def value(self, x):
        """Return `weight` times the total variation of all rows together."""
        return jnp.sum(self.weight * kernels.tv1d_value(x))

    def prox(self, v, step):
        """Return each row's minimiser, constant in pieces."""
        return kernels.prox_tv1d(v, step, self.weight)


@penalty
class FusedLasso(CertifiedByStep):
    """The fused lasso; see `fused_lasso`."""

    l1: jax.Array = not_negative(one=True)
    variation: jax.Array = not_negative(one=True)

    def value(self, x):
        """Return the penalty of all rows together."""
        return jnp.sum(kernels.fused_lasso_value(x, self.l1, self.variation))

    def prox(self, v, step):
        """Return each row's minimiser: the soft threshold of that of the variation."""
        return kernels.prox_fused_lasso(v, step, self.l1, self.variation)


@penalty
class Nuclear(CertifiedByStep):
    """The nuclear norms of rows that are matrices; see `nuclear`."""

    weight: jax.Array = not_negative(one=True)
    rows: int = counted()
    columns: int = counted()

    def value(self, x):
        """Return `weight` times the nuclear norms of all rows together."""
        return jnp.sum(self.weight * kernels.nuclear_value(self._matrices(x)))

    def prox(self, v, step):
        """Return each matrix with its singular values soft-thresholded at `step * weight`."""
        threshold = step * self.weight
        if threshold.ndim:  # a step for every row
            threshold = threshold[..., None]
        return kernels.prox_nuclear(self._matrices(v), threshold).reshape(v.shape)

    def _matrices(self, x):
        return x.reshape(*x.shape[:-1], self.rows, self.columns)


def total_variation(weight: ArrayLike) -> TotalVariation:
    """Total variation of rows, `weight * sum_rows sum_i |x_(i+1) - x_i|`: models in steps."""
    return build(TotalVariation, **locals())


def fused_lasso(l1: ArrayLike, variation: ArrayLike) -> FusedLasso:
    """Fused lasso of rows, `l1 sum |x_i| + variation sum_rows sum_i |x_(i+1) - x_i|`."""
    return build(FusedLasso, **locals())


def nuclear(weight: ArrayLike, rows: int, columns: int) -> Nuclear:
    """Weighted sum of the singular values of every row, a matrix of `rows * columns` entries."""
    return build(Nuclear, **locals())
