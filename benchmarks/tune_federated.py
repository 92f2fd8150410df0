"""Tune the methods of the benchmarks, as `experiments/tuned/benchmarks.csv` has them.

    python benchmarks/tune_federated.py federated-benchmark [--tasks NAME ...] > found.txt
    python benchmarks/tune_federated.py nonsmooth-benchmark > found.txt

Every method of every task gets the same number of settings, run side by side in one compiled call
on tuning problems that no experiment draws, and is judged by the mean error after the last round.
On digits that is the error on images for validation; images for testing are not looked at. What is
printed is the place of the best setting in the method's grid, for every swept value.
"""

import argparse
import csv
import sys
import time
from functools import partial

import jax
import jax.numpy as jnp

from fedjax_admm.trials.experiments.peers import federated, nonsmooth

SEED = 77
MODULES = {"federated-benchmark": federated, "nonsmooth-benchmark": nonsmooth}


def scorer(recipe, rounds, drawn, measure):
    """Return (problems, keys, penalty of a mean, penalty of a sum) -> scores, compiled once."""

    def score(problems, keys, of_mean, of_sum):
        return federated.tuning_scores(
            recipe,
            problems,
            keys,
            lambda factor: of_mean if factor == 1 else of_sum,
            rounds=rounds,
            drawn=drawn,
            measure=measure,
        )

    return jax.jit(score)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=MODULES)
    parser.add_argument("--tasks", nargs="*", help="all if left out")
    parser.add_argument("--methods", nargs="*", help="all if left out")
    parser.add_argument("--trials", type=int, default=3)
    given = parser.parse_args()
    module = MODULES[given.experiment]
    (experiment,) = module.EXPERIMENTS
    settings, values = experiment.defaults(), experiment.sweep.values
    keys = jax.random.split(jax.random.key(SEED), given.trials)
    draw = jax.jit(jax.vmap(partial(module.draw_problem, settings, tuning=True), (None, 0)))
    drawn = {value: draw(jnp.asarray(value, float), keys) for value in values}
    tasks = given.tasks or module.TASKS
    scorers, table = {}, csv.writer(sys.stdout, lineterminator="\n")
    for name in given.methods or module.recipes(next(iter(tasks))):
        for task in tasks:
            if name not in module.recipes(task):
                continue
            recipe = module.recipes(task)[name]
            if id(recipe) not in scorers:
                rounds, clients = experiment.rounds, settings["drawn"]
                scorers[id(recipe)] = scorer(recipe, rounds, clients, module.measure)
            penalty = module.penalty_of(task, settings)
            penalties = penalty(1.0), penalty(float(settings["clients"]))
            begin = time.perf_counter()
            for value in values:
                problems = module.tasks_of(drawn[value], task)
                mean = jnp.mean(scorers[id(recipe)](problems, keys, *penalties), 0)
                found = int(jnp.argmin(mean)), f"{float(jnp.min(mean)):.3g}"
                table.writerow([given.experiment, task, name, value, *found])
            print(f"{task} {name}: {time.perf_counter() - begin:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
