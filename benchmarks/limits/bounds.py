"""Which bound of the machine a round meets: arithmetic, memory, or neither.

XLA counts the flops and bytes of one compiled round. A machine that did nothing else would take
`flops / peak` or `bytes / bandwidth` for it, the larger of both at least. Where the measured time
is less than twice that, the round is bound by it; otherwise by latency: scalar code, chains of
dependent operations, small loops and what calls cost.

Peaks are probed on the core that the process is bound to: a product of matrices, and a copy that
reads and writes as many bytes in all as the round, so that it is in the same cache. All times
are the shortest of several: what others do at the same time makes them longer.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

_SIDE = 768  # of the matrices
_REPEATS = 5


class Round(NamedTuple):
    """One round, by XLA's count, and what this core could do of it in a second."""

    flops: float
    bytes: float
    peak: float  # flops per second
    bandwidth: float  # bytes per second


def counted(solver: Any, problem: Any, passes: int, **options: Any) -> Round:
    """Count a round of one run, and probe this core.

    Args:
      solver: of `fa.run`.
      problem: of `fa.run`.
      passes: of which a round has so many; one is counted.
      options: further arguments of `fa.run`.
    """
    import jax

    import fedjax_admm as fa

    key = options.pop("key", None)
    key = jax.random.key(0) if key is None else key
    start = options.pop("start", None)
    state = fa.run(solver, problem, key, rounds=1, start=start, **options).state

    def one(solver, problem, state):
        return fa.run(solver, problem, key, rounds=1, start=state, **options).state

    analysis = jax.jit(one).lower(solver, problem, state).compile().cost_analysis() or {}
    flops, moved = (float(analysis.get(name, 0)) / passes for name in ("flops", "bytes accessed"))
    return Round(flops, moved, _peak(), _bandwidth(moved))


def _peak() -> float:
    import jax
    import jax.numpy as jnp

    square = jnp.ones((_SIDE, _SIDE))
    product = jax.jit(lambda a: a @ a)
    return 2 * _SIDE**3 / _shortest(lambda: product(square).block_until_ready())


def _bandwidth(size: float) -> float:
    import numpy as np

    source = np.ones(max(1024, int(size) // 8), np.float32)  # half of the bytes are written
    goal = np.empty_like(source)
    turns = max(1, int(2e6 / source.nbytes))

    def copy() -> None:
        for _ in range(turns):
            np.copyto(goal, source)

    return 2 * source.nbytes * turns / _shortest(copy)


def _shortest(function: Callable[[], Any]) -> float:
    function()
    taken = []
    for _ in range(_REPEATS):
        clock = time.perf_counter()
        function()
        taken.append(time.perf_counter() - clock)
    return min(taken)


def verdict(one: Round, seconds: float) -> str:
    """Return the row of a table for a round that takes so long."""
    shares = {"flops": one.flops / one.peak, "bytes": one.bytes / one.bandwidth}
    name = max(shares, key=lambda bound: shares[bound])
    bound = name if shares[name] > seconds / 2 else "latency"
    numbers = f"{one.flops:.3g} | {one.bytes:.3g} | {1e-9 * one.peak:.0f} | "
    numbers += f"{1e-9 * one.bandwidth:.1f} | {1e6 * shares['flops']:.3g} | "
    return f"{numbers}{1e6 * shares['bytes']:.3g} | {1e6 * seconds:.3g} | {bound}"
