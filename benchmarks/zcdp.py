"""Private networked learning: the main job beside NumPy, a tuning search, and 10,000 clients.

    python benchmarks/zcdp.py            50 trials x 200 rounds x 6 epsilons x 3 tasks of zCDP-NFL
    python benchmarks/zcdp.py --tuning   200 settings on 4 problems in one compiled call
    python benchmarks/zcdp.py --large    one round of 10,000 clients with 3 neighbours each

Each configuration runs in a process of its own, in turns; medians over repeats. Compile time is
apart from run time; every timing waits for its results. No compilation cache.
"""

import resource
import statistics
import time

from side_by_side import CORES, compare, measure, parser, run_one, time_engine

TRIALS, ROUNDS = 50, 200
CLIENTS, NEIGHBOURS, SAMPLES, DIM = 10_000, 3, 50, 8


def many_runs(devices: int, width: int | str) -> dict[str, float]:
    """Time the Monte Carlo engine: drawing graphs and data, the optima, all rounds, all errors."""
    import jax

    jax.config.update("jax_num_cpu_devices", devices)
    import jax.numpy as jnp

    from fedjax_admm.trials.experiments import find, zcdp

    settings = {**zcdp.COMMON, "epsilon": zcdp.EPSILONS, "rounds": ROUNDS}
    methods_of = find("zcdp-tradeoff").methods

    def trial(key):
        problem = zcdp.draw_tasks(zcdp.COMMON, key)

        def at(epsilon):
            methods = methods_of(settings, epsilon)
            chosen = [methods[f"{task}: {zcdp.ZCDP}"] for task in zcdp.TASKS]
            outcomes = [method(problem, key, ROUNDS, ROUNDS) for method in chosen]
            return jnp.stack([outcome["unprotected_error"][-1] for outcome in outcomes])

        return {"error": jax.vmap(at)(jnp.asarray(zcdp.EPSILONS))}

    return time_engine(trial, TRIALS, width)


def numpy_runs() -> dict[str, float]:
    """Time the same rounds in NumPy, all epsilons of a trial at once; nothing is drawn but noise.

    The problems and their optima are drawn by the library, outside the timing.
    """
    import jax
    import numpy as np

    jax.config.update("jax_num_cpu_devices", 1)
    from fedjax_admm.privacy import zcdp_plan
    from fedjax_admm.trials.experiments import zcdp

    keys = jax.random.split(jax.random.key(0), TRIALS)
    drawn = jax.jit(jax.vmap(lambda key: zcdp.draw_tasks(zcdp.COMMON, key)))(keys)
    drawn = jax.tree.map(np.asarray, drawn)
    rng, errors = np.random.default_rng(0), []
    clock = time.perf_counter()
    for task in zcdp.TASKS:
        found = [zcdp.tuned(task, zcdp.ZCDP, epsilon) for epsilon in zcdp.EPSILONS]
        plans = [
            zcdp_plan(epsilon, zcdp.COMMON["delta"], ROUNDS, setting.tau)
            for epsilon, setting in zip(zcdp.EPSILONS, found, strict=True)
        ]
        multipliers = np.stack([plan.multipliers for plan in plans]).astype(np.float32)
        columns = [np.array(part, np.float32)[:, None] for part in zip(*found, strict=True)]
        problem = drawn[task]
        for trial in range(TRIALS):
            one = jax.tree.map(lambda leaf, trial=trial: leaf[trial], problem)
            w = numpy_rounds(one, task, columns, multipliers, rng)
            errors.append(((w - one.optimum) ** 2).sum((1, 2)) / (one.optimum**2).sum())
    run = time.perf_counter() - clock
    return {"compile": 0.0, "run": run, "width": 1, "error": float(np.mean(errors))}


def numpy_rounds(problem, task, columns, multipliers, rng):
    """Run one trial for every epsilon: models (epsilons, clients, dim) without noise."""
    import numpy as np

    step, power, rho, clip, _ = columns
    x, y = problem.features, problem.targets
    reach = 1 / np.linalg.norm(x, axis=-1)
    clients, samples, dim = x.shape
    heads, tails = problem.graph.heads, problem.graph.tails
    adjacency = np.zeros((clients, clients), np.float32)
    adjacency[heads, tails] = adjacency[tails, heads] = 1
    degrees = adjacency.sum(1)
    laplacian = np.diag(degrees) - adjacency
    limit = clip[:, :, None] * reach[None]
    l1, l2 = np.float32(problem.l1), np.float32(problem.l2)
    turned = np.ascontiguousarray(x.transpose(0, 2, 1))
    v = np.zeros((len(rho), clients, dim), np.float32)
    dual, w = np.zeros_like(v), v
    for n in range(1, multipliers.shape[1] + 1):
        gain = 1 / (n**power / step + 2 * rho * degrees[None])
        # Batched over clients: (samples, dim) x (dim, epsilons).
        residual = (x @ v.transpose(1, 2, 0)).transpose(2, 0, 1) - y[None]
        slope = np.sign(residual) if task == "LAD" else 2 * residual
        np.clip(slope, -limit, limit, out=slope)
        gradient = (turned @ slope.transpose(1, 2, 0)).transpose(2, 0, 1) / np.float32(samples)
        gradient += (l1 * np.sign(v) + 2 * l2 * v) / np.float32(clients)
        pull = dual + rho[:, :, None] * (laplacian @ v)
        w = v - gain[:, :, None] * (gradient + pull)
        deviation = multipliers[:, n - 1, None] * 2 * clip * gain / np.float32(samples)
        v = w + deviation[:, :, None] * rng.standard_normal(w.shape, np.float32)
        dual += rho[:, :, None] * (laplacian @ v)
    return w


def tuning() -> dict[str, float]:
    """Time a search of 200 settings on 4 problems: building, compiling and running."""
    import jax

    jax.config.update("jax_num_cpu_devices", 1)
    import tune

    from fedjax_admm.privacy import random_settings, tune_private
    from fedjax_admm.trials.experiments import zcdp

    draw = tune.drawn_with("LAD", 0.0)
    found = random_settings(0, 200)

    def search(epsilon):
        clock = time.perf_counter()
        tuned = tune_private(
            lambda setting: zcdp.build_solver(zcdp.ZCDP, setting, epsilon, 1e-5, ROUNDS)[0],
            found,
            draw,
            jax.random.key(0),
            trials=4,
            rounds=ROUNDS,
        )
        return time.perf_counter() - clock, tuned.score

    first, _ = search(1.0)
    taken = [search(epsilon) for epsilon in (2.0, 4.0, 8.0)]
    run = statistics.median(seconds for seconds, _ in taken)
    return {"compile": first - run, "run": run, "width": 25, "error": taken[-1][1]}


def large() -> dict[str, float]:
    """Time rounds of 10,000 clients, 50 samples each; "error" after the last one."""
    import jax

    jax.config.update("jax_num_cpu_devices", 1)
    import networkx
    import numpy as np

    import fedjax_admm as fa
    from fedjax_admm import graphs, losses, privacy

    graph = graphs.from_networkx(networkx.random_regular_graph(NEIGHBOURS, CLIENTS, seed=0))
    problem = fa.problems.draw_consensus_regression(
        jax.random.key(0), graph, losses.absolute(), samples=SAMPLES, dim=DIM
    )
    rounds = 100
    plan = privacy.zcdp_plan(8.0, 1e-5, rounds)
    solver = fa.solvers.private_networked_admm(
        privacy.gaussian_release(plan, 0.5), rho=1.0, step_size=2.0
    )

    def go():
        clock = time.perf_counter()
        result = fa.run(
            solver,
            problem,
            jax.random.key(1),
            rounds=rounds,
            measure=fa.measures.consensus_error,
            every=rounds,
        )
        jax.block_until_ready(result.estimate)
        return time.perf_counter() - clock, float(np.asarray(result.trace["unprotected_error"])[-1])

    first, _ = go()
    taken = [go() for _ in range(5)]
    run = statistics.median(seconds for seconds, _ in taken)
    return {
        "compile": first - run,
        "run": run,
        "round": run / rounds,
        "width": 1,
        "error": taken[-1][1] / CLIENTS,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10,
    }


MAIN = {
    f"engine, {CORES} devices": lambda: many_runs(CORES, "auto"),
    "engine, 1 device": lambda: many_runs(1, "auto"),
    "NumPy": numpy_runs,
}
OTHERS = {"tuning": tuning, "large": large}


def main() -> None:
    options = parser(__doc__, repeats=3)
    options.add_argument("--tuning", action="store_true")
    options.add_argument("--large", action="store_true")
    given = options.parse_args()
    if given.one:
        run_one({**MAIN, **OTHERS}[given.one])
    elif given.tuning or given.large:
        name = "tuning" if given.tuning else "large"
        for _ in range(given.repeats):
            row = measure(__file__, name)
            print(", ".join(f"{key} {value:.4g}" for key, value in row.items()))
    else:
        title = f"{TRIALS} trials, {ROUNDS} rounds, 6 epsilons, 3 tasks"
        compare(__file__, list(MAIN), given.repeats, title)


if __name__ == "__main__":
    main()
