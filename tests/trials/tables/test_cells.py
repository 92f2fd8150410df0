"""No formula reaches a table that we write, and what is written is read again."""

import csv
import io

import pytest
from hypothesis import given, strategies as st

from fedjax_admm._host import escape_cell, printable, read_table, unescape_cell
from fedjax_admm.trials.tables import csv_text

FORMULAS = (
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    " =1",
    "\uff1d1",
    "\uff0b1",
    "\uff0d1",
    "\uff201",
    "\x1b[31m",
    "\ufeffx",
    "'=1",
    "''=1",
)
# Near the rule: texts of marks, spaces and controls, often several of them in front.
near = st.text(alphabet="'=+-@ \t\r\n\x1b\ufeff\uff1d1.e,;\"a")
anything = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)))


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_becomes_a_text(text):
    cell = escape_cell(text)
    assert cell == f"'{text}"
    assert unescape_cell(cell) == text


@pytest.mark.parametrize(
    "text",
    ["-1.5", "+3", "-1e-9", "-inf", "nan", "a=1", "'s-Hertogenbosch", "'", "", "x@y", "\u00e9"],
)
def test_numbers_and_harmless_texts_are_written_as_they_are(text):
    assert escape_cell(text) == text
    assert unescape_cell(text) == text


def test_numbers_stay_numbers_and_separators_are_quoted():
    rows = [["a", "b;c"], [-1.5, '"'], [None, "x\ry"], [""]]
    assert csv_text(rows) == 'a,"b;c"\n-1.5,""""\n,"x\ry"\n""\n'


def test_a_table_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(csv_text([["node", "x"], *([text, -1] for text in FORMULAS)]), newline="")
    table = read_table(path, "")
    assert table.texts("node").tolist() == [text.strip() for text in FORMULAS]
    assert set(table.numbers(["x"]).ravel()) == {-1}


def test_what_a_terminal_obeys_is_written_out():
    assert printable("a\x1b[2Jb\r\n\u202ec \u00e9") == r"a\x1b[2Jb\r\n\u202ec " + "\u00e9"


@pytest.mark.thorough
@given(rows=st.lists(st.lists(near | anything, min_size=1), min_size=1))
def test_any_text_survives_any_number_of_ways(rows):
    written = csv_text(rows)
    raw = list(csv.reader(io.StringIO(written, newline=""), strict=True))
    read = [[unescape_cell(cell) for cell in row] for row in raw]
    assert read == rows
    assert csv_text(read) == written
    for cell in (cell for row in raw for cell in row):
        assert cell[:1] not in ("=", "@", "\t", "\r", "\n")
        if cell[:1] in ("+", "-"):
            float(cell)  # a number, not a formula


@pytest.mark.thorough
@given(names=st.lists(near | anything, min_size=1))
def test_a_file_keeps_every_name(names, tmp_path_factory):
    path = tmp_path_factory.mktemp("cells") / "mine.csv"
    path.write_text(csv_text([["node", "x"], *([name, 1] for name in names)]), "utf-8", newline="")
    assert read_table(path, "").texts("node").tolist() == [name.strip() for name in names]
