"""Checks of a channel: decoded values, state, bits on the wire, and constants."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm.messages import from_bytes, to_bytes
from fedjax_admm.testing._parts import FOR_SMOOTH, Bench, fresh, normal
from fedjax_admm.testing._shared import (
    both_precisions,
    demand,
    demand_close,
    demand_finite,
    demand_kind,
    demand_same_form,
    doing,
)

# A mean error is looked at over so many draws, and may be off by so many standard errors.
_DRAWS, _ERRORS = 512, 6.0


class Channel(Bench):
    """A channel, with the shape of its messages."""

    method = ".encode"

    def call(self, part: Any, *arguments: Any) -> Any:
        """Return the decoded message after another one, and the state."""
        first, message, key = arguments
        return part.encode(message, part.init(first), key)

    def arguments(self, trial: int, dtype: Any = np.float32) -> tuple:
        """Return two messages and a key."""
        pair = (normal(self.shape, dtype, seed + trial) for seed in (10, 20))
        return (*pair, fresh(trial))

    def smooth(self, part: Any, *arguments: Any) -> Any:
        """Encode a message with a state."""
        return part.encode(*arguments, fresh(5))

    def places(self, dtype: Any) -> dict[str, tuple]:
        """Return messages and a state."""
        zeros = jnp.zeros(self.shape, dtype)
        state = _init(self.part, zeros)
        messages = {"a message": normal(self.shape, dtype), "zeros": zeros, "ones": zeros + 1}
        return {what: (message, state) for what, message in messages.items()}


@jax.jit
def _init(channel: Any, message: jax.Array) -> Any:
    return channel.init(message)


@jax.jit
def _encode(channel: Any, message: jax.Array, state: Any, key: jax.Array) -> Any:
    return channel.encode(message, state, key)


@jax.jit
def _draws(channel: Any, message: jax.Array, keys: jax.Array) -> jax.Array:
    state = channel.init(jnp.zeros_like(message))
    return jax.vmap(lambda key: channel.encode(message, state, key)[0])(keys)


def _kind(b: Bench) -> None:
    demand(
        type(b.part.in_order) is bool,
        f"{b.name}.in_order must be True or False, a part of the structure, but it is "
        f"{b.part.in_order!r}.",
    )
    where = f"{b.where} of a message of shape {b.shape}"
    for dtype, channel in both_precisions(b.part):
        with doing(f"{b.name}.init of a message of shape {b.shape}"):
            state = _init(channel, normal(b.shape, dtype, 1))
        with doing(f"{where} and dtype {np.dtype(dtype).name}"):
            pair = _encode(channel, normal(b.shape, dtype), state, fresh(0))
        demand(
            isinstance(pair, tuple) and len(pair) == 2,
            f"{where} must return the decoded message and the state, but it returns a "
            f"{type(pair).__name__}.",
        )
        demand_kind(where, pair[0], b.shape, dtype)
        demand_finite(where, pair[0])
        demand_same_form(where, "a state", state, pair[1])


def _bits(b: Bench) -> None:
    with doing(f"{b.name}.bits of {b.shape}"):
        bits = b.part.bits(b.shape)
    demand(
        type(bits) is int and bits >= 0,
        f"{b.name}.bits({b.shape}) must be a whole Python number that is not negative, but it is "
        f"{bits!r}.",
    )
    if not hasattr(b.part, "layout"):
        return
    with doing(f"{b.name}.layout of {b.shape}"):
        total = sum(field.bits for field in jax.tree.leaves(b.part.layout(b.shape)))
    demand(
        total == bits,
        f"{b.name}.bits({b.shape}) must be the bits of its layout, {total}, but it is {bits}; "
        "return messages' count of the layout.",
    )
    if not (hasattr(b.part, "code") and hasattr(b.part, "read")):
        return
    message, state = normal(b.shape), b.part.init(normal(b.shape, seed=1))
    with doing(f"messages.to_bytes of the code of {b.name}"):
        # A channel with a state codes with it, another one with the key.
        code = b.part.code(message, state if jax.tree.leaves(state) else fresh(0))
        data = to_bytes(b.part, code, b.shape)
    demand(
        len(data) == -(-bits // 8),
        f"The code of {b.name} for messages of shape {b.shape} has {len(data)} bytes, but bits "
        f"says {bits}.",
    )
    with doing(f"messages.from_bytes of {b.name}"):
        code = from_bytes(b.part, data, b.shape, fresh(0))
        read = b.part.read(code, b.shape, message.dtype)
    arrives = _encode(b.part, message, state, fresh(0))[0]
    where = f"The message that is read from the bytes of {b.name}, and the decoded one,"
    demand_close(where, read, arrives, 1e-5, 1e-6)


def _zeros(b: Bench) -> None:
    arrives = zeros = jnp.zeros(b.shape, jnp.float32)
    with doing(f"{b.where} of zeros"):
        state = _init(b.part, zeros)
        for number in range(2):
            arrives, state = _encode(b.part, zeros, state, fresh(number))
    demand(
        not np.any(np.asarray(arrives) != 0),
        f"Zeros must arrive as zeros, but {b.name} makes {np.asarray(arrives).ravel()[:3]} of "
        "them; divide by what is zero only where it is not.",
    )


def _constants(b: Bench) -> None:
    """Compare mean errors with `omega` and `contraction`, and the mean with the message."""
    with doing(f"{b.name}.omega and contraction of {b.shape}"):
        omega = b.part.omega(b.shape) if hasattr(b.part, "omega") else None
        contraction = b.part.contraction(b.shape) if hasattr(b.part, "contraction") else 0.0
    allowed = omega is None or omega >= 0
    demand(allowed, f"{b.name}.omega({b.shape}) must not be {omega!r}.")
    demand(0 <= contraction <= 1, f"{b.name}.contraction({b.shape}) must not be {contraction!r}.")
    if omega is None and not contraction:
        return
    most = 1 - contraction if omega is None else omega
    claim = f"contraction({b.shape}) = {contraction:g}" if omega is None else f"omega = {omega:g}"
    one = np.eye(1, int(np.prod(b.shape)), dtype=np.float32).reshape(b.shape)
    messages = {"normal numbers": normal(b.shape), "ones": np.ones(b.shape, np.float32)}
    for what, message in {**messages, "one number and zeros": one}.items():
        message = np.asarray(message)
        arrives = np.asarray(_draws(b.part, message, jax.random.split(fresh(7), _DRAWS)))
        errors = np.sum((arrives - message).reshape(_DRAWS, -1) ** 2, -1) / np.sum(message**2)
        slack = _ERRORS * float(np.std(errors)) / np.sqrt(_DRAWS) + 1e-4
        demand(
            np.mean(errors) <= most + slack,
            f"The mean squared error of {b.name} for {what} of shape {b.shape} must be at most "
            f"{most:g} times the square of the message, by {claim}, but over {_DRAWS} draws it is "
            f"{np.mean(errors):.6g}.",
        )
        if omega is None:
            continue
        mean = arrives.mean(0)
        apart = np.abs(mean - message) - _ERRORS * arrives.std(0) / np.sqrt(_DRAWS)
        place = np.unravel_index(np.argmax(apart), b.shape)
        demand(
            np.all(apart <= 1e-4),
            f"{b.name} has an omega, and must be right on average, but the entry "
            f"{tuple(map(int, place))} of {what} is {message[place]:.5g}, and over {_DRAWS} draws "
            f"its mean is {mean[place]:.5g}; omega is None for a compressor that is biased.",
        )


CHANNEL_CHECKS = {
    "kind": _kind,
    "bits": _bits,
    "zeros": _zeros,
    "constants": _constants,
    **FOR_SMOOTH,
}
