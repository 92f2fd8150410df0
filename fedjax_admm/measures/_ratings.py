"""Measures of matrix completion: errors, objective and stationarity.

Predictions use each client's own factors as they stand (they may be stale) and the shared factors
of the items. Sums over ratings are compensated: millions of terms cost no digits in float32.

Reference: P. Hytla et al., "A Linearized Alternating Direction Multiplier Method for Federated
Matrix Completion Problems" (objective, augmented Lagrangian, stationarity).
"""

from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm._states import (
    CopiesState,
    FactorPenalties,
    FactorState,
    FreshUsers,
    LinearizedCopies,
)
from fedjax_admm.capabilities import FactorData, HeldOut
from fedjax_admm.kernels import gram_gradient, safe_norm
from fedjax_admm.measures._shared import measure
from fedjax_admm.ratings import Factors
from fedjax_admm.ratings.blocks import ClientRatings
from fedjax_admm.ratings.quadratics import item_gradients, user_quadratics


@measure(FactorData, HeldOut, solver=[FactorPenalties], state=[FactorState])
def rating_error(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Measure a solver of matrix completion.

    Returns:
      What `factor_error` returns; "objective", as `completion_objective`; "nonzero_users" and
      "nonzero_items", the shares of entries that are not 0 (of U_i, a mean over clients); shape ().
    """
    users, items = factors = state.factors
    dtype = items.dtype
    here = jnp.sum(problem.here, 1, dtype=jnp.int32).astype(dtype) * items.shape[-1]
    nonzero = jnp.sum(users != 0, (1, 2), dtype=jnp.int32).astype(dtype)
    return {
        **factor_error(problem, factors),
        "objective": completion_objective(solver, problem, factors),
        "nonzero_users": jnp.mean(nonzero / here),
        "nonzero_items": jnp.mean(items != 0, dtype=dtype),
    }


@measure(FactorData, HeldOut, solver=[FactorPenalties, FreshUsers], state=[FactorState])
def fresh_rating_error(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Measure as `rating_error`, and "fresh_error": after every client's users took their steps.

    It costs a pass over everybody's ratings: more than a round in which few take part.
    """
    fresh = _root_mean_square(problem.held_out, solver.fresh(problem, state))
    return {**rating_error(solver, problem, state), "fresh_error": fresh}


@measure(FactorData, HeldOut)
@jax.jit
def factor_error(problem: Any, factors: Factors) -> dict[str, jax.Array]:
    """Measure factors: root mean square errors, shape ().

    Returns:
      "error" on the ratings held out and "training_error" on those learnt from, in standard
      deviations; "raw_error", the first in the units of the ratings; NaN where there is none.
    """
    error = _root_mean_square(problem.held_out, factors)
    return {
        "error": error,
        "raw_error": problem.deviation * error,
        "training_error": _root_mean_square(problem.by_user, factors),
    }


@measure(FactorData, solver=[FactorPenalties])
@jax.jit
def completion_objective(solver: Any, problem: Any, factors: Factors) -> jax.Array:
    """Return `F = 1/p sum_i [f_i(U_i, V) + R_i(U_i)] + R(V)`, with the solver's penalties."""
    local = squared_error(problem.by_user, factors) / 2 + solver.user_penalty.value(factors.users)
    return local / problem.num_clients + solver.item_penalty.value(factors.items)


def squared_error(listed: ClientRatings, factors: Factors) -> jax.Array:
    """Return the sum of squared residuals over ratings, shape ()."""
    return listed.total(lambda *rating: factors.residuals(*rating) ** 2)


@measure(FactorData, solver=[LinearizedCopies], state=[CopiesState])
@jax.jit
def augmented_lagrangian(solver: Any, problem: Any, state: Any) -> jax.Array:
    """Return the augmented Lagrangian of FedMC-ADMM, shape ().

    `sum_i { 1/p [f_i(U_i, W_i) + R_i(U_i)] + <Y_i, W_i - V> + beta / 2 ||W_i - V||^2 } + R(V)`
    """
    users, copies, duals = state.clients
    gap = copies - state.items[None]
    squares = squared_error(problem.by_user, Factors(users, copies))
    local = squares / 2 + solver.user_penalty.value(users)
    coupling = jnp.sum(duals * gap) + solver.beta / 2 * jnp.sum(gap**2)
    return local / problem.num_clients + coupling + solver.item_penalty.value(state.items)


@measure(FactorData, solver=[LinearizedCopies], state=[CopiesState])
@jax.jit
def completion_residual(solver: Any, problem: Any, state: Any) -> jax.Array:
    """Return the distance of 0 from the subdifferential of the augmented Lagrangian, shape ().

    Over U_i, W_i, Y_i (which asks for W_i = V) and V; at a kink the shortest subgradient counts.
    For `run_until`; it costs two passes over everybody's ratings.
    """
    share = 1.0 / problem.num_clients
    users, copies, duals = state.clients
    gap = copies - state.items[None]
    everyone = problem.by_user.everyone
    quadratic = user_quadratics(problem, everyone, copies)
    slope = jnp.moveaxis(gram_gradient(quadratic, jnp.moveaxis(users, -1, 0)), 0, -1)
    slope = jnp.where(problem.here[..., None], slope, 0)
    over_users = jnp.where(problem.here[..., None], solver.user_penalty.optimality(users, slope), 0)
    pull = duals + solver.beta * gap
    over_copies = share * item_gradients(problem, Factors(users, copies)) + pull
    over_items = solver.item_penalty.optimality(state.items, -jnp.sum(pull, 0))
    parts = (share * over_users, over_copies, gap, over_items)
    return safe_norm(jnp.stack([safe_norm(part.ravel()) for part in parts]))


def _root_mean_square(listed: ClientRatings, factors: Factors) -> jax.Array:
    number = jnp.sum(listed.counts).astype(factors.items.dtype)
    mean = squared_error(listed, factors) / jnp.maximum(number, 1)
    return jnp.where(number > 0, jnp.sqrt(mean), jnp.nan)
