"""The attack as a table: every fault ends in a sentence, and nothing that was there is lost.

Tests of a table are in the modules `test_*.py` beside this one, so that processes share them.
"""

import fnmatch
import importlib
import pkgutil
import re
from pathlib import Path

import tests.faults
from tests.faults.machine import run_row
from tests.faults.row import REFUSED, Misuse, Row


def tables(kind: str) -> dict[str, Row] | dict[str, Misuse]:
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


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return what every file below a folder holds, links and special files apart."""
    found = {}
    for path in sorted(folder.rglob("*")):
        plain = path.is_file() and not path.is_symlink()
        found[str(path.relative_to(folder))] = path.read_bytes() if plain else None
    return found


def attack(row: Row, folder: Path) -> None:
    """Run the command of a row in an empty folder, and see what it leaves."""
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
    assert not lost, lost
    if row.wanted == REFUSED and not row.usage:
        assert re.fullmatch(r"fedjax-admm: [^\n]+[.?]\n", told.err), told
        assert set(after) == set(before)
    assert re.search(row.says, told.out + told.err), told
    row.check(folder)
