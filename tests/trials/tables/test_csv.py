"""The one reader of users' CSV files; who uses it has tests of its own sentences."""

import numpy as np
import pytest

from fedjax_admm._checks import InputError
from fedjax_admm.trials.solve._words import ignored_told, rows_told
from fedjax_admm.trials.tables import read_csv, read_node_graph, read_observations, read_ranges


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


def test_columns_that_nothing_asks_for_are_told(read, tmp_path):
    assert read("a,b,,note\n1,2,3,4\n").others(["b", "c"]) == ("a", "", "note")
    assert ignored_told([]) == []
    assert ignored_told(["note"], "the edges") == ["Column note of the edges is ignored."]
    assert ignored_told(["", "é\x1b"]) == ["Columns (without a name), é\\x1b are ignored."]
    (tmp_path / "ranges.csv").write_text("id,X,y,Range,t\n1,0,0,1,a\n2,1,0,1,b\n3,0,1,1,c\n")
    assert read_ranges(tmp_path / "ranges.csv").ignored == ("id", "t")
    (tmp_path / "rows.csv").write_text("who,a,b,c,y,when\n" + "k,1,2,3,4,5\nl,1,2,3,4,5\n" * 2)
    asked = {"node": "who", "target": "y", "features": "a[-1]", "coordinates": "b,c"}
    seen = read_observations(tmp_path / "rows.csv", **asked, at_least=1)
    assert seen.ignored == ("when",)
    assert rows_told(seen, "", "node")[-1] == "Column when is ignored."
    (tmp_path / "edges.csv").write_text("Source,length,Target,weights\nk,3,l,2\n")
    assert read_node_graph(tmp_path / "edges.csv", ("k", "l")).ignored == ("length", "weights")


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
