"""Messages between clients and one server, stacked over the clients, and their sums."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.ops import segment_sum

from fedjax_admm.messages import ChannelState
from fedjax_admm.participation import where_active


class RoundMessage(NamedTuple):
    """Messages for the present round alone, stacked over the clients."""

    values: tuple[jax.Array, ...] = ()  # arrays (clients, ...); each passes the exchange
    groups: jax.Array | None = None  # shape=(clients,), int32: which of the server's models a
    # message is for; it travels uncompressed
    beside: jax.Array | None = None  # shape=(clients,): a number that travels uncompressed


class Upload(NamedTuple):
    """Messages that the server remembers until the next one, stacked over the clients."""

    values: tuple[jax.Array, ...] = ()  # arrays (clients, ...); each passes the exchange
    weights: jax.Array | None = None  # shape=(clients,): in the server's mean; 1 if None
    weighted: tuple[jax.Array, ...] | None = None  # weights times values; computed if None


class Received(NamedTuple):
    """Means and sums of the messages of a round, for the server."""

    means: tuple[jax.Array, ...]  # of the values said, over those heard in the round; then of the
    # uploads, over the last ones of all clients
    sums: tuple[jax.Array, ...]  # the means of the values said, times the number of those heard
    number: jax.Array  # shape=() or (groups,), int32: of clients heard in the round
    weight: jax.Array  # shape=(): the sum of the weights of all clients
    num_clients: int
    known: tuple[jax.Array, ...] = ()  # the last uploads (clients, ...) and their weights
    # (clients,)
    changes: Callable[[], tuple[jax.Array, ...]] = tuple  # computes the means of the changes of
    # uploads over those heard
    beside: jax.Array | None = None  # shape=(): mean over those who send


class Memory(NamedTuple):
    """Memory of the server, of uploads without an exchange."""

    sums: tuple[jax.Array, ...]  # of all clients' weighted uploads
    weight: jax.Array  # shape=(): of all clients' weights
    known: Any  # the last Upload of every client, where they are silent in some rounds
    lost: tuple[jax.Array, ...] = ()  # what rounding has cut off the sums, for a solver with
    # `compensates`


class ExchangeState(NamedTuple):
    """Memory of both ends, of messages that pass an exchange."""

    up: tuple[ChannelState, ...]  # one for every array that a client sends
    down: Any  # of the channels down, for every array that the server sends


class StarState(NamedTuple):
    """The state of a solver with one server."""

    server: Any
    clients: Any  # stacked
    curvature: jax.Array  # shape=(): estimated before the first round; 1 where nothing needs it
    exchange: ExchangeState | Memory


class PerClient(NamedTuple):
    """A part of a broadcast of which every client reads its own row; no channel compresses it."""

    rows: jax.Array  # shape=(clients, ...)


def is_per_client(part: Any) -> bool:
    return isinstance(part, PerClient)


def parts(sends: Any) -> tuple[list[jax.Array], list[PerClient]]:
    """Return the arrays of a broadcast that all read alike, and the parts of which each has one."""
    leaves = jax.tree.leaves(sends, is_leaf=is_per_client)
    return [x for x in leaves if not is_per_client(x)], [x for x in leaves if is_per_client(x)]


def weighted(upload: Upload) -> tuple[jax.Array, ...]:
    """Return weights times values, (clients, ...)."""
    if upload.weighted is not None:
        return upload.weighted
    if upload.weights is None:
        return upload.values
    return tuple(times(value, upload.weights) for value in upload.values)


def add_up(upload: Upload, num_clients: int, dtype: Any) -> tuple[tuple[jax.Array, ...], jax.Array]:
    """Return the sums of weighted values over clients, and of their weights, shape ()."""
    weights = upload.weights
    weight = jnp.asarray(num_clients, dtype) if weights is None else jnp.sum(weights)
    return tuple(jnp.sum(value, 0) for value in weighted(upload)), weight


def known_uploads(upload: Upload, number: int) -> tuple[jax.Array, ...]:
    """Return uploads, and their weights, shape (clients,); nothing of clients without uploads."""
    values, weights = upload.values, upload.weights
    if not values:
        return ()
    return (*values, jnp.ones(number, values[0].dtype) if weights is None else weights)


def at_groups(
    values: jax.Array,
    groups: jax.Array | None,
    number: int | None,
    sending: jax.Array | None = None,
) -> jax.Array:
    """Return sums of values (clients, ...) over those who send; of flags, int32 counts."""
    if values.dtype == bool:
        values = values.astype(jnp.int32)
    if sending is not None:
        values = where_active(sending, values, jnp.zeros_like(values))
    if groups is None:
        return jnp.sum(values, 0)
    return segment_sum(values, groups, num_segments=number)


def beside(said: RoundMessage, sending: jax.Array) -> jax.Array | None:
    """Return the mean of the number beside what is said; 1 where nobody sends."""
    if said.beside is None:
        return None
    number = at_groups(sending, None, None)
    mean = over(at_groups(said.beside, None, None, sending), number)
    return jnp.where(number > 0, mean, 1)


def over(total: jax.Array, number: jax.Array) -> jax.Array:
    """Return a sum over the number of those heard, as a mean; 0 where nobody is."""
    divisor = jnp.maximum(number, 1).astype(total.dtype)
    return total / jnp.expand_dims(divisor, range(divisor.ndim, total.ndim))


def times(values: jax.Array, factors: jax.Array) -> jax.Array:
    factors = factors.astype(values.dtype)
    return values * jnp.expand_dims(factors, range(factors.ndim, values.ndim))


def stacked(array: jax.Array, number: int) -> jax.Array:
    return jnp.broadcast_to(array, (number, *array.shape))
