"""Ratings from files in many forms, and from files with mistakes."""

import gzip
import os
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from fedjax_admm import InputError
from fedjax_admm.ratings import read_ratings


@pytest.fixture
def write(tmp_path):
    def written(content, name="some.ratings"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written


def entries_of(table):
    users, items = table.user_ids[table.users], table.item_ids[table.items]
    return list(zip(users.tolist(), items.tolist(), table.values.tolist(), strict=True))


ENTRIES = [(1, 20, 4.5), (1, 300, 0.0), (5, 20, -3.0)]

PLAIN = {
    "tabs": "5\t20\t-3\t881250949\n1\t300\t0\t891717742\n1\t20\t4.5\t878887116\n",
    "double colons": "1::20::4.5::978300760\n1::300::0::978302109\n5::20::-3::1\n",
    "MovieLens": "userId,movieId,rating,timestamp\n1,20,4.5,964982703\n1,300,0.0,1\n5,20,-3.0,1\n",
    "decimal commas": "5;20;-3,0\n1;20;4,5\n1;300;0\n",
    "spaces": "5 20 -3\n1 20 4.5\n1 300 0\n",
    "blank lines": "\n \n5,20,-3\n\n1,20,4.5\r\n   \n1,300,0\n\n\n",
    "byte order mark and header": b"\xef\xbb\xbfuser,item,rating\n5,20,-3\n1,20,4.5\n1,300,0\n",
    "compressed": gzip.compress(b"5,20,-3\n1,20,4.5\n1,300,0\n"),
    "quotes": '"user";"item";"rating"\n"5";"20";"-3"\n1;20;4.5\n1;300;0\n',
    "quotes around text": '5,20,-3,"a,b"\n1,20,4.5,"say ""c"""\n1,300,0,5" wide\n',
    "numbers in other ways": "5,20,-3e0\n1, 20 ,45e-1\n1,300,-.0\n",
    "another encoding where nobody reads": "5,20,-3,\n1,20,4.5,schön\n1,300,0,\n".encode("latin-1"),
    "other columns": "at;Score;note;USER_ID;product id\n1;-3;x;5;20\n;4.5;;1;20\n0;0;a,b c;1;300\n",
}


@pytest.mark.parametrize("form", PLAIN)
def test_files_in_many_forms(form, write):
    table = read_ratings(write(PLAIN[form]))
    assert entries_of(table) == ENTRIES
    assert (table.users.dtype, table.items.dtype, table.values.dtype) == (np.int32, np.int32, "f4")
    names = {"MovieLens": ("timestamp",), "tabs": ("4",), "double colons": ("4",)}
    assert table.ignored == names.get(form, table.ignored)


def test_columns_by_name(write):
    path = write('rating,how,what,who\n9,-3,20,5\n9,4.5,20,1\n9,"0",300,1\n')
    table = read_ratings(path, user="who", item="what", rating="how")
    assert (entries_of(table), table.ignored) == (ENTRIES, ("rating",))
    # What is not named is found; numbers may be names.
    path = write("0,1,user\n20,-3,5\n20,4.5,1\n300,0,1\n")
    assert entries_of(read_ratings(path, item="0", rating="1")) == ENTRIES


def test_parquet(tmp_path):
    users, items, values = zip(*ENTRIES, strict=True)
    for who in (users, [f"n{user}" for user in users]):
        table = pyarrow.table({"at": items, "movie": items, "stars": values, "who": who})
        pyarrow.parquet.write_table(table, tmp_path / "mine")
        seen = read_ratings(tmp_path / "mine", user="who")
        assert entries_of(seen) == list(zip(who, items, values, strict=True))
        assert seen.ignored == ("at",)
    wrong = pyarrow.table({"user": [1, 2], "item": [1, None], "rating": [1.0, 2.0]})
    pyarrow.parquet.write_table(wrong, tmp_path / "mine")
    with pytest.raises(InputError, match="mine, row 2: item is missing; fill it in"):
        read_ratings(tmp_path / "mine")


def test_identities_of_64_bits(write):
    large = 2**63 - 1
    path = write(f"{large},3000000000,1\n1,{large - 1},2\n7,2,3\n9,123456789012345678,4\n")
    assert entries_of(read_ratings(path)) == [
        (1, large - 1, 2.0),
        (7, 2, 3.0),
        (9, 123456789012345678, 4.0),
        (large, 3 * 10**9, 1.0),
    ]


def test_identities_that_are_texts(write):
    path = write('who,item,rating\n7,"a, b",1\n\nZoe,080410715X,4\nanna,0195153448,2\n007,é,3\n')
    table = read_ratings(path, user="who")
    entries = [("007", "é", 3.0), ("7", "a, b", 1.0), ("Zoe", "080410715X", 4.0)]
    assert entries_of(table) == [*entries, ("anna", "0195153448", 2.0)]
    assert (table.user("anna"), table.item("é"), table.user(7)) == (3, 3, 1)
    with pytest.raises(InputError, match="of the 4 that occur, from 007 to anna, but it is bob"):
        table.user("bob")
    only = read_ratings(write("1,u 2,5\n1,3,4\n"))
    assert entries_of(only) == [(1, "3", 4.0), (1, "u 2", 5.0)]
    # Zeros in front tell texts apart; so does what no whole number of 64 bits is.
    zeros = read_ratings(write("7,0155061224,1\n007,1,2\n0007,1,3\n"))
    assert entries_of(zeros) == [("0007", "1", 3.0), ("007", "1", 2.0), ("7", "0155061224", 1.0)]
    texts = ("1.5", "1e3", "1_000", "nan", "-1", "+1", f"{2**63}")
    others = read_ratings(write("".join(f"{text},2,3\n" for text in texts)))
    assert others.user_ids.tolist() == sorted(texts)


def test_parts_of_a_long_file_are_joined(write, monkeypatch):
    rows = [(user, item, (user + item) % 7 / 2) for user in range(310) for item in range(0, 600, 2)]
    content = "".join(f"{user},{item},{value}\n" for user, item, value in rows)
    path = write(content)
    assert len(content) > 2**20
    assert entries_of(read_ratings(path)) == rows
    named = read_ratings(write(content.replace("309,", "z,")))
    assert entries_of(named)[-1] == ("z", 598, rows[-1][2])
    line = len(rows) - 5
    wrong = write("".join([*content.splitlines(True)[: line - 1], "1,,2\n"]))
    with pytest.raises(InputError, match=f"line {line}: item is missing"):
        read_ratings(wrong)


# --- Mistakes ---

ROW = "1,2,3\n"
REPAIR = "repair that row."
CELLS = "repair that row, and put texts with separators in quotes."
EMPTY = " is empty; it must have a line for each rating: user, item, rating."
NUMBER = "must be a number, but it is"
SIZE = "must be at most 3.40282e+38 in size, but it is"
MISTAKES = [
    ("", {}, EMPTY),
    ("\n \r\n", {}, EMPTY),
    ("\nuser,item,rating\n\n", {}, " has no ratings below its line 2; add a row for each."),
    (
        "\nanything\n1,2,3\n",
        {},
        ", line 2: there must be 3 cells or more, separated by one of '\\t', '::', ';', ',', "
        "' ', but there is 'anything'.",
    ),
    (ROW + "\n1,3\n", {}, f", line 3: there are 2 cells, but line 1 has 3; {CELLS}"),
    ("1::2::3\n1::3::4::5\n", {}, f", line 2: there are 4 cells, but line 1 has 3; {CELLS}"),
    (ROW + ",3,3\n", {}, ", line 2: user is missing; fill it in or remove that row."),
    (
        ROW + f"ann,3,3\n{'a' * 1001},2,3\n",
        {},
        ", line 3: user must have 1000 characters at most, but it has 1001; repair that row.",
    ),
    (
        "user,item,rating\nann,x,2\n\n1,y,1\nann,x,3\n",
        {},
        ", line 5: user ann has rated item x in line 2 already, 2 there and 3 here; remove one of "
        "the two.",
    ),
    (ROW + "1,3,\n", {}, ", line 2: rating is missing; fill it in or remove that row."),
    *[
        (ROW + f"1,3,{cell}\n", {}, f", line 2: rating {NUMBER} {cell!r}; {REPAIR}")
        for cell in ("good", "1_0", "0x1", "٣", ".", "4 5")
    ],
    *[
        (
            ROW + f"1,3,{cell}\n",
            {},
            f", line 2: rating must be finite, but it is {cell!r}; {REPAIR}",
        )
        for cell in ("nan", "-Infinity", "1e999")
    ],
    (ROW + "1,3,1e39\n", {}, f", line 2: rating {SIZE} '1e39'; {REPAIR}"),
    ("1;2;3.5\n1;3;3,5\n", {}, f", line 2: rating {NUMBER} '3,5'; {REPAIR}"),
    (ROW + '1,3,4\n"2,3,4\n', {}, f", line 3: there are 1 cells, but line 1 has 3; {CELLS}"),
    (
        "who,item,rating\n",
        {},
        ": it is not clear which column is the user; name one by user=. The columns are 'who', "
        "'item' and 'rating'.",
    ),
    (
        "user,item,rating,score\n",
        {},
        ": several columns may be the rating; name one by rating=. The columns are 'user', 'item', "
        "'rating' and 'score'.",
    ),
    (
        "user,item,rating\n",
        {"item": "movie"},
        ": there is no column 'movie', which item= names. The columns are 'user', 'item' and "
        "'rating'.",
    ),
    (
        "user,item,rating,rating\n",
        {"rating": "rating"},
        ": the column 'rating' is named twice; rename one of them. The columns are 'user', 'item', "
        "'rating' and 'rating'.",
    ),
    (
        "user,item,rating\n",
        {"rating": "item"},
        ": user, item, rating must be three columns, but they are user, item and item; "
        "name them by user=, item=, rating=.",
    ),
]


@pytest.mark.parametrize(("content", "options", "ending"), MISTAKES)
def test_mistakes_get_a_sentence(content, options, ending, write):
    path = write(content)
    with pytest.raises(InputError) as caught:
        read_ratings(path, **options)
    assert str(caught.value).startswith(f"{path}{ending}")


@pytest.mark.data
def test_movielens_100k():
    folder = os.environ.get("FEDJAX_ADMM_DATA")
    if not folder:
        pytest.skip("FEDJAX_ADMM_DATA does not name the folder of the shared data files")
    path = Path(folder) / "ml-100k" / "u.data"
    if not path.exists():
        pytest.skip("ml-100k/u.data is not in the folder that FEDJAX_ADMM_DATA names")
    table = read_ratings(path)
    assert (table.num_users, table.num_items, len(table)) == (943, 1682, 100_000)
    np.testing.assert_allclose(table.values.mean(dtype=np.float64), 3.52986, rtol=1e-12)
    assert set(table.values.tolist()) == {1, 2, 3, 4, 5}
    # The file's first line: 196 has rated 242 with 3.
    first = (table.users == table.user(196)) & (table.items == table.item(242))
    assert table.values[first].tolist() == [3]
