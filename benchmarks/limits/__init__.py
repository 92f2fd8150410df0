"""Families of problems that are measured against a short C program on one core.

A module of a family has

    draw(quick) -> Problem            drawn before any clock starts, pickled for the others
    pack(problem) -> list of arrays   what its C program reads, in order
    numpy(problem) -> function        that does all rounds in NumPy and returns what C writes
    engine(problem) -> function       that does them by fedjax-admm, and returns (result, seconds)
    work(problem) -> Work             arithmetic and memory of a round, as its docstring counts
    one_round(problem) -> solver, problem[, options]   of one run, for `bounds`
    score(problem, result) -> float   the mean error of a result

Nothing here imports JAX before a function is called: the process decides first on which cores it
runs, and with how many devices.
"""

import os
import time
from typing import Any, NamedTuple


class Work(NamedTuple):
    """What all rounds of a family cost at least, by a model."""

    rounds: float  # how many, over all trials
    flops: float  # of a round; an addition, a product, a comparison or a root count as one each
    bytes: float  # that a round reads and writes: state and data once, whatever cache they are in
    unit: str  # what one round is


def given(problems: Any, key: Any, trials: int) -> Any:
    """Return a function from a trial's key to its problem, so that nothing is drawn in a trial.

    Args:
      problems: a pytree of arrays, stacked over trials.
      key: the typed key whose trials they are.
      trials: how many.
    """
    import jax
    import jax.numpy as jnp

    numbers = jnp.arange(trials)
    known = jax.vmap(lambda t: jax.random.key_data(jax.random.fold_in(key, t)))(numbers)
    problems = jax.tree.map(jnp.asarray, problems)

    def of(own: Any) -> Any:
        place = jnp.argmax(jnp.all(known == jax.random.key_data(own)[None], -1))
        return jax.tree.map(lambda leaf: leaf[place], problems)

    return of


def drawn(draw: Any, key: Any, trials: int) -> Any:
    """Return the problems of all trials as NumPy arrays: `draw(fold_in(key, t))`."""
    import jax
    import jax.numpy as jnp

    keys = jax.vmap(lambda t: jax.random.fold_in(key, t))(jnp.arange(trials))
    return jax.device_get(jax.jit(jax.vmap(draw))(keys))


def clock() -> float:
    """Return seconds: of the processor where this process has one core, of the wall otherwise.

    On one core they hold on a machine that others use, too.
    """
    return time.process_time() if len(os.sched_getaffinity(0)) == 1 else time.perf_counter()


def timed(function: Any) -> Any:
    """Return a function that returns what `function` returns, and the seconds that it took."""

    def go() -> tuple[Any, float]:
        begin = clock()
        result = function()
        return result, clock() - begin

    return go


def monte_carlo(trial: Any, key: Any, trials: int, name: str) -> Any:
    """Return a function that runs all trials by the engine: the result of that name, and seconds.

    The program is compiled at once.
    """
    from fedjax_admm.trials import engine

    mesh = engine.default_mesh()
    program = engine.compile_trials(trial, key, trials, chunk=trials, mesh=mesh)
    return timed(lambda: program(0, trials).arrays[name])
