"""The rounds of every fit of a table: pieces of one length, so that one program serves them all."""

from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm._host import cores
from fedjax_admm._run import RoundState, run
from fedjax_admm.measures import factor_error
from fedjax_admm.participation import WithoutReplacement, without_replacement
from fedjax_admm.problems import MatrixCompletion
from fedjax_admm.ratings import Factors
from fedjax_admm.ratings.blocks import ClientRatings
from fedjax_admm.solvers import FedMCADMM
from fedjax_admm.trials.programs import kept
from fedjax_admm.trials.solve._command import spacing
from fedjax_admm.trials.solve.ratings._settings import RatingsSettings

_RECORDS = 20  # of the curve, or a few more


class SoFar(NamedTuple):
    """A run as far as it has come."""

    done: int  # rounds
    state: list[jax.Array]  # the leaves of its RoundState


def records_every(settings: RatingsSettings) -> int:
    """Return how many rounds lie between two records."""
    return spacing(settings.rounds, _RECORDS)


def advanced(
    solver: FedMCADMM,
    problem: MatrixCompletion,
    key: jax.Array,
    settings: RatingsSettings,
    rounds: int,
    so_far: SoFar | None = None,
    *,
    watched: bool,
) -> tuple[list[dict[str, Any]], SoFar]:
    """Go on until so many rounds are done, from the first one if none has been run.

    What was run so far is used up, because the next state takes its memory.

    Returns the records, one after each `spacing` of the rounds of the settings, and the run so far.
    If `watched`, every record holds all errors; otherwise the last one does.
    """
    how = (solver, problem, key, _process(settings))
    every = records_every(settings)
    done, state = so_far or SoFar(0, _begun(*how))
    records = []
    while done < rounds:
        done += every
        state, record = _piece(*how, state, watched or done == rounds, rounds=every)
        records.append(record)
    return jax.device_get(records), SoFar(done, state)


@jax.jit
def _start(solver, problem, key, process) -> RoundState:
    """Return the state before the first round."""
    return run(solver, problem, key, rounds=0, participation=process).state


@kept
@jax.jit
def _begun(solver, problem, key, process) -> list[jax.Array]:
    return jax.tree.leaves(_start(solver, problem, key, process))


def _state(leaves, *how) -> RoundState:
    """Return the state that has these leaves; kept programs return no structure but lists."""
    return jax.tree.unflatten(jax.tree.structure(jax.eval_shape(_start, *how)), leaves)


@partial(kept, donate=(4,))  # the state
@partial(jax.jit, static_argnames="rounds", donate_argnames="state")
def _piece(solver, problem, key, process, state, watched, rounds):
    """Return the state some rounds later, and errors; not all are computed unless it is watched."""
    start = _state(state, solver, problem, key, process)
    how = {"participation": process, "every": rounds, "start": start}
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
    return jax.tree.leaves(done.state), {
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


def fresh_factors(
    solver: FedMCADMM,
    problem: MatrixCompletion,
    key: jax.Array,
    settings: RatingsSettings,
    so_far: SoFar,
) -> tuple[Factors, dict[str, jax.Array]]:
    """Return factors with fresh users, and their errors."""
    users, items, errors = _fresh(solver, problem, key, _process(settings), so_far.state)
    return Factors(users, items), errors


@kept
@jax.jit
def _fresh(solver, problem, key, process, state):
    state = _state(state, solver, problem, key, process)
    factors = solver.fresh(problem, state.solver)
    return *factors, factor_error(problem, factors)


def workers() -> Executor:
    """Return who runs several fits at a time: a fit alone leaves most cores of a CPU idle."""
    return ThreadPoolExecutor(cores() if jax.default_backend() == "cpu" else 1)


def _process(settings: RatingsSettings) -> WithoutReplacement:
    """Return who takes part in a round; of settings that fit a table."""
    assert settings.sampled is not None
    return without_replacement(settings.sampled)
