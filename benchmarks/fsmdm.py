"""FSMDM at its paper's size: 1000 trials x 1000 rounds x 21 sensors, beside vectorised NumPy.

    python benchmarks/fsmdm.py            the table of benchmarks/README.md
    python benchmarks/fsmdm.py --widths   micro-batch widths, on one and on all CPU devices

Each configuration runs in a process of its own, in turns; medians over repeats. Compile time is
apart from run time; every timing waits for its results. No compilation cache.
"""

import time

from side_by_side import CORES, compare, parser, run_one, time_engine

TRIALS, ROUNDS, SENSORS = 1000, 1000, 21


def engine(devices: int, width: int | str) -> dict[str, float]:
    """Time the Monte Carlo engine: drawing problems, all rounds, and bringing the errors home."""
    import jax

    jax.config.update("jax_num_cpu_devices", devices)
    import fedjax_admm as fa

    solver = fa.solvers.fsmdm()

    def trial(key):
        problem = fa.problems.draw_localization(key, fa.problems.cauchy_noise(1.0), clients=SENSORS)
        result = fa.run(
            solver,
            problem,
            key,
            rounds=ROUNDS,
            every=ROUNDS,
            measure=fa.measures.localization_error,
        )
        return {"error": result.trace["error"]}

    return time_engine(trial, TRIALS, width)


def plain_scan() -> dict[str, float]:
    """Time one vmapped scan over all trials at once, on one CPU device."""
    import jax

    import fedjax_admm as fa

    solver = fa.solvers.fsmdm()

    def trial(key):
        problem = fa.problems.draw_localization(key, fa.problems.cauchy_noise(1.0), clients=SENSORS)
        return fa.run(solver, problem, key, rounds=ROUNDS, every=ROUNDS).estimate - problem.target

    keys = jax.random.split(jax.random.key(0), TRIALS)
    clock = time.perf_counter()
    compiled = jax.jit(jax.vmap(trial)).lower(keys).compile()
    compile_seconds = time.perf_counter() - clock
    clock = time.perf_counter()
    error = jax.block_until_ready(compiled(keys))
    run = time.perf_counter() - clock
    mean = float((error**2).sum(1).__pow__(0.5).mean())
    return {"compile": compile_seconds, "run": run, "width": TRIALS, "error": mean}


def numpy_batch(dtype: str) -> dict[str, float]:
    """Time the same arithmetic in NumPy, vectorised over trials and sensors."""
    import numpy as np

    from tests.reference import fsmdm as reference

    cases = reference.stack_trials(reference.cauchy_trial, 2025, TRIALS, 1.0)
    clock = time.perf_counter()
    server = reference.fsmdm_batch(*cases[:2], rounds=ROUNDS, dtype=dtype, **reference.PUBLISHED)
    run = time.perf_counter() - clock
    error = float(np.linalg.norm(server[-1] - cases[2], axis=-1).mean())
    return {"compile": 0.0, "run": run, "width": TRIALS, "error": error}


CONFIGURATIONS = {
    "NumPy, vectorised, float64": lambda: numpy_batch("float64"),
    "NumPy, vectorised, float32": lambda: numpy_batch("float32"),
    "one vmapped scan, 1 device": plain_scan,
    "engine, auto width, 1 device": lambda: engine(1, "auto"),
    f"engine, auto width, {CORES} devices": lambda: engine(CORES, "auto"),
}
for _devices in (1, CORES):
    for _width in (5, 10, 25, 50, 100, 250, 500):
        CONFIGURATIONS[f"width {_width}, {_devices} devices"] = (
            lambda devices=_devices, width=_width: engine(devices, width)
        )


def main() -> None:
    options = parser(__doc__, repeats=7)
    options.add_argument("--widths", action="store_true")
    arguments = options.parse_args()
    if arguments.one:
        run_one(CONFIGURATIONS[arguments.one])
        return
    names = [name for name in CONFIGURATIONS if name.startswith("width") == arguments.widths]
    title = f"{TRIALS} trials x {ROUNDS} rounds x {SENSORS} sensors"
    compare(__file__, names, arguments.repeats, title)


if __name__ == "__main__":
    main()
