"""What the test of a transport deploys on a tree: the same file at every node."""

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_admm as fa
from fedjax_admm import deploy, messages, solvers, trees

TREE = trees.from_nested([[0, 1], 2])
RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 3)).astype("f4")
Y = (X @ np.ones(3, "f4")) ** 2
START = jnp.full(3, 0.5)


def problem(number):
    return fa.problems.phase_retrieval(X[[number]], Y[[number]], start=START)


def everybody():
    return fa.problems.phase_retrieval(X, Y, TREE, start=START)


STUDY = deploy.Study(
    solver=solvers.hfsad(
        everybody(), passes=2, exchange=messages.exchange(messages.differences(messages.top_k(2)))
    ),
    model=START,
    num_clients=3,
    key=jax.random.key(0),
    problem=problem,
    everybody=everybody,
    topology=TREE,
)
