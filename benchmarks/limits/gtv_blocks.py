"""GTV minimisation, the published iteration: 24 networks of two blocks of 100 nodes, 1000 rounds.

Work of a round as in `limits.gtv`, here with 2 features and about 5,000 edges.
"""

from typing import Any

import numpy as np

from limits import drawn, given, gtv, monte_carlo

SOURCE, OPTIONS, NUMPY_REPEATS = "gtv", ["-DDIM=2"], 1
pack, one_round, score, work = gtv.pack, gtv.one_round, gtv.score, gtv.work


def draw(quick: bool) -> dict[str, Any]:
    import jax

    runs = 4 if quick else 24
    made = drawn(_problem, jax.random.key(0), runs)
    return {"problems": made, "runs": runs, "trials": runs, "rounds": 100 if quick else 1000}


def _problem(key):
    """Draw one network: two blocks of 100 nodes, about 5,000 edges, data on 60 % of the nodes."""
    import jax
    import jax.numpy as jnp

    import fedjax_admm as fa
    from fedjax_admm import graphs

    graph_key, data_key = jax.random.split(key)
    graph = graphs.stochastic_block_model(graph_key, (100, 100), 0.5, 0.01, max_edges=5500)
    truth = jnp.array([[2.0, 2.0], [-2.0, 2.0]])[graphs.block_labels((100, 100))]
    return fa.problems.draw_networked_regression(
        data_key, graph, truth, samples=gtv.SAMPLES, share=gtv.SHARE
    )


def numpy(problem):
    import jax

    made, runs = problem["problems"], range(problem["runs"])
    ones = [jax.tree.map(lambda a, t=t: a[t], made) for t in runs]
    networks = [gtv.as_numpy(one, np.dtype(np.float32)) for one in ones]
    rounds = problem["rounds"]
    return lambda: np.stack([gtv.numpy_rounds(one, gtv.LAM, rounds) for one in networks])


def engine(problem):
    import jax

    import fedjax_admm as fa

    key, runs, rounds = jax.random.key(0), problem["runs"], problem["rounds"]
    of = given(problem["problems"], key, runs)

    def trial(own):
        made = of(own)
        solver = fa.solvers.gtv_primal_dual(made, gtv.LAM, ratio=1.0)
        return {"models": fa.run(solver, made, own, rounds=rounds, every=rounds).estimate}

    return monte_carlo(trial, key, runs, "models")
