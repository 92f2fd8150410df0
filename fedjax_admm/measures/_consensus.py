"""Measures of clients that agree on a model: distances to the common minimiser.

Reference: F. Gauthier, C. Gratton, N. K. D. Venkategowda, S. Werner, "Private Networked Federated
Learning for Nonsmooth Objectives", the learning curves.
"""

from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm._states import ReleaseCounts, Releasing
from fedjax_admm.capabilities import Clients, KnownOptimum, Values
from fedjax_admm.measures._shared import measure, total_loss


@measure(KnownOptimum, solver=[Releasing])
def consensus_error(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Measure a private solver.

    Returns:
      "released_error", `sum_k ||v_k - w_c||^2 / ||w_c||^2` of the models as they were sent, a sum
      over clients; "unprotected_error", the same of the models w_k without noise, which papers
      show; shape (). Neither may be published: the minimiser w_c follows from the data.
    """
    return {
        "released_error": _distance(problem, solver.estimate(state)),
        "unprotected_error": _distance(problem, solver.unprotected(state)),
    }


@measure(KnownOptimum, solver=[Releasing], state=[ReleaseCounts])
def consensus_releases(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Measure as `consensus_error`, and what `privacy.ledger(trace, delta)` reads.

    Returns:
      Also "releases", the number of releases of every client; "spent", the sum of 1 / z_n^2 over
      them; "nominal", whether gradients were not clipped; "tails", the largest contribution of
      finite-precision tails of the noise to delta; shape (clients,).
    """
    names = ("releases", "spent", "nominal", "tails")
    spent = {name: getattr(state, name) for name in names}
    return {**consensus_error(solver, problem, state), **spent}


@measure(KnownOptimum, Clients, Values, solver=[Releasing])
def consensus_gap(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Measure as `consensus_error`, and "gap", `F(mean_k w_k) - F(w_c)`, shape ().

    The mean is over the models without noise, so that the gap is not negative.
    """
    mean = jnp.mean(solver.unprotected(state), 0)
    gap = total_loss(problem, mean) - total_loss(problem, problem.optimum)
    return {**consensus_error(solver, problem, state), "gap": gap}


def _distance(problem: Any, models: jax.Array) -> jax.Array:
    optimum = problem.optimum
    return jnp.sum((models - optimum[None]) ** 2) / jnp.sum(optimum**2)
