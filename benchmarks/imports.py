"""What a first use of the package adds to `import jax.numpy`: medians over fresh processes."""

import argparse
import statistics
import subprocess
import sys

CODE = """
import time
import jax.numpy
clock = time.perf_counter()
{statement}
print(time.perf_counter() - clock)
"""
STATEMENTS = (
    "from fedjax_admm.kernels import *",
    "from fedjax_admm.solvers import fsmdm",
    "from fedjax_admm.trials import run_experiment",
)


def seconds(statement: str) -> float:
    """Import something after jax.numpy in a fresh process."""
    command = [sys.executable, "-c", CODE.format(statement=statement)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    for statement in STATEMENTS:
        taken = sorted(seconds(statement) for _ in range(repeats))
        print(f"{statement:<46} {1000 * statistics.median(taken):6.1f} ms")


if __name__ == "__main__":
    main()
