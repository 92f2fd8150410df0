"""One reader of the CSV files that users bring: a header, then one row per line."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedjax_admm._checks import InputError, listed
from fedjax_admm._host import LARGEST_NUMBER, LONGEST_NAME, read_rows
from fedjax_admm._shown import short_repr

MISSING = frozenset({"", "na", "nan", "n/a", "null"})  # in a column of numbers, in any case


@short_repr
@dataclass(frozen=True)
class Table:
    """The rows of a file that are not blank; what is asked of it is checked then."""

    path: Path
    header: tuple[str, ...]
    rows: tuple[tuple[int, list[str]], ...]  # (line of the file, from 1; cells)

    @property
    def lines(self) -> np.ndarray:
        """Return the line of every row, shape (rows,)."""
        return np.array([line for line, _ in self.rows], int)

    def require(self, columns: Sequence[str], form: str | None = None) -> None:
        """Check that the file names columns, each of them once; `form` says how it must do that.

        Raises:
          InputError: a column is missing or named twice.
        """
        missing = [name for name in dict.fromkeys(columns) if name not in self.header]
        if missing:
            told = f"its columns are {', '.join(self.header)}"
            if form is not None:
                told = f"its first line must name the columns {form}, separated by commas, but it "
                told += f"is {','.join(self.header)!r:.80}"
            elif len(self.header) == 1 and re.search(r"[;\t]", self.header[0]):
                told += "; separate them by commas"
            raise InputError(f"{self.path} has no column {listed(missing)}; {told}.")
        twice = sorted({name for name in columns if self.header.count(name) > 1})
        if twice:
            told = f"names the column {listed(twice)} twice; rename one of them"
            raise InputError(f"{self.path} {told}.")

    def others(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that are not among those given, in their order."""
        return tuple(name for name in self.header if name not in columns)

    def texts(self, column: str) -> np.ndarray:
        """Return a column as stripped texts; a cell that is not there is empty.

        Raises:
          InputError: a text is longer than any name: an array of texts is as wide as its longest.
        """
        cells = self._cells(column)
        for row, text in enumerate(cells):
            if len(text) > LONGEST_NAME:
                raise InputError(
                    f"{self.path}, line {self.rows[row][0]}: {column} must have {LONGEST_NAME} "
                    f"characters at most, but it has {len(text)}; repair that row."
                )
        return np.array(cells, str)

    def numbers(self, columns: Sequence[str], *, complete: bool = False) -> np.ndarray:
        """Return columns as finite numbers, shape (rows, columns); NaN where one is missing.

        Raises:
          InputError: a cell is no number, is above 1e60 in size, or with `complete` is missing.
        """
        read = np.empty((len(self.rows), len(columns)))
        for j, column in enumerate(columns):
            for i, text in enumerate(self._cells(column)):
                read[i, j] = self._number(i, column, text, complete)
        return read

    def _cells(self, column: str) -> list[str]:
        at = self.header.index(column)
        return [row[at].strip() if at < len(row) else "" for _, row in self.rows]

    def _number(self, row: int, column: str, text: str, complete: bool) -> float:
        if not complete and text.lower() in MISSING:
            return np.nan
        try:
            value = float(text.replace("_", "?"))  # Python reads 1_000; in a file it is a slip
        except ValueError:
            told = "must be a number"
        else:
            if abs(value) <= LARGEST_NUMBER:
                return value
            finite = np.isfinite(value)
            told = f"must be at most {LARGEST_NUMBER:g} in size" if finite else "must be finite"
        remedy = "repair that row" if complete else "repair it, or leave the cell empty"
        told = f"{told}, but it is {text!r:.60}; {remedy}"
        if not text:
            told = "is missing; fill it in or remove that row"
        raise InputError(f"{self.path}, line {self.rows[row][0]}: {column} {told}.")


def read_csv(path: Path, form: str, *, lower: bool = False) -> Table:
    """Read a CSV file in UTF-8 whose first line names the columns, with `lower` in small letters.

    `form` says what an empty file must do. Apostrophes that `csv_text` put before texts such as
    `=1+1` are taken away.

    Raises:
      InputError: the file cannot be read or is empty, or a row has too many cells.
    """
    rows = read_rows(path)
    if not rows:
        raise InputError(f"{path} is empty; {form}.")
    header = tuple(name.strip().lower() if lower else name.strip() for name in rows[0][1])
    for line, row in rows[1:]:
        if any(cell.strip() for cell in row[len(header) :]):
            raise InputError(
                f"{path}, line {line}: there are {len(row)} cells, but the first line names "
                f"{len(header)} columns; write decimal points, not decimal commas."
            )
    return Table(Path(path), header, tuple(rows[1:]))
