"""Synthetic ratings: pairs, values, popularity, batches; and how well their shape packs."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import InputError
from fedjax_admm.problems import matrix_completion
from fedjax_admm.ratings import SHAPES, draw_ratings


@cache
def batch(shape, size):
    """Under jit and vmap over keys."""
    draw = jax.jit(jax.vmap(lambda seed: draw_ratings(jax.random.key(seed), shape)))
    return draw(jnp.arange(size))


def movies(seed=0):
    return jax.tree.map(lambda leaf: leaf[seed], batch("ml-100k", 4))


def found(drawn):
    """Users, items and values that are present."""
    there = np.asarray(drawn.present)
    return tuple(np.asarray(part)[there] for part in (drawn.users, drawn.items, drawn.values))


def check_shape(drawn, shape):
    assert (drawn.num_users, drawn.num_items) == (shape.users, shape.items)
    for part, dtype in (
        (drawn.users, jnp.int32),
        (drawn.items, jnp.int32),
        (drawn.values, jnp.result_type(float)),
        (drawn.present, bool),
    ):
        assert part.shape == (shape.ratings,)
        assert part.dtype == dtype
    users, items, values = found(drawn)
    assert 0 <= users.min() <= users.max() < shape.users
    assert 0 <= items.min() <= items.max() < shape.items
    assert set(np.unique(values)) <= {1, 2, 3, 4, 5}
    # Sorted by user and item; no pair twice.
    assert np.all(np.diff(users.astype(np.int64) * shape.items + items) > 0)
    # What is missing is missing at the end.
    assert np.all(np.asarray(drawn.present)[: len(users)])
    assert abs(len(users) / shape.ratings - 1) <= 0.003


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(4))
def test_pairs_and_values(seed):
    check_shape(movies(seed), SHAPES["ml-100k"])


@pytest.mark.thorough
def test_popularity_falls_and_users_differ():
    users, items, _ = found(movies())
    counts = np.bincount(items, minlength=1682)
    parts = [counts[:10].mean(), counts[10:100].mean(), counts[100:500].mean(), counts[500:].mean()]
    assert np.all(np.diff(parts) < 0)
    # rank^-0.8 in the tail, where few pairs are drawn twice.
    tail = counts[300:600].mean() / counts[1200:1500].mean()
    wanted = np.mean(np.arange(301.0, 601) ** -0.8) / np.mean(np.arange(1201.0, 1501) ** -0.8)
    assert tail == pytest.approx(wanted, rel=0.1)
    activity = np.log(np.maximum(1, np.bincount(users, minlength=943)))
    assert 0.8 < np.std(activity) < 1.1
    assert np.bincount(users, minlength=943).min() >= 1


@pytest.mark.thorough
def test_values_have_the_spread_of_ratings():
    users, items, values = found(movies())
    assert np.mean(values) == pytest.approx(3.5, abs=0.1)
    assert np.std(values) == pytest.approx(1.1, abs=0.1)
    # Items and users matter: their means differ by far more than noise makes them.
    for index, share in ((users, 0.15), (items, 0.18)):
        counts = np.bincount(index)
        means = np.bincount(index, values) / np.maximum(counts, 1)
        many = counts >= 50
        between = np.var(means[many]) - np.mean(np.var(values) / counts[many])
        assert between / np.var(values) == pytest.approx(share, abs=0.08)


@pytest.mark.thorough
def test_the_key_decides():
    assert np.any(np.asarray(movies(0).items) != np.asarray(movies(1).items))
    assert np.any(np.asarray(movies(0).values) != np.asarray(movies(1).values))


@pytest.mark.thorough
def test_a_problem_of_that_shape_wastes_little():
    """In 100 clients of very different sizes; stacked, they would waste half of the memory."""
    problem = matrix_completion(movies(), jax.random.key(0))
    counts = np.asarray(problem.by_user.counts)
    assert counts.max() / counts.mean() > 1.5
    room = learnt = 0
    for listed in (problem.by_user, problem.by_item, problem.held_out):
        room, learnt = room + listed.values.size, learnt + int(jnp.sum(listed.counts))
        assert listed.values.size <= 1.35 * int(jnp.sum(listed.counts))
    assert room <= 1.15 * learnt
    assert learnt == 2 * counts.sum() + int(jnp.sum(problem.held_out.counts))


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        ("ml-2m", "shape must be one of ml-100k, ml-1m, ml-10m, netflix or "),
        ((3, 4), "shape must be one of ml-100k"),
        ((3, 4.5, 2), "shape.items must be a whole number, but it is 4.5"),
        ((3, 4, 7), r"shape.ratings must be at most half of all pairs \(6\), but it is 7"),
    ],
)
def test_mistakes_get_a_sentence(shape, sentence):
    with pytest.raises(InputError, match=sentence):
        draw_ratings(jax.random.key(0), shape)
