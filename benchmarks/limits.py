"""Every family beside a short C program that does the same arithmetic on one core.

    python benchmarks/limits.py                       all families, as in benchmarks/README.md
    python benchmarks/limits.py --families hfsad gtv  some of them
    python benchmarks/limits.py --quick               small sizes: does it still work
    python benchmarks/limits.py --bounds              only: flops, bytes or latency (no C compiler)
    python benchmarks/limits.py --avx2                no vectors wider than AVX2's, in C and in XLA

Problems are drawn before any clock starts. C, NumPy and the engine, pinned to one core and on two,
take turns; medians over repeats. Every configuration has a process of its own, which waits between
its turns. "One core" is one: the whole process is bound to it before JAX starts, as XLA would share
out a wide loop among threads of its own otherwise. The engine compiles before the clock starts. On
one core seconds are the processor's, so that they hold on a machine that others use.

"Difference" is the largest of a result to C's, relative to the largest number of C's, the median
over trials (where problems have several minima, rounding sends a few trials to others); the mean
error says whether it matters. Without a C compiler, one sentence says so, and no table is printed.
At last, a table says which bound of the machine each family meets (`limits.bounds`).
"""

import argparse
import importlib
import json
import os
import pickle
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from limits import bounds, timed

HERE = Path(__file__).parent
FAMILIES = ("fsmdm", "hfsad", "zcdp", "gtv", "gtv_blocks", "fedmc")
# The widest vectors pay here, which compilers of x86 avoid unless told.
FLAGS = ["-std=gnu11", "-O3", "-ffast-math", "-fopenmp-simd"]
WIDEST = [["-march=native", "-mprefer-vector-width=512"], ["-march=native"]]
AVX2 = [["-march=haswell"]]
ENGINES = {"engine, one core": 1, "engine, two cores": 2}


def compiler() -> str | None:
    """Return the C compiler, if there is one."""
    return next(
        filter(None, map(shutil.which, (os.environ.get("CC") or "cc", "gcc", "clang"))), None
    )


def build(command: str, source: Path, folder: Path, options: list[str], avx2: bool) -> Path:
    """Compile a program into a folder."""
    program = folder / source.stem
    for vectors in AVX2 if avx2 else WIDEST:
        line = [command, *FLAGS, *vectors, *options, str(source), "-o", str(program), "-lm"]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if not done.returncode:
            return program
    raise SystemExit(f"{source.name} does not compile: {done.stderr.splitlines()[0]}")


# --- one configuration, in a process of its own ---


def work_for(family: str, name: str, folder: Path) -> None:
    """Prepare a configuration, and do it once for every line that is read."""
    cores = sorted(os.sched_getaffinity(0))
    devices = ENGINES.get(name, 1)
    os.sched_setaffinity(0, cores[-devices:])
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    module = importlib.import_module(f"limits.{family}")
    if name == "draw":
        problem = module.draw((folder / "quick").exists())
        (folder / "problem").write_bytes(pickle.dumps(problem))
        with (folder / "input").open("wb") as file:
            for array in module.pack(problem):
                file.write(array.astype(_four_bytes(array.dtype)).tobytes())
        return
    if name in (*ENGINES, "bounds"):
        import jax

        jax.config.update("jax_num_cpu_devices", devices)
        jax.config.update("jax_compilation_cache_dir", str(folder / f"cache{devices}"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    problem = pickle.loads((folder / "problem").read_bytes())
    go = module.engine(problem) if name in (*ENGINES, "bounds") else timed(module.numpy(problem))
    if name in ENGINES:
        go()
    if name == "bounds":
        _print_bounds(module, problem, go)
        return
    print(json.dumps(module.work(problem)._asdict()), flush=True)
    for _ in sys.stdin:
        result, seconds = go()
        _keep(folder / name, result)
        print(seconds, flush=True)


def _print_bounds(module: Any, problem: Any, go: Any) -> None:
    """Print the row of a family in the table of bounds, from the shortest of five times."""
    go()
    taken = min(go()[1] for _ in range(5)) / module.work(problem).rounds
    solver, made, options = (*module.one_round(problem), {})[:3]
    one = bounds.counted(solver, made, getattr(module, "PASSES", 1), **options)
    print(bounds.verdict(one, taken))


def _four_bytes(dtype: Any) -> str:
    return {"f": "<f4", "i": "<i4", "u": "<u4"}[dtype.kind]


def _keep(path: Path, result: Any) -> None:
    import numpy as np

    np.asarray(result, np.float32).tofile(path)


# --- a family ---


def measure(family: str, command: str, repeats: int, quick: bool, avx2: bool) -> None:
    """Measure a family and print its table."""
    import numpy as np

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if quick:
            (folder / "quick").touch()
        subprocess.run(_call(family, "draw", folder), check=True)
        module = importlib.import_module(f"limits.{family}")
        source = getattr(module, "SOURCE", family)
        options = getattr(module, "OPTIONS", [])
        program = build(command, HERE / "limits" / f"{source}.c", folder, options, avx2)
        cases = {"C, one core": [str(program), str(folder / "input"), str(folder / "C, one core")]}
        cases |= {
            f"C, {label}": [*cases["C, one core"][:2], str(folder / f"C, {label}"), *more]
            for label, more in getattr(module, "VARIANTS", {}).items()
        }
        names = [*cases, "NumPy, one core", *ENGINES]
        workers, taken = {}, {name: [] for name in names}
        for name in names[len(cases) :]:
            pipe = subprocess.PIPE
            workers[name] = subprocess.Popen(
                _call(family, name, folder), stdin=pipe, stdout=pipe, text=True
            )
            work = json.loads(workers[name].stdout.readline())
        core = max(os.sched_getaffinity(0))
        for repeat in range(repeats):
            for name in names:
                if name in cases:
                    taken[name].append(_run_on(core, cases[name]))
                elif repeat < getattr(module, "NUMPY_REPEATS", repeats) or name in ENGINES:
                    print(file=workers[name].stdin, flush=True)
                    taken[name].append(float(workers[name].stdout.readline()))
        for worker in workers.values():
            worker.communicate()
        problem = pickle.loads((folder / "problem").read_bytes())
        results = {}
        for name in names:
            results[name] = np.fromfile(folder / name, np.float32)
            shape = getattr(module, "shape", lambda problem: (problem["trials"], -1))(problem)
            results[name] = results[name].reshape(shape)
        _report(module, problem, work, taken, results)


def bound(family: str, quick: bool) -> str:
    """Return the row of a family in the table of bounds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if quick:
            (folder / "quick").touch()
        subprocess.run(_call(family, "draw", folder), check=True)
        line = _call(family, "bounds", folder)
        done = subprocess.run(line, check=True, capture_output=True, text=True)
        return f"| {family} | {done.stdout.splitlines()[-1]} |"


def _call(family: str, name: str, folder: Path) -> list[str]:
    return [sys.executable, __file__, "--one", family, name, str(folder)]


def _run_on(core: int, line: list[str]) -> float:
    """Run a program on one core and return the seconds that it prints."""
    bind = lambda: os.sched_setaffinity(0, [core])  # noqa: E731
    done = subprocess.run(line, capture_output=True, text=True, check=True, preexec_fn=bind)
    return float(done.stdout)


def _report(module: Any, problem: Any, work: Any, taken: Any, results: Any) -> None:
    import numpy as np

    middle = {name: statistics.median(times) for name, times in taken.items()}
    truth = next(iter(results.values()))
    base = next(iter(middle.values()))
    print(f"\n{(module.__doc__ or '').splitlines()[0]}\n")
    print(
        f"A round ({work['unit']}): {work['flops']:.3g} flops, {work['bytes']:.3g} bytes; "
        f"{work['rounds']:.3g} rounds."
    )
    print("\n| | seconds | a round (us) | Gflop/s | GB/s | / C | mean error | difference |")
    print("|---|---|---|---|---|---|---|---|")
    for name, seconds in middle.items():
        found = results[name]
        scale = np.abs(truth).max(-1)
        difference = np.median(np.abs(found - truth).max(-1) / scale)
        each = seconds / work["rounds"]
        print(
            f"| {name} | {seconds:.4f} | {1e6 * each:.3g} | {1e-9 * work['flops'] / each:.2f} "
            f"| {1e-9 * work['bytes'] / each:.2f} | {seconds / base:.2f} "
            f"| {module.score(problem, found):.6g} | {difference:.1e} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=FAMILIES)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--bounds", action="store_true", help="the table of bounds alone")
    parser.add_argument("--avx2", action="store_true", help="no wider vectors, in C and in XLA")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        family, name, folder = given.one
        work_for(family, name, Path(folder))
        return
    if given.avx2:
        os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_max_isa=AVX2"
    sys.path[:0] = [str(HERE.parent)]
    command = None if given.bounds else compiler()
    if command is None and not given.bounds:
        print("No C compiler was found (cc, gcc or clang): nothing is compared with C.")
    for family in given.families if command else ():
        measure(family, command, given.repeats, given.quick, given.avx2)
    print("\nA round of one run (of HFSAD a pass) on one core, by XLA's count.\n")
    print("| | flops | bytes | peak Gflop/s | GB/s | flops us | bytes us | takes us | bound |")
    print("|---|---|---|---|---|---|---|---|---|")
    for family in given.families:
        print(bound(family, given.quick), flush=True)


if __name__ == "__main__":
    main()
