"""What rounds should cost on an NVIDIA H100, found by compiling for one without having it.

    python benchmarks/cuda_predictions.py                 every family of `gpu.py`, three sizes
    python benchmarks/cuda_predictions.py --solvers       every solver, on one small problem

    --families FSMDM,HFSAD   --scales 1,10   --only "fed_dr;scaffold"

Needs, beside the package, `pip install jax-cuda12-plugin==V jax-cuda12-pjrt==V` with V the version
of JAX, and `ptxas` on the path or from `nvidia-cuda-nvcc-cu12`; no GPU and no driver. How it is
counted stands in `cuda_program.py`, what came out in `gpu.md`. The last column stays empty for what
`python benchmarks/gpu.py --all` measures.
"""

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from cuda_program import MEMORY, begin, compile_for_cuda, count_rounds
from gpu_families import FAMILIES, RATINGS, functions
from side_by_side import measure, parser, run_one

# A prime that no other loop turns as often as: by it the loop over rounds is found.
ROUNDS = 97
TRIALS = 100  # of the small problem, in one batch
SCALES = (1, 10, 100)
# JAX takes this share of a GPU's memory for itself.
SHARE = 0.75
COUNTED = "rounds_on_cuda"  # the name by which the dumps are found


def predict_family(name: str, scale: int) -> dict[str, Any]:
    """Count a round of all trials of a family."""
    folder = begin(COUNTED)
    import jax

    from fedjax_admm.trials.engine import memory

    draw, begun, advanced = functions(name, scale)
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), FAMILIES[name].trials))
    problems = jax.eval_shape(jax.vmap(draw), keys)
    starts = jax.eval_shape(jax.vmap(begun), problems, keys)
    # As on a GPU: problems are drawn one after another, rounds are those of all trials together.
    drawing = compile_for_cuda(lambda keys: jax.lax.map(draw, keys), keys)
    advance = jax.vmap(partial(advanced, rounds=ROUNDS))
    counted = _counted(folder, advance, ROUNDS, problems, keys, starts)
    return {**counted, "memory": max(counted["memory"], memory.program_bytes(drawing))}


def predict_solver(name: str) -> dict[str, Any]:
    """Count a round of a solver in the table of solvers, on the small problem of that table."""
    folder = begin(COUNTED)
    import jax

    import fedjax_admm as fa
    from tests.solvers import matrix

    row = matrix.ROWS[name]
    problem = matrix.problem(row.on)
    if name in ("fed_mavg", "fed_mc_admm"):
        problem = fa.problems.matrix_completion(
            fa.ratings.draw_ratings(jax.random.key(0), "ml-100k"), jax.random.key(1), clients=100
        )
    keys = jax.random.split(jax.random.key(0), TRIALS)

    def trial(solver, problem, key):
        return fa.run(solver, problem, key, rounds=ROUNDS, every=ROUNDS).estimate

    arguments = row.build(problem), problem, keys
    shapes = jax.eval_shape(lambda *given: given, *arguments)
    return _counted(folder, jax.vmap(trial, (None, None, 0)), ROUNDS, *shapes)


def _counted(folder: Any, function: Callable, rounds: int | None, *shapes: Any) -> dict[str, Any]:
    from fedjax_admm.trials.engine import memory

    def rounds_on_cuda(*arguments):
        return function(*arguments)

    clock = time.perf_counter()
    compiled = compile_for_cuda(rounds_on_cuda, *shapes)
    seconds = time.perf_counter() - clock
    cost, kernels = count_rounds(folder, rounds)
    shutil.rmtree(folder)
    return {
        "launches": cost.launches,
        "submissions": cost.submissions,
        "turns": cost.turns,
        "registers": max((kernel.registers for kernel in kernels.values()), default=0),
        "spilled": sum(kernel.spilled for kernel in kernels.values()),
        "shared": max([cost.shared, *(kernel.shared for kernel in kernels.values())]),
        "kernels": len(kernels),
        "bytes": cost.bytes,
        "flops": cost.flops,
        "fast": cost.fast,
        "slow": cost.slow,
        "memory": memory.program_bytes(compiled),
        "compile": seconds,
    }


TASKS = {"family": predict_family, "solver": predict_solver}


def in_a_process(task: str, **arguments: Any) -> Mapping[str, Any]:
    """Run a task in a process of its own; a process that fails tells why in "failed"."""
    try:
        return measure(__file__, json.dumps([task, arguments]))
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or [f"it ended with code {error.returncode}"]
        return {"failed": lines[-1]}


HEAD = (
    "| {} | launches | of these in a turn of a loop that data end | given to the driver "
    "| different kernels | registers, at most | spilled (bytes) | shared memory (KiB) "
    "| read and written (MB) | flops (M) | memory (MiB) | predicted (ms) | measured (ms) |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def line(title: str, row: Mapping[str, Any]) -> str:
    """Return a row of the table."""
    if "failed" in row:
        return f"| {title} | failed: {row['failed']} |"
    needed = f"{row['memory'] / 2**20:,.0f}"
    if row["memory"] > SHARE * MEMORY:
        needed += " (does not fit)"
    return (
        f"| {title} | {row['launches']:,} | {row['turns'] or ''} | {row['submissions']:,} "
        f"| {row['kernels']} | {row['registers']} | {row['spilled']} | {row['shared'] / 1024:.3g} "
        f"| {row['bytes'] / 1e6:.4g} | {row['flops'] / 1e6:.4g} | {needed} "
        f"| {1e3 * row['fast']:.3g} to {1e3 * row['slow']:.3g} | |"
    )


def main() -> None:
    options = parser(__doc__, repeats=1)
    options.add_argument("--families", default=",".join(FAMILIES))
    options.add_argument("--scales", default=",".join(map(str, SCALES)))
    options.add_argument("--solvers", action="store_true")
    options.add_argument("--only", help="names of solvers with semicolons between; all by default")
    given = options.parse_args()
    if given.one:
        task, arguments = json.loads(given.one)
        run_one(lambda: TASKS[task](**arguments))
        return
    if given.solvers:
        from tests.solvers import matrix

        names = given.only.split(";") if given.only else [*matrix.ROWS]
        print(HEAD.format(f"solver, {TRIALS} trials"))
        for name in names:
            print(line(f"`{name}`", in_a_process("solver", name=name)), flush=True)
    else:
        print(HEAD.format("family, size"), flush=True)
        for name in given.families.split(","):
            for scale in map(int, given.scales.split(",")):
                if name == "FedMC-ADMM" and scale not in RATINGS:
                    continue
                title = f"{name}, {FAMILIES[name].size(scale)}"
                found = in_a_process("family", name=name, scale=scale)
                print(line(title, found), flush=True)


if __name__ == "__main__":
    main()
