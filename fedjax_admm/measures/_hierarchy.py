"""Measures of solvers on trees: the signal of phase retrieval, and clients' own models."""

from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm._checks import of_shape
from fedjax_admm._states import RoundCount, TreeState
from fedjax_admm.capabilities import KnownTruth
from fedjax_admm.kernels import safe_norm
from fedjax_admm.measures._shared import adjusted_rand_index, measure, transitive_closure

MERGING_DISTANCE = 1.0
"""Clients whose models are closer than this are taken to be of one cluster."""


@measure(KnownTruth)
def signal_error(problem: Any, model: jax.Array) -> dict[str, jax.Array]:
    """Return "error", the relative squared error of a model (dim,), blind to its sign.

    `min(||w - w*||^2, ||w + w*||^2) / ||w*||^2`: intensities cannot tell w from -w.
    """
    truth = problem.truth
    of_shape("truth", truth, (None,), remedy="use personal_error or network_error")
    distances = jnp.stack([jnp.sum((model - truth) ** 2), jnp.sum((model + truth) ** 2)])
    return {"error": jnp.min(distances) / jnp.sum(truth**2)}


@measure(KnownTruth, solver=[RoundCount])
def central_signal_error(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Measure a centralised solver of phase retrieval.

    Returns:
      "error", as `signal_error`; "passes": steps taken, each of which uses the data of every client
      that is present; shape ().
    """
    error = signal_error(problem, solver.estimate(state))
    return {**error, "passes": solver.rounds(state).astype(problem.truth.dtype)}


@measure(KnownTruth, state=[TreeState])
def tree_signal_error(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Measure a hierarchical solver of phase retrieval.

    Returns:
      "error", as `signal_error`, of the cloud's model; "passes": the mean number of updates of a
      client; "disagreement": the largest entry of |w_n - w_0| over all clients; shape ().
    """
    difference = jnp.abs(state.clients.w - state.root[None])
    return {
        **signal_error(problem, state.root),
        "passes": jnp.mean(state.clients.updates, dtype=problem.truth.dtype),
        "disagreement": jnp.max(difference),
    }


@measure(KnownTruth, state=[TreeState])
def personal_error(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Measure the personal models of a hierarchical solver.

    Returns:
      "error": the mean of `||w_n - w_n*||^2` over that of `||w_n*||^2`; "agreement": the adjusted
      Rand index of the clusters in which clients closer than `MERGING_DISTANCE` are merged, against
      the true ones (1: recovered, about 0: no better than chance); shape ().
    """
    models = state.clients.w
    truth = jnp.broadcast_to(problem.truth, models.shape)
    error = jnp.sum((models - truth) ** 2) / jnp.sum(truth**2)
    merged = transitive_closure(_distances(models) < MERGING_DISTANCE)
    agreement = adjusted_rand_index(merged, _distances(truth) == 0)
    return {"error": error, "agreement": jnp.where(jnp.isnan(error), error, agreement)}


def _distances(models: jax.Array) -> jax.Array:
    """Return the distances between all pairs of rows, shape (n, n)."""
    return safe_norm(models[:, None] - models[None])
