r"""Measures for any solver and any problem: quality of the model, and agreement of the clients.

The model is the solver's estimate; where clients have models of their own, it is their mean. The
objective is that of the star: the mean of the clients' losses, plus the solver's regulariser, which
is g = R / N of a solver that minimises `sum_l f_l + R`, as those over trees do.

    F(w) = 1/N sum_l f_l(w) + g(w)

Each returns one number under a name, so that it serves as the `residual` of `run_until`, too.
"""

from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm.capabilities import (
    Clients,
    Gradients,
    KnownOptimum,
    OnStar,
    Values,
    at_state,
)
from fedjax_admm.kernels import safe_norm
from fedjax_admm.measures._shared import measure, rows, total_loss


@measure(Clients, Values)
def objective(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Return "objective", F at the model, shape ().

    Where the solver has no regulariser, g is zero; over a tree it is that of the root.
    """
    problem, model = _judged(solver, problem, state)
    mean = total_loss(problem, model) / problem.num_clients
    regularizer = getattr(solver, "regularizer", None)
    if regularizer is None:
        return {"objective": mean}
    return {"objective": mean + _share(solver, problem) * regularizer.value(model)}


@measure(Clients, Gradients)
def stationarity(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    r"""Return "stationarity", the length of the proximal-gradient residual at the model, shape ().

    `|| w - Prox_g(w - grad f(w); 1) ||`, with f the mean of the losses: the length of the mean
    gradient where there is no regulariser. Where the losses are differentiable it is zero exactly
    at stationary points of F. At a kink `gradients` gives one subgradient of many, and this stays
    away from zero at the optimum itself: `agreement_residual` is for such losses.
    """
    problem, model = _judged(solver, problem, state)
    slopes = problem.gradients(rows(model, problem))
    return {"stationarity": _residual(solver, problem, model, slopes)}


@measure(OnStar, Gradients)
def agreement_residual(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    r"""Return "residual", `sqrt(primal^2 + dual^2)` of the two residuals below, shape ().

    With `client_slopes`, s_l in df_l(w_l), it is zero exactly where all w_l = w and 0 lies in
    `1/N sum_l s_l + dg(w)`: at stationary points of F, kinked or not. The slopes are subgradients
    of clients that took part at least once, whose proximal steps are exact and whose messages
    arrive as they were sent; otherwise they become so in the limit.
    """
    (primal,) = primal_residual(solver, problem, state).values()
    (dual,) = dual_residual(solver, problem, state).values()
    return {"residual": safe_norm(jnp.stack([primal, dual]))}


@measure(OnStar)
def disagreement(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Return "disagreement", how far the clients' models are from their mean, shape ().

    `sqrt(1/N sum_l ||w_l - mean||^2)`, of the clients' own models, `client_models(state)` of the
    solver; of its estimate where it has none, which is zero for one common model.
    """
    models = _client_models(solver, problem, state)
    return {"disagreement": _spread(models - jnp.mean(models, 0)[None])}


@measure(OnStar)
def primal_residual(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Return "primal", `sqrt(1/N sum_l ||w_l - w||^2)`, shape ().

    The w_l are the clients' models, as in `disagreement`; w is the model.
    """
    _, model = _judged(solver, problem, state)
    return {"primal": _spread(_client_models(solver, problem, state) - model[None])}


@measure(Clients, Gradients)
def dual_residual(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    r"""Return "dual", how far the clients' gradients are from balancing each other, shape ().

    `|| w - Prox_g(w - 1/N sum_l s_l; 1) ||`, w the model and s_l the gradient of f_l at the
    client's own model w_l: at a solution minus their mean is a subgradient of the regulariser. A
    consensus method keeps them as its duals, with the sign changed; at kinks those are the
    subgradients that balance. The s_l are `client_slopes(state)` where the solver has it, else
    `gradients` at the models.
    """
    problem, model = _judged(solver, problem, state)
    duals = getattr(solver, "client_slopes", None)
    slopes = None if duals is None else duals(state)
    if slopes is None:
        slopes = problem.gradients(_client_models(solver, problem, state))
    return {"dual": _residual(solver, problem, model, slopes)}


@measure(KnownOptimum)
def optimum_distance(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Return "distance", the distance of the model to the known optimum, shape ()."""
    problem, model = _judged(solver, problem, state)
    return {"distance": safe_norm(model - problem.optimum)}


def _judged(solver: Any, problem: Any, state: Any) -> tuple[Any, jax.Array]:
    """Return the problem as it stands in a state, and the one model that is judged, (dim,)."""
    judged = getattr(solver, "judged", None)
    estimate = solver.estimate(state)
    now = (at_state(problem, state), estimate) if judged is None else judged(problem, state)
    problem, models = now
    return problem, models if models.ndim == 1 else jnp.mean(models, 0)


def _residual(solver: Any, problem: Any, model: jax.Array, slopes: jax.Array) -> jax.Array:
    """Return the length of a proximal-gradient step from the model, shape ()."""
    moved = model - jnp.mean(slopes, 0)
    regularizer = getattr(solver, "regularizer", None)
    step = jnp.asarray(_share(solver, problem), model.dtype)
    return safe_norm(model - (moved if regularizer is None else regularizer.prox(moved, step)))


def _share(solver: Any, problem: Any) -> float:
    """Return g / R: 1 beside a mean of losses, 1 / N beside their sum."""
    return 1 / problem.num_clients if getattr(solver, "sums_losses", False) else 1.0


def _spread(differences: jax.Array) -> jax.Array:
    number = jnp.asarray(differences.shape[0], differences.dtype)
    return safe_norm(safe_norm(differences)) / jnp.sqrt(number)


def _client_models(solver: Any, problem: Any, state: Any) -> jax.Array:
    """Return the models that clients keep, shape (clients, dim)."""
    models = getattr(solver, "client_models", solver.estimate)(state)
    return rows(models, problem)
