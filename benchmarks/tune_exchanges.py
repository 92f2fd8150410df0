"""Tune `messages-byzantine` and `messages-delay`, for the tables of `experiments/tuned`.

    python benchmarks/tune_exchanges.py messages-byzantine
    python benchmarks/tune_exchanges.py messages-delay

Settings are judged by the mean error after the last round, a failed run counting as 1e6, on
problems that no experiment draws. Everybody has 12 of them.
"""

import argparse
import sys
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm.trials.experiments.messages import byzantine, delay
from fedjax_admm.trials.experiments.messages.byzantine import (
    AGGREGATORS,
    SHOWN,
    TARGETS,
    Attacked,
    Radii,
)
from fedjax_admm.trials.experiments.messages.delay import SOLVERS, Delayed, Setting

SEED, TRIALS, FAILED = 77, 8, 1e6
MORE_TRIALS = 60
"""Localisation meets a local minimum now and then, which decides the mean."""
LIARS = 0.2


def mean_error(method_of, numbers, draw, rounds, trials=TRIALS):
    """Return the mean error over trials of every row of numbers, shape (rows,)."""

    def trial(key):
        problem_key, method_key = jax.random.split(key)
        problem = draw(problem_key)

        def one(row):
            found = method_of(row)(problem, method_key, rounds, rounds)["error"][-1]
            return jnp.where(jnp.isfinite(found), jnp.minimum(found, FAILED), FAILED)

        return jax.lax.map(one, jnp.asarray(numbers, float))

    keys = jax.random.split(jax.random.key(SEED), trials)
    return np.mean(jax.jit(jax.vmap(trial))(keys), 0)


def tune_byzantine(tasks):
    """Print the numbers of every task."""
    (experiment,) = byzantine.EXPERIMENTS
    settings, rounds = experiment.defaults(), experiment.rounds
    rules = [AGGREGATORS.index(name) for name in ("centred clipping", "norm bounding")]
    for task in tasks or TARGETS:
        begin, target = time.perf_counter(), TARGETS[task]
        attacks = range(len(SHOWN[task]))

        def draw(share, key, task=task, target=target):
            return {task: target.draw(settings, share, key)}

        def method_of(row, task=task, target=target):
            attack, aggregator, chosen, *radii = row
            places = attack.astype(jnp.int32), aggregator.astype(jnp.int32)
            senders = target.senders(settings)
            return Attacked(*places, chosen, Radii(*radii), byzantine.EXPECTED, senders, task)

        rows = [(0, 0, number, 1, 1) for number in target.grid]
        errors = mean_error(method_of, rows, partial(draw, 0.0), rounds)
        number = target.grid[int(np.argmin(errors))]
        rows = [
            (attack, rule, number, radius, radius)
            for rule in rules
            for radius in target.radii
            for attack in attacks
        ]
        errors = mean_error(method_of, rows, partial(draw, LIARS), rounds)
        errors = errors.reshape(len(rules), len(target.radii), len(attacks)).mean(-1)
        clipping, bounding = (target.radii[place] for place in errors.argmin(1))
        found = ",".join(f"{each:.3g}" for each in errors.min(1))
        print(f"{task},{number},{clipping},{bounding},{found}", flush=True)
        print(f"{time.perf_counter() - begin:.0f} s", file=sys.stderr)


def tune_delay(names):
    """Print the settings of every solver."""
    (experiment,) = delay.EXPERIMENTS
    settings, means = experiment.defaults(), experiment.sweep.values
    for name in names or SOLVERS:
        begin, grid = time.perf_counter(), SOLVERS[name].grid()

        def method_of(row, name=name):
            mean, *setting = row
            none = jnp.zeros((), jnp.int32)
            return Delayed(none, mean, Setting(*setting), name, in_order=False)

        rows = [(mean, *setting) for mean in means for setting in grid]
        draw = partial(delay.draw_problems, settings, 0.0)
        trials = MORE_TRIALS if name.startswith("localisation") else TRIALS
        errors = mean_error(method_of, rows, draw, experiment.rounds, trials)
        errors = errors.reshape(len(means), -1)
        for mean, row in zip(means, errors, strict=True):
            print(f"{name},{mean},{row.argmin()},{row.min():.3g}", flush=True)
        print(f"{time.perf_counter() - begin:.0f} s", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=["messages-byzantine", "messages-delay"])
    parser.add_argument("--tasks", nargs="*", help="or solvers; all if left out")
    given = parser.parse_args()
    if given.experiment == "messages-byzantine":
        tune_byzantine(given.tasks)
    else:
        tune_delay(given.tasks)


if __name__ == "__main__":
    main()
