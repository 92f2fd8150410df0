"""What a call costs beside its rounds: warm runs of one round, and the first problem of one's own.

    taskset -c 0 python benchmarks/calls.py

Processor time, so that it holds on a machine that others use; medians of 500 calls. FSMDM with 21
sensors in space; a problem of 20 clients with 50 samples each.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_admm as fa

CALLS = 500


def median(call: Callable[[], Any]) -> float:
    """Return the median processor time of a call that is warm, in milliseconds."""
    taken = []
    for _ in range(CALLS + 10):
        clock = time.process_time()
        call()
        taken.append(time.process_time() - clock)
    return 1e3 * statistics.median(taken[10:])


def loss(w: jax.Array, sample: Any) -> jax.Array:
    """Return half of a squared error."""
    x, y = sample
    return (x @ w - y) ** 2 / 2


def main() -> None:
    rng = np.random.default_rng(0)
    data = rng.normal(size=(20, 50, 5)).astype(np.float32), np.zeros((20, 50), np.float32)
    start, build = jnp.zeros(5), fa.problems.federated
    for name in ("first", "second"):
        clock = time.process_time()
        build(loss, data, start)
        print(f"{name} problems.federated: {time.process_time() - clock:.3f} s")

    noise = fa.problems.gaussian_noise(1.0)
    problem = fa.problems.draw_localization(jax.random.key(1), noise, clients=21)
    solver, options = fa.solvers.fsmdm(), {"rounds": 1, "measure": fa.measures.localization_error}
    options["participation"] = fa.participation.bernoulli(0.5)
    keys = list(jax.random.split(jax.random.key(0), CALLS + 10))
    last = fa.run(solver, problem, keys[0], **options)

    def another() -> None:
        fa.run(solver, problem, keys[-1], **options)
        keys.insert(0, keys.pop())

    def go_on() -> None:
        nonlocal last
        last = fa.run(solver, problem, first, start=last.state, **options)

    first = keys[0]
    print(f"the same arguments: {median(lambda: fa.run(solver, problem, first, **options)):.3f} ms")
    print(f"another key: {median(another):.3f} ms")
    print(f"from the last state: {median(go_on):.3f} ms")


if __name__ == "__main__":
    main()
