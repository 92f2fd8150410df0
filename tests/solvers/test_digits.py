"""A network of two layers on handwritten digits: every star solver trains what training at one
place does.

Ten clients of 50 to 280 images, of whom some have five of the ten digits alone. Settings are by
hand; what is not convex has no defaults that suit it.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.optimize

import fedjax_admm as fa
from fedjax_admm import penalties, solvers
from fedjax_admm.schedules import constant, geometric

pytestmark = pytest.mark.thorough
HIDDEN, HELD_OUT = 32, 360


def logits(params, image):
    hidden = jnp.tanh(image @ params["hidden"] + params["bias"])
    return hidden @ params["out"] + params["last"]


def loss(params, sample):
    entropy = optax.softmax_cross_entropy_with_integer_labels
    squares = sum(jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(params))
    return entropy(logits(params, sample["image"]), sample["label"]) + 5e-4 * squares


def right(params, sample):
    return jnp.argmax(logits(params, sample["image"])) == sample["label"]


@cache
def digits():
    """Return the problem; its prox takes ten gradient steps."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images, labels = (images / 16).astype(np.float32), labels.astype(np.int32)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(labels))
    held_out, training = order[:HELD_OUT], order[HELD_OUT:]
    owner = np.empty(len(training), int)
    for digit in range(10):
        mine = np.flatnonzero(labels[training] == digit)
        owner[mine] = rng.choice(10, size=len(mine), p=rng.dirichlet(np.full(10, 0.5)))
    data = [
        {"image": images[training][owner == k], "label": labels[training][owner == k]}
        for k in range(10)
    ]
    start = {
        "hidden": rng.standard_normal((64, HIDDEN), np.float32) / 8,
        "bias": np.zeros(HIDDEN, np.float32),
        "out": rng.standard_normal((HIDDEN, 10), np.float32) / 6,
        "last": np.zeros(10, np.float32),
    }
    return fa.problems.federated(
        loss,
        data,
        start,
        weights="samples",
        optimizer=fa.problems.inner_steps(optax.sgd(0.2), steps=10),
        score=right,
        held_out={"image": images[held_out], "label": labels[held_out]},
    )


def everywhere(task, model):
    return jnp.broadcast_to(jnp.asarray(model, task.start.dtype), (10, task.start.size))


@cache
def trained_at_one_place() -> float:
    """Return the accuracy of the model that scipy finds from the same start."""
    task = digits()
    both = jax.jit(jax.value_and_grad(lambda w: jnp.mean(task.values(everywhere(task, w)))))

    def value_and_slope(w):
        value, slope = both(jnp.asarray(w, jnp.float32))
        return float(value), np.asarray(slope, float)

    options = {"maxiter": 500}
    start = np.asarray(task.start, float)
    found = scipy.optimize.minimize(
        value_and_slope, start, jac=True, method="L-BFGS-B", options=options
    )
    return float(jnp.mean(task.scores(everywhere(task, found.x))))


def tight(sigma):
    return solvers.tree_link(constant(sigma), constant(1e-4), penalties.l1(5.0))


LOCAL = solvers.local_gradient(0.3, steps=10)
PROX = solvers.local_prox()
SOLVERS = {
    "centralized_subgradient": (
        lambda: solvers.centralized_subgradient(geometric(1.0, 0.998)),
        3000,
    ),
    "consensus_admm": (lambda: solvers.consensus_admm(tight(0.5)), 1200),
    "consensus_admm, linearised": (
        lambda: solvers.consensus_admm(tight(2.0), client_update="linearized"),
        3000,
    ),
    "fed_admm": (lambda: solvers.fed_admm(0.5, local=LOCAL), 600),
    "fed_admm by prox": (lambda: solvers.fed_admm(0.5, local=PROX), 600),
    "fed_dr": (lambda: solvers.fed_dr(2.0, local=LOCAL), 600),
    "fed_dyn": (lambda: solvers.fed_dyn(0.5, local=LOCAL), 600),
    "fed_pd": (lambda: solvers.fed_pd(2.0, local=LOCAL), 600),
    "fed_plt": (lambda: solvers.fed_plt(2.0, local=LOCAL), 600),
    # With more steps it is biased, and with a larger penalty slower: 1.1 % to 1.4 % fell short.
    "fed_prox": (
        lambda: solvers.fed_prox(2.0, local=solvers.local_gradient(0.2, steps=3)),
        4000,
    ),
    # With five steps of 0.3 it is biased: 1.4 % fell short.
    "fed_avg": (lambda: solvers.fed_avg(0.2, local_steps=2), 2000),
    "fed_subgradient": (lambda: solvers.fed_subgradient(constant(0.3)), 3000),
    "fsmdm": (
        lambda: solvers.fsmdm(
            sigma_psi=constant(0.25),
            mu_phi=constant(6.0),
            sigma_xi=constant(0.25),
            mu_h=constant(1e-4),
            omega=5.0,
        ),
        1200,
    ),
    "ifca": (lambda: solvers.ifca(np.asarray(digits().start)[None], 0.3), 3000),
    "personal": (lambda: solvers.personal(solvers.scaffold(0.3, local_steps=5)), 600),
    "prox_skip": (lambda: solvers.prox_skip(0.2), 3000),
    "scaffold": (lambda: solvers.scaffold(0.3, local_steps=5), 600),
}


# Minutes of training for all of them: one of each kind is in the thorough run.
OF_EACH_KIND = ("fed_admm", "scaffold")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in OF_EACH_KIND else [pytest.mark.slow])
        for name in SOLVERS
    ],
)
def test_it_is_as_accurate_as_training_at_one_place(name):
    build, rounds = SOLVERS[name]
    found = fa.run(
        build(),
        digits(),
        jax.random.key(0),
        rounds=rounds,
        every=rounds,
        measure=fa.measures.accuracy,
    )
    reached = float(found.trace["accuracy"][-1])
    assert reached > 0.95
    assert reached > trained_at_one_place() - 0.01
