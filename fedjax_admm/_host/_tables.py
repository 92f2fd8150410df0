"""Tables in users' files: CSV files, compressed by gzip or not, and Parquet.

pyarrow reads tables of millions of rows part by part, and Parquet. Small tables of text are read by
Python's module csv, because pyarrow takes 43 MiB. Both split the same texts into the same cells.
"""

import contextlib
import csv
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from fedjax_admm._checks import InputError, listed
from fedjax_admm._host._input_files import check_room, opened, unpacked

if TYPE_CHECKING:
    import pyarrow

# In size: products of four such numbers are within float64.
SMALLEST_NUMBER, LARGEST_NUMBER = 1e-60, 1e60
LONGEST_NAME = 1000  # characters
MISSING = frozenset({"", "na", "nan", "n/a", "null"})  # in a column of numbers, in any case
_BLOCK = 2**20  # bytes: no row may be longer
_TEXT_BYTES = 60  # of an object of Python
_CHECKED = 200  # rows at a time, after which memory is looked at
_EDGES = "head, tail[, weight]"


@dataclass(frozen=True)
class Layout:
    """How the rows of a file are written."""

    path: str | Path
    cells: tuple[str, ...]  # of the first row; the names of the columns of a Parquet file
    separator: str = ""  # one character, or the same one twice; empty for a Parquet file
    line: int = 0  # of the first row, from 1
    named: bool = True  # whether the first row names the columns

    def place(self, row: int) -> str:
        """Name the file and the line of a row, counted from 0 below the names."""
        if not self.separator:
            return f"{self.path}, row {row + 1}"
        line, _ = next(itertools.islice(_rows(self), row + self.named, None))
        return f"{self.path}, line {line}"


def first_row(path: str | Path, demand: str, separators: Sequence[str] = (",",)) -> Layout:
    """Read the first row that is not blank, and find what separates its cells.

    Of several separators, the first one in the line that makes three cells of it counts; a space
    is the last choice. `demand` says what an empty file must do.
    """
    with opened(path) as file:
        if file.peek(4).startswith(b"PAR1"):
            import pyarrow.parquet

            with _explained(Layout(path, ())):
                return Layout(path, tuple(pyarrow.parquet.read_schema(file).names))
    with unpacked(path) as file:
        head = file.read(_BLOCK)
    lines = re.split("\r\n|\r|\n", head.decode("utf-8-sig", "surrogateescape"))
    line = next((k for k, text in enumerate(lines) if text.strip(" \t,;")), None)
    if line is None:
        raise InputError(f"{path} is empty", value=path, remedy=demand)
    if len(lines) == 1 and len(head) == _BLOCK:
        raise _too_long(path)
    text = lines[line]
    if re.search("[\ud800-\udfff]", text):
        raise _not_text(path)
    marks = [mark for mark in separators if mark in text] if len(separators) > 1 else separators
    for mark in sorted(marks, key=lambda mark: (mark == " ", text.find(mark))):
        try:
            cells = next(csv.reader([text], delimiter=mark[0]), [])[:: len(mark)]
        except csv.Error:
            raise _long_cell(path) from None
        if len(separators) == 1 or len(cells) >= 3:
            cells = [cell.strip() for cell in cells]
            return Layout(path, tuple(cells), mark, line + 1)
    raise InputError(
        f"{path}, line {line + 1}: there must be three cells or more, separated by one of "
        f"{', '.join(map(repr, separators))}, but there is {text!r:.80}",
        value=path,
    )


def read_columns(
    layout: Layout, places: Sequence[int], kinds: "Sequence[pyarrow.DataType]"
) -> "Iterator[list[pyarrow.Array]]":
    """Read columns of all rows that are not blank, part by part.

    Raises:
      pyarrow.ArrowException: a row has too few or too many cells, or a cell is not of its kind.
    """
    import pyarrow.csv

    if not layout.separator:
        import pyarrow.parquet

        names = [layout.cells[place] for place in places]
        with opened(layout.path) as file:
            for batch in pyarrow.parquet.ParquetFile(file).iter_batches(columns=names):
                yield [batch[name].cast(kind) for name, kind in zip(names, kinds, strict=True)]
        return
    step = len(layout.separator)
    names = [str(place) for place in range(_fields(layout))]
    types = {names[step * place]: kind for place, kind in zip(places, kinds, strict=True)}
    with unpacked(layout.path) as file:
        counted = _Quotes(file)
        try:
            reader = pyarrow.csv.open_csv(
                counted,
                pyarrow.csv.ReadOptions(
                    column_names=names,
                    block_size=_BLOCK,
                    skip_rows=layout.line - 1 + layout.named,
                ),
                pyarrow.csv.ParseOptions(
                    delimiter=layout.separator[0],
                    newlines_in_values=True,
                    invalid_row_handler=lambda row: "error" if row.text.strip() else "skip",
                ),
                pyarrow.csv.ConvertOptions(
                    column_types=types, include_columns=[*types], null_values=[]
                ),
                memory_pool=pyarrow.system_memory_pool(),  # others hold on to what is not used
            )
        except pyarrow.ArrowInvalid as error:
            if re.match("Empty CSV|Could not skip", str(error)):
                return
            raise
        with reader:
            for batch in reader:
                yield batch.columns
    if counted.quotes % 2:
        _check_quotes(layout)


def numbers_of(column: "pyarrow.Array") -> np.ndarray:
    """Return numbers without gaps as an array of NumPy.

    Conversions of pyarrow's own import pandas, which takes 40 MiB and half a second.
    """
    return np.from_dlpack(column)


def read_texts(layout: Layout, places: Sequence[int]) -> "Iterator[list[pyarrow.Array]]":
    """Read columns as texts, as `read_columns` does; what is wrong becomes a sentence."""
    import pyarrow

    with _explained(layout):
        for columns in read_columns(layout, places, [pyarrow.string()] * len(places)):
            yield [column.fill_null("") if column.null_count else column for column in columns]


@contextlib.contextmanager
def _explained(layout: Layout) -> Iterator[None]:
    """Turn what pyarrow says of a file into a sentence."""
    import pyarrow

    try:
        yield
        return
    except pyarrow.ArrowException as error:
        reason = str(error).partition("\n")[0]
    path = layout.path
    if "invalid UTF8" in reason:
        raise _not_text(path)
    if "straddling" in reason:
        raise _too_long(path)
    if "Expected" not in reason:
        raise InputError(f"{path} cannot be read: {reason}", value=path)
    raise next(_wrong(layout, *row) for row in _rows(layout) if len(row[1]) != _fields(layout))


def _wrong(layout: Layout, line: int, cells: Sequence[str]) -> InputError:
    return InputError(
        f"{layout.path}, line {line}: there are {len(cells[:: len(layout.separator)])} cells, but "
        f"line {layout.line} has {len(layout.cells)}",
        value=layout.path,
        remedy="repair that row, put texts with separators in quotes, and write decimal points",
    )


def _not_text(path: str | Path) -> InputError:
    return InputError(
        f"{path} is not UTF-8 text", value=path, remedy="save it as a CSV file in UTF-8"
    )


def _too_long(path: str | Path, part: str = "row", longest: str = f"{_BLOCK} bytes") -> InputError:
    return InputError(
        f"{path} has a {part} that is longer than {longest}",
        value=path,
        remedy="write a line per row, and close every quote",
    )


def _long_cell(path: str | Path) -> InputError:
    return _too_long(path, "cell", f"{csv.field_size_limit()} characters")


class _Quotes(io.RawIOBase):
    """A stream of bytes that counts quotes."""

    def __init__(self, file: IO[bytes]):
        self.quotes, self._file = 0, file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        self.quotes += content.count(b'"')
        return len(content)


def _rows(layout: Layout, errors: str = "replace") -> Iterator[tuple[int, list[str]]]:
    """Yield the line on which each row begins that is not blank, and its cells.

    Bytes that are not UTF-8 are replaced; with "strict" they are a mistake. At the end of the file,
    an open quote is one too.
    """
    mark, fields = layout.separator[0], _fields(layout)
    with unpacked(layout.path) as file:
        counted = _Quotes(file)
        text = io.TextIOWrapper(io.BufferedReader(counted), "utf-8-sig", errors, newline="")
        pieces = iter(partial(text.readline, _BLOCK), "")  # a line may have no end
        reader, line = csv.reader(pieces, delimiter=mark), 1
        try:
            for cells in reader:
                blank = not cells or (len(cells) != fields and not mark.join(cells).strip())
                if line >= layout.line and not blank:
                    yield line, cells
                line = reader.line_num + 1
        except csv.Error:
            raise _long_cell(layout.path) from None
        except UnicodeDecodeError:
            raise _not_text(layout.path) from None
    if counted.quotes % 2:
        _check_quotes(layout)


def _check_quotes(layout: Layout) -> None:
    """Check that every quote is closed: else the rest of the file is one cell."""
    with unpacked(layout.path) as file:
        text = io.TextIOWrapper(file, "utf-8-sig", "replace", newline="")
        reader, line = csv.reader(text, delimiter=layout.separator[0], strict=True), 1
        try:
            for _ in reader:
                line = reader.line_num + 1
        except csv.Error as error:
            if "expected after" not in str(error):  # a text goes on after its quote
                raise InputError(
                    f"{layout.path}, line {line}: a quote is never closed",
                    value=layout.path,
                    remedy="repair that line",
                ) from None


def _fields(layout: Layout) -> int:
    """Return how many cells a row has where every separator is one character."""
    return len(layout.separator) * (len(layout.cells) - 1) + 1


# --- Small tables: the first row names the columns, and commas separate cells ---


@dataclass(frozen=True)
class Table:
    """The rows of a file that are not blank; columns are checked when they are asked for."""

    layout: Layout
    header: tuple[str, ...]
    lines: np.ndarray  # shape=(rows,): the line of every row, from 1; of Parquet, its number
    columns: tuple[list[str], ...]  # cells as they are written

    def place(self, row: int) -> str:
        """Name the file and the line of a row, counted from 0."""
        kind = "line" if self.layout.separator else "row"
        return f"{self.layout.path}, {kind} {self.lines[row]}"

    def require(self, columns: Iterable[str], form: str | None = None) -> None:
        """Check that the file names columns, each of them once; `form` lists what it may name."""
        require_columns(self.layout.path, self.header, columns, form)

    def others(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that are not among those given, in their order."""
        return tuple(name for name in self.header if name not in columns)

    def texts(self, column: str, *, complete: bool = False) -> np.ndarray:
        """Return a column as stripped texts; with `complete` none may be missing."""
        cells = self._cells(column)
        for row, text in enumerate(cells):
            if complete and not text:
                raise self._missing(row, column)
            if len(text) > LONGEST_NAME:  # an array of texts is as wide as its longest
                raise InputError(
                    f"{self.place(row)}: {column} must have {LONGEST_NAME} characters at most, "
                    f"but it has {len(text)}; repair that row."
                )
        return np.array(cells, str)

    def numbers(
        self, columns: Sequence[str], *, complete: bool = False, positive: bool = False
    ) -> np.ndarray:
        """Return columns as finite numbers, shape (rows, columns); NaN where one is missing.

        With `complete` none may be missing, and with `positive` none may be below 1e-60.
        """
        numbers = np.empty((len(self.lines), len(columns)))
        for j, column in enumerate(columns):
            for i, text in enumerate(self._cells(column)):
                numbers[i, j] = number = self._number(i, column, text, complete)
                if positive and number < SMALLEST_NUMBER:
                    least = "positive" if number <= 0 else f"at least {SMALLEST_NUMBER:g}"
                    raise InputError(
                        f"{self.place(i)}: {column} must be {least}, but it is {text!r:.60}; "
                        "remove or repair that row."
                    )
        return numbers

    def _cells(self, column: str) -> list[str]:
        texts = self.columns[self.header.index(column)]
        return [text.strip() for text in texts]

    def _missing(self, row: int, column: str) -> InputError:
        return InputError(f"{self.place(row)}: {column} is missing; fill it in or remove that row.")

    def _number(self, row: int, column: str, text: str, complete: bool) -> float:
        if not complete and text.lower() in MISSING:
            return np.nan
        if not text:
            raise self._missing(row, column)
        demand = f"at most {LARGEST_NUMBER:g} in size"
        try:
            number = float(text.replace("_", "?"))  # Python reads 1_000; in a file it is a slip
        except ValueError:
            demand = "a number"
        else:
            if abs(number) <= LARGEST_NUMBER:
                return number
            if not np.isfinite(number):
                demand = "finite"
        remedy = "repair that row" if complete else "repair it, or leave the cell empty"
        raise InputError(
            f"{self.place(row)}: {column} must be {demand}, but it is {text!r:.60}; {remedy}."
        )


def require_columns(
    path: str | Path, header: Sequence[str], columns: Iterable[str], form: str | None
) -> None:
    """Check that a file names columns, each of them once; `form` lists what it may name."""
    columns = dict.fromkeys(columns)
    missing = [name for name in columns if name not in header]
    if missing:
        names = f"its columns are {', '.join(header)}"
        if form is not None:
            names = (
                f"its first line must name the columns {form}, separated by commas, but it is "
                f"{','.join(header)!r:.80}"
            )
        elif len(header) == 1 and re.search(r"[;\t]", header[0]):
            names += "; separate them by commas"
        raise InputError(f"{path} has no column {listed(missing)}; {names}.")
    twice = [name for name in columns if header.count(name) > 1]
    if twice:
        raise InputError(f"{path} names the column {listed(twice)} twice; rename one of them.")


def read_table(path: str | Path, demand: str, *, lower: bool = False) -> Table:
    """Read a table whose first row names the columns, in small letters with `lower`.

    `demand` says what an empty file must do.
    """
    layout = first_row(path, demand)
    lines: list[int] = []
    columns: list[list[str]] = [[] for _ in layout.cells]
    taken = 0
    rows = (row for row in _table_rows(layout) if any(map(str.strip, row[1])))
    while part := list(itertools.islice(rows, _CHECKED)):
        numbers, cells = zip(*part, strict=True)
        lines.extend(numbers)
        for column, texts in zip(columns, zip(*cells, strict=True), strict=True):
            column.extend(texts)
            taken += sum(map(len, texts)) + _TEXT_BYTES * len(texts)
        check_room(path, taken)
    header = tuple(name.lower() if lower else name for name in layout.cells)
    return Table(layout, header, np.array(lines, int), tuple(columns))


def _table_rows(layout: Layout) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield the line of every row below the names, and its cells."""
    if not layout.separator:
        parts = read_texts(layout, range(len(layout.cells)))
        rows = (zip(*(column.to_pylist() for column in part), strict=True) for part in parts)
        yield from enumerate(itertools.chain.from_iterable(rows), start=1)
        return
    for line, cells in itertools.islice(_rows(layout, "strict"), 1, None):
        if len(cells) != len(layout.cells):
            raise _wrong(layout, line, cells)
        yield line, cells


def edge_columns(path: str | Path) -> tuple[list[str], list[str]]:
    """Return the columns of a file of edges, the ends and perhaps the weight; and all others."""
    cells = first_row(path, f"it must have the columns {_EDGES}").cells
    header = [cell.lower() for cell in cells]
    kinds = (["head", "tail"], ["source", "target"])
    ends = next((kind for kind in kinds if {*kind} <= {*header}), kinds[0])
    columns = [*ends, "weight"] if "weight" in header else ends
    form = f"{_EDGES} or source, target[, weight]"
    require_columns(path, header, columns, form)
    return columns, [cell for cell in cells if cell.lower() not in columns]
