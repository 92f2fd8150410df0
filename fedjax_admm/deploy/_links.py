"""What travels between a client and its server, as arrays, codes and fields on the wire."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm._checks import InputError, instance
from fedjax_admm._run._keys import round_keys
from fedjax_admm.deploy._messages import fields_of
from fedjax_admm.messages import Number, Prompt, Whole, no_attack
from fedjax_admm.solvers._messages import RoundMessage, Upload, parts
from fedjax_admm.solvers._star import StarSolver

STAR = (StarSolver, "a solver with one server, such as solvers.fed_admm()")


class Shapes(NamedTuple):
    """The arrays that one client sends, and what travels beside them."""

    said: list[tuple[int, ...]]
    upload: list[tuple[int, ...]]
    groups: bool  # whether a message is for one of several models
    beside: bool  # whether a number travels beside what is said
    weights: bool  # whether an upload has a weight


class Fields(NamedTuple):
    """What a message is on the wire: pytrees of fields, in the order of travelling."""

    codes: list[Any]  # of the arrays that pass the channel
    exact: list[Any]  # of what travels beside them


def check_deployable(solver: Any, kind: type, words: str) -> None:
    """Check that a solver is of a kind, and simulates nothing that happens in earnest here.

    Args:
      solver: any.
      kind: what it must derive from.
      words: a solver of this kind, in an error.

    Raises:
      InputError: it is not, or it does.
    """
    instance("solver", solver, kind, words)
    if isinstance(solver, StarSolver) and type(solver).step is not StarSolver.step:
        raise InputError(
            f"must be {words}, but a round of {type(solver).__name__} reads the problem of all "
            "clients at the server, where there are no data",
            argument="solver",
            value=solver,
        )
    exchange = solver.exchange
    if not (isinstance(exchange.attack, type(no_attack())) and isinstance(exchange.delay, Prompt)):
        raise InputError(
            "must have neither an attack nor a delay in its exchange: here clients are late, or "
            "Byzantine, by themselves",
            argument="solver",
            value=solver,
            remedy="leave both out; messages that come after a round is closed do not count",
        )


def round_key(solver: Any, key: jax.Array, index: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return whether clients send in a round, shape (), and the key of its messages."""
    talks, key = solver.coin(round_keys(key, index)[1])
    return jnp.ones((), bool) if talks is None else talks, key


def shapes_of(said: RoundMessage, upload: Upload) -> Shapes:
    """Return the shapes of what one client sends, from stacked arrays."""
    return Shapes(
        [value.shape[1:] for value in said.values],
        [value.shape[1:] for value in upload.values],
        said.groups is not None,
        said.beside is not None,
        upload.weights is not None,
    )


def number(shape: tuple[int, ...], dtype: Any) -> Number:
    """Return the field of numbers that no channel compresses."""
    return Number(shape, 8 * jnp.dtype(dtype).itemsize)


def exact(said: RoundMessage, upload: Upload, weights: bool) -> list[jax.Array]:
    """Return what travels beside the arrays, stacked."""
    values = [said.groups, said.beside, upload.weights if weights else None]
    return [value for value in values if value is not None]


def fields_up(solver: Any, shapes: Shapes, dtype: Any) -> Fields:
    """Return what a client's message of a round is on the wire."""
    weights = shapes.weights and not solver.fixed_weights
    return Fields(
        fields_of(solver.exchange.up, [*shapes.said, *shapes.upload], dtype),
        [Whole((), 32)] * shapes.groups + [number((), dtype)] * (shapes.beside + weights),
    )


def fields_first(shapes: Shapes, dtype: Any) -> Fields:
    """Return what a client's message before the first round is on the wire: exact numbers."""
    return Fields(
        [number(shape, dtype) for shape in [*shapes.said, *shapes.upload]],
        [Whole((), 32)] * shapes.groups + [number((), dtype)] * (shapes.beside + shapes.weights),
    )


def fields_down(solver: Any, sends: Any, dtype: Any) -> Fields:
    """Return what the server's message to one client is on the wire.

    Args:
      solver: with the channel down.
      sends: the broadcast, or its shapes.
      dtype: of its numbers.
    """
    shared, each = parts(sends)
    return Fields(
        fields_of(solver.exchange.down, [leaf.shape for leaf in shared], dtype),
        [number(part.rows.shape[1:], dtype) for part in each],
    )


def keys_of(fields: Fields, keys: list[jax.Array]) -> list[jax.Array | None]:
    """Return the key that both ends share for every field: one of `keys` per code."""
    shared = [
        key
        for code, key in zip(fields.codes, keys, strict=True)
        for _ in range(len(jax.tree.leaves(code)))
    ]
    return [*shared, *[None] * len(fields.exact)]


@partial(jax.jit, static_argnames=("shape", "dtype"))
def decoded(channel, code, held, *, shape, dtype):
    """Return what a code says, and what its receiver remembers then."""
    return channel.receive(code, held, shape, dtype)
