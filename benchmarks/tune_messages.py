"""Tune the methods of `messages-compression`, as `experiments/tuned/compression.csv` has them.

    python benchmarks/tune_messages.py [--tasks NAME ...] > found.txt

Every channel of every task gets the same settings, those of the task's grid, run side by side on
tuning problems that no experiment draws. The best setting needs the fewest bits until the target is
reached, on average, where a run that never reaches it counts with all its bits; among those that
never reach it, the one with the smallest error in the end, in the logarithm. What is printed is the
place of the best setting in the grid.
"""

import argparse
import csv
import sys
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm.trials.experiments.messages import compression

SEED = 77
_FAILED = 1e6  # the error of a run that is not finite


def scores(name, settings, rounds, target, keys):
    """Return bits to the target and errors in the end, (trials, channels, settings) each."""
    task = compression.TASKS[name]
    channels = tuple(compression.channels_of(settings, task).values())
    columns = [jnp.asarray(column, float) for column in zip(*task.grid(), strict=True)]

    def of_trial(key):
        problem_key, method_key = jax.random.split(key)
        posed = compression.draw_problems(settings, target, problem_key, (name,))[name]

        def at(place, setting):
            method = compression.Compressed(
                place, setting, jnp.asarray(target, float), channels, name
            )
            trace, bad = method.traced(posed, method_key, rounds)
            error = jnp.where(bad > 0, _FAILED, jnp.clip(trace["error"][-1], 1e-6, _FAILED))
            return trace["bits_to_target"][-1], jnp.where(jnp.isfinite(error), error, _FAILED)

        places = jnp.arange(len(channels), dtype=jnp.int32)
        grid = compression.Setting(*columns)
        return jax.lax.map(lambda place: jax.vmap(partial(at, place))(grid), places)

    return jax.jit(jax.vmap(of_trial))(keys)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="*", default=list(compression.TASKS))
    parser.add_argument("--trials", type=int, default=8)
    given = parser.parse_args()
    (experiment,) = compression.EXPERIMENTS
    settings, (target,) = experiment.defaults(), experiment.sweep.values
    keys = jax.random.split(jax.random.key(SEED), given.trials)
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["task", "channel", "place", "bits", "log10_error"])
    for name in given.tasks:
        begin = time.perf_counter()
        bits, errors = map(np.asarray, scores(name, settings, experiment.rounds, target, keys))
        bits, errors = bits.mean(0), np.log10(errors).mean(0)
        channels = compression.channels_of(settings, compression.TASKS[name])
        for place, channel in enumerate(channels):
            best = int(np.lexsort((errors[place], bits[place]))[0])
            found = f"{bits[place, best]:.3g}", f"{errors[place, best]:.1f}"
            table.writerow([name, channel, best, *found])
        print(f"{name}: {time.perf_counter() - begin:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
