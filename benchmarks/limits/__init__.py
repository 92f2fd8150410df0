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


def monte_carlo(trial: Any, key: Any, trials: int) -> Any:
    """Return a function that runs all trials by the engine: results by name, and seconds."""
    from fedjax_admm.trials import engine

    def go():
        outcome = engine.monte_carlo(trial, key, trials, chunk=trials, progress=False)
        return outcome.arrays, outcome.seconds.run + outcome.seconds.transfer

    return go
