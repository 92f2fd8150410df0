"""Checks that an argument is of the kind that is wanted: anything else would fail far away."""

import inspect
import os
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from fedjax_admm._checks._values import InputError, listed, one_line


def flag(name: str, value: Any) -> bool:
    """Return True or False, as it was given: the text "False" would count as True.

    Raises:
      InputError: the value is neither.
    """
    if not isinstance(value, bool | np.bool_):
        raise InputError(
            f"must be True or False, but it is {one_line(value)}", argument=name, value=value
        )
    return bool(value)


def instance(name: str, value: Any, kind: type | tuple[type, ...], wanted: str) -> None:
    """Check that an argument is an object of a class.

    Args:
      name: what the argument is called.
      value: what was given.
      kind: the class, or several.
      wanted: what is wanted, with its article, such as "a graph of fedjax_admm.graphs".

    Raises:
      InputError: the argument is something else, such as the class itself.
    """
    if not isinstance(value, kind):
        raise InputError(
            f"must be {wanted}, but it is {one_line(value)}", argument=name, value=value
        )


def several(name: str, value: Any, of: str) -> None:
    """Check that an argument is a list, a tuple or an array with an axis.

    Args:
      name: what the argument is called.
      value: what was given.
      of: what it holds, such as "one array per client".

    Raises:
      InputError: the argument is something else, such as a mapping, a text or a generator.
    """
    listed = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    if not (listed or (hasattr(value, "__array__") and np.ndim(value) > 0)):
        raise InputError(
            f"must be a list of {of}, but it is {one_line(value)}", argument=name, value=value
        )


def function_of(name: str, value: Any, *arguments: str) -> None:
    """Check that an argument is a function that can be called with so many arguments.

    Raises:
      InputError: the argument cannot be called, or not so.
    """
    called = f"{name}({', '.join(arguments)})"
    fits = callable(value)
    try:
        inspect.signature(value).bind(*arguments)
    except TypeError:
        fits = False
    except ValueError:  # built in, without a signature
        pass
    if not fits:
        raise InputError(
            f"must be a function {called}, but it is {one_line(value)}", argument=name, value=value
        )


def _place(function: Any, error: Exception) -> str:
    """Return where in the file of a function an error was raised, empty if nowhere there."""
    file = getattr(getattr(function, "__code__", None), "co_filename", None)
    lines = [at.lineno for at in traceback.extract_tb(error.__traceback__) if at.filename == file]
    return f" in line {lines[-1]} of {os.path.basename(str(file))}" if lines else ""


def shapes_of(name: str, function: Any, arguments: Mapping[str, Any]) -> Any:
    """Return the shapes of what a user's function returns, without computing it.

    Args:
      name: what the function is called.
      function: of the arguments, in their order.
      arguments: by what they are, such as "parameters"; arrays or their shapes.

    Raises:
      InputError: the function raises; the sentence tells what, and the shapes of its arguments.
    """
    try:
        return jax.eval_shape(function, *arguments.values())
    except InputError:
        raise
    except Exception as error:
        shapes = [
            f"{what} of shape {one_line(jax.tree.map(np.shape, value))}"
            for what, value in arguments.items()
        ]
        told = " ".join(str(error).split()).removesuffix(".")
        told = told if len(told) <= 300 else f"{told[:297]}..."
        raise InputError(
            f"raises {type(error).__name__}{_place(function, error)} for {listed(shapes)}: {told}",
            argument=name,
            value=function,
            remedy="change it, or what it is given",
        ) from error
