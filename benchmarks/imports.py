"""What `import fedjax_admm.kernels` adds to `import jax.numpy`: medians over fresh processes."""

import argparse
import statistics
import subprocess
import sys

CODE = """
import time
import jax.numpy
clock = time.perf_counter()
import {module}
print(time.perf_counter() - clock)
"""


def seconds(module: str) -> float:
    """Import a module after jax.numpy in a fresh process."""
    command = [sys.executable, "-c", CODE.format(module=module)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    for module in ("fedjax_admm.kernels", "fedjax_admm.solvers.fsmdm", "fedjax_admm.trials.runner"):
        taken = sorted(seconds(module) for _ in range(repeats))
        print(f"{module:<28} {1000 * statistics.median(taken):6.1f} ms")


if __name__ == "__main__":
    main()
