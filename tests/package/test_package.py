"""The shape of the package: which way imports point, what is public, what a kernel costs."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import fedjax_admm

ROOT = Path(__file__).parents[2]
LAYERS = {"kernels": 0, "fedjax_admm": 1, "trials": 2}  # folder -> height; imports point down
NAMES = Path(__file__).with_name("public_names.txt")
PACKAGES = ("fedjax_admm", "fedjax_admm.kernels", "fedjax_admm.trials")


def layer_of(module: str) -> int | None:
    parts = module.split(".")
    if parts[0] != "fedjax_admm":
        return None
    return LAYERS.get(parts[1], 1) if len(parts) > 1 else 1


def imports_of(path: Path):
    """Yield the absolute modules that a file imports when it runs (not for type checkers)."""
    tree = ast.parse(path.read_text())
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            if node.module == "fedjax_admm":
                yield from (f"fedjax_admm.{alias.name}" for alias in node.names)
            else:
                yield node.module


@pytest.mark.parametrize("folder", LAYERS)
def test_imports_point_one_way(folder):
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    for path in files:
        for module in imports_of(path):
            layer = layer_of(module)
            assert layer is None or layer <= LAYERS[folder], f"{path} imports {module}"


def fresh(code: str) -> str:
    """Run code in an interpreter of its own."""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent
    )
    return result.stdout.strip()


def test_a_kernel_costs_nothing_but_jax():
    loaded = fresh(
        "import sys, jax.numpy; before = set(sys.modules); import fedjax_admm.kernels; "
        "new = {name.split('.')[0] for name in set(sys.modules) - before}; print(sorted(new))"
    )
    assert ast.literal_eval(loaded) == ["fedjax_admm"]


def test_the_package_and_the_command_load_what_they_need_when_they_need_it():
    loaded = fresh(
        "import sys, fedjax_admm; print('jax' in sys.modules); "
        "import fedjax_admm.trials.cli; "
        "print('optax' in sys.modules, 'matplotlib' in sys.modules)"
    )
    assert loaded.split() == ["False", "False", "False"]


def test_importing_changes_no_configuration():
    changed = fresh(
        "import jax; before = dict(jax.config.values); "
        "import fedjax_admm as fa; [getattr(fa, name) for name in fa.__all__]; "
        "print({k: v for k, v in jax.config.values.items() if before.get(k) != v})"
    )
    assert changed == "{}"


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_exist_and_are_sorted_and_listed(package):
    module = import_module(package)
    assert sorted(module.__all__) == list(module.__all__)
    assert all(getattr(module, name) is not None for name in module.__all__)
    assert set(module.__all__) <= set(dir(module))
    stored = [line for line in NAMES.read_text().split() if line.rpartition(".")[0] == package]
    assert stored == [f"{package}.{name}" for name in module.__all__]


@pytest.mark.parametrize("package", [fedjax_admm, fedjax_admm.trials])
def test_type_checkers_see_what_is_loaded_lazily(package):
    tree = ast.parse(Path(package.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: node.module for node in block.body for alias in node.names}
    home = package.__name__
    for name, module in package._HOME_OF.items():
        assert seen.pop(name) == f"{home}.{module}"
    assert set(seen) == set(getattr(package, "_MODULES", ()))


def test_unknown_names_are_attribute_errors():
    for package in (fedjax_admm, fedjax_admm.trials):
        with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
            package.nonsense  # noqa: B018
