"""The public names: which rooms there are, and where each name is told.

A room is what can be reached from `fedjax_admm` by public names that are modules. Its names stand
in its stub, `__init__.pyi`, or are what a single module defines. A name that several rooms offer
(the few that users meet at the root, say) is told in the innermost of them, and once.
"""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar


class Name(NamedTuple):
    """A public name, as the room has it in which it is told."""

    room: str  # fedjax_admm.solvers
    name: str  # fsmdm
    home: str  # the module that defines it: fedjax_admm.solvers.star._fsmdm

    @property
    def full(self) -> str:
        """Return the name by which it is imported."""
        return f"{self.room}.{self.name}"

    @property
    def value(self) -> Any:
        """Return what it names."""
        return getattr(import_module(self.room), self.name)

    @property
    def kind(self) -> str:
        """Return what autodoc calls it."""
        if inspect.isclass(self.value):
            return "exception" if issubclass(self.value, BaseException) else "class"
        return "function" if inspect.isroutine(self.value) else "data"

    @property
    def folder(self) -> str:
        """Return the folder of its room in which it is defined, "" for the room itself."""
        inner = self.home.removeprefix(self.room).strip(".").split(".")
        inside = len(inner) > 1 and self.home.startswith(self.room) and inner[0][0] != "_"
        return inner[0] if inside and f"{self.room}.{inner[0]}" not in rooms() else ""


@cache
def rooms() -> dict[str, dict[str, str]]:
    """Return the public names of each room, and the module that defines each."""
    found: dict[str, dict[str, str]] = {}
    waiting = ["fedjax_admm"]
    while waiting:
        room = waiting.pop(0)
        names = dict(_offered(import_module(room)))
        inner = [
            name for name in names if isinstance(getattr(import_module(room), name), ModuleType)
        ]
        waiting += [f"{room}.{name}" for name in inner]
        found[room] = {name: home for name, home in names.items() if name not in inner}
    return found


def _offered(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Yield the names that a room offers, each with the module that defines it."""
    stub = Path(module.__file__ or "").with_suffix(".pyi")
    if stub.exists():
        for node in ast.parse(stub.read_text("utf-8")).body:
            if isinstance(node, ast.ImportFrom):
                yield from ((alias.name, node.module or "") for alias in node.names)
        return
    for name, value in vars(module).items():
        own = getattr(value, "__module__", None) == module.__name__
        if own and not name.startswith("_") and not isinstance(value, TypeVar):
            yield name, module.__name__


@cache
def public_names() -> tuple[Name, ...]:
    """Return every public name once, by room and in plain order."""
    innermost: dict[tuple[str, str], Name] = {}
    for room, names in rooms().items():
        for name, home in names.items():
            home = _home(getattr(import_module(room), name), home)
            told = innermost.get((name, home))
            if told is None or len(room) > len(told.room):
                innermost[name, home] = Name(room, name, home)
    return tuple(sorted(innermost.values()))


def _home(value: Any, home: str) -> str:
    """Return the module that defines a value, where it can tell."""
    tells = inspect.isroutine(value) or inspect.isclass(value)
    return getattr(value, "__module__", home) if tells else home
