r"""The one writer of CSV files: what users named never becomes a formula of who opens a table.

Texts go through `escape_cell` of `fedjax_admm._host`, whose rule is exact: an apostrophe is put
before what a spreadsheet would take for a formula, `=1+1` becomes `'=1+1`, and every reader of ours
takes it away again (`unescape_cell`). So writing, reading and writing again gives the same bytes.
Numbers stay numbers, negative ones too. Cells with separators, quotes or ends of lines stand in
quotes, and a quote within is doubled, as RFC 4180 says.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from fedjax_admm._host import escape_cell

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
        text = escape_cell(text).encode(errors="replace").decode()
    quoted = text.replace('"', '""')
    return f'"{quoted}"' if _QUOTED.intersection(text) else text
