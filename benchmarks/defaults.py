"""Defaults of `fed_admm`, `fed_dyn` and `fed_dr` beside tuned ones, on tasks that chose no rule.

    python benchmarks/defaults.py [--tasks NAME ...] [--seeds 3] > found.txt

The rule was chosen on digits with a network of one hidden layer and with logistic regression (20
clients by Dirichlet, two drawn per round), and on these four tasks:

    deep network     digits, two hidden layers of 24 units, 30 clients of Dirichlet 0.1, 3 drawn
    breast cancer    logistic regression, 10 clients in the order of a feature, 2 drawn
    robust           absolute residuals of Student's t, 10 clients with truths of their own, all
    lasso            least squares with an l1 penalty at the server, 12 clients, 4 drawn

These seven were run once with an earlier rule. How steps are counted with minibatches was chosen on
the spirals, on four more problems with minibatches and on digits with dropout:

    convolution      digits, 8 filters of 4 x 4 pixels, 24 clients of Dirichlet 0.2, 3 drawn
    wine             logistic regression with an l2 term, 8 clients of Dirichlet 0.5, 2 drawn
    diabetes         regression by a network of 16 units, 10 clients in the order of age, 3 drawn
    factorisation    rank 3 of clients' Gaussian samples in 12 dimensions, 16 clients, 4 drawn
    friedman         Friedman's first function, network of 20 units, 15 clients in an order, 3 drawn
    counts           Poisson's with a softplus mean, 10 clients who differ, half of them present
    spirals          three arms, network of 32 units, 20 clients of Dirichlet 0.3, 4 drawn, batches

The rule was fixed before these five were run:

    tokens           four topics, mean of the embeddings of 12 words, 16 clients, 4 drawn
    clusters         five classes, network of 24 units with dropout, 15 clients, 3 drawn
    quantiles        pinball loss of 15 random cosines, 12 clients in places of their own, 3 drawn
    ranking          pairs, network of 12 units, 15 clients, 4 drawn, batches of 10
    reconstruction   digits through 8 tanh units, 20 clients in the order of the digit, 4 drawn

Everybody gets 200 rounds of five local steps. Scores are test errors in per cent, or gaps of the
objective to the least one that anybody finds, in per cent of the gap at the start. The grid has
rho (1 / eta of FedDR) at 0.003, 0.01, 0.03, 0.1, 0.3, 1 times L and step lengths at 0.2, 1, 3 times
1 / (L + rho), with the curvature L of the start; the tuned setting is the best of the 18 on the
mean over the seeds, on what is reported: the grid is favoured. `before` is rho = L with
`local_gradient()`, the defaults of old.
"""

import argparse
import csv
import sys
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine

import fedjax_admm as fa
from fedjax_admm.solvers import fed_admm, fed_avg, fed_dr, fed_dyn, local_gradient

ROUNDS, STEPS = 200, 5
WIDEST = 256  # most samples of a client
PENALTIES = jnp.array([0.003, 0.01, 0.03, 0.1, 0.3, 1.0])
RATES = jnp.array([0.2, 1.0, 3.0])


class Task(NamedTuple):
    """A problem, who takes part, a regulariser, and what is measured: an error or an objective."""

    problem: Any
    participation: Any
    regularizer: Any
    measure: Any
    is_error: bool


def dealt(labels, clients, concentration, rng):
    """Return the places of every client's samples, by labels of Dirichlet odds."""
    places = [[] for _ in range(clients)]
    for label in np.unique(labels):
        of_label = rng.permutation(np.flatnonzero(labels == label))
        odds = rng.dirichlet(np.full(clients, concentration))
        cuts = (np.cumsum(odds)[:-1] * len(of_label)).astype(int)
        for own, part in zip(places, np.split(of_label, cuts), strict=True):
            own.extend(part)
    return [np.array(own or [0]) for own in places]


def outputs(layers, x):
    for weight, bias in layers[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    weight, bias = layers[-1]
    return x @ weight + bias


def cross_entropy(layers, sample):
    return optax.softmax_cross_entropy_with_integer_labels(
        outputs(layers, sample["x"]), sample["y"]
    )


def is_right(layers, sample):
    return (jnp.argmax(outputs(layers, sample["x"])) == sample["y"]).astype(jnp.float32)


def test_error(solver, problem, state):
    layers = problem.parameters(solver.estimate(state))
    return {"score": 1 - jnp.mean(jax.vmap(partial(problem.score, layers))(problem.held_out))}


def drawn_layers(sizes, rng, scale=1.0):
    """Return weights and biases of a network, drawn by He's rule."""
    return [
        (
            jnp.asarray(scale * rng.normal(size=(a, b)) * (2 / a) ** 0.5, jnp.float32),
            jnp.zeros(b, jnp.float32),
        )
        for a, b in pairwise(sizes)
    ]


def classified(x, y, parts, test, hidden, rng):
    """Return the problem of a network."""
    sizes = (x.shape[1], *hidden, int(y.max()) + 1)
    layers = drawn_layers(sizes, rng, 1.0 if hidden else 0.0)
    return padded(cross_entropy, is_right, x, y, parts, test, layers)


def padded(loss, score, x, y, parts, test, start, batch_size=None):
    """Return the problem of a loss; samples are padded, so that seeds have the same shapes."""
    places = np.zeros((len(parts), WIDEST), int)
    mask = np.arange(WIDEST) < np.array([len(own) for own in parts])[:, None]
    places[mask] = np.concatenate(parts)
    return fa.problems.federated(
        loss,
        {"x": x[places], "y": y[places]},
        start,
        weights="samples",
        mask=mask,
        batch_size=batch_size,
        score=score,
        held_out={"x": x[test], "y": y[test]},
    )


def deep_network(seed):
    rng = np.random.default_rng(seed)
    x, y = load_digits(return_X_y=True)
    x, y = (x / 16).astype(np.float32), y.astype(np.int32)
    order = np.random.default_rng(0).permutation(len(y))
    test, train = order[:360], order[360:]
    parts = [train[own] for own in dealt(y[train], 30, 0.1, rng)]
    problem = classified(x, y, parts, test, (24, 24), rng)
    return Task(problem, fa.participation.without_replacement(3), None, test_error, True)


def breast_cancer(seed):
    rng = np.random.default_rng(seed)
    x, y = load_breast_cancer(return_X_y=True)
    x = ((x - x.mean(0)) / x.std(0)).astype(np.float32)
    y = y.astype(np.int32)
    order = rng.permutation(len(y))
    test, train = order[:114], order[114:]
    train = train[np.argsort(x[train, 0] + rng.normal(size=len(train)))]
    problem = classified(x, y, np.array_split(train, 10), test, (), rng)
    return Task(problem, fa.participation.without_replacement(2), None, test_error, True)


def absolute(model, sample):
    x, y = sample
    return jnp.abs(x @ model - y)


def objective(solver, problem, state):
    model = solver.estimate(state)
    value = jnp.mean(problem.values(jnp.broadcast_to(model, (problem.num_clients, *model.shape))))
    return {"score": value + solver.regularizer.value(model)}


def drawn(clients, dim, samples, rng):
    truth = rng.normal(size=dim) * (rng.random(dim) < 0.5)
    data = []
    for _ in range(clients):
        x = rng.normal(size=(samples, dim)) * rng.uniform(0.3, 2.0, dim)
        y = x @ (truth + 0.2 * rng.normal(size=dim)) + 0.5 * rng.standard_t(2, samples)
        data.append((x.astype(np.float32), y.astype(np.float32)))
    return data


def robust(seed):
    data = drawn(10, 8, 40, np.random.default_rng(seed))
    problem = fa.problems.federated(absolute, data, jnp.zeros(8))
    return Task(problem, fa.participation.everyone(), None, objective, False)


def squared(model, sample):
    x, y = sample
    return 0.5 * (x @ model - y) ** 2


def lasso(seed):
    data = drawn(12, 30, 25, np.random.default_rng(seed))
    problem = fa.problems.federated(squared, data, jnp.zeros(30))
    penalty = fa.penalties.l1(0.1)
    return Task(problem, fa.participation.without_replacement(4), penalty, objective, False)


WINDOWS = np.array(  # 9 of 4 x 4 pixels, two apart
    [
        [8 * (row + i) + column + j for i in range(4) for j in range(4)]
        for row in (0, 2, 4)
        for column in (0, 2, 4)
    ]
)


def convolved(layers, x):
    (filters, bias), last = layers
    return outputs([last], jax.nn.relu(x[WINDOWS] @ filters + bias).reshape(-1))


def convolution_loss(layers, sample):
    values = convolved(layers, sample["x"])
    return optax.softmax_cross_entropy_with_integer_labels(values, sample["y"])


def convolution_is_right(layers, sample):
    return (jnp.argmax(convolved(layers, sample["x"])) == sample["y"]).astype(jnp.float32)


def convolution(seed):
    rng = np.random.default_rng(seed)
    x, y = load_digits(return_X_y=True)
    x, y = (x / 16).astype(np.float32), y.astype(np.int32)
    order = np.random.default_rng(0).permutation(len(y))
    test, train = order[:360], order[360:]
    parts = [train[own] for own in dealt(y[train], 24, 0.2, rng)]
    start = drawn_layers((16, 8), rng) + drawn_layers((72, 10), rng)
    problem = padded(convolution_loss, convolution_is_right, x, y, parts, test, start)
    return Task(problem, fa.participation.without_replacement(3), None, test_error, True)


def ridge_cross_entropy(layers, sample):
    return cross_entropy(layers, sample) + 0.005 * jnp.sum(layers[0][0] ** 2)


def wine(seed):
    rng = np.random.default_rng(seed)
    x, y = load_wine(return_X_y=True)
    x = ((x - x.mean(0)) / x.std(0)).astype(np.float32)
    y = y.astype(np.int32)
    parts = dealt(y, 8, 0.5, rng)
    start = drawn_layers((13, 3), rng, 0.0)
    problem = padded(ridge_cross_entropy, None, x, y, parts, np.arange(8), start)
    return Task(problem, fa.participation.without_replacement(2), None, objective, False)


def squared_error(layers, sample):
    hidden, last = layers
    inner = jnp.tanh(outputs([hidden], sample["x"]))
    return 0.5 * (outputs([last], inner)[0] - sample["y"]) ** 2


def diabetes(seed):
    rng = np.random.default_rng(seed)
    x, y = load_diabetes(return_X_y=True)
    x = (x / x.std(0)).astype(np.float32)
    y = ((y - y.mean()) / y.std()).astype(np.float32)
    parts = np.array_split(np.argsort(x[:, 0] + rng.normal(size=len(y))), 10)
    start = drawn_layers((10, 16, 1), rng)
    problem = padded(squared_error, None, x, y, parts, np.arange(8), start)
    return Task(problem, fa.participation.without_replacement(3), None, objective, False)


def factor_error(factors, sample):
    down, up = factors
    return 0.5 * jnp.sum((sample - sample @ down @ up) ** 2)


def factorisation(seed):
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(12, 3))
    data = []
    for _ in range(16):
        own = shared * rng.uniform(0, 2, 3) + 0.3 * rng.normal(size=(12, 3))
        samples = rng.normal(size=(30, 3)) @ own.T + 0.3 * rng.normal(size=(30, 12))
        data.append(samples.astype(np.float32))
    start = [jnp.asarray(0.3 * rng.normal(size=size), jnp.float32) for size in ((12, 3), (3, 12))]
    problem = fa.problems.federated(factor_error, np.stack(data), start)
    return Task(problem, fa.participation.without_replacement(4), None, objective, False)


def friedman(seed):
    rng = np.random.default_rng(seed)
    x = rng.random((600, 10))
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2
    y = y + 10 * x[:, 3] + 5 * x[:, 4] + rng.normal(size=600)
    x, y = ((values - values.mean(0)) / values.std(0) for values in (x, y))
    parts = np.array_split(np.argsort(x[:, 3] + rng.normal(size=600)), 15)
    start = drawn_layers((10, 20, 1), rng)
    data = x.astype(np.float32), y.astype(np.float32)
    problem = padded(squared_error, None, *data, parts, np.arange(8), start)
    return Task(problem, fa.participation.without_replacement(3), None, objective, False)


def count_loss(model, sample):
    x, y = sample
    mean = jax.nn.softplus(x @ model)
    return mean - y * jnp.log(mean + 1e-6)


def counts(seed):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=8)
    data = []
    for _ in range(10):
        x = rng.normal(size=(40, 8))
        y = rng.poisson(np.logaddexp(0, x @ (truth + 0.3 * rng.normal(size=8))))
        data.append((x.astype(np.float32), y.astype(np.float32)))
    problem = fa.problems.federated(count_loss, data, jnp.zeros(8))
    return Task(problem, fa.participation.bernoulli(0.5), None, objective, False)


def spirals(seed):
    rng = np.random.default_rng(seed)
    y = np.tile(np.arange(3), 400)
    radius = rng.uniform(0.2, 2.0, y.size)
    angle = 2 * radius + 2 * np.pi / 3 * y + 0.2 * rng.normal(size=y.size)
    x = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    x, y = x.astype(np.float32), y.astype(np.int32)
    test, train = np.split(rng.permutation(y.size), [300])
    parts = [train[own] for own in dealt(y[train], 20, 0.3, rng)]
    start = drawn_layers((2, 32, 3), rng)
    problem = padded(cross_entropy, is_right, x, y, parts, test, start, batch_size=16)
    return Task(problem, fa.participation.without_replacement(4), None, test_error, True)


def token_scores(layers, words):
    (embedding, bias), last = layers
    return outputs([last], jnp.mean(embedding[words], 0) + bias)


def token_loss(layers, sample):
    values = token_scores(layers, sample["x"])
    return optax.softmax_cross_entropy_with_integer_labels(values, sample["y"])


def token_is_right(layers, sample):
    return (jnp.argmax(token_scores(layers, sample["x"])) == sample["y"]).astype(jnp.float32)


def tokens(seed):
    rng = np.random.default_rng(seed)
    y = np.tile(np.arange(4), 250).astype(np.int32)
    odds = rng.dirichlet(np.full(60, 0.3), 4)
    x = np.stack([rng.choice(60, 12, p=0.6 * odds[label] + 0.4 / 60) for label in y])
    test, train = np.split(rng.permutation(y.size), [300])
    parts = [train[own] for own in dealt(y[train], 16, 0.5, rng)]
    start = drawn_layers((60, 6), rng, 3.0) + drawn_layers((6, 4), rng)
    problem = padded(token_loss, token_is_right, x.astype(np.int32), y, parts, test, start)
    return Task(problem, fa.participation.without_replacement(4), None, test_error, True)


def dropped_loss(layers, sample, key=None):
    hidden, last = layers
    inner = jax.nn.relu(outputs([hidden], sample["x"]))
    if key is not None:
        inner = jnp.where(jax.random.bernoulli(key, 0.8, inner.shape), inner / 0.8, 0)
    return optax.softmax_cross_entropy_with_integer_labels(outputs([last], inner), sample["y"])


def clusters(seed):
    rng = np.random.default_rng(seed)
    y = np.tile(np.arange(5), 200).astype(np.int32)
    centres = 1.5 * rng.normal(size=(5, 3, 8))
    x = centres[y, rng.integers(3, size=y.size)] + rng.normal(size=(y.size, 8))
    x = x.astype(np.float32)
    test, train = np.split(rng.permutation(y.size), [300])
    parts = [train[own] for own in dealt(y[train], 15, 0.3, rng)]
    start = drawn_layers((8, 24, 5), rng)
    problem = padded(dropped_loss, is_right, x, y, parts, test, start)
    return Task(problem, fa.participation.without_replacement(3), None, test_error, True)


def pinball(model, sample):
    x, y = sample
    residual = y - jnp.cos(x) @ model
    return jnp.maximum(0.8 * residual, -0.2 * residual)


def quantiles(seed):
    rng = np.random.default_rng(seed)
    frequencies, phases = rng.normal(size=15), 2 * np.pi * rng.random(15)
    data = []
    for centre in rng.normal(size=12):
        x = centre + rng.normal(size=30)
        y = np.sin(2 * x) + 0.3 * centre + (0.2 + 0.2 * np.abs(x)) * rng.normal(size=30)
        angles = 2 * x[:, None] * frequencies + phases
        data.append((angles.astype(np.float32), y.astype(np.float32)))
    problem = fa.problems.federated(pinball, data, jnp.zeros(15))
    return Task(problem, fa.participation.without_replacement(3), None, objective, False)


def pair_loss(layers, sample):
    hidden, last = layers
    better, worse = (outputs([last], jnp.tanh(outputs([hidden], x)))[0] for x in sample)
    return jax.nn.softplus(worse - better)


def ranking(seed):
    rng = np.random.default_rng(seed)
    linear, square, data = rng.normal(size=6), rng.normal(size=(6, 6)) / 3, []
    for _ in range(15):
        items = rng.normal(size=6) + rng.normal(size=(2, 50, 6))
        worth = items @ linear + np.einsum("abi,ij,abj->ab", items, square, items)
        worth += 0.5 * rng.normal(size=worth.shape)
        order = np.argsort(-worth, 0)[..., None]
        data.append(tuple(np.take_along_axis(items, order, 0).astype(np.float32)))
    start = drawn_layers((6, 12, 1), rng)
    problem = fa.problems.federated(pair_loss, data, start, batch_size=10)
    return Task(problem, fa.participation.without_replacement(4), None, objective, False)


def reconstruction_error(layers, image):
    encoder, decoder = layers
    found = outputs([decoder], jnp.tanh(outputs([encoder], image)))
    return 0.5 * jnp.sum((found - image) ** 2)


def reconstruction(seed):
    rng = np.random.default_rng(seed)
    x, y = load_digits(return_X_y=True)
    chosen = rng.permutation(len(y))[:400]
    chosen = chosen[np.argsort(y[chosen], kind="stable")].reshape(20, 20)
    start = drawn_layers((64, 8, 64), rng)
    problem = fa.problems.federated(
        reconstruction_error, (x / 16).astype(np.float32)[chosen], start
    )
    return Task(problem, fa.participation.without_replacement(4), None, objective, False)


CHOOSING = {
    "deep network": deep_network,
    "breast cancer": breast_cancer,
    "robust": robust,
    "lasso": lasso,
}
FRESH = {
    "convolution": convolution,
    "wine": wine,
    "diabetes": diabetes,
    "factorisation": factorisation,
    "friedman": friedman,
    "counts": counts,
    "spirals": spirals,
    "tokens": tokens,
    "clusters": clusters,
    "quantiles": quantiles,
    "ranking": ranking,
    "reconstruction": reconstruction,
}
TASKS = CHOOSING | FRESH
METHODS = {
    "fed_admm": fed_admm,
    "fed_dyn": fed_dyn,
    "fed_dr": lambda rho=None, **rest: fed_dr(None if rho is None else 1 / rho, **rest),
}


def largest_curvature(problem):
    """Return L, as solvers estimate it before the first round."""
    return fed_avg().init(problem, jax.random.key(0)).curvature


def scores(method, tasks):
    """Return the scores of the default, of the one before, and of the grid: (seeds, settings)."""
    first, build = tasks[0], METHODS[method]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(task.problem for task in tasks))
    keys = jax.random.split(jax.random.key(7), len(tasks))

    def score(problem, key, *arguments, **rest):
        solver = build(*arguments, regularizer=first.regularizer, **rest)
        process = first.participation
        run = fa.run(
            *(solver, problem, key),
            rounds=ROUNDS,
            participation=process,
            measure=first.measure,
            every=ROUNDS,
        )
        return run.trace["score"][-1]

    def old(problem, key):
        curvature = largest_curvature(problem)
        return score(problem, key, curvature, local=local_gradient(steps=STEPS))

    def grid(problem, key):
        curvature = largest_curvature(problem)

        def at(penalty, rate):
            local = local_gradient(rate / (curvature * (1 + penalty)), steps=STEPS)
            return score(problem, key, penalty * curvature, local=local)

        return jax.vmap(jax.vmap(at, (None, 0)), (0, None))(PENALTIES, RATES).reshape(-1)

    return [np.asarray(jax.jit(jax.vmap(f))(stacked, keys)) for f in (score, old, grid)]


def first_value(task):
    """Return the objective at the start."""
    problem = task.problem
    start = jnp.broadcast_to(problem.start, (problem.num_clients, problem.start.shape[-1]))
    return float(jnp.mean(problem.values(start)))


def points(values, tasks, least, begun):
    """Return errors in per cent, or gaps to the least objective in per cent of the first gap."""
    if tasks[0].is_error:
        return 100 * values
    return 100 * ((values.T - least) / (begun - least)).T


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    table = csv.writer(sys.stdout, lineterminator="\n")
    heads = ["before", "default", "tuned", "difference", "standard error", "rho / L", "rate L"]
    table.writerow(["task", "method", *heads])
    for name in given.tasks:
        tasks = [TASKS[name](seed) for seed in range(given.seeds)]
        found = {method: scores(method, tasks) for method in given.methods}
        every = [part.reshape(given.seeds, -1) for rows in found.values() for part in rows]
        least = np.nanmin(np.concatenate(every, 1), 1)
        begun = np.array([first_value(task) for task in tasks])
        for method, rows in found.items():
            default, old, grid = (points(part, tasks, least, begun) for part in rows)
            mean = np.nan_to_num(grid, nan=np.inf).mean(0)
            best = int(np.argmin(mean))
            error = (default - grid[:, best]).std(ddof=1) / given.seeds**0.5
            place = float(PENALTIES[best // len(RATES)]), float(RATES[best % len(RATES)])
            numbers = (old.mean(), default.mean(), mean[best], default.mean() - mean[best], error)
            texts = [*(f"{x:.2f}" for x in numbers), *(f"{x:.3g}" for x in place)]
            table.writerow([name, method, *texts])
            sys.stdout.flush()


if __name__ == "__main__":
    main()
