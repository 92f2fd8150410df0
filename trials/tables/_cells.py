r"""The one writer of CSV files: numbers stay numbers, and texts are quoted as RFC 4180 says."""

from collections.abc import Iterable, Sequence
from typing import Any

_QUOTED = frozenset(',;|"\r\n\t')


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    r"""Return rows of texts and numbers as the text of a CSV file, each ending in \n.

    Nothing is an empty cell; halves of surrogate pairs, which UTF-8 cannot hold, become `?`.
    """
    return "".join(f"{_line(row)}\n" for row in rows)


def _line(row: Sequence[Any]) -> str:
    cells = [_cell(value) for value in row]
    return '""' if cells == [""] else ",".join(cells)  # an empty line would be no row


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    if isinstance(value, str):
        text = text.encode(errors="replace").decode()
    quoted = text.replace('"', '""')
    return f'"{quoted}"' if _QUOTED.intersection(text) else text
