"""Misuse of the Python interface ends in one sentence, and the tables are as large as they say."""

import re

import pytest

from fedjax_admm._checks import InputError
from tests.faults.attack import tables

pytestmark = pytest.mark.thorough
ROWS = tables("misuse")


@pytest.mark.parametrize("name", ROWS)
def test_misuse(name):
    row = ROWS[name]
    with pytest.raises(row.error or InputError, match=row.says) as raised:
        row.call()
    assert raised.type is (row.error or InputError)
    assert re.fullmatch(r"[^\n]+[.?]?", str(raised.value))


def test_enough_rows():
    assert len(tables("rows")) >= 100
    assert len(ROWS) >= 137
