r"""Measures for any solver and any problem: how good the model is, and whether clients agree on it.

The model is the solver's estimate; where clients have models of their own, it is their mean. The
objective is that of the star: the mean of the clients' losses, plus the solver's regulariser.

    F(w) = 1/N sum_l f_l(w) + g(w)

Each returns one number under a name, so that it serves as the `residual` of `run_until`, too.
"""

from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm.capabilities import Clients, Gradients, KnownOptimum, Scores, Values, needs
from fedjax_admm.kernels import safe_norm
from fedjax_admm.measures._shared import total_loss


@needs(Clients, Values)
def objective(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Return "objective", F at the model, shape ().

    Where nothing else is said the regulariser is zero.
    """
    model = _model(solver, state)
    mean = total_loss(problem, model) / problem.num_clients
    regularizer = getattr(solver, "regularizer", None)
    return {"objective": mean if regularizer is None else mean + regularizer.value(model)}


@needs(Clients, Gradients)
def stationarity(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    r"""Return "stationarity", the length of the proximal-gradient residual at the model, shape ().

    `|| w - Prox_g(w - grad f(w); 1) ||`, with f the mean of the losses: the length of the mean
    gradient where there is no regulariser, and zero exactly at stationary points of F.
    """
    model = _model(solver, state)
    slope = jnp.mean(problem.gradients(_rows(model, problem)), 0)
    regularizer = getattr(solver, "regularizer", None)
    moved = model - slope
    nearest = moved if regularizer is None else regularizer.prox(moved, jnp.ones((), model.dtype))
    return {"stationarity": safe_norm(model - nearest)}


@needs(Clients)
def disagreement(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Return "disagreement", how far the clients' models are from their mean, shape ().

    `sqrt(1/N sum_l ||w_l - mean||^2)`, of the models that clients keep, which the solver tells by
    `client_models(state)`; else of its estimate, which for one model of all gives zero.
    """
    models = _client_models(solver, problem, state)
    return {"disagreement": _spread(models - jnp.mean(models, 0)[None])}


@needs(Clients)
def primal_residual(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Return "primal", `sqrt(1/N sum_l ||w_l - w||^2)`, shape ().

    The w_l are the clients' models, as in `disagreement`; w is the model.
    """
    models = _client_models(solver, problem, state)
    return {"primal": _spread(models - _model(solver, state)[None])}


@needs(Clients, Gradients)
def dual_residual(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    r"""Return "dual", how far the clients' gradients are from balancing each other, shape ().

    `|| w - Prox_g(w - 1/N sum_l grad f_l(w_l); 1) ||`, w the model and w_l the clients' own: the
    duals of a consensus method are the clients' gradients with the sign changed, and at a solution
    their mean is a subgradient of the regulariser.
    """
    model = _model(solver, state)
    slope = jnp.mean(problem.gradients(_client_models(solver, problem, state)), 0)
    regularizer = getattr(solver, "regularizer", None)
    moved = model - slope
    nearest = moved if regularizer is None else regularizer.prox(moved, jnp.ones((), model.dtype))
    return {"dual": safe_norm(model - nearest)}


@needs(KnownOptimum)
def optimum_distance(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Return "distance", the distance of the model to the known optimum, shape ()."""
    return {"distance": safe_norm(_model(solver, state) - problem.optimum)}


@needs(Clients, Scores)
def accuracy(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Return "accuracy", the mean score over clients, each by its own estimate, shape ()."""
    return {"accuracy": _mean_score(solver, problem, state)}


@needs(Clients, Scores)
def error_rate(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Return "error_rate", one minus the accuracy, shape ()."""
    return {"error_rate": 1 - _mean_score(solver, problem, state)}


def _mean_score(solver: Any, problem: Any, state: Any) -> jax.Array:
    return jnp.mean(problem.scores(_rows(solver.estimate(state), problem)))


def _model(solver: Any, state: Any) -> jax.Array:
    estimate = solver.estimate(state)
    return estimate if estimate.ndim == 1 else jnp.mean(estimate, 0)


def _rows(models: jax.Array, problem: Any) -> jax.Array:
    return jnp.broadcast_to(models, (problem.num_clients, models.shape[-1]))


def _spread(differences: jax.Array) -> jax.Array:
    return safe_norm(safe_norm(differences)) / jnp.sqrt(
        jnp.asarray(differences.shape[0], differences.dtype)
    )


def _client_models(solver: Any, problem: Any, state: Any) -> jax.Array:
    """Return the models that clients keep, shape (clients, dim)."""
    estimate = solver.estimate(state)
    kept = getattr(solver, "client_models", None)
    return _rows(estimate, problem) if kept is None else kept(state)
