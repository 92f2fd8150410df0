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
from fedjax_admm._checks._values import count, number, one_of, refuse, scalar

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


def ranged(*, curvature: Rule | None = None, **limits: float) -> Any:
    """Declare a number within limits: `above`, `at_least`, `at_most`."""
    return declared(partial(scalar, **limits), curvature=curvature)


def counted(**limits: int) -> Any:
    """Declare a static whole number: `at_least`, which is 1 by default, and `at_most`."""
    return declared(partial(count, **limits), static=True)


def option(*choices: str) -> Any:
    """Declare a static text, one of a few."""

    def check(name: str, value: Any) -> Any:
        one_of(name, value, choices)
        return value

    return declared(check, static=True)


def optional(check: Callable[..., Any], **limits: float) -> Callable[[str, Any], Any]:
    """Return a check that lets None pass."""
    return lambda name, value: None if value is None else check(name, value, **limits)


def having(
    *methods: str,
    kind: str,
    default: Callable[[], Any] | None = None,
    remedy: str | None = None,
) -> Callable[[str, Any], Any]:
    """Return the check of an object by its methods; None stands for the default, if there is one.

    Args:
      *methods: which the object must have.
      kind: of the object, with an example, such as "a penalty such as penalties.l1(0.1)".
      default: a function that builds the default.
      remedy: of the error.
    """

    def check(name: str, value: Any) -> Any:
        if value is None and default is not None:
            return default()
        refuse(
            isinstance(value, type) or not all(hasattr(value, method) for method in methods),
            name,
            f"must be {kind}",
            value,
            remedy=remedy,
        )
        return value

    return check


optax_optimizer = having(
    "init", "update", kind="an optax optimiser", remedy="build it first, as optax.adam(1e-2)"
)
"""The check of an optax optimiser."""


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
