"""Docstrings as plain text, in which backticks and indentation mark code.

Sphinx reads docstrings as reStructuredText, in which `*`, `|` and a trailing `_` are marks and an
indented paragraph is a quotation. Ours are plain text for a terminal, with formulas. This module
escapes marks outside backticks and turns an indented paragraph into a block of code; napoleon reads
the sections ("Args:", "Returns:").
"""

import inspect
import re
from collections.abc import Callable, Iterator
from itertools import groupby
from textwrap import dedent, indent

from jax.typing import ArrayLike
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.util.typing import stringify_annotation

from site_pages.fields import field_comments

_UNION = stringify_annotation(ArrayLike, "smart")
SECTIONS = Config(napoleon_use_rtype=False, napoleon_custom_sections=[("Fields", "params_style")])

SECTION = re.compile(r"^(Args|Fields|Raises|Returns|Yields):$")
REFERENCE = re.compile(r"^(References?): ")
CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
MARKS = re.compile(r"[*|\\]|(?<=\w)_(?!\w)")
BULLET = re.compile(r"^\*(?= )", re.MULTILINE)
ITEM = re.compile(r"^([-*] |\d+\. )")


def plain_docstrings(app, what, name, obj, options, lines: list[str]) -> None:
    """Turn a docstring of plain text into reStructuredText, in place."""
    text = [*lines, *_fields(obj)] if what in ("class", "exception") else lines
    read = "\n".join(_read(text)).split("\n")
    # Napoleon takes the first colon of a property for the end of its type: ours are sentences.
    kind = "method" if what in ("property", "attribute") else what
    lines[:] = GoogleDocstring(read, SECTIONS, app, kind, name, obj, options).lines()


def purpose(obj: object) -> str:
    """Return the first paragraph of a docstring as reStructuredText."""
    return plain(" ".join((inspect.getdoc(obj) or "").partition("\n\n")[0].split()))


def short_signature(app, what, name, obj, options, signature, returned):
    """Leave out a protocol's signature, which is never called; call JAX's union by its name."""
    if what == "class" and getattr(obj, "_is_protocol", False):
        return "", None
    return tuple(
        text and text.replace(_UNION, "~jax.typing.ArrayLike") for text in (signature, returned)
    )


def hide_field_numbers(app, what, name, obj, skip, options) -> bool | None:
    """Leave out the fields of a NamedTuple, which the class documents."""
    return True if type(obj).__name__ == "_tuplegetter" else None


def _fields(cls: type) -> Iterator[str]:
    """Yield the fields of a class as a section of its docstring."""
    comments = {name: words for name, words in field_comments(cls).items() if words}
    if comments:
        yield from ("", "Fields:")
        yield from (f"  {name}: {words}" for name, words in comments.items())


def _read(lines: list[str]) -> Iterator[str]:
    """Yield the paragraphs, code blocks, lists and sections of a docstring."""
    for kind, run in groupby(lines, _kinds()):
        text = "\n".join(run)
        if kind == "code":
            yield f"\n::\n\n{indent(dedent(text.rstrip()), '    ')}\n"
        elif kind == "list":
            yield f"\n{plain(BULLET.sub('-', text))}\n"
        else:
            yield REFERENCE.sub(r"**\1.** ", plain(text))


def _kinds() -> Callable[[str], str]:
    """Return a function that gives the kind of each line, called from the first line on."""
    kind, blank = "text", True

    def of(line: str) -> str:
        nonlocal kind, blank
        after_blank, blank = blank, not line.strip()
        if blank:
            return kind if kind in ("section", "code") else (kind := "text")
        if SECTION.match(line):
            kind = "section"
        elif ITEM.match(line) and (after_blank or kind == "list"):
            kind = "list"
        elif not line.startswith(" "):
            kind = "text"
        elif kind == "text":
            kind = "code"
        return kind

    return of


def plain(text: str) -> str:
    """Return plain text as reStructuredText: marks outside of code are escaped."""
    parts, end = [], 0
    for code in CODE.finditer(text):
        parts += [_without_marks(text[end : code.start()]), f"``{' '.join(code[2].split())}``"]
        end = code.end()
        if text[end : end + 1].isalnum():  # the letter of a plural
            parts.append("\\ ")
    return "".join([*parts, _without_marks(text[end:])])


def _without_marks(text: str) -> str:
    return MARKS.sub(lambda mark: "\\" + mark[0], text)
