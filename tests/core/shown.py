"""Objects of every public class."""

import ast
from dataclasses import fields, is_dataclass
from importlib import import_module
from inspect import isabstract

from tests.package.sources import FOLDERS, ROOT


def public_classes():
    """Return every public dataclass and NamedTuple, by the stubs of all rooms."""
    found = {}
    for folder, package in FOLDERS.items():
        for stub in sorted((ROOT / folder).rglob("__init__.pyi")):
            inner = stub.parent.relative_to(ROOT / folder).parts
            room = import_module(".".join((package, *inner)))
            for node in ast.parse(stub.read_text()).body:
                for alias in getattr(node, "names", ()):
                    value = getattr(room, alias.name)
                    if _is_shown(value):
                        found[value] = None
    return list(found)


def _is_shown(value):
    if not isinstance(value, type) or isabstract(value):
        return False
    return is_dataclass(value) or (issubclass(value, tuple) and hasattr(value, "_fields"))


def instance(cls, leaf):
    """Return an object with the same in every field, as `jax.tree.map` may make one."""
    if not is_dataclass(cls):
        return cls._make([leaf] * len(cls._fields))
    made = object.__new__(cls)
    for field in fields(cls):
        object.__setattr__(made, field.name, leaf)
    return made
