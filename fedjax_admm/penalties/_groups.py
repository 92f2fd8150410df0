"""Penalties of the rows of a model: a row is zero as a whole, or not at all."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm import kernels
from fedjax_admm._checks import scalar
from fedjax_admm._pytrees import register_dataclass


@register_dataclass
@dataclass(frozen=True, eq=False)
class GroupL2:
    """`weight * sum of the Euclidean norms along the last axis`."""

    weight: jax.Array  # shape=()

    def value(self, x):
        """Return `weight * sum_rows ||x_row||`."""
        return jnp.sum(self.weight * kernels.safe_norm(x))

    def prox(self, v, step):
        """Return each row shortened by `step * weight`, or zero."""
        return kernels.prox_group_l2(v, step * self.weight)

    def smoothed_prox(self, v, step, mu):
        """Return each row shortened by the prox of `weight * h_mu` of its length."""
        length = kernels.safe_norm(v, keepdims=True)
        shorter = kernels.prox_smoothed_abs(length, step * self.weight, mu)
        return v * kernels.safe_ratio(shorter, length)

    def optimality(self, x, gradient):
        """Return, row by row, the distance of -gradient from the subdifferential."""
        length = kernels.safe_norm(x, keepdims=True)
        away = kernels.safe_norm(gradient + self.weight * kernels.safe_ratio(x, length))
        at_zero = jnp.maximum(kernels.safe_norm(gradient) - self.weight, 0)
        return jnp.where(length[..., 0] > 0, away, at_zero)


def group_l2(weight: ArrayLike) -> GroupL2:
    """Build `GroupL2`; the weight must not be negative."""
    return GroupL2(scalar("weight", weight, at_least=0))
