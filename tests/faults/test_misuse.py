"""The likeliest misuses of the Python interface end in one sentence each."""

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
