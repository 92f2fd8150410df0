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

A schedule may also depend on what a client sees in a run, such as its residuals (`SIGHTS`), and
keep a state of its own:

    def smoothing(k, primal, scale, floor):
        return jnp.maximum(scale * primal, floor)
    mu = schedule(smoothing, sees="primal", scale=0.5, floor=0.1)

Clients evaluate it, so that it needs a solver with one server.
"""

from collections.abc import Callable, Sequence
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
    one_of,
    positive,
    refuse,
    scalar,
    shapes_of,
)
from fedjax_admm._pytrees import pytree_dataclass

__all__ = [
    "SIGHTS",
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


SIGHTS = ("primal", "dual", "loss", "waited")
"""What a schedule may see of a client i, in a round in which it takes part, before it works:

- `primal`, the norm of w_i - w, its own model less the one that it has just read of the server;
- `dual`, the norm of w - w', with w' the model that it read before: the dual residual over the
  penalty parameter;
- `loss`, f_i at its own model, or at the one that it has read where it has none;
- `waited`, the number of rounds since its last upload, from 1.

Before the first round residuals and `waited` are 0."""


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
class SeeingFormula(Formula):
    """A schedule of one's own that sees: `function(k, primal=..., **parameters)`.

    With a state it is `function(k, state=..., primal=..., **parameters) -> (value, state)`; the
    state changes once in every round in which the client takes part, and k counts these there.
    """

    start: Any  # the first state of every client, a pytree of numbers; None without a state
    sees: tuple[str, ...] = field(metadata={"static": True})

    def __call__(self, count: ArrayLike) -> jax.Array:
        """Refuse: a count alone has no value."""
        name = getattr(self.function, "__name__", "it")
        told = f"{name} sees {', '.join(self.sees) or 'a state'}, for clients with one server"
        raise InputError(f"a schedule of the count is needed here, but {told}")

    def at(self, seen: dict[str, jax.Array], state: Any) -> "SeenFormula":
        """Return the schedule of some clients, given what they see and their states, (clients,)."""
        return SeenFormula(self, {name: seen[name] for name in self.sees}, state)


@pytree_dataclass
class SeenFormula:
    """A schedule that sees, of clients who have looked."""

    formula: SeeingFormula
    seen: dict[str, jax.Array]  # shapes=(clients,)
    state: Any  # of before, a pytree of arrays (clients,); None without a state

    def __call__(self, count: ArrayLike) -> jax.Array:
        """Return the values at `count`, of shape () or (clients,); shape (clients,)."""
        return self._both(count)[0]

    def after(self, count: ArrayLike) -> Any:
        """Return the states after the count."""
        return self._both(count)[1]

    def _both(self, count: ArrayLike) -> tuple[jax.Array, Any]:
        formula, dtype = self.formula, self.formula.like.dtype
        some = jax.tree.leaves((self.seen, self.state))
        k = jnp.broadcast_to(_floats(count, formula.like), jnp.shape(some[0]))
        seen = {name: value.astype(dtype) for name, value in self.seen.items()}
        if self.state is None:
            values, state = formula.function(k, **seen, **formula.parameters), None
        else:
            values, state = formula.function(k, state=self.state, **seen, **formula.parameters)
            state = jax.tree.map(lambda new, old: new.astype(old.dtype), state, self.state)
        return jnp.broadcast_to(jnp.asarray(values, dtype), k.shape), state


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


def schedule(
    function: Callable[..., Any],
    *,
    sees: str | Sequence[str] = (),
    state: Any = None,
    **parameters: ArrayLike,
) -> Formula:
    """Make a schedule of `function(k, **parameters)`, and of what clients see.

    Args:
      function: elementwise in `k`, an array of counts as floats, and in what it sees. It is static:
        a module-level function compiles once, a new lambda compiles again at every call.
      sees: some of `SIGHTS`, which the function gets by these names, as arrays of the shape of `k`.
      state: a pytree of numbers, the first state of every client. The function gets it by the name
        `state`, its leaves of the shape of `k`, and returns `(value, state)`. It changes once in
        every round in which the client takes part, and k counts these rounds there.
      **parameters: numbers; they become leaves, so they can be vmapped and learnt.

    Returns:
      A schedule. To learn its numbers, start from its own leaves, such as `jax.tree.map(jnp.log,
      mu.parameters)`: they are strong arrays, while a Python number compiles once more. One that
      sees needs a solver with one server, and is refused elsewhere. Its value holds in a round of a
      client for its work and its upload; where penalty parameters follow it, it must be positive
      also where residuals are 0.
    """
    _check_callable("function", function, "callable as function(k, ...)")
    leaves = {name: number(name, value) for name, value in parameters.items()}
    names = (sees,) if isinstance(sees, str) else tuple(sees)
    for name in names:
        one_of("sees", name, SIGHTS)
    start = jax.tree.map(lambda value: scalar("state", value), state)
    # Parameters may have several dtypes, also under strict promotion.
    with jax.numpy_dtype_promotion("standard"):
        dtype = jnp.result_type(*leaves.values()) if leaves else default_float()
    like = jnp.ones((), dtype)
    if not names and state is None:
        return Formula(leaves, like, function)
    made = SeeingFormula(leaves, like, function, start, names)
    _check_states(made)
    return made


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
        kind = "must be a schedule, a function of a count or a number"
        refuse(not is_real(value), name, kind, value)
        return of_number(scalar(name, value, **limits))
    if not jax.tree_util.all_leaves([value]):
        return value
    function = from_optax(value)
    try:
        jax.eval_shape(function, jnp.ones((1,), jnp.int32))
    except (TypeError, ValueError) as error:
        told = f"must be a schedule, or a function that gives a number, unlike {one_line(value)}"
        raise InputError(told, name) from error
    return function


def _check_states(made: SeeingFormula) -> None:
    """Check that a function that sees returns a value, and a state like the first one."""
    seen = dict.fromkeys(made.sees, made.like)

    def evaluate(made: SeeingFormula, seen: dict[str, jax.Array]) -> Any:
        state = {} if made.start is None else {"state": made.start}
        return made.function(made.like, **state, **seen, **made.parameters)

    found = shapes_of("function", evaluate, {"the schedule": made, "what it sees": seen})
    if made.start is not None:
        pair = isinstance(found, tuple) and len(found) == 2
        fits = pair and jax.tree.structure(made.start) == jax.tree.structure(found[1])
        refuse(not fits, "function", "must return (value, state), a state like the first one")


def _check_callable(name: str, value: Any, kind: str) -> None:
    remedy = "take schedules.constant for a number"
    refuse(not callable(value), name, f"must be {kind}", value, remedy=remedy)


def _floats(count: ArrayLike, like: jax.Array) -> jax.Array:
    """Return counts as floats of the dtype of a schedule's numbers."""
    return jnp.asarray(count).astype(like.dtype)
