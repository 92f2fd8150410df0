"""Splits of the clients' ratings into training and held-out ones; all of it may be traced.

Users are dealt to clients at random, and every client's ratings are ranked in random order: its
first ones, by these ranks, are the training ratings.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import default_float
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.ratings.blocks import ClientRatings, in_blocks

_ROUNDING = 1e-3  # share * count in float32 may fall short of the whole number that it is


@dataclass(frozen=True)
class Shape:
    """How many there are."""

    clients: int
    users_per_client: int
    num_items: int


@pytree_dataclass
class Entries:
    """One row per rating."""

    owner: jax.Array  # the client; `clients` where there is no rating
    local: jax.Array  # the user's number within its client
    items: jax.Array
    values: jax.Array
    present: jax.Array


@partial(jax.jit, static_argnames=("shape", "shares", "standardize"))
def split(entries, rank, low, high, shape, shares, places, members, standardize) -> tuple[Any, ...]:
    """Learn from ratings of rank below `low` in their client, hold out those below `high`.

    The shares of all ratings that are learnt from and held out set how much room there is.

    Returns:
      The first seven fields of a `MatrixCompletion`.
    """
    owner = jnp.minimum(entries.owner, shape.clients - 1)
    learnt = entries.present & (rank < low[owner])
    judged = entries.present & ~learnt & (rank < high[owner])
    total = entries.values.shape[0]

    def collect(keep, by, capacity):
        return in_blocks(
            owner,
            entries.local,
            entries.items,
            entries.values,
            keep,
            by=by,
            clients=shape.clients,
            users_per_client=shape.users_per_client,
            num_items=shape.num_items,
            capacity=capacity,
        )

    # Each client's share is rounded to whole ratings.
    room, room_out = (min(total, int(share * total) + 2 * shape.clients) for share in shares)
    by_user = collect(learnt, "users", room)
    by_item = collect(learnt, "items", room)
    held_out = collect(judged, "users", room_out)
    mean, deviation = jnp.zeros(()), jnp.ones(())
    if standardize:
        mean, deviation = _moments(by_user)
        # The mean of equal ratings may be off by rounding, and their deviation with it.
        rounding = 4 * jnp.finfo(mean.dtype).eps * jnp.abs(mean)
        deviation = jnp.where(deviation <= rounding, 0, deviation)
    mean, deviation = mean.astype(entries.values.dtype), deviation.astype(entries.values.dtype)
    unit = jnp.where(deviation > 0, deviation, 1)

    def scaled(listed: ClientRatings) -> ClientRatings:
        values = (listed.values - mean) / unit
        return replace(listed, values=jnp.where(listed.items < shape.num_items, values, 0))

    return scaled(by_user), scaled(by_item), scaled(held_out), members, mean, deviation, places


def _moments(listed: ClientRatings) -> tuple[jax.Array, jax.Array]:
    """Return mean and population standard deviation."""
    number = jnp.maximum(jnp.sum(listed.counts), 1).astype(listed.values.dtype)
    mean = listed.total(lambda client, users, items, values: values) / number
    variance = listed.total(lambda client, users, items, values: (values - mean) ** 2) / number
    return mean, jnp.sqrt(variance)


def spread_users(key: jax.Array, users: int, clients: int) -> tuple[jax.Array, jax.Array]:
    """Cut a random permutation of the users into clients: places of users, users per client."""
    members = np.full(clients, users // clients, np.int32)
    members[: users % clients] += 1
    width = int(members.max())
    slots = np.concatenate([c * width + np.arange(size) for c, size in enumerate(members)])
    order = jax.random.permutation(key, users)
    places = jnp.zeros(users, jnp.int32).at[order].set(jnp.asarray(slots, jnp.int32))
    return places, jnp.asarray(members)


def random_ranks(key: jax.Array, owners: jax.Array, clients: int) -> tuple[jax.Array, jax.Array]:
    """Number each client's ratings in random order: the ranks, and how many each client has."""
    draw = jax.random.bits(key, owners.shape, jnp.uint32)
    entries = jnp.arange(owners.shape[0], dtype=jnp.int32)
    _, _, order = jax.lax.sort((owners, draw, entries), num_keys=2)
    sizes = jax.ops.segment_sum(jnp.ones_like(owners), owners, num_segments=clients)
    starts = jnp.cumsum(sizes, dtype=jnp.int32) - sizes
    sorted_owners = jnp.minimum(owners[order], clients - 1)
    rank = jnp.zeros_like(entries).at[order].set(entries - starts[sorted_owners])
    return rank, sizes


def share_of(sizes: Any, share: float) -> Any:
    """Return `floor(share * sizes)`, int32; of NumPy's numbers in NumPy."""
    there = np if isinstance(sizes, np.ndarray) else jnp
    rounded = sizes.astype(default_float()) * np.dtype(default_float()).type(share) + _ROUNDING
    return there.floor(rounded).astype(np.int32)
