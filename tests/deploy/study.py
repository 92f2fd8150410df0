"""What the tests of transports deploy: the same file at the server and at every client."""

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_admm as fa
from fedjax_admm import deploy, messages, solvers

CLIENTS, DIM = 3, 3


def loss(model, sample):
    features, target = sample
    return 0.5 * (features @ model - target) ** 2


def rows(number):
    rng = np.random.default_rng(number)
    return rng.normal(size=(6, DIM)).astype("f4"), rng.normal(size=6).astype("f4")


def problem(number):
    return fa.problems.federated(loss, [rows(number)], jnp.zeros(DIM))


def everybody():
    return fa.problems.federated(loss, [rows(i) for i in range(CLIENTS)], jnp.zeros(DIM))


STUDY = deploy.Study(
    # The step lengths of the default would carry differences by rounding on.
    solver=solvers.fed_admm(
        1.0, exchange=messages.exchange(messages.error_feedback(messages.qsgd(4)))
    ),
    model=jnp.zeros(DIM),
    num_clients=CLIENTS,
    key=jax.random.key(0),
    problem=problem,
    everybody=everybody,
)
