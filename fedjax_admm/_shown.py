"""How objects show themselves: in a line or three, with shapes and dtypes, never with arrays.

    Graph(heads=int32[364], tails=int32[364], weights=float32[364], num_nodes=203)

A known scalar is written as a number, an array as its dtype and shape, an object of ours by its own
fields, and deeper objects by their names. Traced and abstract values are shown too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from html import escape
from itertools import islice
from textwrap import wrap
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)

_WIDTH = 96  # letters of a line
_LINES = 3
_WORD = 48  # letters of a text
_PARTS = 6  # of a list or a mapping
_DEPTH = 2  # objects within objects whose fields are shown
_LIST_DEPTH = 4  # lists within lists whose parts are shown


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
        type.__setattr__(cls, "__repr__", _short)
    if "_repr_html_" not in own:
        type.__setattr__(cls, "_repr_html_", _html)
    return cls


def _short(value: Any) -> str:
    """Return an object in at most three lines, under 300 letters."""
    lines = wrap(_text(value), _WIDTH, subsequent_indent="  ")
    if len(lines) > _LINES:
        lines = [*lines[: _LINES - 1], lines[_LINES - 1][: _WIDTH - 4] + " ..."]
    return "\n".join(lines)


def _html(value: Any) -> str:
    """Return an object for a notebook: a table of its fields, and its picture if it has one.

    A class may have a method `_picture()` that returns an image element, and a method `_told()`
    that returns names with values in the place of its fields.
    """
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left'><code>{escape(_text(each, 1))}</code></td></tr>"
        for name, each in _called(value, "_told") or _fields(value)
    )
    picture = _called(value, "_picture") or ""
    return f"<div><b>{escape(type(value).__name__)}</b>{picture}<table>{rows}</table></div>"


def _called(value: Any, method: str) -> Any:
    """Return the result of a method; None where there is none, or its arrays are traced."""
    try:
        return getattr(value, method)()
    except Exception:
        return None


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of the fields of a dataclass or a NamedTuple."""
    names = getattr(value, "_fields", None)
    if names is None:
        names = [field.name for field in fields(value) if field.repr]
    for name in names:
        yield name, getattr(value, name, None)


def _text(value: Any, depth: int = 0) -> str:
    """Return a value on one line; a foreign object that fails by its type alone."""
    try:
        return _described(value, depth)
    except Exception:
        return _cut(type(value).__name__)


def _described(value: Any, depth: int) -> str:
    if isinstance(value, type):
        return _cut(value.__name__)
    if is_dataclass(value) or hasattr(value, "_fields"):
        inner = list(_fields(value))
        parts = [f"{name}={_text(each, depth + 1)}" for name, each in inner if depth < _DEPTH]
        return f"{type(value).__name__}({', '.join(parts) or ('...' if inner else '')})"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return _array(value)
    if isinstance(value, Mapping):
        items = _first(value.items(), depth)
        parts = [f"{_key(key)}: {_text(each, depth + 1)}" for key, each in items]
        return "{" + ", ".join([*parts, *_rest(value, depth)]) + "}"
    if isinstance(value, tuple | list | frozenset | set):
        parts = [_text(each, depth + 1) for each in _first(value, depth)]
        return "(" + ", ".join([*parts, *_rest(value, depth)]) + ")"
    if isinstance(value, partial):
        return f"{_text(value.func)}(...)"
    if isinstance(value, float):
        return repr(float(f"{value:.6g}"))
    if isinstance(value, str):
        return repr(value[:_WORD]) + ("..." if len(value) > _WORD else "")
    if isinstance(value, bool | int | complex | None):
        return _cut(repr(value))
    return _cut(getattr(value, "__name__", None) or type(value).__name__)


def _array(value: Any) -> str:
    """Return `float32[100,3]` for an array, or the number where it is a known scalar."""
    shape = tuple(value.shape)
    if not shape and (number := _called(value, "item")) is not None:
        return _text(number)
    return f"{getattr(value.dtype, 'name', value.dtype)}[{','.join(map(str, shape))}]"


def _key(key: Any) -> str:
    return _text(key)[1:-1] if isinstance(key, str) and len(key) < _WORD else _text(key)


def _cut(text: str) -> str:
    return text if len(text) <= _WORD else f"{text[: _WORD - 3]}..."


def _first(parts: Any, depth: int) -> Iterator[Any]:
    return islice(parts, _PARTS if depth < _LIST_DEPTH else 0)


def _rest(values: Any, depth: int) -> list[str]:
    """Return the mark of what is left out of a list or a mapping."""
    if values and depth >= _LIST_DEPTH:
        return ["..."]
    return [f"... {len(values)} in all"] if len(values) > _PARTS else []
