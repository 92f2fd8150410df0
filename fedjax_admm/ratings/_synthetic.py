"""Synthetic ratings with the shape of well-known tables: few items and users have most of them.

A user's number of ratings is log-normal, an item's chance of being rated falls as rank^-0.8. A
rating is `3.5 + b_user + b_item + p_user^T q_item + noise`, rounded to 1, 2, ..., 5; its parts have
the shares of the variance that MovieLens 100K shows roughly.
"""

from dataclasses import field
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import count, default_float, refuse, typed_key
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm._threefry import one_loop


class Shape(NamedTuple):
    """Size of a table of ratings."""

    users: int
    items: int
    ratings: int


SHAPES = {
    "ml-100k": Shape(943, 1682, 100_000),
    "ml-1m": Shape(6040, 3449, 999_714),
    "ml-10m": Shape(69_878, 10_677, 10_000_054),
    "netflix": Shape(480_189, 17_770, 100_480_507),
}
"""Tables of the literature: MovieLens 100K, 1M and 10M, and that of the Netflix prize."""

POPULARITY = 0.8
ACTIVITY = 1.0  # standard deviation of the logarithm of a user's number of ratings
MEAN, DEVIATION = 3.5, 1.1
USER_SHARE, ITEM_SHARE, FACTOR_SHARE = 0.15, 0.18, 0.12  # of the variance; the rest is noise
FACTORS = 4


@pytree_dataclass
class DrawnRatings:
    """Ratings that were drawn: like `Ratings`, with a mask, because their number is random."""

    users: jax.Array  # shape=(ratings,), int32
    items: jax.Array  # shape=(ratings,), int32
    values: jax.Array  # shape=(ratings,)
    present: jax.Array  # shape=(ratings,), bool: False at the end, where too few were drawn
    num_users: int = field(metadata={"static": True})
    num_items: int = field(metadata={"static": True})


def draw_ratings(key: jax.Array, shape: str | Shape = "ml-100k") -> DrawnRatings:
    """Draw synthetic ratings; it can be traced, so that every trial has its own.

    Args:
      key: a typed key.
      shape: a name in `SHAPES`, or a `Shape` (users, items, ratings). The number of ratings is met
        on average (0.1 %).

    Returns:
      The ratings, sorted by user and item.
    """
    typed_key(key)
    key = one_loop(key)
    size = _shape(shape)
    dtype = default_float()
    draws = _draws_per_user(size)
    total = int(draws.sum())
    item_key, rating_key = jax.random.split(key)
    # The barrier keeps XLA from doing this at compile time, which takes longer than at run time.
    repeats = jax.lax.optimization_barrier(jnp.asarray(draws))
    users = jnp.repeat(jnp.arange(size.users, dtype=jnp.int32), repeats, total_repeat_length=total)
    chances = jnp.asarray(np.cumsum(_popularity(size.items)), dtype)
    places = jax.random.uniform(item_key, (total,), dtype)
    items = jnp.minimum(jnp.searchsorted(chances, places), size.items - 1).astype(jnp.int32)
    users, items = jax.lax.sort((users, items), num_keys=2)
    new = (users[1:] != users[:-1]) | (items[1:] != items[:-1])
    place = jnp.cumsum(jnp.concatenate([jnp.zeros(1, bool), new]), dtype=jnp.int32)
    # All draws of one pair are written to one place; what is drawn beyond the number is left out.
    users, items = (
        jnp.zeros(size.ratings, jnp.int32).at[place].set(part, mode="drop")
        for part in (users, items)
    )
    present = jnp.arange(size.ratings, dtype=jnp.int32) <= place[-1]
    values = _values(rating_key, users, items, size, dtype)
    return DrawnRatings(users, items, values, present, size.users, size.items)


def _values(key, users, items, size: Shape, dtype) -> jax.Array:
    """Return a rating for every pair."""
    keys = jax.random.split(key, 5)
    user_bias = _normal(keys[0], (size.users,), USER_SHARE, dtype)
    item_bias = _normal(keys[1], (size.items,), ITEM_SHARE, dtype)
    # A product of two normal vectors has variance FACTORS * (scale^2)^2.
    scale = (FACTOR_SHARE / FACTORS) ** 0.25
    p = scale * jax.random.normal(keys[2], (size.users, FACTORS), dtype)
    q = scale * jax.random.normal(keys[3], (size.items, FACTORS), dtype)
    noise = _normal(keys[4], users.shape, 1 - USER_SHARE - ITEM_SHARE - FACTOR_SHARE, dtype)
    taste = sum(p[users, k] * q[items, k] for k in range(FACTORS))
    standard = user_bias[users] + item_bias[items] + taste + noise
    return jnp.clip(jnp.round(MEAN + DEVIATION * standard), 1, 5)


def _normal(key, shape, share: float, dtype) -> jax.Array:
    return share**0.5 * jax.random.normal(key, shape, dtype)


def _shape(shape: str | Shape) -> Shape:
    if isinstance(shape, str) and shape in SHAPES:
        return SHAPES[shape]
    known = isinstance(shape, tuple) and len(shape) == len(Shape._fields)
    told = f"must be one of {', '.join(SHAPES)} or (users, items, ratings)"
    refuse(not known, "shape", told, shape)
    parts = zip(Shape._fields, cast(Shape, shape), strict=True)
    size = Shape(*(count(f"shape.{name}", number) for name, number in parts))
    half = size.users * size.items // 2
    told = f"must be at most half of all pairs ({half})"
    refuse(size.ratings > half, "shape.ratings", told, size.ratings)
    return size


def _popularity(items: int) -> np.ndarray:
    weights = np.arange(1, items + 1) ** -POPULARITY
    return weights / weights.sum()


@lru_cache(maxsize=8)
def _draws_per_user(size: Shape) -> np.ndarray:
    """Return how many pairs to draw for each user, so that the distinct ones are enough."""
    levels = (np.arange(size.users) + 0.5) / size.users
    sample = np.linspace(0, size.users - 1, min(size.users, 2000)).astype(int)
    normal = np.array([NormalDist().inv_cdf(level) for level in levels[sample]])
    activity = np.exp(ACTIVITY * np.interp(np.arange(size.users), sample, normal))
    chances = _popularity(size.items)
    grid = np.concatenate([[0], np.geomspace(1, 50 * size.items, 200)])
    distinct = np.array(
        [np.sum(1 - np.exp(draws * np.log1p(-np.minimum(chances, 1 - 1e-12)))) for draws in grid]
    )

    def found(scale: float) -> float:
        return float(np.interp(np.maximum(1, scale * activity), grid, distinct).sum())

    low, high = 0.0, 50.0 * size.items
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if found(middle) < size.ratings else (low, middle)
    return np.maximum(1, np.round(high * activity)).astype(np.int32)
