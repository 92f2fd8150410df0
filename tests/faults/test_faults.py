"""The attack as a table: every fault ends in a sentence, and nothing that was there is lost."""

import fnmatch
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import tests.faults
from fedjax_admm._checks import InputError
from tests.faults.machine import run_row
from tests.faults.row import REFUSED

pytestmark = pytest.mark.thorough


def tables(kind):
    """Return the rows of every module `KIND_*.py` by their names: "table-row"."""
    names = [module.name for module in pkgutil.iter_modules(tests.faults.__path__)]
    rows = {}
    for name in names:
        if name.startswith(f"{kind}_"):
            module = importlib.import_module(f"tests.faults.{name}")
            new = {f"{name.removeprefix(f'{kind}_')}-{row.name}": row for row in module.ROWS}
            assert len(new) == len(module.ROWS), f"{name} has two rows of one name"
            rows |= new
    return rows


COMMANDS, CALLS = tables("rows"), tables("misuse")


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return what every file below a folder holds, links and special files apart."""
    found = {}
    for path in sorted(folder.rglob("*")):
        plain = path.is_file() and not path.is_symlink()
        found[str(path.relative_to(folder))] = path.read_bytes() if plain else None
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_fault(name, tmp_path):
    row, folder = COMMANDS[name], tmp_path / "work"
    folder.mkdir()
    row.prepare(folder)
    before = contents(folder)
    told = run_row(row, folder)
    after = contents(folder)

    assert told.code == row.wanted, told
    assert "Traceback" not in told.out + told.err, told
    lost = {
        path
        for path, content in before.items()
        if after.get(path, b"gone") != content
        and not any(fnmatch.fnmatch(path, pattern) for pattern in row.changes)
    }
    assert not lost
    if row.wanted == REFUSED and not row.usage:
        assert re.fullmatch(r"fedjax-admm: [^\n]+[.?]\n", told.err), told
        assert set(after) == set(before)
    assert re.search(row.says, told.out + told.err), told
    row.check(folder)


@pytest.mark.parametrize("name", CALLS)
def test_misuse(name):
    row = CALLS[name]
    with pytest.raises(row.error or InputError, match=row.says) as raised:
        row.call()
    assert raised.type is (row.error or InputError)
    assert re.fullmatch(r"[^\n]+[.?]?", str(raised.value))


def test_enough_rows():
    assert len(COMMANDS) >= 300
    assert len(CALLS) >= 137
