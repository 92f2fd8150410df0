"""GTV minimisation, the published iteration: 24 networks of two blocks of 100 nodes, 1000 rounds.

Work of a round as in `limits.gtv`, here with 2 features and about 5,000 edges.
"""

from typing import Any

import nfl
import numpy as np

from limits import drawn, given, gtv, monte_carlo

SOURCE, OPTIONS, NUMPY_REPEATS = "gtv", ["-DDIM=2"], 1
pack, one_round, score, work = gtv.pack, gtv.one_round, gtv.score, gtv.work


def draw(quick: bool) -> dict[str, Any]:
    import jax

    runs = 4 if quick else 24
    made = drawn(nfl.drawn, jax.random.key(0), runs)
    return {"problems": made, "runs": runs, "trials": runs, "rounds": 100 if quick else 1000}


def numpy(problem):
    import jax

    made, runs = problem["problems"], range(problem["runs"])
    ones = [jax.tree.map(lambda a, t=t: a[t], made) for t in runs]
    networks = [nfl.as_numpy(one, np.dtype(np.float32)) for one in ones]
    rounds = problem["rounds"]
    return lambda: np.stack([nfl.numpy_rounds(one, nfl.LAM, rounds) for one in networks])


def engine(problem):
    import jax

    import fedjax_admm as fa

    key, runs, rounds = jax.random.key(0), problem["runs"], problem["rounds"]
    of = given(problem["problems"], key, runs)

    def trial(own):
        made = of(own)
        solver = fa.solvers.gtv_primal_dual(made, nfl.LAM, ratio=1.0)
        return {"models": fa.run(solver, made, own, rounds=rounds, every=rounds).estimate}

    return monte_carlo(trial, key, runs, "models")
