"""The house: which room may import which, what is private, how large a room may be."""

import ast
import tomllib
from pathlib import Path

import pytest

from tests.package.sources import ROOT, imported_modules, imports_of, parsed, sources

MODULES = sources()
# From the ground up: a room may import what stands above its own line, and itself.
STOREYS = (
    (
        *("fedjax_admm._lazy", "fedjax_admm._shown", "fedjax_admm._states"),
        *("fedjax_admm._threefry", "fedjax_admm._version"),
    ),
    ("fedjax_admm.kernels",),
    (
        *("fedjax_admm._checks", "fedjax_admm._drawings", "fedjax_admm._pytrees"),
        "fedjax_admm._linear_algebra",
    ),
    ("fedjax_admm._cutting_planes", "fedjax_admm._frames", "fedjax_admm._plots"),
    ("fedjax_admm._host",),
    ("fedjax_admm.traffic", "fedjax_admm.devices", "fedjax_admm.schedules", "fedjax_admm.lanes"),
    ("fedjax_admm._optimizers",),
    ("fedjax_admm.capabilities",),
    ("fedjax_admm.protocol",),
    ("fedjax_admm.participation", "fedjax_admm.graphs", "fedjax_admm.trees"),
    ("fedjax_admm.penalties", "fedjax_admm.losses"),
    ("fedjax_admm.messages",),
    ("fedjax_admm.ratings",),
    ("fedjax_admm.problems",),
    ("fedjax_admm.measures", "fedjax_admm.certificates", "fedjax_admm.regions"),
    ("fedjax_admm._run",),
    ("fedjax_admm.search",),
    ("fedjax_admm.privacy",),
    ("fedjax_admm.solvers",),
    ("fedjax_admm.deploy", "fedjax_admm.direct", "fedjax_admm.testing"),
    ("fedjax_admm.trials.waiting",),
    ("fedjax_admm.trials.engine", "fedjax_admm.trials.tables"),
    ("fedjax_admm.trials.results",),
    ("fedjax_admm.trials.figures",),
    ("fedjax_admm.trials.experiments", "fedjax_admm.trials.solve"),
    ("fedjax_admm.trials.running", "fedjax_admm.trials.report"),
    ("fedjax_admm.trials.cli",),
)
HEIGHT = {room: height for height, storey in enumerate(STOREYS) for room in storey}
LARGEST_FOLDER = 17


def room_of(module: str) -> str | None:
    """Return the room that a module belongs to; None for the package and trials themselves."""
    parts = module.split(".")
    while parts and ".".join(parts) not in HEIGHT:
        parts.pop()
    return ".".join(parts) or None


def test_every_module_has_a_room():
    homeless = [module for module in MODULES if room_of(module) is None]
    assert homeless == ["fedjax_admm", "fedjax_admm.trials"]


@pytest.mark.parametrize("room", HEIGHT)
def test_imports_between_rooms_point_one_way(room):
    files = [(module, path) for module, path in MODULES.items() if room_of(module) == room]
    assert files
    for module, path in files:
        for imported in imported_modules(path, MODULES):
            other = room_of(imported)
            if imported == "fedjax_admm.trials.experiments" and room == other:
                continue
            assert other is not None, f"{module} imports {imported}, which is everything"
            assert other == room or HEIGHT[other] < HEIGHT[room], f"{module} imports {imported}"


def test_another_room_is_entered_by_its_door():
    """From elsewhere a room is entered by what its stub publishes; private ones have no stub."""
    for module, path in MODULES.items():
        for imported in imported_modules(path, MODULES):
            room = room_of(imported)
            last = imported.rpartition(".")[2]
            published = room in MODULES and MODULES[room].with_suffix(".pyi").exists()
            if published and room not in (room_of(module), imported):
                assert not last.startswith("_"), f"{module} imports {imported}"


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


@pytest.mark.parametrize(
    "folder",
    [
        *("fedjax_admm", "kernels", "trials", "benchmarks"),
        pytest.param("tests", marks=pytest.mark.thorough),
    ],
)
def test_private_names_stay_in_their_modules(folder):
    for path in sorted((ROOT / folder).rglob("*.py")):
        tree = parsed(path)
        modules = set()
        for module, name in imports_of(path):
            if module.split(".")[0] not in ("fedjax_admm", "tests") or name is None:
                continue
            inner = f"{module}.{name}"
            assert inner in MODULES or not is_private(name), f"{path} imports {inner}"
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                modules |= {
                    alias.asname or alias.name
                    for alias in node.names
                    if f"{node.module}.{alias.name}" in MODULES
                }
        for node in ast.walk(tree):
            reached = None
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                reached = (node.value.id, node.attr)
            elif (  # monkeypatch.setattr(module, "name", ...)
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("setattr", "object")
                and len(node.args) >= 2
                and isinstance(node.args[0], ast.Name)
                and isinstance(node.args[1], ast.Constant)
            ):
                reached = (node.args[0].id, str(node.args[1].value))
            if reached and reached[0] in modules:
                assert not is_private(reached[1]), f"{path}:{node.lineno} uses {'.'.join(reached)}"


def test_benchmarks_import_no_private_modules():
    for path in (ROOT / "benchmarks").rglob("*.py"):
        for module, name in imports_of(path):
            for reached in {module, f"{module}.{name}"} & set(MODULES):
                assert not is_private(reached.rpartition(".")[2]), f"{path}: {reached}"


def test_folders_are_small_and_modules_do_one_job():
    for folder in {path.parent for path in MODULES.values()}:
        files = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        if folder != ROOT / "fedjax_admm" and folder != ROOT / "kernels":
            assert len(files) <= LARGEST_FOLDER, f"{folder} holds {len(files)} files"
    long = {module for module, path in MODULES.items() if len(path.read_text().splitlines()) > 500}
    assert not long


def test_no_loose_module_in_the_two_large_folders():
    """Only what the whole package shares, or what is a room of one file, stands in the open."""
    for folder, package in (("fedjax_admm", "fedjax_admm"), ("trials", "fedjax_admm.trials")):
        for path in (ROOT / folder).glob("*.py"):
            if path.stem != "__init__":
                assert f"{package}.{path.stem}" in HEIGHT


def test_the_wheel_holds_every_folder():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = config["tool"]["setuptools"]["packages"]
    packages = [module for module, path in MODULES.items() if path.name == "__init__.py"]
    assert sorted(listed) == sorted(packages)
    assert all(Path(path.parent, "__init__.py").exists() for path in MODULES.values())
