"""Tables as text that fits a terminal: numbers whole, long names folded."""

import io
import textwrap
from collections.abc import Sequence

import numpy as np

_GAP = 2  # spaces between columns
_NARROWEST = 12  # letters of a column of names


def text_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, names: int
) -> str:
    """Return a table as text, without spaces at the ends of its lines.

    Args:
      headings: of the columns; they are broken into lines where that saves room.
      rows: their cells, of one line each.
      width: columns of the terminal. Numbers are never cut: they take more where they have to.
      names: the column that holds names, which are folded where there is no room for them.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    columns = list(zip(*rows, strict=True)) if rows else [()] * len(headings)
    cells = [max(map(cell_len, column), default=0) for column in columns]
    gaps = _GAP * (len(headings) - 1)
    widths = [max(cell, len(told)) for cell, told in zip(cells, headings, strict=True)]
    if sum(widths) + gaps > width:
        words = [max(map(len, told.split())) for told in headings]
        widths = [max(pair) for pair in zip(cells, words, strict=True)]
        left = width - gaps - sum(widths) + widths[names]
        widths[names] = min(widths[names], max(left, _NARROWEST))
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="")
    for i, (told, size) in enumerate(zip(headings, widths, strict=True)):
        heading = Text("\n".join(textwrap.wrap(told, size)))
        table.add_column(
            heading, width=size, justify="left" if i == names else "right", overflow="fold"
        )
    for row in rows:
        table.add_row(*map(Text, row))
    file = io.StringIO()
    console = Console(file=file, width=sum(widths) + gaps + _GAP, color_system=None, emoji=False)
    console.print(table)
    return "\n".join(line.rstrip() for line in file.getvalue().rstrip("\n").split("\n"))


def text_lines(sentences: Sequence[str], width: int) -> list[str]:
    """Return sentences broken into lines."""
    return [
        line
        for sentence in sentences
        for line in textwrap.wrap(sentence, max(width, _NARROWEST)) or [""]
    ]


def number_text(number: float | np.ndarray, sign: str = "") -> str:
    """Return a number with four decimals, or with four digits where these would not show it.

    Args:
      number: any, shape (); NaN is "-".
      sign: "+" to show the sign of positive numbers too.
    """
    number = float(number)
    if np.isnan(number):
        return "-"
    plain = number == 0 or 1e-3 <= abs(number) < 1e6
    return format(number, f"{sign}.4f" if plain else f"{sign}.3e")
