"""How objects show themselves: in a line or three, with shapes and dtypes, never with arrays.

    Graph(heads=int32[364], tails=int32[364], weights=float32[364], num_nodes=203)

A number that is known is written as itself, an array as its dtype and shape, an object of ours by
its own fields, and deeper ones by their names. Nothing here touches what an array holds, but for
single numbers; traced values, abstract ones and whatever `jax.tree.map` puts into a field are shown
too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from html import escape
from textwrap import wrap
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)

_WIDTH = 96  # letters of a line
_LINES = 3
_WORDS = 48  # letters of a text
_PARTS = 6  # of a list or a mapping
_DEEPEST = 2  # objects within objects whose fields are shown


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

    A class with a method `_picture()` has its SVG above the table. Nothing is fetched, nothing
    runs; what users named is escaped.
    """
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left'><code>{escape(described(each, 1))}</code></td></tr>"
        for name, each in named_fields(value)
    )
    return f"<div><b>{escape(type(value).__name__)}</b>{_picture(value)}<table>{rows}</table></div>"


def _picture(value: Any) -> str:
    """Return the picture of an object; none where its arrays are not known."""
    draw = getattr(value, "_picture", None)
    if draw is None:
        return ""
    try:
        drawn = draw()
    except Exception:  # traced or abstract, or whatever `jax.tree.map` has put into a field
        return ""
    return f"<div>{drawn}</div>" if drawn else ""


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
    """Return a value in a few words, without line breaks."""
    if has_fields(value):
        inner = list(named_fields(value))
        told = [f"{name}={described(each, depth + 1)}" for name, each in inner if depth < _DEEPEST]
        return f"{type(value).__name__}({', '.join(told) or ('...' if inner else '')})"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return array(value)
    if isinstance(value, Mapping):
        told = [f"{key}: {described(each, depth + 1)}" for key, each in _first(value.items())]
        return "{" + ", ".join([*told, *_rest(value)]) + "}"
    if isinstance(value, tuple | list | frozenset | set):
        told = [described(each, depth + 1) for each in _first(value)]
        return "(" + ", ".join([*told, *_rest(value)]) + ")"
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
    if isinstance(value, bool | int | float | str | None):
        words = f"{value:.6g}" if isinstance(value, float) else repr(value)
    else:
        words = getattr(value, "__name__", None) or type(value).__name__
    return words if len(words) <= _WORDS else f"{words[: _WORDS - 3]}..."


def _first(values: Any) -> Iterator[Any]:
    yield from (value for value, _ in zip(values, range(_PARTS), strict=False))


def _rest(values: Any) -> list[str]:
    return [f"... {len(values)} in all"] if len(values) > _PARTS else []
