"""Losses with a state of each client, against loops over rounds, clients and steps."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
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


def sure_of(params, sample, state):
    hidden = normalised(params, sample["x"][None], state, False)[0][0]
    return jax.nn.softmax(hidden), sample["y"] > 0


def problem(loss=loss, **more):
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


def expected(method, masks, key, averaged=False):
    """Return the server's model, and every client's state, after the rounds of the masks."""
    x, kept, states = flat(START), {}, [STATE] * CLIENTS

    def work(i, w, pull=lambda w: 0.0):
        w, states[i] = walk(i, round_key, w, states[i], pull)
        return w

    if method == "fed_dr":
        round_key = init_key(key)
        kept = {"y": np.tile(x, (CLIENTS, 1))}
        kept["x"] = np.stack([work(i, x, lambda w: w - flat(START)) for i in range(CLIENTS)])
        x = np.mean(2 * kept["x"] - kept["y"], 0)
    for t, mask in enumerate(masks):
        round_key = jax.random.split(jax.random.fold_in(key, t))[1]
        if mask.any():
            x = METHODS[method][1](x, kept, np.flatnonzero(mask).tolist(), work)
        if mask.any() and averaged:
            sent = [state for state, there in zip(states, mask, strict=True) if there]
            mean = {name: np.mean([state[name] for state in sent], 0) for name in ("mean", "var")}
            states = [{**state, **mean} for state in states]
    return x, jax.tree.map(lambda *leaves: np.stack(leaves), *states)


thorough = pytest.mark.thorough
DEFAULT = ("fed_avg", "scaffold", "fed_admm")
FIRST = [m if m in DEFAULT else pytest.param(m, marks=thorough) for m in METHODS]


@pytest.mark.parametrize("method", FIRST)
def test_states_move_where_clients_compute_alone(method):
    masks = np.array([[1, 0, 1, 0, 0], [0, 1, 1, 0, 1], [0] * 5, [1, 0, 0, 0, 1]], bool)
    key = jax.random.key(5)
    present = fa.participation.replay(masks)
    run = fa.run(solver_of(method), problem(), key, rounds=4, participation=present)
    x, states = expected(method, masks, key)
    np.testing.assert_allclose(flat(run.estimate), x, rtol=1e-9, atol=1e-11)
    found = at_state(problem(), run.state.solver).states
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-11), found, states)


@pytest.mark.kin(1)
@pytest.mark.parametrize("method", ["fed_admm", "fed_dyn", "fed_dr"])
@pytest.mark.parametrize("batch", [None, 2])
def test_methods_at_their_defaults_move_the_states_once_per_step(method, batch):
    """The second gradient on the first minibatch, by which they measure, moves no state."""

    def with_means(w, row, state):
        moved = {"mean": 0.9 * state["mean"] + 0.1 * row["x"], "count": state["count"] + 1}
        return (row["x"] @ w - row["y"]) ** 2 / 2, moved

    first = {"mean": np.zeros(3), "count": np.zeros((), np.int32)}
    own = federated(with_means, data(), np.zeros(3), state=first, batch_size=batch)
    masks = np.array([[1, 0, 1, 0, 0], [0, 1, 1, 0, 1]], bool)
    present = fa.participation.replay(masks)
    solver = getattr(solvers, method)()
    run = fa.run(solver, own, jax.random.key(0), rounds=2, participation=present)
    states = at_state(own, run.state.solver).states
    steps = 5 * (masks.sum(0) + (method == "fed_dr"))  # FedDR works before the first round, too
    np.testing.assert_array_equal(states["count"], steps)
    if batch is None:
        means = (1 - 0.9 ** steps[:, None]) * data()["x"].mean(1)
        np.testing.assert_allclose(states["mean"], means, rtol=1e-12)


@pytest.mark.thorough
def test_states_of_drawn_rows_in_a_batch_of_runs_that_goes_on():
    """Rows are gathered and scattered; two halves are one run, saved and loaded in between."""
    key, own = jax.random.split(jax.random.key(1)), problem()

    def several(rounds, start=None):
        def one(key, start):
            solver = solver_of("scaffold")
            return fa.run(solver, own, key, rounds=rounds, participation=DRAWN, start=start)

        axes = (0, None if start is None else 0)
        return jax.jit(jax.vmap(one, axes))(key, start)

    whole, half = several(4), several(2)
    again = several(2, half.state)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-12), again.state, whole.state)
    counts = np.stack([at_state(own, s).states["count"] for s in rows_of(whole.state.solver)])
    np.testing.assert_array_equal(counts.sum(1), 4 * 2 * STEPS)
    assert np.all(counts % STEPS == 0)
    assert np.ptp(counts) > 0


def rows_of(tree):
    return [jax.tree.map(lambda leaf, i=i: leaf[i], tree) for i in range(2)]


@pytest.mark.thorough
def test_averaged_states_are_the_mean_of_those_who_send():
    """Everybody begins a round with the server's state; whole numbers stay private."""
    own, key = problem(average_state=True), jax.random.key(5)
    masks = np.array([[1, 0, 1, 0, 0], [0, 1, 1, 0, 1], [0] * 5, [1, 0, 0, 0, 1]], bool)
    present = fa.participation.replay(masks)
    run = fa.run(solver_of("scaffold"), own, key, rounds=4, participation=present)
    x, states = expected("scaffold", masks, key, averaged=True)
    np.testing.assert_allclose(flat(run.estimate), x, rtol=1e-9, atol=1e-11)
    found = at_state(own, run.state.solver).states
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-11), found, states)
    np.testing.assert_array_equal(found["count"], STEPS * masks.sum(0))
    traffic = solver_of("scaffold").traffic(own)
    assert (traffic.up, traffic.down) == (2 * 10 + 4, 2 * 10 + 4)
    drawn = [
        fa.run(solver_of("scaffold"), own, key, rounds=3, participation=who)
        for who in (DRAWN, fa.participation.replay(np.array(drawn_masks(key))))
    ]
    found, same = (at_state(own, run.state.solver).states["var"] for run in drawn)
    np.testing.assert_allclose(found, same, rtol=1e-10)


def drawn_masks(key):
    """Return who is drawn in three rounds, as bools."""
    keys = [jax.random.split(jax.random.fold_in(key, t))[0] for t in range(3)]
    return [DRAWN.draw((), jnp.asarray(0), key, (CLIENTS,))[1].active for key in keys]


@pytest.mark.thorough
def test_a_deployment_keeps_the_states_of_a_run():
    own, key = problem(), jax.random.key(4)
    run = fa.run(solver_of("fed_admm"), own, key, rounds=2)
    deployed = fa.deploy.in_process(solver_of("fed_admm"), own, key, rounds=2)
    clients = [at_state(own, client.clients).states["mean"][0] for client in deployed.clients]
    np.testing.assert_allclose(clients, at_state(own, run.state.solver).states["mean"], rtol=1e-10)
    with pytest.raises(fa.InputError, match="average_state must be False in a deployment"):
        fa.deploy.in_process(solver_of("fed_admm"), problem(average_state=True), key, rounds=1)


@pytest.mark.thorough
def test_a_checkpoint_holds_the_states(tmp_path):
    def train(rounds, **more):
        arguments = solver_of("fed_avg"), problem(), jax.random.key(2)
        return fa.run(*arguments, rounds=rounds, participation=DRAWN, **more)

    file = {"checkpoint": tmp_path / "run.npz", "checkpoint_every": 2}
    train(2, **file)
    again, whole = train(4, **file), train(4)
    jax.tree.map(np.testing.assert_array_equal, again.state.solver, whole.state.solver)


def test_steps_of_every_kind_carry_the_states():
    for local in (
        solvers.local_gradient(steps=2),
        solvers.local_optimizer(optax.adam(0.1), steps=2, keep=True),
    ):
        run = fa.run(solvers.fed_admm(1.0, local=local), problem(), jax.random.key(0), rounds=3)
        np.testing.assert_array_equal(at_state(problem(), run.state.solver).states["count"], 6)


@pytest.mark.thorough
def test_a_prox_holds_the_states_and_moves_them_once():
    own = problem(optimizer=fa.problems.inner_lbfgs(30))
    moved = {**STATE, "mean": np.ones(2), "var": np.full(2, 2.0)}
    there = own.with_states(jax.tree.map(lambda leaf: jnp.stack([leaf] * CLIENTS), moved))
    w, step = jnp.asarray(np.tile(flat(START), (CLIENTS, 1))), jnp.ones(CLIENTS)
    models, memory = jax.jit(there.prox)(w, step, there.prox_memory(w))
    slope = jax.jit(there.gradients)(models) + models - w
    assert np.max(np.abs(slope)) < 0.2 * np.max(np.abs(jax.jit(there.gradients)(w)))
    _, after = jax.jit(there.gradients_and_states)(models)
    np.testing.assert_allclose(memory[1].states["mean"], after["mean"], rtol=1e-12)


@thorough
def test_a_solver_by_proximal_maps_keeps_the_states():
    own = problem(optimizer=fa.problems.inner_lbfgs(30))
    solver = solvers.fed_admm(1.0, local=solvers.local_prox())
    run = fa.run(solver, own, jax.random.key(0), rounds=3)
    np.testing.assert_array_equal(at_state(own, run.state.solver).states["count"], 3)


# --- samples, measures ----------------------------------------------------------------------------


def centred(params, sample, state):
    """A loss of a sample whose state is a running mean, and the number of steps."""
    residual = sample["x"] @ params - sample["y"] - state["mean"]
    return residual**2 / 2, {"mean": 0.5 * state["mean"] + residual, "steps": state["steps"] + 1}


def test_the_state_after_a_sum_is_the_mean_over_samples():
    sizes = (4, 2, 3)
    rng = np.random.default_rng(3)
    clients = [{"x": rng.standard_normal((n, 3)), "y": rng.standard_normal(n)} for n in sizes]
    state = {"mean": np.ones(()), "steps": 0}
    own, w = federated(centred, clients, np.ones(3), state=state), rng.standard_normal((3, 3))
    slopes, states = jax.jit(own.gradients_and_states)(w)
    np.testing.assert_array_equal(states["steps"], 1)
    for k, client in enumerate(clients):
        residual = client["x"] @ w[k] - client["y"] - 1
        np.testing.assert_allclose(slopes[k], residual @ client["x"] / sizes[k], rtol=1e-12)
        np.testing.assert_allclose(states["mean"][k], 0.5 + residual.mean(), rtol=1e-12)
        clipped = np.linalg.norm(client["x"], axis=1) * np.abs(residual)
        factor = np.minimum(1, 0.1 / clipped) * residual
        found = jax.jit(own.clipped_gradients)(w, 0.1)[k]
        np.testing.assert_allclose(found, factor @ client["x"] / sizes[k], rtol=1e-9)


@pytest.mark.thorough
def test_measures_read_the_present_states():
    """The server's model is judged by each client's own running statistics."""
    solver, own = solver_of("fed_avg"), problem()
    run = fa.run(solver, own, jax.random.key(0), rounds=5, measure=fa.measures.client_accuracy)
    params = jax.tree.map(np.asarray, run.estimate)
    states = at_state(own, run.state.solver).states
    gaps = []
    for k in range(CLIENTS):
        state = jax.tree.map(lambda leaf, k=k: leaf[k], states)
        hidden, _, _ = normalised(params, data()["x"][k], state, False)
        expected = np.mean(hidden.sum(-1) - data()["y"][k])
        np.testing.assert_allclose(run.trace["client_accuracy"][-1, k], expected, rtol=1e-9)
        odds = np.exp(hidden) / np.exp(hidden).sum(1, keepdims=True)
        right = odds.argmax(1) == (data()["y"][k] > 0)
        gaps.append(abs(np.mean(right - odds.max(1))))
    calibration = fa.measures.calibration_error(
        solver, own, run.state.solver, predict=sure_of, bins=1
    )
    np.testing.assert_allclose(calibration["calibration_error"], np.mean(gaps), rtol=1e-9)
    objective = fa.measures.objective(solver, own, run.state.solver)["objective"]
    values = own.with_states(states).values(jnp.tile(flat(run.estimate)[None], (CLIENTS, 1)))
    np.testing.assert_allclose(objective, np.mean(values), rtol=1e-12)


# --- FedBN ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method", ["fed_avg", pytest.param("scaffold", marks=thorough), "fed_admm"]
)
def test_fed_bn_is_a_plain_loop(method):
    """Parameters and statistics of normalisation are each client's; the weights are shared."""
    own, key = problem(shared="weight"), jax.random.key(7)
    masks = np.array([[1, 0, 1, 0, 0], [0, 1, 1, 0, 1], [1, 0, 0, 0, 1]], bool)
    present = fa.participation.replay(masks)
    solver = solvers.personal(solver_of(method), RATE / 2, steps=None)
    run = fa.run(solver, own, key, rounds=3, participation=present, measure=fa.measures.accuracy)
    norms, states = np.tile(flat(START)[:4], (CLIENTS, 1)), [STATE] * CLIENTS
    kept = {name: np.zeros((CLIENTS, 6)) for name in ("control", "duals")}
    kept["models"] = np.tile(flat(START)[4:], (CLIENTS, 1))

    def work(i, w, pull=lambda w: 0.0):
        for step in range(STEPS):
            slope, states[i] = by_hand(i, round_key, step, np.append(norms[i], w), states[i])
            w = w - RATE * (slope[4:] + pull(w))
            norms[i] = norms[i] - RATE / 2 * slope[:4]
        return w

    x = flat(START)[4:]
    for t, mask in enumerate(masks):
        round_key = jax.random.split(jax.random.fold_in(key, t))[1]
        x = METHODS[method][1](x, kept, np.flatnonzero(mask).tolist(), work)
    np.testing.assert_allclose(run.estimate["weight"], np.tile(x.reshape(3, 2), (5, 1, 1)))
    np.testing.assert_allclose(run.estimate["norm"]["scale"], norms[:, :2], rtol=1e-9, atol=1e-11)
    found = at_state(own, run.state.solver)
    np.testing.assert_allclose(found.private, norms, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(found.states.own["var"], [s["var"] for s in states], rtol=1e-9)
    scores = []
    for k, state in enumerate(states):
        params = tree(np.append(norms[k], x))
        hidden, _, _ = normalised(params, data()["x"][k], state, False)
        scores.append(np.mean(hidden.sum(-1) - data()["y"][k]))
    np.testing.assert_allclose(run.trace["accuracy"][-1], np.mean(scores), rtol=1e-9)
    assert solver.traffic(own).up == 6 * (2 if method == "scaffold" else 1)


# --- mistakes -------------------------------------------------------------------------------------


MISTAKES = {
    "no state": (
        lambda: problem(state=None, score=None),
        r"^state must be given for a loss with a parameter state\.$",
    ),
    "no parameter": (
        lambda: federated(lambda w, s: jnp.sum(w), data(), np.ones(3), state=STATE),
        r"^state is for a loss with a parameter state; write loss\(params, sample, state\)\.$",
    ),
    "no pair": (
        lambda: problem(state=STATE, score=None, loss=lambda *args, state: loss(*args, state)[0]),
        r"^loss must return \(value, state\), but it returns ",
    ),
    "another shape": (
        lambda: problem(state={**STATE, "more": np.zeros(2)}, score=None),
        r"^loss must return a state of the shapes .*, but it returns ",
    ),
    "a solver without": (
        lambda: fa.run(solvers.prox_skip(0.1), problem(), jax.random.key(0), rounds=1),
        "solver must keep the states of the clients' losses, but ProxSkip keeps",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_get_a_sentence(mistake):
    build, sentence = MISTAKES[mistake]
    with pytest.raises(fa.InputError, match=sentence) as caught:
        build()
    assert "\n" not in str(caught.value)
