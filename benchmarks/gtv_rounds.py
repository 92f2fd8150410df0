"""Rounds of GTV minimisation to a certified relative gap, over six decades of lambda.

    python benchmarks/gtv_rounds.py                     all graphs
    python benchmarks/gtv_rounds.py diabetes weather    some of them

Prints, per graph and lambda (powers of ten times the one at which a typical node's edges pull as
much as its data), the rounds to 1e-2 / 1e-4 / 1e-6 of the published iteration (default steps) and
of the solver that tunes itself, 1000 rounds each, float64. The weather stations are the
observations where FEDJAX_ADMM_DATA names their folder, else a synthetic twin; diabetes needs
scikit-learn.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_admm as fa
from fedjax_admm import certificates, graphs, solvers

ROUNDS, EVERY, LEVELS = 1000, 10, (1e-2, 1e-4, 1e-6)
DECADES = np.arange(-3, 4)


def blocks(sizes, p_in, p_out, share, noise):
    graph_key, data_key = jax.random.split(jax.random.key(0))
    graph = graphs.stochastic_block_model(graph_key, sizes, p_in, p_out)
    corners = jnp.array([[2.0, 2.0], [-2.0, 2.0], [2.0, -2.0], [-2.0, -2.0]])
    truth = corners[graphs.block_labels(sizes)]
    return fa.problems.draw_networked_regression(
        data_key, graph, truth, samples=5, noise=noise, share=share
    )


def diabetes(standardised):
    """Return 40 nodes by sex and age band (20 per sex, equally many people), joined as a ladder."""
    from sklearn.datasets import load_diabetes

    table = load_diabetes(scaled=False)
    column = dict(zip(table.feature_names, table.data.T, strict=True))
    features = np.stack([column[name] for name in ("bmi", "bp", "s5")], 1)
    if standardised:
        features = (features - features.mean(0)) / features.std(0)
    features = np.c_[features, np.ones(len(features))]
    node = np.zeros(len(features), int)
    for k, sex in enumerate(np.unique(column["sex"])):
        who = column["sex"] == sex
        age = column["age"][who]
        cuts = np.quantile(age, np.linspace(0, 1, 21)[1:-1])
        node[who] = 20 * k + np.searchsorted(cuts, age, side="right")
    edges = [(20 * k + b, 20 * k + b + 1) for k in (0, 1) for b in range(19)]
    edges += [(b, 20 + b) for b in range(20)]
    return fa.problems.networked_regression(
        graphs.from_edges(40, edges),
        [features[node == i] for i in range(40)],
        [table.target[node == i] for i in range(40)],
    )


def weather():
    from fedjax_admm.trials.experiments.nfl.weather import load

    stations = load("")
    near = stations.distances <= 5
    graph = graphs.from_edges(
        len(stations.observations.nodes),
        np.stack([stations.heads[near], stations.tails[near]], 1),
        1 / stations.distances[near],
    )
    rows = stations.observations
    return fa.problems.networked_regression(graph, list(rows.features), list(rows.targets))


GRAPHS = {
    "blocks-2x50": lambda: blocks((50, 50), 0.5, 0.01, 0.6, 0.0),
    "blocks-2x100": lambda: blocks((100, 100), 0.5, 0.01, 0.6, 0.0),
    "sparse-4x50": lambda: blocks((50,) * 4, 0.1, 0.003, 0.5, 0.1),
    "weather": weather,
    "diabetes": lambda: diabetes(False),
    "diabetes-standardised": lambda: diabetes(True),
}


def unit(problem) -> float:
    """Return the lambda at which, at the pooled model, edges can pull as much as data do."""
    model = jnp.broadcast_to(fa.direct.pooled_model(problem), problem.start.shape)
    pull = problem.graph.weighted_degrees
    data = jnp.linalg.norm(problem.gradients(model), axis=1)
    return float(jnp.median((data / pull)[(pull > 0) & (data > 0)]))


def measure(solver, problem, state):
    return {"gap": certificates.relative_gap(solver, problem, state)}


def rounds_of(build, problem, lams):
    def one(lam):
        solver = build(problem, lam)
        key = jax.random.key(0)
        run = fa.run(solver, problem, key, rounds=ROUNDS, every=EVERY, measure=measure)
        return run.trace["gap"]

    return np.asarray(jax.jit(jax.vmap(one))(jnp.asarray(lams)))


def told(gaps) -> str:
    reached = [np.flatnonzero(gaps <= level) for level in LEVELS]
    return " / ".join(str(EVERY * (found[0] + 1)) if found.size else "-" for found in reached)


def main(names) -> None:
    print("| graph | lambda | published | gap at the end | tunes itself | smallest gap |")
    print("|---|---|---|---|---|---|")
    for name in names:
        problem = GRAPHS[name]()
        lams = unit(problem) * 10.0**DECADES
        theirs = rounds_of(solvers.gtv_primal_dual, problem, lams)
        ours = rounds_of(solvers.gtv, problem, lams)
        for lam, old, new in zip(lams, theirs, ours, strict=True):
            print(
                f"| {name} | {lam:.3g} | {told(old)} | {old[-1]:.0e} | {told(new)} "
                f"| {np.min(new):.0e} |",
                flush=True,
            )


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main(sys.argv[1:] or list(GRAPHS))
