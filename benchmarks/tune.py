"""Tune the methods of an experiment, for the tables of `trials/experiments/tuned`.

    python benchmarks/tune.py TABLE [--only NAME ...] > found.csv

    federated-benchmark, nonsmooth-benchmark    tuned/benchmarks.csv
    messages-byzantine                          tuned/byzantine.csv
    messages-compression                        tuned/compression.csv
    messages-delay                              tuned/delay.csv
    zcdp                                        tuned/zcdp.csv

All settings of a method are tried on the same problems, which no experiment draws. The smallest
mean score is taken: the error after the last round, a failed run counting as 1e6, unless the table
says otherwise.

messages-byzantine takes the best number without Byzantine senders, then the best radii by the mean
over attacks at the share 0.2. messages-compression takes the fewest bits until the target, where a
run that never reaches it counts with all its bits, and the smallest error in the end among those
that never reach it. On digits of federated-benchmark the error is that on images for validation;
images for testing are not looked at. zcdp takes the best of random settings, then of half as many
near it; P-ADMM, which is slow, has a fifth of them.
"""

import argparse
import csv
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_admm as fa
from fedjax_admm.measures import consensus_error
from fedjax_admm.trials.experiments import zcdp
from fedjax_admm.trials.experiments.messages import byzantine, compression, delay
from fedjax_admm.trials.experiments.peers import federated, nonsmooth

SEED, FAILED = 77, 1e6


def search(label, score, values, draw, trials, rounds) -> tuple[int, float]:
    """Try all values on the same problems; `score(value, drawn, key, rounds)` is to be small."""
    values, keys = jax.tree.map(jnp.asarray, values), jax.random.split(jax.random.key(SEED), trials)
    clock = time.process_time()
    tried = scores(values, keys, drawn_problems(keys, draw=draw), score=score, rounds=rounds)
    means = np.asarray(tried, float).mean(0)
    place = int(np.argmin(means))
    seconds = time.process_time() - clock
    told = f"{label}: place {place}, {seconds:.1f} s of processor time"
    print(told, file=sys.stderr, flush=True)
    return place, float(means[place])


@partial(jax.jit, static_argnames="draw")
def drawn_problems(keys, *, draw):
    """Return what is drawn for every trial, stacked."""
    return jax.lax.map(lambda key: draw(jax.random.split(key)[0]), keys)


@partial(jax.jit, static_argnames=("score", "rounds"))
def scores(values, keys, drawn, *, score, rounds):
    """Return the scores of all values on all problems, shape (trials, values); inf is a failure."""

    def of_trial(trial):
        key, problem = trial
        run_key = jax.random.split(key)[1]
        return jax.lax.map(lambda value: score(value, problem, run_key, rounds), values)

    found = jax.lax.map(of_trial, (keys, drawn))
    return jnp.where(jnp.isfinite(found), found, jnp.inf)


def columns(rows: Sequence[Sequence[float]]) -> tuple[np.ndarray, ...]:
    """Return the columns of a grid, in the usual float."""
    return tuple(np.asarray(column, jnp.zeros(()).dtype) for column in zip(*rows, strict=True))


def repeated(tree: Any, number: int) -> Any:
    """Return arrays with one more axis, along which they are the same."""
    return jax.tree.map(lambda leaf: jnp.stack([leaf] * number), tree)


def wanted(only: Sequence[str], *labels: Any) -> bool:
    """Return whether all names that were asked for are among a row's."""
    return set(only) <= {str(label) for label in labels}


def last_error(method: Any, drawn: Any, key: jax.Array, rounds: int) -> jax.Array:
    """Return a method's error after the last round, at most `FAILED`."""
    found = method(drawn, key, rounds, rounds)["error"][-1]
    return jnp.where(jnp.isfinite(found), jnp.minimum(found, FAILED), FAILED)


# --- benchmarks.csv ---


def benchmarks(module: Any, only: Sequence[str], trials: int) -> Iterator[list]:
    """Yield the best setting of every method of every task, at every swept value."""
    (experiment,) = module.EXPERIMENTS
    settings, swept = experiment.defaults(), experiment.sweep.values

    draw = partial(module.draw_problem, settings, tuning=True)
    draws = [partial(draw, jnp.asarray(value, float)) for value in swept]
    for name, recipe, alike in shared_recipes(module):

        def score(value, drawn, key, rounds, recipe=recipe, alike=alike):
            task, (of_mean, of_sum), *numbers = value
            one = jax.tree.map(lambda leaf: leaf[None], drawn)
            each = [module.tasks_of(one, other) for other in alike]
            problem = jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[task], *each)
            return federated.tuning_score(
                recipe,
                federated.Setting(*numbers),
                problem,
                key,
                lambda factor: of_mean if factor == 1 else of_sum,
                rounds=rounds,
                drawn=settings["drawn"],
                measure=module.measure,
            )

        grid = columns(recipe.grid())
        for task in alike:
            penalty = module.penalty_of(task, settings)
            penalties = penalty(1.0), penalty(float(settings["clients"]))
            for value, draw in zip(swept, draws, strict=True):
                if not wanted(only, task, name, value):
                    continue
                same = jnp.int32(alike.index(task)), penalties
                label = f"{experiment.name} {task} {name} {value}"
                tried = (*repeated(same, len(grid[0])), *grid)
                found = search(label, score, tried, draw, trials, experiment.rounds)
                yield [experiment.name, task, name, value, *found]


def shared_recipes(module: Any) -> Iterator[tuple[str, Any, list[str]]]:
    """Yield every recipe once, with its name and the tasks that it is for: they share programs."""
    seen: dict[int, tuple[str, Any, list[str]]] = {}
    for task in module.TASKS:
        for name, recipe in module.recipes(task).items():
            seen.setdefault(id(recipe), (name, recipe, []))[2].append(task)
    yield from seen.values()


# --- byzantine.csv ---

SHARE = 0.2


def of_byzantine(only: Sequence[str], trials: int) -> Iterator[list]:
    """Yield the number of every task's solver, and the radii of clipping and bounding."""
    (experiment,) = byzantine.EXPERIMENTS
    settings, rounds = experiment.defaults(), experiment.rounds
    for task, target in byzantine.TARGETS.items():
        if not wanted(only, task):
            continue

        def draw(key, share, task=task, target=target):
            return {task: target.draw(settings, share, key)}

        def score(value, drawn, key, rounds, attacks, task=task, target=target):
            rule, number, radius = value

            def under(attack):
                radii, senders = byzantine.Radii(radius, radius), settings[target.senders]
                method = byzantine.Attacked(
                    attack, rule, number, radii, byzantine.EXPECTED, senders, task
                )
                return last_error(method, drawn, key, rounds)

            return jnp.mean(jax.lax.map(under, jnp.arange(attacks, dtype=jnp.int32)))

        def values(rule, numbers, radii):
            grid = columns([(number, radius) for number in numbers for radius in radii])
            place = jnp.int32(byzantine.AGGREGATORS.index(rule))
            return (repeated(place, len(grid[0])), *grid)

        places = values("mean", target.grid, (1.0,))
        honest, among = partial(draw, share=0.0), partial(draw, share=SHARE)
        place, _ = search(task, partial(score, attacks=1), places, honest, trials, rounds)
        number, radii, errors = target.grid[place], [], []
        attacked = partial(score, attacks=len(byzantine.SHOWN[task]))
        for rule in ("centred clipping", "norm bounding"):
            tried = values(rule, (number,), target.radii)
            place, error = search(f"{task} {rule}", attacked, tried, among, trials, rounds)
            radii.append(target.radii[place])
            errors.append(error)
        yield [task, number, *radii, f"{errors[0]:.3g}", errors[1]]


# --- compression.csv ---

TIE = 1e-4
"""What a tenfold error in the end counts, as a share of the bits: less than a round of them."""


def of_compression(only: Sequence[str], trials: int) -> Iterator[list]:
    """Yield the best setting of every channel of every task, and the bits until the target."""
    (experiment,) = compression.EXPERIMENTS
    settings, (target,) = experiment.defaults(), experiment.sweep.values
    for name, task in compression.TASKS.items():
        named = compression.channels_of(settings, task)
        channels = tuple(named.values())

        def draw(key, name=name):
            return compression.draw_problems(settings, target, key, (name,))[name]

        def score(value, drawn, key, rounds, name=name, channels=channels):
            place, *numbers = value
            aim, setting = jnp.asarray(target, float), federated.Setting(*numbers)
            method = compression.Compressed(place, setting, aim, channels, name)
            trace, bad = method.traced(drawn, key, rounds)
            error = jnp.where(bad > 0, FAILED, jnp.clip(trace["error"][-1], 1e-6, FAILED))
            error = jnp.where(jnp.isfinite(error), error, FAILED)
            return trace["bits_to_target"][-1] * (1 + TIE * jnp.log10(error))

        grid = columns(task.grid())
        for place, channel in enumerate(named):
            if not wanted(only, name, channel):
                continue
            values = (repeated(jnp.int32(place), len(grid[0])), *grid)
            label = f"{name} {channel}"
            found = search(label, score, values, draw, trials, experiment.rounds)
            yield [name, channel, *found]


# --- delay.csv ---

MORE_TRIALS = 60
"""Localisation meets a local minimum now and then, which decides the mean."""


def of_delay(only: Sequence[str], trials: int) -> Iterator[list]:
    """Yield the best setting of every solver at every mean delay."""
    (experiment,) = delay.EXPERIMENTS
    draw = partial(delay.draw_problems, experiment.defaults(), 0.0)
    for name, solver in delay.SOLVERS.items():

        def score(value, drawn, key, rounds, name=name):
            mean, *numbers = value
            none = jnp.zeros((), jnp.int32)
            method = delay.Delayed(none, mean, federated.Setting(*numbers), name, in_order=False)
            return last_error(method, drawn, key, rounds)

        many = MORE_TRIALS if name.startswith("localisation") else trials
        for mean in experiment.sweep.values:
            if not wanted(only, name, mean):
                continue
            grid = columns([(mean, *setting) for setting in solver.grid()])
            found = search(f"{name} {mean}", score, grid, draw, many, experiment.rounds)
            yield [name, mean, *found]


# --- zcdp.csv ---

ROUNDS, NUMBER = 200, 200
SHIFTS = (0.0, 0.5, 1.0, 2.0)
# Methods that must move slowly, or have other steps, are searched where they work.
RANGES: dict[str, dict[str, Any]] = {
    zcdp.ZCDP: {},
    zcdp.ADVANCED: {"step": (0.003, 1000.0), "rho": (0.3, 200.0)},
    zcdp.BASIC: {"step": (0.003, 1000.0), "rho": (0.3, 200.0)},
    zcdp.GRAD: {"step": (0.003, 20.0)},
    zcdp.P_ADMM: {"rho": (1.0, 100.0)},
}


def private_error(solver: Any, problem: Any, key: jax.Array, rounds: int) -> jax.Array:
    """Return the mean error of a private solver after the last round."""
    options = {"rounds": rounds, "measure": consensus_error, "every": rounds}
    return fa.run(solver, problem, key, **options).trace["unprotected_error"][-1]


@lru_cache
def drawn_with(task: str, shift: float) -> Callable[[jax.Array], Any]:
    """Return what draws the problem of a task."""
    return lambda key: zcdp.draw_tasks(zcdp.COMMON, key, shift)[task]


POWERS, TAUS = (0.0, 0.5, 1.0), (0.97, 0.975, 0.98, 0.985, 0.99)


def random_settings(
    number: int,
    *,
    step: tuple[float, float] = (0.3, 1000.0),
    rho: tuple[float, float] = (0.3, 20.0),
    clip: tuple[float, float] = (0.3, 8.0),
) -> list[zcdp.PrivateSetting]:
    """Draw settings: step, rho and clip uniform in their logarithms, power and tau from a list."""
    rng = np.random.default_rng(SEED)
    ranges = np.log([step, rho, clip])
    steps, rhos, clips = (np.exp(rng.uniform(low, high, number)) for low, high in ranges)
    powers, taus = rng.choice(POWERS, number), rng.choice(TAUS, number)
    parts = zip(steps, powers, rhos, clips, taus, strict=True)
    return [zcdp.PrivateSetting(*map(float, part)) for part in parts]


def nearby_settings(setting: zcdp.PrivateSetting, number: int) -> list[zcdp.PrivateSetting]:
    """Return a setting, and others whose step, rho and clip are about as large."""
    rng = np.random.default_rng(SEED)
    factors = np.exp(0.4 * rng.standard_normal((number, 3)))
    taus = np.where(rng.random(number) < 0.5, setting.tau, rng.choice(TAUS, number))
    sizes = (factors * (setting.step, setting.rho, setting.clip)).tolist()
    near = [
        zcdp.PrivateSetting(step, setting.power, rho, clip, tau)
        for (step, rho, clip), tau in zip(sizes, taus.tolist(), strict=True)
    ]
    return [setting, *near][:number]


def of_zcdp(only: Sequence[str], trials: int) -> Iterator[list]:
    """Yield the best setting of every method of every task: at every epsilon, at every shift."""

    def tune(label, task, method, epsilon, shift):
        def best_of(part, settings):
            build = partial(zcdp.build_solver, epsilon=epsilon, delta=zcdp.COMMON["delta"])
            solvers = [build(method, setting, rounds=ROUNDS)[0] for setting in settings]
            stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *solvers)
            drawn = drawn_with(task, shift)
            place, error = search(f"{label} {part}", private_error, stacked, drawn, trials, ROUNDS)
            return settings[place], error

        number = NUMBER // 5 if method == zcdp.P_ADMM else NUMBER
        first, _ = best_of("random", random_settings(number, **RANGES[method]))
        setting, error = best_of("nearby", nearby_settings(first, number // 2))
        return [*(f"{part:.4g}" for part in setting), error]

    pairs = [
        (task, method)
        for task in zcdp.TASKS
        for method in zcdp.RECIPES
        if method != zcdp.P_ADMM or task == "ridge"
    ]
    moved = [pair for pair in pairs if pair[1] in (zcdp.ZCDP, zcdp.GRAD)]
    cells = [("tuned", *pair, value, value, 0.0) for pair in pairs for value in zcdp.EPSILONS]
    cells += [("heterogeneous", *pair, value, 8.0, value) for pair in moved for value in SHIFTS]
    for *row, epsilon, shift in cells:
        if wanted(only, *row):
            yield [*row, *tune(" ".join(map(str, row)), *row[1:3], epsilon, shift)]


# --- the command ---


class Table(NamedTuple):
    """A table of tuned settings."""

    rows: Callable[[Sequence[str], int], Iterator[list]]
    header: str
    trials: int


PEERS = "experiment,task,method,value,place,error"
TABLES = {
    "federated-benchmark": Table(partial(benchmarks, federated), PEERS, 3),
    "nonsmooth-benchmark": Table(partial(benchmarks, nonsmooth), PEERS, 3),
    "messages-byzantine": Table(
        of_byzantine, "task,number,clipping,bounding,error_clipping,error_bounding", 8
    ),
    "messages-compression": Table(of_compression, "task,channel,place,bits", 8),
    "messages-delay": Table(of_delay, "solver,mean,place,error", 8),
    "zcdp": Table(of_zcdp, "table,task,method,value,step,power,rho,clip,tau,error", 8),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("table", choices=TABLES)
    parser.add_argument(
        "--only", nargs="*", default=(), help="rows with all of these tasks, methods or values"
    )
    parser.add_argument("--trials", type=int, help="those of the table if left out")
    given = parser.parse_args()
    table = TABLES[given.table]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(table.header.split(","))
    for row in table.rows(given.only, given.trials or table.trials):
        *labels, found = row
        writer.writerow([*labels, f"{found:.3g}"])
        sys.stdout.flush()


if __name__ == "__main__":
    main()
