"""The sum of a user's losses over one client's samples or minibatches, with keys and states."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from fedjax_admm._threefry import fold_in
from fedjax_admm.problems._client_data import Client

# What a client's key is folded with for its loss; minibatches fold it with the number of a step.
LOSS = 2**32 - 1

# The places of a minibatch among a client's samples, shape=(size,), and how many of them count.
Places: TypeAlias = tuple[jax.Array, jax.Array]


def client_value(loss: Callable[..., Any], problem: Any) -> Callable:
    """Return `value(point, client, scale, private)`: scale times a client's sum of losses."""
    both = client_value_and_state(loss, problem)
    return lambda point, client, scale, private: both(point, client, scale, private)[0]


def client_value_and_state(loss: Callable[..., Any], problem: Any) -> Callable:
    """Return a function as `client_value` does, which also returns the client's state after it."""
    size = problem.batch_size if problem.batch else None

    def value(point, client, scale, private):
        params = problem.layout.tree(jnp.concatenate([point, private]))
        client = client if size is None else _in_batches(client, size)
        single, terms = terms_of(loss, client)
        losses, returned = jax.vmap(single, (None, 0))(params, terms)
        here, states = present(client), client.state
        if returned is not None:
            states = jax.tree.map(partial(_mean, here, client.size), returned, states)
        return scale * jnp.sum(jnp.where(here, losses, 0)).astype(point.dtype), states

    return value


def _mean(here: jax.Array, size: jax.Array, states: jax.Array, before: jax.Array) -> jax.Array:
    """Return the mean of states (terms, ...) over those that are present, or the first of them."""
    if not jnp.issubdtype(before.dtype, jnp.floating):
        return states[0]
    if states.shape[0] == 1:
        return states[0].astype(before.dtype)
    total = jnp.sum(jnp.where(jnp.expand_dims(here, range(1, states.ndim)), states, 0), 0)
    return (total / size.astype(total.dtype)).astype(before.dtype)


def parameter(name: str, function: Callable[..., Any]) -> inspect.Parameter | None:
    """Return a parameter of a loss or a score, such as `key` or `state`; None where it has none."""
    try:
        return inspect.signature(function).parameters.get(name)
    except ValueError:  # built in, without a signature
        return None


def at_client_state(function: Callable[..., Any], state: Any) -> Callable[..., Any]:
    """Return a loss or a score at a state, if it has a parameter for that."""
    return function if parameter("state", function) is None else partial(function, state=state)


def terms_of(loss: Callable[..., Any], client: Client) -> tuple[Callable[..., Any], Any]:
    """Return `loss(params, term) -> (value, state)`, and a client's terms, stacked.

    Terms are samples, or samples and keys. The state is None where the loss has none.

    The key of term j in step s of client l, from the key of the round, is
    `fold_in(fold_in(fold_in(fold_in(key, l), 2**32 - 1), s), j)`; j is the place of the term in the
    minibatch, or among all samples where there are no minibatches. Without a key of the round, the
    parameter keeps its default. If it has none, the key is `fold_in(fold_in(key(0), l), j)` in
    every call.
    """
    asked, key = parameter("key", loss), client.key
    keeps, own = parameter("state", loss) is not None, at_client_state(loss, client.state)

    def both(params: Any, sample: Any, **more: Any) -> tuple[jax.Array, Any]:
        result = own(params, sample, **more)
        return result if keeps else (result, None)

    if asked is None or (key is None and asked.default is not asked.empty):
        return both, client.samples
    if key is None:
        key = fold_in(jax.random.key(0), client.number)
    places = jnp.arange(_rows(client), dtype=jnp.uint32)
    keys = jax.vmap(fold_in, (None, 0))(key, places)
    return lambda params, term: both(params, term[0], key=term[1]), (client.samples, keys)


def _in_batches(client: Client, size: int) -> Client:
    """Return a client whose samples are its minibatches, (batches, size, ...), in their order.

    Those of padding are copies of the first one.
    """
    number, count = _rows(client) // size, client.size // size
    here = jnp.arange(number, dtype=jnp.int32) < count

    def cut(leaf: jax.Array) -> jax.Array:
        whole = leaf[: number * size].reshape(number, size, *leaf.shape[1:])
        return jnp.where(jnp.expand_dims(here, range(1, whole.ndim)), whole, whole[:1])

    return client._replace(samples=jax.tree.map(cut, client.samples), size=count)


def _rows(client: Client) -> int:
    """Return the number of samples with padding."""
    return jax.tree.leaves(client.samples)[0].shape[0]


def present(client: Client) -> jax.Array:
    """Return which samples are the client's, and no padding, shape (samples,)."""
    return jnp.arange(_rows(client), dtype=jnp.int32) < client.size


def with_replacement(key: jax.Array, step: jax.Array, client: Client, size: int) -> Places:
    """Return the minibatch of a step: independent draws."""
    places = jax.random.randint(fold_in(key, step), (size,), 0, client.size)
    return places, jnp.full((), size, jnp.int32)


def of_an_epoch(
    key: jax.Array, step: jax.Array, client: Client, size: int, *, whole: bool
) -> Places:
    """Return the minibatch of a step; the client's samples are shuffled every epoch.

    The last minibatch of an epoch has the samples that are left, unless all are to be whole: then
    these samples are left out.
    """
    here = present(client)
    steps = jnp.maximum(client.size // size, 1) if whole else -(-client.size // size)
    shuffle = fold_in(key, step // steps)
    order = jnp.argsort(jnp.where(here, jax.random.uniform(shuffle, here.shape), jnp.inf))
    begin = (step % steps) * size
    places = jnp.minimum(begin + jnp.arange(size, dtype=jnp.int32), here.shape[0] - 1)
    return order[places], jnp.minimum(client.size - begin, size)
