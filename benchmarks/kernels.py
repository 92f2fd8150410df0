"""Every kernel beside its peers: same points, one core, forward and gradient, compile time apart.

`pip install jaxopt pyproximal scikit-learn skglm scico` (whichever there are; optax is a dependency
of this package). The process is pinned to one core; ours and the others take turns, every number is
a median, and every timing waits for its result. Beside the times stand the largest distances of the
float32 results to the truth, which is our kernel in float64: the tests compare that with NumPy.

    python benchmarks/kernels.py                     # 1e2, 1e4, 1e6 entries, and 1,000 rows of 100
    python benchmarks/kernels.py --only prox_l1 project_simplex --sizes 10000
    python benchmarks/kernels.py --eager             # all maps outside of `jax.jit`, in a clone
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import prox_peers

BATCH = (1000, 100)
SIZES = (100, 10_000, 1_000_000)
SEED = 7


class Timed(NamedTuple):
    """Seconds of one map; the gradient is NaN where there is none."""

    compile: float
    forward: float
    gradient: float
    error: float


def points(kind: str, size: int | None) -> np.ndarray:
    """Return the points of one measurement, float32."""
    rng = np.random.default_rng(SEED)
    if kind == "vector":
        shape = BATCH if size is None else (size,)
    else:
        side = 10 if size is None else round(size**0.5)
        shape = (side, side) if size is not None else (BATCH[0], side, side)
    return rng.standard_normal(shape).astype(np.float32)


def clock(function: Callable[[], Any]) -> float:
    """Return the seconds of one call, after one that finds its data in the caches again."""
    jax.block_until_ready(function())
    begin = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - begin


def prepared(jax_map: Callable, v: np.ndarray, batched: bool) -> tuple[float, list]:
    """Return compile time, and the calls for the result and for its gradient."""
    mapped = jax.vmap(jax_map) if batched else jax_map
    weights = np.random.default_rng(SEED + 1).standard_normal(v.shape).astype(np.float32)
    gradient = jax.grad(lambda v, w: (w * mapped(v)).sum())
    device = jax.device_put((v, weights))
    begin = time.perf_counter()
    forward = jax.jit(mapped).lower(device[0]).compile()
    spent = time.perf_counter() - begin
    calls = [partial(forward, device[0])]
    try:
        backward = jax.jit(gradient).lower(*device).compile()
        calls.append(partial(backward, *device))
    except Exception:  # a map of a package without reverse derivative
        calls.append(None)
    return spent, calls


def numpy_calls(numpy_map: Callable, v: np.ndarray, batched: bool) -> tuple[float, list]:
    """Return the time of the first call (numba compiles then), and the call."""

    def every() -> np.ndarray:
        return np.stack([numpy_map(row) for row in v]) if batched else numpy_map(v)

    return clock(every), [every, None]


def measure(
    kernel: str, size: int | None, seconds: float, packages: dict[str, Any]
) -> dict[str, Timed]:
    """Measure one kernel and its peers in turns."""
    kind, ours = prox_peers.KINDS[kernel]
    v = points(kind, size)
    batched = size is None
    with jax.enable_x64(True):
        mapped = jax.vmap(ours) if batched else ours
        truth = np.asarray(jax.jit(mapped)(v.astype(np.float64)))
    rivals: dict[str, tuple[float, list]] = {}
    rivals["ours"] = prepared(ours, v, batched)
    for package, maps in packages.items():
        if kernel in maps:
            if package in prox_peers.JAX_PACKAGES:
                rivals[package] = prepared(maps[kernel], v, batched)
            else:
                rivals[package] = numpy_calls(maps[kernel], v, batched)
    errors = {
        name: float(np.max(np.abs(np.asarray(calls[0]()) - truth)))
        for name, (_, calls) in rivals.items()
    }
    taken: dict[tuple[str, int], list[float]] = {}
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds or len(taken[("ours", 0)]) < 3:
        for name, (_, calls) in rivals.items():
            for place, call in enumerate(calls):
                if call is not None:
                    taken.setdefault((name, place), []).append(clock(call))
        if time.perf_counter() - begin > 10 * seconds:
            break
    return {
        name: Timed(
            spent,
            *(
                statistics.median(taken[name, place]) if (name, place) in taken else float("nan")
                for place in (0, 1)
            ),
            errors[name],
        )
        for name, (spent, _) in rivals.items()
    }


def pin() -> None:
    """Keep to one core, before JAX and numba start their threads."""
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def found_packages() -> dict[str, Any]:
    """Return the maps of the packages that are installed."""
    found = {}
    for name, load in {**prox_peers.JAX_PACKAGES, **prox_peers.NUMPY_PACKAGES}.items():
        try:
            found[name] = load()
        except ImportError:
            print(f"{name} is not installed: left out")
    return found


def told(name: str, times: Timed, ours: Timed) -> str:
    """Return one row of the table."""
    forward = f"{1e6 * times.forward:,.0f}"
    gradient = "" if np.isnan(times.gradient) else f"{1e6 * times.gradient:,.0f}"
    ratio = f"{times.forward / ours.forward:.2f}"
    other = "" if np.isnan(times.gradient) else f"{times.gradient / ours.gradient:.2f}"
    return (
        f"{name} | {times.compile:.2f} | {forward} | {gradient} | {ratio} | {other} "
        f"| {times.error:.1e} |"
    )


def eager(names: list[str], seconds: float) -> None:
    """Print every map called outside of `jax.jit` beside the same under it."""
    sys.path.append(str(Path(__file__).parents[1]))
    from tests.kernels.calls import MAPS, call_of

    programs = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: programs.append(event)
    )
    print("| map | eager | jit | times | within 1.5 times + 30 us | compiled by 1,000 calls |")
    print("|---|---|---|---|---|---|")
    for name in names or MAPS:
        kernel, given = call_of(name)
        functions = [part for part in given if _is_function(part)]
        held = [None if _is_function(part) else part for part in given]

        def inside(*parts: Any, kernel: Any = kernel, functions: Any = functions) -> Any:
            left = iter(functions)
            return kernel(*(next(left) if part is None else part for part in parts))

        calls = [partial(kernel, *given), partial(jax.jit(inside), *held)]
        for call in calls:
            clock(call)
        before, taken = len(programs), [[], []]
        begin = time.perf_counter()
        while time.perf_counter() - begin < seconds or len(taken[0]) < 5:
            for call, times in zip(calls, taken, strict=True):
                times.append(clock(call))
        ours, theirs = (statistics.median(times) for times in taken)
        for _ in range(1000 if ours < 1e-3 else 10):
            kernel(*given)
        print(
            f"| {name} | {1e6 * ours:,.0f} | {1e6 * theirs:,.0f} | {ours / theirs:.2f} "
            f"| {'yes' if ours <= 1.5 * theirs + 30e-6 else 'NO'} | {len(programs) - before} |",
            flush=True,
        )


def _is_function(part: Any) -> bool:
    return callable(part) or (isinstance(part, tuple | list) and all(map(callable, part)))


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--eager", action="store_true", help="calls outside of jit, of all maps")
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--no-batch", action="store_true")
    parser.add_argument("--seconds", type=float, default=0.3, help="spent on each measurement")
    options = parser.parse_args()
    pin()
    if options.eager:
        return eager(options.only, options.seconds)
    packages = found_packages()
    print(f"one core, jax {jax.__version__}; microseconds, compilation in seconds")
    print('"times ours": above 1 the other takes longer\n')
    print(
        "| kernel | entries | package | compile | forward | gradient | forward, times ours "
        "| gradient, times ours | error |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for kernel in options.only or prox_peers.KINDS:
        for size in [*options.sizes, *([] if options.no_batch else [None])]:
            times = measure(kernel, size, options.seconds, packages)
            entries = "1,000 x 100" if size is None else f"{size:,}"
            for name, row in times.items():
                print(f"| {kernel} | {entries} | {told(name, row, times['ours'])}", flush=True)


if __name__ == "__main__":
    main()
