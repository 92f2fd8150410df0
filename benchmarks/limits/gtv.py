"""GTV minimisation, the published iteration: 100,000 edges, 20,000 nodes, 8 features.

Work of a round, per edge and feature: 4 flops for the flow, 2 for its length, 1 for the projection
and 2 for the divergences, and 3 per edge for root, quotient and comparison; per node and feature 4,
and 2 dim more where the node has data. Read and written are flows and models, read are the ends and
the radius of every edge, the divergences, and an inverse and a right side per node with data.
"""

from typing import Any

import numpy as np

from limits import Work, timed

NUMPY_REPEATS = 2
LAM, SAMPLES, SHARE, DIM, EDGES_PER_NODE = 0.01, 5, 0.6, 8, 5


def draw(quick: bool) -> dict[str, Any]:
    import jax

    edges = 1_000 if quick else 100_000
    made = jax.device_get(_problem(edges))
    return {"problems": made, "runs": 1, "rounds": 200, "trials": 1}


def _problem(edges: int):
    """Draw a network on a random graph with 5 edges per node, 8 features, float32."""
    import jax

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


def pack(problem) -> list[np.ndarray]:
    import jax

    made, runs = problem["problems"], problem["runs"]
    ones = [made] if runs == 1 else [jax.tree.map(lambda a, t=t: a[t], made) for t in range(runs)]
    parts = [[np.ravel(array) for array in _one(made)] for made in ones]
    graph = ones[0].graph
    edges = -(-graph.num_edges // 16) * 16
    return [
        np.array([runs, graph.num_nodes, edges, problem["rounds"]], np.int32),
        np.array([0.5], np.float32),
        *(np.concatenate(part) for part in zip(*parts, strict=True)),
    ]


def _one(made) -> list[np.ndarray]:
    """Return what the program reads of one network; absent edges join the last node to itself."""
    _, _, _, tau, inverse, right = as_numpy(made, np.dtype(np.float32))
    graph = made.graph
    room = (0, -graph.num_edges % 16)
    ends = [
        np.pad(part, room, constant_values=graph.num_nodes - 1)
        for part in (graph.heads, graph.tails)
    ]
    radius = np.pad(LAM * graph.weights, room)
    return [*ends, radius.astype(np.float32), tau, made.accessible.astype(np.int32), inverse, right]


def as_numpy(problem, dtype):
    """Return the sparse incidence matrix, weights, steps and the factors of the local solves."""
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


def numpy(problem):
    network = as_numpy(problem["problems"], np.dtype(np.float32))
    return lambda: numpy_rounds(network, LAM, problem["rounds"])


def one_round(problem):
    import jax

    import fedjax_admm as fa

    made = jax.tree.map(jax.numpy.asarray, problem["problems"])
    if problem["runs"] > 1:
        made = jax.tree.map(lambda leaf: leaf[0], made)
    return fa.solvers.gtv_primal_dual(made, LAM, ratio=1.0), made


def engine(problem):
    import jax

    import fedjax_admm as fa

    made, rounds = jax.tree.map(jax.numpy.asarray, problem["problems"]), problem["rounds"]
    solver = fa.solvers.gtv_primal_dual(made, LAM, ratio=1.0)

    def run():
        run = fa.run(solver, made, jax.random.key(1), rounds=rounds, every=rounds)
        return np.asarray(run.estimate)

    return timed(run)


def score(problem, result) -> float:
    truth = np.asarray(problem["problems"].truth)
    return float(np.mean(np.sum((result.reshape(truth.shape) - truth) ** 2, -1)))


def work(problem) -> Work:
    made = problem["problems"]
    nodes, dim = made.start.shape[-2:]
    edges, seen = np.sum(made.graph.weights > 0) / problem["runs"], np.mean(made.accessible)
    flops = edges * (9 * dim + 3) + nodes * dim * (4 + 2 * dim * seen)
    moved = edges * (2 * dim + 3) + nodes * (3 * dim + 2 + seen * dim * (dim + 1))
    return Work(problem["runs"] * problem["rounds"], flops, 4 * moved, "of one run")


OPTIONS = ["-DDIM=8"]
