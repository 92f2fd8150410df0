r"""Balanced units of the models of a network, in which the mean curvature is the identity.

A splitting converges fast if it measures models in the curvature of the losses. The mean curvature
G of the nodes that have data is ill-conditioned if features have natural units, and far from
diagonal if a feature is constant. With the eigendecomposition of G,

    G = V diag(metric) V^T,      w = turn v,      turn = V diag(metric)^(-1/2)

v are models in balanced units. The problem stays the same: its losses and its penalty of
differences are those of w, and `turn^T turn = diag(1 / metric)`.

Losses with `second_moments` and `in_units` have balanced units up to `LARGEST` features. Other
losses are used in their own units.
"""

from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm._linear_algebra import eigh_in_any_units
from fedjax_admm._pytrees import pytree_dataclass

LARGEST = 64
"""The largest number of features that are turned; their mean curvature is decomposed."""

_HIGHEST = jax.lax.Precision.HIGHEST


@pytree_dataclass
class GivenUnits:
    """Models as the problem has them."""

    metric: jax.Array  # shape=(dim,): about the curvature of a node, the same for all features

    def balanced(self, models):
        """Return models (nodes, dim) in these units."""
        return models

    def models(self, balanced):
        """Return the models (nodes, dim) that the problem knows."""
        return balanced

    @property
    def reach(self):
        """The lengths of the columns of `turn`, shape (dim,)."""
        return jnp.ones_like(self.metric)

    def along(self, rows):
        """Return rows (edges, dim) of the user's units along the axes of these."""
        return rows

    def across(self, rows):
        """Return rows (edges, dim) along the axes in the user's units."""
        return rows

    def prox(self, problem, points, step, memory):
        """Return the nodes' answers, and the memory of the prox."""
        return problem.prox(points, step, memory)

    def memory(self, problem, models):
        """Return what the prox remembers before the first round."""
        return problem.prox_memory(models)


@pytree_dataclass
class BalancedUnits:
    """Models in the units of the mean curvature."""

    metric: jax.Array  # shape=(dim,): eigenvalues of G
    axes: jax.Array  # shape=(dim, dim): V, eigenvectors as columns
    loss: Any  # the nodes' losses of balanced models; they know their prox

    def balanced(self, models):
        """Return models (nodes, dim) in these units."""
        return jnp.matmul(models, self.axes, precision=_HIGHEST) * jnp.sqrt(self.metric)[None]

    def models(self, balanced):
        """Return the models (nodes, dim) that the problem knows."""
        return jnp.matmul(balanced, turned(self.metric, self.axes).T, precision=_HIGHEST)

    @property
    def reach(self):
        """The lengths of the columns of `turn`, shape (dim,)."""
        return 1 / jnp.sqrt(self.metric)

    def along(self, rows):
        """Return rows (edges, dim) of the user's units along the axes of these."""
        return jnp.matmul(rows, self.axes, precision=_HIGHEST)

    def across(self, rows):
        """Return rows (edges, dim) along the axes in the user's units."""
        return jnp.matmul(rows, self.axes.T, precision=_HIGHEST)

    def prox(self, problem, points, step, memory):
        """Return the nodes' answers, and the memory of the prox."""
        return self.loss.prox(points, step, memory)

    def memory(self, problem, models):
        """Return what the prox remembers before the first round: nothing."""
        return self.loss.prox_memory(models)


def units_of(problem: Any) -> GivenUnits | BalancedUnits:
    """Find the units of a problem's nodes."""
    local: Any = getattr(problem, "local", None)
    dim = problem.start.shape[-1]
    dtype = problem.start.dtype
    if dim > LARGEST or not hasattr(local, "in_units"):
        curvature = jnp.ones(1, dtype) if not hasattr(local, "curvature") else local.curvature()
        return GivenUnits(jnp.broadcast_to(_positive_mean(curvature), (dim,)))
    moments = jax.lax.stop_gradient(local.second_moments())
    traces = jnp.trace(moments, axis1=1, axis2=2)
    known = jnp.maximum(jnp.sum(traces > 0), 1).astype(dtype)
    # Directions that nobody sees move as if they were seen a little.
    metric, axes = eigh_in_any_units(jnp.sum(moments, 0) / known, lifted=True)
    return BalancedUnits(metric, axes, local.in_units(turned(metric, axes)))


def turned(metric: jax.Array, axes: jax.Array) -> jax.Array:
    """Return `turn = V diag(metric)^(-1/2)`, shape (dim, dim)."""
    return axes / jnp.sqrt(metric)[None]


def _positive_mean(curvature: jax.Array) -> jax.Array:
    """Return the mean of what is positive, 1 if nothing is."""
    curvature = jax.lax.stop_gradient(curvature)
    positive = curvature > 0
    number = jnp.maximum(jnp.sum(positive), 1).astype(curvature.dtype)
    mean = jnp.sum(jnp.where(positive, curvature, 0)) / number
    return jnp.where(mean > 0, mean, 1)
