"""HTML that escapes what it is given: names and labels are data from outside.

A text becomes an element's content only escaped; what is markup already says so by its type.
"""

import html
import unicodedata
from collections.abc import Iterable

_VOID = {"meta", "br"}


class Markup(str):
    """Markup, which is not escaped again."""


Content = str | Iterable["Content"]


def text(content: str) -> Markup:
    """Return a text as HTML may have it: escaped, without characters that HTML forbids."""
    kept = (
        letter if letter in "\n\t" or unicodedata.category(letter) not in ("Cc", "Cs") else "\ufffd"
        for letter in content
    )
    return Markup(html.escape("".join(kept)))


def markup(content: Content) -> Markup:
    """Return contents one after another, texts escaped."""
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        return text(content)
    return Markup("".join(map(markup, content)))


def element(tag: str, *contents: Content, **attributes: str | bool) -> Markup:
    """Return an element.

    Args:
      tag: its name, which is ours.
      *contents: texts are escaped.
      **attributes: by name, `_` for `-`, one at the end left out (`class_`); True stands for an
        attribute without a value, and False for none.
    """
    words = [tag]
    for name, value in attributes.items():
        name = name.rstrip("_").replace("_", "-")
        if value is not False:
            words.append(name if value is True else f'{name}="{text(str(value))}"')
    start = f"<{' '.join(words)}>"
    return Markup(start if tag in _VOID else f"{start}{markup(contents)}</{tag}>")
