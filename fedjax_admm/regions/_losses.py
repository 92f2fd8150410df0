"""Robust losses of a standardised residual z = p - y, besides those of `fedjax_admm.losses`.

    soft l1   k^2 (sqrt(1 + (z / k)^2) - 1)         cauchy   k^2 / 2 log(1 + (z / k)^2)

Both are z^2 / 2 near 0. Soft l1, or pseudo-Huber, is convex and grows as k |z|: for a small
threshold k it is k times a smoothed absolute value. Cauchy is not convex; its slope falls to 0.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, positive
from fedjax_admm._pytrees import pytree_dataclass


@pytree_dataclass
class SoftL1:
    """`k^2 (sqrt(1 + (z / k)^2) - 1)`, the pseudo-Huber loss."""

    threshold: jax.Array = positive()  # shape=(): k, where the slope begins to bend

    smooth: ClassVar[bool] = True
    labels: ClassVar[bool] = False

    def value(self, prediction, target):
        """Return the loss."""
        residual = prediction - target
        # The difference of the square root and 1 would lose small residuals.
        return residual**2 / (1 + self._root(residual))

    def slope(self, prediction, target):
        """Return `z / sqrt(1 + (z / k)^2)`."""
        residual = prediction - target
        return residual / self._root(residual)

    def curvature(self, prediction, target):
        """Return `(1 + (z / k)^2)^(-3/2)`."""
        return self._root(prediction - target) ** -3

    def largest_curvature(self):
        """Return 1."""
        return 1.0

    def _root(self, residual):
        return jnp.sqrt(1 + (residual / self.threshold) ** 2)


@pytree_dataclass
class Cauchy:
    """`k^2 / 2 log(1 + (z / k)^2)`."""

    threshold: jax.Array = positive()  # shape=(): k, where the slope is largest

    smooth: ClassVar[bool] = True
    labels: ClassVar[bool] = False

    def value(self, prediction, target):
        """Return the loss."""
        ratio = (prediction - target) / self.threshold
        return self.threshold**2 / 2 * jnp.log1p(ratio**2)

    def slope(self, prediction, target):
        """Return `z / (1 + (z / k)^2)`."""
        residual = prediction - target
        return residual / (1 + (residual / self.threshold) ** 2)

    def curvature(self, prediction, target):
        """Return `(1 - (z / k)^2) / (1 + (z / k)^2)^2`, negative beyond k."""
        squared = ((prediction - target) / self.threshold) ** 2
        return (1 - squared) / (1 + squared) ** 2

    def largest_curvature(self):
        """Return 1."""
        return 1.0


def soft_l1(threshold: ArrayLike = 1.0) -> SoftL1:
    """Soft l1 loss, `k^2 (sqrt(1 + (z / k)^2) - 1)`; k in standard deviations of the errors."""
    return build(SoftL1, **locals())


def cauchy(threshold: ArrayLike = 2.385) -> Cauchy:
    """Cauchy loss, `k^2 / 2 log(1 + (z / k)^2)`; k in standard deviations of the errors.

    At the default threshold it loses 5 % of the efficiency of least squares on normal errors.
    """
    return build(Cauchy, **locals())
