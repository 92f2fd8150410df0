"""Schedules: numbers that change with a client's own count of updates.

A schedule is a callable pytree: `schedule(count) -> value`, elementwise on integer arrays, so that
clients that have taken part differently often have different values. Counts start at 1: the first
update of a client uses `schedule(1)`. The numbers of a schedule are leaves: they can be stacked,
vmapped over and differentiated.

A new schedule is three lines:

    def logarithmic(k, scale):
        return scale * jnp.log1p(k)
    sigma = schedule(logarithmic, scale=0.1)

Where a builder takes a schedule, it also takes a number, an optax schedule or a plain function of
the count (`as_schedule`).
"""

from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Any, Protocol, TypeAlias, runtime_checkable

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import (
    InputError,
    build,
    declared,
    default_float,
    is_real,
    number,
    one_line,
    positive,
    scalar,
)
from fedjax_admm._pytrees import pytree_dataclass

__all__ = [
    "Schedule",
    "ScheduleLike",
    "as_schedule",
    "constant",
    "from_optax",
    "geometric",
    "power_decay",
    "schedule",
    "sqrt_decay",
    "sqrt_growth",
]


def __dir__() -> list[str]:
    return __all__


@runtime_checkable
class Schedule(Protocol):
    """A value for every count of updates."""

    def __call__(self, count: jax.Array, /) -> jax.Array:
        """Return the values at `count` (integers from 1, any shape), in the same shape."""
        ...


@pytree_dataclass
class Constant:
    """The same value at every count."""

    value: jax.Array = declared(scalar)  # shape=()

    def __call__(self, count: ArrayLike) -> jax.Array:
        """Return `value` for every entry of `count`."""
        return jnp.full(jnp.shape(count), self.value)


@pytree_dataclass
class SqrtGrowth:
    """`scale * sqrt(k)`."""

    scale: jax.Array = positive()  # shape=()

    def __call__(self, count: ArrayLike) -> jax.Array:
        """Return `scale * sqrt(count)`."""
        return self.scale * jnp.sqrt(_floats(count, self.scale))


@pytree_dataclass
class SqrtDecay:
    """`scale / sqrt(k)`."""

    scale: jax.Array = positive()  # shape=()

    def __call__(self, count: ArrayLike) -> jax.Array:
        """Return `scale / sqrt(count)`; infinite at count 0."""
        return self.scale / jnp.sqrt(_floats(count, self.scale))


@pytree_dataclass
class PowerDecay:
    """`scale / k**power`."""

    scale: jax.Array = positive()  # shape=()
    power: jax.Array = declared(partial(scalar, at_least=0))  # shape=()

    def __call__(self, count: ArrayLike) -> jax.Array:
        """Return `scale * count ** -power`; infinite at count 0."""
        return self.scale * _floats(count, self.scale) ** -self.power


@pytree_dataclass
class Geometric:
    """`scale * ratio**(k - 1)`."""

    scale: jax.Array = positive()  # shape=()
    ratio: jax.Array = positive()  # shape=()

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
"""Arguments that builders turn into schedules."""


def constant(value: ArrayLike) -> Constant:
    """The same value at every count."""
    return build(Constant, **locals())


def sqrt_growth(scale: ArrayLike) -> SqrtGrowth:
    """`scale * sqrt(k)`, such as the penalty parameters sigma of the smoothing ADMM."""
    return build(SqrtGrowth, **locals())


def sqrt_decay(scale: ArrayLike) -> SqrtDecay:
    """`scale / sqrt(k)`, such as the smoothing parameters mu of the smoothing ADMM."""
    return build(SqrtDecay, **locals())


def power_decay(scale: ArrayLike, power: ArrayLike) -> PowerDecay:
    """`scale / k**power`, for diminishing step sizes; the power is not negative."""
    return build(PowerDecay, **locals())


def geometric(scale: ArrayLike, ratio: ArrayLike) -> Geometric:
    """`scale * ratio**(k - 1)`, which begins at the scale."""
    return build(Geometric, **locals())


def schedule(function: Callable[..., jax.Array], **parameters: ArrayLike) -> Formula:
    """Make a schedule of `function(k, **parameters)`.

    Args:
      function: elementwise in `k`, an array of counts as floats. It is static: a module-level
        function compiles once, a new lambda compiles again at every call.
      **parameters: numbers; they become leaves, so they can be vmapped and learnt.

    Returns:
      A schedule. To learn its numbers, start from its own leaves, such as `jax.tree.map(jnp.log,
      mu.parameters)`: they are strong arrays, while a Python number compiles once more.
    """
    _check_callable("function", function, "callable as function(k, ...)")
    leaves = {name: number(name, value) for name, value in parameters.items()}
    # Parameters may have several dtypes, also under strict promotion.
    with jax.numpy_dtype_promotion("standard"):
        dtype = jnp.result_type(*leaves.values()) if leaves else default_float()
    return Formula(leaves, jnp.ones((), dtype), function)


def from_optax(optax_schedule: Callable[[Any], Any]) -> FunctionOfCount:
    """Use an optax schedule, or any function of one count; the first update asks for 1.

    Count and value are floats of the problem's dtype. The function is static: a new one compiles
    anew. Numbers that it closes over may be traced where the schedule is built inside the function
    that JAX transforms; numbers that are to be leaves need `schedule`.

    Args:
      optax_schedule: maps a count to a scalar; it is vmapped over counts.
    """
    _check_callable("optax_schedule", optax_schedule, "callable")
    return FunctionOfCount(jnp.ones((), default_float()), optax_schedule)


def as_schedule(
    name: str,
    value: ScheduleLike,
    of_number: Callable[[jax.Array], Schedule] = constant,
    **limits: float,
) -> Schedule:
    """Return the schedule that a builder's argument stands for.

    Args:
      name: of the argument, for the message.
      value: a schedule, which stays as it is; an optax schedule or another function of one count;
        or a number.
      of_number: the schedule that a number stands for.
      **limits: of a number, such as `above=0`.
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


def _check_callable(name: str, value: Any, kind: str) -> None:
    if not callable(value):
        raise InputError(
            f"must be {kind}, but it is {one_line(value)}",
            argument=name,
            value=value,
            remedy="take schedules.constant for a number",
        )


def _floats(count: ArrayLike, like: jax.Array) -> jax.Array:
    """Return counts as floats of the dtype of a schedule's numbers."""
    return jnp.asarray(count).astype(like.dtype)
