"""From the shell prompt to an answer: what imports and commands take, each in a process of its own.

    python benchmarks/start.py                    imports, `list`, `show`, runs cold and again
    python benchmarks/start.py --only list show   some of them
    python benchmarks/start.py --trials 100       runs of other sizes than the experiments' own

Everything runs in turns, with an empty folder for compiled programs where it says "cold"; medians
over repeats of the time on the clock and of processor time, with the parts that a run tells of
itself. Commands are timed from outside, interpreter included; `import jax.numpy` is what any
program that computes with JAX pays. Nothing else should run on the machine.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

Parts = dict[str, float]
"""What is printed of a measurement: seconds by name, "wall" first."""

IMPORTS = {
    "kernels": "from fedjax_admm.kernels import *",
    "solver": "from fedjax_admm.solvers import fsmdm",
    "trials": "from fedjax_admm.trials import run_experiment",
}
RANGES = "x,y,z,range\n" + "".join(
    f"{x},{y},{z},{((x - 1) ** 2 + (y - 2) ** 2 + (z - 3) ** 2) ** 0.5:.6f}\n"
    for x, y, z in ((9, 0, 1), (-8, 2, 7), (3, 8, -6), (0, -9, 2), (-4, -5, -7), (6, 7, 5))
)


def clocked(command: Sequence[str], folder: Path) -> Parts:
    """Run a command whose compiled programs are kept in a folder, and time it from outside."""
    environment = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")}
    clock, before = time.perf_counter(), os.times()
    subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, check=True, cwd=folder
    )
    wall, after = time.perf_counter() - clock, os.times()
    return {"wall": wall, "processor": sum(after[2:4]) - sum(before[2:4])}


def imported(statement: str) -> Callable[[Path], Parts]:
    """Return a measurement of what a statement takes."""
    return lambda folder: clocked(["-c", statement], folder)


def told(*words: str) -> Callable[[Path], Parts]:
    """Return a measurement of a command of `fedjax-admm`."""
    return lambda folder: clocked(["-m", "fedjax_admm.trials.cli", *words], folder)


def ran(experiment: str, options: Sequence[str]) -> Callable[[Path], Parts]:
    """Return a measurement of a run, with what `config.json` says of its parts."""

    def measure(folder: Path) -> Parts:
        out = ("--out", "result", "--overwrite")
        wall = told("run", experiment, *out, *options)(folder)
        config = json.loads((folder / "result/config.json").read_text())
        spent = config["seconds"]
        rest = spent["total"] - sum(spent[name] for name in ("compile", "run", "transfer"))
        outside = wall["wall"] - spent["total"]
        return wall | spent | {"figure and files": rest, "start": outside}

    return measure


def solved(folder: Path) -> Parts:
    """Measure `solve localization` of a small file."""
    (folder / "ranges.csv").write_text(RANGES)
    words = ("--input", "ranges.csv", "--out", "located", "--overwrite")
    return told("solve", "localization", *words)(folder)


def networked(folder: Path) -> Parts:
    """Measure `solve networked` of 60 nodes of two kinds with 20 rows each."""
    normal = random.Random(0).gauss
    lines = ["node,a,b,c,y"]
    for node in range(60):
        for _ in range(20):
            a, b, c, noise = (normal(0, 1) for _ in range(4))
            y = (a + b - c) * (-1) ** node + noise / 10
            lines.append(f"{node},{a},{b},{c},{y}")
    (folder / "rows.csv").write_text("\n".join(lines))
    columns = ("--node", "node", "--target", "y", "--features", "a,b,c", "--lam", "auto")
    words = ("--input", "rows.csv", *columns, "--out", "fitted", "--overwrite")
    return told("solve", "networked", *words)(folder)


def measurements(options: Sequence[str]) -> dict[str, tuple[str | None, Callable[[Path], Parts]]]:
    """Return by name the folder that a measurement keeps, None for a new one, and itself."""
    outliers = ran("fsmdm-outliers", options)
    return {
        "jax.numpy": ("warm", imported("import jax.numpy")),
        **{name: ("warm", imported(statement)) for name, statement in IMPORTS.items()},
        "list": ("warm", told("list")),
        "show": ("warm", told("show", "fsmdm-outliers")),
        "outliers-cold": (None, outliers),
        "outliers-again": ("outliers", outliers),
        "zcdp-cold": (None, ran("zcdp-tradeoff", options)),
        "localization-cold": (None, solved),
        "localization-again": ("localization", solved),
        "networked-cold": (None, networked),
        "networked-again": ("networked", networked),
    }


def main() -> None:
    known = measurements(())
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--trials", type=int, help="of the runs; the experiments' own if left out")
    parser.add_argument("--only", nargs="+", choices=list(known), default=list(known))
    given = parser.parse_args()
    options = () if given.trials is None else ("--trials", str(given.trials))
    chosen = {name: measurements(options)[name] for name in given.only}
    found: dict[str, list[Parts]] = {name: [] for name in chosen}
    with tempfile.TemporaryDirectory() as kept:
        for kind, measure in chosen.values():  # what is measured again has been compiled before
            if kind is not None:
                measure(made(Path(kept, kind)))
        for _ in range(given.repeats):
            for name, (kind, measure) in chosen.items():
                with tempfile.TemporaryDirectory() as new:
                    found[name].append(measure(Path(new) if kind is None else Path(kept, kind)))
    for name, repeats in found.items():
        parts = {part: statistics.median(each[part] for each in repeats) for part in repeats[0]}
        print(f"{name:<20}" + "  ".join(f"{part} {value:.2f}" for part, value in parts.items()))


def made(folder: Path) -> Path:
    """Return a folder that is there."""
    folder.mkdir(exist_ok=True)
    return folder


if __name__ == "__main__":
    main()
