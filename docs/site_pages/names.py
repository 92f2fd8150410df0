"""The public names: the rooms, and the room in which each name is documented.

A room is a module that public names reach from `fedjax_admm`. Its names are those of its stub,
`__init__.pyi`, or the definitions of a single module. A name that several rooms offer (such as the
few at the root) is documented once, in the innermost of them.
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
    """A public name in the room that documents it."""

    room: str  # fedjax_admm.solvers
    name: str  # fsmdm
    home: str  # the module that defines it: fedjax_admm.solvers.star._fsmdm

    @property
    def full(self) -> str:
        """Return the name by which it is imported."""
        return f"{self.room}.{self.name}"

    @property
    def value(self) -> Any:
        """Return its object."""
        return getattr(import_module(self.room), self.name)

    @property
    def kind(self) -> str:
        """Return its kind in the words of autodoc."""
        if inspect.isclass(self.value):
            return "exception" if issubclass(self.value, BaseException) else "class"
        return "function" if inspect.isroutine(self.value) else "data"

    @property
    def folder(self) -> str:
        """Return the folder of its room that defines it, "" for the room itself."""
        inner = self.home.removeprefix(self.room).strip(".").split(".")
        inside = len(inner) > 1 and self.home.startswith(self.room) and inner[0][0] != "_"
        return inner[0] if inside and f"{self.room}.{inner[0]}" not in rooms() else ""


@cache
def rooms() -> dict[str, dict[str, str]]:
    """Return the public names of each room, and the module that defines each."""
    offered: dict[str, dict[str, str]] = {}
    queue = ["fedjax_admm"]
    while queue:
        room = queue.pop(0)
        names = dict(_offered(import_module(room)))
        inner = [
            name for name in names if isinstance(getattr(import_module(room), name), ModuleType)
        ]
        queue += [f"{room}.{name}" for name in inner]
        offered[room] = {name: home for name, home in names.items() if name not in inner}
    return offered


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
        listed = name in getattr(module, "__all__", [name])
        if own and listed and not name.startswith("_") and not isinstance(value, TypeVar):
            yield name, module.__name__


@cache
def public_names() -> tuple[Name, ...]:
    """Return every public name once, by room and in plain order."""
    innermost: dict[tuple[str, str], Name] = {}
    for room, names in rooms().items():
        for name, home in names.items():
            home = _home(getattr(import_module(room), name), home)
            other = innermost.get((name, home))
            if other is None or len(room) > len(other.room):
                innermost[name, home] = Name(room, name, home)
    return tuple(sorted(innermost.values()))


def _home(value: Any, home: str) -> str:
    """Return the module that defines a value, or what it wraps, if the value knows it."""
    tells = inspect.isroutine(value) or inspect.isclass(value)
    return getattr(inspect.unwrap(value), "__module__", home) if tells else home
