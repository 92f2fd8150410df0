"""A run with minibatches, partial presence and a measure, which a process can be killed in."""

import os
import signal

import jax
import jax.numpy as jnp
import numpy as np
import optax

import fedjax_admm as fa

ROUNDS, EVERY, BLOCK = 120, 2, 20


def loss(params, sample):
    return optax.softmax_cross_entropy_with_integer_labels(
        sample["x"] @ params["w"] + params["b"], sample["y"]
    )


def objective(solver, problem, state):
    model = jnp.broadcast_to(solver.estimate(state), (problem.num_clients, problem.start.size))
    return {"loss": jnp.mean(problem.values(model))}


def call(clients=8, seed=0):
    """Return solver, problem and key of the run."""
    rng = np.random.default_rng(seed)
    data = {
        "x": rng.standard_normal((clients, 12, 4), dtype=np.float32),
        "y": rng.integers(0, 3, (clients, 12)),
    }
    start = {"w": jnp.zeros((4, 3)), "b": jnp.zeros(3)}
    problem = fa.problems.federated(loss, data, start, batch_size=4)
    return fa.solvers.scaffold(0.1, local_steps=2), problem, jax.random.key(3)


def die_at_the_third_file():
    """Have this process kill itself while it writes the third file."""
    replace, files = os.replace, []

    def killing(*paths):
        files.append(paths)
        if len(files) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(*paths)

    os.replace = killing


def begin_and_die(checkpoint):
    """Begin the run in a process that kills itself."""
    die_at_the_third_file()
    begin(checkpoint)


def begin(checkpoint=None, rounds=ROUNDS):
    """Return the run, whose process may be killed."""
    return fa.run(
        *call(),
        rounds=rounds,
        every=EVERY,
        measure=objective,
        participation=fa.participation.bernoulli(0.4),
        checkpoint=checkpoint,
        checkpoint_every=None if checkpoint is None else BLOCK,
    )
