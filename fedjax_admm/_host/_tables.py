"""The one reader of tables in users' files: CSV text, compressed by gzip or not, and Parquet.

header = read_header("mine.csv", "it must have the columns a, b")
table = read_table(header, ["a", "b"])
table.numbers(["a"]), table.texts("b")

The first rows show what separates the cells: tabs, `::`, semicolons, commas or spaces. Where it is
no comma, a comma in a number is a decimal one. Cells may stand in quotes; spaces around them do not
count. A column is kept as its different texts and a code per row, so that long files take little.
"""

import contextlib
import csv
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_admm._checks import InputError, listed
from fedjax_admm._host._input_files import check_room, opened, unpacked
from fedjax_admm._host._times import NUMBERS, form_of, seconds_of

# In size: products of four such numbers are within float64.
SMALLEST_NUMBER, LARGEST_NUMBER = 1e-60, 1e60
LONGEST_NAME = 1000  # characters
MISSING = frozenset({"", "na", "nan", "n/a", "null"})  # in a column of numbers, in any case
NUMBER = re.compile(
    r"[+-]?(([0-9]+([.,][0-9]*)?|[.,][0-9]+)(e[+-]?[0-9]+)?|nan|inf|infinity)", re.IGNORECASE
)
_PLAIN = re.compile("0|[1-9][0-9]{0,18}")  # a whole number without leading zeros
_LINE_ENDS = re.compile("\r\n|\r|\n")
_GONE = "is missing", "fill it in or remove that row"
_MARKS = ("\t", "::", ";", ",", " ")  # what may separate cells
_LONGEST_LINE = 2**20  # characters
_FIRST_ROWS, _PART = 20, 2**12  # how many rows show the separator; how many are read at a time
_TEXT_BYTES = 100  # of an object of Python and its place in a dictionary
_EDGES = "head, tail[, weight]"
_END = "\x1c"  # a blank line below the last one: inside of a quote that is open it is no line


@dataclass(frozen=True)
class Header:
    """The first row of a file, and how its rows are written."""

    path: str | Path
    names: tuple[str, ...]  # of the columns
    separator: str = ""  # empty for a Parquet file
    line: int = 0  # of the first row, from 1
    named: bool = True  # whether the first row names the columns

    def require(self, columns: Iterable[str], form: str | None = None) -> None:
        """Check that the file names columns, each of them once; `form` lists what it may name."""
        missing = [name for name in dict.fromkeys(columns) if name not in self.names]
        if missing:
            names = f"its columns are {', '.join(self.names)}"
            if form is not None:
                line = (self.separator or ",").join(self.names)
                names = f"its first line must name the columns {form}, but it is {line!r:.80}"
            raise InputError(f"{self.path} has no column {listed(missing)}; {names}.")
        twice = [name for name in dict.fromkeys(columns) if self.names.count(name) > 1]
        if twice:
            told = f"{self.path} names the column {listed(twice)} twice"
            raise InputError(told, remedy="rename one of them")

    def find(
        self, names: Iterable[str], units: Mapping[str, float] | None = None
    ) -> list[tuple[str, float]]:
        """Return the columns that have one of some names, and the factors of their units.

        The case does not count, nor do characters between letters and digits: `Anchor ID` is called
        `anchorid`, and `range (cm)` is `range` with the unit `cm`. Columns are in the order of the
        names.
        """
        found = []
        plain = [(each, re.findall("[a-z0-9]+", each.lower())) for each in self.names]
        for name in names:
            for column, parts in plain:
                if "".join(parts) == name:
                    found.append((column, 1.0))
                elif units and parts and parts[-1] in units and "".join(parts[:-1]) == name:
                    found.append((column, units[parts[-1]]))
        return found

    def others(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that are not among those given, in their order."""
        return tuple(name for name in self.names if name not in columns)


@dataclass(frozen=True)
class Table:
    """Columns of the rows of a file that are not blank, as they are written."""

    header: Header
    lines: np.ndarray  # shape=(rows,): the line of every row, from 1; of Parquet, its number
    columns: dict[str, tuple[np.ndarray, list[str]]]  # a code per row; text of every code

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.lines)

    def place(self, row: int) -> str:
        """Name the file and the line of a row, counted from 0."""
        kind = "line" if self.header.separator else "row"
        return f"{self.header.path}, {kind} {self.lines[row]}"

    def texts(self, column: str, *, complete: bool = False) -> np.ndarray:
        """Return a column as texts; with `complete` none may be missing."""
        codes, texts = self.columns[column]
        for code, text in enumerate(texts):
            if complete and not text:
                raise self._mistake(column, code, *_GONE)
            if len(text) > LONGEST_NAME:  # an array of texts is as wide as its longest
                told = f"must have {LONGEST_NAME} characters at most, but it has {len(text)}"
                raise self._mistake(column, code, told, "repair that row")
        return np.array(texts, str)[codes]

    def identities(self, column: str) -> tuple[np.ndarray, np.ndarray]:
        """Return who is named in every row, as a rank, and all names in ascending order.

        Names are numbers if all of them are whole numbers without leading zeros that fit int64;
        else they are texts.
        """
        self.texts(column, complete=True)
        codes, texts = self.columns[column]
        plain = all(_PLAIN.fullmatch(text) and int(text) < 2**63 for text in texts)
        names = np.array([int(text) for text in texts], np.int64) if plain else np.array(texts, str)
        found, ranks = np.unique(names, return_inverse=True)
        return ranks.astype(np.int32)[codes], found

    def numbers(self, columns: Sequence[str], **limits: Any) -> np.ndarray:
        """Return columns as `number_column` does, shape (rows, columns)."""
        found = np.empty((len(self), len(columns)))
        for place, column in enumerate(columns):
            found[:, place] = self.number_column(column, **limits)
        return found

    def number_column(
        self,
        column: str,
        *,
        complete: bool = False,
        positive: bool = False,
        largest: float = LARGEST_NUMBER,
    ) -> np.ndarray:
        """Return a column as finite numbers, shape (rows,); NaN where one is missing.

        With `complete` none may be missing, and with `positive` none may be below 1e-60.
        """
        codes, texts = self.columns[column]
        comma = self.header.separator not in ("", ",") and not any("." in text for text in texts)
        remedy = "repair that row" if complete else "repair it, or leave the cell empty"
        numbers = np.full(len(texts), np.nan)
        for code, text in enumerate(texts):
            if not complete and text.lower() in MISSING:
                continue
            if not text:
                raise self._mistake(column, code, *_GONE)
            plain = text.replace(",", ".") if comma else text
            number = float(plain) if NUMBER.fullmatch(plain) and "," not in plain else None
            if number is None:
                demand = "a number"
            elif not np.isfinite(number):
                demand = "finite"
            elif abs(number) > largest:
                demand = f"at most {largest:g} in size"
            elif positive and number < SMALLEST_NUMBER:
                demand = "positive" if number <= 0 else f"at least {SMALLEST_NUMBER:g}"
                remedy = "remove or repair that row"
            else:
                numbers[code] = number
                continue
            told = f"must be {demand}, but it is {text!r:.60}"
            raise self._mistake(column, code, told, remedy)
        return numbers[codes]

    def times(self, column: str, form: str | None = None) -> tuple[np.ndarray, str]:
        """Return a column as seconds since 1970, or numbers, and how its times are written.

        A missing one is NaN. The form is found from the column if None.
        """
        codes, texts = self.columns[column]
        present = [text for text in texts if text.lower() not in MISSING]
        form = form_of(f"{self.header.path}: {column}", present, NUMBER) if form is None else form
        if form == NUMBERS:
            return self.number_column(column), form
        seconds = np.full(len(texts), np.nan)
        for code, text in enumerate(texts):
            if text.lower() not in MISSING:
                moment = seconds_of(text, form)
                if moment is None:
                    told = f"must be a time written as {form}, but it is {text!r:.60}"
                    raise self._mistake(
                        column, code, told, "repair it, or name another form with {time_format}"
                    )
                seconds[code] = moment
        return seconds[codes], form

    def _mistake(self, column: str, code: int, told: str, remedy: str) -> InputError:
        """Return what is wrong with the first cell of a code."""
        codes, texts = self.columns[column]
        place = self.place(int(np.argmax(codes == code)))
        about = {"value": texts[code], "remedy": remedy, "others": ["time_format"]}
        return InputError(f"{place}: {column} {told}", **about)


def read_header(path: str | Path, demand: str, *, least: int = 1) -> Header:
    """Read the first row that is not blank, and find what separates the cells of the first rows.

    Args:
      path: the file.
      demand: what an empty file must do.
      least: how many cells a row has at least.
    """
    packed = _packed_names(path)
    cells, mark, line = _first_row(path, demand, least) if packed is None else (packed, "", 0)
    return Header(path, tuple(map(str.strip, cells)), mark, line)


def _packed_names(path: str | Path) -> list[str] | None:
    """Return the names of the columns of a Parquet file; None of another one."""
    with opened(path) as file:
        if not file.peek(4).startswith(b"PAR1"):
            return None
        with _parquet(path, file) as content:
            return content.schema_arrow.names


def _first_row(path: str | Path, demand: str, least: int) -> tuple[list[str], str, int]:
    """Return the cells of the first row of a text, what separates them, and its line."""
    with unpacked(path) as file:
        head = file.read(_LONGEST_LINE)
    lines = _LINE_ENDS.split(head.decode("utf-8-sig", "surrogateescape"))
    line = next((k for k, text in enumerate(lines) if text.strip(" \t,;")), None)
    if line is None:
        raise InputError(f"{path} is empty", value=path, remedy=demand)
    if len(lines) == 1 and len(head) == _LONGEST_LINE:
        raise _too_long(path)
    _check_text(path, lines[line : line + 1])
    cells, fits = {}, {}  # of every mark: the first row, and how many rows are as wide as that
    for mark in _MARKS:
        with _readable(path):
            rows = list(itertools.islice(filter(None, _split(lines[line:], mark)), _FIRST_ROWS))
        cells[mark] = rows[0]
        if len(rows[0]) >= max(least, 2):
            fits[mark] = sum(len(row) == len(rows[0]) for row in rows) / len(rows)
    if least > 1 and not fits:
        raise InputError(
            f"{path}, line {line + 1}: there must be {least} cells or more, separated by one of "
            f"{', '.join(map(repr, _MARKS))}, but there is {lines[line]!r:.80}",
            value=path,
        )
    mark = max(fits, key=fits.__getitem__, default=",")
    return cells[mark], mark, line + 1


def read_table(header: Header, columns: Sequence[str]) -> Table:
    """Read columns of all rows that are not blank.

    Of columns with the same name, the first one is read; `Header.require` refuses such names.
    """
    columns = list(dict.fromkeys(columns))
    known = [_Codes() for _ in columns]
    parts: list[list[np.ndarray]] = [[np.empty(0, np.int32)] for _ in columns]
    lines = [np.empty(0, np.int32)]
    taken, read = 0, _text_parts if header.separator else _parquet_parts
    for part, cells in read(header, columns):
        lines.append(np.asarray(part, np.int32))
        taken += 4 * len(part) * (1 + len(columns))
        for codes, arrays, texts in zip(known, parts, cells, strict=True):
            arrays.append(np.fromiter(map(codes.__getitem__, texts), np.int32, len(part)))
        check_room(header.path, taken + sum(codes.size for codes in known))
    found = {}
    for name, codes, arrays in zip(columns, known, parts, strict=True):
        _check_text(header.path, codes.texts)
        found[name] = (np.concatenate(arrays), list(codes.texts))
        arrays.clear()
    return Table(header, np.concatenate(lines), found)


def edge_header(path: str | Path) -> tuple[Header, list[str]]:
    """Return the header of a file of edges, and its columns of the ends and perhaps the weight."""
    header = read_header(path, f"it must have the columns {_EDGES}")
    kinds = (["head", "tail"], ["source", "target"])
    found = {name: [column for column, _ in header.find([name])] for name in sum(kinds, ["weight"])}
    twice = next((name for name, columns in found.items() if len(columns) > 1), None)
    if twice is not None:
        raise InputError(f"{path} names the column {twice} twice", remedy="rename one of them")
    ends = next((kind for kind in kinds if all(found[end] for end in kind)), kinds[0])
    columns = [*(found[end][0] if found[end] else end for end in ends), *found["weight"]]
    header.require(columns, f"{_EDGES} or source, target[, weight]")
    return header, columns


class _Codes(dict[str, int]):
    """The codes of texts as they are written: those that differ by spaces around them have one."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, int] = {}
        self.size = 0  # bytes

    def __missing__(self, text: str) -> int:
        self.size += _TEXT_BYTES + len(text)
        code = self[text] = self.texts.setdefault(text.strip(), len(self.texts))
        return code


_Parts = Iterator[tuple[Any, Sequence[Sequence[str]]]]  # lines, and cells by columns


def _text_parts(header: Header, columns: Sequence[str]) -> _Parts:
    places = [header.names.index(name) for name in columns]
    width, above, line = len(header.names), header.line - (not header.named), 1
    with unpacked(header.path) as file, _readable(header.path):
        text = io.TextIOWrapper(file, "utf-8-sig", "surrogateescape", newline="")
        pieces = iter(partial(text.readline, _LONGEST_LINE), "")  # a line may have no end
        reader = _split(itertools.chain(pieces, [_END]), header.separator)
        last: list[str] = []
        lines: Sequence[int] = ()
        while rows := list(itertools.islice(reader, _PART)):
            lines, last = range(line, line + len(rows)), rows[-1]
            if reader.line_num - line + 1 != len(rows):  # a cell has several lines
                ends = itertools.accumulate(
                    1 + len(_LINE_ENDS.findall("".join(row))) for row in rows
                )
                lines = [line, *(line + end for end in ends)][:-1]
            line, first = reader.line_num + 1, [row[0] if row else "" for row in rows]
            if (
                lines[0] <= above
                or set(map(len, rows)) != {width}
                or not all(map(str.strip, first))
            ):
                kept = [k for k, row in enumerate(rows) if any(map(str.strip, row))]
                kept = [k for k in kept if lines[k] > above]
                lines, rows = [lines[k] for k in kept], [rows[k] for k in kept]
                for each, row in zip(lines, rows, strict=True):
                    if len(row) != width:
                        raise InputError(
                            f"{header.path}, line {each}: there are {len(row)} cells, but line "
                            f"{header.line} has {width}",
                            value=header.path,
                            remedy="repair that row, and put texts with separators in quotes",
                        )
            cells = list(zip(*rows, strict=True)) or [()] * width
            yield lines, [cells[place] for place in places]
    if any(map(str.strip, last)):
        told = f"{header.path}, line {[header.line, *lines][-1]}: a quote is never closed"
        raise InputError(told, value=header.path, remedy="repair that line")


def _parquet_parts(header: Header, columns: Sequence[str]) -> _Parts:
    import pyarrow

    with opened(header.path) as file, _parquet(header.path, file) as content:
        row = 1
        for batch in content.iter_batches(columns=list(columns)):
            texts = (batch[name].cast(pyarrow.string()).fill_null("") for name in columns)
            cells = [column.to_pylist() for column in texts]
            yield range(row, row + batch.num_rows), cells
            row += batch.num_rows


@contextlib.contextmanager
def _parquet(path: str | Path, file: Any) -> Iterator[Any]:
    """Open a Parquet file; what pyarrow says of it becomes a sentence."""
    import pyarrow
    import pyarrow.parquet

    try:
        yield pyarrow.parquet.ParquetFile(file)
    except pyarrow.ArrowException as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"{path} cannot be read: {reason}", value=path) from None


def _split(lines: Iterable[str], mark: str) -> Any:
    """Return a reader of csv, which splits lines into cells."""
    if mark == "::":
        lines, mark = map(methodcaller("replace", "::", "\t"), lines), "\t"
    elif mark == " ":
        lines = map(str.strip, lines)
    return csv.reader(lines, delimiter=mark, skipinitialspace=True)


@contextlib.contextmanager
def _readable(path: str | Path) -> Iterator[None]:
    try:
        yield
    except csv.Error:
        raise _too_long(path, "cell", f"{csv.field_size_limit()} characters") from None


def _too_long(
    path: str | Path, part: str = "row", longest: str = f"{_LONGEST_LINE} bytes"
) -> InputError:
    return InputError(
        f"{path} has a {part} that is longer than {longest}",
        value=path,
        remedy="write a line per row, and close every quote",
    )


def _check_text(path: str | Path, texts: Iterable[str]) -> None:
    """Check that texts hold no bytes that are not UTF-8."""
    if re.search("[\ud800-\udfff]", "".join(texts)):
        raise InputError(
            f"{path} is not UTF-8 text", value=path, remedy="save it as a CSV file in UTF-8"
        )
