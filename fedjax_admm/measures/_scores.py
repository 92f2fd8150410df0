"""Measures of how well clients' models classify: accuracy, its worst tenth, and calibration.

The model of a client is its row of the solver's estimate; where that is one model, all have it.
Samples are those of the problem's `scores`: the held-out ones, which all clients share, or else
each client's own. Test samples of each client's own make a problem of the same loss and score, on
which a measure is called after a run: `worst_accuracy(solver, test_problem, run.state.solver)`.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm.capabilities import Clients, Scores, at_state
from fedjax_admm.measures._shared import measure


@measure(Clients, Scores)
def accuracy(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Return "accuracy", the mean score over clients, each by its own estimate, shape ()."""
    return {"accuracy": jnp.mean(_scores(solver, problem, state))}


@measure(Clients, Scores)
def error_rate(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Return "error_rate", one minus the accuracy, shape ()."""
    return {"error_rate": 1 - jnp.mean(_scores(solver, problem, state))}


@measure(Clients, Scores)
def client_accuracy(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Return "client_accuracy", every client's score by its own estimate, shape (clients,)."""
    return {"client_accuracy": _scores(solver, problem, state)}


@measure(Clients, Scores)
def worst_accuracy(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Return "worst_accuracy", the mean of the `ceil(clients / 10)` smallest scores, shape ().

    The accuracy of the worst tenth of the clients says how fair a method is.
    """
    scores = jnp.sort(_scores(solver, problem, state))
    return {"worst_accuracy": jnp.mean(scores[: -(-scores.shape[0] // 10)])}


@measure(Clients, Scores)
def calibration_error(
    solver: Any,
    problem: Any,
    state: Any,
    *,
    predict: Callable[..., tuple[jax.Array, jax.Array]],
    bins: int = 15,
) -> dict[str, jax.Array]:
    r"""Return "calibration_error", the mean over clients of ECE_l, shape ().

    With c_j the largest probability of sample j, r_j whether that class is right, and B_b those of
    the M samples of client l for which `(b - 1) / bins < c_j <= b / bins`, the expected calibration
    error is

        ECE_l = sum_b |B_b| / M |mean of r_j over B_b - mean of c_j over B_b|
              = sum_b |1 / M sum_{j in B_b} (r_j - c_j)|.

    It is 0 where every confidence is the share of right classes. With few samples per bin chance
    makes it larger: compare it at equal numbers of samples and bins.

    A run takes it as `functools.partial(calibration_error, predict=predict)`, at module level.

    Args:
      solver: any.
      problem: of `problems.federated` with a score.
      state: of the solver.
      predict: `predict(params, sample) -> (probabilities (classes,), label)`; a parameter `state`
        gets the present state of the client's losses.
      bins: of equal width.

    Reference: C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger, "On Calibration of Modern Neural
    Networks", ICML 2017, equation (5).
    """

    def excess(number: jax.Array) -> jax.Array:
        @wraps(predict)  # the client's state goes to whoever has a parameter for it
        def score(*arguments: Any, **state: Any) -> jax.Array:
            probabilities, label = predict(*arguments, **state)
            confidence = jnp.max(probabilities)
            right = jnp.argmax(probabilities).astype(jnp.int32) == jnp.asarray(label, jnp.int32)
            place = jnp.ceil(confidence * bins).astype(jnp.int32) - 1
            return jnp.where(
                jnp.clip(place, 0, bins - 1) == number,
                right.astype(confidence.dtype) - confidence,
                0,
            )

        return _scores(solver, replace(problem, score=score), state)

    excesses = jax.vmap(excess)(jnp.arange(bins, dtype=jnp.int32))
    return {"calibration_error": jnp.mean(jnp.sum(jnp.abs(excesses), 0))}


def _scores(solver: Any, problem: Any, state: Any) -> jax.Array:
    """Return every client's mean score, shape (clients,)."""
    return at_state(problem, state).scores(solver.estimate(state))
