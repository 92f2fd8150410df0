"""Schedules: numbers that change with a client's own count of updates.

A schedule is a callable pytree: `schedule(count) -> value`, elementwise on integer arrays, so that
clients that have taken part differently often have different values. Counts start at 1: the first
update of a client uses `schedule(1)`. The numbers of a schedule are leaves: they can be stacked,
vmapped over and differentiated.

A new schedule is three lines:

    def logarithmic(k, scale):
        return scale * jnp.log1p(k)
    sigma = schedule(logarithmic, scale=0.1)

Builders of solvers take more than that: wherever a schedule is wanted, a number, an optax schedule
or a plain function of the count will do (`as_schedule`).
"""

from collections.abc import Callable
from dataclasses import field
from typing import Any, Protocol, TypeAlias, runtime_checkable

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import InputError, default_float, is_real, number, one_line, scalar
from fedjax_admm._pytrees import pytree_dataclass


@runtime_checkable
class Schedule(Protocol):
    """A value for every count of updates."""

    def __call__(self, count: jax.Array, /) -> jax.Array:
        """Return the values at `count` (integers from 1, any shape), in the same shape."""
        ...


@pytree_dataclass
class Constant:
    """The same value at every count."""

    value: jax.Array  # shape=()

    def __call__(self, count: ArrayLike) -> jax.Array:
        """Return `value` for every entry of `count`."""
        return jnp.full(jnp.shape(count), self.value)


@pytree_dataclass
class SqrtGrowth:
    """`scale * sqrt(k)`: the penalty parameters sigma of the smoothing ADMM."""

    scale: jax.Array  # shape=()

    def __call__(self, count: ArrayLike) -> jax.Array:
        """Return `scale * sqrt(count)`."""
        return self.scale * jnp.sqrt(_floats(count, self.scale))


@pytree_dataclass
class SqrtDecay:
    """`scale / sqrt(k)`: the smoothing parameters mu of the smoothing ADMM."""

    scale: jax.Array  # shape=()

    def __call__(self, count: ArrayLike) -> jax.Array:
        """Return `scale / sqrt(count)`; infinite at count 0."""
        return self.scale / jnp.sqrt(_floats(count, self.scale))


@pytree_dataclass
class PowerDecay:
    """`scale / k**power`: diminishing step sizes."""

    scale: jax.Array  # shape=()
    power: jax.Array  # shape=()

    def __call__(self, count: ArrayLike) -> jax.Array:
        """Return `scale * count ** -power`; infinite at count 0."""
        return self.scale * _floats(count, self.scale) ** -self.power


@pytree_dataclass
class Geometric:
    """`scale * ratio**(k - 1)`: starts at `scale`."""

    scale: jax.Array  # shape=()
    ratio: jax.Array  # shape=()

    def __call__(self, count: ArrayLike) -> jax.Array:
        """Return `scale * ratio ** (count - 1)`."""
        return self.scale * self.ratio ** _floats(jnp.asarray(count) - 1, self.scale)


@pytree_dataclass
class Formula:
    """A schedule of one's own: `function(k, **parameters)`, built by `schedule`."""

    parameters: dict[str, jax.Array]
    like: jax.Array  # shape=(), 1: counts and values have its dtype, which a run makes its own
    function: Callable[..., jax.Array] = field(metadata={"static": True})

    def __call__(self, count: ArrayLike) -> jax.Array:
        """Return `function(count as floats, **parameters)`."""
        values = self.function(_floats(count, self.like), **self.parameters)
        return jnp.broadcast_to(jnp.asarray(values, self.like.dtype), jnp.shape(count))


@pytree_dataclass
class FunctionOfCount:
    """A function of one count, such as an optax schedule; built by `from_optax`."""

    like: jax.Array  # shape=(), 1: counts and values have its dtype, which a run makes its own
    function: Callable[[Any], Any] = field(metadata={"static": True})

    def __call__(self, count: ArrayLike) -> jax.Array:
        """Return the function's value at every entry of `count`."""

        def value(one: jax.Array) -> jax.Array:
            return jnp.asarray(self.function(one), self.like.dtype)

        # optax mixes dtypes and ranks, which a strict caller forbids in code of its own.
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            flat = jax.vmap(value)(_floats(count, self.like).reshape(-1))
        return flat.reshape(jnp.shape(count))


ScheduleLike: TypeAlias = Schedule | Callable[[Any], Any] | ArrayLike
"""What builders take where a schedule is wanted."""


def constant(value: ArrayLike) -> Constant:
    """Build `Constant`; the value must be finite."""
    return Constant(scalar("value", value))


def sqrt_growth(scale: ArrayLike) -> SqrtGrowth:
    """Build `SqrtGrowth`; the scale must be positive."""
    return SqrtGrowth(scalar("scale", scale, above=0))


def sqrt_decay(scale: ArrayLike) -> SqrtDecay:
    """Build `SqrtDecay`; the scale must be positive."""
    return SqrtDecay(scalar("scale", scale, above=0))


def power_decay(scale: ArrayLike, power: ArrayLike) -> PowerDecay:
    """Build `PowerDecay`; the scale must be positive, the power not negative."""
    return PowerDecay(scalar("scale", scale, above=0), scalar("power", power, at_least=0))


def geometric(scale: ArrayLike, ratio: ArrayLike) -> Geometric:
    """Build `Geometric`; the scale and the ratio must be positive."""
    return Geometric(scalar("scale", scale, above=0), scalar("ratio", ratio, above=0))


def schedule(function: Callable[..., jax.Array], **parameters: ArrayLike) -> Formula:
    """Make a schedule of `function(k, **parameters)`.

    Args:
      function: elementwise in `k`, an array of counts as floats. It is static: a module-level
        function compiles once, a new lambda compiles again at every call.
      **parameters: numbers; they become leaves, so they can be vmapped and learnt.

    Returns:
      A schedule. To learn its numbers, start from its own leaves, `jax.tree.map(jnp.log,
      mu.parameters)`, say: they are strong arrays, while a Python number compiles once more.
    """
    if not callable(function):
        raise InputError(
            f"must be callable as function(k, ...), but it is {one_line(function)}",
            argument="function",
            value=function,
            remedy="take schedules.constant for a number",
        )
    leaves = {name: number(name, value) for name, value in parameters.items()}
    # A strict caller forbids parameters of several dtypes where they meet, not here.
    with jax.numpy_dtype_promotion("standard"):
        dtype = jnp.result_type(*leaves.values()) if leaves else default_float()
    return Formula(leaves, jnp.ones((), dtype), function)


def from_optax(optax_schedule: Callable[[Any], Any]) -> FunctionOfCount:
    """Use an optax schedule, or any function of one count; the first update asks for 1.

    The count is a float of the problem's dtype, and so is the value, whatever the function computes
    in. The function is static: a new one compiles anew. What it closes over may be traced, so that
    a number inside it can be vmapped over and differentiated where the schedule is built inside the
    function that JAX transforms; numbers that are to be leaves want `schedule`.

    Args:
      optax_schedule: maps a count to a scalar. It is vmapped over counts, so schedules that
        are written for scalars only work too.

    Returns:
      A schedule.
    """
    if not callable(optax_schedule):
        raise InputError(
            f"must be callable, but it is {one_line(optax_schedule)}",
            argument="optax_schedule",
            value=optax_schedule,
            remedy="take schedules.constant for a number",
        )
    return FunctionOfCount(jnp.ones((), default_float()), optax_schedule)


def as_schedule(
    name: str,
    value: ScheduleLike,
    of_number: Callable[[jax.Array], Schedule] = constant,
    **limits: float,
) -> Schedule:
    """Turn what a builder is given for a schedule into one.

    Args:
      name: what the argument is called, for the message.
      value: a schedule, which stays as it is; an optax schedule or another function of one count;
        or a number.
      of_number: what a number stands for: a constant, unless the builder documents otherwise.
      **limits: of a number, such as `above=0`.

    Returns:
      A schedule.
    """
    if not callable(value):
        if not is_real(value):
            raise InputError(
                "must be a schedule, a function of a count or a number, but it is "
                f"{one_line(value)}",
                argument=name,
                value=value,
            )
        return of_number(scalar(name, value, **limits))
    if not jax.tree_util.all_leaves([value]):
        return value
    function = from_optax(value)
    try:
        jax.eval_shape(function, jnp.ones((1,), jnp.int32))
    except (TypeError, ValueError) as error:
        reason = str(error).split("\n")[0]
        raise InputError(
            f"must be a schedule, or a function that gives a number for a count, but "
            f"{one_line(value)} gives none ({reason.removesuffix('.')})",
            argument=name,
            value=value,
        ) from error
    return function


def _floats(count: ArrayLike, like: jax.Array) -> jax.Array:
    """Return counts as floats of the dtype of a schedule's numbers."""
    return jnp.asarray(count).astype(like.dtype)
