"""What a call costs beside its rounds: warm runs of one round, and the first problem of one's own.

    taskset -c 0 python benchmarks/calls.py

Processor time, so that it holds on a machine that others use; medians of 500 calls. FSMDM with 21
sensors in space; a problem of 20 clients with 50 samples each.
"""

import statistics
import time
from collections.abc import Callable
from functools import partial
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
        own = build(loss, data, start)
        print(f"{name} problems.federated: {time.process_time() - clock:.3f} s")

    noise = fa.problems.gaussian_noise(1.0)
    place = fa.problems.draw_localization(jax.random.key(1), noise, clients=21)
    half = fa.participation.bernoulli(0.5)
    error = fa.measures.localization_error
    calls("FSMDM", partial(fa.run, fa.solvers.fsmdm(), place, measure=error, participation=half))
    calls("FedADMM", partial(fa.run, fa.solvers.fed_admm(1.0), own))


def calls(name: str, run: Callable[..., fa.Run]) -> None:
    """Print what calls of one round take, without and with waiting for their results."""
    first, *keys = jax.random.split(jax.random.key(0), CALLS + 11)
    last = run(first, rounds=1)

    def go_on() -> Any:
        nonlocal last
        last = run(first, rounds=1, start=last.state)
        return last

    ways = {
        "the same arguments": lambda: run(first, rounds=1),
        "another key": lambda: run(keys.pop(), rounds=1),
        "from the last state": go_on,
        "the same, results awaited": lambda: jax.block_until_ready(go_on()),
    }
    for way, call in ways.items():
        print(f"{name}, {way}: {median(call):.3f} ms")


if __name__ == "__main__":
    main()
