"""Measure configurations in turns, each in a process of its own, and print a table of medians.

Each configuration runs in a process of its own (its peak memory is its own, and the number of CPU
devices is fixed when JAX starts); the processes take turns, so that a slow minute of the machine
meets every one. A configuration returns a dict with at least "compile", "run" (seconds), "width"
and "error".
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORES = os.cpu_count() or 1

Configuration = Callable[[], dict[str, float]]


def parser(description: str | None, repeats: int) -> argparse.ArgumentParser:
    """Return a parser with what every comparison understands."""
    result = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    result.add_argument("--repeats", type=int, default=repeats)
    result.add_argument("--one", help=argparse.SUPPRESS)
    return result


def time_engine(trial: Callable, trials: int, width: int | str) -> dict[str, float]:
    """Run a trial that returns an "error" through the Monte Carlo engine, and time it."""
    import jax

    from fedjax_admm.trials.engine import monte_carlo

    key = jax.random.key(0)
    outcome = monte_carlo(trial, key, trials, batch=width, chunk=trials, progress=False)
    return {
        "compile": outcome.seconds.compile,
        "run": outcome.seconds.run + outcome.seconds.transfer,
        "width": outcome.layout.width,
        "error": float(outcome.arrays["error"].mean()),
    }


def run_one(configuration: Configuration) -> None:
    """Run a configuration here and print its numbers for the process that waits for them."""
    result = configuration()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(json.dumps({**result, "peak": peak}))


def measure(script: str, name: str) -> dict[str, float]:
    """Run one configuration of a script in a process of its own."""
    result = subprocess.run(
        [sys.executable, script, "--one", name],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    return json.loads(result.stdout.splitlines()[-1])


def compare(script: str, names: list[str], repeats: int, title: str) -> Mapping[str, dict]:
    """Measure all names in turns; print and return the medians."""
    print(f"{platform.machine()}, {CORES} cores, Python {platform.python_version()}")
    print(f"{title}, {repeats} repeats\n")
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(repeats):
        for name in names:
            taken[name].append(measure(script, name))
    middle = {
        name: {key: statistics.median(one[key] for one in all_) for key in all_[0]}
        for name, all_ in taken.items()
    }
    print("| configuration | width | compile (s) | run (s) | peak memory (MiB) | mean error |")
    print("|---|---|---|---|---|---|")
    for name, row in middle.items():
        print(
            f"| {name} | {row['width']:.0f} | {row['compile']:.2f} | {row['run']:.3f} "
            f"| {row['peak']:.0f} | {row['error']:.4g} |"
        )
    best = min(middle.values(), key=lambda row: row["run"])["run"]
    for name in names:
        if name.startswith("NumPy"):
            print(f"\n{name} takes {middle[name]['run'] / best:.1f} times the fastest run time.")
    return middle
