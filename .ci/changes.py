"""What differs from the last tree that passed whole, and which tests that concerns.

`.ci/run --all` writes the hash of the tree that it has tested into `.ci/passed`. A run without
`--all` asks here:

python .ci/changes.py site      exit status 0 if the site has to be built
python .ci/changes.py flower    exit status 0 if deployment over Flower has to be tried
python .ci/changes.py thorough  folders of tests, a line each, with their distance from the change

The distance is 0 for the folders that the change touches or mirrors, 1 for those of rooms that
import what changed, 2 for other tests that use it, and 3 for the fifth of the rest whose turn it
is. Without git or the recorded tree, everything counts as changed.
"""

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "kernels": "fedjax_admm.kernels",
    "trials": "fedjax_admm.trials",
    "fedjax_admm": "fedjax_admm",
}
# A change of these concerns every test.
EVERYTHING = (".ci/constraints.txt", "pyproject.toml", "tests/conftest.py")
# The site shows docstrings and public names; these are its other sources.
SITE = ("docs/", "notebooks/", "README.md", "CHANGELOG.md", "CITATION.cff", "benchmarks/README.md")
FLOWER = ("fedjax_admm/deploy/", "tests/deploy/", "trials/cli/_deploy.py", "pyproject.toml")
CORE = ("_checks", "_host", "_run", "capabilities")  # `tests/core` is for these
TURNS = 5


def changed_files() -> list[str] | None:
    """Return the paths that differ from the recorded tree; None where that cannot be known."""
    try:
        names = _git("diff", "--name-only", "--no-renames", _passed())
        others = _git("ls-files", "--others", "--exclude-standard")
    except (OSError, subprocess.CalledProcessError):
        return None
    return [name for name in (names + others).split("\n") if name and name != ".ci/passed"]


def site_is_concerned(changed: Iterable[str]) -> bool:
    """Tell whether the site would look different: its sources, docstrings or public names."""
    return any(path.startswith(SITE) or _reads_differently(path) for path in changed)


def flower_is_concerned(changed: Iterable[str]) -> bool:
    """Tell whether the change touches deployment."""
    return any(path.startswith(FLOWER) for path in changed)


def order(changed: list[str] | None, turn: int) -> Iterator[tuple[int, str]]:
    """Yield (distance, folder of tests), nearest first."""
    folders = sorted({path.parent for path in (ROOT / "tests").rglob("test_*.py")})
    if changed is None or any(path in EVERYTHING for path in changed):
        yield from ((0, _relative(folder)) for folder in folders)
        return
    touched = {_room(path) for path in changed} - {None}
    helpers = {room for room in touched if room.startswith("tests/")}
    importing = {
        _room(_relative(path))
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if rooms_used(path) & touched
    }
    distances = {}
    for folder in folders:
        mirrored = _mirrored(folder)
        own = any((ROOT / path).parent == folder for path in changed)
        used = frozenset().union(*(rooms_used(path) for path in folder.glob("*.py")))
        if own or mirrored & touched or used & helpers:
            distances[folder] = 0
        elif mirrored & importing:
            distances[folder] = 1
        elif used & touched:
            distances[folder] = 2
    rest = [folder for folder in folders if folder not in distances]
    distances |= dict.fromkeys(rest[turn % TURNS :: TURNS], 3)
    for folder in sorted(distances, key=lambda folder: (distances[folder], folder)):
        yield distances[folder], _relative(folder)


@cache
def rooms_used(path: Path) -> frozenset[str]:
    """Return the rooms whose names a file imports or reaches as `fa.room.name`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {_defined(node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {_defined(alias.name) for alias in node.names}
        elif isinstance(node, ast.Attribute):
            names = []
            while isinstance(node, ast.Attribute):
                names, node = [node.attr, *names], node.value
            if isinstance(node, ast.Name) and node.id in ("fa", "fedjax_admm"):
                found.add(_defined("fedjax_admm", *names))
    return frozenset(found - {None})


def _defined(package: str, *names: str) -> str | None:
    """Return the room in which a public name is defined, as the stubs tell."""
    for name in names:
        file = _file(f"{package}.{name}")
        if file is not None:
            package = f"{package}.{name}"
        else:
            package = _public(package).get(name, package)
            break
    file = _file(package)
    return _room(_relative(file)) if file else None


@cache
def _public(package: str) -> dict[str, str]:
    """Return the module of every name that a package's stub lists."""
    file = _file(package)
    stub = file.with_suffix(".pyi") if file else Path()
    if not stub.is_file():
        return {}
    lists = (n for n in ast.parse(stub.read_text("utf-8")).body if isinstance(n, ast.ImportFrom))
    return {alias.name: node.module or "" for node in lists for alias in node.names}


@cache
def _file(module: str) -> Path | None:
    """Return the file of a module of the package or of the tests."""
    for folder, package in (*FOLDERS.items(), ("tests", "tests")):
        if module == package or module.startswith(f"{package}."):
            path = ROOT / folder / module.removeprefix(package).lstrip(".").replace(".", "/")
            for file in (path / "__init__.py", path.with_suffix(".py")):
                if file.is_file():
                    return file
    return None


def _room(path: str) -> str | None:
    """Return the room of a file: its folder, or the file itself where it is alone."""
    parts = Path(path).with_suffix("").parts
    if parts[0] in ("docs", "notebooks"):
        return parts[0]
    if parts[0] not in (*FOLDERS, "tests") or not path.endswith((".py", ".pyi")):
        return None
    alone = parts[0] == "tests" or (len(parts) == 2 and parts[1] != "__init__")
    return "/".join(parts if alone else parts[:-1])


def _mirrored(folder: Path) -> set[str]:
    """Return the rooms that a folder of tests is for: its own name's, and those below it."""
    name = _relative(folder).removeprefix("tests/")
    if name == "notebooks":  # it runs the examples of pages, too
        return {name, "docs"}
    if name in ("core", "trials"):
        package = ROOT / name.replace("core", "fedjax_admm")
        alone = {_room(_relative(path)) or "" for path in package.glob("*.py")}
        return alone | {f"fedjax_admm/{n}" for n in CORE if name == "core"}
    names = {name, f"fedjax_admm/{name}", f"trials/{name}", f"trials/{name.removeprefix('cli/')}"}
    below = (p for n in names for p in (ROOT / n).rglob("*") if p.is_dir())
    return names | {_relative(path) for path in below}


def _reads_differently(path: str) -> bool:
    """Tell whether a source's docstrings or public names differ from the recorded tree's."""
    if path.endswith(".pyi"):
        return True
    if not path.endswith(".py") or Path(path).parts[0] not in FOLDERS:
        return False
    try:
        recorded = _git("show", f"{_passed()}:{path}")
        return _texts((ROOT / path).read_text("utf-8")) != _texts(recorded)
    except (OSError, subprocess.CalledProcessError):
        return True


def _texts(code: str) -> list[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = (node for node in ast.walk(ast.parse(code)) if isinstance(node, kinds))
    return [text for node in nodes if (text := ast.get_docstring(node))]


def _passed() -> str:
    return (ROOT / ".ci" / "passed").read_text("utf-8").split()[0]


def _relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main(asked: str) -> int:
    """Answer one question."""
    changed = changed_files()
    if asked == "thorough":
        turn = int(_git("rev-list", "--count", "HEAD")) if changed is not None else 0
        for distance, folder in order(changed, turn):
            print(distance, folder)
        return 0
    concerned = {"site": site_is_concerned, "flower": flower_is_concerned}[asked]
    return 0 if changed is None or concerned(changed) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
