"""Schedules: numbers that change with a client's own count of updates.

A schedule is a callable pytree: `schedule(count) -> value`, elementwise on integer arrays, so that
clients that have taken part differently often have different values. Counts start at 1: the first
update of a client uses `schedule(1)`. The numbers of a schedule are leaves: they can be stacked,
vmapped over and differentiated.

A new schedule is three lines:

    def logarithmic(k, scale):
        return scale * jnp.log1p(k)
    sigma = schedule(logarithmic, scale=0.1)
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike

from fedjax_admm._checks import InputError, number
from fedjax_admm._pytrees import register_dataclass


@runtime_checkable
class Schedule(Protocol):
    """A value for every count of updates."""

    def __call__(self, count: jax.Array, /) -> jax.Array:
        """Return the values at `count` (integers from 1, any shape), in the same shape."""
        ...


@register_dataclass
@dataclass(frozen=True, eq=False)
class Constant:
    """The same value at every count."""

    value: jax.Array  # shape=()

    def __call__(self, count: jax.Array) -> jax.Array:
        """Return `value` for every entry of `count`."""
        return jnp.full(count.shape, self.value)


@register_dataclass
@dataclass(frozen=True, eq=False)
class SqrtGrowth:
    """`scale * sqrt(k)`: the penalty parameters sigma of the smoothing ADMM."""

    scale: jax.Array  # shape=()

    def __call__(self, count: jax.Array) -> jax.Array:
        """Return `scale * sqrt(count)`."""
        return self.scale * jnp.sqrt(count.astype(self.scale.dtype))


@register_dataclass
@dataclass(frozen=True, eq=False)
class SqrtDecay:
    """`scale / sqrt(k)`: the smoothing parameters mu of the smoothing ADMM."""

    scale: jax.Array  # shape=()

    def __call__(self, count: jax.Array) -> jax.Array:
        """Return `scale / sqrt(count)`; infinite at count 0."""
        return self.scale / jnp.sqrt(count.astype(self.scale.dtype))


@register_dataclass
@dataclass(frozen=True, eq=False)
class PowerDecay:
    """`scale / k**power`: diminishing step sizes."""

    scale: jax.Array  # shape=()
    power: jax.Array  # shape=()

    def __call__(self, count: jax.Array) -> jax.Array:
        """Return `scale * count ** -power`; infinite at count 0."""
        return self.scale * count.astype(self.scale.dtype) ** -self.power


@register_dataclass
@dataclass(frozen=True, eq=False)
class Geometric:
    """`scale * ratio**(k - 1)`: starts at `scale`."""

    scale: jax.Array  # shape=()
    ratio: jax.Array  # shape=()

    def __call__(self, count: jax.Array) -> jax.Array:
        """Return `scale * ratio ** (count - 1)`."""
        return self.scale * self.ratio ** (count - 1).astype(self.scale.dtype)


@register_dataclass
@dataclass(frozen=True, eq=False)
class Formula:
    """A schedule of one's own: `function(k, **parameters)`, built by `schedule`."""

    parameters: dict[str, jax.Array]
    function: Callable[..., jax.Array] = field(metadata={"static": True})

    def __call__(self, count: jax.Array) -> jax.Array:
        """Return `function(count as floats, **parameters)`."""
        dtype = jnp.result_type(float, *self.parameters.values())
        return jnp.broadcast_to(self.function(count.astype(dtype), **self.parameters), count.shape)


@register_dataclass
@dataclass(frozen=True, eq=False)
class FromOptax:
    """An optax schedule, built by `from_optax`."""

    function: optax.Schedule = field(metadata={"static": True})

    def __call__(self, count: jax.Array) -> jax.Array:
        """Return the optax schedule at every entry of `count`."""
        # optax mixes dtypes and ranks, which a strict caller forbids in code of its own.
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            flat = jax.vmap(lambda one: jnp.asarray(self.function(one), float))(count.reshape(-1))
        return flat.reshape(count.shape)


def constant(value: ArrayLike) -> Constant:
    """Build `Constant`; the value must be finite."""
    return Constant(number("value", value))


def sqrt_growth(scale: ArrayLike) -> SqrtGrowth:
    """Build `SqrtGrowth`; the scale must be positive."""
    return SqrtGrowth(number("scale", scale, above=0))


def sqrt_decay(scale: ArrayLike) -> SqrtDecay:
    """Build `SqrtDecay`; the scale must be positive."""
    return SqrtDecay(number("scale", scale, above=0))


def power_decay(scale: ArrayLike, power: ArrayLike) -> PowerDecay:
    """Build `PowerDecay`; the scale must be positive, the power not negative."""
    return PowerDecay(number("scale", scale, above=0), number("power", power, at_least=0))


def geometric(scale: ArrayLike, ratio: ArrayLike) -> Geometric:
    """Build `Geometric`; the scale and the ratio must be positive."""
    return Geometric(number("scale", scale, above=0), number("ratio", ratio, above=0))


def schedule(function: Callable[..., jax.Array], **parameters: ArrayLike) -> Formula:
    """Make a schedule of `function(k, **parameters)`.

    Args:
      function: elementwise in `k`, an array of counts as floats. It is static: a module-level
        function compiles once, a new lambda compiles again at every call.
      **parameters: numbers; they become leaves, so they can be vmapped and learnt.

    Returns:
      A schedule. To learn its numbers, start from its own leaves, `jax.tree.map(jnp.log,
      mu.parameters)`, say: they are strong arrays, while a Python number compiles once more.

    Raises:
      InputError: `function` is not callable, or a parameter is not a finite number.
    """
    if not callable(function):
        raise InputError(f"function must be callable as function(k, ...), but it is {function!r}.")
    return Formula({name: number(name, value) for name, value in parameters.items()}, function)


def from_optax(optax_schedule: optax.Schedule) -> FromOptax:
    """Use an optax schedule, called with the count as it is (the first update asks for 1).

    An optax schedule is a closure: its numbers are **static**. Every new one compiles anew, and
    they can be neither vmapped nor differentiated; for that, write the formula with `schedule`.

    Args:
      optax_schedule: maps a count to a scalar. It is vmapped over counts, so schedules that
        are written for scalars only work too.

    Returns:
      A schedule.

    Raises:
      InputError: `optax_schedule` is not callable.
    """
    if not callable(optax_schedule):
        raise InputError(f"optax_schedule must be callable, but it is {optax_schedule!r}.")
    return FromOptax(optax_schedule)
