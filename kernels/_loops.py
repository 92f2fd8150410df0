"""Loops that run inside `jax.shard_map` too.

There an array has, besides its shape and dtype, the names of the mesh axes over which it varies,
and a loop demands that its carry has them from the start. What the carry begins with is often a
constant, which varies over none. These loops give it the axes of what the body returns; elsewhere
they are those of `jax.lax`.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax import lax


def while_loop(goes_on: Callable[[Any], Any], body: Callable[[Any], Any], start: Any) -> Any:
    """Do as `jax.lax.while_loop` does, also inside `jax.shard_map`."""
    return lax.while_loop(goes_on, body, _varying(body, start))


def scan(
    body: Callable[[Any, Any], tuple[Any, Any]],
    start: Any,
    inputs: Any = None,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Do as `jax.lax.scan` does, also inside `jax.shard_map`."""

    def turn(carry: Any) -> Any:
        return body(carry, jax.tree.map(lambda part: part[0], inputs))[0]

    empty = any(len(part) == 0 for part in jax.tree.leaves(inputs))
    start = start if empty else _varying(turn, start)
    return lax.scan(body, start, inputs, length=length, reverse=reverse)


def _varying(body: Callable[[Any], Any], start: Any) -> Any:
    """Return the start of a carry with all mesh axes over which the body makes it vary."""
    if not jax.sharding.get_abstract_mesh().manual_axes:
        return start
    parts = jax.tree.leaves((start, jax.eval_shape(body, start)))
    axes = frozenset().union(*(jax.typeof(part).manual_axis_type.varying for part in parts))

    def vary(part: Any) -> Any:
        missing = axes - jax.typeof(part).manual_axis_type.varying
        return lax.pcast(part, tuple(missing), to="varying")

    return jax.tree.map(vary, start)
