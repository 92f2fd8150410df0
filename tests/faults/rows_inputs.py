"""What users' files can be instead of what they ought to be: no files, no text, no tables."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path

from tests.faults.row import Row, nothing

RANGES = "x,y,range\n3,4,5\n-6,8,10\n5,-12,13\n-8,-15,17\n"
NODES = "n,a,y\n" + "".join(
    f"{n},{k},{s * k * k}\n" for s, n in enumerate("pqr", 1) for k in range(4)
)
RATINGS = "".join(
    f"{user},{item},{user % 3 + item % 2 + 1}\n" for user in range(6) for item in range(5)
)

LOCALIZATION = ("solve", "localization", "--input")
_COLUMNS = ("--target", "y", "--features", "a", "--input", "mine.csv")
NETWORKED = ("solve", "networked", "--node", "n", *_COLUMNS)
PRIVATE = ("solve", "private", "--client", "n", *_COLUMNS, "--epsilon", "1", "--clip", "1")
COMPLETED = ("solve", "ratings", "--clients", "2", "--input")


def holding(content: str | bytes, name: str = "mine.csv", **others: str) -> Callable[[Path], None]:
    """Return what writes a file, and others by their names without .csv."""

    def prepare(folder: Path) -> None:
        raw = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(raw)
        for other, text in others.items():
            (folder / f"{other}.csv").write_text(text, newline="")

    return prepare


def _folder(folder: Path) -> None:
    (folder / "mine.csv").mkdir()


def _linked(to: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "mine.csv").symlink_to(to)


def _sparse(folder: Path) -> None:
    """Make a file of a tebibyte that takes no room, beside the folder that is compared."""
    (folder.parent / "sparse").touch()
    os.truncate(folder.parent / "sparse", 2**40)


def _bomb(block: bytes) -> Callable[[Path], None]:
    """Return what writes a small file that unpacks to 64 MiB."""
    return lambda folder: holding(gzip.compress(block * (2**26 // len(block)), 1), "mine.gz")(
        folder
    )


def _ranges(name: str, content: str | bytes, says: str) -> Row:
    words = (*LOCALIZATION, "mine.csv")
    return Row(f"ranges-{name}", words, says=says, prepare=holding(content))


def _cell(name: str, cell: str, says: str) -> Row:
    return _ranges(f"cell-{name}", RANGES.replace("\n5,", f"\n{cell},"), says)


def _nodes(name: str, content: str, says: str, *more: str, **others: str) -> Row:
    prepare = holding(content, **others)
    return Row(f"nodes-{name}", (*NETWORKED, *more), says=says, prepare=prepare)


def _edges(name: str, content: str, says: str) -> Row:
    prepare = holding(NODES, edges=content)
    return Row(f"edges-{name}", (*NETWORKED, "--graph", "edges.csv"), says=says, prepare=prepare)


def _ratings(name: str, content: str | bytes, says: str, *more: str) -> Row:
    words = (*COMPLETED, "mine.csv", *more)
    return Row(f"ratings-{name}", words, says=says, prepare=holding(content))


def _data(
    name: str,
    experiment: str,
    says: str,
    data: str = ".",
    prepare: Callable[[Path], object] = nothing,
) -> Row:
    words = ("run", experiment, "--quick", "--out", "out", "--set", f"data={data}")
    return Row(f"data-{name}", words, says=says, prepare=prepare, small=False)


ROWS = [
    # No files.
    Row("folder", (*LOCALIZATION, "mine.csv"), says="is a folder, not a file", prepare=_folder),
    Row("no-name", (*LOCALIZATION, ""), says="is a folder, not a file"),
    Row("minus", (*LOCALIZATION, "-"), says="- does not exist"),
    Row("missing", (*LOCALIZATION, "none.csv"), says="none.csv does not exist"),
    Row("name-too-long", (*LOCALIZATION, "x" * 300), says="too long|does not exist"),
    Row("link-to-nothing", (*LOCALIZATION, "mine.csv"), says="not exist", prepare=_linked("gone")),
    Row(
        "link-to-itself", (*LOCALIZATION, "mine.csv"), says="levels of", prepare=_linked("mine.csv")
    ),
    Row("sparse", (*LOCALIZATION, "../sparse"), says="longer than", prepare=_sparse),
    # No text.
    _ranges("blank", "\n , ,\n\r\n", "is empty"),
    _ranges("nul", RANGES + "1,\0,5\n", "line 6: y must be a number"),
    _ranges("utf-16", RANGES.encode("utf-16"), "not UTF-8"),
    _ranges("surrogate", RANGES.encode() + b"1,2,\xed\xa0\x80\n", "not UTF-8"),
    _ranges("picture", b"\x89PNG\r\n\x1a\n" + bytes(99), "not UTF-8|no column"),
    _ranges("parquet-cut", b"PAR1" + bytes(99), "cannot be read"),
    _ranges("line-of-2-MiB", "x" * 2**21, "longer than"),
    _ranges("cell-of-half-a-MiB", RANGES + "1,2," + "1" * 2**19, "cell that is longer than"),
    # No tables.
    _ranges("old-line-ends", RANGES.replace("\n", "\r").replace("-12", "no"), "line 4: y must be"),
    _ranges("one-place", "x,y,range\n" + "1,2,5\n" * 4, "at one place"),
    _ranges("range-vanishing", RANGES + "1,2,5e-324\n", "range must be at least 1e-60"),
    _cell("1e308", "1e308", "x must be at most 1e\\+60 in size"),
    _cell("1e400", "1e400", "x must be finite"),
    _cell("formula", "=1+1", "x must be a number"),
    # Nodes.
    _nodes("one-row", "n,a,y\np,1,2\n", "one node only"),
    _nodes("header-only", "n,a,y\n", "no row below"),
    _nodes("row-each", "n,a,y\np,1,2\nq,1,2\n", "at least"),
    _nodes("all-missing", "n,a,y\np,,2\nq,1,na\n", "no row with a value"),
    _nodes("name-of-2000", NODES + "x" * 2000 + ",1,2\n", "line 14: n must have 1000"),
    _nodes("alike", "n,a,y\n" + "p,1,1\nq,1,1\nr,1,1\n" * 4, "at distance 0"),
    _nodes("map-without-places", NODES, "no column", "--coordinates", "e,w"),
    _nodes(
        "times-not-clear", "n,a,y,t\np,1,2,03/02/2024\n", "--time-format day-first", "--time", "t"
    ),
    # Edges.
    _edges("weight-overflows", "head,tail,weight\np,q,1e308\n", "weight must be at most"),
    _edges("weight-vanishes", "head,tail,weight\np,q,1e-320\n", "weight must be at least"),
    Row("edges-folder", (*NETWORKED, "--graph", "."), says="is a folder", prepare=holding(NODES)),
    Row(
        "edges-missing",
        (*NETWORKED, "--graph", "gone.csv"),
        says="'gone.csv' is none",
        prepare=holding(NODES),
    ),
    Row(
        "edges-private-apart",
        (*PRIVATE, "--edges", "edges.csv"),
        says="must connect",
        prepare=holding(NODES, edges="head,tail\np,q\n"),
    ),
    Row("labels", (*PRIVATE, "--loss", "logistic"), says="also holds", prepare=holding(NODES)),
    Row(
        "private-overflows",
        (*PRIVATE,),
        says="float32",
        prepare=holding(NODES.replace("p,3,9", "p,1e39,9")),
    ),
    # Ratings.
    _ratings("one", "1,2,3\n", "ratings must differ"),
    _ratings("deviation", RATINGS + "7,2,3e38\n7,3,-3e38\n", "must be smaller|must not"),
    _ratings("utf-16", RATINGS.encode("utf-16"), "UTF-8"),
    _ratings("zip", b"PK\x03\x04\x00\n" + RATINGS.encode(), "3 cells or more"),
    _ratings("quote-open", RATINGS + '7,"2,3\n', "line 31: there are 2 cells"),
    _ratings("spoilt", gzip.compress(RATINGS.encode())[:30] + b"x" * 30, "cannot be read"),
    Row("bomb-of-blank-lines", (*COMPLETED, "mine.gz"), says="is empty", prepare=_bomb(b"\n")),
    Row(
        "bomb-of-one-line", (*COMPLETED, "mine.gz"), says="longer than", prepare=_bomb(b"1" * 1024)
    ),
    # Data of experiments.
    _data("weather-folder", "nfl-weather", "holds no", "."),
    _data("weather-foreign", "nfl-weather", "no column", "mine.csv", holding(NODES)),
    _data("ratings-foreign", "fedmc-rank", "line 1", "mine.csv", holding("a;b\n")),
]
