"""A short representation: `L1(weight=0.1)`, `Graph(heads=int32[364], num_nodes=203, ...)`.

A known scalar is shown as a number, and any other array by its dtype and shape.
"""

import reprlib
from dataclasses import fields, is_dataclass
from typing import Any


class _Short(reprlib.Repr):
    """Python's own shortener of nested lists and mappings, which knows arrays and dataclasses."""

    def repr1(self, x: Any, level: int) -> str:
        if isinstance(x, type):
            return x.__name__
        if is_dataclass(x) or hasattr(x, "_fields"):
            names = getattr(x, "_fields", None) or [f.name for f in fields(x)]
            inner = [f"{name}={self.repr1(getattr(x, name, None), level - 1)}" for name in names]
            return f"{type(x).__name__}({', '.join(inner) if level > 0 or not inner else '...'})"
        if hasattr(x, "dtype") and hasattr(x, "shape"):
            return _array(x)
        if isinstance(x, float):
            return repr(float(f"{x:.6g}"))
        return getattr(x, "__name__", None) or super().repr1(x, level)


_SHORT = _Short()
_SHORT.maxlevel = 2  # objects within objects whose fields are shown


def short_repr(value: Any) -> str:
    """Return an object on one line, without the numbers of its arrays."""
    return _SHORT.repr(value)


def _array(array: Any) -> str:
    """Return `float32[100,3]`, or the number where it is a known scalar."""
    if not array.shape:
        try:
            return _SHORT.repr(array.item())
        except Exception:  # a traced or an abstract number, or a key
            pass
    return f"{array.dtype.name}[{','.join(map(str, array.shape))}]"
