"""Losses with a key, losses of whole minibatches, and a prox that is prepared once per client."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm.problems import federated, flip_labels

SIZES = (5, 4, 8, 6)
LOSS = 2**32 - 1  # what separates the keys of losses from those of minibatches


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def clients(sizes=SIZES):
    rng = np.random.default_rng(0)
    return [{"x": rng.standard_normal((n, 3)), "y": rng.standard_normal(n)} for n in sizes]


def points(number=4):
    return np.random.default_rng(1).standard_normal((number, 3))


# --- keys -----------------------------------------------------------------------------------------


def dropped(params, sample, key):
    """Half a squared residual, from which features are left out at random."""
    x = jnp.where(jax.random.bernoulli(key, 0.6, (3,)), sample["x"], 0)
    return (x @ params - sample["y"]) ** 2 / 2


def dropped_in_training(params, sample, key=None):
    if key is None:
        return (sample["x"] @ params - sample["y"]) ** 2 / 2
    return dropped(params, sample, key)


def key_of(round_key, client, step, place):
    for number in (client, LOSS, step, place):
        round_key = jax.random.fold_in(round_key, number)
    return round_key


def by_hand(client, w, keys):
    """Return the mean of the losses of a client, and its gradient, one sample after the other."""
    value, slope = 0.0, np.zeros(3)
    for x, y, key in zip(client["x"], client["y"], keys, strict=True):
        x = x if key is None else x * np.asarray(jax.random.bernoulli(key, 0.6, (3,)))
        residual = x @ w - y
        value, slope = value + residual**2 / 2, slope + residual * x
    return value / len(keys), slope / len(keys)


def round_gradient(k, w, round_key, step):
    client = clients()[k]
    keys = [key_of(round_key, k, step, j) for j in range(SIZES[k])]
    return by_hand(client, w, keys)[1]


def test_keys_belong_to_client_step_and_sample_whoever_else_is_computed():
    problem = federated(dropped, clients(), jnp.zeros(3))
    w, key, some = points(), jax.random.key(3), jnp.array([3, 1], jnp.int32)
    slopes = jax.jit(jax.vmap(lambda batch: problem.gradients(w, batch)))(problem.batches(key, 2))
    for step in range(2):
        expected = [round_gradient(k, w[k], key, step) for k in range(4)]
        np.testing.assert_allclose(slopes[step], expected, rtol=1e-12, atol=1e-13)
    part = problem.take(some)
    found = jax.jit(part.gradients)(w[some], key)
    np.testing.assert_allclose(found, slopes[0][some], rtol=1e-12, atol=1e-13)


def test_fed_avg_with_dropout_is_a_plain_loop():
    """Three rounds of two local steps, in which clients are absent."""
    problem = federated(dropped, clients(), jnp.zeros(3))
    masks = np.array([[1, 0, 1, 0], [0, 1, 1, 1], [1, 0, 0, 1]], bool)
    run_key, rate = jax.random.key(5), 0.1
    run = fa.run(
        fa.solvers.fed_avg(rate, local_steps=2),
        problem,
        run_key,
        rounds=3,
        participation=fa.participation.replay(masks),
    )
    w = np.zeros(3)
    for t, mask in enumerate(masks):
        round_key, models = jax.random.split(jax.random.fold_in(run_key, t))[1], []
        for k in np.flatnonzero(mask):
            own = w
            for step in range(2):
                own = own - rate * round_gradient(int(k), own, round_key, step)
            models.append(own)
        w = np.mean(models, 0)
    np.testing.assert_allclose(run.estimate, w, rtol=1e-9, atol=1e-12)


def test_without_a_key_of_the_round_the_default_holds_or_a_fixed_key():
    w, fixed = points(), jax.random.key(0)
    quiet = federated(dropped_in_training, clients(), jnp.zeros(3))
    noisy = federated(dropped, clients(), jnp.zeros(3))
    for problem in (quiet, noisy):
        values, slopes = jax.jit(problem.values)(w), jax.jit(problem.gradients)(w)
        for k, client in enumerate(clients()):
            own = jax.random.fold_in(fixed, k)
            keys = [
                None if problem is quiet else jax.random.fold_in(own, j) for j in range(SIZES[k])
            ]
            value, slope = by_hand(client, w[k], keys)
            np.testing.assert_allclose(values[k], value, rtol=1e-12)
            np.testing.assert_allclose(slopes[k], slope, rtol=1e-11, atol=1e-13)
    key = jax.random.key(3)
    np.testing.assert_array_equal(
        *(jax.jit(problem.gradients)(w, key) for problem in (quiet, noisy))
    )


def weighted(params, sample, key):
    return params * sample * jax.random.uniform(key, (), sample.dtype)


@pytest.mark.parametrize("sampling", ["epochs", "replacement"])
def test_keys_in_a_minibatch_follow_the_places(sampling):
    """All samples are 1: the slope is the mean of what the keys of the places draw."""
    data = [np.ones(n) for n in SIZES]
    problem = federated(weighted, data, jnp.zeros(()), batch_size=3, sampling=sampling)
    key, w = jax.random.key(2), jnp.zeros((4, 1))
    slopes = jax.jit(jax.vmap(lambda batch: problem.gradients(w, batch)))(problem.batches(key, 2))
    for step in range(2):
        for k in range(4):
            left = SIZES[k] - 3 * (step % -(-SIZES[k] // 3)) if sampling == "epochs" else 3
            draws = [jax.random.uniform(key_of(key, k, step, j), ()) for j in range(min(left, 3))]
            np.testing.assert_allclose(slopes[step, k, 0], np.mean(draws), rtol=1e-12)


def test_the_gradient_of_each_sample_is_clipped_with_its_key():
    w = points()
    problem = federated(dropped, clients(), jnp.zeros(3))
    clipped = jax.jit(problem.clipped_gradients)(w, 0.3)
    for k, client in enumerate(clients()):
        rows = []
        for j in range(SIZES[k]):
            one = jax.tree.map(lambda leaf, j=j: leaf[j : j + 1], client)
            key = jax.random.fold_in(jax.random.fold_in(jax.random.key(0), k), j)
            slope = by_hand(one, w[k], [key])[1]
            rows.append(slope * min(1, 0.3 / max(np.linalg.norm(slope), 1e-300)))
        np.testing.assert_allclose(clipped[k], np.mean(rows, 0), rtol=1e-10, atol=1e-13)


# --- minibatches ----------------------------------------------------------------------------------


def spread(params, batch):
    """A loss that is no mean over samples, and not finite where all samples are one."""
    return jnp.log(jnp.var(batch["x"] @ params - batch["y"]))


def spread_by_hand(client, places, w):
    x, y = client["x"][places], client["y"][places]
    residual = x @ w - y
    centred, rows = residual - residual.mean(), x - x.mean(0)
    return np.log(np.mean(centred**2)), 2 * centred @ rows / np.sum(centred**2)


def of_batches(size=2, **more):
    return federated(spread, clients(), jnp.ones(3), batch=True, batch_size=size, **more)


@pytest.mark.parametrize("weights", ["mean", "sum"])
def test_the_value_is_that_of_the_minibatches_in_order(weights):
    problem, w = of_batches(weights=weights), points()
    values, slopes = jax.jit(problem.values)(w), jax.jit(problem.gradients)(w)
    for k, client in enumerate(clients()):
        blocks = np.arange(SIZES[k] // 2 * 2).reshape(-1, 2)
        parts = [spread_by_hand(client, places, w[k]) for places in blocks]
        share = 1 if weights == "sum" else len(blocks)
        np.testing.assert_allclose(values[k], sum(p[0] for p in parts) / share, rtol=1e-10)
        np.testing.assert_allclose(slopes[k], sum(p[1] for p in parts) / share, rtol=1e-9)


def test_an_epoch_of_minibatches_is_a_partition_of_the_samples():
    problem, w, client = of_batches(), points(), clients()[1]
    batches = problem.batches(jax.random.key(4), 2)
    drawn = np.asarray(jax.jit(jax.vmap(lambda batch: problem.gradients(w, batch)))(batches))[:, 1]
    pairs = [((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2))]
    halves = [tuple(spread_by_hand(client, list(p), w[1])[1] for p in pair) for pair in pairs]
    orders = [np.stack(order) for a, b in halves for order in ((a, b), (b, a))]
    assert sum(np.allclose(drawn, order, rtol=1e-9) for order in orders) == 1


def noisy_spread(params, batch, key):
    assert batch["x"].shape == (2, 3)
    return spread(params, batch) * jax.random.uniform(key, (), params.dtype)


def test_a_minibatch_has_one_key():
    problem = federated(noisy_spread, clients((2, 2)), jnp.ones(3), batch=True, batch_size=2)
    w, key = points(2), jax.random.key(6)
    slopes = jax.jit(problem.gradients)(w, key)
    for k, client in enumerate(clients((2, 2))):
        factor = jax.random.uniform(key_of(key, k, 0, 0), ())
        slope = spread_by_hand(client, [0, 1], w[k])[1]
        np.testing.assert_allclose(slopes[k], factor * slope, rtol=1e-9)


# --- a prox that is prepared ----------------------------------------------------------------------


def half_square(params, sample):
    return (sample["x"] @ params - sample["y"]) ** 2 / 2


def factors(samples, size):
    """Return the spectrum of the Gram matrix, and the products with the targets."""
    calls.append(1)
    here = jnp.arange(samples["y"].shape[0], dtype=size.dtype) < size
    x = jnp.where(here[:, None], samples["x"], 0)
    number = size.astype(x.dtype)
    spectrum, vectors = jnp.linalg.eigh(x.T @ x / number)
    return {"spectrum": spectrum, "vectors": vectors, "right": x.T @ samples["y"] / number}


calls = []


def ridge(params, step, known):
    vectors = known["vectors"]
    return vectors @ (vectors.T @ (params + step * known["right"]) / (1 + step * known["spectrum"]))


def ridge_by_hand(client, v, step):
    gram = np.eye(3) + step * client["x"].T @ client["x"] / len(client["y"])
    return np.linalg.solve(gram, v + step * client["x"].T @ client["y"] / len(client["y"]))


def prepared(**more):
    return federated(half_square, clients(), jnp.zeros(3), prox=ridge, prepare=factors, **more)


def test_a_prox_gets_what_was_prepared_once():
    weights = np.array([1.0, 2.0, 0.5, 3.0])
    problem, v, step = prepared(weights=weights), points(), np.array([0.5, 1.0, 2.0, 0.1])
    before = len(calls)
    found = jax.jit(problem.prox)(v, step, ())[0]
    expected = [ridge_by_hand(c, v[k], step[k] * weights[k]) for k, c in enumerate(clients())]
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    some = jnp.array([2, 0], jnp.int32)
    part = jax.jit(problem.take(some).prox)(v[some], step[some], ())[0]
    np.testing.assert_allclose(part, found[some], rtol=1e-12)
    run = fa.run(
        fa.solvers.fed_admm(1.0, local=fa.solvers.local_prox()),
        problem,
        jax.random.key(0),
        rounds=200,
        participation=fa.participation.without_replacement(2),
    )
    assert len(calls) == before
    scales = weights / np.array(SIZES)
    gram = sum(s * c["x"].T @ c["x"] for s, c in zip(scales, clients(), strict=True))
    right = sum(s * c["x"].T @ c["y"] for s, c in zip(scales, clients(), strict=True))
    np.testing.assert_allclose(run.estimate, np.linalg.solve(gram, right), atol=1e-8)


def test_other_labels_are_prepared_anew():
    problem, v = prepared(), points()
    flipped, who = flip_labels(problem, who=np.arange(4) == 2)
    data = clients()
    data[2]["y"] = -data[2]["y"]
    assert np.flatnonzero(who).tolist() == [2]
    found = jax.jit(flipped.prox)(v, np.ones(4), ())[0]
    expected = [ridge_by_hand(c, v[k], 1.0) for k, c in enumerate(data)]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


# --- mistakes -------------------------------------------------------------------------------------


def residuals(samples):
    return samples["y"]


MISTAKES = {
    "no size": (
        partial(of_batches, None),
        r"^batch_size must be given for a loss of minibatches\.$",
    ),
    "too large": (
        partial(of_batches, 5, sampling="replacement"),
        r"^batch_size must be at most 4, the samples of client 1, but it is 5; "
        r"take less\.$",
    ),
    "no scalar": (
        lambda: federated(
            lambda params, batch: batch["y"], clients(), jnp.ones(3), batch=True, batch_size=2
        ),
        r"^loss must return one floating number for one minibatch, but it returns "
        r"'float64\[2\]'\.$",
    ),
    "clipping": (
        lambda: of_batches().clipped_gradients(points(), 1.0),
        r"^batch must be False where the gradient of each sample is clipped; give the loss of a "
        r"sample\.$",
    ),
    "no prox": (
        lambda: federated(half_square, clients(), jnp.zeros(3), prepare=factors),
        r"^prepare is for a prox of one's own; give prox as well\.$",
    ),
    "sizes": (
        lambda: federated(
            half_square, clients((2, 3, 40)), jnp.zeros(3), prox=ridge, prepare=residuals
        ),
        r"^prepare must return arrays of the same shapes for clients of all sizes, but it returns "
        r"\[\(2,\), \(3,\), \(40,\)\]; sum over the samples, as a Gram matrix does\.$",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_get_a_sentence(mistake):
    build, sentence = MISTAKES[mistake]
    with pytest.raises(fa.InputError, match=sentence) as caught:
        build()
    assert "\n" not in str(caught.value)
