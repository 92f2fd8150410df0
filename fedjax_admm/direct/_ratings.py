r"""Baselines of federated matrix completion: means, biases, and centralised factors.

Every baseline returns `Factors`, so that it is measured like a solver: a bias model b_t + c_j has
the factors (b_t, 1) and (1, c_j). Below, M is the value; biases take it less the
mean of the training values.

    damped biases   b_t = sum_j (M_tj - c_j) / (damping + ratings of t), then c_j likewise, again
                    and again, from c = 0
    ALS             u_t = (sum_j v_j v_j^T + weight n_t I)^-1 sum_j M_tj v_j, then v_j likewise

References: Y. Koren, "Factor in the neighbors: scalable and accurate collaborative filtering", ACM
Transactions on Knowledge Discovery from Data 4 (2010), section 2.1 (biases); Y. Zhou, D. Wilkinson,
R. Schreiber, R. Pan, "Large-scale Parallel Collaborative Filtering for the Netflix Prize", 2008
(ALS with a weight times the number of ratings).
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import (
    count,
    scalar,
    typed_key,
)
from fedjax_admm._linear_algebra import positive_inverse
from fedjax_admm.capabilities import FactorData, needs
from fedjax_admm.kernels import factor_gram, safe_ratio
from fedjax_admm.ratings import Factors, UniformStart


@needs(FactorData)
@jax.jit
def global_mean(problem) -> Factors:
    """Predict every rating by the mean of the training ratings."""
    mean = _mean(problem)
    return _biases(jnp.full(problem.here.shape, mean), jnp.zeros(problem.num_items, mean.dtype))


@needs(FactorData)
@jax.jit
def item_means(problem) -> Factors:
    """Predict an item's ratings by the mean of its training ratings; by the global one if none."""
    mean = _mean(problem)
    users = jnp.zeros(problem.here.shape, mean.dtype)
    sums, counts = _item_sums(problem, users)
    return _biases(users, jnp.where(counts > 0, safe_ratio(sums, counts), mean))


@needs(FactorData)
def damped_biases(problem, damping: ArrayLike = 5.0, *, sweeps: int = 20) -> Factors:
    """Predict a rating by the mean, a bias of its user and one of its item, both drawn towards 0.

    Args:
      problem: a `MatrixCompletion`.
      damping: a number of ratings; a leaf.
      sweeps: over users, then items.
    """
    damping = scalar("damping", damping, at_least=0).astype(problem.mean.dtype)
    return _damped(problem, damping, count("sweeps", sweeps))


@partial(jax.jit, static_argnames="sweeps")
def _damped(problem, damping, sweeps: int) -> Factors:
    mean = _mean(problem)

    def sweep(biases, _):
        sums, counts = _user_sums(problem, biases[1] + mean)
        users = safe_ratio(sums, damping + counts)
        sums, counts = _item_sums(problem, users + mean)
        return (users, safe_ratio(sums, damping + counts)), None

    first = (
        jnp.zeros(problem.here.shape, mean.dtype),
        jnp.zeros(problem.num_items, mean.dtype),
    )
    (users, items), _ = jax.lax.scan(sweep, first, length=sweeps)
    return _biases(users + mean, items)


@needs(FactorData)
def alternating_least_squares(
    problem, key: jax.Array, *, rank: int = 5, weight: ArrayLike = 0.1, sweeps: int = 20
) -> Factors:
    """Fit factors to everybody's ratings at once, as a centralised server would.

    Args:
      problem: a `MatrixCompletion`.
      key: a typed key, for the first factors of the items: uniform on [0, 1].
      rank: number of components.
      weight: of the squares, times the number of ratings of the row; positive; a leaf.
      sweeps: over users, then items.

    Returns:
      The factors; zero for a user or an item without training ratings.
    """
    typed_key(key)
    weight = scalar("weight", weight, above=0).astype(problem.mean.dtype)
    return _alternating(problem, key, weight, count("rank", rank), count("sweeps", sweeps))


@partial(jax.jit, static_argnames=("rank", "sweeps"))
def _alternating(problem, key, weight, rank: int, sweeps: int) -> Factors:
    dtype = weight.dtype
    one = jnp.ones((), dtype)
    _, items = UniformStart(one, one, rank)(problem, key)
    width = problem.users_per_client
    shape = (problem.num_clients, width, rank)

    def user(client, users, items):
        return client * width + users, items, users >= width

    def item(client, users, items):
        return items, client * width + users, items >= problem.num_items

    def sweep(carry, _):
        users = _least_squares(problem.by_user, carry[1], shape[0] * width, user, weight)
        items = _least_squares(problem.by_item, users, problem.num_items, item, weight)
        return (users, items), None

    first = (jnp.zeros((shape[0] * width, rank), dtype), items)
    (users, items), _ = jax.lax.scan(sweep, first, length=sweeps)
    return Factors(users.reshape(shape), items)


def _least_squares(listed, factors, size, places, weight) -> jax.Array:
    """Solve every row's normal equations with the other factors fixed, shape (size, rank)."""
    rank = factors.shape[-1]
    upper = rank * (rank + 1) // 2

    def add(carry, client, users, items, values):
        sums, counts = carry
        rows, columns, padding = places(client, users, items)
        rows = jnp.where(padding, size, rows)
        ones = jnp.ones_like(values)
        sums = factor_gram(factors, rows, columns, values, size, sums)
        return sums, counts.at[rows].add(ones, mode="drop")

    zero = jnp.zeros((size, upper + rank), factors.dtype)
    sums, counts = listed.fold(listed.everyone, (zero, zero[:, 0]), add)
    row, column = jnp.triu_indices(rank)
    triangle = jnp.zeros((size, rank, rank), factors.dtype).at[:, row, column].set(sums[:, :upper])
    gram = triangle + jnp.swapaxes(jnp.triu(triangle, 1), -1, -2)
    # A row without ratings gets the identity, and 0 from its right side.
    ridge = jnp.where(counts > 0, weight * counts, 1)
    inverse = positive_inverse(gram + ridge[:, None, None] * jnp.eye(rank, dtype=gram.dtype)[None])
    return jnp.einsum("nab,nb->na", inverse, sums[:, upper:], precision=jax.lax.Precision.HIGHEST)


def _user_sums(problem, item_biases) -> tuple[jax.Array, jax.Array]:
    """Return sum and number of `M_tj - c_j` per user, shape (clients, users_per_client)."""
    width, (clients, wide) = problem.users_per_client + 1, problem.here.shape

    def add(carry, client, users, items, values):
        terms = values - jnp.take(item_biases, items, mode="clip")
        return _added(carry, client * width + users, terms)

    zero = jnp.zeros(clients * width, problem.mean.dtype)
    parts = problem.by_user.fold(problem.by_user.everyone, (zero, zero), add)
    sums, counts = (part.reshape(clients, width)[:, :wide] for part in parts)
    return sums, counts


def _item_sums(problem, user_biases) -> tuple[jax.Array, jax.Array]:
    """Return sum and number of `M_tj - b_t` per item, shape (items,)."""
    width, flat = problem.users_per_client, user_biases.ravel()

    def add(carry, client, users, items, values):
        terms = values - jnp.take(flat, client * width + users, mode="clip")
        return _added(carry, items, terms)

    zero = jnp.zeros(problem.num_items + 1, problem.mean.dtype)
    sums, counts = problem.by_item.fold(problem.by_item.everyone, (zero, zero), add)
    return sums[:-1], counts[:-1]


def _added(carry, rows, terms):
    """Add terms, and their number, to the rows to which they belong."""
    sums, counts = carry
    return sums.at[rows].add(terms), counts.at[rows].add(jnp.ones_like(terms))


def _mean(problem) -> jax.Array:
    """Return the mean of the training values: 0, but for rounding, where they are standardised."""
    listed = problem.by_user
    size = jnp.maximum(jnp.sum(listed.counts), 1).astype(problem.mean.dtype)
    return listed.total(lambda client, users, items, values: values) / size


def _biases(users: jax.Array, items: jax.Array) -> Factors:
    """Return the factors of a bias model."""
    return Factors(
        jnp.stack([users, jnp.ones_like(users)], -1), jnp.stack([jnp.ones_like(items), items], -1)
    )
