"""Checks of an argument's kind, and of sizes, which would fail far from the mistake otherwise."""

import inspect
import math
import os
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks._values import (
    LARGEST_COUNT,
    InputError,
    is_concrete,
    listed,
    one_line,
    refuse,
    wider,
)


def flag(name: str, value: Any) -> bool:
    """Return True or False; the text "False" would count as True."""
    instance(name, value, (bool, np.bool_), "True or False")
    return bool(value)


def instance(name: str, value: Any, kind: Any, wanted: str, remedy: str | None = None) -> None:
    """Check that an argument is an object of a class, which `wanted` names with its article."""
    refuse(not isinstance(value, kind), name, f"must be {wanted}", value, remedy=remedy)


def registered(name: str, value: Any) -> None:
    """Check that the class of an object is registered as a pytree."""
    wrong = isinstance(value, type) or jax.tree_util.all_leaves([value])
    remedy = "decorate its class with fedjax_admm.pytree_dataclass"
    refuse(wrong, name, "must be a pytree", value, remedy=remedy)


def several(name: str, value: Any, of: str) -> None:
    """Check that an argument is a list, a tuple or an array with an axis; `of` names its parts."""
    sequence = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    many = sequence or (hasattr(value, "__array__") and np.ndim(value) > 0)
    refuse(not many, name, f"must be a list of {of}", value)


def function_of(name: str, value: Any, *arguments: str, kind: str | None = None) -> None:
    """Check that an argument is a function that can be called with so many arguments."""
    fits = callable(value)
    try:
        inspect.signature(value).bind(*arguments)
    except TypeError:
        fits = False
    except ValueError:  # built in, without a signature
        pass
    kind = f"a function {name}({', '.join(arguments)})" if kind is None else kind
    refuse(not fits, name, f"must be {kind}", value)


def shapes_of(name: str, function: Any, arguments: Mapping[str, Any]) -> Any:
    """Return the shapes of the result of a user's function, by `jax.eval_shape`.

    Args:
      name: the name of the function.
      function: of the arguments, in their order.
      arguments: by a word for each, such as "parameters"; arrays or their shapes.

    Raises:
      InputError: the function raises; the sentence has its line and the shapes of its arguments.
    """
    leaves, structure = jax.tree.flatten(tuple(arguments.values()))
    arrays = {i: leaf for i, leaf in enumerate(leaves) if hasattr(leaf, "shape")}

    def filled(arrays: Mapping[int, Any]) -> Any:
        """Apply the function; what is no array, as in modules, is no input."""
        parts = [arrays.get(i, leaf) for i, leaf in enumerate(leaves)]
        return function(*jax.tree.unflatten(structure, parts))

    try:
        return jax.eval_shape(filled, arrays)
    except InputError:
        raise
    except Exception as error:
        shapes = [
            f"{what} of shape {one_line(jax.tree.map(lambda x: getattr(x, 'shape', x), value))}"
            for what, value in arguments.items()
        ]
        file = getattr(getattr(function, "__code__", None), "co_filename", None)
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == file]
        place = f" in line {lines[-1]} of {os.path.basename(str(file))}" if lines else ""
        text = " ".join(str(error).split()).removesuffix(".")
        text = text if len(text) <= 300 else f"{text[:297]}..."
        told = f"raises {type(error).__name__}{place} for {listed(shapes)}: {text}"
        raise InputError(told, name, "change it, or its arguments") from error


def countable(**counts: int) -> None:
    """Check that the product of whole numbers, each checked by `count`, fits into int32."""
    product = math.prod(counts.values())
    names = " times ".join(f"{{{name}}}" for name in counts)
    told = f"{names} must be at most {LARGEST_COUNT}, but it is {product}"
    refuse(product > LARGEST_COUNT, None, told, remedy="take less")


def squarable(name: str, value: jax.Array, *, small: bool = True) -> None:
    """Check that squares and sums of products of data stay within the range of their dtype.

    Args:
      name: the name of the data.
      value: as `finite_array` returns it; traced data pass.
      small: whether data are refused, too, whose squares all vanish.

    Raises:
      InputError: an entry is larger than the limit, 1e15 in float32 and 1e123 in float64, or all
        are smaller than its inverse and not all are 0.
    """
    if not is_concrete(value) or not value.size:
        return
    dtype = np.dtype(value.dtype)
    limit = largest_squarable(dtype)
    largest = float(np.max(np.abs(np.asarray(value, np.float64))))
    told = (
        f"must not exceed {limit:g}, so that squares stay within {dtype}, but it holds {largest:g}"
    )
    refuse(largest > limit, name, told, remedy=wider(dtype))
    told = f"must reach {1 / limit:g}, so that squares do not vanish in {dtype}, but it reaches"
    vanishes = small and 0 < largest < 1 / limit
    refuse(vanishes, name, f"{told} {largest:g}", remedy=wider(dtype))


def largest_squarable(dtype: np.dtype) -> float:
    """Return the limit of data whose squares are summed: 1e15 in float32, 1e123 in float64."""
    if dtype == np.float16:
        return 200.0
    return 10.0 ** int(0.4 * math.log10(float(jnp.finfo(dtype).max)))
