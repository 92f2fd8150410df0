"""Losses with a state of each client, against loops over rounds, clients and steps."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import solvers
from fedjax_admm._run._keys import init_key
from fedjax_admm.capabilities import at_state
from fedjax_admm.problems import federated

CLIENTS, SAMPLES, BATCH, STEPS, RATE = 5, 6, 3, 3, 0.1
LOSS = 2**32 - 1  # what separates the keys of losses from those of minibatches
DRAWN = fa.participation.without_replacement(2)
START = {"norm": {"scale": np.ones(2), "shift": np.zeros(2)}, "weight": np.ones((3, 2)) / 3}
STATE = {"mean": np.zeros(2), "var": np.ones(2), "count": np.zeros((), np.int32)}


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def data():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((CLIENTS, SAMPLES, 3)) + np.arange(CLIENTS)[:, None, None]
    return {"x": x, "y": rng.standard_normal((CLIENTS, SAMPLES))}


def normalised(params, rows, state, training):
    """Return batch norm of a linear layer: of the minibatch, or with the running statistics."""
    hidden = rows @ params["weight"]
    mean, var = (hidden.mean(0), hidden.var(0)) if training else (state["mean"], state["var"])
    factor, shift = params["norm"]["scale"] / jnp.sqrt(var + 1e-3), params["norm"]["shift"]
    return factor[None] * (hidden - mean[None]) + shift[None], mean, var


def loss(params, batch, state, key=None):
    """Half a squared error behind batch norm and dropout, which are off without a key."""
    hidden, mean, var = normalised(params, batch["x"], state, key is not None)
    if key is not None:
        hidden = jnp.where(jax.random.bernoulli(key, 0.7, hidden.shape), hidden / 0.7, 0)
    moved = {
        "mean": 0.9 * state["mean"] + 0.1 * mean,
        "var": 0.9 * state["var"] + 0.1 * var,
        "count": state["count"] + 1,
    }
    return jnp.mean((hidden.sum(-1) - batch["y"]) ** 2) / 2, moved


def score(params, sample, state):
    hidden, _, _ = normalised(params, sample["x"][None], state, False)
    return hidden.sum() - sample["y"]


def problem(**more):
    more = {"batch": True, "batch_size": BATCH, "state": STATE, "score": score, **more}
    return federated(loss, data(), START, **more)


# --- a plain loop ---------------------------------------------------------------------------------


def flat(params):
    leaves = params["norm"]["scale"], params["norm"]["shift"], params["weight"]
    return np.concatenate([np.ravel(leaf) for leaf in leaves])


def tree(w):
    return {"norm": {"scale": w[:2], "shift": w[2:4]}, "weight": w[4:].reshape(3, 2)}


gradient_of = jax.jit(jax.grad(lambda w, *rest: loss(tree(w), *rest), has_aux=True))


def by_hand(client, round_key, step, w, state):
    """Return the gradient and the state of one local step, with its minibatch and its key."""
    own = jax.random.fold_in(round_key, client)
    epoch = SAMPLES // BATCH
    draws = np.asarray(jax.random.uniform(jax.random.fold_in(own, step // epoch), (SAMPLES,)))
    places = np.argsort(draws)[step % epoch * BATCH :][:BATCH]
    key = own
    for number in (LOSS, step, 0):
        key = jax.random.fold_in(key, number)
    batch = {name: leaf[client][places] for name, leaf in data().items()}
    slope, state = gradient_of(jnp.asarray(w), batch, state, key)
    return np.asarray(slope), jax.tree.map(np.asarray, state)


def walk(client, round_key, w, state, pull=lambda w: 0.0):
    """Return the model and the state after the local steps of a round."""
    for step in range(STEPS):
        slope, state = by_hand(client, round_key, step, w, state)
        w = w - RATE * (slope + pull(w))
    return w, state


def fed_avg(x, kept, present, work):
    return np.mean([work(i, x) for i in present], 0)


def fed_prox(x, kept, present, work):
    return np.mean([work(i, x, lambda w: 0.5 * (w - x)) for i in present], 0)


def scaffold(x, kept, present, work):
    control, moves = kept.setdefault("control", np.zeros((CLIENTS, 10))), []
    mean = control.mean(0)
    for i in present:
        correction = mean - control[i]
        moved = work(i, x, lambda w, correction=correction: correction)
        control[i] = -correction + (x - moved) / (STEPS * RATE)
        moves.append(moved - x)
    return x + np.mean(moves, 0)


def fed_dyn(x, kept, present, work):
    slope, moves = kept.setdefault("slope", np.zeros((CLIENTS, 10))), []
    for i in present:
        centre = x + slope[i]
        moved = work(i, x, lambda w, centre=centre: w - centre)
        slope[i] -= moved - x
        moves.append(moved - x)
    return x + np.mean(moves, 0) - slope.mean(0)


def fed_admm(x, kept, present, work):
    models = kept.setdefault("models", np.tile(x, (CLIENTS, 1)))
    duals = kept.setdefault("duals", np.zeros((CLIENTS, 10)))
    for i in present:
        centre = x - duals[i]
        models[i] = work(i, x, lambda w, centre=centre: w - centre)
        duals[i] += models[i] - x
    return np.mean(models + duals, 0)


def fed_dr(x, kept, present, work):
    for i in present:
        kept["y"][i] += x - kept["x"][i]
        centre = kept["y"][i]
        kept["x"][i] = work(i, kept["x"][i], lambda w, centre=centre: w - centre)
    return np.mean(2 * kept["x"] - kept["y"], 0)


METHODS = {
    "fed_avg": (lambda _: solvers.fed_avg(RATE, local_steps=STEPS), fed_avg),
    "fed_prox": (lambda local: solvers.fed_prox(0.5, local=local), fed_prox),
    "scaffold": (lambda _: solvers.scaffold(RATE, local_steps=STEPS), scaffold),
    "fed_dyn": (lambda local: solvers.fed_dyn(1.0, local=local), fed_dyn),
    "fed_admm": (lambda local: solvers.fed_admm(1.0, local=local), fed_admm),
    "fed_dr": (lambda local: solvers.fed_dr(1.0, local=local), fed_dr),
}


def solver_of(method):
    return METHODS[method][0](solvers.local_gradient(RATE, steps=STEPS))


def expected(method, masks, key):
    """Return the server's model, and every client's state, after the rounds of the masks."""
    x, kept, states = flat(START), {}, [STATE] * CLIENTS

    def work(i, w, pull=lambda w: 0.0):
        w, states[i] = walk(i, round_key, w, states[i], pull)
        return w

    if method == "fed_dr":
        round_key = init_key(key)
        kept = {"y": np.tile(x, (CLIENTS, 1))}
        kept["x"] = np.stack([work(i, x, lambda w: w - x0) for i, x0 in enumerate(kept["y"])])
        x = np.mean(2 * kept["x"] - kept["y"], 0)
    for t, mask in enumerate(masks):
        round_key = jax.random.split(jax.random.fold_in(key, t))[1]
        if mask.any():
            x = METHODS[method][1](x, kept, np.flatnonzero(mask).tolist(), work)
    return x, jax.tree.map(lambda *leaves: np.stack(leaves), *states)


@pytest.mark.parametrize("method", METHODS)
def test_states_move_where_clients_compute_alone(method):
    masks = np.array([[1, 0, 1, 0, 0], [0, 1, 1, 0, 1], [0] * 5, [1, 0, 0, 0, 1]], bool)
    key = jax.random.key(5)
    present = fa.participation.replay(masks)
    run = fa.run(solver_of(method), problem(), key, rounds=4, participation=present)
    x, states = expected(method, masks, key)
    np.testing.assert_allclose(flat(run.estimate), x, rtol=1e-9, atol=1e-11)
    found = at_state(problem(), run.state.solver).states
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-11), found, states)
