"""Measures of tracking: what following a target costs beside knowing it."""

from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm.capabilities import Clients, KnownTarget, Values
from fedjax_admm.measures._shared import measure


@measure(KnownTarget, Clients, Values)
def target_regret(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Measure by how much the sum of the losses at the estimate exceeds that at the target.

    Summed over samples it is the dynamic regret against the true path. It is negative where noisy
    ranges fit the estimate better than the target.

    Returns:
      "regret": `sum_l f_l(w) - sum_l f_l(target)`, shape ().

    Reference: M. Zinkevich, "Online convex programming and generalized infinitesimal gradient
    ascent", ICML 2003.
    """

    def total(model: jax.Array) -> jax.Array:
        return jnp.sum(problem.values(jnp.broadcast_to(model, (problem.num_clients, *model.shape))))

    return {"regret": total(solver.estimate(state)) - total(problem.target.reshape(-1))}
