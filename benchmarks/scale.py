"""What it costs to spread trials over devices and processes, and how far one machine goes.

    python benchmarks/scale.py            all tables (CPU; a few minutes)
    python benchmarks/scale.py --repeats 5

Every run is the command line in a process of its own, as a person would call it, on cores of its
own; run times are those that it writes into config.json (computing, fetching and storing).
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

PROGRAM = [sys.executable, "-c", "from fedjax_admm.trials.cli import main; main()"]
ONE_POINT = ["run", "fsmdm-outliers", "--set", "probability=0.1"]
ONE, TWO = (0,), (0, 1)  # cores
HEADER = "| | wall (s) | compile (s) | run (s) | peak (MiB) |\n|---|---|---|---|---|"


class Outcome(NamedTuple):
    """What one run took."""

    wall: float  # seconds, from the shell's point of view
    compile: float  # seconds
    run: float  # seconds: computing, fetching, storing
    peak: float  # MiB, of the largest process


def start(
    words: Sequence[object], out: Path, cores: Sequence[int], **variables: str
) -> subprocess.Popen:
    """Start the command line on some cores, with a compilation cache in the folder."""
    return subprocess.Popen(
        [*PROGRAM, *map(str, words), "--out", str(out)],
        env={**os.environ, "XDG_CACHE_HOME": str(out.parents[1] / "cache"), **variables},
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
        stdout=subprocess.DEVNULL,
    )


def finish(processes: Sequence[subprocess.Popen], out: Path, clock: float) -> Outcome:
    """Wait for the processes of one run and read what it wrote."""
    usage: list[float] = []
    for process in processes:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{process.args} ended with code {process.returncode}.")
        usage.append(used.ru_maxrss / 2**10)
    seconds = json.loads((out / "config.json").read_text())["seconds"]
    run = seconds["run"] + seconds["transfer"]
    return Outcome(time.perf_counter() - clock, seconds["compile"], run, max(usage))


def alone(words: Sequence[object], cores: Sequence[int] = TWO, **variables: str) -> Callable:
    """Return a run in one process."""

    def measure(folder: Path) -> Outcome:
        out, clock = Path(tempfile.mkdtemp(dir=folder)) / "out", time.perf_counter()
        return finish([start(words, out, cores, **variables)], out, clock)

    return measure


def together(words: Sequence[object], processes: int) -> Callable:
    """Return a run in several processes, one core and one device each."""

    def measure(folder: Path) -> Outcome:
        out, clock = Path(tempfile.mkdtemp(dir=folder)) / "out", time.perf_counter()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        shared = ["--devices", 1, "--coordinator", address, "--num-processes", processes]
        return finish(
            [
                start(
                    [*words, *shared, "--process-id", number],
                    out,
                    (number,),
                )
                for number in range(processes)
            ],
            out,
            clock,
        )

    return measure


def fixed(trials: int) -> list[object]:
    """Return a run whose cutting does not depend on the devices."""
    return [*ONE_POINT, "--trials", trials, "--batch", 24]


TABLES: dict[str, dict[str, Callable]] = {
    "one core, equal work: 3840 trials in micro-batches of 24": {
        "1 device": alone([*fixed(3840), "--devices", 1], ONE),
        "8 simulated devices": alone([*fixed(3840), "--devices", 8], ONE, JAX_NUM_CPU_DEVICES="8"),
    },
    "two cores: 9600 trials in micro-batches of 24": {
        "1 process, 1 device": alone([*fixed(9600), "--devices", 1]),
        "1 process, 2 devices": alone([*fixed(9600), "--devices", 2]),
        "2 processes, 1 device each": together(fixed(9600), 2),
    },
    "10,000 trials of fsmdm-outliers at one probability, two cores": {
        "second start (programs cached)": alone([*ONE_POINT, "--trials", 10000]),
        "first start (no cache)": alone([*ONE_POINT, "--trials", 10000, "--no-cache"]),
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    print(f"{os.cpu_count()} cores, medians of {repeats} runs, in turns")
    for title, runs in TABLES.items():
        print(
            f"\n{title}\n| | wall (s) | compile (s) | run (s) | peak (MiB) |\n|---|---|---|---|---|"
        )
        outcomes: dict[str, list[Outcome]] = {name: [] for name in runs}
        with tempfile.TemporaryDirectory() as folder:
            for turn in range(repeats + 1):
                for name, measure in runs.items():
                    outcome = measure(Path(folder))
                    if turn:  # the first turn fills the caches
                        outcomes[name].append(outcome)
        for name, seen in outcomes.items():
            wall, compiling, run, peak = (
                statistics.median(column) for column in zip(*seen, strict=True)
            )
            print(f"| {name} | {wall:.2f} | {compiling:.2f} | {run:.2f} | {peak:.0f} |", flush=True)


if __name__ == "__main__":
    main()
