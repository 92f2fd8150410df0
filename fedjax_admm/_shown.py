"""How objects show themselves: in a line or three, with shapes and dtypes, never with arrays.

    Graph(heads=int32[364], tails=int32[364], weights=float32[364], num_nodes=203)

A number that is known is written as itself, an array as its dtype and shape, an object of ours by
its own fields, and deeper ones by their names. A representation touches nothing of what an array
holds, but for single numbers; a notebook also shows the few numbers of a small array, or between
which they lie. Traced values, abstract ones and whatever `jax.tree.map` puts into a field are shown
too, and nothing of it can fail.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from html import escape
from itertools import islice
from textwrap import wrap
from typing import Any, TypeVar

import numpy as np

Class = TypeVar("Class", bound=type)

_WIDTH = 96  # letters of a line
_LINES = 3
_WORDS = 48  # letters of a text
_PARTS = 6  # of a list or a mapping
_DEEPEST = 2  # objects within objects whose fields are shown
_DEEPEST_LIST = 4  # lists within lists whose parts are shown
_CELL = 400  # letters of a value in a table
_FEW, _MANY = 8, 10_000  # numbers of an array that a table shows, and among which it looks


def short_repr(cls: Class) -> Class:
    """Give a dataclass or a NamedTuple a short representation, unless it wrote its own.

    A notebook shows a table of its fields.

    Args:
      cls: the class; a decorator above `@dataclass`, or above `class Name(NamedTuple)`.

    Returns:
      The class.
    """
    own = vars(cls)
    generated = hasattr(own.get("__repr__"), "__wrapped__")  # what `dataclass` writes
    if generated or not hasattr(cls, "__dataclass_fields__"):
        type.__setattr__(cls, "__repr__", brief)
    if "_repr_html_" not in own:
        type.__setattr__(cls, "_repr_html_", as_html)
    return cls


def as_html(value: Any) -> str:
    """Return an object as a notebook shows it: a table of its fields, and a picture if it has one.

    A class with a method `_picture()` has its SVG above the table; one with `_told()` has what that
    returns, names with values, in the place of its fields. Nothing is fetched, nothing runs; what
    users named is escaped.
    """
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left'><code>{escape(_cell(each))}</code></td></tr>"
        for name, each in _offered(value, "_told") or named_fields(value)
    )
    picture = _offered(value, "_picture")
    shown = f"<div>{picture}</div>" if picture else ""
    return f"<div><b>{escape(type(value).__name__)}</b>{shown}<table>{rows}</table></div>"


def _offered(value: Any, method: str) -> Any:
    """Return what a method of an object returns; None where it has none or lacks its arrays."""
    try:
        return getattr(value, method)()
    except Exception:  # traced or abstract, or whatever `jax.tree.map` has put into a field
        return None


def _cell(value: Any) -> str:
    """Return a value for a table: in a few words, and the numbers of a small array."""
    words = described(value, 1)
    numbers = _numbers(value) if getattr(value, "shape", None) else ""
    return _cut(f"{words} {numbers}".rstrip(), _CELL)


def _numbers(value: Any) -> str:
    """Return the numbers of a small array or between which they lie, "" where they are not known.

    NaN and infinities are counted.
    """
    try:
        if not 0 < value.size <= _MANY or not np.issubdtype(value.dtype, np.number):
            return ""
        numbers = np.asarray(value)
        if numbers.size <= _FEW:
            return f"= {', '.join(_words(number.item()) for number in numbers.ravel())}"
        known = numbers[np.isfinite(numbers)]
        lost = f"{numbers.size - known.size} not finite" if known.size < numbers.size else ""
        if not known.size:
            return lost
        between = f"from {_words(known.min().item())} to {_words(known.max().item())}"
        return f"{between}, {lost}" if lost else between
    except Exception:  # traced, abstract, given away, or on another machine
        return ""


def brief(value: Any) -> str:
    """Return an object in at most three lines, under 300 letters."""
    lines = wrap(described(value), _WIDTH, subsequent_indent="  ")
    if len(lines) > _LINES:
        lines = [*lines[: _LINES - 1], lines[_LINES - 1][: _WIDTH - 4] + " ..."]
    return "\n".join(lines)


def named_fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a dataclass or a NamedTuple, and what is in them."""
    names = getattr(value, "_fields", None)
    if names is None:
        names = [field.name for field in fields(value) if field.repr]
    for name in names:
        yield name, getattr(value, name, None)


def has_fields(value: Any) -> bool:
    """Return whether something is an object of a dataclass or of a NamedTuple."""
    dataclass = is_dataclass(value) and not isinstance(value, type)
    return dataclass or (isinstance(value, tuple) and hasattr(value, "_fields"))


def described(value: Any, depth: int = 0) -> str:
    """Return a value in a few words, without line breaks; only its type where it tells no more."""
    try:
        return _described(value, depth)
    except Exception:  # a foreign object that is not what it seems
        return _cut(type(value).__name__, _WORDS)


def _described(value: Any, depth: int) -> str:
    if isinstance(value, type):
        return _words(value)
    if has_fields(value):
        inner = list(named_fields(value))
        told = [f"{name}={described(each, depth + 1)}" for name, each in inner if depth < _DEEPEST]
        return f"{type(value).__name__}({', '.join(told) or ('...' if inner else '')})"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return array(value)
    if isinstance(value, Mapping):
        told = [f"{_key(key)}: {described(each, depth + 1)}" for key, each in _first(value, depth)]
        return "{" + ", ".join([*told, *_rest(value, depth)]) + "}"
    if isinstance(value, tuple | list | frozenset | set):
        told = [described(each, depth + 1) for each in _first(value, depth)]
        return "(" + ", ".join([*told, *_rest(value, depth)]) + ")"
    return _words(value)


def array(value: Any) -> str:
    """Return `float32[100,3]` for an array, or the number where it is a single one and known."""
    shape = tuple(value.shape)
    if not shape:
        try:
            number = value.item()
        except Exception:  # traced, abstract, a key, or given away
            pass
        else:
            return _words(number)
    return f"{getattr(value.dtype, 'name', value.dtype)}[{','.join(map(str, shape))}]"


def _words(value: Any) -> str:
    """Return what is neither an object of ours nor an array."""
    if isinstance(value, partial):
        return f"{_words(value.func)}(...)"
    if isinstance(value, float):
        words = repr(float(f"{value:.6g}"))  # 1.0, not 1: it is no whole number
    elif isinstance(value, str):
        words = repr(value[:_WORDS])
        words = f"{words}..." if len(value) > _WORDS else words
    elif isinstance(value, bool | int | complex | None):
        words = repr(value)
    else:
        words = getattr(value, "__name__", None) or type(value).__name__
    return _cut(words, _WORDS)


def _key(key: Any) -> str:
    """Return the key of a mapping; names are written without quotation marks."""
    return _words(key)[1:-1] if isinstance(key, str) and len(key) < _WORDS else described(key)


def _cut(words: str, length: int) -> str:
    return words if len(words) <= length else f"{words[: length - 3]}..."


def _first(values: Any, depth: int) -> Iterator[Any]:
    """Yield the first parts of a list or a mapping; none of one that lies deep in others."""
    parts = values.items() if isinstance(values, Mapping) else values
    yield from islice(parts, _PARTS if depth < _DEEPEST_LIST else 0)


def _rest(values: Any, depth: int) -> list[str]:
    if values and depth >= _DEEPEST_LIST:
        return ["..."]
    return [f"... {len(values)} in all"] if len(values) > _PARTS else []
