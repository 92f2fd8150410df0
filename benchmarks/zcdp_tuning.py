"""Search the settings of the private methods, as `experiments/_zcdp_settings.py` has them.

    python benchmarks/zcdp_tuning.py [--settings 200] [--trials 4] [--only METHOD] > found.txt

Every method of every task gets equally many settings at every epsilon: random ones, then half as
many near the best of them. They are judged by the mean error after 200 rounds on the same tuning
problems, which no experiment draws. P-ADMM, which is slow, gets a fifth as many.
"""

import argparse
import csv
import sys
import time
from functools import lru_cache, partial

import jax

from fedjax_admm.privacy import nearby_settings, random_settings, tune_private
from fedjax_admm.trials.experiments import zcdp

SEED = 77
ROUNDS = 200
SHIFTS = (0.0, 0.5, 1.0, 2.0)
# Methods that must move slowly, or have other steps, are searched where they work.
RANGES = {
    zcdp.ZCDP: {},
    zcdp.ADVANCED: {"step": (0.003, 1000.0), "rho": (0.3, 200.0)},
    zcdp.BASIC: {"step": (0.003, 1000.0), "rho": (0.3, 200.0)},
    zcdp.GRAD: {"step": (0.003, 20.0)},
    zcdp.P_ADMM: {"rho": (1.0, 100.0)},
}


@lru_cache
def draw(task, shift):
    return partial(draw_task, task=task, shift=shift)


def draw_task(key, *, task, shift):
    return zcdp.draw_tasks(zcdp.COMMON, key, shift)[task]


def search(task, method, epsilon, shift, settings, trials):
    def build(setting):
        return zcdp.build_solver(method, setting, epsilon, zcdp.COMMON["delta"], ROUNDS)[0]

    def tune(found):
        key = jax.random.key(SEED)
        return tune_private(build, found, draw(task, shift), key, trials=trials, rounds=ROUNDS)

    first = tune(random_settings(SEED, settings, **RANGES[method]))
    return tune(nearby_settings(SEED, first.setting, max(1, settings // 2)))


def cells(only):
    for task in zcdp.TASKS:
        for method in zcdp.RECIPES:
            if (method == zcdp.P_ADMM and task != "ridge") or (only and method != only):
                continue
            yield task, method


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", type=int, default=200)
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--only", help="one method")
    given = parser.parse_args()
    print("table,task,method,value,step,power,rho,clip,tau,error")
    for task, method in cells(given.only):
        for epsilon in zcdp.EPSILONS:
            report("tuned", task, method, epsilon, 0.0, epsilon, given)
    for task, method in cells(given.only):
        if method in (zcdp.ZCDP, zcdp.GRAD):
            for shift in SHIFTS:
                report("heterogeneous", task, method, 8.0, shift, shift, given)


def report(table, task, method, epsilon, shift, label, given):
    start = time.perf_counter()
    number = given.settings if method != zcdp.P_ADMM else max(1, given.settings // 5)
    tuned = search(task, method, epsilon, shift, number, given.trials)
    numbers = [f"{part:.4g}" for part in tuned.setting]
    row = [table, task, method, label, *numbers, f"{tuned.score:.3g}"]
    csv.writer(sys.stdout, lineterminator="\n").writerow(row)
    seconds = time.perf_counter() - start
    print(f"{task} {method} {epsilon} {shift}: {tuned.score:.3g}, {seconds:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
