"""The families of solvers whose rounds are timed, at any size.

A family says what grows with a scale, and builds at a scale what draws a problem, what builds the
solver, and who takes part. `functions` makes of it what `benchmarks/gpu.py` times.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SENSORS = 21


@dataclass(frozen=True)
class Family:
    """A kind of problem that can grow."""

    grows: str  # what a scale multiplies
    size: Callable[[int], str]  # at a scale
    trials: int
    rounds: int  # of the paper: what "trials per second" stands for
    build: Callable[[int], tuple[Callable, Callable, Any]]
    # At a scale: (key -> problem), (problem -> solver), and who takes part.


def _fsmdm(scale: int):
    import fedjax_admm as fa

    def draw(key):
        return fa.problems.draw_localization(
            key, fa.problems.cauchy_noise(1.0), clients=SENSORS * scale
        )

    return draw, lambda problem: fa.solvers.fsmdm(), None


def _hfsad(scale: int):
    import fedjax_admm as fa

    def draw(key):
        return fa.problems.draw_phase_retrieval(key, clusters=5 * scale, start="near")

    return draw, lambda problem: fa.solvers.hfsad(problem, passes=10), None


def _gtv(scale: int):
    import numpy as np

    import fedjax_admm as fa

    nodes, edges = 200 * scale, 5000 * scale
    graph = fa.graphs.from_edges(nodes, _pairs(nodes, edges))
    truth = np.where(np.arange(nodes)[:, None] < nodes // 2, [2.0, 2.0], [-2.0, 2.0])

    def draw(key):
        drawn = truth.astype(np.float32)
        return fa.problems.draw_networked_regression(key, graph, drawn, samples=5, share=0.6)

    return draw, lambda problem: fa.solvers.gtv_primal_dual(problem, 0.01, ratio=1.0), None


def _fedmc(scale: int):
    import fedjax_admm as fa
    from fedjax_admm.participation import without_replacement

    shape, rank = RATINGS[scale], RANKS[scale]

    def draw(key):
        return fa.problems.matrix_completion(fa.ratings.draw_ratings(key, shape), key, clients=100)

    return draw, lambda problem: fa.solvers.fed_mc_admm(rank=rank), without_replacement(10)


def _zcdp(scale: int):
    from dataclasses import replace

    import jax.numpy as jnp
    import numpy as np

    import fedjax_admm as fa
    from fedjax_admm import losses, privacy

    clients = 50 * scale
    ring = np.stack([np.arange(clients), (np.arange(clients) + 1) % clients], 1)
    chords = _pairs(clients, clients // 2, without=ring)
    graph = fa.graphs.from_edges(clients, np.concatenate([ring, chords]))
    release = privacy.gaussian_release(privacy.zcdp_plan(8.0, 1e-5, ZCDP_ROUNDS), 0.5)

    def draw(key):
        loss = losses.absolute()
        problem = fa.problems.draw_consensus_regression(key, graph, loss, samples=50, dim=8)
        # Rounds need no optimum: what is not used is not computed.
        return replace(problem, optimum=jnp.zeros_like(problem.optimum))

    return draw, lambda problem: fa.solvers.private_networked_admm(release, step_size=2.0), None


def _pairs(nodes: int, number: int, without=()):
    """Return so many different pairs of different nodes, at random."""
    import numpy as np

    rng = np.random.default_rng(0)
    ends = np.sort(rng.integers(0, nodes, (4 * number + 100, 2)), 1)
    codes = np.unique((ends[:, 0] * nodes + ends[:, 1])[ends[:, 0] != ends[:, 1]])
    taken = np.sort(np.reshape(without, (-1, 2)), 1).astype(np.int64)
    free = np.setdiff1d(codes, taken[:, 0] * nodes + taken[:, 1])
    chosen = rng.permutation(free)[:number]
    return np.stack([chosen // nodes, chosen % nodes], 1)


RATINGS = {1: "ml-100k", 10: "ml-1m", 100: "ml-10m"}
RANKS = {1: 5, 10: 5, 100: 8}
ZCDP_ROUNDS = 200
FAMILIES = {
    "FSMDM": Family(
        "sensors", lambda scale: f"{21 * scale:,} sensors, 3 coordinates", 1000, 1000, _fsmdm
    ),
    "HFSAD": Family(
        "edge servers of 50 clients",
        lambda scale: f"{250 * scale:,} clients, 25 dimensions, 10 passes",
        100,
        400,
        _hfsad,
    ),
    "GTV": Family(
        "nodes and edges",
        lambda scale: f"{200 * scale:,} nodes, {5000 * scale:,} edges, 2 features",
        100,
        1000,
        _gtv,
    ),
    "FedMC-ADMM": Family(
        "tables of ratings of three sizes, 100 clients, 10 drawn",
        lambda scale: f"{RATINGS[scale]}, rank {RANKS[scale]}",
        1,
        100,
        _fedmc,
    ),
    "zCDP-NFL": Family(
        "clients",
        lambda scale: f"{50 * scale:,} clients of 3 neighbours, 50 samples, 8 parameters",
        50,
        ZCDP_ROUNDS,
        _zcdp,
    ),
}


def functions(name: str, scale: int) -> tuple[Callable, Callable, Callable]:
    """Return a family's (key -> problem), (problem, key -> state), and rounds at a scale.

    The third takes a problem, a key, a state, and a number of rounds, and returns the last state.
    """
    import fedjax_admm as fa

    draw, solver_of, participation = FAMILIES[name].build(scale)

    def begun(problem, key):
        solver = solver_of(problem)
        return fa.run(solver, problem, key, rounds=0, participation=participation).state

    def advanced(problem, key, start, rounds):
        options = {"rounds": rounds, "every": rounds, "participation": participation}
        return fa.run(solver_of(problem), problem, key, start=start, **options).state

    return draw, begun, advanced
