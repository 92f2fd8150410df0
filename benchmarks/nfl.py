"""GTV minimisation on networks: one run and 100 vmapped runs beside NumPy.

    python benchmarks/nfl.py   1000 rounds on a stochastic block model: one run, 100 runs

Each configuration runs in a process of its own, in turns; medians over repeats. Compile time is
apart from run time; every timing waits for its results. No compilation cache.
"""

import statistics
import time

from side_by_side import CORES, compare, parser, run_one, time_engine

ROUNDS, RUNS, NODES, SAMPLES, SHARE, LAM = 1000, 100, 100, 5, 0.6, 0.01
DIM, EDGES_PER_NODE = 8, 5


def drawn(key):
    """Draw one network: two blocks of 100 nodes, about 5,000 edges, data on 60 % of the nodes."""
    import jax
    import jax.numpy as jnp

    import fedjax_admm as fa
    from fedjax_admm import graphs

    graph_key, data_key = jax.random.split(key)
    graph = graphs.stochastic_block_model(graph_key, (NODES, NODES), 0.5, 0.01, max_edges=5500)
    truth = jnp.array([[2.0, 2.0], [-2.0, 2.0]])[graphs.block_labels((NODES, NODES))]
    return fa.problems.draw_networked_regression(
        data_key, graph, truth, samples=SAMPLES, share=SHARE
    )


def _error(w, truth) -> float:
    import numpy as np

    return float(np.mean(np.sum((np.asarray(w) - np.asarray(truth)) ** 2, -1)))


def one_run(x64: bool) -> dict[str, float]:
    """Time one run of the solver on a network that is already drawn."""
    import jax

    jax.config.update("jax_num_cpu_devices", 1)
    jax.config.update("jax_enable_x64", x64)
    import fedjax_admm as fa

    problem = jax.jit(drawn)(jax.random.key(0))
    solver = fa.solvers.gtv_primal_dual(problem, LAM, ratio=1.0)

    def go():
        clock = time.perf_counter()
        result = fa.run(solver, problem, jax.random.key(1), rounds=ROUNDS)
        jax.block_until_ready(result.estimate)
        return time.perf_counter() - clock, result.estimate

    first, _ = go()
    taken = [go() for _ in range(5)]
    run = statistics.median(seconds for seconds, _ in taken)
    error = _error(taken[-1][1], problem.truth)
    return {"compile": first - run, "run": run, "width": 1, "error": error}


def many_runs(devices: int, width: int | str) -> dict[str, float]:
    """Time the Monte Carlo engine: drawing 100 networks, all rounds, bringing the errors home."""
    import jax

    jax.config.update("jax_num_cpu_devices", devices)
    import fedjax_admm as fa

    def trial(key):
        problem = drawn(key)
        solver = fa.solvers.gtv_primal_dual(problem, LAM, ratio=1.0)
        result = fa.run(
            solver, problem, key, rounds=ROUNDS, every=ROUNDS, measure=fa.measures.network_error
        )
        return {"error": result.trace["error"]}

    return time_engine(trial, RUNS, width)


def numpy_run(dtype: str) -> dict[str, float]:
    """Time the same iteration in NumPy: all nodes at once, a sparse incidence matrix."""
    import jax
    import numpy as np

    with jax.enable_x64(True):
        problem = jax.jit(drawn)(jax.random.key(0))
        network = as_numpy(problem, np.dtype(dtype))
    taken = []
    for _ in range(3):
        clock = time.perf_counter()
        w = numpy_rounds(network, LAM, ROUNDS)
        taken.append(time.perf_counter() - clock)
    run = statistics.median(taken)
    return {"compile": 0.0, "run": run, "width": 1, "error": _error(w, problem.truth)}


def as_numpy(problem, dtype):
    """Return the sparse incidence matrix, weights, steps and the factors of the local solves."""
    import numpy as np
    import scipy.sparse as sparse

    graph, local = problem.graph, problem.local
    there = np.asarray(graph.present)
    heads, tails = np.asarray(graph.heads)[there], np.asarray(graph.tails)[there]
    edges, nodes = len(heads), graph.num_nodes
    rows = np.concatenate([np.arange(edges)] * 2)
    signs = np.repeat(np.array([1.0, -1.0], dtype), edges)
    incidence = sparse.csr_array(
        (signs, (rows, np.concatenate([heads, tails]))), shape=(edges, nodes)
    )
    tau = (1 / np.maximum(np.bincount(np.concatenate([heads, tails]), minlength=nodes), 1)).astype(
        dtype
    )
    basis, spectrum = np.asarray(local.basis, dtype), np.asarray(local.spectrum, dtype)
    gram = np.einsum("nrd,nr,nre->nde", basis, spectrum, basis)
    identity = np.eye(gram.shape[-1], dtype=dtype)
    inverse = np.linalg.inv(identity + 2 * tau[:, None, None] * gram).astype(dtype)
    right = 2 * tau[:, None] * np.asarray(local.correlation, dtype)
    weights = np.asarray(graph.weights, dtype)[there]
    return incidence, incidence.T.tocsr(), weights, tau, inverse, right


def numpy_rounds(network, lam: float, rounds: int):
    """Run Algorithm 1 with the network lasso's penalty, ratio 1."""
    import numpy as np

    incidence, transposed, weights, tau, inverse, right = network
    edges, nodes = incidence.shape
    radius = (lam * weights).astype(weights.dtype)
    w = np.zeros((nodes, inverse.shape[-1]), weights.dtype)
    u = np.zeros((edges, inverse.shape[-1]), weights.dtype)
    half = weights.dtype.type(0.5)
    for _ in range(rounds):
        v = w - tau[:, None] * (transposed @ u)
        new = np.einsum("nde,ne->nd", inverse, v + right)
        u = u + half * (incidence @ (2 * new - w))
        length = np.sqrt(np.einsum("ed,ed->e", u, u))
        u = u * (radius / np.maximum(length, radius))[:, None]
        w = new
    return w


CONFIGURATIONS = {
    "NumPy, sparse incidence, float64": lambda: numpy_run("float64"),
    "NumPy, sparse incidence, float32": lambda: numpy_run("float32"),
    "one run, float64": lambda: one_run(True),
    "one run, float32": lambda: one_run(False),
    "100 runs, one vmap, 1 device": lambda: many_runs(1, RUNS),
    "100 runs, auto width, 1 device": lambda: many_runs(1, "auto"),
    f"100 runs, auto width, {CORES} devices": lambda: many_runs(CORES, "auto"),
    f"100 runs, vmap of 10, {CORES} devices": lambda: many_runs(CORES, 10),
    f"100 runs, one vmap per device, {CORES} devices": lambda: many_runs(CORES, RUNS // CORES),
}


def large_problem(edges: int):
    """Draw a network on a random graph with 5 edges per node, 8 features, float32."""
    import jax
    import numpy as np

    import fedjax_admm as fa
    from fedjax_admm import graphs

    nodes = edges // EDGES_PER_NODE
    rng = np.random.default_rng(0)
    ends = rng.integers(0, nodes, (int(1.1 * edges) + 100, 2))
    ends = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], 1), axis=0)
    graph = graphs.from_edges(nodes, rng.permutation(ends)[:edges])
    del ends
    truth = rng.standard_normal((nodes, DIM)).astype(np.float32)
    return jax.jit(
        lambda key: fa.problems.draw_networked_regression(
            key, graph, truth, samples=SAMPLES, share=SHARE
        )
    )(jax.random.key(0))


def main() -> None:
    options = parser(__doc__, repeats=3)
    arguments = options.parse_args()
    if arguments.one:
        run_one(CONFIGURATIONS[arguments.one])
    else:
        title = f"stochastic block model 2 x {NODES}, {ROUNDS} rounds"
        compare(__file__, list(CONFIGURATIONS), arguments.repeats, title)


if __name__ == "__main__":
    main()
