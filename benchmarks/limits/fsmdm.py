"""FSMDM at its paper's size: 1000 trials of 1000 rounds with 21 sensors in space.

Work of a round of one trial, per sensor: 15 flops per coordinate for x and its radius, 12 for z and
psi, 22 for g, q, xi, zeta and the sum, and 10 per sensor for two roots, quotients and clips. Read
and written are z, g, psi, xi and zeta, read are the anchor and the range.
"""

from typing import Any

import numpy as np

from limits import Work, drawn, given, monte_carlo

SENSORS, DIM = 21, 3


def draw(quick: bool) -> dict[str, Any]:
    import jax

    import fedjax_admm as fa

    def one(key):
        return fa.problems.draw_localization(key, fa.problems.cauchy_noise(1.0), clients=SENSORS)

    trials = 96 if quick else 1008
    problems = drawn(one, jax.random.key(0), trials)
    return {"problems": problems, "trials": trials, "rounds": 100 if quick else 1000}


def pack(problem) -> list[np.ndarray]:
    from tests.reference import fsmdm

    made, constants = problem["problems"], fsmdm.PUBLISHED
    return [
        np.array([problem["trials"], SENSORS, problem["rounds"]], np.int32),
        np.array([constants[name] for name in ("c", "d", "alpha", "beta", "omega")], np.float32),
        made.anchors,
        made.distances,
    ]


def numpy(problem):
    from tests.reference import fsmdm

    made = problem["problems"]

    def go():
        return fsmdm.fsmdm_batch(
            made.anchors,
            made.distances,
            rounds=problem["rounds"],
            dtype="float32",
            **fsmdm.PUBLISHED,
        )[-1]

    return go


def one_round(problem):
    import jax

    import fedjax_admm as fa

    return fa.solvers.fsmdm(), jax.tree.map(lambda a: jax.numpy.asarray(a[0]), problem["problems"])


def engine(problem):
    import jax

    import fedjax_admm as fa

    key, trials, rounds = jax.random.key(0), problem["trials"], problem["rounds"]
    of, solver = given(problem["problems"], key, trials), fa.solvers.fsmdm()

    def trial(own):
        return {"model": fa.run(solver, of(own), own, rounds=rounds, every=rounds).estimate}

    return monte_carlo(trial, key, trials, "model")


def score(problem, result) -> float:
    return float(np.linalg.norm(result - problem["problems"].target, axis=-1).mean())


def work(problem) -> Work:
    flops = SENSORS * (DIM * (15 + 12 + 22) + 10)
    moved = SENSORS * (DIM * (5 * 2 + 1) + 1) * 4
    return Work(problem["trials"] * problem["rounds"], flops, moved, "of one trial")
