"""Measures: what is recorded of a run. Each is `measure(solver, problem, state) -> dict`.

They are module-level functions, so that a run with the same measure compiles once.
"""

from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm.kernels import safe_norm

FAILURE_DISTANCE = 3.0
"""Metres: a localisation further off than this has met a local minimum (or very noisy ranges)."""


def localization_error(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Measure how far the estimate is from the target of a localisation problem.

    Returns:
      "error": `||w - target||` in metres, which is the root mean square over clients, because
      all of them hold the server's w; "failure": 1 where it exceeds `FAILURE_DISTANCE`, else 0
      (NaN where the error is); both shape ().
    """
    return position_error(problem, solver.estimate(state))


def position_error(problem: Any, position: jax.Array) -> dict[str, jax.Array]:
    """Return "error" and "failure", as `localization_error` does, for a position (dim,)."""
    error = safe_norm(position - problem.target)
    failure = (error > FAILURE_DISTANCE).astype(error.dtype)
    return {"error": error, "failure": jnp.where(jnp.isnan(error), error, failure)}


def signal_error(problem: Any, model: jax.Array) -> dict[str, jax.Array]:
    """Return "error", the relative squared error of a model (dim,), blind to its sign.

    `min(||w - w*||^2, ||w + w*||^2) / ||w*||^2`: intensities cannot tell w from -w.
    """
    truth = problem.truth
    distances = jnp.stack([jnp.sum((model - truth) ** 2), jnp.sum((model + truth) ** 2)])
    return {"error": jnp.min(distances) / jnp.sum(truth**2)}


def central_signal_error(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Measure a centralised solver of phase retrieval.

    Returns:
      "error", as `signal_error`; "passes": steps taken, each of which uses the data of every client
      that is present; shape ().
    """
    error = signal_error(problem, solver.estimate(state))
    return {**error, "passes": state.rounds.astype(problem.truth.dtype)}


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


def network_error(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Measure the models of a network: "error", as `model_error`."""
    return model_error(problem, solver.estimate(state))


def model_error(problem: Any, models: jax.Array) -> dict[str, jax.Array]:
    """Return "error", `mean_i ||w_i - w_i*||^2` over all nodes, for models (nodes, dim)."""
    return {"error": jnp.mean(jnp.sum((models - problem.truth) ** 2, -1))}


MERGING_DISTANCE = 1.0
"""Clients whose models are closer than this are taken to be of one cluster."""


def personal_error(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Measure the personal models of a hierarchical solver.

    Returns:
      "error": the mean of `||w_n - w_n*||^2` over that of `||w_n*||^2`; "agreement": the adjusted
      Rand index of the clusters in which clients closer than `MERGING_DISTANCE` are merged, against
      the true ones (1: recovered, about 0: no better than chance); shape ().
    """
    models, truth = state.clients.w, problem.truth
    error = jnp.sum((models - truth) ** 2) / jnp.sum(truth**2)
    found = connected(_distances(models) < MERGING_DISTANCE)
    agreement = adjusted_rand_index(found, _distances(truth) == 0)
    return {"error": error, "agreement": jnp.where(jnp.isnan(error), error, agreement)}


def connected(linked: jax.Array) -> jax.Array:
    """Return who is connected with whom by links: the transitive closure.

    Args:
      linked: bool, shape (n, n), symmetric, True on the diagonal.

    Returns:
      Bool, shape (n, n): an equivalence relation.
    """
    reached = linked
    for _ in range(max(1, linked.shape[0] - 1).bit_length()):
        reached = reached.astype(jnp.float32) @ reached.astype(jnp.float32) > 0
    return reached


def adjusted_rand_index(first: jax.Array, second: jax.Array) -> jax.Array:
    """Compare two partitions, given as equivalence relations.

    With a, b the numbers of pairs together in each, m those in both, n all pairs:
    `(m - a b / n) / ((a + b) / 2 - a b / n)`; 1 where both partitions are the same trivial one.

    Args:
      first: bool, shape (clients, clients).
      second: the same.

    Returns:
      Shape (): 1 for equal partitions, 0 on average for independent ones.

    Reference: L. Hubert, P. Arabie, "Comparing partitions", Journal of Classification 2 (1985)
    193-218, equation (5).
    """
    clients = first.shape[0]

    def pairs(together: jax.Array) -> jax.Array:
        return (jnp.sum(together, dtype=float) - clients) / 2

    a, b, both = pairs(first), pairs(second), pairs(first & second)
    expected = a * b / max(1.0, clients * (clients - 1) / 2)
    spread = (a + b) / 2 - expected
    return jnp.where(spread > 0, (both - expected) / jnp.where(spread > 0, spread, 1.0), 1.0)


def _distances(models: jax.Array) -> jax.Array:
    """Return the distances between all pairs of rows, shape (n, n)."""
    return safe_norm(models[:, None] - models[None])
