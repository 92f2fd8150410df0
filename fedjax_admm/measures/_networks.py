"""Measures of models on a network: their distance to the true ones."""

from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm.capabilities import KnownTruth
from fedjax_admm.measures._shared import measure


@measure(KnownTruth)
def network_error(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Measure the models of a network: "error", as `model_error`."""
    return model_error(problem, solver.estimate(state))


@measure(KnownTruth)
def model_error(problem: Any, models: jax.Array) -> dict[str, jax.Array]:
    """Return "error", `mean_i ||w_i - w_i*||^2` over all nodes, for models (nodes, dim).

    A truth (dim,) is everybody's, and so is a model (dim,).
    """
    shape = jnp.broadcast_shapes(models.shape, problem.truth.shape)
    models, truth = jnp.broadcast_to(models, shape), jnp.broadcast_to(problem.truth, shape)
    return {"error": jnp.mean(jnp.sum((models - truth) ** 2, -1))}
