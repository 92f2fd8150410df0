"""The shape of the package: which way imports point, what is public, what a kernel costs."""

import ast
import pydoc
import shutil
import subprocess
import sys
from importlib import import_module

import pytest

import fedjax_admm
from tests.package.sources import ROOT, sources

PACKAGES = [
    module
    for module, path in sources().items()
    if path.name == "__init__.py" and path.with_suffix(".pyi").exists()
]
LARGEST_CORE = 48
WITHOUT_THE_COMMAND_LINE = """
import sys

REFUSED = {"click", "filelock", "flatbuffers", "jinja2", "matplotlib", "pyarrow", "rich", "typer"}


class Refuse:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in REFUSED:
            raise ModuleNotFoundError(f"{name} is refused", name=name)


sys.meta_path.insert(0, Refuse)
import jax
import numpy as np

before = dict(jax.config.values)
import fedjax_admm as fa

for room in map(lambda name: getattr(fa, name), fa.__all__):
    [getattr(room, name) for name in getattr(room, "__all__", [])]
changed = {name: value for name, value in jax.config.values.items() if before[name] != value}
rng = np.random.default_rng(0)
rows = [(rng.normal(size=(4, 2)).astype("f4"), np.zeros(4, "f4") + 1) for _ in range(3)]
problem = fa.problems.federated(lambda x, s: (s[0] @ x - s[1]) ** 2, rows, np.zeros(2, "f4"))
solver, key = fa.solvers.fed_admm(), jax.random.key(0)
server, clients = fa.deploy.in_process(solver, problem, key, rounds=5)
result = fa.run(solver, problem, key, rounds=5)
print(
    server.record.heard.shape,
    sorted(REFUSED & set(sys.modules)),
    changed,
    bool(np.allclose(server.estimate, result.estimate, rtol=0, atol=1e-6)),
)
"""


def fresh(code: str) -> str:
    """Run code in an interpreter of its own."""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent
    )
    return result.stdout.strip()


def test_the_package_and_the_command_load_what_they_need_when_they_need_it():
    """Names of experiments cost not even JAX."""
    loaded = fresh(
        "import sys, fedjax_admm; "
        "from fedjax_admm.trials.experiments._catalogue import Catalogue; "
        "print(len(Catalogue().headlines()) > 30, 'jax' in sys.modules); "
        "import fedjax_admm.trials.cli; "
        "import fedjax_admm.ratings, fedjax_admm.graphs; fedjax_admm.ratings.read_ratings; "
        "print([name in sys.modules for name in ('optax', 'matplotlib', 'pyarrow')])"
    )
    assert loaded.splitlines() == ["True False", "[False, False, False]"]


def test_kernels_cost_nothing_but_jax_and_neither_tables_nor_runs_pandas_or_chex(tmp_path):
    (tmp_path / "table.csv").write_text("user,item,rating\n1,2,3.5\nb,2,4\n\n")
    (tmp_path / "plain.csv").write_text("user,item,rating\n1,2,3.5\n")
    (tmp_path / "edges.csv").write_text("head,tail\n1,2\n,\n0,2\n")
    loaded = fresh(
        "import sys, jax.numpy; before = set(sys.modules); import fedjax_admm.kernels; "
        "new = {name.split('.')[0] for name in set(sys.modules) - before}; print(sorted(new)); "
        "import jax, fedjax_admm as fa; from fedjax_admm import graphs, ratings; "
        f"import os; os.chdir({str(tmp_path)!r}); "
        "tables = map(ratings.read_ratings, ('table.csv', 'plain.csv')); "
        "print(*(len(table.values) for table in tables), *graphs.read_edges('edges.csv')[1]); "
        "problem = fa.problems.localization(jax.numpy.eye(4, 3) * 9, jax.numpy.ones(4)); "
        "fa.run(fa.solvers.fsmdm(), problem, jax.random.key(0), rounds=1); "
        "print([name for name in ('pandas', 'chex') if name in sys.modules])"
    )
    assert loaded.splitlines() == ["['fedjax_admm']", "2 1 0 1 2", "[]"]


@pytest.mark.thorough
def test_one_experiment_costs_no_other_and_no_figure():
    loaded = fresh(
        "import sys; from fedjax_admm.trials.experiments import find, headlines; "
        "headlines(); print(sorted({'optax', 'matplotlib', 'fedjax_admm.solvers'} & "
        "set(sys.modules))); find('fsmdm-outliers'); print([name for name in sys.modules if name "
        "in ('optax', 'matplotlib') or name.startswith('fedjax_admm.trials.experiments.nfl.')])"
    )
    assert loaded.split() == ["[]", "[]"]


def test_the_core_and_a_deployment_need_nothing_of_the_command_line():
    """Of typer and rich another version may be installed, or none; no configuration is changed."""
    loaded = fresh(WITHOUT_THE_COMMAND_LINE)
    assert loaded == "(5, 3) [] {} True"


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_exist_and_are_sorted(package):
    module = import_module(package)
    assert sorted(module.__all__) == list(module.__all__)
    assert all(getattr(module, name) is not None for name in module.__all__)
    assert set(module.__all__) <= set(dir(module))


@pytest.mark.parametrize("package", PACKAGES)
def test_names_are_listed_once_and_their_homes_are_the_rooms_own(package):
    stub = ast.parse(sources()[package].with_suffix(".pyi").read_text())
    names = [alias.name for node in stub.body for alias in node.names]
    assert len(names) == len(set(names))
    for node in stub.body:
        assert isinstance(node, ast.ImportFrom)
        assert node.module == package or node.module.startswith(f"{package}.")
        assert all(alias.asname == alias.name for alias in node.names)


def test_a_room_has_a_name_of_its_own():
    """No public name of one room of the core means something else in another."""
    rooms = [name for name in PACKAGES if not name.startswith("fedjax_admm.trials")]
    homes: dict[str, set[str]] = {}
    for room in rooms:
        for name in import_module(room).__all__:
            found = getattr(import_module(room), name)
            homes.setdefault(name, set()).add(getattr(found, "__module__", name))
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def test_the_core_is_short():
    assert len(fedjax_admm.__all__) <= LARGEST_CORE
    assert len((sources()["fedjax_admm"]).read_text().splitlines()) < 80


def test_help_shows_every_name_of_a_room():
    text = pydoc.plain(pydoc.render_doc(fedjax_admm.measures))
    assert all(name in text for name in fedjax_admm.measures.__all__)


@pytest.mark.parametrize("name", ["participation", "protocol", "schedules", "traffic", "trees"])
def test_modules_of_one_file_list_what_they_offer(name):
    module = import_module(f"fedjax_admm.{name}")
    assert dir(module) == sorted(module.__all__)
    assert all(getattr(module, each) is not None for each in module.__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_unknown_names_are_attribute_errors(package):
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        import_module(package).nonsense  # noqa: B018


def test_a_clone_that_is_not_installed_says_so(tmp_path):
    """Python that is started in a clone finds the folder fedjax_admm without kernels and trials."""
    shutil.copytree(ROOT / "fedjax_admm", tmp_path / "fedjax_admm")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import fedjax_admm"
    result = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert "a clone that is not installed from there" in result.stderr
    assert "pip install -e ." in result.stderr
