"""`new`: files to begin with that run, and obey their own tests."""

import ast
import importlib
import json
import re
import sys

import pytest

from fedjax_admm.trials.cli._new import KINDS as KINDS_OF_EXPERIMENTS
from fedjax_admm.trials.experiments import find

KINDS = {"experiment": (), "solver": ("test_mine.py",), "kernel": ("test_mine.py",)}


@pytest.fixture
def new(command, tmp_path, monkeypatch):
    """Write the files of a kind under the name `mine`, and return what the first one prints."""
    monkeypatch.syspath_prepend(tmp_path)
    yield lambda kind, *more: command("new", kind, "mine", *more)
    for name in ("mine", "test_mine"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("kind", KINDS)
def test_short_files_are_written_under_the_name(new, tmp_path, kind):
    outcome = new(kind)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("Wrote mine.py")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.py", *KINDS[kind]]
    for path in tmp_path.iterdir():
        text = path.read_text()
        assert len(text.splitlines()) < 50
        assert max(map(len, text.splitlines())) <= 100
        assert "mine" in text
        assert not re.search("own_|Own", text)
        ast.parse(text)


@pytest.mark.parametrize(("name", "title"), [("my_way", "MyWay"), ("Way", "WaySolver")])
def test_a_solver_is_a_class_and_a_function(command, tmp_path, name, title):
    command("new", "solver", name)
    tree = ast.parse((tmp_path / f"{name}.py").read_text())
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert (classes, functions) == ([title], [name])


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("a-b", "NAME must be a name as in Python, such as my_solver, but it is 'a-b'."),
        ("jnp", "jnp stands for something else in the file; choose another NAME."),
        ("json", "json is a module's name; choose another NAME."),
    ],
)
def test_a_name_that_cannot_be_used(command, tmp_path, name, sentence):
    assert command("new", "solver", name).mistake() == sentence
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("there", ["mine.py", "test_mine.py"])
def test_nothing_is_written_over(command, tmp_path, there):
    (tmp_path / there).write_text("kept")
    sentence = command("new", "kernel", "mine").mistake()
    assert sentence == f"{there} is there already; choose another NAME or --out."
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(there, "kept")]


def test_the_experiment_is_found(new, command):
    new("experiment")
    experiment = find("mine.py")
    assert experiment.name == "mine"
    for word in ("FedADMM; FedAvg", "stationarity", "present"):
        assert f"  {word}" in command("show", "mine.py").out


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS_OF_EXPERIMENTS[1:])
def test_an_experiment_of_every_kind_runs(new, command, tmp_path, kind):
    assert new("experiment", "--kind", kind).code == 0
    outcome = command("run", "mine.py", "--trials", "2", "--rounds", "20", "--batch", "2")
    assert outcome.code == 0, outcome.err
    assert (tmp_path / "results/mine/figure.png").stat().st_size > 10_000
    assert "nan" not in (tmp_path / "results/mine/summary.csv").read_text()


@pytest.mark.thorough
def test_the_experiment_runs_and_is_drawn(new, command, tmp_path):
    new("experiment")
    outcome = command("run", "mine.py", "--trials", "2", "--rounds", "60", "--batch", "2")
    assert outcome.code == 0, outcome.err
    assert (tmp_path / "results/mine/figure.png").stat().st_size > 10_000
    config = json.loads((tmp_path / "results/mine/config.json").read_text())
    assert config["methods"] == ["FedADMM", "FedAvg"]
    outcome = command("compare", "results/mine")
    *_, row = outcome.out.splitlines()
    assert " +" in row  # ADMM is ahead


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "tests_in_it"), [("solver", 2), ("kernel", 4)])
def test_what_is_written_passes_its_own_tests(new, kind, tests_in_it):
    new(kind)
    tests = vars(importlib.import_module("test_mine"))
    checks = [value for name, value in tests.items() if name.startswith("test_")]
    assert len(checks) == tests_in_it
    for check in checks:
        check()
