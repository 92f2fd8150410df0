"""Fields that declare the range, the kind and the default of a builder's argument.

    weight: jax.Array = positive()
    block: int = counted()

`build(Class, **arguments)` checks and converts a builder's arguments by these declarations.
"""

from collections.abc import Callable
from dataclasses import MISSING, field, fields
from functools import partial
from typing import Any, TypeVar

import jax

from fedjax_admm._checks._kinds import flag
from fedjax_admm._checks._values import count, number, scalar

Class = TypeVar("Class")
Rule = Callable[[jax.Array], jax.Array]


def declared(
    check: Callable[[str, Any], Any],
    *,
    argument: str | None = None,
    curvature: Rule | None = None,
    static: bool = False,
    default: Any = MISSING,
) -> Any:
    """Declare a field.

    Args:
      check: `(name, value) -> value`, which raises `InputError`.
      argument: the builder's name of it, if it is not that of the field.
      curvature: the value that None stands for, as a function of the largest curvature, shape ().
      static: whether it is a part of the structure.
      default: of the field.
    """
    metadata = {"check": check, "argument": argument, "static": static}
    if curvature is not None:
        metadata["curvature"] = curvature
    if callable(default):
        return field(default_factory=default, metadata=metadata, kw_only=True)
    return field(default=default, metadata=metadata, kw_only=True)


def positive(
    *,
    at_most: float | None = None,
    stacked: bool = False,
    argument: str | None = None,
    curvature: Rule | None = None,
) -> Any:
    """Declare a positive number; with `stacked` also one per client."""
    limits = {"above": 0} if at_most is None else {"above": 0, "at_most": at_most}
    check = partial(number if stacked else scalar, **limits)
    return declared(check, argument=argument, curvature=curvature)


def counted(*, at_least: int = 1) -> Any:
    """Declare a static whole number."""
    return declared(partial(count, at_least=at_least), static=True)


def flagged() -> Any:
    """Declare a static flag."""
    return declared(flag, static=True)


def build(cls: type[Class], **arguments: Any) -> Class:
    """Build an object from a user's arguments, checked and converted as its fields declare.

    A builder passes on `**locals()`; names that are no fields are left out.
    """
    values = {}
    for each in fields(cls):  # pyright: ignore[reportArgumentType]
        name = each.metadata.get("argument") or each.name
        if name not in arguments:
            continue
        value, check = arguments[name], each.metadata.get("check")
        follows = value is None and "curvature" in each.metadata
        values[each.name] = value if follows or check is None else check(name, value)
    return cls(**values)
