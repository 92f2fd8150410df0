"""Every family of solvers at its paper's size and larger, on a GPU beside two CPU cores.

    python benchmarks/gpu.py --all       everything below, as one page of tables
    python benchmarks/gpu.py             all families at 1, 10 and 100 times the paper's size
    python benchmarks/gpu.py --widths    FSMDM: time of a round against the trials in one batch

    --families FSMDM,HFSAD   --scales 1,10   --repeats 5   --rounds 100
    --widths-up-to 4096   --unrolls 1,2,4

Without a GPU the CPU is measured alone, and a line says so. "Two CPU cores" is a process that may
use two cores only, as two CPU devices that share the trials, in micro-batches that fit the cache;
a GPU takes all trials in one batch. Each configuration runs in a process of its own. Problems are
drawn, and states made, before the clock starts; medians over repeats; compile time is apart from
run time; every timing waits for its results. What does not fit into the memory by the compiled
program's own analysis is left out before anything is allocated. The width that the engine chooses
by itself is among those of `--widths`, and the kernel's answers are held against the scan's before
it is timed. No compilation cache.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from gpu_families import FAMILIES, RATINGS, SENSORS, ZCDP_ROUNDS, functions

CPU_CORES = 2
SCALES = (1, 10, 100)
WIDEST = 4096
# On a CPU unrolling is slower, and with 16 compiling takes longer than ten minutes.
UNROLLS = (1, 2, 4)
BARE = "bare scan, unroll "
WIDTH_ROUNDS = 200
AUTOMATIC_OF = 1000  # trials in the paper's figures: the engine chooses a width for them
AGREEING = 1e-3  # relative: nine of ten answers of the kernel are as near to the scan's


# --- one configuration, in a process of its own -------------------------------------------------


def begin(platform: str) -> None:
    """Choose devices, before JAX looks for them."""
    if platform == "cpu" and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CPU_CORES])
    import jax

    if platform == "cpu":
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", CPU_CORES)


def device() -> dict[str, Any]:
    """Return what JAX computes on by default."""
    import jax

    default = jax.devices()[0]
    return {"platform": default.platform, "kind": default.device_kind, "jax": jax.__version__}


def run_family(name: str, scale: int, rounds: int, repeats: int, platform: str) -> dict[str, Any]:
    """Time rounds of all trials of a family; only "needed" and "free" where it does not fit."""
    begin(platform)
    import jax

    from fedjax_admm.trials.engine import memory

    family = FAMILIES[name]
    draw, begun, advanced = functions(name, scale)
    rounds_of = partial(advanced, rounds=rounds)
    mesh = _mesh(family.trials, platform)
    keys = jax.random.split(jax.random.key(0), family.trials)

    problems = jax.eval_shape(jax.vmap(draw), keys)
    starts = jax.eval_shape(jax.vmap(begun), problems, keys)
    program = _spread(rounds_of, mesh, _width(rounds_of, (problems, keys, starts), mesh))
    clock = time.perf_counter()
    compiled = program.lower(problems, keys, starts).compile()
    compile_seconds = time.perf_counter() - clock
    # Problems are drawn one after another, which takes less memory.
    drawing = _spread(draw, mesh, 1).lower(keys).compile()
    needed = max(memory.program_bytes(one) for one in (compiled, drawing))
    free = memory.free_bytes(mesh.devices.flat[0])
    if free is not None and needed > free:
        return {"needed": needed, "free": free}

    drawn = drawing(keys)
    states = _spread(begun, mesh, 1)(drawn, keys)
    run = _median(lambda: compiled(drawn, keys, states), repeats)
    return {
        "needed": needed,
        "compile": compile_seconds,
        "run": run,
        "round": run / rounds,
        "trials": family.trials,
        "per_second": family.trials / (run / rounds * family.rounds),
        **device(),
    }


def _mesh(trials: int, platform: str):
    """Return a mesh over the devices among which the trials can be divided."""
    import jax

    here = jax.devices() if platform == "cpu" else jax.devices()[:1]
    share = max(number for number in range(1, len(here) + 1) if trials % number == 0)
    return jax.make_mesh(
        (share,),
        ("trials",),
        axis_types=(jax.sharding.AxisType.Auto,),
        devices=here[:share],
    )


def _width(function: Callable, shapes: Any, mesh: Any) -> int:
    """Return how many trials a device takes at once, as the Monte Carlo engine chooses it."""
    import jax

    from fedjax_admm.trials import engine

    share = jax.tree.leaves(shapes)[0].shape[0] // mesh.size
    if mesh.devices.flat[0].platform != "cpu":
        return share
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), shapes)
    size = engine.loop_bytes(function, *one)
    return max(1, min(share, engine.CACHE_BYTES // size))


def _spread(function: Callable, mesh: Any, width: int) -> Any:
    """Return a compiled-once function of stacked trials, spread over devices and micro-batches."""
    import jax

    def shard(*stacked):
        size = width if width > 1 else None
        return jax.lax.map(lambda one: function(*one), stacked, batch_size=size)

    over = jax.sharding.PartitionSpec("trials")
    placed = jax.sharding.NamedSharding(mesh, over)
    sharded = jax.shard_map(shard, mesh=mesh, in_specs=over, out_specs=over, check_vma=False)
    return jax.jit(sharded, in_shardings=placed, out_shardings=placed)


def _median(go: Callable[[], object], repeats: int) -> float:
    """Return the median seconds of a compiled call, after one that does not count."""
    import jax

    jax.block_until_ready(go())
    taken = []
    for _ in range(repeats):
        clock = time.perf_counter()
        jax.block_until_ready(go())
        taken.append(time.perf_counter() - clock)
    return statistics.median(taken)


def run_width(
    width: int, rounds: int, repeats: int, platform: str, ways: list[str]
) -> dict[str, Any]:
    """Time rounds of FSMDM for so many trials in one batch on one device, in several ways."""
    begin(platform)
    import jax

    import fedjax_admm as fa

    solver = fa.solvers.fsmdm()
    keys = jax.random.split(jax.random.key(0), width)
    draw = functions("FSMDM", 1)[0]
    problems = jax.block_until_ready(jax.jit(jax.vmap(draw))(keys))

    def scan(problem, key):
        return fa.run(solver, problem, key, rounds=rounds, every=rounds).estimate

    def bare(problem, key, unroll):
        """Scan over the solver's own step: no status, no trace, nobody absent."""

        def advance(state, index):
            everyone = jax.numpy.ones(problem.num_clients, bool)
            info = fa.RoundInfo(index, jax.random.fold_in(key, index), everyone, None)
            return solver.step(problem, state, info), None

        indices = jax.numpy.arange(rounds, dtype="int32")
        last, _ = jax.lax.scan(advance, solver.init(problem, key), indices, unroll=unroll)
        return solver.estimate(last)

    loops = {"scan": scan}
    result: dict[str, Any] = {}
    for way in ways:
        unroll = way.removeprefix(BARE)
        function = loops.get(way) or partial(bare, unroll=int(unroll))
        clock = time.perf_counter()
        compiled = jax.jit(jax.vmap(function)).lower(problems, keys).compile()
        result[f"compile, {way}"] = time.perf_counter() - clock
        result[way] = _median(lambda compiled=compiled: compiled(problems, keys), repeats) / rounds
    return result


def automatic_width(platform: str) -> dict[str, int]:
    """Return how many of the paper's trials of FSMDM the engine takes at once by itself."""
    begin(platform)
    import jax

    import fedjax_admm as fa
    from fedjax_admm.trials.engine import default_mesh, monte_carlo

    draw = functions("FSMDM", 1)[0]

    def trial(key):
        problem = draw(key)
        run = fa.run(fa.solvers.fsmdm(), problem, key, rounds=1)
        return {"estimate": run.estimate}

    mesh = default_mesh(1)
    outcome = monte_carlo(
        trial, jax.random.key(0), AUTOMATIC_OF, chunk=AUTOMATIC_OF, mesh=mesh, progress=False
    )
    return {"width": outcome.layout.width}


TASKS = {
    "device": device,
    "automatic": automatic_width,
    "family": run_family,
    "width": run_width,
}


def in_a_process(task: str, **arguments: Any) -> Mapping[str, Any]:
    """Run a task in a process of its own; a process that fails tells why in "failed"."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", json.dumps([task, arguments])],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "OMP_NUM_THREADS": "1"},
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"it ended with code {done.returncode}"]
        return {"failed": lines[-1]}
    return json.loads(done.stdout.splitlines()[-1])


# --- the tables ---------------------------------------------------------------------------------


def report_families(names: list[str], scales: list[int], given: Any, platforms: list[str]) -> None:
    """Print what a scale multiplies, and one row per family, scale and device."""
    print("| family | scale 1 | a scale multiplies | trials |\n|---|---|---|---|")
    for name in names:
        family = FAMILIES[name]
        print(f"| {name} | {family.size(1)} | {family.grows} | {family.trials} |")
    print(
        "\n| family, size | device | compile (s) | one round (ms) | trials per second "
        "| memory (MiB) | two CPU cores take (times) |\n|---|---|---|---|---|---|---|"
    )
    for name in names:
        for scale in scales:
            if name == "FedMC-ADMM" and scale not in RATINGS:
                print(f"\n{name} has sizes {', '.join(map(str, RATINGS))} only, not {scale}.\n")
                continue
            rounds = given.rounds or max(10, ZCDP_ROUNDS // scale)
            rows = {
                platform: in_a_process(
                    "family",
                    name=name,
                    scale=scale,
                    rounds=rounds,
                    repeats=given.repeats,
                    platform=platform,
                )
                for platform in platforms
            }
            for row in rows.values():
                print(_family_row(f"{name}, {FAMILIES[name].size(scale)}", row, rows), flush=True)


def _family_row(title: str, row: Mapping[str, Any], rows: Mapping[str, Mapping]) -> str:
    if "failed" in row:
        return f"| {title} | failed: {row['failed']} |"
    mebibytes = row["needed"] / 2**20
    if "run" not in row:
        return (
            f"| {title} | left out: it needs {mebibytes:,.0f} MiB, and "
            f"{row['free'] / 2**20:,.0f} MiB are free |"
        )
    beside = rows["cpu"].get("round")
    ratio = "" if row is rows["cpu"] or beside is None else f"{beside / row['round']:.2f}"
    return (
        f"| {title} | {_short(row)} | {row['compile']:.2f} | {1e3 * row['round']:.4g} "
        f"| {row['per_second']:.4g} | {mebibytes:,.0f} | {ratio} |"
    )


def _short(row: Mapping[str, Any]) -> str:
    return f"{CPU_CORES} CPU cores" if row["platform"] == "cpu" else row["kind"]


def report_widths(ways: list[str], given: Any, platforms: list[str]) -> None:
    """Print the time of a round against the trials in one batch."""
    powers = {width for width in (4**power for power in range(9)) if width <= given.widths_up_to}
    rounds = given.rounds or WIDTH_ROUNDS
    print(f"FSMDM, {SENSORS} sensors, {rounds} rounds, one batch on one device; microseconds\n")
    print(f"| device | trials | {' | '.join(ways)} | fastest, per trial |")
    print("|---" * (len(ways) + 3) + "|")
    for platform in platforms:
        chosen = in_a_process("automatic", platform=platform).get("width")
        for width in sorted(powers | ({chosen} if chosen else set())):
            row = in_a_process(
                "width",
                width=width,
                rounds=rounds,
                repeats=given.repeats,
                platform=platform,
                ways=ways,
            )
            if "failed" in row:
                print(f"| {platform} | {width} | failed: {row['failed']} |", flush=True)
                continue
            name = f"{width} (automatic of {AUTOMATIC_OF:,})" if width == chosen else width
            taken = {way: 1e6 * row[way] for way in ways}
            shown = " | ".join(f"{taken[way]:.4g}" if way in taken else "" for way in ways)
            fastest = min(taken.values()) / width
            print(f"| {platform} | {name} | {shown} | {fastest:.3g} |", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--one", help=argparse.SUPPRESS)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--families", default=",".join(FAMILIES))
    options.add_argument("--scales", default=",".join(map(str, SCALES)))
    options.add_argument("--rounds", type=int, help="fewer for larger sizes by default")
    options.add_argument("--all", action="store_true")
    options.add_argument("--widths", action="store_true")
    options.add_argument("--widths-up-to", type=int, default=WIDEST)
    options.add_argument("--unrolls", default=",".join(map(str, UNROLLS)))
    given = options.parse_args()
    if given.one:
        task, arguments = json.loads(given.one)
        print(json.dumps(TASKS[task](**arguments)))
        return
    names, scales = given.families.split(","), [int(scale) for scale in given.scales.split(",")]
    unknown = [name for name in names if name not in FAMILIES]
    if unknown:
        options.error(f"there is no family {unknown[0]!r}; there are {', '.join(FAMILIES)}")
    found = in_a_process("device")
    has_gpu = found.get("platform") in ("gpu", "cuda", "rocm")
    platforms = ["cpu", found["platform"]] if has_gpu else ["cpu"]
    print(f"JAX {found.get('jax', '?')}, {found.get('kind') if has_gpu else 'no GPU here'}\n")
    if given.all or not given.widths:
        report_families(names, scales, given, platforms)
        print()
    if given.widths or given.all:
        bare = [f"{BARE}{int(unroll)}" for unroll in given.unrolls.split(",")]
        report_widths(["scan", *bare], given, platforms)


if __name__ == "__main__":
    main()
