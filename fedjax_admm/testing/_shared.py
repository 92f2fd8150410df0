"""What all checks share: which are made, how a failure is told, and how numbers are compared."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import InputError, default_float, one_line, one_of

Check = Callable[[Any], None]


def make(bench: Any, checks: Mapping[str, Check], only: str | Sequence[str] | None) -> None:
    """Make all checks of a kind, or those that `only` names.

    Raises:
      InputError: there is no check of that name.
    """
    names = list(checks) if only is None else [only] if isinstance(only, str) else list(only)
    for name in names:
        one_of("only", name, checks)
    for name in names:
        checks[name](bench)


@contextmanager
def doing(what: str, remedy: str = "") -> Iterator[None]:
    """Tell an error of the code that is checked as a failure of what was tried.

    Args:
      what: a clause such as "MySolver.step of a round without anybody".
      remedy: what to do about it.

    Raises:
      AssertionError: anything was raised.
    """
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:
        told = " ".join(str(error).split())
        told = told if len(told) <= 400 else f"{told[:397]}..."
        rest = f" {remedy}" if remedy else ""
        sentence = f"{what} raised {type(error).__name__}: {told.removesuffix('.')}.{rest}"
        raise AssertionError(sentence) from error


def demand(holds: Any, sentence: str) -> None:
    """Assert; the sentence says what is wrong and what to repair.

    Raises:
      AssertionError: it does not hold.
    """
    if not bool(holds):
        raise AssertionError(sentence)


def name_of(thing: Any) -> str:
    """Return what a function, or the class of an object, is called."""
    return getattr(thing, "__name__", type(thing).__name__)


def is_float(leaf: Any) -> bool:
    """Whether a leaf is made of floating numbers."""
    return jnp.issubdtype(jnp.result_type(leaf), jnp.floating)


def with_floats(tree: Any, change: Callable[[Any], Any]) -> Any:
    """Return a pytree whose floating leaves are changed."""
    return jax.tree.map(lambda leaf: change(leaf) if is_float(leaf) else leaf, tree)


def static_numbers(part: Any) -> list[str]:
    """Return the fields of a dataclass that hold floats and are part of its structure."""
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return []
    found = []
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if not isinstance(value, float | np.floating) or not math.isfinite(value):
            continue
        other = dataclasses.replace(part, **{field.name: 1.5 * value + 1})
        if jax.tree.structure(other) != jax.tree.structure(part):
            found.append(field.name)
    return found


def cast(tree: Any, dtype: Any) -> Any:
    """Return a pytree whose floating leaves have a dtype."""
    return with_floats(tree, lambda leaf: jnp.asarray(leaf, dtype))


def dtype_of(tree: Any) -> np.dtype:
    """Return the dtype of the floating leaves of a pytree, the session's where there are none."""
    with jax.numpy_dtype_promotion("standard"):
        dtypes = [jnp.result_type(leaf) for leaf in jax.tree.leaves(tree) if is_float(leaf)]
        return np.dtype(jnp.result_type(*dtypes)) if dtypes else default_float()


def demand_kind(where: str, found: Any, shape: tuple[int, ...], dtype: Any) -> None:
    """Demand an array of a shape and a dtype.

    Raises:
      AssertionError: it is another one.
    """
    demand(
        hasattr(found, "shape") and hasattr(found, "dtype"),
        f"{where} must return an array, but it returns {one_line(found)}.",
    )
    demand(
        found.shape == tuple(shape),
        f"{where} must return an array of shape {tuple(shape)}, but its shape is {found.shape}.",
    )
    demand(
        found.dtype == dtype,
        f"{where} must return {np.dtype(dtype).name} where its arguments are, but it returns "
        f"{found.dtype}; take the dtype of constants from the arguments, as "
        "jnp.asarray(1.0, points.dtype) does.",
    )


def demand_close(
    where: str, found: Any, wanted: Any, rtol: float, atol: float, remedy: str = ""
) -> None:
    """Demand that two pytrees of arrays agree, entry by entry, to `atol + rtol |wanted|`.

    Raises:
      AssertionError: they do not; the sentence names the leaf, the entry and both numbers.
    """
    pairs = zip(jax.tree.leaves_with_path(found), jax.tree.leaves(wanted), strict=True)
    for (path, one), other in pairs:
        one, other = plain(one), plain(other)
        shapes = f"their shapes are {one.shape} and {other.shape}"
        demand(one.shape == other.shape, f"{where} differ: {shapes}.")
        if not np.issubdtype(other.dtype, np.inexact):
            off = one != other
        else:
            with np.errstate(invalid="ignore"):
                apart = np.abs(one - other) > atol + rtol * np.abs(other)
            off = (apart & (one != other)) | (np.isnan(one) != np.isnan(other))
        if np.any(off):
            place = tuple(int(i) for i in np.argwhere(off)[0])
            leaf = jax.tree_util.keystr(path)
            entry = f"entry {place} of {leaf}" if leaf else f"entry {place}"
            if not leaf and not place:
                entry = "the number"
            raise AssertionError(
                f"{where} differ: {entry} is {one[place]:.9g} and {other[place]:.9g}."
                + (f" {remedy}" if remedy else "")
            )


def demand_finite(where: str, tree: Any, remedy: str = "") -> None:
    """Demand that all floating leaves are finite.

    Raises:
      AssertionError: one is not; the sentence names the leaf and the entry.
    """
    for path, leaf in jax.tree.leaves_with_path(tree):
        if not is_float(leaf):
            continue
        seen = plain(leaf)
        if not np.all(np.isfinite(seen)):
            place = tuple(int(i) for i in np.argwhere(~np.isfinite(seen))[0])
            at = f" {jax.tree_util.keystr(path)}" if path else ""
            at += f" at {place}" if place else ""
            raise AssertionError(
                f"{where} must be finite, but{at} it is {seen[place]}."
                + (f" {remedy}" if remedy else "")
            )


def plain(leaf: Any) -> np.ndarray:
    """Return a leaf as a NumPy array that can be compared; typed keys as their data."""
    if jnp.issubdtype(jnp.result_type(leaf), jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    seen = np.asarray(leaf)
    known = seen.dtype.kind in "biuf"
    return seen if known and seen.dtype != np.float16 else seen.astype(np.float64)


def unfit(argument: str, value: Any, wanted: str) -> InputError:
    """Return the mistake of a wrong argument of a check."""
    return InputError(
        f"must be {wanted}, but it is {one_line(value)}", argument=argument, value=value
    )
