"""Choosing hyper-parameters: a solver at every value of a grid, or at fewer and fewer of them.

    grid_search(solver, values, problem, key, ...)          one problem, one compiled call
    successive_halving(score, values, draw, key, ...)       many problems, and half of the values
                                                            after every stage

Give them a problem whose score does not look at the data by which the final result is judged, such
as `MatrixCompletion.tuning`.
"""

import math
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import (
    InputError,
    count,
    function_of,
    one_line,
    real_array,
    typed_key,
)
from fedjax_admm._host import compiled, compiled_once
from fedjax_admm._run import Checkpoint, Measure, identity_of, run
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
        if metric not in result.trace:
            raise InputError(
                f"must be one of {', '.join(result.trace)}, but it is {metric!r}",
                argument="metric",
                value=metric,
            )
        last = result.trace[metric][-1]
        return jnp.where(jnp.isfinite(last), last, jnp.inf)

    scores = compiled_once(partial(_mapped, score, _width(settings, width)), values)
    place = jnp.argmin(scores).astype(jnp.int32)
    return GridSearch(solver(jax.tree.map(lambda leaf: leaf[place], values)), place, scores)


class Stage(NamedTuple):
    """A stage of `successive_halving`: all of its settings have run on the same problems."""

    places: np.ndarray  # shape=(settings,), int64: in the grid
    scores: np.ndarray  # shape=(trials, settings): infinite where a run failed
    rounds: int  # of every run


class Halving(NamedTuple):
    """What `successive_halving` returns."""

    best: Any  # the value with the smallest mean score in the last stage
    place: int  # its place in the grid
    stages: tuple[Stage, ...]

    def differences(self) -> tuple[np.ndarray, np.ndarray]:
        """Return by how much the others of the last stage are worse than the best, on the average.

        Returns:
          Mean over trials of the paired differences, and its standard error, shape (settings,)
          each, in the order of `stages[-1].places`; NaN where a run failed.
        """
        places, scores, _ = self.stages[-1]
        with np.errstate(invalid="ignore"):
            apart = scores - scores[:, places == self.place]
            mean = apart.mean(0)
            spread = apart.std(0, ddof=1) if len(apart) > 1 else np.full(mean.shape, np.nan)
        return mean, spread / math.sqrt(len(apart))


def successive_halving(
    score: Callable[[Any, Any, jax.Array, int], jax.Array],
    values: Any,
    draw: Callable[[jax.Array], Any],
    key: jax.Array,
    *,
    trials: int,
    rounds: int,
    stages: int | None = None,
    width: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Halving:
    """Choose among many settings: run all on a small budget, and the better half on twice as much.

    The budget of a setting is trials times rounds. Stage s of S has the budget `trials rounds /
    2^(S-1-s)`: the first stages run a quarter of the rounds, on a few trials, two at least, and
    then on all; the last but one all rounds on half of the trials, the last all on all. All
    settings of a stage run on the same problems with the same keys, so that they are
    told apart by paired differences, and the better half by the mean goes on. Of 100 settings, six
    stages take a fifth of the work of the whole grid.

    A setting that is slow at first and best in the end can be lost: ask for fewer stages where
    early rounds tell little. Two programs are compiled, one for each number of rounds, where
    settings run one by one; settings that run side by side need one for each number of them too.

    Args:
      score: `score(value, drawn, key, rounds) -> number` to make small, such as the error of
        `run(solver(value), drawn, key, rounds=rounds, ...)` after the last round; `rounds` is
        static. A function of the module level, or a fixed one: a fresh one compiles again.
      values: a pytree of arrays with a leading axis, the settings.
      draw: `draw(key) -> drawn`, such as a problem; all trials are drawn once, for all settings and
        stages, and kept.
      key: a typed key, of which no later evaluation makes use.
      trials: of the last stage.
      rounds: of the last stage.
      stages: how many; as many as leave two settings, six at most, if None.
      width: as in `grid_search`, the settings of a trial that run side by side.
      checkpoint: a file into which the scores are written after each stage, whole or not at all;
        where it is there already, the search goes on from it.

    Returns:
      A `Halving`.

    Raises:
      InputError: an argument does not fit, the checkpoint is of another search, or no setting has
        a finite mean in the last stage.

    Reference: K. Jamieson, A. Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter
    Optimization", AISTATS 2016, algorithm 1.
    """
    typed_key(key)
    function_of("score", score, "value", "drawn", "key", "rounds")
    function_of("draw", draw, "key")
    settings = _settings(values)
    trials, rounds = count("trials", trials), count("rounds", rounds)
    most = max(1, math.ceil(math.log2(settings)))
    stages = min(6, most) if stages is None else count("stages", stages, at_most=most)
    keys = jax.random.split(key, trials)
    budgets = [_budget(trials, rounds, stages - 1 - stage) for stage in range(stages)]
    numbers = [math.ceil(settings / 2**stage) for stage in range(stages)]
    known = [
        np.full((some, number), np.nan) for (some, _), number in zip(budgets, numbers, strict=True)
    ]
    file = drawn = None
    if checkpoint is not None:
        sizes = {"trials": trials, "rounds": rounds, "stages": stages}
        given = {"score": score, "values": values, "draw": draw, "key": key}
        file = Checkpoint(Path(checkpoint), identity_of(given | sizes))
        known = file.read(lambda: known) or known
    places, done = np.arange(settings), []
    for stage, (number, (some, length)) in enumerate(zip(numbers, budgets, strict=True)):
        if stage:
            order = np.argsort(known[stage - 1].mean(0), kind="stable")
            places = places[np.sort(order[:number])]
        if np.isnan(known[stage]).any():
            drawn = _drawn(keys, draw=draw) if drawn is None else drawn
            known[stage] = _scores(places, values, keys, drawn, some, score, length, width)
            if file is not None:
                file.write(known)
        done.append(Stage(places, known[stage], length))
    means = known[-1].mean(0)
    place = int(places[np.argmin(means)])
    if not np.isfinite(means.min()):
        raise InputError(
            f"must hold one that stays finite in all {trials} trials, but none of those that were "
            "left does",
            argument="values",
            value=values,
        )
    return Halving(jax.tree.map(lambda leaf: leaf[place], values), place, tuple(done))


def _budget(trials: int, rounds: int, halvings: int) -> tuple[int, int]:
    """Return trials and rounds whose product is halved so many times; rounds have two lengths."""
    short = halvings > 1
    some = math.ceil(trials / 2 ** (halvings - 2 * short))
    return min(trials, max(2, some)), max(1, round(rounds / 4)) if short else rounds


def _scores(places, values, keys, drawn, some, score, rounds, width) -> np.ndarray:
    """Return the scores of some trials and settings, shape (trials, settings), float64.

    The sizes of the program's arrays are those of all trials and settings.
    """
    side = _width(places.size, width)
    whole = places if width is None and side > 1 else np.arange(_settings(values))
    held = np.zeros(-(-whole.size // side) * side, np.int32)
    held[: places.size] = places
    sizes = jnp.asarray([some, -(-places.size // side)], jnp.int32)
    arrays = (jax.tree.map(jnp.asarray, values), keys, drawn, held, sizes)
    found = _stage(*arrays, score=score, rounds=rounds, width=side)
    return np.asarray(found, float)[:some, : places.size]


@compiled
def _drawn(keys, *, draw) -> Any:
    """Return what is drawn for every trial, stacked."""
    return jax.lax.map(lambda key: draw(jax.random.split(key)[0]), keys)


@compiled
def _stage(values, keys, drawn, places, sizes, *, score, rounds, width) -> jax.Array:
    """Return the scores of the first trials and blocks of `width` settings, the others zero.

    Shapes: keys (trials,), places (settings,), sizes (2,), how many trials and blocks; the result
    is (trials, settings).
    """

    def of_trial(trial, scores):
        run_key = jax.random.split(keys[trial])[1]
        problem = jax.tree.map(lambda leaf: leaf[trial], drawn)

        def one(place):
            found = score(jax.tree.map(lambda leaf: leaf[place], values), problem, run_key, rounds)
            return jnp.where(jnp.isfinite(found), found, jnp.inf).astype(scores.dtype)

        def of_block(block, scores):
            first = block * width
            here = jax.lax.dynamic_slice(places, (first,), (width,))
            # A batch of one costs more than no batch.
            found = one(here[0])[None] if width == 1 else jax.vmap(one)(here)
            return jax.lax.dynamic_update_slice(scores, found[None], (trial, first))

        return jax.lax.fori_loop(0, sizes[1], of_block, scores)

    scores = jnp.zeros((keys.shape[0], places.shape[0]), float)
    return jax.lax.fori_loop(0, sizes[0], of_trial, scores)


def _settings(values: Any) -> int:
    """Return the length of the leading axis of a grid."""
    real_array("values", jax.tree.leaves(values)[:1])
    lengths = {jnp.shape(leaf)[:1] for leaf in jax.tree.leaves(values)}
    if len(lengths) != 1 or lengths & {(), (0,)}:
        raise InputError(
            "must be a pytree of arrays with one leading axis, the grid, but it is "
            f"{one_line(values)}",
            argument="values",
            value=values,
        )
    return lengths.pop()[0]


def _width(settings: int, width: int | None) -> int:
    if width is not None:
        return width
    return 1 if jax.default_backend() == "cpu" else settings


def _mapped(function: Callable, width: int, values: Any) -> Any:
    # A batch of one costs more than no batch.
    return jax.lax.map(function, values, batch_size=None if width == 1 else width)
