r"""Texts of users' files where others read them: in a spreadsheet, on a terminal.

A spreadsheet takes a cell that begins with `=`, `+`, `-` or `@` for a formula, whoever wrote it:
the name of a node such as `=cmd|' /C calc'!A0` would be run where a table is opened. A cell that
begins with an apostrophe is a text for every spreadsheet, so that is what we write. The rule is
exact:

    dangerous   any number of apostrophes, then white space or control characters or none, then one
                of = + - @ (or a fullwidth or small form of them); or any number of apostrophes,
                then a control character such as a tab or an end of line
    escape      a dangerous text that is no plain number gets one more apostrophe in front
    unescape    a dangerous text that begins with an apostrophe loses one

so that `unescape_cell(escape_cell(text)) == text` for every text: `=1+1` is written `'=1+1`, and
`'=1+1` is written `''=1+1`. What begins with an apostrophe and is not dangerous, such as
`'s-Hertogenbosch`, and plain numbers, such as `-1.5`, are written and read as they are.

Reference: OWASP Foundation, "CSV Injection", its advice on escaping.
"""

import re

# Fullwidth and small forms of = + - @: some programs take them for the plain ones.
_SIGNS = "=+\\-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b"
_CONTROLS = "\x00-\x1f\x7f-\x9f\ufeff"  # and the byte order mark, which no file may begin with
_DANGEROUS = re.compile(f"'*(?:[\\s{_CONTROLS}]*[{_SIGNS}]|[{_CONTROLS}])")
_NUMBER = re.compile(
    r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|nan)", re.IGNORECASE
)
# What a terminal obeys or hides: control characters, halves of pairs, ends of lines and paragraphs,
# marks that turn the direction of writing.
_UNSEEN = "\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_OBEYED = re.compile(f"[{_UNSEEN}]")


def escape_cell(text: str) -> str:
    """Return a text as a cell that no spreadsheet takes for a formula."""
    harmless = _NUMBER.fullmatch(text) or not _DANGEROUS.match(text)
    return text if harmless else f"'{text}"


def unescape_cell(cell: str) -> str:
    """Return the text that `escape_cell` made a cell of; other cells as they are."""
    return cell[1:] if cell.startswith("'") and _DANGEROUS.match(cell) else cell


def printable(text: str) -> str:
    r"""Return a text as a terminal may have it: `\x1b` instead of what it would obey.

    Ends of lines are escaped too: a name is on one line.
    """
    return _OBEYED.sub(lambda found: repr(found[0])[1:-1], text)
