"""The source files of the package as the tests of its shape see them."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "kernels": "fedjax_admm.kernels",
    "fedjax_admm": "fedjax_admm",
    "trials": "fedjax_admm.trials",
}


def sources() -> dict[str, Path]:
    """Return every module of the package by its name."""
    found = {}
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            inner = path.relative_to(ROOT / folder).with_suffix("")
            parts = [part for part in inner.parts if part != "__init__"]
            found[".".join((package, *parts))] = path
    return found


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text())


@cache
def imports_of(path: Path) -> list[tuple[str, str | None]]:
    """Return (module, name) of what a file imports when it runs; None for `import module`."""
    tree = parsed(path)
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found += ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} imports relatively"
            found += ((node.module or "", alias.name) for alias in node.names)
    return found


def imported_modules(path: Path, modules: dict[str, Path]) -> Iterator[str]:
    """Yield the modules of the package that a file imports, names resolved to their modules."""
    for module, name in imports_of(path):
        inner = f"{module}.{name}"
        if inner in modules:
            yield inner
        elif module in modules:
            yield module
