"""Users' files are read only where they are files and fit the memory; tables of any size alike."""

import gzip
import sys

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from fedjax_admm._checks import InputError
from fedjax_admm._host import _input_files as input_files
from fedjax_admm._host._tables import read_header, read_table
from fedjax_admm.graphs import read_edges
from fedjax_admm.ratings import read_ratings


def table_of(path, **options):
    header = read_header(path, "its first line must name the columns", **options)
    return read_table(header, header.names)


READERS = {"edges": read_edges, "ratings": read_ratings, "table": table_of}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_what_is_no_file_is_told(read, tmp_path):
    with pytest.raises(InputError, match="is a folder, not a file"):
        read(tmp_path)
    with pytest.raises(InputError, match="none does not exist; check its name"):
        read(tmp_path / "none")


@pytest.mark.kin(1)
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_what_unpacks_to_more_than_the_memory_is_told(read, tmp_path, monkeypatch):
    rows = "".join(f"{row},{row + 1},{row},1,1\n" for row in range(10**5))
    (tmp_path / "mine.gz").write_bytes(
        gzip.compress(b"head,tail,user,item,rating\n" + rows.encode())
    )
    monkeypatch.setattr(input_files, "host_bytes", lambda: 10**5)
    with pytest.raises(InputError, match=r"would take .* of memory, but 97\.7 KiB are free; take"):
        read(tmp_path / "mine.gz")


@pytest.fixture
def read(tmp_path):
    def call(content, **options):
        path = tmp_path / "mine.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return table_of(path, **options)

    return call


def test_a_table_is_read_with_its_lines(read):
    table = read('\ufeff a , B\n1, x \n\n , \n,,\n2,"y\nz"\n3,\n')
    assert table.header.names == ("a", "B")
    assert table.lines.tolist() == [2, 6, 8]
    assert table.texts("B").tolist() == ["x", "y\nz", ""]
    np.testing.assert_array_equal(table.numbers(["a"]), [[1], [2], [3]])
    with pytest.raises(InputError, match="line 8: B is missing; fill it in or remove that row"):
        table.texts("B", complete=True)
    found = read("Anchor ID,range (cm),Range\n1,2,3\n").header.find
    assert found(["anchorid"]) == [("Anchor ID", 1.0)]
    assert found(["range"], {"cm": 0.01}) == [("range (cm)", 0.01), ("Range", 1.0)]
    assert read("a,b").texts("b").tolist() == []
    assert read("a\r1\r2\r").texts("a").tolist() == ["1", "2"]


def test_a_table_of_text_is_read_without_pyarrow(read, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    table = read('a,b\n"x""y"z,1\n5" pipe,2\n')
    assert table.texts("a").tolist() == ['x"yz', '5" pipe']
    assert table.place(1).endswith("mine.csv, line 3")


ROWS = [["a b", "x"], ["p", "0.5"], ["q", ""], ["r", "-2e3"]]


@pytest.mark.parametrize("comma", [False, True])
@pytest.mark.parametrize("mark", [",", ";", "\t", "::", " ", "   "])
def test_the_first_rows_show_what_separates_cells(read, mark, comma):
    rows = [[f'"{cell}"' if set(cell) & {" ", ""} else cell for cell in row] for row in ROWS]
    text = "".join(f"{mark.join(row)}\n" for row in rows).replace(f"q{mark}\n", f'q{mark}""\n')
    if comma and mark != ",":
        text = text.replace(".", ",")
    table = read(f"\ufeff{text}")
    assert table.header.names == ("a b", "x")
    np.testing.assert_array_equal(table.numbers(["x"])[:, 0], [0.5, np.nan, -2000])


def test_numbers_are_those_of_python(read):
    texts = [" 1e-3 ", "+5", "-.5", "0.1234567890123456789", "1e60", "4.35e-7"]
    table = read("a\n" + "\n".join(texts))
    assert table.numbers(["a"]).ravel().tolist() == [float(text) for text in texts]
    table = read("a,b\n1,NA\n,2\n")
    np.testing.assert_array_equal(table.numbers(["a", "b"]), [[1, np.nan], [np.nan, 2]])
    with pytest.raises(InputError, match="line 3: a is missing; fill it in or remove that row"):
        table.numbers(["a"], complete=True)
    with pytest.raises(InputError, match="line 2: b must be a number, but it is 'NA'; repair that"):
        table.numbers(["b"], complete=True)
    with pytest.raises(InputError, match="line 2: a must be at least 1e-60, but it is '1e-61'"):
        read("a\n1e-61\n").numbers(["a"], positive=True)
    with pytest.raises(InputError, match="line 2: b must be a number, but it is '1,5'; repair it"):
        read("a;b\n1;1,5\n1;2.5\n").numbers(["b"])


def test_names_are_numbers_only_if_all_are_plain(read):
    for texts, names in (("10 9 10", [9, 10]), ("10 09 10", ["09", "10"]), ("7 -1 7", ["-1", "7"])):
        ranks, found = read("a\n" + texts.replace(" ", "\n")).identities("a")
        assert found.tolist() == names
        assert ranks.tolist() == [1, 0, 1]


DAYS = {
    "iso": ["2024-02-03", "2024-02", "2024-02-01T12:00", "2024-02-01 12:30:00.5Z"],
    "numbers": ["3.5", "-1", "0", "1706790600"],
    "day-first": ["03/02/2024", "1/2/2024", "01/02/2024 9:30", "13/02/2024"],
    "month-first": ["2-3-2024", "02-01-2024", "02-01-2024 09:30:10", "02-13-2024"],
    "%d %b %y": ["3 Feb 24", "1 Feb 24", "02 Feb 24", "13 Feb 24"],
}


@pytest.mark.parametrize("form", DAYS)
def test_times_in_many_forms(read, form):
    times, found = read("a\n" + "\n".join([*DAYS[form][:2], "NA", *DAYS[form][2:]])).times(
        "a", form if "%" in form else None
    )
    assert found == form
    assert np.argsort(times).tolist() == [1, 3, 0, 4, 2] or form == "iso"
    assert np.isnan(times[2])
    if form == "iso":
        assert times[4] - times[1] == 12.5 * 3600 + 0.5


def test_times_that_are_not_clear_are_asked_for(read):
    table = read("a\n03/02/2024\n04/02/2024\n")
    with pytest.raises(
        InputError, match=r"mine\.csv: a may have the day or the month first, as in"
    ):
        table.times("a")
    assert np.ptp(table.times("a", "day-first")[0]) == 86400
    assert np.ptp(table.times("a", "month-first")[0]) == 31 * 86400
    assert read("a\n03.02.2024\n").times("a")[1] == "day-first"
    for texts, wrong in (("13/02/2024\n02/13/2024", "02/13/2024"), ("week 2\n", "week 2")):
        with pytest.raises(InputError, match=f"a must be a time written as .* it is '{wrong}'"):
            read(f"a\n{texts}").times("a")


def test_a_table_of_parquet(tmp_path):
    columns = {"node": ["007", None, "7"], "x": [0.1, np.pi, 3], "n": [1, None, 2]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "mine.parquet")
    table = table_of(tmp_path / "mine.parquet")
    assert table.texts("node").tolist() == ["007", "", "7"]
    np.testing.assert_array_equal(table.numbers(["x", "n"]), [[0.1, 1], [np.pi, np.nan], [3, 2]])
    with pytest.raises(InputError, match=r"mine.parquet, row 2: n is missing"):
        table.numbers(["n"], complete=True)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (" \n", "is empty; its first line must name the columns"),
        ("a,b\n1,2\n\n3\n", "line 4: there are 1 cells, but line 1 has 2; repair that row"),
        ('a,b\n1,2\n3,"4\n5,6\n', "line 3: a quote is never closed"),
        ('a,"b\n1,2\n', "line 1: a quote is never closed"),
        (b"a,b\n1,\xe9\n", "is not UTF-8 text"),
        (b"a,\xe9\n1,2\n", "is not UTF-8 text"),
        ("a\n" + "x" * 2**21, "has a cell that is longer than 131072 characters"),
        ("x" * 2**19 + "\n", "has a cell that is longer than 131072 characters"),
        ("x" * 2**21, "has a row that is longer than 1048576 bytes"),
    ],
)
def test_a_damaged_table_gets_a_sentence(read, content, sentence):
    with pytest.raises(InputError, match=sentence):
        read(content)


def test_a_column_that_is_not_used_may_be_there_twice(read):
    header = read("a,note,note\n1,x,y\n").header
    header.require(["a"])
    with pytest.raises(InputError, match="names the column note twice; rename one of them"):
        header.require(["a", "note"])


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        (None, "has no column b and c; its columns are a\\."),
        ("a, b, c", "has no column b and c; its first line must name the columns a, b, c, but"),
    ],
)
def test_a_column_that_is_not_there_is_told(read, form, sentence):
    with pytest.raises(InputError, match=sentence):
        read("a\n1\n").header.require(["a", "b", "c", "b"], form)
