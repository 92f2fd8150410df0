"""Checks of a channel: what arrives, what is remembered, and what it costs on the wire."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm._shown import short_repr
from fedjax_admm.messages import from_bytes, to_bytes
from fedjax_admm.testing._messages import (
    both_precisions,
    check_part,
    demand_derivatives,
    demand_one_trace,
    demand_pure,
    demand_same_state,
    demand_vmap,
    fresh,
    normal,
)
from fedjax_admm.testing._shared import (
    demand,
    demand_close,
    demand_finite,
    demand_kind,
    doing,
    make,
    name_of,
)

# Of an error that is an average: so many draws, and so many standard errors.
_DRAWS, _ERRORS = 512, 6.0


@short_repr
class _Bench(NamedTuple):
    channel: Any
    shapes: tuple[tuple[int, ...], ...]

    @property
    def name(self) -> str:
        return name_of(self.channel)


def check_channel(
    channel: Any,
    *,
    shapes: Sequence[tuple[int, ...]] = ((6,), (2, 3)),
    only: str | Sequence[str] | None = None,
) -> None:
    """Check a channel: `init`, `encode`, `bits` and `in_order`, for one message of one sender.

    - `kind`: what arrives has the shape and the dtype of the message, float32 and float64, and is
      finite; the state keeps its structure, shapes and dtypes; `in_order` is a bool.
    - `bits`: whole numbers of Python, at least 0; where there is a `layout`, what it says; where
      there is a `code` too, the bytes of `messages.to_bytes`, of which the message can be read.
    - `zeros`: of zeros and from zeros on, zeros arrive.
    - `scan`: messages in a `jax.lax.scan` arrive as they do one by one.
    - `jit`: the same numbers under `jax.jit`, and one trace for all numbers of the channel.
    - `vmap`: the same for many senders as for each alone, also if each has its own numbers.
    - `derivatives`: finite by the message, the state and the numbers, at ties and at zero, too.
    - `keys`: the same key gives the same; no key is used twice.
    - `constants`: where the channel says its `omega(shape)` or `contraction(shape)`, averages over
      512 draws obey them.

    Args:
      channel: a pytree, as `messages.qsgd(4)` is.
      shapes: of messages.
      only: names of the checks to make; all if None.

    Raises:
      AssertionError: a check fails.
      InputError: it has not these members, is no pytree, or there are no shapes.
    """
    wanted = "a channel such as messages.qsgd(4)"
    check_part("channel", channel, ("init", "encode", "bits", "in_order"), wanted)
    sizes = tuple(tuple(shape) for shape in shapes)
    if not sizes or not all(sizes):
        raise InputError(
            f"must be shapes of messages such as ((6,), (2, 3)), but they are {shapes}",
            argument="shapes",
            value=shapes,
        )
    make(_Bench(channel, sizes), _CHECKS, only)


@jax.jit
def _init(channel: Any, message: jax.Array) -> Any:
    return channel.init(message)


@jax.jit
def _encode(channel: Any, message: jax.Array, state: Any, key: jax.Array) -> Any:
    return channel.encode(message, state, key)


@jax.jit
def _errors(channel: Any, message: jax.Array, keys: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return what arrives in many draws, and the squared errors."""
    state = channel.init(jnp.zeros_like(message))
    arrives = jax.vmap(lambda key: channel.encode(message, state, key)[0])(keys)
    apart = (arrives - message[None]).reshape(keys.shape[0], -1)
    return arrives, jnp.sum(apart**2, -1)


def _sent(channel: Any, first: jax.Array, message: jax.Array, key: jax.Array) -> Any:
    """Return what arrives of a message after another one, and the state."""
    return channel.encode(message, channel.init(first), key)


def _kind(b: _Bench) -> None:
    demand(
        type(b.channel.in_order) is bool,
        f"{b.name}.in_order must be True or False, a part of the structure, but it is "
        f"{b.channel.in_order!r}.",
    )
    for channel, dtype in both_precisions(b.channel):
        for shape in b.shapes:
            where = f"{b.name}.encode of a message of shape {shape}"
            message = normal(shape, dtype)
            with doing(f"{b.name}.init of a message of shape {shape}"):
                state = _init(channel, normal(shape, dtype, 1))
            with doing(f"{where} and dtype {np.dtype(dtype).name}"):
                found = _encode(channel, message, state, fresh(0))
            demand(
                isinstance(found, tuple) and len(found) == 2,
                f"{where} must return what arrives and the state, but it returns a "
                f"{type(found).__name__}.",
            )
            demand_kind(where, found[0], shape, dtype)
            demand_finite(where, found[0])
            demand_same_state(where, "a state", state, found[1])


def _bits(b: _Bench) -> None:
    for shape in b.shapes:
        with doing(f"{b.name}.bits of {shape}"):
            bits = b.channel.bits(shape)
        demand(
            type(bits) is int and bits >= 0,
            f"{b.name}.bits({shape}) must be a whole Python number that is not negative, but it is "
            f"{bits!r}.",
        )
        if not hasattr(b.channel, "layout"):
            continue
        with doing(f"{b.name}.layout of {shape}"):
            told = sum(field.bits for field in jax.tree.leaves(b.channel.layout(shape)))
        demand(
            told == bits,
            f"{b.name}.bits({shape}) must be the bits of its layout, {told}, but it is {bits}; "
            "return messages' count of the layout.",
        )
        if hasattr(b.channel, "code") and hasattr(b.channel, "read"):
            _wire(b, shape, bits)


def _wire(b: _Bench, shape: tuple[int, ...], bits: int) -> None:
    """Demand that the code of a message can be written as so many bits, and be read."""
    message = normal(shape, np.float32)
    state = b.channel.init(normal(shape, np.float32, 1))
    # What remembers something codes with it, anything else with the key.
    remembers = bool(jax.tree.leaves(state))
    with doing(f"messages.to_bytes of the code of {b.name}"):
        code = b.channel.code(message, state if remembers else fresh(0))
        data = to_bytes(b.channel, code, shape)
    demand(
        len(data) == -(-bits // 8),
        f"The code of {b.name} for messages of shape {shape} has {len(data)} bytes, but bits says "
        f"{bits}.",
    )
    with doing(f"messages.from_bytes of {b.name}"):
        read = b.channel.read(from_bytes(b.channel, data, shape, fresh(0)), shape, message.dtype)
    arrives = _encode(b.channel, message, state, fresh(0))[0]
    where = f"What is read of the bytes of {b.name}, and what arrives,"
    demand_close(where, read, arrives, 1e-5, 1e-6)


def _zeros(b: _Bench) -> None:
    for shape in b.shapes:
        arrives = zeros = jnp.zeros(shape, jnp.float32)
        with doing(f"{b.name}.encode of zeros"):
            state = _init(b.channel, zeros)
            for turn in range(2):
                arrives, state = _encode(b.channel, zeros, state, fresh(turn))
        demand(
            not np.any(np.asarray(arrives) != 0),
            f"Zeros must arrive as zeros, but {b.name} makes {np.asarray(arrives).ravel()[:3]} of "
            "them; divide by what is zero only where it is not.",
        )


def _scan(b: _Bench) -> None:
    for shape in b.shapes:
        messages = normal((3, *shape), np.float32)
        first = _init(b.channel, normal(shape, np.float32, 1))

        def send(state, given, channel=b.channel):
            arrives, state = channel.encode(given[0], state, given[1])
            return state, arrives

        with doing(f"{b.name}.encode in a jax.lax.scan"):
            last, arrived = jax.jit(lambda *given: jax.lax.scan(send, given[0], given[1:]))(
                first, messages, jax.random.split(fresh(2), 3)
            )
        state, alone = first, []
        for message, key in zip(messages, jax.random.split(fresh(2), 3), strict=True):
            arrives, state = _encode(b.channel, message, state, key)
            alone.append(arrives)
        where = f"Three messages through {b.name} in a jax.lax.scan and one by one"
        demand_close(where, (arrived, last), (jnp.stack(alone), state), 1e-5, 1e-5)


def _jit(b: _Bench) -> None:
    for shape in b.shapes:
        pair = normal(shape, np.float32, 1), normal(shape, np.float32)
        where = f"{b.name}.encode"
        demand_one_trace(where, b.channel, _sent, lambda pair=pair: (*pair, fresh(3)), 1e-5)


def _vmap(b: _Bench) -> None:
    for shape in b.shapes:

        def given(trial, shape=shape):
            first = normal(shape, np.float32, 10 + trial)
            return first, normal(shape, np.float32, 20 + trial), fresh(trial)

        demand_vmap(f"{b.name}.encode", b.channel, _sent, given, 1e-5)
        messages = normal((3, *shape), np.float32)
        with doing(f"{b.name} under jax.vmap, over senders"):
            state = jax.vmap(b.channel.init)(messages)
            many = jax.vmap(b.channel.encode)(messages, state, jax.random.split(fresh(4), 3))
        keys = jax.random.split(fresh(4), 3)
        for sender, message in enumerate(messages):
            alone = _sent(b.channel, message, message, keys[sender])
            found = jax.tree.map(lambda leaf, row=sender: leaf[row], many)
            demand_close(f"{b.name} for many senders and for one", found, alone, 1e-5, 1e-5)


def _derivatives(b: _Bench) -> None:
    for channel, dtype in both_precisions(b.channel):
        for shape in b.shapes:
            state = _init(channel, jnp.zeros(shape, dtype))
            demand_derivatives(
                f"{b.name}.encode",
                lambda channel, message, state: channel.encode(message, state, fresh(5)),
                {
                    "a message": (channel, normal(shape, dtype), state),
                    "zeros": (channel, jnp.zeros(shape, dtype), state),
                    "equal numbers": (channel, jnp.ones(shape, dtype), state),
                },
                (0, 1, 2),
            )


def _keys(b: _Bench) -> None:
    for shape in b.shapes:
        first, message = normal(shape, np.float32, 1), normal(shape, np.float32)
        demand_pure(
            f"{b.name}.encode",
            lambda *given: _sent(b.channel, *given),
            lambda given=(first, message): (*given, fresh(6)),
        )


def _constants(b: _Bench) -> None:
    omegas = getattr(b.channel, "omega", lambda shape: None)
    contractions = getattr(b.channel, "contraction", lambda shape: 0.0)
    for shape in b.shapes:
        with doing(f"{b.name}.omega and contraction of {shape}"):
            omega, contraction = omegas(shape), contractions(shape)
        for name, constant, fits in (
            ("omega", omega, omega is None or omega >= 0),
            ("contraction", contraction, 0 <= contraction <= 1),
        ):
            demand(fits, f"{b.name}.{name}({shape}) must not be {constant!r}.")
        if omega is None and not contraction:
            continue
        places = {
            "normal numbers": np.asarray(normal(shape, np.float32)),
            "equal numbers": np.ones(shape, np.float32),
            "one number and zeros": np.eye(1, int(np.prod(shape)), dtype=np.float32).reshape(shape),
        }
        for what, message in places.items():
            arrives, errors = _errors(b.channel, message, jax.random.split(fresh(7), _DRAWS))
            size = float(np.sum(message**2))
            _obeys(b, shape, what, np.asarray(errors) / size, omega, contraction)
            if omega is not None:
                _unbiased(b, shape, what, np.asarray(arrives), message)


def _obeys(b, shape, what, errors, omega, contraction) -> None:
    """Demand that relative squared errors are as small on average as the constants say."""
    rounding = 1e-4
    most = 1 - contraction if omega is None else omega
    found = float(np.mean(errors))
    slack = _ERRORS * float(np.std(errors)) / np.sqrt(_DRAWS) + rounding
    claim = f"contraction({shape}) = {contraction:g}" if omega is None else f"omega = {omega:g}"
    demand(
        found <= most + slack,
        f"The mean squared error of {b.name} for {what} of shape {shape} must be at most {most:g} "
        f"times the square of the message, by {claim}, but over {_DRAWS} draws it is {found:.6g}.",
    )


def _unbiased(b, shape, what, arrives, message) -> None:
    """Demand that averages over draws are the message."""
    apart = np.abs(arrives.mean(0) - message)
    slack = _ERRORS * arrives.std(0) / np.sqrt(_DRAWS) + 1e-4
    place = np.unravel_index(np.argmax(apart - slack), shape)
    demand(
        np.all(apart <= slack),
        f"{b.name} has an omega, and must be right on average, but the entry "
        f"{tuple(map(int, place))} of {what} is {message[place]:.5g}, and what arrives is "
        f"{arrives.mean(0)[place]:.5g} on average over {_DRAWS} draws; omega is None for a "
        "compressor that is biased.",
    )


_CHECKS = {
    "kind": _kind,
    "bits": _bits,
    "zeros": _zeros,
    "scan": _scan,
    "jit": _jit,
    "vmap": _vmap,
    "derivatives": _derivatives,
    "keys": _keys,
    "constants": _constants,
}
CHANNEL_CHECKS: tuple[str, ...] = tuple(_CHECKS)
"""The names of the checks that `check_channel` makes."""
