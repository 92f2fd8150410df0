"""Faults of what is asked: words, settings, input files, the environment."""

import pytest

from tests.faults.attack import attack, tables

pytestmark = pytest.mark.thorough
STORED = ("chunks", "folders", "results")
ROWS = {name: row for name, row in tables("rows").items() if name.split("-")[0] not in STORED}


@pytest.mark.parametrize("name", ROWS)
def test_fault(name, tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    attack(ROWS[name], folder)
