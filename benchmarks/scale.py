"""What it costs to spread trials over devices and processes, and how far one machine goes.

    python benchmarks/scale.py            all tables (CPU; several minutes)
    python benchmarks/scale.py --repeats 5 --only processes
    python benchmarks/scale.py --trials 4800    two cores with so many trials instead of 9600

Every run is the command line in a process of its own, as a person would call it, on cores of its
own; run times are those that it writes into config.json (computing, fetching and storing). "One
core" is one that the process is pinned to: a device alone may use several. What two processes could
reach at best is told by two runs of half the trials each, side by side, which share nothing.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
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
    return Outcome(perf_counter() - clock, seconds["compile"], run, max(usage))


def alone(words: Sequence[object], cores: Sequence[int] = TWO, **variables: str) -> Callable:
    """Return a run in one process."""

    def measure(folder: Path) -> Outcome:
        out, clock = Path(tempfile.mkdtemp(dir=folder)) / "out", perf_counter()
        return finish([start(words, out, cores, **variables)], out, clock)

    return measure


def together(words: Sequence[object], processes: int) -> Callable:
    """Return a run in several processes, one core and one device each."""

    def measure(folder: Path) -> Outcome:
        out, clock = Path(tempfile.mkdtemp(dir=folder)) / "out", perf_counter()
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


def side_by_side(words: Callable[[int], Sequence[object]], trials: int) -> Callable:
    """Return two runs of half the trials, a core each, that know nothing of each other."""

    def measure(folder: Path) -> Outcome:
        outs, clock = [Path(tempfile.mkdtemp(dir=folder)) / "out" for _ in range(2)], perf_counter()
        both = [
            start([*words(trials // 2), "--seed", core, "--devices", 1], outs[core], (core,))
            for core in range(2)
        ]
        ends = [finish([process], out, clock) for process, out in zip(both, outs, strict=True)]
        return Outcome(*map(max, zip(*ends, strict=True)))

    return measure


def fixed(trials: int) -> list[object]:
    """Return a run whose cutting does not depend on the devices."""
    return [*ONE_POINT, "--trials", trials, "--batch", 24]


def tables(trials: int) -> dict[str, dict[str, Callable]]:
    """Return what is measured, by title and name; two cores share so many trials."""
    return {
        "devices, one core, equal work: 3840 trials in micro-batches of 24": {
            "1 device": alone([*fixed(3840), "--devices", 1], ONE),
            "8 simulated devices": alone(
                [*fixed(3840), "--devices", 8], ONE, JAX_NUM_CPU_DEVICES="8"
            ),
        },
        f"processes, equal work: {trials} trials in micro-batches of 24": {
            "1 process, 1 device, one core": alone([*fixed(trials), "--devices", 1], ONE),
            "1 process, 2 devices, two cores": alone([*fixed(trials), "--devices", 2]),
            "2 processes, a device and a core each": together(fixed(trials), 2),
            "2 runs of half the trials, side by side": side_by_side(fixed, trials),
        },
        "many trials of fsmdm-outliers at one probability, two cores": {
            "10,000, first start (no cache)": alone([*ONE_POINT, "--trials", 10_000, "--no-cache"]),
            "10,000, second start": alone([*ONE_POINT, "--trials", 10_000]),
            "100,000, second start": alone([*ONE_POINT, "--trials", 100_000]),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--trials", type=int, default=9600)
    parser.add_argument("--only", default="", help="tables whose title has this word")
    options = parser.parse_args()
    repeats = options.repeats
    print(f"{os.cpu_count()} cores, medians of {repeats} runs, in turns")
    for title, runs in tables(options.trials).items():
        if options.only not in title:
            continue
        print(f"\n{title}\n{HEADER}")
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
