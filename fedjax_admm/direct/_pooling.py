r"""Models learned on pooled data: per node, per cluster (an oracle's), or one for all.

    local_models(problem)              every node on its own
    cluster_oracle(problem, labels)    argmin of the sum of L_i over every true cluster
    pooled_model(problem)              the same with one cluster

They bound the error of networked learning: local models use too little data, one pooled model
ignores the clusters, and the oracle knows the clusters that others have to find.

Reference: Y. SarcheshmehPour, Y. Tian, L. Zhang, A. Jung, "Clustered Federated Learning via
Generalized Total Variation Minimization", 2023, cluster-wise optimisation.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import (
    count,
    refuse,
    whole_numbers,
)
from fedjax_admm._linear_algebra import solve_least_norm
from fedjax_admm.capabilities import Clients, Minimizers, NodeLosses, needs
from fedjax_admm.losses import SquaredLoss


@needs(Minimizers)
def local_models(problem: Any) -> jax.Array:
    """Return every node's own minimiser, shape (nodes, dim); 0 where data are not accessible.

    For least squares it is the one of minimum norm.
    """
    return problem.minimizers()


@needs(Clients, NodeLosses)
def pooled_model(problem: Any) -> jax.Array:
    """Return one least squares model for all accessible data, as equal rows (nodes, dim)."""
    return cluster_oracle(problem, jnp.zeros(problem.num_clients, jnp.int32), clusters=1)


@needs(Clients, NodeLosses)
def cluster_oracle(problem: Any, labels: ArrayLike, *, clusters: int) -> jax.Array:
    """Return every cluster's least squares model, given the cluster of every node.

    `sum_{i in C} (Q_i + ridge_i) w_C = sum_{i in C} q_i`, of minimum norm where that is singular.

    Args:
      problem: a network with squared losses.
      labels: the cluster of every node, shape (nodes,), from 0.
      clusters: how many there are; static.

    Returns:
      Shape (nodes, dim): every node's cluster's model; 0 where no node of it is accessible.
    """
    return cluster_models(problem, labels, clusters=clusters)[jnp.asarray(labels)]


@needs(Clients, NodeLosses)
def cluster_models(problem: Any, labels: ArrayLike, *, clusters: int) -> jax.Array:
    """Return the models of `cluster_oracle`, one row per cluster, shape (clusters, dim)."""
    local = problem.local
    told = f"must have a squared loss, but it has {type(local).__name__}"
    remedy = "train one model on the pooled data with fed_avg"
    refuse(not isinstance(local, SquaredLoss), "problem", told, remedy=remedy)
    most = count("clusters", clusters) - 1
    labels = jnp.asarray(whole_numbers("labels", labels, (problem.num_clients,), at_most=most))

    def solve(cluster: jax.Array) -> jax.Array:
        member = (labels == cluster).astype(local.features.dtype)
        return _least_squares(local, member)

    return jax.vmap(solve)(jnp.arange(clusters, dtype=labels.dtype))


def _least_squares(local: SquaredLoss, member: jax.Array) -> jax.Array:
    """Return the shortest minimiser of `sum_i member_i L_i`."""
    highest = jax.lax.Precision.HIGHEST
    weighted = (member[:, None] * local.weights)[..., None] * local.features
    gram = jnp.einsum("nmd,nme->de", weighted, local.features, precision=highest)
    right = jnp.sum(member[:, None] * local.correlation, 0)
    identity = jnp.eye(gram.shape[0], dtype=gram.dtype)
    gram = gram + jnp.sum(member * local.ridge) * identity
    return solve_least_norm(gram, right)
