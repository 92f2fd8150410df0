"""What is recorded of clients that agree on a model: how far they are from the common minimiser.

Reference: F. Gauthier, C. Gratton, N. K. D. Venkategowda, S. Werner, "Private Networked Federated
Learning for Nonsmooth Objectives", the learning curves.
"""

from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm.capabilities import (
    Clients,
    KnownOptimum,
    ReleaseCounts,
    Releasing,
    Values,
    needs,
)
from fedjax_admm.measures._shared import total_loss


@needs(KnownOptimum, solver=[Releasing])
def consensus_error(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Measure a private solver.

    Returns:
      "error", `sum_k ||w_k - w_c||^2 / ||w_c||^2` of the models without noise: a sum over clients,
      which is their number where all models are zero; "released_error", the same of what was sent;
      shape ().
    """
    return {
        "error": _distance(problem, solver.estimate(state)),
        "released_error": _distance(problem, solver.released(state)),
    }


@needs(KnownOptimum, solver=[Releasing], state=[ReleaseCounts])
def consensus_releases(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Measure as `consensus_error`, and "releases", how often every client has sent, (clients,).

    `privacy.ledger(plan, release, trace["releases"])` says what each has spent.
    """
    return {**consensus_error(solver, problem, state), "releases": state.releases}


@needs(KnownOptimum, Clients, Values, solver=[Releasing])
def consensus_gap(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Measure as `consensus_error`, and "gap", `F(mean_k w_k) - F(w_c)`, shape ().

    The gap of the clients' mean is not negative; that of models which disagree can be.
    """
    mean = jnp.mean(solver.estimate(state), 0)
    gap = total_loss(problem, mean) - total_loss(problem, problem.optimum)
    return {**consensus_error(solver, problem, state), "gap": gap}


def _distance(problem: Any, models: jax.Array) -> jax.Array:
    optimum = problem.optimum
    return jnp.sum((models - optimum[None]) ** 2) / jnp.sum(optimum**2)
