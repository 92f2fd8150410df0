"""Time and memory of a round as problems grow to millions of clients, beside the machine's limit.

    python benchmarks/growth.py                     all families: a table each, and growth.png
    python benchmarks/growth.py --families gtv      some of them, without the figure

    gtv           the published iteration on random graphs, 5 edges per node, 8 features
    hfsad         a pass over a tree with edge servers of 50 clients, 25 dimensions
    localization  a round of FSMDM with sensors in space

Every size has a process of its own, bound to one core, whose peak memory (drawing and building
included) is its own. Compile time is apart; medians over repeats. The limit is traffic: a copy, by
one core, that reads and writes as many bytes in all as the compiled round has arguments that it
uses and results. Every round reads and writes its state, so that none can be faster, unless all of
it stays in the caches while the copy's two arrays do not.
"""

import os
import statistics
import time
from pathlib import Path
from typing import Any, NamedTuple

from side_by_side import measure, parser, run_one

SIZES = {
    "gtv": (1_000, 10_000, 100_000, 1_000_000, 5_000_000),
    "hfsad": (250, 2_500, 25_000, 250_000, 1_000_000),
    "localization": (100, 1_000, 10_000, 100_000, 1_000_000),
}
UNITS = {
    "gtv": ("edges", "a round of GTV minimisation"),
    "hfsad": ("clients", "a pass of HFSAD"),
    "localization": ("sensors", "a round of FSMDM"),
}
FIGURE = Path(__file__).with_name("growth.png")
EDGES_PER_NODE, DIM, SAMPLES, SHARE, LAM = 5, 8, 5, 0.6, 0.01
CLIENTS_PER_SERVER = 50
SECONDS = 2.0  # about so long is one timing


class Case(NamedTuple):
    """A problem and its solver, and how long it took to have them."""

    problem: Any
    solver: Any
    seconds: dict[str, float]


def random_graph(edges: int) -> tuple[int, Any]:
    """Return the number of nodes, and edges in random order: every pair of nodes is as likely."""
    import numpy as np

    nodes = edges // EDGES_PER_NODE
    rng = np.random.default_rng(0)
    ends = rng.integers(0, nodes, (2, int(1.1 * edges) + 100))
    low, high = np.sort(ends, 0)
    pairs = np.unique((low * nodes + high)[low != high])
    return nodes, np.stack(np.divmod(rng.permutation(pairs)[:edges], nodes), 1)


def gtv(edges: int) -> Case:
    import jax
    import numpy as np

    import fedjax_admm as fa

    nodes, ends = random_graph(edges)
    clock = time.perf_counter()
    graph = fa.graphs.from_edges(nodes, ends)
    seconds = {"graph": time.perf_counter() - clock}
    del ends
    truth = np.random.default_rng(1).standard_normal((nodes, DIM), np.float32)
    clock = time.perf_counter()
    draw = fa.problems.draw_networked_regression
    problem = jax.jit(lambda key: draw(key, graph, truth, samples=SAMPLES, share=SHARE))(
        jax.random.key(0)
    )
    solver = fa.solvers.gtv_primal_dual(problem, LAM, ratio=1.0)
    seconds["draw"] = _since(clock, problem)
    return Case(problem, solver, seconds)


def hfsad(clients: int) -> Case:
    import jax

    import fedjax_admm as fa

    clusters = clients // CLIENTS_PER_SERVER
    clock = time.perf_counter()
    fa.trees.from_counts([CLIENTS_PER_SERVER] * clusters)
    seconds = {"graph": time.perf_counter() - clock}
    clock = time.perf_counter()
    problem = fa.problems.draw_phase_retrieval(jax.random.key(0), clusters=clusters, start="near")
    solver = fa.solvers.hfsad(problem, passes=1)
    seconds["draw"] = _since(clock, problem)
    return Case(problem, solver, seconds)


def localization(clients: int) -> Case:
    import jax

    import fedjax_admm as fa

    clock = time.perf_counter()
    noise = fa.problems.cauchy_noise(1.0)
    problem = fa.problems.draw_localization(jax.random.key(0), noise, clients=clients)
    return Case(problem, fa.solvers.fsmdm(), {"graph": 0.0, "draw": _since(clock, problem)})


def _since(clock: float, result: Any) -> float:
    import jax

    jax.block_until_ready(result)
    return time.perf_counter() - clock


def one_size(family: str, size: int) -> dict[str, float]:
    """Time a round, and a copy of as many bytes, bound to one core."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    import jax

    jax.config.update("jax_num_cpu_devices", 1)
    import fedjax_admm as fa

    problem, solver, seconds = {"gtv": gtv, "hfsad": hfsad, "localization": localization}[family](
        size
    )

    def timed(rounds: int) -> float:
        clock = time.perf_counter()
        run = fa.run(solver, problem, jax.random.key(1), rounds=rounds, every=rounds)
        return _since(clock, run.estimate)

    timed(2)
    rounds = max(3, min(1000, int(2 * SECONDS / max(timed(2), 1e-6))))
    first = timed(rounds)
    taken = statistics.median(timed(rounds) for _ in range(3))
    moved = _bytes_of_a_round(problem, solver)
    return {
        **seconds,
        "compile": first - taken,
        "round": taken / rounds,
        "limit": _copy(moved),
        "bytes": moved,
        "rounds": rounds,
    }


def _bytes_of_a_round(problem: Any, solver: Any) -> int:
    """Return the bytes that the compiled round is given, unused ones left out, and returns."""
    import jax

    import fedjax_admm as fa

    key = jax.random.key(0)
    state = jax.eval_shape(solver.init, problem, key)
    shape = solver.participants(problem)

    def one(problem, solver, state, key):
        present = jax.numpy.ones(shape, bool)
        return solver.step(problem, state, fa.RoundInfo(jax.numpy.int32(0), key, present))

    memory = jax.jit(one).lower(problem, solver, state, key).compile().memory_analysis()
    return memory.argument_size_in_bytes + memory.output_size_in_bytes


def _copy(moved: int) -> float:
    """Return the seconds in which one core copies half as many bytes, the median of many."""
    import numpy as np

    source = np.ones(max(1, moved // 8), np.float32)
    target = np.zeros_like(source)
    repeats = max(3, min(1000, int(1e9 / moved)))

    def go() -> float:
        clock = time.perf_counter()
        for _ in range(repeats):
            np.copyto(target, source)
        return (time.perf_counter() - clock) / repeats

    return statistics.median(go() for _ in range(5))


CONFIGURATIONS = {
    f"{family} {size}": lambda family=family, size=size: one_size(family, size)
    for family, sizes in SIZES.items()
    for size in sizes
}


def table(family: str, repeats: int) -> list[dict[str, float]]:
    """Measure all sizes of a family; print and return the medians."""
    unit, title = UNITS[family]
    print(f"\n{title}, one core, float32\n")
    print(f"| {unit} | time (ms) | copy of as many bytes (ms) | times | compile (s) | build (s) "
          "| draw (s) | peak memory (MiB) |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|")
    rows = []
    for size in SIZES[family]:
        taken = [measure(__file__, f"{family} {size}") for _ in range(repeats)]
        row = {key: statistics.median(one[key] for one in taken) for key in taken[0]}
        rows.append(row)
        print(
            f"| {size:,} | {1e3 * row['round']:.3g} | {1e3 * row['limit']:.3g} "
            f"| {row['round'] / row['limit']:.1f} | {row['compile']:.2f} | {row['graph']:.2f} "
            f"| {row['draw']:.2f} | {row['peak']:.0f} |",
            flush=True,
        )
    return rows


def draw_figure(measured: dict[str, list[dict[str, float]]]) -> None:
    """Draw times and peaks of all families against their sizes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(measured), 6.6), layout="constrained")
    panels = figure.subplots(2, len(measured), squeeze=False, sharey="row")
    for column, (family, rows) in enumerate(measured.items()):
        unit, title = UNITS[family]
        sizes = SIZES[family][: len(rows)]
        above, below = panels[:, column]
        above.loglog(sizes, [1e3 * row["round"] for row in rows], "o-k", label="measured")
        limit = [1e3 * row["limit"] for row in rows]
        above.loglog(sizes, limit, "--", color="0.45", label="limit: a copy of as many bytes")
        above.set(title=title)
        below.loglog(sizes, [row["peak"] for row in rows], "o-k", label="peak memory")
        arrays = [row["bytes"] / 2**20 for row in rows]
        below.loglog(sizes, arrays, "--", color="0.45", label="read and written in a round")
        below.set(xlabel=unit)
        for axes in (above, below):
            axes.grid(True, linewidth=0.4)
    panels[0, 0].set_ylabel("time on one core (ms)")
    panels[1, 0].set_ylabel("MiB")
    for axes in panels[:, 0]:
        axes.legend(fontsize=8)
    figure.savefig(FIGURE, dpi=120)
    print(f"\nWrote {FIGURE.name}")


def main() -> None:
    options = parser(__doc__, repeats=1)
    options.add_argument("--families", nargs="+", choices=SIZES, default=list(SIZES))
    arguments = options.parse_args()
    if arguments.one:
        run_one(CONFIGURATIONS[arguments.one])
        return
    measured = {family: table(family, arguments.repeats) for family in arguments.families}
    if set(measured) == set(SIZES):
        draw_figure(measured)


if __name__ == "__main__":
    main()
