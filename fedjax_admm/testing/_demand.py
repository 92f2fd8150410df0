"""What checks demand: each raises an AssertionError with a sentence that names the failure."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from fedjax_admm._run._checks import difference
from fedjax_admm.testing._shared import is_float, name_of, plain


def that(holds: Any, sentence: str) -> None:
    """Demand that something holds."""
    if not bool(holds):
        raise AssertionError(sentence)


def no_static_numbers(part: Any) -> None:
    """Demand that no float of a dataclass is a part of its structure."""
    leaves = jax.tree.leaves(part)
    for field in dataclasses.fields(part) if dataclasses.is_dataclass(part) else ():
        value = getattr(part, field.name)
        known = isinstance(value, float | np.floating) and np.isfinite(value)
        that(
            not known or any(value is leaf for leaf in leaves),
            f"{name_of(part)}.{field.name} is a static number ({value!r}): another value compiles "
            "again, and has no derivative; register it as a leaf.",
        )


def kind(where: str, array: Any, shape: tuple[int, ...], dtype: Any) -> None:
    """Demand an array of a shape and a dtype."""
    found = getattr(array, "shape", None), getattr(array, "dtype", None)
    that(
        found == (tuple(shape), dtype),
        f"{where} must return {np.dtype(dtype).name} of shape {tuple(shape)}, but it returns "
        f"{found[1]} of shape {found[0]}; take the dtype of constants from the arguments.",
    )


def same_form(where: str, what: str, old: Any, new: Any) -> None:
    """Demand that a state keeps its structure, shapes and dtypes."""
    change = difference(old, new)
    sentence = f"{where} must return {what} with the structure, shapes and dtypes of the one that "
    that(not change, f"{sentence}it is given, for jax.lax.scan, but {change}.")


def stacked(where: str, tree: Any, number: int) -> None:
    """Demand that all leaves have a leading axis of a length, that of clients or senders."""
    for path, leaf in jax.tree.leaves_with_path(tree):
        name = jax.tree_util.keystr(path) or "it"
        sentence = f"{where} must have a leading axis of {number}, but {name} has shape"
        that(leaf.shape[:1] == (number,), f"{sentence} {leaf.shape}.")


def close(
    where: str, result: Any, expected: Any, rtol: float, atol: float, remedy: str = ""
) -> None:
    """Demand that two pytrees agree, entry by entry, to `atol + rtol |expected|`."""
    results, others = jax.tree.leaves_with_path(result), jax.tree.leaves(expected)
    for (path, one), other in zip(results, others, strict=True):
        one, other = plain(one), plain(other)
        shapes = f"{where} differ: their shapes are {one.shape} and {other.shape}."
        that(one.shape == other.shape, shapes)
        near = (rtol, atol) if np.issubdtype(other.dtype, np.inexact) else (0, 0)
        for at, place in _first(path, ~np.isclose(one, other, *near, equal_nan=True)):
            sentence = f"{where} differ: {at} {one[place]:.9g} and {other[place]:.9g}. {remedy}"
            raise AssertionError(sentence.rstrip())


def finite(where: str, tree: Any, remedy: str = "") -> None:
    """Demand that all floating leaves are finite."""
    for path, leaf in jax.tree.leaves_with_path(tree):
        if is_float(leaf):
            for at, place in _first(path, ~np.isfinite(plain(leaf))):
                sentence = f"{where} must be finite, but {at} {plain(leaf)[place]}. {remedy}"
                raise AssertionError(sentence.rstrip())


def _first(path: Any, wrong: np.ndarray) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the first wrong entry, if there is one: words that lead to its number, its place."""
    for place in np.argwhere(wrong)[:1]:
        at = tuple(map(int, place))
        words = jax.tree_util.keystr(path), str(at or "")
        yield (" ".join(filter(None, words)) or "it") + " is", at


def count(where: str, value: Any) -> None:
    """Demand a whole Python number that is not negative."""
    sentence = f"{where} must be a whole Python number that is not negative, but it is {value!r}."
    that(type(value) is int and value >= 0, sentence)
