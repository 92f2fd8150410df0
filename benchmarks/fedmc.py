"""Federated matrix completion: one round at the shapes of well-known tables, a sweep of beta.

    python benchmarks/fedmc.py             one round: ml-100k, ml-1m, ml-10m, beside NumPy and scipy
    python benchmarks/fedmc.py --sweep     8 values of beta on ml-100k beside one run
    python benchmarks/fedmc.py --netflix   drawing 100 million ratings, the problem, and 3 rounds

Ratings are synthetic (`ratings.draw_ratings`); ml-100k is the real table where FEDJAX_ADMM_DATA
names the folder that holds it. 100 clients, 10 drawn per round, 10 inner steps, squares as
regularisers. Each configuration runs in a process of its own, in turns; medians over repeats.
Compile time is apart from run time; every timing waits for its results. No compilation cache.
"""

import os
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from side_by_side import CORES, measure, parser, run_one

RANKS = {"ml-100k": 5, "ml-1m": 5, "ml-10m": 8, "netflix": 13}
ROUNDS = {"ml-100k": 100, "ml-1m": 50, "ml-10m": 10, "netflix": 3}
CLIENTS, DRAWN, STEPS, BETA, WEIGHT = 100, 10, 10, 1e5, 1e-6
VALUES = 8


def problem_of(shape: str, devices: int = 1):
    """Return the problem of a shape, and how long drawing and building took."""
    import jax

    jax.config.update("jax_num_cpu_devices", devices)
    import fedjax_admm as fa

    clock = time.perf_counter()
    folder = Path(os.environ.get("FEDJAX_ADMM_DATA") or "nowhere") / "ml-100k" / "u.data"
    if shape == "ml-100k" and folder.exists():
        ratings = fa.ratings.read_ratings(folder)
    else:
        ratings = jax.jit(lambda key: fa.ratings.draw_ratings(key, shape))(jax.random.key(0))
        jax.block_until_ready(ratings)
    drawn = time.perf_counter() - clock
    problem = fa.problems.matrix_completion(ratings, jax.random.key(1), clients=CLIENTS)
    jax.block_until_ready(problem)
    return problem, {"draw": drawn, "build": time.perf_counter() - clock - drawn}


def timed(go: Callable[[], object], repeats: int) -> dict[str, float]:
    """Return the time of compiling and of running a compiled function."""
    import jax

    def once() -> float:
        clock = time.perf_counter()
        jax.block_until_ready(go())
        return time.perf_counter() - clock

    first = once()
    run = statistics.median(once() for _ in range(repeats))
    return {"compile": first - run, "run": run}


def peak() -> float:
    """Return the peak memory of this process so far (MiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def engine(shape: str, x64: bool = False) -> dict[str, float]:
    """Time rounds of FedMC-ADMM, evaluation left out."""
    import jax

    jax.config.update("jax_enable_x64", x64)
    import fedjax_admm as fa
    from fedjax_admm.participation import without_replacement

    problem, taken = problem_of(shape)
    before = peak()
    solver = fa.solvers.fed_mc_admm(rank=RANKS[shape], beta=BETA)

    def go(start, rounds=ROUNDS[shape]):
        return fa.run(
            solver,
            problem,
            jax.random.key(2),
            rounds=rounds,
            participation=without_replacement(DRAWN),
            start=start,
        )

    # The first call computes the dual variables of all clients: it is timed apart.
    clock = time.perf_counter()
    first = jax.block_until_ready(go(None, 1)).state
    taken["first"] = time.perf_counter() - clock
    times = timed(lambda: go(first), 1 if shape == "netflix" else 5)
    factors = go(first).state.solver.factors
    clock = time.perf_counter()
    error = float(jax.jit(fa.measures.factor_error)(problem, factors)["error"])
    return {
        **taken,
        **times,
        "round": times["run"] / ROUNDS[shape],
        "error": error,
        "evaluate": time.perf_counter() - clock,
        "before": before,
        "ratings": float(problem.by_user.counts.sum() + problem.held_out.counts.sum()),
        "padding": problem.by_user.users.size / float(problem.by_user.counts.sum()),
    }


def numpy_engine(shape: str, gram: bool) -> dict[str, float]:
    """Time the same rounds in NumPy: sparse matrices of scipy, or the Gram form with reduceat."""
    import numpy as np

    problem, _ = problem_of(shape)
    clients = [client_of(problem, i) for i in range(CLIENTS)]
    rng = np.random.default_rng(0)
    rank, items = RANKS[shape], problem.num_items
    users = [2e-4 * rng.random((client["m"], rank), np.float32) for client in clients]
    shared = 2e-4 * rng.random((items, rank), np.float32)
    copies = np.repeat(shared[None], CLIENTS, 0)
    duals = np.zeros_like(copies)
    update = gram_update if gram else _plain_update
    # As ours: the server keeps a running sum.
    total = copies.sum(0) + duals.sum(0) / BETA
    taken = []
    for _ in range(4 if shape == "ml-10m" else 10):
        clock = time.perf_counter()
        for i in rng.choice(CLIENTS, DRAWN, replace=False):
            old = copies[i] + duals[i] / BETA
            users[i], copies[i] = update(clients[i], users[i], copies[i], shared, duals[i])
            duals[i] += BETA * (copies[i] - shared)
            total += copies[i] + duals[i] / BETA - old
        shared = total / CLIENTS * (CLIENTS * BETA / (CLIENTS * BETA + WEIGHT))
        shared = shared.astype(np.float32)
        taken.append(time.perf_counter() - clock)
    middle = statistics.median(taken[1:])
    return {"compile": 0.0, "run": middle, "round": middle}


def client_of(problem, i: int) -> dict:
    """Return a client's ratings, sorted by user and by item, with what scipy needs."""
    import numpy as np
    import scipy.sparse as sparse

    def flat(listed):
        first, number = int(listed.first[i]), int(listed.counts[i])
        blocks = slice(first, first + -(-number // listed.users.shape[1]))
        parts = (listed.users, listed.items, listed.values)
        return [np.asarray(part[blocks]).ravel()[:number] for part in parts]

    rows, columns, values = flat(problem.by_user)
    shape = (int(problem.members[i]), problem.num_items)
    matrix = sparse.csr_array((values, (rows, columns)), shape=shape)
    by_item = flat(problem.by_item)
    return {"m": shape[0], "rows": rows, "columns": columns, "values": values, "matrix": matrix} | {
        "item_rows": by_item[0],
        "item_columns": by_item[1],
        "item_values": by_item[2],
    }


def _constants(factor) -> float:
    import numpy as np

    return max(float(np.linalg.norm(factor.T @ factor)), 1e-20)


def _plain_update(client, users, copy, shared, dual):
    """Take N steps per block, each with all residuals anew."""
    import numpy as np

    rows, columns, values, matrix = (client[k] for k in ("rows", "columns", "values", "matrix"))

    def residuals(u, w):
        matrix.data[:] = np.einsum("er,er->e", u[rows], w[columns]) - values
        return matrix

    bound = _constants(copy)
    for _ in range(STEPS):
        users = (bound * users - residuals(users, copy) @ copy) / (bound + WEIGHT)
    bound = _constants(users) / CLIENTS
    for _ in range(STEPS):
        slope = residuals(users, copy).T @ users / CLIENTS
        copy = (bound * copy + BETA * shared - slope - dual) / (bound + BETA)
    return users.astype(np.float32), copy.astype(np.float32)


def gram_update(client, users, copy, shared, dual):
    """Take N steps per block on one small quadratic per row."""
    import numpy as np

    bound = _constants(copy)
    gram, right, there = _quadratics(copy, client["columns"], client["rows"], client["values"])
    part = users[there]
    for _ in range(STEPS):
        slope = np.einsum("tab,tb->ta", gram, part) - right
        part = (bound * part - slope) / (bound + WEIGHT)
    shrink = (bound / (bound + WEIGHT)) ** STEPS
    users = (shrink * users).astype(np.float32)
    users[there] = part
    bound = _constants(users) / CLIENTS
    gram, right, there = _quadratics(
        users, client["item_rows"], client["item_columns"], client["item_values"]
    )
    slope = np.zeros_like(copy)
    for _ in range(STEPS):
        slope[there] = (np.einsum("tab,tb->ta", gram, copy[there]) - right) / CLIENTS
        copy = (bound * copy + BETA * shared - slope - dual) / (bound + BETA)
    return users, copy.astype(np.float32)


def _quadratics(factor, others, rows, values):
    import numpy as np

    near = factor[others]
    starts = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
    gram = np.add.reduceat(near[:, :, None] * near[:, None], starts)
    return gram, np.add.reduceat(values[:, None] * near, starts), rows[starts]


def sweep(devices: int, width: int, values: int) -> dict[str, float]:
    """Time runs with several values of beta, one call, evaluated at the end."""
    import jax
    import numpy as np

    import fedjax_admm as fa
    from fedjax_admm.participation import without_replacement

    problem, _ = problem_of("ml-100k", devices)
    grid = jax.numpy.asarray(np.geomspace(1e4, 1e6, values), "float32")

    def search(problem, grid):
        return fa.grid_search(
            lambda beta: fa.solvers.fed_mc_admm(beta=beta),
            grid,
            problem,
            jax.random.key(2),
            rounds=ROUNDS["ml-100k"],
            measure=fa.measures.rating_error,
            metric="error",
            participation=without_replacement(DRAWN),
            width=width,
        ).scores

    mesh = jax.make_mesh((devices,), ("trials",), axis_types=(jax.sharding.AxisType.Auto,))
    over, same = jax.sharding.PartitionSpec("trials"), jax.sharding.PartitionSpec()
    sharded = jax.shard_map(
        search, mesh=mesh, in_specs=(same, over), out_specs=over, check_vma=False
    )
    go = jax.jit(sharded)
    times = timed(lambda: go(problem, grid), 5)
    return {**times, "round": times["run"] / ROUNDS["ml-100k"]}


ENGINES = {
    "NumPy, plain form, scipy.sparse": lambda shape: numpy_engine(shape, gram=False),
    "NumPy, Gram form, reduceat": lambda shape: numpy_engine(shape, gram=True),
    "fedjax-admm": engine,
}
SWEEPS = {
    "one run, 1 device": lambda: sweep(1, 1, 1),
    f"{VALUES} values, one after another, 1 device": lambda: sweep(1, 1, VALUES),
    f"{VALUES} values, one vmap, 1 device": lambda: sweep(1, VALUES, VALUES),
    f"{VALUES} values, one after another, {CORES} devices": lambda: sweep(CORES, 1, VALUES),
}
CONFIGURATIONS = {
    **{
        f"{name}: {shape}": (lambda shape=shape, run=run: run(shape))
        for shape in ("ml-100k", "ml-1m", "ml-10m")
        for name, run in ENGINES.items()
    },
    "fedjax-admm, float64: ml-100k": lambda: engine("ml-100k", x64=True),
    "netflix": lambda: engine("netflix"),
    **SWEEPS,
}


def medians(names: list[str], repeats: int) -> dict[str, dict[str, float]]:
    """Measure all names in turns and return the medians."""
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(repeats):
        for name in names:
            rows[name].append(measure(__file__, name))
    return {
        name: {key: statistics.median(row[key] for row in taken) for key in taken[0]}
        for name, taken in rows.items()
    }


def report(names: list[str], repeats: int) -> None:
    """Print a table of all that was measured."""
    table = medians(names, repeats)
    print("| configuration | compile (s) | one round (ms) | peak memory (MiB) | also |")
    print("|---|---|---|---|---|")
    for name, row in table.items():
        also = ", ".join(
            f"{key} {row[key]:.4g}"
            for key in (
                "run",
                "draw",
                "build",
                "first",
                "evaluate",
                "before",
                "ratings",
                "padding",
                "error",
            )
            if key in row
        )
        print(
            f"| {name} | {row['compile']:.2f} | {1e3 * row['round']:.3g} | {row['peak']:.0f} "
            f"| {also} |"
        )


def main() -> None:
    options = parser(__doc__, repeats=3)
    options.add_argument("--sweep", action="store_true")
    options.add_argument("--netflix", action="store_true")
    arguments = options.parse_args()
    if arguments.one:
        run_one(CONFIGURATIONS[arguments.one])
    elif arguments.netflix:
        report(["netflix"], 1)
    elif arguments.sweep:
        report(list(SWEEPS), arguments.repeats)
    else:
        names = [name for name in CONFIGURATIONS if name not in SWEEPS and name != "netflix"]
        report(names, arguments.repeats)


if __name__ == "__main__":
    main()
