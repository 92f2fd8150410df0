"""Dataclasses as pytrees, told apart by their class; and pytrees as vectors.

JAX 0.10 compares the structures of two dataclasses registered by its own `register_dataclass`
without looking at their classes: `L1(weight)` and `SquaredL2(weight)` have equal structures. Only
their hashes differ, of which the cache of compiled programs compares a few bits; now and then a
solver then ran the program of another one. Nodes registered as here carry their class.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
from jax.tree_util import GetAttrKey, register_pytree_with_keys

from fedjax_admm._shown import short_repr

Class = TypeVar("Class", bound=type)


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(field,))
def pytree_dataclass(cls: Class) -> Class:
    """Make a class a frozen dataclass and a pytree: fields are leaves or subtrees, unless static.

    Its representation is short: shapes and dtypes, never arrays. Two objects are equal only if they
    are one.

    Args:
      cls: a class with annotated fields; `field(metadata={"static": True})` marks what is part of
        the structure, and must be hashable.

    Returns:
      The class, so that this is a decorator.
    """
    cls = dataclass(frozen=True, eq=False, repr=False)(cls)
    if "__repr__" not in vars(cls):
        type.__setattr__(cls, "__repr__", short_repr)
    static = tuple(f.name for f in fields(cls) if f.metadata.get("static"))
    data = tuple(f.name for f in fields(cls) if not f.metadata.get("static"))
    keys = tuple(GetAttrKey(name) for name in data)

    children, structure = _reader(data), _reader(static)

    def flatten_with_keys(node):
        return tuple(zip(keys, children(node), strict=True)), structure(node)

    def flatten(node):
        return children(node), structure(node)

    def unflatten(static_values, values):
        node = object.__new__(cls)  # every call of a compiled program makes its results anew
        vars(node).update(zip(data, values, strict=True))
        vars(node).update(zip(static, static_values, strict=True))
        return node

    register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


def _reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function from an object to the tuple of its attributes of these names."""
    if not names:
        return lambda node: ()
    values = attrgetter(*names)
    return values if len(names) > 1 else lambda node: (values(node),)


@pytree_dataclass
class FlatLayout:
    """Where the arrays of a pytree stand in one vector.

    The leaves that do not stand in the vector are frozen arrays, or static: no arrays at all, such
    as the activation function of a module.
    """

    frozen: dict[int, jax.Array]  # by number of the leaf
    structure: Any = field(metadata={"static": True})  # a jax.tree_util.PyTreeDef
    shapes: tuple[tuple[int, ...], ...] = field(metadata={"static": True})  # of the leaves
    # The leaves in the order in which they stand in the vector.
    order: tuple[int, ...] = field(metadata={"static": True})
    static: tuple[tuple[int, Any], ...] = field(default=(), metadata={"static": True})

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the numbers in each leaf that stands in the vector; 0 for the others."""
        return tuple(
            math.prod(shape) if i in self.order else 0 for i, shape in enumerate(self.shapes)
        )

    def flat(self, tree: Any) -> jax.Array:
        """Return the arrays as one vector, shape (dim,)."""
        leaves = jax.tree.leaves(tree)
        return jnp.concatenate([jnp.ravel(leaves[i]) for i in self.order])

    def tree(self, points: jax.Array) -> Any:
        """Return vectors (..., dim) as pytrees of arrays (..., *shape)."""
        leaves: list[Any] = [None] * len(self.shapes)
        # Its transpose is a concatenation; that of slices is a sum of padded arrays.
        parts = jax.lax.split(points, [self.sizes[i] for i in self.order], axis=points.ndim - 1)
        for i, part in zip(self.order, parts, strict=True):
            leaves[i] = part.reshape(points.shape[:-1] + self.shapes[i])
        for i, array in self.frozen.items():
            leaves[i] = jnp.broadcast_to(array, points.shape[:-1] + array.shape)
        for i, value in self.static:
            leaves[i] = value
        return jax.tree.unflatten(self.structure, leaves)

    def with_static(self, tree: Any) -> Any:
        """Return a pytree with None in the place of static leaves as one with these."""
        if not self.static:
            return tree
        leaves = jax.tree.leaves(tree, is_leaf=lambda part: part is None)
        # None is no leaf of the structure, where it stood in the pytree from the first.
        none = jax.tree.unflatten(self.structure, [object()] * len(self.shapes))
        places = jax.tree.leaves(none, is_leaf=lambda part: part is None)
        leaves = [leaf for leaf, place in zip(leaves, places, strict=True) if place is not None]
        for i, value in self.static:
            leaves[i] = value
        return jax.tree.unflatten(self.structure, leaves)
