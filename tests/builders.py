"""What a room builds: its public functions, by what they return."""

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any


def builders(room: ModuleType, *members: str) -> dict[str, Callable[..., Any]]:
    """Return the public functions of a room that return a class with some members.

    Conformance tests ask it what there is, so that nothing new escapes their tables.

    Args:
      room: a package or a module.
      *members: names of methods, such as "step" for solvers.

    Returns:
      Name -> function, for functions that say which class they return; protocols are none.
    """
    public = getattr(room, "__all__", None) or [
        name for name, value in vars(room).items() if _is_own(room, name, value)
    ]
    found = {}
    for name in public:
        function = getattr(room, name)
        made = inspect.get_annotations(function).get("return") if callable(function) else None
        if not isinstance(made, type) or getattr(made, "_is_protocol", False):
            continue
        if all(any(member in vars(base) for base in made.__mro__) for member in members):
            found[name] = function
    return found


def _is_own(room: ModuleType, name: str, value: Any) -> bool:
    """Whether a module of one file publishes a function, and has not only imported it."""
    return inspect.isfunction(value) and name[0] != "_" and value.__module__ == room.__name__
