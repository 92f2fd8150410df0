"""HFSAD at its paper's size: 100 trials x 400 rounds x 10 passes x 250 clients, beside NumPy.

    python benchmarks/hfsad.py            the table of benchmarks/README.md
    python benchmarks/hfsad.py --widths   micro-batch widths, on one and on all CPU devices
    python benchmarks/hfsad.py --growth   one pass over trees of 250 to 100,000 clients, with a plot

Each configuration runs in a process of its own, in turns; medians over repeats. Compile time is
apart from run time; every timing waits for its results. No compilation cache.
"""

import statistics
import time
from pathlib import Path

from side_by_side import CORES, compare, parser, run_one, time_engine

TRIALS, ROUNDS, PASSES = 100, 400, 10
SIZES = (250, 1000, 4000, 10_000, 40_000, 100_000)
GROWTH = Path(__file__).with_name("hfsad-growth.png")


def engine(devices: int, width: int | str) -> dict[str, float]:
    """Time the Monte Carlo engine: drawing problems, all rounds, and bringing the errors home."""
    import jax

    jax.config.update("jax_num_cpu_devices", devices)
    import fedjax_admm as fa

    def trial(key):
        problem = fa.problems.draw_phase_retrieval(key)
        solver = fa.solvers.hfsad(problem, passes=PASSES)
        result = fa.run(
            solver, problem, key, rounds=ROUNDS, every=ROUNDS, measure=fa.measures.tree_signal_error
        )
        return {"error": result.trace["error"]}

    return time_engine(trial, TRIALS, width)


def numpy_batch(dtype: str) -> dict[str, float]:
    """Time the same arithmetic in NumPy, vectorised over trials, edge servers and clients."""
    import numpy as np

    from tests.reference import hfsad as reference

    x, y, truth, start = reference.stack_trials(0, TRIALS)
    clock = time.perf_counter()
    root = reference.hfsad_batch(x, y, start, PASSES, ROUNDS, dtype=np.dtype(dtype))
    run = time.perf_counter() - clock
    errors = [reference.relative_error(w, t) for w, t in zip(root[-1], truth, strict=True)]
    return {"compile": 0.0, "run": run, "width": 25, "error": float(np.mean(errors))}


CONFIGURATIONS = {
    "NumPy, vectorised, float64": lambda: numpy_batch("float64"),
    "NumPy, vectorised, float32": lambda: numpy_batch("float32"),
    "engine, auto width, 1 device": lambda: engine(1, "auto"),
    f"engine, auto width, {CORES} devices": lambda: engine(CORES, "auto"),
}
for _devices in (1, CORES):
    for _width in (1, 2, 4, 10, 25):
        CONFIGURATIONS[f"width {_width}, {_devices} devices"] = (
            lambda devices=_devices, width=_width: engine(devices, width)
        )


def growth(repeats: int) -> None:
    """Time one pass over ever larger trees, print a table and draw it."""
    import jax

    jax.config.update("jax_num_cpu_devices", 1)
    import fedjax_admm as fa

    print(
        "| clients | edge servers | depth 1 (ms) | depth 2 (ms) | depth 3 (ms) | NumPy, depth 2 |"
    )
    print("|---|---|---|---|---|---|")
    columns: dict[str, list[float]] = {"depth 1": [], "depth 2": [], "depth 3": [], "NumPy": []}
    for clients in SIZES:
        edges = clients // 50
        problem = fa.problems.draw_phase_retrieval(jax.random.key(0), clusters=edges, start="near")
        regions = [[50] * part for part in _nearly_square(edges)]
        shapes = {
            "depth 1": fa.trees.star(clients),
            "depth 2": problem.tree,
            "depth 3": fa.trees.from_counts(regions),
        }
        for name, tree in shapes.items():
            columns[name].append(_time_pass(problem, tree, repeats))
        columns["NumPy"].append(_time_numpy_pass(problem, edges, repeats))
        row = " | ".join(f"{1e3 * column[-1]:.3g}" for column in columns.values())
        print(f"| {clients} | {edges} | {row} |")
    _draw(columns)


def _nearly_square(number: int) -> list[int]:
    """Split a number into about as many parts as each part is large."""
    parts = max(1, round(number**0.5))
    return [number // parts + (part < number % parts) for part in range(parts)]


def _time_pass(problem, tree, repeats: int) -> float:
    """Return the median seconds of one pass, over runs of 2 rounds."""
    from dataclasses import replace

    import jax

    import fedjax_admm as fa

    problem = replace(problem, tree=tree)
    solver = fa.solvers.hfsad(problem, passes=PASSES)

    def go():
        return jax.block_until_ready(fa.run(solver, problem, jax.random.key(1), rounds=2).estimate)

    go()
    taken = []
    for _ in range(repeats):
        clock = time.perf_counter()
        go()
        taken.append(time.perf_counter() - clock)
    return statistics.median(taken) / (2 * PASSES)


def _time_numpy_pass(problem, edges: int, repeats: int) -> float:
    import numpy as np

    from tests.reference import hfsad as reference

    x = np.asarray(problem.x).reshape(1, edges, -1, problem.dim)
    y = np.asarray(problem.y).reshape(1, edges, -1)
    start = np.asarray(problem.start)[None]
    taken = []
    for _ in range(repeats):
        clock = time.perf_counter()
        reference.hfsad_batch(x, y, start, PASSES, 2, dtype=np.float32)
        taken.append(time.perf_counter() - clock)
    return statistics.median(taken) / (2 * PASSES)


def _draw(columns: dict[str, list[float]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.6), layout="constrained")
    axes = figure.subplots()
    for (name, seconds), marker in zip(columns.items(), "osD^", strict=True):
        axes.loglog(SIZES, [1e3 * value for value in seconds], marker=marker, label=name)
    first = 1e3 * columns["depth 2"][0]
    axes.loglog(SIZES, [first * size / SIZES[0] for size in SIZES], "k:", label="linear")
    axes.set(
        xlabel="clients",
        ylabel="time of one pass (ms)",
        title="HFSAD, 25 dimensions, float32, one core",
    )
    axes.grid(True, linewidth=0.4)
    axes.legend()
    figure.savefig(GROWTH, dpi=120)
    print(f"\nWrote {GROWTH.name}")


def main() -> None:
    options = parser(__doc__, repeats=3)
    options.add_argument("--widths", action="store_true")
    options.add_argument("--growth", action="store_true")
    arguments = options.parse_args()
    if arguments.one:
        run_one(CONFIGURATIONS[arguments.one])
    elif arguments.growth:
        growth(arguments.repeats)
    else:
        names = [name for name in CONFIGURATIONS if name.startswith("width") == arguments.widths]
        title = f"{TRIALS} trials x {ROUNDS} rounds x {PASSES} passes x 250 clients"
        compare(__file__, names, arguments.repeats, title)


if __name__ == "__main__":
    main()
