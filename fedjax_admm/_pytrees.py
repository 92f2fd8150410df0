"""Dataclasses as pytrees, told apart by their class.

JAX 0.10 compares the structures of two dataclasses registered by its own `register_dataclass`
without looking at their classes: `L1(weight)` and `SquaredL2(weight)` have equal structures. Only
their hashes differ, of which the cache of compiled programs compares a few bits; now and then a
solver then ran the program of another one. Nodes registered as here carry their class.
"""

from dataclasses import fields
from typing import TypeVar

from jax.tree_util import GetAttrKey, register_pytree_with_keys

Class = TypeVar("Class", bound=type)


def register_dataclass(cls: Class) -> Class:
    """Register a dataclass as a pytree: fields are leaves or subtrees, unless marked static.

    Args:
      cls: a dataclass; `field(metadata={"static": True})` marks what is part of the structure, and
        must be hashable.

    Returns:
      The class, so that this is a decorator: above `@dataclass(frozen=True, eq=False)`.
    """
    static = tuple(f.name for f in fields(cls) if f.metadata.get("static"))
    data = tuple(f.name for f in fields(cls) if not f.metadata.get("static"))
    keys = tuple(GetAttrKey(name) for name in data)

    def values(node, names):
        return tuple(getattr(node, name) for name in names)

    def flatten_with_keys(node):
        return tuple(zip(keys, values(node, data), strict=True)), values(node, static)

    def flatten(node):
        return values(node, data), values(node, static)

    def unflatten(structure, children):
        return cls(
            **dict(zip(data, children, strict=True)), **dict(zip(static, structure, strict=True))
        )

    register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls
