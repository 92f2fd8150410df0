r"""Federated matrix completion: clients hold some users' ratings of common items.

    minimise   1/p sum_i [ f_i(U_i, V) + R_i(U_i) ] + R(V)
    f_i(U, V) = 1/2 sum over observed (t, j) of (u_t^T v_j - M_tj)^2

Client i of p holds its users' factors U_i and never sends them; the items' factors V are shared.
A rating is observed because it is in the list: 0 is a rating like any other.

Reference: P. Hytla, T. T. A. Nghia, D. N. Phan, A. Rice, "A Linearized Alternating Direction
Multiplier Method for Federated Matrix Completion Problems", the problem of section 1.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import (
    InputError,
    count,
    default_float,
    every_client,
    finite_array,
    flag,
    instance,
    is_concrete,
    largest_squarable,
    refuse,
    several,
    typed_key,
    whole_numbers,
)
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.problems._rating_split import (
    Entries,
    Shape,
    random_ranks,
    share_of,
    split,
    spread_users,
)
from fedjax_admm.ratings import DrawnRatings, Ratings
from fedjax_admm.ratings.blocks import BLOCK, ClientRatings
from fedjax_admm.ratings.layout import Home, ratings_per_client, sort_by_client


@pytree_dataclass
class MatrixCompletion:
    """Ratings of the clients' users: some to learn from, some to be judged by."""

    by_user: ClientRatings  # what is learnt from, each client's sorted by user
    by_item: ClientRatings  # the same, sorted by item
    held_out: ClientRatings  # what predictions are judged by
    members: jax.Array  # shape=(clients,), int32: users of each client
    mean: jax.Array  # shape=(): of the ratings that are learnt from, in the units of the file
    deviation: jax.Array  # shape=(): their standard deviation; values are (rating - mean) / it
    places: jax.Array  # shape=(users,), int32: client * users_per_client + number within it
    tuning: "MatrixCompletion | None" = None  # the training ratings, split once more

    spread: ClassVar[tuple[str, ...]] = ("members",)

    @property
    def num_clients(self) -> int:
        """Return the number of clients."""
        return self.members.shape[0]

    @property
    def users_per_client(self) -> int:
        """Return the number of users of the largest client."""
        return self.by_user.users_per_client

    @property
    def num_items(self) -> int:
        """Return the number of items."""
        return self.by_user.num_items

    @property
    def here(self) -> jax.Array:
        """Return which users there are, bool, shape (clients, users_per_client)."""
        return jnp.arange(self.users_per_client, dtype=jnp.int32)[None] < self.members[:, None]


def matrix_completion(
    ratings: Any,
    key: jax.Array,
    *,
    clients: int = 100,
    train: float = 0.8,
    validation: float = 0.0,
    standardize: bool = True,
    room: bool = False,
) -> MatrixCompletion:
    """Spread users over clients at random, and split each client's ratings.

    Every user is kept: clients differ by one user at most. Each client learns from a random
    `floor(train * ratings)` of its ratings. All ratings are standardised with the mean and the
    deviation of these, which follow from three sums per client.

    Args:
      ratings: of `ratings.read_ratings`, `ratings.from_arrays` or `ratings.draw_ratings`.
      key: a typed key. It may be traced: the problem can be drawn inside `jit` and `vmap`.
      clients: how many.
      train: share of a client's ratings in the training set; 1 holds nothing out.
      validation: share of the training ratings that `problem.tuning` holds out, for the choice of
        hyper-parameters; there is no `tuning` if 0.
      standardize: whether to standardise.
      room: make room for all ratings in every list. Problems of one table then have arrays of the
        same shapes, whatever their shares, and share compiled programs.

    Returns:
      The problem. Its memory is about 24 bytes per training rating and 12 per held-out rating,
      doubled with `validation`; 36 per rating and problem with `room`. A table is sorted client by
      client, on all cores; traced ratings are sorted by XLA.

    Raises:
      InputError: there are fewer users than clients, a share is out of range, a client has no
        rating to learn from, or all ratings to learn from are equal (where they are
        standardised).
    """
    typed_key(key)
    instance("ratings", ratings, (Ratings, DrawnRatings), "a table of ratings or a draw of one")
    clients = count("clients", clients)
    told = f"must be at most the number of users ({ratings.num_users})"
    refuse(clients > ratings.num_users, "clients", told, clients)
    train = 1.0 if isinstance(train, int | float) and train == 1 else _share("train", train)
    none = isinstance(validation, int | float) and validation == 0
    fitted = 0.0 if none else 1 - _share("validation", validation)
    shape = Shape(clients, -(-ratings.num_users // clients), ratings.num_items)
    _check_size(shape)
    how = (shape, train, fitted, flag("standardize", standardize), flag("room", room))
    table = _sorted_columns(ratings)
    problem: MatrixCompletion
    sizes: Any
    drawn = None
    if table is not None and is_concrete(key):  # inside of jit they are traced all the same
        drawn = _draws(jax.random.clone(key), ratings.num_users, clients, table[3])
    if table is not None and drawn is not None and is_concrete(drawn):
        problem, sizes = _dealt(table[:3], drawn, *how)
    else:
        problem, sizes = _drawn(*_columns(ratings), key, ratings.num_users, *how)
    blocks = max(1, -(-int(sizes.max()) // BLOCK)) if room and is_concrete(sizes) else None
    _check_learnt(problem, sizes, train)
    if validation:
        tuning = problem.tuning
        assert tuning is not None  # there are validation ratings
        _check_learnt(tuning, problem.by_user.counts, fitted)
        problem = replace(problem, tuning=_checked(tuning, blocks))
    return _checked(problem, blocks)


def matrix_completion_of_clients(
    clients: Sequence[tuple[ArrayLike, ArrayLike, ArrayLike]],
    *,
    num_items: int,
    members: Sequence[int] | None = None,
    held_out: Sequence[tuple[ArrayLike, ArrayLike, ArrayLike]] | None = None,
    standardize: bool = True,
) -> MatrixCompletion:
    """Build matrix completion from given clients, such as hospitals or shops.

    Args:
      clients: one triple (users, items, values) of arrays (ratings of that client,) per client;
        users are numbered from 0 within each client.
      num_items: how many items there are.
      members: users of each client; as many as occur if None.
      held_out: the test ratings, likewise; none if None.
      standardize: whether to standardise with mean and deviation of `clients`.
    """
    num_items = count("num_items", num_items)
    several("clients", clients, "three arrays per client")
    learnt = _joined("clients", clients, num_items)
    judged = _joined("held_out", held_out or [], num_items)
    sizes = np.bincount(learnt[0], minlength=len(clients))
    every_client("clients", sizes, "rating", "leave out clients without ratings")
    told = f"must have one entry per client ({len(clients)})"
    refuse(held_out is not None and len(held_out) != len(clients), "held_out", told)
    columns = [np.concatenate(pair) for pair in zip(learnt, judged, strict=True)]
    owner, users, items, values = columns
    width = users.max() + 1
    keys = ((part[0] * width + part[1]) * num_items + part[2] for part in (judged, learnt))
    both = np.flatnonzero(np.isin(next(keys), next(keys)))
    if both.size:
        client, user, item = (int(part[both[0]]) for part in judged[:3])
        told = f"must not hold what is learnt from, but user {user} rates item {item} in both"
        raise InputError(told, f"held_out[{client}]", "remove one of them")
    least = np.zeros(len(clients), np.int64)
    np.maximum.at(least, owner, users + 1)
    counts = least if members is None else np.asarray(members)
    whole_numbers("members", counts, least.shape)
    told = f"must say at least {least.tolist()} users per client"
    refuse(np.any(counts < least), "members", told, counts.tolist())
    shape = Shape(len(clients), int(counts.max()), num_items)
    _check_size(shape)
    entries = Entries(
        jnp.asarray(owner, jnp.int32),
        jnp.asarray(users, jnp.int32),
        jnp.asarray(items, jnp.int32),
        jnp.asarray(values, default_float()),
        jnp.ones(owner.shape, bool),
    )
    # The lists as they stand: those to learn from have rank 0, the others rank 1.
    rank = jnp.asarray(np.arange(len(owner)) >= len(learnt[0]), jnp.int32)
    ones = jnp.ones(len(clients), jnp.int32)
    number = np.concatenate([np.arange(size) for size in counts])
    home = np.repeat(np.arange(len(clients)), counts) * shape.users_per_client + number
    parts = split(
        entries,
        rank,
        ones,
        2 * ones,
        shape,
        (len(learnt[0]) / len(owner), len(judged[0]) / len(owner)),
        jnp.asarray(home, jnp.int32),
        jnp.asarray(counts, jnp.int32),
        flag("standardize", standardize),
    )
    return _checked(MatrixCompletion(*parts))


def _dealt(
    columns, drawn, shape, train, fitted, standardize, room
) -> tuple[MatrixCompletion, np.ndarray]:
    """Return what `_drawn` returns, of a sorted table: numbers agree but for rounding."""
    places, members, draws = drawn
    home = Home(np.asarray(places), shape.clients, shape.users_per_client, shape.num_items)
    sizes = ratings_per_client(columns[0], home)
    how = {"standardize": standardize, "room": room, "dtype": np.dtype(default_float()).type}

    def problem(low, high, tuning=None):
        lists = sort_by_client(columns, np.asarray(draws), home, low, high, **how)
        by_user, by_item, held_out = lists[:3]
        mean, deviation = (jnp.asarray(number, default_float()) for number in lists[3:])
        return MatrixCompletion(
            by_user, by_item, held_out, members, mean, deviation, places, tuning
        )

    learnt = share_of(sizes, train)
    tuning = problem(share_of(learnt, fitted), learnt) if fitted else None
    return problem(learnt, sizes, tuning), sizes


@partial(jax.jit, static_argnames=("num_users", "clients", "ratings"))
def _draws(key, num_users, clients, ratings) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return places of users, users per client, and 32 bits per rating, as `_drawn` draws them."""
    user_key, split_key = jax.random.split(key)
    places, members = spread_users(user_key, num_users, clients)
    return places, members, jax.random.bits(split_key, (ratings,), jnp.uint32)


def _sorted_columns(ratings: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, int] | None:
    """Return users, items and values that are there, and how many entries were drawn for.

    None where they are traced, or not sorted by user.
    """
    present = getattr(ratings, "present", None)
    if not is_concrete((ratings.users, ratings.items, ratings.values, present)):
        return None
    users, items, values = map(np.asarray, (ratings.users, ratings.items, ratings.values))
    drawn = there = users.size
    if present is not None:
        there = int(np.asarray(present).sum())
        if not np.asarray(present)[:there].all():
            return None
    users, items, values = users[:there], items[:there], values[:there]
    if not there or np.any(users[1:] < users[:-1]):
        return None
    return users, items, values, drawn


@partial(jax.jit, static_argnames=("num_users", "shape", "train", "fitted", "standardize", "room"))
def _drawn(
    users, items, values, present, key, num_users, shape, train, fitted, standardize, room
) -> tuple[MatrixCompletion, jax.Array]:
    """Return the problem of `matrix_completion`, and how many ratings every client has."""
    user_key, split_key = jax.random.split(key)
    places, members = spread_users(user_key, num_users, shape.clients)
    owner, local = places // shape.users_per_client, places % shape.users_per_client
    owners = jnp.where(present, owner[users], shape.clients)
    rank, sizes = random_ranks(split_key, owners, shape.clients)
    entries = Entries(owners, local[users], items, values, present)
    learnt = share_of(sizes, train)
    shares = (1.0, 1.0) if room else (train, 1 - train)
    rest = (places, members, standardize)
    problem = MatrixCompletion(*split(entries, rank, learnt, sizes, shape, shares, *rest))
    if fitted:
        low = share_of(learnt, fitted)
        shares = (1.0, 1.0) if room else (train * fitted, train * (1 - fitted))
        tuning = split(entries, rank, low, learnt, shape, shares, *rest)
        problem = replace(problem, tuning=MatrixCompletion(*tuning))
    return problem, sizes


def _columns(ratings: Any) -> tuple[jax.Array, ...]:
    """Return users, items, values and presence of ratings of a table or of a draw."""
    users, items = (jnp.asarray(part, jnp.int32) for part in (ratings.users, ratings.items))
    present = getattr(ratings, "present", None)
    present = jnp.ones(users.shape, bool) if present is None else present
    return users, items, jnp.asarray(ratings.values, default_float()), present


def _share(name: str, value: float) -> float:
    known = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    refuse(not known or not 0 < value < 1, name, "must be a share between 0 and 1", value)
    return float(value)


def _check_size(shape: Shape) -> None:
    largest = shape.clients * max(shape.users_per_client, shape.num_items)
    told = "times users or items must be below 2^31"
    refuse(largest >= 2**31, "clients", told, largest, remedy="take fewer clients")


def _check_learnt(problem: MatrixCompletion, sizes: jax.Array, share: float) -> None:
    """Check that every client has a rating to learn from."""
    learnt = problem.by_user.counts
    if is_concrete(learnt) and np.any(np.asarray(learnt) == 0):
        poor = int(np.argmin(np.asarray(learnt)))
        told = f"every client needs a rating to learn from, but client {poor} has {sizes[poor]} in"
        remedy = "take fewer clients or a larger share"
        raise InputError(f"{told} all, of which a share of {share:g} is none", remedy=remedy)


def _checked(problem: MatrixCompletion, blocks: int | None = None) -> MatrixCompletion:
    """Check the spread of the ratings, and note how large the largest client is, if it is known.

    A number of blocks replaces that of the largest client, so that lists have one shape.
    """
    if not is_concrete(problem.deviation):
        return problem
    limit = largest_squarable(problem.mean.dtype)
    fits = abs(problem.mean) <= limit and problem.deviation <= limit
    told = f"must not exceed {limit:g}, so that squares stay within {problem.mean.dtype}"
    refuse(not fits, "ratings", told, remedy="divide them all by a large number")
    told = f"must not all be equal, but all that are learnt from are {problem.mean:g}"
    refuse(problem.deviation == 0, "ratings", told, remedy="there is nothing to learn")

    def noted(listed: ClientRatings) -> ClientRatings:
        known = max(1, -(-int(listed.counts.max()) // BLOCK)) if blocks is None else blocks
        return replace(listed, largest=known)

    return replace(
        problem,
        by_user=noted(problem.by_user),
        by_item=noted(problem.by_item),
        held_out=noted(problem.held_out),
    )


def _joined(name: str, clients: Sequence, num_items: int) -> tuple[np.ndarray, ...]:
    """Return owner, users, items and values of lists per client, checked."""
    owners, columns = [np.zeros(0, np.int64)], [(np.zeros(0, np.int64),) * 2 + (np.zeros(0),)]
    for client, triple in enumerate(clients):
        called = f"{name}[{client}]"
        several(called, triple, "three arrays: users, items and values")
        shapes = [np.shape(part) for part in triple]
        fits = len(shapes) == 3 and all(shape == shapes[0][:1] for shape in shapes)
        told = "must be three arrays of one length (users, items, values), but their shapes are"
        refuse(not fits, called, f"{told} {shapes}")
        rows = [whole_numbers(f"{called}: users", _whole(triple[0]))]
        rows += [whole_numbers(f"{called}: items", _whole(triple[1]), at_most=num_items - 1)]
        users, items = map(np.asarray, rows)
        pairs, counts = np.unique(users * num_items + items, return_counts=True)
        if np.any(counts > 1):
            user, item = divmod(int(pairs[np.argmax(counts)]), num_items)
            told = f"must rate an item once per user, but user {user} rates item {item} "
            raise InputError(f"{told}{counts.max()} times", called, "keep one of these ratings")
        owners.append(np.full(users.size, client))
        values = np.asarray(finite_array(f"{called}: values", triple[2], (None,)))
        columns.append((users, items, values))
    joined = (np.concatenate(part) for part in zip(*columns, strict=True))
    return (np.concatenate(owners), *joined)


def _whole(numbers: Any) -> Any:
    """Return an array of numbers; of none, one of whole numbers."""
    return numbers if np.size(numbers) else np.zeros(0, np.int64)
