"""Checks of arrays: shapes, leading axes, whole numbers, masks, order."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks._values import (
    Shape,
    is_concrete,
    number,
    of_shape,
    one_line,
    refuse,
    refuse_entries,
)


def leading(name: str, arrays: Any, *axes: str, remedy: str | None = None) -> tuple[int, ...]:
    """Return the sizes of the leading axes, named by `axes`, that the leaves of a pytree share."""
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(arrays)]
    heads = {shape[: len(axes)] for shape in shapes}
    head = heads.pop() if len(heads) == 1 else ()
    kind = "one leading axis" if len(axes) == 1 else "the leading axes"
    refuse(
        len(head) != len(axes) or 0 in head,
        name,
        lambda: (
            f"must be arrays with {kind} ({', '.join(axes)}), equally long and not empty, but "
            f"their shapes are {one_line(shapes)}"
        ),
        remedy=remedy,
    )
    return head


def per_client(
    name: str, value: ArrayLike, clients: int, called: str = "client", **limits: float
) -> jax.Array:
    """Return a number for each client, (clients,), from () or (clients,); at least 0 by default."""
    numbers = number(name, value, **(limits or {"at_least": 0}))
    remedy = f"give one number for all {called}s, or one per {called}"
    of_shape(name, numbers, (), (clients,), remedy=remedy)
    return jnp.broadcast_to(numbers, (clients,))


def whole_numbers(
    name: str, value: Any, *shapes: Shape, at_least: int | None = 0, at_most: int | None = None
) -> Any:
    """Return an array of whole numbers within limits; a NumPy array unless it is one of JAX."""
    array = value if isinstance(value, jax.Array) else np.asarray(value)
    refuse(not jnp.issubdtype(array.dtype, jnp.integer), name, "must be whole numbers", value)
    of_shape(name, array, *shapes or ((None,),))
    if is_concrete(array) and at_least is not None:
        host = np.asarray(array)
        wrong = (host < at_least) | (host > (host if at_most is None else at_most))
        limits = f"at least {at_least}" if at_most is None else f"from {at_least} to {at_most}"
        refuse_entries(wrong, name, f"must be {limits}", host)
    return array


def bool_array(name: str, value: Any, *shapes: Shape) -> jax.Array:
    """Return a bool array of one of a few shapes."""
    array = jnp.asarray(value)
    refuse(array.dtype != bool, name, f"must be True or False, but its dtype is {array.dtype}")
    if shapes:
        of_shape(name, array, *shapes)
    return array


def every_client(
    name: str, holds: Any, what: str, remedy: str | None = None, called: str = "client"
) -> None:
    """Check that each client, or what else is `called`, has something."""
    if is_concrete(holds):
        host = np.asarray(holds, bool)
        first = host.argmin() if host.size else 0
        told = f"must hold a {what} of every {called}, but {called} {first} has none"
        refuse(not (host.size and host.all()), name, told, remedy=remedy)


def rising(name: str, values: Any, *, least: int = 0, remedy: str | None = None) -> None:
    """Check that each of `least` or more numbers exceeds the one before; traced ones pass."""
    if is_concrete(values):
        host = np.asarray(values)
        wrong = host.size < least or np.any(np.diff(host) <= 0)
        many = f", and be {least} or more" if least else ""
        refuse(wrong, name, f"must increase{many}", host.tolist(), remedy=remedy)


def known(name: str, *values: Any) -> None:
    """Check that nothing of an argument is traced."""
    refuse(
        not is_concrete(values),
        name,
        "must be known, but it is traced",
        remedy="call this outside of jax.jit, jax.vmap and jax.grad",
    )
