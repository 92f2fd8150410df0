"""HFSAD: 96 trials of 100 rounds of 10 passes, 250 clients, 5 edge servers, 25 dimensions.

Work of a pass of one trial, per client and dimension: 4 flops for the centre and its projection, 4
for the new model and the box, 15 for the link and what it sends; 12 per client for the prox; edge
servers are left out (a fiftieth). Read and written are z and Gamma, read are the measurements.
"""

from typing import Any

import numpy as np

from limits import Work, drawn, given, monte_carlo

EDGES, EACH, DIM, PASSES = 5, 50, 25, 10
NUMPY_REPEATS = 1


def draw(quick: bool) -> dict[str, Any]:
    import jax

    import fedjax_admm as fa

    trials = 16 if quick else 96
    problems = drawn(fa.problems.draw_phase_retrieval, jax.random.key(0), trials)
    return {"problems": problems, "trials": trials, "rounds": 20 if quick else 100}


def pack(problem) -> list[np.ndarray]:
    import jax

    import fedjax_admm as fa

    made = problem["problems"]
    solvers = jax.vmap(lambda one: fa.solvers.hfsad(one, passes=PASSES))(made)
    sizes = (problem["trials"], EDGES, EACH, DIM, problem["rounds"], PASSES)
    return [
        np.array(sizes, np.int32),
        np.array([0.1, 2.4], np.float32),
        np.asarray(solvers.clients.penalty.weight),
        np.asarray(solvers.servers[0].penalty.weight),
        np.asarray(solvers.servers[0].sigma.scale),
        made.x,
        made.y,
        made.start,
    ]


def numpy(problem):
    from tests.reference import hfsad

    made, trials = problem["problems"], problem["trials"]
    x = made.x.reshape(trials, EDGES, EACH, DIM)
    y = made.y.reshape(trials, EDGES, EACH)

    def go():
        rounds = problem["rounds"]
        return hfsad.hfsad_batch(x, y, made.start, PASSES, rounds, dtype=np.dtype("float32"))[-1]

    return go


def one_round(problem):
    import jax

    import fedjax_admm as fa

    made = jax.tree.map(lambda a: jax.numpy.asarray(a[0]), problem["problems"])
    return fa.solvers.hfsad(made, passes=PASSES), made


def engine(problem):
    import jax

    import fedjax_admm as fa

    key, trials, rounds = jax.random.key(0), problem["trials"], problem["rounds"]
    of = given(problem["problems"], key, trials)

    def trial(own):
        made = of(own)
        solver = fa.solvers.hfsad(made, passes=PASSES)
        return {"model": fa.run(solver, made, own, rounds=rounds, every=rounds).estimate}

    return monte_carlo(trial, key, trials, "model")


def score(problem, result) -> float:
    from tests.reference import hfsad

    truths = problem["problems"].truth
    return float(np.mean([hfsad.relative_error(w, t) for w, t in zip(result, truths, strict=True)]))


def work(problem) -> Work:
    clients = EDGES * EACH
    flops = clients * (DIM * (4 + 4 + 15) + 12)
    moved = clients * DIM * (2 * 2 + 1) * 4
    return Work(problem["trials"] * problem["rounds"] * PASSES, flops, moved, "a pass of one trial")
