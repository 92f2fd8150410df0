"""What the checks of channels, aggregators, attacks and delays share."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm._run import difference
from fedjax_admm.testing._shared import (
    cast,
    demand,
    demand_close,
    demand_finite,
    doing,
    name_of,
    static_numbers,
    unfit,
    with_floats,
)

WHERE = (
    "Both branches of a jnp.where are differentiated: no 0/0 and no root of 0 may stand in either; "
    "kernels.safe_norm and kernels.safe_ratio have none."
)


def check_part(argument: str, value: Any, members: Sequence[str], wanted: str) -> None:
    """Check that an argument has the members of a protocol, and is a pytree.

    Args:
      argument: its name.
      value: what is given.
      members: that it must have.
      wanted: what it must be.

    Raises:
      InputError: it has not, is a class, or no pytree.
    """
    missing = [member for member in members if not hasattr(value, member)]
    if missing or isinstance(value, type):
        raise unfit(argument, value, wanted)
    if jax.tree_util.all_leaves([value]):
        raise InputError(
            f"must be a pytree, but {name_of(value)} is registered as none",
            argument=argument,
            value=value,
            remedy="decorate the class with fedjax_admm.pytree_dataclass",
        )


def both_precisions(part: Any) -> Iterator[tuple[Any, Any]]:
    """Yield a pytree with numbers of float32 and of float64, and the dtype; x64 is on for that."""
    for dtype in (np.float32, np.float64):
        with jax.enable_x64(dtype is np.float64):
            yield cast(part, dtype), dtype


def fresh(number: int) -> jax.Array:
    """Return a typed key; a new array each time, of which nobody has drawn."""
    return jax.random.key(number)


def demand_same_state(where: str, what: str, old: Any, new: Any) -> None:
    """Demand that what is remembered keeps its structure, shapes and dtypes.

    Raises:
      AssertionError: it does not.
    """
    found = difference(old, new)
    demand(
        not found,
        f"{where} must return {what} with the structure, shapes and dtypes of the one that it is "
        f"given, for jax.lax.scan, but {found}.",
    )


def demand_one_trace(
    where: str, part: Any, call: Callable[..., Any], given: Callable[[], tuple], rtol: float
) -> None:
    """Demand the same numbers with and without `jax.jit`, and one trace for all numbers.

    Args:
      where: what is called.
      part: a pytree, whose numbers are changed.
      call: `(part, *arguments) -> arrays`.
      given: returns the arguments, with keys of which nobody has drawn.
      rtol: by how much numbers may differ.

    Raises:
      AssertionError: they are not.
    """
    for name in static_numbers(part):
        raise AssertionError(
            f"{name_of(part)}.{name} is a static number ({getattr(part, name):g}): another value "
            "compiles again, and has no derivative; register it as a leaf, and keep static what "
            "counts or chooses."
        )
    traces = 0

    @jax.jit
    def go(part: Any, *arguments: Any) -> Any:
        nonlocal traces
        traces += 1
        return call(part, *arguments)

    for factor in (1.0, 0.9):
        other = scaled(part, factor)
        with doing(f"{where} under jax.jit", "Take jnp.where in place of an if on values."):
            found = go(other, *given())
        with doing(where):
            alone = call(other, *given())
        demand_close(f"{where} with and without jax.jit", found, alone, rtol, rtol)
    demand(
        traces == 1,
        f"{where} was traced {traces} times for two values of its numbers; make its numbers leaves "
        "that are arrays, not static fields.",
    )


def demand_vmap(
    where: str, part: Any, call: Callable[..., Any], given: Callable[[int], tuple], rtol: float
) -> None:
    """Demand the same numbers of three trials, each with its own numbers, as of one by one.

    Args:
      where: what is called.
      part: a pytree, whose numbers are changed.
      call: `(part, *arguments) -> arrays`.
      given: returns the arguments of a trial, with keys of which nobody has drawn.
      rtol: by how much numbers may differ.

    Raises:
      AssertionError: they are not.
    """
    factors = (1.0, 0.9, 0.8)
    parts = [scaled(part, factor) for factor in factors]
    stacked = stack([(other, *given(trial)) for trial, other in enumerate(parts)])
    with doing(f"{where} under jax.vmap, over arguments and numbers"):
        both = jax.jit(jax.vmap(lambda one: call(*one)))(stacked)
    with doing(where):
        alone = stack([call(other, *given(trial)) for trial, other in enumerate(parts)])
    demand_close(f"{where} under jax.vmap and one by one", both, alone, rtol, rtol)


def demand_pure(where: str, call: Callable[..., Any], given: Callable[[], tuple]) -> None:
    """Demand the same numbers of the same key, and that no key is used twice.

    Args:
      where: what is called.
      call: a function of the arguments.
      given: returns them, with keys of which nobody has drawn.

    Raises:
      AssertionError: it is not so.
    """
    with doing(where):
        one, other = call(*given()), call(*given())
    remedy = "All that is random must follow from the key."
    demand_close(f"Two calls of {where} with the same key", one, other, 0.0, 0.0, remedy)
    with jax.debug_key_reuse(True), doing(where):
        try:
            jax.jit(lambda *arguments: call(*arguments))(*given())
        except jax.errors.KeyReuseError as error:
            told = " ".join(str(error).split())[:300]
            raise AssertionError(
                f"{where} uses a random key twice: {told}. Split keys with jax.random.split, one "
                "part for every use."
            ) from error


def demand_derivatives(
    where: str, call: Callable[..., Any], places: Mapping[str, tuple], by: tuple[int, ...]
) -> None:
    """Demand finite derivatives of the sum of squares of what is returned.

    Args:
      where: what is called.
      call: a function of the arguments; all that it returns is squared.
      places: what it is called with, in words, and the arguments, pytrees.
      by: which of them are differentiated by; whole numbers in them are left out.

    Raises:
      AssertionError: one is not finite.
    """

    def total(*arguments: Any) -> jax.Array:
        leaves = jax.tree.leaves(call(*arguments))
        sums = [jnp.sum(leaf**2) for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating)]
        return sum(sums)  # pyright: ignore[reportReturnType]

    slope = jax.jit(jax.grad(total, by, allow_int=True))
    for what, arguments in places.items():
        with doing(f"The derivative of {where} of {what}"):
            found = slope(*arguments)
        demand_finite(f"The derivative of {where} of {what}", found, WHERE)


def scaled(part: Any, factor: float) -> Any:
    """Return a pytree whose floating numbers are multiplied."""
    return with_floats(part, lambda leaf: leaf * factor)


def stack(trees: Sequence[Any]) -> Any:
    """Return pytrees as one, with an axis in front."""

    def together(*leaves: Any) -> jax.Array:
        if not jnp.issubdtype(jnp.result_type(leaves[0]), jax.dtypes.prng_key):
            return jnp.stack(leaves)
        # A key that is stacked counts as used.
        return jax.random.wrap_key_data(jnp.stack([jax.random.key_data(key) for key in leaves]))

    return jax.tree.map(together, *trees)


def normal(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> jax.Array:
    """Return normal numbers, the same for the same seed in either precision."""
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)
