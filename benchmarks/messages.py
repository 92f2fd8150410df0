"""Measure what an exchange costs: FSMDM and FedADMM with something on the way, in turns.

    taskset -c 0 python benchmarks/messages.py

One process; every row is compiled first and runs once unmeasured, then all take turns. The medians
of the runs are told, and the ratio to the plain exchange, which computes what a solver without one
would: to compare with another version of the package, give it the same `--rows plain` there.
"""

import argparse
import statistics
import time
from functools import partial

import jax
import jax.numpy as jnp

import fedjax_admm as fa
from fedjax_admm import messages, problems, solvers

ROWS = {
    "plain": lambda: None,
    "qsgd(4), differences": lambda: messages.exchange(messages.differences(messages.qsgd(4))),
    "top_k(1), differences": lambda: messages.exchange(messages.differences(messages.top_k(1))),
    "natural()": lambda: messages.exchange(messages.natural()),
    "cast('bfloat16'), both ways": lambda: messages.exchange(
        messages.cast("bfloat16"), messages.cast("bfloat16")
    ),
    "coordinate_median()": lambda: messages.exchange(aggregator=messages.coordinate_median()),
    "trimmed_mean(0.2)": lambda: messages.exchange(aggregator=messages.trimmed_mean(0.2)),
    "geometric_median()": lambda: messages.exchange(aggregator=messages.geometric_median()),
    "krum(4)": lambda: messages.exchange(aggregator=messages.krum(4)),
    "centred_clipping(1.0)": lambda: messages.exchange(aggregator=messages.centred_clipping(1.0)),
    "sign_flip(0.2), median": lambda: messages.exchange(
        aggregator=messages.coordinate_median(), attack=messages.sign_flip(0.2)
    ),
    "geometric_delay(2.0)": lambda: messages.exchange(delay=messages.geometric_delay(2.0, 10)),
}


def localization(key: jax.Array) -> problems.Localization:
    """Draw 21 sensors in a cube of 60 m and their ranges to a target, some of them wrong."""
    place, aim, wrong, far = jax.random.split(key, 4)
    anchors = jax.random.uniform(place, (21, 3), minval=-30.0, maxval=30.0)
    target = jax.random.uniform(aim, (3,), minval=-30.0, maxval=30.0)
    ranges = jnp.linalg.norm(anchors - target[None], axis=1)
    outliers = jax.random.uniform(far, (21,), maxval=100.0)
    ranges = jnp.where(jax.random.bernoulli(wrong, 0.1, (21,)), outliers, ranges)
    return problems.Localization(anchors, ranges, jnp.zeros(3), target)


def regression(key: jax.Array) -> problems.Federated:
    """Draw 20 clients with 30 samples of 50 features, and a smooth loss."""
    x = jax.random.normal(key, (20, 30, 50))
    y = x @ jnp.ones(50)

    def loss(w, sample):
        return jnp.sqrt(1 + (sample[0] @ w - sample[1]) ** 2)

    return problems.federated(loss, (x, y), jnp.zeros(50))


TASKS = {
    "FSMDM, 21 x 3": (localization, lambda exchange: solvers.fsmdm(exchange=exchange), 200, 500),
    "FedADMM, 20 x 50": (
        regression,
        lambda exchange: solvers.fed_admm(50.0, exchange=exchange),
        10,
        200,
    ),
}


def main() -> None:
    """Print a table of medians for every task."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--rows", default="", help="only rows whose names hold this")
    options = parser.parse_args()
    for task, (draw, build, trials, rounds) in TASKS.items():
        keys = jax.random.split(jax.random.key(0), trials)
        print(f"\n| {task}, {trials} trials of {rounds} rounds | ms | times plain | compile, s |")
        print("|---|---|---|---|")
        programs, compiling = {}, {}
        problem = jax.jit(jax.vmap(draw))(keys)  # each its own: what is the same is computed once
        for name, make in ROWS.items():
            if options.rows not in name:
                continue
            exchange = make()
            solver = build(None) if exchange is None else build(exchange)
            run = partial(fa.run, solver, rounds=rounds)
            program = jax.jit(jax.vmap(lambda p, k, run=run: run(p, k).estimate))
            start = time.perf_counter()
            program = program.lower(problem, keys).compile()
            compiling[name] = time.perf_counter() - start
            programs[name] = program
            jax.block_until_ready(program(problem, keys))
        times: dict[str, list[float]] = {name: [] for name in programs}
        for _ in range(options.repeats):
            for name, program in programs.items():
                start = time.perf_counter()
                jax.block_until_ready(program(problem, keys))
                times[name].append(time.perf_counter() - start)
        medians = {name: statistics.median(values) for name, values in times.items()}
        plain = medians.get("plain", float("nan"))
        for name, value in medians.items():
            print(f"| {name} | {1e3 * value:.1f} | {value / plain:.2f} | {compiling[name]:.1f} |")


if __name__ == "__main__":
    main()
