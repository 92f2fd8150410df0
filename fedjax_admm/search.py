"""Choosing hyper-parameters: a solver at every value of a grid, in one compiled call.

Give it a problem whose score does not look at the data by which the final result is judged, such as
`MatrixCompletion.tuning`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm._checks import count, function_of, leading, one_of, real_array
from fedjax_admm._host._programs import compiled_once
from fedjax_admm._run._results import Measure
from fedjax_admm._run._rounds import run
from fedjax_admm.participation import Participation


class GridSearch(NamedTuple):
    """What `grid_search` returns."""

    best: Any  # the solver with the smallest score
    place: jax.Array  # shape=(), int32: its place in the grid
    scores: jax.Array  # shape=(values,): after the last round; infinite where a run failed


def grid_search(
    solver: Callable[[Any], Any],
    values: Any,
    problem: Any,
    key: jax.Array,
    *,
    rounds: int,
    measure: Measure,
    metric: str,
    participation: Participation | None = None,
    width: int | None = None,
) -> GridSearch:
    """Run `solver(value)` for every value and choose the one with the smallest metric at the end.

    All runs see the same draws (of the start, of who takes part), so that they differ by the value
    alone. It can be traced: inside `jit`, `best` is a solver whose leaves are computed; outside, it
    is compiled at every call.

    Args:
      solver: value -> solver; the solvers differ in leaves only.
      values: a pytree of arrays with a leading axis, the grid.
      problem: what to run on.
      key: a typed key.
      rounds: of every run.
      measure: as in `run`.
      metric: name of the entry of `measure` to make small.
      participation: as in `run`.
      width: values that run side by side; if None, all on an accelerator and one on a CPU, where
        that takes the least memory and, for large states, the least time.

    Returns:
      A `GridSearch`.

    Raises:
      InputError: an argument of `run` does not fit, or `measure` has no entry called `metric`.
    """
    rounds = count("rounds", rounds)
    function_of("solver", solver, "value")
    settings = _settings(values)
    width = None if width is None else count("width", width)

    def score(value):
        result = run(
            solver(value),
            problem,
            key,
            rounds=rounds,
            participation=participation,
            measure=measure,
            every=rounds,
        )
        one_of("metric", metric, result.trace)
        last = result.trace[metric][-1]
        return jnp.where(jnp.isfinite(last), last, jnp.inf)

    scores = compiled_once(partial(_mapped, score, _width(settings, width)), values)
    place = jnp.argmin(scores).astype(jnp.int32)
    return GridSearch(solver(jax.tree.map(lambda leaf: leaf[place], values)), place, scores)


def _settings(values: Any) -> int:
    """Return the length of the leading axis of a grid."""
    real_array("values", jax.tree.leaves(values)[:1])
    return leading("values", values, "values")[0]


def _width(settings: int, width: int | None) -> int:
    if width is not None:
        return width
    return 1 if jax.default_backend() == "cpu" else settings


def _mapped(function: Callable, width: int, values: Any) -> Any:
    # A batch of one costs more than no batch.
    return jax.lax.map(function, values, batch_size=None if width == 1 else width)
