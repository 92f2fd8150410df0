"""What is written as a table is read again as it was."""

import csv
import io

import pytest
from hypothesis import given, strategies as st

from fedjax_admm._host._tables import read_header, read_table
from fedjax_admm.trials.tables._cells import csv_text

TEXTS = ("=1+1", "'s-Hertogenbosch", "a,b", "a;b", '"', "two\nlines", "\u00e9", " x ")


def test_numbers_stay_numbers_and_separators_are_quoted():
    rows = [["a", "b;c"], [-1.5, '"'], [None, "x\ry"], [""]]
    assert csv_text(rows) == 'a,"b;c"\n-1.5,""""\n,"x\ry"\n""\n'


def test_a_table_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(csv_text([["node", "x"], *([text, -1] for text in TEXTS)]), newline="")
    table = read_table(read_header(path, ""), ["node", "x"])
    assert table.texts("node").tolist() == [text.strip() for text in TEXTS]
    assert set(table.numbers(["x"]).ravel()) == {-1}


@pytest.mark.thorough
@given(
    rows=st.lists(
        st.lists(
            st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",))), min_size=1
        ),
        min_size=1,
    )
)
def test_any_text_survives(rows):
    written = csv_text(rows)
    assert list(csv.reader(io.StringIO(written, newline=""), strict=True)) == rows
