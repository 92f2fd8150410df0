"""CI runs the tests that a change concerns, nearest first."""

import importlib.util
import re
import tempfile
from pathlib import Path

import pytest

from tests.package.sources import ROOT

_spec = importlib.util.spec_from_file_location("changes", ROOT / ".ci" / "changes.py")
changes = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(changes)
FOLDERS = {path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("tests/**/test_*.py")}


def distances(*changed, turn=0):
    found = list(changes.order(list(changed), turn))
    assert [distance for distance, _ in found] == sorted(distance for distance, _ in found)
    return {folder: distance for distance, folder in found}


def test_a_solver_is_followed_by_what_uses_it():
    found = distances("fedjax_admm/solvers/star/_fsmdm.py")
    nearest = {folder for folder, distance in found.items() if distance == 0}
    assert nearest == {"tests/solvers", "tests/solvers/star"}
    assert found["tests/cli/solve"] == 1  # `solve localization` imports it
    assert found["tests/problems"] == 2  # reaches it as fa.solvers.fsmdm
    assert found.get("tests/penalties", 3) == 3


def test_what_all_share_concerns_all():
    assert distances("tests/conftest.py") == dict.fromkeys(FOLDERS, 0)
    assert {folder: distance for distance, folder in changes.order(None, 0)} == dict.fromkeys(
        FOLDERS, 0
    )
    found = distances("fedjax_admm/_pytrees.py")
    near = [folder for folder, distance in found.items() if distance < 3]
    assert len(near) > len(FOLDERS) / 2


def test_a_helper_of_tests_concerns_those_that_import_it():
    found = distances("tests/reference/star_averaging.py")
    assert found["tests/solvers/star"] == 0
    assert found.get("tests/solvers/tree", 3) == 3


def test_everything_has_its_turn():
    seen = [distances("paper/paper.md", turn=turn) for turn in range(changes.TURNS)]
    assert set().union(*seen) == FOLDERS
    assert sum(map(len, seen)) == len(FOLDERS)


@pytest.mark.parametrize(
    ("path", "concerned"),
    [
        *((p, True) for p in ("docs/start.md", "README.md", "fedjax_admm/solvers/__init__.pyi")),
        *((p, False) for p in ("tests/core/test_run.py", "benchmarks/tune.py", ".ci/run")),
    ],
)
def test_the_site_is_built_where_it_would_differ(path, concerned):
    assert changes.site_is_concerned([path]) == concerned


def test_a_docstring_concerns_the_site_and_other_code_does_not(monkeypatch):
    path = "fedjax_admm/lanes.py"
    code = (ROOT / path).read_text("utf-8")
    for recorded, concerned in ((f"{code}\nX = 1\n", False), ('"""Other words."""', True)):
        monkeypatch.setattr(changes, "_git", lambda *_, text=recorded: text)
        assert changes.site_is_concerned([path]) == concerned


def test_an_archive_without_git_counts_as_changed(monkeypatch):
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(changes, "ROOT", Path(folder))
        assert changes.changed_files() is None


def test_the_recorded_tree_is_one():
    assert re.fullmatch("[0-9a-f]{40}", (ROOT / ".ci" / "passed").read_text().strip())
