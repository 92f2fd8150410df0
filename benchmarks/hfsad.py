"""HFSAD at its paper's size: 100 trials x 400 rounds x 10 passes x 250 clients, beside NumPy.

    python benchmarks/hfsad.py            the table of benchmarks/README.md
    python benchmarks/hfsad.py --widths   micro-batch widths, on one and on all CPU devices

Each configuration runs in a process of its own, in turns; medians over repeats. Compile time is
apart from run time; every timing waits for its results. No compilation cache.
"""

import time

from side_by_side import CORES, compare, parser, run_one, time_engine

TRIALS, ROUNDS, PASSES = 100, 400, 10


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


def main() -> None:
    options = parser(__doc__, repeats=3)
    options.add_argument("--widths", action="store_true")
    arguments = options.parse_args()
    if arguments.one:
        run_one(CONFIGURATIONS[arguments.one])
    else:
        names = [name for name in CONFIGURATIONS if name.startswith("width") == arguments.widths]
        title = f"{TRIALS} trials x {ROUNDS} rounds x {PASSES} passes x 250 clients"
        compare(__file__, names, arguments.repeats, title)


if __name__ == "__main__":
    main()
