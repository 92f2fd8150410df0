"""Ratings from files in many forms, and from files with mistakes."""

import gzip
import os
import random
from pathlib import Path

import numpy as np
import pytest

from fedjax_admm import InputError
from fedjax_admm.ratings import _files as files, read_ratings


@pytest.fixture
def write(tmp_path):
    def written(content, name="some.ratings"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written


@pytest.fixture
def by_line(monkeypatch):
    """Reads without the fast path."""

    def read(path, **options):
        def refuse(*_):
            raise files.NotPlainError

        with monkeypatch.context() as patch:
            patch.setattr(files, "read_at_once", refuse)
            return read_ratings(path, **options)

    return read


def entries_of(seen):
    users, items = seen.user_ids[seen.users], seen.item_ids[seen.items]
    return list(zip(users.tolist(), items.tolist(), seen.values.tolist(), strict=True))


def outcome(read, path, **options):
    """The entries, or what is wrong."""
    try:
        return entries_of(read(path, **options))
    except InputError as error:
        return str(error)


WANTED = [(1, 20, 4.5), (1, 300, 0.0), (5, 20, -3.0)]

FORMS = {
    "tabs": "5\t20\t-3\t881250949\n1\t300\t0\t891717742\n1\t20\t4.5\t878887116\n",
    "double colons": "1::20::4.5::978300760\n1::300::0::978302109\n5::20::-3::1\n",
    "MovieLens": "userId,movieId,rating,timestamp\n1,20,4.5,964982703\n1,300,0.0,1\n5,20,-3.0,1\n",
    "commas": "5,20,-3\n1,20,4.5\n1,300,0\n",
    "semicolons": "5;20;-3\n1;20;4.5\n1;300;0\n",
    "spaces": "5 20 -3\n1 20 4.5\n1 300 0\n",
    "aligned": "5   20   -3\n1   20  4.5 \n 1  300    0\n",
    "other ends of lines": "5,20,-3\r\n1,20,4.5\r\n1,300,0\r\n",
    "no last end of line": "5,20,-3\n1,20,4.5\n1,300,0",
    "blank lines": "\n \n5,20,-3\n\n1,20,4.5\r\n   \n1,300,0\n\n\n",
    "byte order mark": b"\xef\xbb\xbf5,20,-3\n1,20,4.5\n1,300,0\n",
    "byte order mark and header": b"\xef\xbb\xbfuser,item,rating\n5,20,-3\n1,20,4.5\n1,300,0\n",
    "compressed": gzip.compress(b"5,20,-3\n1,20,4.5\n1,300,0\n"),
    "numbers in other ways": "+5,020,-3e0\n1, 20 ,45e-1\n01,300,-.0\n",
    "points at the ends": "5,20,-3.\n1,20,4.50\n1,300,.0\n",
    "quotes": '"5","20","-3"\n1,"20",4.5\n"1", "300",0\n',
    "quotes around text": '5,20,-3,"a,b"\n1,20,4.5,"say ""c"""\n1,300,0,5" wide\n',
    "quotes with semicolons": '"user";"item";"rating"\n"5";"20";"-3"\n1;20;4.5\n1;300;0\n',
    "text": "5,20,-3,schön\n1,20,4.5,\n1,300,0,nan\n",
    "other columns": "at;Score;note;USER_ID;product id\n1;-3;x;5;20\n;4.5;;1;20\n0;0;a,b c;1;300\n",
    "header with spaces": "user item stars\n5 20 -3\n1 20 4.5\n1 300 0\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_files_in_many_forms(form, write, by_line):
    path = write(FORMS[form])
    seen = read_ratings(path)
    assert entries_of(seen) == WANTED
    assert (seen.users.dtype, seen.items.dtype, seen.values.dtype) == (np.int32, np.int32, "f4")
    for read in (read_ratings, by_line):
        for size in (1, 7, 30):
            assert entries_of(read(str(path), chunk_bytes=size)) == WANTED


@pytest.mark.parametrize("form", ["tabs", "double colons", "MovieLens", "commas", "spaces", "text"])
def test_plain_files_are_read_at_once(form, write, monkeypatch):
    monkeypatch.setattr(files, "read_line_by_line", None)
    seen = read_ratings(write(FORMS[form]))
    assert entries_of(seen) == WANTED
    names = {"MovieLens": ("timestamp",), "tabs": ("4",), "double colons": ("4",)}
    assert seen.ignored == names.get(form, seen.ignored)


def test_columns_by_name(write):
    path = write('rating,how,what,who\n9,-3,20,5\n9,4.5,20,1\n9,"0",300,1\n')
    seen = read_ratings(path, user="who", item="what", rating="how")
    assert (entries_of(seen), seen.ignored) == (WANTED, ("rating",))
    # What is not named is found; numbers may be names.
    path = write("0,1,user\n20,-3,5\n20,4.5,1\n300,0,1\n")
    assert entries_of(read_ratings(path, item="0", rating="1")) == WANTED


def test_identities_of_64_bits(write, by_line):
    large = 2**63 - 1
    path = write(f"{large},3000000000,1\n1,{large - 1},2\n7,2,3\n999999999,123456789012345678,4\n")
    wanted = [
        (1, large - 1, 2.0),
        (7, 2, 3.0),
        (999999999, 123456789012345678, 4.0),
        (large, 3 * 10**9, 1.0),
    ]
    for size in (7, 2**20):
        assert entries_of(read_ratings(path, chunk_bytes=size)) == wanted
        assert entries_of(by_line(path, chunk_bytes=size)) == wanted


def test_identities_that_are_texts(write):
    path = write('who,item,rating\n7,"a, b",1\n\nZoe,080410715X,4\nanna,0195153448,2\n007,é,3\n')
    seen = read_ratings(path, user="who", chunk_bytes=9)
    wanted = [("007", "é", 3.0), ("7", "a, b", 1.0), ("Zoe", "080410715X", 4.0)]
    assert entries_of(seen) == [*wanted, ("anna", "0195153448", 2.0)]
    assert (seen.user("anna"), seen.item("é"), seen.user(7)) == (3, 3, 1)
    with pytest.raises(InputError, match="of the 4 that occur, from 007 to anna, but it is bob"):
        seen.user("bob")
    only = read_ratings(write("1,u 2,5\n1,3,4\n"))
    assert entries_of(only) == [(1, "3", 4.0), (1, "u 2", 5.0)]


def test_both_ways_of_reading_round_alike(write, by_line):
    draw = random.Random(0)
    texts = [
        f"{sign}{draw.randrange(10**whole)}.{draw.randrange(10**places):0{places}}"
        for whole in range(1, 8)
        for places in range(1, 9)
        for sign in ("", "-") * 5
    ]
    path = write("".join(f"1\t{item}\t{text}\n" for item, text in enumerate(texts)))
    wanted = np.array([float(text) for text in texts], np.float32)
    for read in (read_ratings, by_line):
        np.testing.assert_array_equal(read(path).values, wanted)


# --- Mistakes ---

ROW = "1,2,3\n"
REPAIR = "repair or remove that line."
WHOLE = "must be a whole number, but it is"
NUMBER = "must be a number, but it is"
FINITE = "must be finite in float32, but it is"
COUNT_FROM_0 = "numbers count from 0: repair it, or declare a larger"
MISTAKES = [
    ("", {}, " is empty; it must have a line for each rating: user, item, rating."),
    ("\n \r\n", {}, " is empty; it must have a line for each rating: user, item, rating."),
    ("\nuser,item,rating\n\n", {}, " has no ratings below its line 2; add a line for each."),
    (
        "1,2\n",
        {},
        ", line 1: there must be three fields or more, user, item and rating, separated by tabs, "
        "'::', commas, semicolons or spaces, but there is '1,2'.",
    ),
    (
        "anything\n1,2,3\n",
        {},
        ", line 1: there must be three fields or more, user, item and rating, separated by tabs, "
        "'::', commas, semicolons or spaces, but there is 'anything'.",
    ),
    (
        ROW + "\n1,3\n",
        {},
        f", line 3: the number of fields must be 3, as in line 1, but it is 2 in '1,3'; {REPAIR}",
    ),
    (
        "user,item,rating,time\n1,2,3,4\n1,3,3\n",
        {},
        ", line 3: the number of fields must be 4, as in line 1, but it is 3 in '1,3,3'; " + REPAIR,
    ),
    (
        ROW + "1,3,4,5\n",
        {},
        ", line 2: the number of fields must be 3, as in line 1, but it is 4 in '1,3,4,5'; "
        + REPAIR,
    ),
    *[
        (ROW + f"{cell},3,3\n", {}, f", line 2: user {WHOLE} {cell!r}; {REPAIR}")
        for cell in ("1.5", "1.0", "", "1e3", "1_000", "nan", "١", "1 0", "--1", "+")
    ],
    *[
        (ROW + f"ann,3,3\n{cell},2,3\n", {}, f", line 3: user must have 1 to 1000 characters, but "
         f"it is {cell!r:.60}; {REPAIR}")
        for cell in ("", "a" * 1001)
    ],
    (ROW + "ann,3,3\n", {"num_users": 5}, f", line 2: user {WHOLE} 'ann'; {REPAIR}"),
    (
        "user,item,rating\nann,x,2\n1,y,1\nann,x,3\n",
        {},
        ", line 4: user ann has rated item x in line 2 already, 2 there and 3 here; remove one of "
        "the two.",
    ),
    ("user,movie_id,stars\n1,2.5,3\n", {}, f", line 2: movie_id {WHOLE} '2.5'; {REPAIR}"),
    (ROW + "-4,2,3\n", {}, f", line 2: user must not be negative, but it is '-4'; {REPAIR}"),
    (ROW + "1,-1,3\n", {}, f", line 2: item must not be negative, but it is '-1'; {REPAIR}"),
    (
        ROW + "1,9223372036854775808,3\n",
        {},
        ", line 2: item must be less than 2**63, but it is '9223372036854775808'; repair it.",
    ),
    (
        ROW + "5,2,3\n",
        {"num_users": 5},
        f", line 2: user must be less than num_users = 5, but it is '5'; {COUNT_FROM_0} num_users.",
    ),
    (
        ROW + "5,7,3\n",
        {"num_items": 7},
        f", line 2: item must be less than num_items = 7, but it is '7'; {COUNT_FROM_0} num_items.",
    ),
    *[
        (ROW + f"1,3,{cell}\n", {}, f", line 2: rating {NUMBER} {cell!r}; {REPAIR}")
        for cell in ("", "good", "1_0", "0x1", "٣", "1.2.3", ".", "-", "1e", "4 5", "-.", "+-1")
    ],
    *[
        (ROW + f"1,3,{cell}\n", {}, f", line 2: rating {FINITE} {cell!r}; {REPAIR}")
        for cell in ("nan", "NaN", "inf", "-Infinity", "1e999", "1e39", "-4e38")
    ],
    (
        "1;2;3,5\n",
        {},
        f", line 1: rating {NUMBER} '3,5'; {REPAIR}",
    ),
    (
        ROW + '1,2,3,"a\nb"\n',
        {},
        ", line 2: quotes must enclose whole fields within the line, but in '1,2,3,\"a' they do "
        f"not (unexpected end of data); {REPAIR}",
    ),
    (
        "user,item,rating\n8,7,2\n\n1,1,1\n8,7,0.5\n",
        {},
        ", line 5: user 8 has rated item 7 in line 2 already, 2 there and 0.5 here; remove one of "
        "the two.",
    ),
    (
        "8::7::2\n1::1::1\n008::07::2\n",
        {},
        ", line 3: user 8 has rated item 7 in line 1 already, 2 there and 2 here; remove one of "
        "the two.",
    ),
    (
        ROW.encode() + "1,3,4,schön".encode("latin-1") + b"\n",
        {},
        ", line 2: the file must be text in UTF-8, but there is b'1,3,4,sch\\xf6n'; save it so, or "
        "unpack it.",
    ),
    (
        ROW.encode() + b"1,\0,3\n",
        {},
        ", line 2: the file must be text in UTF-8, but there is b'1,\\x00,3'; save it so, or "
        "unpack it.",
    ),
    (
        b"PK\3\4\0\n",
        {},
        ", line 1: the file must be text in UTF-8, but there is b'PK\\x03\\x04\\x00\\n'; save it "
        "so, or unpack it.",
    ),
    (
        gzip.compress(b"1,2,3\n" * 99, mtime=0)[:-12],
        {},
        " cannot be read: Compressed file ended before the end-of-stream marker was reached.",
    ),
    (
        "who,item,rating\n",
        {},
        ", line 1: it is not clear which column is the user; name one by user=. The columns are "
        "'who', 'item' and 'rating'.",
    ),
    (
        "user,item,rating,score\n",
        {},
        ", line 1: several columns may be the rating; name one by rating=. The columns are 'user', "
        "'item', 'rating' and 'score'.",
    ),
    (
        "user,item,rating\n",
        {"item": "movie"},
        ", line 1: there is no column 'movie', which item= names. The columns are 'user', 'item' "
        "and 'rating'.",
    ),
    (
        "user,item,rating\n",
        {"user": ""},
        ", line 1: there is no column '', which user= names. The columns are 'user', 'item' and "
        "'rating'.",
    ),
    (
        "user,item,rating,rating\n",
        {"rating": "rating"},
        ", line 1: the column 'rating' is named twice; rename one of them. The columns are 'user', "
        "'item', 'rating' and 'rating'.",
    ),
    (
        "user,item,rating\n",
        {"rating": "item"},
        ", line 1: user, item and rating must be three columns, but they are user, item and item; "
        "name them by user=, item=, rating=.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("content", "options", "ending"), MISTAKES)
def test_mistakes_get_a_sentence(content, options, ending, write, by_line):
    path = write(content)
    for read in (read_ratings, by_line):
        for size in (1, 7, 2**20):
            assert outcome(read, path, **options, chunk_bytes=size) == f"{path}{ending}"


def test_files_that_cannot_be_read_get_a_sentence(tmp_path):
    missing = tmp_path / "none.csv"
    assert outcome(read_ratings, missing) == f"{missing} does not exist; check its name."
    assert (
        outcome(read_ratings, tmp_path) == f"{tmp_path} is a folder, not a file; name a file in it."
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"chunk_bytes": 0}, "chunk_bytes must be at least 1, but it is 0."),
        ({"num_users": 1.5}, "num_users must be a whole number, but it is 1.5."),
    ],
)
def test_mistakes_in_the_options_get_a_sentence(options, sentence, write):
    assert outcome(read_ratings, write(ROW), **options) == sentence


TEXTS = [
    "", " ", "0", "7", "-1", "+3", "-0", "1.5", "2.", ".5", ".", "1e1", "1E400", "nan", "x", "1_0",
    '"', '"4"', '""', '"4', ",", "\t", "::", ";", "\n", "\r", "\r\n", "\0", "é", "\u3000", "\x1c",
    "9" * 15, "9" * 18, "9" * 19, "0" * 30 + "2", "1" * 120, "0.1234567890123456789",
]  # fmt: skip
SEPARATORS = ["\t", "::", ",", ";", " "]


@pytest.mark.kin(2)
@pytest.mark.parametrize("seed", range(6))
def test_a_corrupted_file_is_judged_alike_in_every_way_of_reading(seed, write, by_line):
    draw = random.Random(seed)
    verdicts = []
    for _ in range(60):
        fields, separator = draw.randrange(3, 6), draw.choice(SEPARATORS)
        pairs = [divmod(pair, 6) for pair in draw.sample(range(36), 12)]
        rows = [
            [*map(str, pair), f"{draw.randrange(11) / 2:g}", "4", "5"][:fields] for pair in pairs
        ]
        row = draw.choice(rows)
        place = draw.randrange(fields)
        row[place] = draw.choice([*TEXTS, row[place] + draw.choice(TEXTS)])
        header = separator.join(["user", "item", "rating", "time", "note"][:fields]) + "\n"
        lines = [separator.join(row) + draw.choice(["\n", "\n", "\r\n"]) for row in rows]
        path = write(draw.choice(["", header]) + "".join(lines))
        limit = {"num_users": draw.choice([None, 6])}
        wanted = outcome(by_line, path, **limit)
        for size in (7, 50, 2**20):
            assert outcome(read_ratings, path, **limit, chunk_bytes=size) == wanted
        verdicts.append(isinstance(wanted, list))
    assert 5 < sum(verdicts) < 55  # some of them are good


def test_one_wrong_line_among_many(write):
    lines = [f"{user}\t{item}\t{1 + item % 5}\n" for user in range(50) for item in range(40)]
    for line, text, problem in (
        (1234, "30\t1_0\t2\n", "item must be a whole number, but it is '1_0'"),
        (2000, lines[1], "user 0 has rated item 1 in line 2 already, 2 there and 2 here"),
        (17, "0\t16\t\n", "rating must be a number, but it is ''"),
    ):
        path = write("".join([*lines[: line - 1], text, *lines[line:]]))
        for size in (7, 1000, 2**20):
            with pytest.raises(InputError, match=f"line {line}: {problem}"):
                read_ratings(path, chunk_bytes=size)


@pytest.mark.data
def test_movielens_100k():
    folder = os.environ.get("FEDJAX_ADMM_DATA")
    if not folder:
        pytest.skip("FEDJAX_ADMM_DATA does not name the folder of the shared data files")
    path = Path(folder) / "ml-100k" / "u.data"
    if not path.exists():
        pytest.skip("ml-100k/u.data is not in the folder that FEDJAX_ADMM_DATA names")
    seen = read_ratings(path)
    assert (seen.num_users, seen.num_items, len(seen)) == (943, 1682, 100_000)
    np.testing.assert_allclose(seen.values.mean(dtype=np.float64), 3.52986, rtol=1e-12)
    assert set(seen.values.tolist()) == {1, 2, 3, 4, 5}
    # The file's first line: 196 has rated 242 with 3.
    first = (seen.users == seen.user(196)) & (seen.items == seen.item(242))
    assert seen.values[first].tolist() == [3]
    with pytest.raises(InputError, match="user must be less than num_users = 943, but it is '943'"):
        read_ratings(path, num_users=943)
