"""A loss of one's own: values, gradients and proximal maps against plain loops over clients."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.optimize

import fedjax_admm as fa
from fedjax_admm import graphs, kernels, trees
from fedjax_admm.problems import (
    federated,
    inner_lbfgs,
    inner_steps,
    moreau_smoothing,
    randomized_smoothing,
)
from fedjax_admm.problems._client_data import BucketedData, GeneratedData, StackedData

SIZES = (8, 40, 3, 20)
DIM = 4  # of the vector: three weights and a bias


def logistic(params, sample):
    x, y = sample["x"], sample["y"]
    return jnp.logaddexp(0.0, -y * (jnp.vdot(x, params["w"]) + params["b"]))


def positive_loss(params, sample):
    """A loss that is not finite for a sample of zeros."""
    return jnp.log(sample["x"][0] ** 2) * jnp.sum(params["w"] ** 2) + params["b"] ** 2


def clients(sizes=SIZES, seed=0):
    rng = np.random.default_rng(seed)
    return [{"x": rng.standard_normal((n, 3)), "y": rng.choice([-1.0, 1.0], n)} for n in sizes]


def first():
    return {"b": jnp.asarray(np.zeros(())), "w": jnp.asarray(np.zeros(3))}


def points(seed=1, number=4):
    return np.random.default_rng(seed).standard_normal((number, DIM))


def by_hand(client, point, mean=True):
    """Return a client's logistic loss and its gradient; the bias stands before the weights."""
    point = np.asarray(point)
    margin = client["y"] * (client["x"] @ point[1:] + point[0])
    slopes = -client["y"] / (1 + np.exp(margin))
    rows = np.column_stack([slopes, slopes[:, None] * client["x"]])
    reduce = np.mean if mean else np.sum
    return reduce(np.log1p(np.exp(-margin))), reduce(rows, 0)


compiled_values = jax.jit(lambda problem, w: problem.values(w))
compiled_gradients = jax.jit(lambda problem, w, key: problem.gradients(w, key))


def values(problem, w):
    return np.asarray(compiled_values(problem, w))


def gradients(problem, w, key=None):
    return np.asarray(compiled_gradients(problem, w, key))


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


@cache
def usual():
    return federated(logistic, clients(), first())


@pytest.fixture
def problem(float64):
    """The usual problem, in float64; it is built once."""
    return usual()


# --- data -----------------------------------------------------------------------------------------


def test_values_and_gradients_are_those_of_a_loop(problem):
    assert isinstance(problem.data, BucketedData)
    w = points()
    found = values(problem, w), gradients(problem, w)
    for k, client in enumerate(clients()):
        value, slope = by_hand(client, w[k])
        np.testing.assert_allclose(found[0][k], value, rtol=1e-12)
        np.testing.assert_allclose(found[1][k], slope, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("weights", ["mean", "sum", "samples", (1.0, 2.0, 3.0, 0.5)])
def test_weights_of_samples_and_clients(float64, weights):
    chosen = np.asarray(weights) if isinstance(weights, tuple) else weights
    problem = federated(logistic, clients(), first(), weights=chosen)
    w, mean = points(), weights != "sum"
    factor = {"mean": np.ones(4), "sum": np.ones(4), "samples": np.array(SIZES) / np.mean(SIZES)}
    expected = [by_hand(c, w[k], mean)[0] for k, c in enumerate(clients())]
    own = factor.get(weights, chosen) if isinstance(weights, str) else chosen
    np.testing.assert_allclose(values(problem, w), own * np.array(expected), rtol=1e-12)


def padded(sizes=SIZES):
    whole, mask = [], np.zeros((len(sizes), max(sizes)), bool)
    for k, client in enumerate(clients(sizes)):
        rest = max(sizes) - sizes[k]
        # Padding in front: a mask may have any pattern.
        x, y = np.pad(client["x"], ((rest, 0), (0, 0))), np.pad(client["y"], (rest, 0))
        whole.append({"x": x, "y": y})
        mask[k, rest:] = True
    return jax.tree.map(lambda *parts: np.stack(parts), *whole), mask


def test_stacked_data_with_a_mask_are_the_same_clients(problem):
    data, mask = padded()
    masked = federated(logistic, data, first(), mask=mask)
    assert isinstance(masked.data, StackedData)
    w = points()
    np.testing.assert_allclose(gradients(masked, w), gradients(problem, w), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(masked.sizes, SIZES)


def test_a_problem_can_be_built_inside_a_trace(problem):
    data, mask = padded()

    @jax.jit
    def built(data, mask):
        return federated(logistic, data, first(), mask=mask).gradients(points())

    np.testing.assert_allclose(built(data, mask), gradients(problem, points()), rtol=1e-12)


def test_data_that_are_made_on_demand(problem):
    data, mask = padded()
    order = np.argsort(~mask, axis=1, kind="stable")
    rows = jax.tree.map(lambda a: jnp.asarray([b[i] for b, i in zip(a, order, strict=True)]), data)

    def make(number):
        return jax.tree.map(lambda leaf: leaf[number], rows)

    made = federated(logistic, make, first(), sizes=SIZES)
    assert isinstance(made.data, GeneratedData)
    w = points()
    np.testing.assert_allclose(gradients(made, w), gradients(problem, w), rtol=1e-12, atol=1e-14)
    some = jnp.array([3, 1], jnp.int32)
    np.testing.assert_allclose(
        gradients(made.take(some), w[some]), gradients(problem, w)[some], rtol=1e-12, atol=1e-14
    )


@pytest.mark.thorough
def test_some_clients_alone_are_what_they_are_among_all(problem):
    some = jnp.array([2, 0, 3], jnp.int32)
    w = points()
    part = problem.take(some)
    assert part.num_clients == 3
    np.testing.assert_array_equal(part.sizes, np.array(SIZES)[np.asarray(some)])
    np.testing.assert_allclose(gradients(part, w[some]), gradients(problem, w)[some], rtol=1e-12)
    again = part.take(jnp.array([1], jnp.int32))
    np.testing.assert_allclose(gradients(again, w[:1]), gradients(problem, w)[:1], rtol=1e-12)


def test_what_pads_a_client_is_never_looked_at(float64):
    problem = federated(positive_loss, clients(), first())
    assert np.all(np.isfinite(gradients(problem, points())))


# --- minibatches ----------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.kin(1)
@pytest.mark.parametrize("sampling", ["epochs", "replacement"])
def test_the_mean_of_minibatches_is_the_gradient(float64, sampling):
    problem = federated(logistic, clients(), first(), batch_size=3, sampling=sampling)
    w, keys = points(), jax.random.split(jax.random.key(0), 500)
    drawn = np.asarray(jax.jit(jax.vmap(lambda key: problem.gradients(w, key)))(keys))
    error = drawn.std(0) / np.sqrt(len(keys))
    assert np.all(np.abs(drawn.mean(0) - gradients(problem, w)) <= 5 * error + 1e-12)
    np.testing.assert_allclose(gradients(problem, w, keys[0]), drawn[0], rtol=1e-12)


def test_an_epoch_takes_every_sample_once(float64):
    """Two samples a step: the gradients of an epoch add up to the whole one, client by client."""
    problem = federated(logistic, clients((8, 4)), first(), batch_size=2)
    w = points(number=2)
    batches = problem.batches(jax.random.key(3), 8)
    drawn = np.asarray(jax.jit(jax.vmap(lambda batch: problem.gradients(w, batch)))(batches))
    whole = gradients(problem, w)
    np.testing.assert_allclose(drawn[:4, 0].mean(0), whole[0], rtol=1e-12)
    np.testing.assert_allclose(drawn[4:, 0].mean(0), whole[0], rtol=1e-12)
    for epoch in np.split(np.asarray(drawn[:, 1]), 4):
        np.testing.assert_allclose(epoch.mean(0), whole[1], rtol=1e-12)
    assert not np.allclose(drawn[:4, 0], drawn[4:, 0])


def test_the_last_minibatch_of_an_epoch_has_the_samples_that_are_left(float64):
    """Against a loop: clients of 8, 5 and 2 samples pass their data in 3, 2 and 1 steps of 3."""
    sizes, key = (8, 5, 2), jax.random.key(5)
    problem = federated(logistic, clients(sizes), first(), batch_size=3)
    w = points(number=3)
    drawn = jax.jit(jax.vmap(lambda batch: problem.gradients(w, batch)))(problem.batches(key, 6))
    for k, client in enumerate(clients(sizes)):
        steps = -(-sizes[k] // 3)
        for step in range(6):
            epoch = jax.random.fold_in(jax.random.fold_in(key, k), step // steps)
            order = np.argsort(np.asarray(jax.random.uniform(epoch, (8,)))[: sizes[k]])
            batch = order[step % steps * 3 :][:3]
            slope = by_hand(jax.tree.map(lambda leaf, batch=batch: leaf[batch], client), w[k])[1]
            np.testing.assert_allclose(drawn[step, k], slope, rtol=1e-9, atol=1e-12)


@pytest.mark.thorough
def test_a_client_draws_what_it_draws_among_all(float64):
    problem = federated(logistic, clients(), first(), batch_size=3)
    w, key, some = points(), jax.random.key(7), jnp.array([3, 1], jnp.int32)
    np.testing.assert_allclose(
        gradients(problem.take(some), w[some], key), gradients(problem, w, key)[some], rtol=1e-12
    )


# --- proximal maps --------------------------------------------------------------------------------


def optimal(problem, k, v, step):
    """Return the prox of one client by SciPy."""
    client = clients()[k]

    def objective(z):
        return by_hand(client, z)[0] + np.sum((z - v) ** 2) / (2 * step)

    return scipy.optimize.minimize(objective, v, tol=1e-14).x


@pytest.mark.thorough
@pytest.mark.parametrize("inner", [None, inner_steps(optax.sgd(0.08), 500)])
def test_the_inexact_prox_comes_to_scipys(problem, inner):
    problem = federated(logistic, clients(), first(), optimizer=inner)
    v, step = points(2), jnp.array([0.5, 1.0, 2.0, 0.1])
    memory, prox = problem.prox_memory(v), jax.jit(problem.prox)
    slopes = []
    for _ in range(5):
        z, memory = prox(v, step, memory)
        slopes.append(float(jnp.abs(gradients(problem, z) + (z - v) / step[:, None]).max()))
    assert slopes[-1] < 1e-6 * slopes[0] or slopes[-1] < 1e-8
    np.testing.assert_array_equal(memory.calls, 5)
    for k in range(4):
        np.testing.assert_allclose(z[k], optimal(problem, k, np.asarray(v[k]), step[k]), atol=1e-5)


@pytest.mark.thorough
def test_the_derivative_of_an_inner_search_is_that_of_the_minimiser(float64):
    problem = federated(logistic, clients(), first(), optimizer=inner_lbfgs(accuracy=1e-10))
    v, direction = points(2), points(3)

    def total(size, shift):
        z, _ = problem.prox(v + shift * direction, size * jnp.ones(4), problem.prox_memory(v))
        return jnp.sum(z**2)

    found = jax.jit(jax.grad(total, (0, 1)))(1.3, 0.2)
    value = jax.jit(total)
    for i, at in enumerate([(1e-5, 0.0), (0.0, 1e-5)]):
        ahead, behind = value(1.3 + at[0], 0.2 + at[1]), value(1.3 - at[0], 0.2 - at[1])
        np.testing.assert_allclose(found[i], (ahead - behind) / 2e-5, rtol=1e-5)


def squared(params, sample):
    return jnp.sum((params - sample) ** 2) / 2


def squared_prox(params, step, samples, size):
    """Of the mean of |w - s|^2 / 2: what pads the samples repeats the first of them."""
    here = jnp.arange(samples.shape[0], dtype=size.dtype) < size
    mean = jnp.sum(jnp.where(here[:, None], samples, 0), 0) / size.astype(params.dtype)
    return (params + step * mean) / (1 + step)


def test_an_exact_prox_is_the_users_with_the_clients_weight(float64):
    data = [client["x"] for client in clients()]
    weights = jnp.array([1.0, 2.0, 0.5, 3.0])
    problem = federated(squared, data, jnp.zeros(3), weights=weights, prox=squared_prox)
    v, step = points()[:, :3], jnp.array([0.5, 1.0, 2.0, 0.1])
    assert problem.prox_memory(v) == ()
    z, _ = jax.jit(problem.prox)(v, step, ())
    np.testing.assert_allclose(gradients(problem, z) + (z - v) / step[:, None], 0, atol=1e-12)


def absolute(params, sample):
    return jnp.sum(jnp.abs(params))


# --- nonsmooth losses -----------------------------------------------------------------------------


def convex(params, sample):
    return jnp.sum((params - sample) ** 2)


def concave(params, sample):
    return jnp.sum((params - 2 * sample) ** 2) / 4


@pytest.mark.thorough
def test_a_difference_of_convex_functions(float64):
    data = [client["x"] for client in clients()]
    problem = federated(
        (convex, concave), data, jnp.zeros(3), optimizer=inner_lbfgs(accuracy=1e-12)
    )
    w = points()[:, :3]
    expected = [
        np.mean([np.sum((w[k] - s) ** 2) - np.sum((w[k] - 2 * s) ** 2) / 4 for s in d])
        for k, d in enumerate(data)
    ]
    np.testing.assert_allclose(values(problem, w), expected, rtol=1e-12)
    step, mu = np.full(4, 0.3), np.array([0.5, 1.0, 2.0, 0.4])
    mean = np.stack([d.mean(0) for d in data])
    # Both parts are squares around a mean: everything is known.
    z = jax.jit(problem.prox_convex_part)(w, step)
    np.testing.assert_allclose(z, (w + 0.6 * mean) / 1.6, atol=1e-8)
    z = jax.jit(problem.prox_concave_part)(w, step, mu)
    # e(z; mu) = |z - 2 mean|^2 / (4 (1 + mu / 2)) + constant
    bent = 1 / (2 * (1 + mu / 2))[:, None]
    np.testing.assert_allclose(-bent * (z - 2 * mean) + (z - w) / 0.3, 0, atol=1e-7)


def smoothed_absolute(params, sample, mu):
    return jnp.sum(jnp.sqrt(params**2 + mu**2))


def test_smoothings(float64):
    data, w, mu = [np.zeros((2, 1))] * 4, points()[:, :3], jnp.array([0.1, 0.5, 1.0, 2.0])

    def of(smoothing):
        problem = federated(
            absolute,
            data,
            jnp.ones(3),
            smoothing=smoothing,
            prox=lambda params, step: kernels.prox_l1(params, step),
        )
        return jax.jit(problem.smoothed_gradients)(w, mu)

    np.testing.assert_array_equal(of(None), np.sign(w))
    np.testing.assert_allclose(of(smoothed_absolute), w / np.sqrt(w**2 + mu[:, None] ** 2))
    huber = np.clip(w / mu[:, None], -1, 1)
    np.testing.assert_allclose(of(moreau_smoothing()), huber, atol=1e-12)
    normal = 2 * scipy.stats.norm.cdf(w / mu[:, None]) - 1
    np.testing.assert_allclose(of(randomized_smoothing(2000)), normal, atol=0.05)


# --- parameters -----------------------------------------------------------------------------------


def test_the_user_reads_parameters(problem):
    run = fa.run(fa.solvers.fed_avg(0.5), problem, jax.random.key(0), rounds=3)
    assert jax.tree.map(jnp.shape, run.estimate) == {"b": (), "w": (3,)}
    stacked = problem.parameters(points())
    assert jax.tree.map(jnp.shape, stacked) == {"b": (4,), "w": (4, 3)}
    np.testing.assert_array_equal(stacked["w"], points()[:, 1:])


def test_what_is_private_does_not_travel(float64):
    problem = federated(logistic, clients(), first(), shared="w")
    assert problem.start.shape == (3,)
    assert problem.private.shape == (4, 1)
    w = points()
    own = problem.with_private(w[:, 3:])
    whole = federated(logistic, clients(), first())
    moved = np.concatenate([w[:, 3:], w[:, :3]], 1)  # the bias stands first in the whole vector
    np.testing.assert_allclose(values(own, w[:, :3]), values(whole, moved), rtol=1e-12)
    slopes = gradients(whole, moved)
    np.testing.assert_allclose(gradients(own, w[:, :3]), slopes[:, 1:], rtol=1e-12)
    np.testing.assert_allclose(jax.jit(own.private_gradients)(w[:, :3]), slopes[:, :1], rtol=1e-12)
    assert jax.tree.map(jnp.shape, own.parameters(w[:, :3])) == {"b": (4,), "w": (4, 3)}


@pytest.mark.thorough
def test_personal_parts_come_to_a_stationary_point_of_both(float64):
    problem = federated(logistic, clients((8, 12, 9, 20)), first(), shared="w")
    solver = fa.solvers.personal(fa.solvers.scaffold(), 1.0)
    run = fa.run(solver, problem, jax.random.key(0), rounds=3000)
    models = solver.estimate(run.state.solver)
    np.testing.assert_allclose(models[:, :3], models[:1, :3].repeat(4, 0), atol=1e-15)
    own = problem.with_private(models[:, 3:])
    np.testing.assert_allclose(gradients(own, models[:, :3]).mean(0), 0, atol=1e-7)
    np.testing.assert_allclose(own.private_gradients(models[:, :3]), 0, atol=1e-7)
    assert jax.tree.map(jnp.shape, run.estimate) == {"b": (4,), "w": (4, 3)}


def right(params, sample):
    return (jnp.vdot(sample["x"], params["w"]) + params["b"]) * sample["y"] > 0


def test_scores_over_own_and_held_out_samples(float64):
    w = np.asarray(points())
    own = federated(logistic, clients(), first(), score=right)
    expected = [
        np.mean((c["x"] @ w[k, 1:] + w[k, 0]) * c["y"] > 0) for k, c in enumerate(clients())
    ]
    np.testing.assert_allclose(jax.jit(own.scores)(jnp.asarray(w)), expected, rtol=1e-12)
    other = clients((50,), seed=9)[0]
    judged = federated(logistic, clients(), first(), score=right, held_out=other)
    expected = [np.mean((other["x"] @ w[k, 1:] + w[k, 0]) * other["y"] > 0) for k in range(4)]
    np.testing.assert_allclose(jax.jit(judged.scores)(jnp.asarray(w)), expected, rtol=1e-12)
    with pytest.raises(fa.InputError, match="score must be given to what builds the problem"):
        federated(logistic, clients(), first()).scores(w)


def test_every_sample_is_clipped(float64):
    problem = federated(logistic, clients(), first())
    w = points()
    clipped = np.asarray(jax.jit(problem.clipped_gradients)(w, 0.3))
    for k, client in enumerate(clients()):
        rows = []
        for j in range(SIZES[k]):
            one = {"x": client["x"][j : j + 1], "y": client["y"][j : j + 1]}
            slope = by_hand(one, w[k])[1]
            rows.append(slope * min(1, 0.3 / np.linalg.norm(slope)))
        np.testing.assert_allclose(clipped[k], np.mean(rows, 0), rtol=1e-10)


def test_the_same_loss_stands_on_all_three_topologies(problem):
    tree = federated(logistic, clients(), first(), topology=trees.from_counts([2, 2]))
    graph = federated(
        logistic, clients(), first(), topology=graphs.from_edges(4, [(0, 1), (1, 2), (2, 3)])
    )
    assert tree.tree.depth == 2
    assert graph.start.shape == (4, DIM)
    w = points()
    for other in (tree, graph):
        np.testing.assert_allclose(gradients(other, w), gradients(problem, w), rtol=1e-12)


# --- mistakes -------------------------------------------------------------------------------------


def two(**changes):
    made = clients((4, 5))
    for name, value in changes.items():
        made[1][name] = value
    return made


def nan_loss(params, sample):
    return jnp.log(-1.0 - sample["x"][0] ** 2) + params["b"]


MISTAKES = {
    "no samples": (
        lambda: federated(logistic, two(x=np.ones((0, 3)), y=np.ones(0)), first()),
        r"^data\[1\] must be arrays with one leading axis \(samples\), equally long and not empty",
    ),
    "no scalar": (
        lambda: federated(lambda params, sample: params["w"], clients(), first()),
        r"^loss must return one floating number for one sample, but it returns "
        r"'float64\[3\]'"
        r"\.$",
    ),
    "nan": (
        lambda: federated(nan_loss, clients(), first()),
        r"^loss must be finite at the start, but that of client 0 is nan; look at "
        r"the data, or begin elsewhere\.$",
    ),
    "empty mask": (
        lambda: federated(logistic, padded()[0], first(), mask=np.zeros((4, max(SIZES)), bool)),
        r"^mask must hold a sample of every client, but client 0 has none; leave that",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_get_a_sentence(mistake, float64):
    build, sentence = MISTAKES[mistake]
    with pytest.raises(fa.InputError, match=sentence) as caught:
        build()
    assert "\n" not in str(caught.value)
