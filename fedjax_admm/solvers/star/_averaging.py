r"""Federated averaging: one model for all nodes, the baseline of networked learning.

    gradient    w <- mean over i of (K gradient steps of length rate on L_i, from w)
    prox        w <- mean over i of argmin_z L_i(z) + ||z - w||^2 / (2 tau_i)

The mean runs over the nodes that are present and whose data are accessible, with equal weights; a
round without any keeps the model.

Reference: H. B. McMahan et al., "Communication-Efficient Learning of Deep Networks from
Decentralized Data", AISTATS 2017 (FedAvg); the second form is the one with which GTV minimisation
was compared: Y. SarcheshmehPour et al., "Clustered Federated Learning via Generalized Total
Variation Minimization", 2023.
"""

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import count, scalar
from fedjax_admm._pytrees import register_dataclass
from fedjax_admm.capabilities import Access, Gradients, OnGraph, OnStar, Prox, first_model
from fedjax_admm.traffic import Traffic


class AveragingState(NamedTuple):
    """The shared model, and how many nodes hold a copy."""

    model: jax.Array  # shape=(dim,)
    copies: jax.Array  # shape=(nodes, dim): what every node reads, the shared model


@register_dataclass
@dataclass(frozen=True, eq=False)
class GradientUpdate:
    """Gradient steps on the local loss."""

    rate: jax.Array  # shape=()
    steps: int = field(metadata={"static": True})

    requires: ClassVar[tuple[type, ...]] = (Gradients,)

    def __call__(self, problem, w, key):
        """Return every node's model after its steps, shape (nodes, dim)."""

        def descend(z, key):
            return z - self.rate * problem.gradients(z, key), None

        return jax.lax.scan(descend, w, jax.random.split(key, self.steps))[0]


@register_dataclass
@dataclass(frozen=True, eq=False)
class ProxUpdate:
    """One proximal step, with the steps `ratio / degree_i` of GTV minimisation."""

    ratio: jax.Array  # shape=()

    requires: ClassVar[tuple[type, ...]] = (OnGraph, Prox)

    def __call__(self, problem, w, key):
        """Return every node's model after its prox, shape (nodes, dim)."""
        degrees = jnp.maximum(problem.graph.degrees, 1).astype(w.dtype)
        return problem.prox(w, self.ratio / degrees, problem.prox_memory(w))[0]


@register_dataclass
@dataclass(frozen=True, eq=False)
class FederatedAveraging:
    """FedAvg; build it with `federated_averaging`."""

    update: GradientUpdate | ProxUpdate

    requires: ClassVar[tuple[type, ...]] = (OnStar, Access)  # and what the update requires

    def participants(self, problem) -> tuple[int, ...]:
        """Return `(nodes,)`."""
        return (problem.num_clients,)

    def init(self, problem, key) -> AveragingState:
        """Start at the mean of the problem's starts."""
        return self._shared(problem, first_model(problem))

    def step(self, problem, state: AveragingState, turn) -> AveragingState:
        """Return the state after one round."""
        moved = self.update(problem, state.copies, turn.key)
        heard = turn.active & problem.accessible
        total = jnp.sum(jnp.where(heard[:, None], moved, 0), 0)
        number = jnp.sum(heard)
        mean = total / jnp.maximum(number, 1).astype(total.dtype)
        return self._shared(problem, jnp.where(number > 0, mean, state.model))

    def estimate(self, state: AveragingState) -> jax.Array:
        """Return what every node reads, shape (nodes, dim): equal rows."""
        return state.copies

    def traffic(self, problem) -> Traffic:
        """Return dim numbers up and dim down."""
        dim = problem.start.shape[-1]
        return Traffic(up=dim, down=dim)

    def messages(self, problem, active: jax.Array) -> jax.Array:
        """Count the nodes that are present and whose data are accessible."""
        return jnp.sum(active & problem.accessible, dtype=jnp.int32)

    def _shared(self, problem, model) -> AveragingState:
        return AveragingState(model, jnp.broadcast_to(model, (problem.num_clients, *model.shape)))


def federated_averaging(rate: ArrayLike = 0.1, *, local_steps: int = 1) -> FederatedAveraging:
    """Build FedAvg with gradient steps.

    Args:
      rate: their length; below `2 / L` for every node, or the model diverges.
      local_steps: per round.

    Returns:
      The solver.

    Raises:
      InputError: a number is out of range.
    """
    rate = scalar("rate", rate, above=0)
    return FederatedAveraging(GradientUpdate(rate, count("local_steps", local_steps)))


def federated_proximal_averaging(ratio: ArrayLike = 1.0) -> FederatedAveraging:
    """Build FedAvg with proximal steps `tau_i = ratio / degree_i`, the paper's comparison.

    Raises:
      InputError: the ratio is not positive.
    """
    return FederatedAveraging(ProxUpdate(scalar("ratio", ratio, above=0)))
