"""The rounds of every fit of a table: pieces of one length, so that one program serves them all."""

from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm._host._memory import cores
from fedjax_admm._run._results import RoundState
from fedjax_admm._run._rounds import run
from fedjax_admm.measures import factor_error
from fedjax_admm.participation import without_replacement
from fedjax_admm.problems import MatrixCompletion
from fedjax_admm.ratings import Factors
from fedjax_admm.ratings.blocks import ClientRatings
from fedjax_admm.solvers import FedMCADMM
from fedjax_admm.trials.solve._solution import spacing
from fedjax_admm.trials.solve.ratings._settings import RatingsSettings

_RECORDS = 20  # of the curve, or a few more


def records_every(settings: RatingsSettings) -> int:
    """Return how many rounds lie between two records."""
    return spacing(settings.rounds, _RECORDS)


def advanced(
    solver: FedMCADMM,
    problem: MatrixCompletion,
    key: jax.Array,
    settings: RatingsSettings,
    rounds: int,
    state: RoundState | None = None,
    *,
    watched: bool,
) -> tuple[list[dict[str, Any]], RoundState]:
    """Go on until so many rounds are done, from the first one if none has been run.

    The state is used up, because the next one takes its memory.

    Returns the records, one after each `spacing` of the rounds of the settings, and the state.
    If `watched`, every record holds all errors; otherwise the last one does.
    """
    assert settings.sampled is not None
    process, every = without_replacement(settings.sampled), records_every(settings)
    now: RoundState = state or run(solver, problem, key, rounds=0, participation=process).state
    records = []
    for done in range(int(now.index) + every, rounds + 1, every):
        last = watched or done == rounds
        now, record = _piece(solver, problem, key, process, now, last, rounds=every)
        records.append(record)
    return jax.device_get(records), now


@partial(jax.jit, static_argnames="rounds", donate_argnames="state")
def _piece(solver, problem, key, process, state, watched, rounds):
    """Return the state some rounds later, and errors; not all are computed unless it is watched."""
    how = {"participation": process, "every": rounds, "start": state}
    done = run(solver, problem, key, rounds=rounds, **how)
    factors = done.state.solver.factors
    error = _mean_square(problem.held_out, factors) ** 0.5
    square = jax.lax.cond(
        watched, lambda: _mean_square(problem.by_user, factors), lambda: jnp.zeros_like(error)
    )
    number = jnp.sum(problem.by_user.counts).astype(square.dtype)
    users, items = (
        solver.user_penalty.value(factors.users),
        solver.item_penalty.value(factors.items),
    )
    return done.state, {
        "round": done.state.index,
        "messages": done.trace["messages"][-1],
        "error": error,
        "raw_error": problem.deviation * error,
        "training_error": square**0.5,
        "objective": (number * square / 2 + users) / problem.num_clients + items,
    }


def _mean_square(listed: ClientRatings, factors: Factors) -> jax.Array:
    """Return the mean of the squared residuals."""
    number = jnp.maximum(jnp.sum(listed.counts), 1).astype(factors.items.dtype)
    return listed.total(lambda *rating: factors.residuals(*rating) ** 2) / number


@jax.jit
def fresh_factors(solver, problem, state: RoundState) -> tuple[Factors, dict[str, jax.Array]]:
    """Return factors with fresh users, and their errors."""
    factors = solver.fresh(problem, state.solver)
    return factors, factor_error(problem, factors)


def workers() -> Executor:
    """Return who runs several fits at a time: a fit alone leaves most cores of a CPU idle."""
    return ThreadPoolExecutor(cores() if jax.default_backend() == "cpu" else 1)
