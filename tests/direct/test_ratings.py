"""Means, biases and centralised factors against the NumPy reference."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import InputError
from fedjax_admm.direct import (
    alternating_least_squares,
    damped_biases,
    global_mean,
    item_means,
)
from fedjax_admm.measures import factor_error
from fedjax_admm.problems import matrix_completion_of_clients
from fedjax_admm.ratings import UniformStart
from tests.reference import fedmc

SIZES, ITEMS = (5, 2, 4), 8
WIDTH = max(SIZES)
USERS = len(SIZES) * WIDTH  # with places where there is nobody: they have no rating
HERE = np.concatenate([np.arange(WIDTH) < size for size in SIZES])


def lists():
    """Clients' ratings; the last item has none, nor has the last user of the first client."""
    rng = np.random.default_rng(0)
    clients = []
    for i, size in enumerate(SIZES):
        seen = rng.random((size, ITEMS)) < 0.6
        seen[:, -1] = False
        seen[:, 0] = True
        if i == 0:
            seen[-1] = False
        rows, cols = np.nonzero(seen)
        clients.append((rows, cols, rng.integers(0, 6, len(rows)).astype(float)))
    return clients


LEARNT = lists()
RAW = np.concatenate([client[2] for client in LEARNT])
VALUES = (RAW - RAW.mean()) / RAW.std()
OWN = np.concatenate([i * WIDTH + client[0] for i, client in enumerate(LEARNT)])
THEIRS = np.concatenate([client[1] for client in LEARNT])
DATA = (OWN, THEIRS, VALUES, USERS, ITEMS)

means_of_items = jax.jit(item_means)
biases_of = jax.jit(damped_biases, static_argnames="sweeps")
least_squares = jax.jit(alternating_least_squares, static_argnames=("rank", "sweeps"))


def problem_of(dtype=None):
    problem = matrix_completion_of_clients(LEARNT, num_items=ITEMS, members=SIZES)
    if dtype is None:
        return problem
    return jax.tree.map(
        lambda leaf: leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf,
        problem,
    )


@pytest.fixture(params=["float32", "float64"])
def problem(request):
    """In a session where float64 is enabled."""
    with jax.enable_x64(True):
        yield problem_of(jnp.dtype(request.param))


def check(problem, factors, user, item, offset=0.0):
    """What factors predict is `offset + user + item` for everybody who is there."""
    dtype = problem.mean.dtype
    assert factors.users.dtype == factors.items.dtype == dtype
    assert factors.users.shape[:2] == (len(SIZES), WIDTH)
    assert factors.items.shape[0] == ITEMS
    found = np.einsum("tk,jk->tj", factors.users.reshape(USERS, -1), factors.items)
    wanted = offset + np.reshape(user, (-1, 1)) + np.reshape(item, (1, -1))
    tolerance = 1e-12 if dtype == np.float64 else 2e-6
    np.testing.assert_allclose(
        found[HERE], np.broadcast_to(wanted, found.shape)[HERE], rtol=0, atol=tolerance
    )


def test_global_mean(problem):
    check(problem, global_mean(problem), fedmc.global_mean(VALUES), 0)


def test_item_means(problem):
    found = means_of_items(problem)
    check(problem, found, 0, fedmc.item_means(*DATA))
    np.testing.assert_allclose(found.items[-1], [1, 0], atol=1e-6)


def test_damped_biases(problem):
    for damping in (5, 0.5, 0):
        biases = fedmc.damped_biases(*DATA, damping=damping, sweeps=20)
        check(problem, biases_of(problem, damping, sweeps=20), *biases)


@pytest.mark.thorough
def test_least_squares(problem):
    """From the same first factors of the items."""
    one = jnp.ones((), problem.mean.dtype)
    first = UniformStart(one, one, 2)(problem, jax.random.key(3)).items
    assert 0 <= float(first.min()) < 0.5 < float(first.max()) <= 1
    found = least_squares(problem, jax.random.key(3), rank=2, weight=0.1, sweeps=4)
    wanted = fedmc.als(*DATA, np.zeros((USERS, 2)), np.asarray(first, float), 0.1, 4)
    tolerance = 1e-11 if problem.mean.dtype == np.float64 else 1e-4
    assert found.users.dtype == found.items.dtype == problem.mean.dtype
    np.testing.assert_allclose(found.users.reshape(USERS, 2), wanted[0], rtol=0, atol=tolerance)
    np.testing.assert_allclose(found.items, wanted[1], rtol=0, atol=tolerance)
    # Nothing is known of these.
    np.testing.assert_array_equal(found.users[0, -1], 0)
    np.testing.assert_array_equal(found.items[-1], 0)


@pytest.mark.thorough
def test_dampings_can_be_batched():
    problem, grid = problem_of(), [0.5, 2.0, 10.0]

    @jax.jit
    @jax.vmap
    def batch(damping):
        biases = damped_biases(problem, damping, sweeps=5)
        return biases, factor_error(problem, biases)

    biases, errors = batch(jnp.float32(grid))
    for i, damping in enumerate(grid):
        wanted = fedmc.damped_biases(*DATA, damping=damping, sweeps=5)
        check(problem, jax.tree.map(lambda leaf, i=i: leaf[i], biases), *wanted)
    # More damping fits the training ratings less.
    assert np.all(np.diff(errors["training_error"]) > 0)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda p, k: damped_biases(p, -1.0), "damping must be at least 0, but it is -1"),
        (lambda p, k: alternating_least_squares(p, k, rank=0), "rank must be at least 1"),
        (
            lambda p, k: alternating_least_squares(p, k, weight=0.0),
            "weight must be greater than 0, but it is 0",
        ),
    ],
)
def test_mistakes_get_a_sentence(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call(problem_of(), jax.random.key(0))


def test_means_of_values_that_are_not_standardised():
    problem = matrix_completion_of_clients(
        LEARNT, num_items=ITEMS, members=SIZES, standardize=False
    )
    check(problem, global_mean(problem), RAW.mean(), 0)
