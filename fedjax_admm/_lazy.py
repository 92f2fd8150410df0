"""Names that load at their first use (PEP 562), listed once in the stub beside a package.

Type checkers read `__init__.pyi`; so does `attach`, when the package is imported.
"""

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def attach(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package whose stub lists its names.

    Args:
      package: its `__name__`.
      file: its `__file__`; `__init__.pyi` beside it holds `from MODULE import NAME as NAME` only.

    Returns:
      The three. A name from the package itself is its module.
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text())
    home = {
        alias.name: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    public = sorted(home)

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if home[name] == package:
            return import_module(f"{package}.{name}")
        return getattr(import_module(home[name]), name)

    return get, lambda: public, public
