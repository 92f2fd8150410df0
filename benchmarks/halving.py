"""Successive halving beside the whole grid, on tasks whose tuned settings the experiments use.

    python benchmarks/halving.py [--settings 100] [--tasks NAME ...]

Settings are drawn from the ranges of the task's own grid, uniform in their logarithms. Both
searches see the same problems under the same keys. "Worse by" is the paired difference of the
chosen settings after all rounds on all trials of the whole grid, with its standard error; work is
counted in rounds of one trial.
"""

import argparse
import time
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_admm as fa
from fedjax_admm.trials.experiments.messages import delay
from fedjax_admm.trials.experiments.messages.delay import SOLVERS, Delayed, Setting

SEED, FAILED, MEAN = 77, 1e6, 5.0


class Task(NamedTuple):
    """A method whose settings are chosen, from `experiments/tuned/delay.csv`."""

    trials: int
    rounds: int


TASKS = {
    "LAD: FedADMM": Task(16, 300),
    "least squares: SCAFFOLD": Task(16, 300),
    "localisation: FSMDM": Task(64, 300),
}


def score(name: str, value: Any, drawn: Any, key: jax.Array, rounds: int) -> jax.Array:
    """Return the error after the last round, at most `FAILED`."""
    method = Delayed(jnp.zeros((), jnp.int32), jnp.asarray(MEAN), Setting(*value), name, False)
    return jnp.minimum(method(drawn, key, rounds, rounds)["error"][-1], FAILED)


def draw(key: jax.Array) -> Any:
    """Draw the problems of a trial."""
    (experiment,) = delay.EXPERIMENTS
    return delay.draw_problems(experiment.defaults(), 0.0, key)


def grid(name: str, settings: int) -> tuple[jax.Array, jax.Array]:
    """Draw settings from the ranges of a solver's own grid."""
    rng = np.random.default_rng(SEED)
    ranges = (SOLVERS[name].firsts, SOLVERS[name].seconds)
    columns = [np.exp(rng.uniform(np.log(min(r)), np.log(max(r)), settings)) for r in ranges]
    return tuple(jnp.asarray(column, float) for column in columns)


def compare(name: str, settings: int) -> None:
    """Run both searches and print a row."""
    task, values = TASKS[name], grid(name, settings)
    arguments = (partial(score, name), values, draw, jax.random.key(SEED))
    sizes = {"trials": task.trials, "rounds": task.rounds}
    taken = []
    for stages in (1, None):
        jax.clear_caches()  # or the second search would find a program of the first
        clock = time.process_time()
        found = fa.successive_halving(*arguments, **sizes, stages=stages)
        taken.append((found, time.process_time() - clock))
    (whole, whole_time), (halved, halved_time) = taken
    scores = whole.stages[0].scores
    apart = scores[:, halved.place] - scores[:, whole.place]
    work = [sum(s.scores.size * s.rounds for s in found.stages) for found, _ in taken]
    error = apart.std(ddof=1) / np.sqrt(len(apart))
    print(
        f"| {name} | {whole.place} | {halved.place} | {scores[:, whole.place].mean():.3g} "
        f"| {apart.mean():.2g} +- {error:.1g} | {work[1] / work[0]:.2f} "
        f"| {whole_time:.0f}, {halved_time:.0f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--settings", type=int, default=100)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    given = parser.parse_args()
    print("| task | whole grid | halving | error | worse by | work | processor s, with compiling |")
    print("|---|---|---|---|---|---|---|")
    for name in given.tasks:
        compare(name, given.settings)


if __name__ == "__main__":
    main()
