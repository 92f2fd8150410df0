"""The one reader of users' CSV files; who uses it has tests of its own sentences."""

import numpy as np
import pytest

from fedjax_admm._checks import InputError
from fedjax_admm.trials.tables import read_csv


@pytest.fixture
def read(tmp_path):
    def call(content, **options):
        path = tmp_path / "mine.csv"
        path.write_text(content)
        return read_csv(path, "its first line must name the columns", **options)

    return call


def test_a_file_is_read_with_its_lines(read):
    table = read("\ufeff a , B\n1, x \n\n , \n2\n")
    assert table.header == ("a", "B")
    assert table.lines.tolist() == [2, 5]
    assert table.texts("B").tolist() == ["x", ""]
    np.testing.assert_array_equal(table.numbers(["a"]), [[1], [2]])
    assert read("A,b\n", lower=True).header == ("a", "b")


def test_a_missing_number_is_nan_or_a_mistake(read):
    table = read("a,b\n1,NA\n,2\n")
    np.testing.assert_array_equal(table.numbers(["a", "b"]), [[1, np.nan], [np.nan, 2]])
    with pytest.raises(InputError, match="line 3: a is missing; fill it in or remove that row"):
        table.numbers(["a"], complete=True)
    with pytest.raises(InputError, match="line 2: b must be a number, but it is 'NA'; repair that"):
        table.numbers(["b"], complete=True)


def test_a_column_that_is_not_used_may_be_there_twice(read):
    table = read("a,note,note\n1,x,y\n")
    table.require(["a"])
    with pytest.raises(InputError, match="names the column note twice; rename one of them"):
        table.require(["a", "note"])


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        (None, "has no column b and c; its columns are a\\."),
        ("a, b, c", "has no column b and c; its first line must name the columns a, b, c, sep"),
    ],
)
def test_a_column_that_is_not_there_is_told(read, form, sentence):
    with pytest.raises(InputError, match=sentence):
        read("a\n1\n").require(["a", "b", "c", "b"], form)
